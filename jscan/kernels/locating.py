"""The segment of each position, found from where segments begin.

    bounds     0  3  3  7               segment 1 is empty
    positions  0  1  2  3  4  5  6
    segment    0  0  0  2  2  2  2      the last one that begins at or before the position
    head       1  0  0  1  0  0  0      does it begin here?

A program finds the segments of its tile's first and last position by a 32-ary search, one bound a
lane, and each position's own between these two by bisection. A tile inside one segment does not
bisect; one that holds 1000 heads does so in ten steps, in the level-one cache. Of a tile that is
read strip by strip only the ends are sought among all segments: a strip's are between the one that
the strip before it ended with and the tile's last.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

from jscan.kernels import language, launch, tuning
from jscan.kernels.language import Ref
from jscan.kernels.layout import Geometry
from jscan.kernels.tile import Tile

LENGTH = 512
"""Positions of a tile: the fastest of 128, 256, 512, 1024 and 2048 (H200, 2026-11-22)."""
LANES = 32


class Within(NamedTuple):
    """Segments among which those of a tile's positions are, from ``low`` up to ``high``."""

    low: jax.Array
    high: jax.Array


def located(
    bounds: Ref, first: jax.Array, tile: Tile, count: int, within: Within | None = None
) -> jax.Array:
    """The segment of each position of the tile; ``first`` is where the row's bounds begin.

    They are sought ``within`` some segments, if it is known that they are there.
    """
    start = tile.index * np.int32(tile.geometry.length)
    end = jnp.minimum(start + np.int32(tile.geometry.length), np.int32(tile.geometry.n))
    if within is None:
        low, high = segments_of(bounds, first, [start, end - np.int32(1)], count)
    else:
        low = within.low
        high = _segment_within(bounds, first, end - np.int32(1), within)
    if 1 in (tile.geometry.n, count):
        # Triton 3.6 fails where it finds that the loop below never runs.
        return jnp.zeros(tile.geometry.shape, jnp.int32) + low
    element = tile.element()
    whole = jnp.zeros(tile.geometry.shape, jnp.int32)

    def step(carry: tuple[jax.Array, jax.Array]) -> tuple[jax.Array, jax.Array]:
        found, width = carry
        half = lax.div(width + np.int32(1), np.int32(2))
        middle = jnp.minimum(found + half, high)
        begins = language.load(bounds, [(first, 1), (middle, 1)])
        return jnp.where(begins <= element, middle, found), width - half

    found, _ = lax.while_loop(lambda c: c[1] > 0, step, (whole + low, high - low))
    return found


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
    length = min(LENGTH, tuning.next_power_of_2(n))
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
