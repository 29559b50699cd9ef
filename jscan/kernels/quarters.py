"""Every fourth element of a tile of one dimension, or of another power of two, and its neighbours.

`language.deinterleave` takes a tile apart by places modulo ``by``, so that neighbours are in one
thread. A place here is that of what lies so many elements behind the first of each group.
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


def index(tile: Tile, place: int, by: int = 4) -> jax.Array:
    """The index along the axis."""
    return tile.first_in_memory() + np.int32(place) + _first(tile, by)


def left(tile: Tile, place: int, by: int = 4) -> jax.Array:
    """The number of elements behind; negative where the place lies beyond the axis."""
    g = tile.geometry
    if not g.far:
        return np.int32(g.n - 1) - index(tile, place, by)
    return tile.left() - np.int32(place + 1) - _first(tile, by)


def load(tile: Tile, ref: Ref, view: View, place: int, by: int = 4) -> jax.Array:
    """The operand's elements."""
    assert not tile.geometry.reverse, "behind is to the right"
    assert place >= 0 or not tile.geometry.far, "in front of the axis"
    row_stride, stride, lane_stride = view.strides
    terms = [(tile.row_of(view), row_stride), *tile.start(stride, -place)]
    terms += tile.one_a_lane(lane_stride)
    group = lax.broadcasted_iota(jnp.int32, (tile.geometry.length // by,), 0)
    # In front of the axis, perhaps; behind it only where the whole group is.
    checks = [index(tile, place, by) >= 0] if place < 0 else []
    checks += [] if tile.inside else [left(tile, place, by) >= 0]
    mask = functools.reduce(lax.bitwise_and, checks) if checks else None
    return language.load(ref, [*terms, (group, by * stride)], mask=mask)


def scatter(
    tile: Tile, ref: Ref, extent: int, place: jax.Array, value: jax.Array, *, where: jax.Array
) -> None:
    """Writes one element of each group, like `Tile.scatter`."""
    inner = tile.geometry.inner
    terms = [(tile.row_block, extent * inner), *tile.one_a_lane(int(inner > 1)), (place, inner)]
    language.store(ref, terms, value.astype(ref.dtype), mask=where, scattered=True)


def _first(tile: Tile, by: int) -> jax.Array:
    return lax.broadcasted_iota(jnp.int32, (tile.geometry.length // by,), 0) * np.int32(by)
