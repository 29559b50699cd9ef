"""Elements of several numbers, read and written as they lie side by side in memory.

A thread has four neighbouring elements of a tile of float32. Of three numbers each they are three
words of 16 bytes:

    memory          a0 b0 c0 a1 │ b1 c1 a2 b2 │ c2 a3 b3 c3 │ ...     the thread's: an access each
    deinterleave    a0 . . . b0 . . . c0 . . . a1 . . . b1 ...        by places modulo four
    interleave      a0 a1 a2 a3 . . .    b0 b1 b2 b3 . . .    ...     leaves, a register tile each

Of other dtypes as many elements are neighbours as numbers fit 16 bytes, unless a tile has fewer for
each thread. All of this happens within threads: a compiler sees which register holds what, and
nothing moves. A word lies apart from the same one of the next thread, which costs little where it
is read, since what is beside it is then in a cache. Written so, it would be half of a sector at a
time: several words of a thread are written at once instead, through memory that threads share.

What all places have in common is read number by number.
"""

from __future__ import annotations

import functools
from collections.abc import Sequence
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

from jscan.kernels import language, memory
from jscan.kernels.language import Ref
from jscan.kernels.layout import Geometry, View
from jscan.kernels.tile import Tile
from jscan.kernels.words import Address

WRITTEN = 4
"""The most words of a thread that are written at once. Scans of rows in chunks of a thread's own,
H100, 2026-11-25, four words and one: 2^26 float32 sums 242 µs and 366, 2^25 complex64 ones 464 and
747. Elements of several numbers were not measured so."""


