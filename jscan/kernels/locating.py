"""The segment of each position, found from where segments begin.

    bounds     0  3  3  7               segment 1 is empty
    positions  0  1  2  3  4  5  6
    segment    0  0  0  2  2  2  2      the last one that begins at or before the position
    head       1  0  0  1  0  0  0      does it begin here?

A program finds the segments of its tile's first and last position by a 32-ary search, one bound a
lane. Where they are a few, each position's own is found between these two by bisection, in the
level-one cache; a tile inside one segment does not bisect. Where they are more, their beginnings
are counted by position, a chunk of bounds at a time, and the counts added up along the tile, so
that each bound is read once.

    heads      0  0  0  2  0  0  0      how many of those behind the lowest begin here
    added up   0  0  0  2  2  2  2

Of a tile that is read strip by strip only the ends are sought among all segments: a strip's are
between the one that the strip before it ended with and the tile's last.
"""

from __future__ import annotations

import functools
from collections.abc import Sequence
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

from jscan.kernels import language, launch, tuning
from jscan.kernels.language import Ref
from jscan.kernels.layout import Geometry
from jscan.kernels.operator import trace_scalars
from jscan.kernels.tile import Tile

LENGTH = 1024
"""Positions of a tile. Of 2^26 in runs of 16, 152 µs, 200 with 512 (H100, 2026-11-27)."""

SPARSE_LENGTH = 512
"""The same where no bound is counted. Of 2^27 in runs of 128, 200 µs, 234 with 1024 (H200,
2026-11-22 and 28)."""
LANES = 32

CHUNK = 128
"""The fewest bounds that are counted at once. Of tiles of 1024 positions 256 are: 2^26 in runs of
four, 180 µs, 197 by 128, 236 by 64 (H100, 2026-11-27)."""

FEW = 3
"""So many segments behind the lowest are bisected: in two steps."""

MANY = 4
"""So many segments for each position are bisected, since most of them are empty."""

SPARSE = 128
"""Where there are so many positions for a bound, none is counted, which takes registers. Sums of
2^26 in runs of 16 by offsets 221 µs, 264 by bisection, of 64 190 and 198, but of 1024 133 and 124;
products of a matrix, which gather, 913 and 684, with every other row empty 1809 and 963 (H100,
2026-11-27)."""


class Within(NamedTuple):
    """Segments among which those of a tile's positions are, from ``low`` up to ``high``."""

    low: jax.Array
    high: jax.Array


def located(
    bounds: Ref,
    first: jax.Array,
    tile: Tile,
    count: int,
    within: Within | None = None,
    *,
    counts: bool = True,
) -> jax.Array:
    """The segment of each position of the tile; ``first`` is where the row's bounds begin.

    They are sought ``within`` some segments, if it is known that they are there, and counted where
    that is faster if it ``counts``.
    """
    g = tile.geometry
    start = tile.index * np.int32(g.length)
    end = jnp.minimum(start + np.int32(g.length), np.int32(g.n))
    if within is None:
        within = Within(*segments_of(bounds, first, [start, end - np.int32(1)], count))
    else:
        high = _segment_within(bounds, first, end - np.int32(1), within)
        within = Within(within.low, high)
    if 1 in (g.n, count):
        # Triton 3.6 fails where it finds that the loop below never runs. Nothing is before the only
        # position, whose segment is the last one within.
        return jnp.zeros(g.shape, jnp.int32) + within.high
    sought = functools.partial(_sought, bounds, first, tile, within)
    if not counts or len(g.shape) > 1 or g.length < CHUNK or are_sparse(count, g.n):
        return sought()
    width = within.high - within.low
    are_counted = (width > FEW) & (width <= np.int32(MANY * g.length))
    counted = functools.partial(_counted, bounds, first, tile, within)
    return lax.cond(are_counted, counted, sought)


def are_sparse(count: int, n: int) -> bool:
    """Whether there are so few bounds for ``n`` positions that none is counted.

    What lies behind the last bound is a segment of its own, of no position as a rule.
    """
    return (count - 1) * SPARSE <= n


def _sought(bounds: Ref, first: jax.Array, tile: Tile, within: Within) -> jax.Array:
    """The segment of each position, by bisection."""
    element = tile.element()
    whole = jnp.zeros(tile.geometry.shape, jnp.int32)

    def step(carry: tuple[jax.Array, jax.Array]) -> tuple[jax.Array, jax.Array]:
        found, width = carry
        half = lax.div(width + np.int32(1), np.int32(2))
        middle = jnp.minimum(found + half, within.high)
        begins = language.load(bounds, [(first, 1), (middle, 1)])
        return jnp.where(begins <= element, middle, found), width - half

    begin = whole + within.low, within.high - within.low
    return lax.while_loop(lambda c: c[1] > 0, step, begin)[0]


