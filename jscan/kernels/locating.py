"""The segment of each position, found from where segments begin.

    bounds     0  3  3  7               segment 1 is empty
    positions  0  1  2  3  4  5  6
    segment    0  0  0  2  2  2  2      the last one that begins at or before the position
    head       1  0  0  1  0  0  0      does it begin here?

A program finds the segments of its tile's first and last position by a 32-ary search, one bound a
lane, and each position's own between these two by bisection. A tile inside one segment does not
bisect; one that holds 1000 heads does so in ten steps, in the level-one cache.
"""

from __future__ import annotations

from collections.abc import Sequence

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


def located(bounds: Ref, first: jax.Array, tile: Tile, count: int) -> jax.Array:
    """The segment of each position of the tile; ``first`` is where the row's bounds begin."""
    start = tile.index * np.int32(tile.geometry.length)
    low = segment_of(bounds, first, start, count)
    if 1 in (tile.geometry.n, count):
        # Triton 3.6 fails where it finds that the loop below never runs.
        return jnp.zeros(tile.geometry.shape, jnp.int32) + low
    end = jnp.minimum(start + np.int32(tile.geometry.length), np.int32(tile.geometry.n))
    high = segment_of(bounds, first, end - np.int32(1), count)
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


def segment_of(bounds: Ref, first: jax.Array, position: jax.Array, count: int) -> jax.Array:
    """The last of ``count`` segments that begins at or before ``position``."""
    lane = lax.broadcasted_iota(jnp.int32, (LANES,), 0)
    low, width = jnp.int32(0), count  # what is sought is in [low, low + width)
    while width > 1:
        stride = -(-width // LANES)
        candidate = low + lane * np.int32(stride)
        inside = candidate < np.int32(count)
        begins = language.load(bounds, [(first, 1), (candidate, 1)], mask=inside)
        # Bounds do not decrease, so those at or before the position are the first ones.
        before = inside & (begins <= position)
        low = low + (jnp.sum(before, dtype=jnp.int32) - np.int32(1)) * np.int32(stride)
        width = stride
    return low


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
