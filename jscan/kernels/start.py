"""The start of a scan inside its kernels: it joins the first element as that is read.

    tile 0    x[0]  x[1]  x[2] ...           as it lies in memory
              s ⊕ x[0]  x[1]  x[2] ...       inclusive: as it is scanned
              s  x[0]  x[1] ...              exclusive: as it is scanned, instead of the identity

So the rest of a kernel needs to know nothing of it, whatever the strategy. A program that has the
first tile reads the start, and the first element once more: one each for every row and lane.
"""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Sequence

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

from jscan import starts
from jscan.kernels import language, launch
from jscan.kernels.language import Ref
from jscan.kernels.layout import View
from jscan.kernels.tile import Tile
from jscan.kernels.words import Address


@dataclasses.dataclass(frozen=True)
class Start:
    """Where a scan's start lies: in its kernels' last inputs, which are not cut into tiles."""

    views: tuple[View, ...]  # of the values
    open: View | None

    @property
    def inputs(self) -> int:
        """The number of inputs."""
        return len(self.views) + (self.open is not None)

    def values(self, tile: Tile, inputs: Sequence[Ref]) -> list[jax.Array]:
        """The values for each row and lane; undefined in all but the first tile."""
        read = zip(inputs, self.views, strict=False)
        return [part for x, view in read for part in load_first(tile, x, view)]

    def is_open(self, tile: Tile, inputs: Sequence[Ref]) -> jax.Array | None:
        """Whether the start reaches any element; None where it does everywhere."""
        if self.open is None:
            return None
        [is_open] = load_first(tile, inputs[-1], self.open)
        return is_open != 0


def placed(
    start: starts.Start, full: Sequence[int], axis: int, numbers: Sequence[int] = ()
) -> tuple[list[jax.Array], Start]:
    """A start as inputs of kernels, and how they lie in memory.

    Its arrays may hold so many ``numbers`` of an element, as their last dimension.
    """
    one = [1 if d == axis else size for d, size in enumerate(full)]
    values = launch.readable(start.values)
    each = zip(values, numbers or [1] * len(values), strict=True)
    flat, views = zip(*(launch.view(x, one, axis, count) for x, count in each), strict=True)
    if start.open is None:
        return list(flat), Start(views, None)
    is_open, view = launch.view(launch.one_byte(start.open), one, axis)
    return [*flat, is_open], Start(views, view)


def load_first(tile: Tile, ref: Ref, view: View) -> list[jax.Array]:
    """The parts of an operand's first element in scan order, for each of the tile's rows and lanes.

    They are undefined where there is none, and in all but the first tile.
    """
    g = tile.geometry
    _, stride, lane_stride = view.strides
    iota = functools.partial(lax.broadcasted_iota, jnp.int32, g.edge)
    lane = iota(len(g.edge) - 1) if g.lanes > 1 else jnp.int32(0)
    checks = [tile.index == 0]
    terms: Address = [(jnp.int32(1), (view.shape[1] - 1) * stride if g.reverse else 0)]
    if g.edge:
        terms.append((jnp.zeros(g.edge, jnp.int32), 1))  # spreads the others
    terms += tile.row_terms(view, lambda: iota(0))
    terms += tile.lane_terms(lane_stride, lane, view.lane_period)
    if g.rows > 1:
        checks.append(tile.rows_exist(iota(0)))
    if g.lanes > 1:
        checks.append(tile.lanes_exist(lane))
    mask = functools.reduce(jnp.logical_and, [jnp.broadcast_to(c, g.edge) for c in checks])
    places = [[*terms, (jnp.int32(j), 1)] if j else terms for j in range(view.numbers)]
    return [part for place in places for part in language.load_parts(ref, place, mask=mask)]


def among_first(tile: Tile, count: int) -> jax.Array:
    """Whether each element is among the first ``count`` of its axis in scan order.

    Places in the tile are known when a kernel is compiled, so that the answer is known for almost
    all of a thread's elements: with `Tile.before_start` segmented exclusive sums spill registers.
    """
    return (tile.index == 0) & (tile.positions() < np.int32(count))


def is_first(tile: Tile) -> jax.Array:
    """Whether each element is the first of its axis, in front of which a tile may have places."""
    g = tile.geometry
    if not g.leads:
        return among_first(tile, 1)
    if g.from_front:
        return (tile.index == 0) & (tile.element() == np.int32(g.n - 1))
    return among_first(tile, g.word) & (tile.positions() == tile.first_place())
