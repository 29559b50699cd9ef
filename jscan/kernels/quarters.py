"""Every fourth element of a tile of one dimension, and its neighbours.

`language.deinterleave` takes a tile apart by places modulo four, so that neighbours are in one
thread. A place here is that of what lies so many elements behind every fourth one.
"""

from __future__ import annotations

import functools

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

from jscan.kernels import language
from jscan.kernels.language import Ref
from jscan.kernels.layout import View
from jscan.kernels.tile import Tile


def index(tile: Tile, place: int) -> jax.Array:
    """The index along the axis."""
    return tile.first_in_memory() + np.int32(place) + _every_fourth(tile)


def left(tile: Tile, place: int) -> jax.Array:
    """The number of elements behind; negative where the place lies beyond the axis."""
    g = tile.geometry
    if not g.far:
        return np.int32(g.n - 1) - index(tile, place)
    return tile.left() - np.int32(place + 1) - _every_fourth(tile)


def load(tile: Tile, ref: Ref, view: View, place: int) -> jax.Array:
    """The operand's elements."""
    assert not tile.geometry.reverse, "behind is to the right"
    assert place >= 0 or not tile.geometry.far, "in front of the axis"
    row_stride, stride, lane_stride = view.strides
    terms = [(tile.row_of(view), row_stride), *tile.start(stride, -place)]
    terms += tile.one_a_lane(lane_stride)
    every = lax.broadcasted_iota(jnp.int32, (tile.geometry.length // 4,), 0)
    # In front of the axis, perhaps; behind it only where all of the four are.
    checks = [index(tile, place) >= 0] if place < 0 else []
    checks += [] if tile.inside else [left(tile, place) >= 0]
    mask = functools.reduce(lax.bitwise_and, checks) if checks else None
    return language.load(ref, [*terms, (every, 4 * stride)], mask=mask)


def scatter(
    tile: Tile, ref: Ref, extent: int, place: jax.Array, value: jax.Array, *, where: jax.Array
) -> None:
    """Writes a quarter of the elements, all of which exist, like `Tile.scatter`."""
    inner = tile.geometry.inner
    terms = [(tile.row_block, extent * inner), *tile.one_a_lane(int(inner > 1)), (place, inner)]
    language.store(ref, terms, value.astype(ref.dtype), mask=where, scattered=True)


def _every_fourth(tile: Tile) -> jax.Array:
    return lax.broadcasted_iota(jnp.int32, (tile.geometry.length // 4,), 0) * np.int32(4)