def _counted(bounds: Ref, first: jax.Array, tile: Tile, within: Within) -> jax.Array:
    """The same, by how many segments begin at each position or before it."""
    g = tile.geometry
    start = tile.index * np.int32(g.length)
    end = jnp.minimum(start + np.int32(g.length), np.int32(g.n))
    chunk = max(CHUNK, g.length // 4)
    lane = lax.broadcasted_iota(jnp.int32, (chunk,), 0)

    def step(carry: tuple[jax.Array, jax.Array]) -> tuple[jax.Array, jax.Array]:
        heads, behind = carry
        place = behind + lane
        exists = place <= within.high
        begins = language.load(bounds, [(first, 1), (place, 1)], mask=exists)
        inside = exists & (begins < end)  # all of them are, if bounds do not fall
        # What begins before the tile is at its first position.
        number = jnp.maximum(begins - start, np.int32(0))
        heads += language.tile_histogram(number, inside, g.length)
        return heads, behind + np.int32(chunk)

    begin = jnp.zeros(g.shape, jnp.int32), within.low + np.int32(1)
    heads, _ = lax.while_loop(lambda c: c[1] <= within.high, step, begin)
    adding = trace_scalars(lax.add, [heads.dtype] * 2)
    [segments] = language.tile_scan(adding, [heads], 0, reverse=False)
    return segments + within.low


def begins(bounds: Ref, first: jax.Array, segment: jax.Array) -> jax.Array:
    """Where each ``segment`` begins; ``first`` is where the row's bounds begin."""
    return language.load(bounds, [(first, 1), (segment, 1)])


def segments_of(
    bounds: Ref, first: jax.Array, positions: Sequence[jax.Array], count: int
) -> list[jax.Array]:
    """The last of ``count`` segments that begins at or before each of the ``positions``.

    They are sought side by side: a step waits for memory once.
    """
    lane = lax.broadcasted_iota(jnp.int32, (LANES,), 0)
    lows, width = (
        [jnp.int32(0) for _ in positions],
        count,
    )  # what is sought is in [low, low + width)
    while width > 1:
        stride = -(-width // LANES)
        places = [low + lane * np.int32(stride) for low in lows]
        inside = [place < np.int32(count) for place in places]
        found = [
            language.load(bounds, [(first, 1), (place, 1)], mask=mask)
            for place, mask in zip(places, inside, strict=True)
        ]
        lows = [
            low + _last_before(begins, position, mask) * np.int32(stride)
            for low, begins, position, mask in zip(lows, found, positions, inside, strict=True)
        ]
        width = stride
    return lows


def _segment_within(
    bounds: Ref, first: jax.Array, position: jax.Array, within: Within
) -> jax.Array:
    """The last segment ``within`` some that begins at or before the position: the lowest does."""
    lane = lax.broadcasted_iota(jnp.int32, (LANES,), 0)

    def step(carry: tuple[jax.Array, jax.Array]) -> tuple[jax.Array, jax.Array]:
        low, width = carry
        stride = lax.div(width + np.int32(LANES - 1), np.int32(LANES))
        place = low + lane * stride
        inside = place <= within.high
        begins = language.load(bounds, [(first, 1), (place, 1)], mask=inside)
        return low + _last_before(begins, position, inside) * stride, stride

    begin = within.low, within.high - within.low + np.int32(1)
    return lax.while_loop(lambda c: c[1] > 1, step, begin)[0]


def _last_before(begins: jax.Array, position: jax.Array, inside: jax.Array) -> jax.Array:
    """The number of the last bound at or before a position: those do not decrease."""
    return jnp.sum(inside & (begins <= position), dtype=jnp.int32) - np.int32(1)


def ids(bounds: jax.Array, *, n: int, interpret: bool = False) -> jax.Array:
    """The segments (int32) of ``n`` positions for each row.

    ``bounds`` is (..., count), int32: it begins with 0, does not decrease and ends at or before
    ``n``; what lies behind its last entry belongs to a segment of its own.
    """
    count = bounds.shape[-1]
    rows = bounds.size // count
    length = SPARSE_LENGTH if are_sparse(count, n) else LENGTH
    length = min(length, tuning.next_power_of_2(n))
    geometry = Geometry(rows, n, 1, 1, length, 1, False, False)

    def kernel(program: jax.Array, refs: Sequence[Ref]) -> None:
        given, result = refs
        tile = Tile(geometry, program)
        tile.store(result, located(given, tile.row_block * np.int32(count), tile, count))

    [result] = launch.call(
        *(kernel, [bounds.reshape(-1)], [(rows * n, np.dtype(np.int32))]),
        programs=geometry.programs,
        warps=1,
        name="jscan_locate",
        interpret=interpret,
    )
    return result.reshape(*bounds.shape[:-1], n)
