"""Every so many positions of a tile: what threads hold of one place in their chunks."""

from __future__ import annotations

import dataclasses
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from jscan.kernels.layout import Geometry, View
from jscan.kernels.tile import Tile
from jscan.kernels.words import Address


class Comb(Tile):
    """Every so many positions of a tile, from a place in its memory on.

    Elements of several numbers are accessed together with those at so many places behind, their
    neighbours, the place itself among them; 0 for single places.
    """

    def __init__(self, tile: Tile, by: int, place: int | jax.Array, neighbours: int = 0):
        self.__dict__.update(tile.__dict__)
        self.neighbours = neighbours
        self.geometry = dataclasses.replace(tile.geometry, length=tile.geometry.length // by)
        self._tile, self.step = tile, by
        self._place: Any = np.int32(place) if isinstance(place, int) else place

    def first_in_memory(self) -> jax.Array:
        """The axis index of the first element in memory."""
        return self._tile.first_in_memory() + self._place

    def element(self) -> jax.Array:
        """The index of each element along the axis."""
        return self.first_in_memory() + self._number() * np.int32(self.step)

    def positions(self) -> jax.Array:
        """The place of each element in the tile, in scan order."""
        place = self._number() * np.int32(self.step) + self._place
        last = np.int32(self._tile.geometry.length - 1)
        return last - place if self.geometry.reverse else place

    def _number(self) -> jax.Array:
        """The number of each element in the order of memory."""
        g, place = self.geometry, self._iota(self.geometry.axis)
        return np.int32(g.length - 1) - place if g.mirrored else place

    def cut(self, geometry: Geometry) -> Tile:
        """The same positions, with other lanes."""
        other = super().cut(geometry)
        other.may_end = self.may_end
        return other

    def terms(self, view: View, shift: int) -> Address:
        """The address, which differs from that of other combs by a constant alone."""
        _, stride, lane_stride = view.strides
        terms = [*self._tile.start(stride, shift), (self._number(), stride * self.step)]
        terms += self.row_terms(view, lambda: self._iota(0))
        lane = self._iota(len(self.geometry.shape) - 1)
        terms += self.lane_terms(lane_stride, lane, view.lane_period)
        return [*terms, (jnp.asarray(self._place), stride)]
