"""Marked elements sent where they belong, in tiles in which few are marked.

    marks      0 0 0 1 0 0 0 0 │ 0 0 0 0 0 0 0 0 │ 0 1 0 0 0 0 1 0     neighbours of a thread
    bits           0b1000      │        0        │    0b01000010
    before            5        │        6        │         6          marked elements before these

    first turn     3 ► 5       │                 │     17 ► 6          the lowest bit of each group
    second turn                │                 │     22 ► 7

Sent one position after another, each position costs a place, an address and a store, marked or not.
Here a tile takes as many turns as the group with the most marks has, of bits that it has held since
it counted them. What fills, in place of unmarked elements, goes to
neighbouring places, from the last one of the tile up to the first.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

from jscan.kernels import language
from jscan.kernels.language import Ref
from jscan.kernels.operator import trace_scalars
from jscan.kernels.tile import Tile

COUNT = np.dtype(np.int32)
MOST_GROUPS = 512
"""The groups of neighbours of a warp, whose bits are held in 16 registers of a thread."""


def neighbours(dtype: np.dtype) -> int:
    """How many marks of this dtype are a group: as many as an access has, and four at least."""
    return max(4, 16 // dtype.itemsize)


def suits_rows(outer: int, n: int, inner: int, *, own: bool, by: int) -> bool:
    """Whether rows are alone, and each begins with a group of marks that are its ``own``."""
    return own and inner == 1 and (outer == 1 or n % by == 0)


def bits_of(marks: Sequence[jax.Array], apart: int = 1) -> jax.Array:
    """The marks of each place of groups, a bit each, or so many; the first are the lowest."""
    found = marks[0].astype(COUNT)
    for place, mark in enumerate(marks[1:], 1):
        found = found | (mark.astype(COUNT) << np.int32(place * apart))
    return found


def bits_of_bytes(tile: Tile, ref: Ref, *, ends: bool) -> jax.Array:
    """Which bytes are not zero, of 16 neighbours each, of a tile of a row that begins with words.

    Where it ``ends``, it is the last one of its row.
    """
    g, word = tile.geometry, lax.broadcasted_iota(COUNT, (tile.geometry.length // 4,), 0)
    first = tile.index * np.int32(g.length // 4)
    exist = first + word < np.int32(g.n // 4) if ends else None
    at = [(tile.row_block, g.n // 4), (first, 1), (word, 1)]
    words = language.load_seen(ref, at, 32, mask=exist)
    if exist is not None:
        words = jnp.where(exist, words, jnp.zeros_like(words))
    low = np.int32(0x7F7F7F7F)
    # Numbers of seven bits that are not zero carry into the eighth.
    found = (((words & low) + low) | words) & ~low
    # A bit of each byte, moved to the highest byte, one beside another.
    each = lax.shift_right_logical(found, jnp.full_like(found, 7)) * np.int32(0x01020408)
    fours = language.deinterleave(lax.shift_right_logical(each, jnp.full_like(each, 24)), 4)
    bits = bits_of(fours, apart=4)
    return bits | _of_part_of_word(tile, ref) if ends and g.n % 4 else bits


def _of_part_of_word(tile: Tile, ref: Ref) -> jax.Array:
    """The bits of the bytes behind the only row's last whole word."""
    g, whole = tile.geometry, tile.geometry.n // 4 * 4
    marks = [language.load(ref, [(jnp.int32(whole), 1), (jnp.int32(k), 1)]) for k in range(g.n % 4)]
    group, bit = divmod(whole % g.length, 16)
    groups = lax.broadcasted_iota(COUNT, (g.length // 16,), 0)
    here = bits_of([x != 0 for x in marks]) << np.int32(bit)
    return jnp.where(groups == np.int32(group), here, jnp.zeros_like(here))


def count(bits: jax.Array) -> jax.Array:
    """How many bits are set."""
    add = trace_scalars(lax.add, [COUNT] * 2)
    return language.tile_reduce(add, lax.population_count(bits), 0)


def send(
    bits: jax.Array,
    before: jax.Array,
    by: int,
    size: int,
    fetch: Callable[[jax.Array, jax.Array], Any],
    put: Callable[[jax.Array, jax.Array, Any], None],
) -> None:
    """Sends the marked elements of a tile, behind those ``before``, to the first ``size`` places.

    ``bits`` are of groups of ``by`` neighbours. ``fetch`` takes how far elements are behind the
    tile's first, and ``put`` their places; both take which of these are wanted.
    """
    add, most = (trace_scalars(f, [COUNT] * 2) for f in (lax.add, lax.max))
    counts = lax.population_count(bits)
    [until] = language.tile_scan(add, [counts], 0, reverse=False)
    first = lax.broadcasted_iota(COUNT, bits.shape, 0) * np.int32(by)

    def turn(state: tuple[jax.Array, jax.Array]) -> tuple[jax.Array, jax.Array]:
        left, place = state
        others = left & (left - np.int32(1))
        offset = first + lax.population_count(left - others - np.int32(1))
        where = (left != 0) & (place < np.int32(size))
        put(place, where, fetch(offset, where))
        return others, place + np.int32(1)

    def goes_on(state: tuple[jax.Array, jax.Array]) -> jax.Array:
        return language.tile_reduce(most, state[0], 0) > 0

    lax.while_loop(goes_on, turn, (bits, before + until - counts))


def fill(
    begin: jax.Array, end: jax.Array, by: int, write: Callable[[jax.Array, jax.Array], None]
) -> None:
    """Writes what fills the places from ``begin`` to ``end``, ``by`` places at once."""

    def step(first: jax.Array) -> jax.Array:
        place = first + lax.broadcasted_iota(COUNT, (by,), 0)
        write(place, place < end)
        return first + np.int32(by)

    lax.while_loop(lambda first: first < end, step, begin)