class Words(NamedTuple):
    """How a thread's elements are accessed.

    Attributes:
      elements: the neighbouring elements of a thread that are taken together.
      width: how many numbers each access takes of them.
    """

    elements: int
    width: int

    @classmethod
    def of(cls, dtype: np.dtype, numbers: int, tile: Tile) -> Words:
        """Those of elements of so many numbers."""
        g, most = tile.geometry, max(1, 16 // dtype.itemsize)
        elements = max(1, min(most, g.length, g.rows * g.length // g.threads))
        elements = tile.neighbours or elements
        width = min(elements, most)
        while 2 * width <= most and elements * numbers % (2 * width) == 0:
            width *= 2
        return cls(elements, width)

    def count(self, numbers: int) -> int:
        """How many words a thread's elements are."""
        return self.elements * numbers // self.width

    def addressed(
        self, tile: Tile, view: View, first: int, words: int = 1
    ) -> tuple[Address, jax.Array | None]:
        """The address and the mask of so many words of each group, from the ``first`` on."""
        g, numbers, elements, width = tile.geometry, view.numbers, self.elements, words * self.width
        groups = g.length if tile.neighbours else g.length // elements
        shape = (*g.shape[:-1], groups * width)
        iota = functools.partial(lax.broadcasted_iota, jnp.int32, shape)
        place = iota(g.axis)
        group, within = lax.div(place, np.int32(width)), lax.rem(place, np.int32(width))
        group = np.int32(groups - 1) - group if g.mirrored else group
        apart = numbers * (tile.step if tile.neighbours else elements)
        terms = [*tile.start(view.strides[1], view.behind), (group, apart), (within, 1)]
        terms += tile.row_terms(view, lambda: iota(0))
        checks = []
        ends = tile.may_end and not tile.inside
        if ends or view.behind:
            begin = tile.first_in_memory() + np.int32(view.behind if g.reverse else -view.behind)
            number = begin * np.int32(numbers) + np.int32(first * self.width)
            number += group * np.int32(apart) + within
            from_behind = g.reverse and not g.from_front
            checks += [number >= 0] if view.behind or from_behind else []
            checks += [number < np.int32(g.n * numbers)] if view.behind or not from_behind else []
        if g.outer % g.rows:
            checks.append(tile.rows_exist(iota(0)))
        mask = functools.reduce(lax.bitwise_and, checks) if checks else None
        return [*terms, (jnp.int32(first), self.width)], mask


def why_not(g: Geometry, dtype: np.dtype, numbers: int) -> str | None:
    """Why a tile cannot be read or written along words; None if it can."""
    if g.inner > 1 or g.word > 1 or g.row or g.exclusive:
        return "it is no tile of whole elements along the axis"
    if g.outer * g.n * numbers >= 2**31 - g.length * numbers:
        return "places of its numbers do not fit 32 bits"
    begins_anywhere = g.outer > 1 or g.reverse
    if begins_anywhere and g.n * numbers * dtype.itemsize % 16:
        return "its rows begin inside of words"
    return None


def load(tile: Tile, ref: Ref, view: View) -> list[jax.Array]:
    """The leaves of the tile: of each number its parts; undefined where there is no element."""
    if not view.strides[1]:
        return load_common(tile, ref, view)
    return [language.interleave(leaf) for leaf in zip(*load_apart(tile, ref, view), strict=True)]


def load_apart(tile: Tile, ref: Ref, view: View) -> list[list[jax.Array]]:
    """The same of each neighbour that a thread has, in the order of memory."""
    if not view.strides[1]:
        return [load_common(tile, ref, view)] * tile.neighbours
    numbers, parts = view.numbers, range(memory.parts(ref.dtype))
    words = Words.of(ref.dtype, numbers, tile)
    read = []
    for m in range(words.count(numbers)):
        at, mask = words.addressed(tile, view, m)
        word = language.load_parts(ref, at, mask=mask)
        read.append([language.deinterleave(part, words.width) for part in word])
    found = []
    for e in range(words.elements):
        places = [divmod(numbers * e + j, words.width) for j in range(numbers)]
        found.append([read[m][part][w] for m, w in places for part in parts])
    return found


def load_common(tile: Tile, ref: Ref, view: View) -> list[jax.Array]:
    """The same of an operand that has one element for all positions."""
    g = tile.geometry
    if view.shape == (1, 1, 1) and view.numbers == 1:
        one = language.load_parts(ref, [(jnp.int32(0), 1)])
        return [jnp.broadcast_to(x, g.shape) for x in one]
    row = lax.broadcasted_iota(jnp.int32, g.edge, 0) if g.edge else jnp.int32(0)
    terms = [*tile.row_terms(view, lambda: row), (jnp.zeros_like(row), 1)]
    mask = tile.rows_exist(row) if g.outer % g.rows else None
    if g.lanes > 1:
        lane = lax.broadcasted_iota(jnp.int32, g.edge, len(g.edge) - 1)
        terms += tile.lane_terms(view.strides[2], lane, view.lane_period)
        if g.lanes_end:
            exist = tile.lanes_exist(lane)
            mask = exist if mask is None else mask & exist
    elif view.strides[2]:
        terms += tile.lane_terms(view.strides[2], row, view.lane_period)
    read = [
        part
        for j in range(view.numbers)
        for part in language.load_parts(ref, [*terms, (jnp.int32(j), 1)], mask=mask)
    ]
    return [jnp.broadcast_to(tile.along_positions(x), g.shape) for x in read]


def store(tile: Tile, ref: Ref, numbers: int, leaves: Sequence[jax.Array]) -> None:
    """Writes the leaves of the tile to a result of the scan's full shape, as `load` reads them."""
    elements = Words.of(ref.dtype, numbers, tile).elements
    each = zip(*(language.deinterleave(x, elements) for x in leaves), strict=True)
    store_apart(tile, ref, numbers, [*each])


def store_apart(
    tile: Tile, ref: Ref, numbers: int, neighbours: Sequence[Sequence[jax.Array]]
) -> None:
    """Writes leaves of each neighbour that a thread has, in the order of memory."""
    g, parts = tile.geometry, memory.parts(ref.dtype)
    view = View((g.outer, g.n, 1), (1, g.outer), numbers)
    words = Words.of(ref.dtype, numbers, tile)
    apart = [
        leaves if parts == 2 else [x.astype(ref.dtype) for x in leaves] for leaves in neighbours
    ]
    first, count = 0, words.count(numbers)
    while first < count:
        several = min(WRITTEN, 1 << ((count - first).bit_length() - 1))
        at, mask = words.addressed(tile, view, first, several)
        within = range(first * words.width, (first + several) * words.width)
        places = [divmod(number, numbers) for number in within]
        found = [
            language.interleave([apart[e][j * parts + part] for e, j in places])
            for part in range(parts)
        ]
        language.store(ref, at, found, mask=mask)
        first += several
