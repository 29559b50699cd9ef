"""Tiles of few lanes, read and written as they lie: a thread has all lanes of some neighbours.

    memory    a0 b0 c0 a1 │ b1 c1 a2 b2 │ c2 a3 b3 c3 │ ...     a thread's words, of four float32
    apart     a0, b0, c0, a1, b1, ... c3                        registers, by places in the words
    woven     a0 b0 c0 – │ a1 b1 c1 – │ a2 ...                  a tile of four lanes, one empty

A lane at a time a thread would read single elements, of which a warp's lie in as many sectors of
memory as it has threads. What is taken apart and woven stays in a thread's registers: nothing
moves, and what becomes of empty lanes nobody computes.

Elements beside (of exclusive scans, flags of reversed ones) are those of neighbouring positions,
which the thread has but for one or two at an end.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

from jscan import extent
from jscan.kernels import elements, language, memory, sliding
from jscan.kernels.comb import Comb
from jscan.kernels.language import Ref
from jscan.kernels.layout import WORD, View, fronted
from jscan.kernels.registers import take
from jscan.kernels.tile import Tile
from jscan.kernels.tuning import Shape, Tuning


def may_weave(tuned: Tuning, shape: Shape, *, reverse: bool, may_lead: bool) -> bool:
    """Whether tiles of this cut can be woven, in front of whose rows there may be places or not.

    All lanes are in a tile, which begins with a word in every row, and places of numbers fit 32
    bits.
    """
    combs = tuned.strip_or_tile // max(tuned.woven, 1)
    alone = tuned.rows == 1 and not tuned.chunk and combs % WORD == 0
    begins = shape.outer == 1 or shape.n % WORD == 0
    fits = tuned.lanes >= shape.inner > 1 and shape.n * shape.inner <= extent.FAR // 2
    return alone and begins and fits and (may_lead or not fronted(shape.n, reverse=reverse))


def load(tile: Tile, ref: Ref, view: View, shift: int) -> list[jax.Array]:
    """`Tile.load_parts`, by words of all lanes."""
    g, parts = tile.geometry, memory.parts(ref.dtype)
    first, count = _comb(tile, 0, together=True), g.woven
    as_elements = dataclasses.replace(view, shape=(*view.shape[:2], 1), numbers=view.shape[2])
    here = elements.load_apart(first, ref, as_elements)
    step = shift if g.reverse else -shift
    found = [
        here[place + step]
        if 0 <= place + step < count
        else _singly(_comb(tile, place), ref, as_elements, shift)
        for place in range(count)
    ]
    found = found[::-1] if g.mirrored else found
    if as_elements.numbers == 1:
        columns = [language.interleave([x[part] for x in found]) for part in range(parts)]
        return [jnp.broadcast_to(x[:, None], g.shape) for x in columns]
    empty = [jnp.zeros_like(found[0][0])] * (g.lanes - g.inner)
    return [
        language.interleave([x for each in found for x in (*each[part::parts], *empty)]).reshape(
            g.shape
        )
        for part in range(parts)
    ]


def store(tile: Tile, ref: Ref, parts: Sequence[jax.Array]) -> None:
    """Writes the parts of a tile of a result, as `load` reads them."""
    g = tile.geometry
    flat = [jnp.broadcast_to(x, g.shape).reshape(-1) for x in parts]
    apart = [language.deinterleave(x, g.woven * g.lanes) for x in flat]
    each = [
        [x[place * g.lanes + lane] for lane in range(g.inner) for x in apart]
        for place in range(g.woven)
    ]
    elements.store_apart(
        _comb(tile, 0, together=True), ref, g.inner, each[::-1] if g.mirrored else each
    )


def along(tile: Tile, each: jax.Array) -> jax.Array:
    """`Tile.along_positions`, at all of them where the tile is woven.

    There a value of each lane is spread one by one: as a row it would bring its own layout, to
    which all that it meets would be moved.
    """
    g = tile.geometry
    if g.per_word > 1 and each.ndim:
        return sliding.along(tile, each)
    if not g.woven:
        return tile.along_positions(each)
    lane = lax.broadcasted_iota(jnp.int32, (g.lanes,), 0)
    scalars = [take(each, lane == np.int32(number), 0) for number in range(g.inner)]
    lanes = [jnp.broadcast_to(x, (g.length,)) for x in scalars]
    lanes += [jnp.zeros_like(lanes[0])] * (g.lanes - g.inner)
    return language.interleave(lanes).reshape(g.shape)


def _comb(tile: Tile, place: int, *, together: bool = False) -> Comb:
    """A position of every thread, as an element of as many numbers as there are lanes.

    It is accessed by itself, or ``together`` with the thread's others.
    """
    g = dataclasses.replace(tile.geometry, lanes=1, inner=1, together=1, woven=0)
    one = tile.cut(g)
    one.lane_block = jnp.int32(0)
    count = tile.geometry.woven
    return Comb(one, count, place, count if together else 0)


def _singly(comb: Comb, ref: Ref, view: View, shift: int) -> list[jax.Array]:
    """The numbers of the elements ``shift`` positions to the left, by an access for each."""
    terms, mask = comb.terms(view, shift), comb.mask(shift)
    each = [[*terms, (jnp.int32(j), 1)] for j in range(view.numbers)]
    return [part for at in each for part in language.load_parts(ref, at, mask=mask)]
