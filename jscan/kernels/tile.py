"""Tiles: how a scan of any array is cut for programs, and how a program reaches its elements.

Every operand is seen as (outer, n, inner), the scanned axis in the middle; a size-1 dimension of an
operand is broadcast and read in place. A tile has up to three dimensions, of which those of size 1
are dropped:

                 length (positions along the scan)          lanes (inner, contiguous in memory)
        rows  ┌───────────────────────────────┐
      (outer) │ p = 0  1  2  ...              │   × lanes
              └───────────────────────────────┘

Positions count in scan order: position p is element p of the axis, or element n-1-p when the scan
is reversed. Memory order is kept inside a tile; only the tile's place in memory and the direction
of ``tt.scan`` change.
"""

from __future__ import annotations

import copy
import dataclasses
from collections.abc import Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

from jscan.kernels import primitives
from jscan.kernels.registers import take
from jscan.kernels.view import View


@dataclasses.dataclass(frozen=True)
class Geometry:
    """The cut of (outer, n, inner) into tiles of (rows, length, lanes)."""

    outer: int
    n: int
    inner: int
    rows: int
    length: int
    lanes: int
    reverse: bool
    exclusive: bool
    mixed: bool = False  # operands of one byte an element stand beside wider ones

    @property
    def tiles(self) -> int:
        """Tiles along the axis."""
        return -(-self.n // self.length)

    @property
    def row_blocks(self) -> int:
        """Tiles across the rows."""
        return -(-self.outer // self.rows)

    @property
    def lane_blocks(self) -> int:
        """Tiles across the lanes."""
        return -(-self.inner // self.lanes)

    @property
    def programs(self) -> int:
        """All tiles."""
        return self.tiles * self.row_blocks * self.lane_blocks

    @property
    def shape(self) -> tuple[int, ...]:
        """The register tile's shape; a tile of one row or lane has no dimension for it."""
        rows = (self.rows,) if self.rows > 1 else ()
        lanes = (self.lanes,) if self.lanes > 1 else ()
        return (*rows, self.length, *lanes)

    @property
    def axis(self) -> int:
        """The register tile's scanned dimension."""
        return 1 if self.rows > 1 else 0

    @property
    def shift(self) -> int:
        """Exclusive scans read one position to the left, in scan order."""
        return 1 if self.exclusive else 0


VECTOR = 8
"""The most elements that a thread takes from memory at once, where operands differ in width. A tile
has one register layout, which its widest access decides: 16 one-byte elements a thread would spread
the same thread's words over 64 bytes. Segmented sum, 2^27, uint8 flags: 0.97 of copy speed with 8,
0.86 with 16, 0.73 with 4 (H200, 2026-11-20)."""


class Tile:
    """One program's tile: made inside a kernel from the program's number."""

    def __init__(self, geometry: Geometry, program: jax.Array):
        g = self.geometry = geometry
        # Tiles are numbered slowest, so that a tile's predecessors in its row have lower program
        # numbers and, where there are many rows, ran long before.
        self.lane_block = lax.rem(program, np.int32(g.lane_blocks))
        rest = lax.div(program, np.int32(g.lane_blocks))
        self.row_block = lax.rem(rest, np.int32(g.row_blocks))
        self.index = lax.div(rest, np.int32(g.row_blocks))
        self.inside = False

    def _iota(self, dimension: int) -> jax.Array:
        return lax.broadcasted_iota(jnp.int32, self.geometry.shape, dimension)

    def _first_in_memory(self) -> jax.Array:
        """The axis index of the tile's first element in memory; may be negative where reversed."""
        g = self.geometry
        start = self.index * np.int32(g.length)
        return np.int32(g.n - g.length) - start if g.reverse else start

    def _terms(self, view: View, shift: int) -> list[tuple[Any, int]]:
        g = self.geometry
        row_stride, stride, lane_stride = view.strides
        step = shift if g.reverse else -shift
        terms: list[tuple[Any, int]] = [
            (self._first_in_memory() + np.int32(step), stride),
            (self._iota(g.axis), stride),
        ]
        repeat, count = view.row_period
        if count > 1:
            row = self.row_block * np.int32(g.rows)
            if g.rows > 1:
                within = self._iota(0)
                if repeat == 1 and count == g.outer:
                    terms += [(row, row_stride), (within, row_stride)]
                else:
                    row = lax.rem(lax.div(row + within, np.int32(repeat)), np.int32(count))
                    terms.append((row, row_stride))
            else:
                row = lax.rem(lax.div(row, np.int32(repeat)), np.int32(count))
                terms.append((row, row_stride))
        if lane_stride:
            terms.append((self.first_lane(), lane_stride))
            if g.lanes > 1:
                terms.append((self._iota(len(g.shape) - 1), lane_stride))
        return terms

    def mask(self, shift: int) -> jax.Array | None:
        """Which of the elements ``shift`` positions to the left exist; None for all.

        A negative shift asks for elements to the right.
        """
        g = self.geometry
        checks = []
        beyond = not self.inside and (shift < 0 or g.n % g.length != 0)
        if beyond or shift > 0:
            element = self.element() + np.int32(shift if g.reverse else -shift)
            low, high = shift > 0, beyond
            if g.reverse:
                low, high = high, low
            if low:
                checks.append(element >= 0)
            if high:
                checks.append(element < np.int32(g.n))
        if g.outer % g.rows:
            checks.append(self.row_block * np.int32(g.rows) + self._iota(0) < np.int32(g.outer))
        if g.inner % g.lanes:
            lane = self._iota(len(g.shape) - 1)
            checks.append(self.lane_block * np.int32(g.lanes) + lane < np.int32(g.inner))
        if not checks:
            return None
        mask = checks[0]
        for check in checks[1:]:
            mask = mask & check
        return mask

    def load(self, ref: Any, view: View, shift: int = 0) -> jax.Array:
        """The tile of an operand, ``shift`` positions to the left; undefined where none exist."""
        terms = self._limited(self._terms(view, shift), ref.dtype, shift)
        return primitives.load(ref, terms, mask=self.mask(shift))

    def load_shared(self, ref: Any, view: View, shift: int = 0) -> jax.Array:
        """Like `load`; of an operand whose lanes are shared, one column."""
        if self.geometry.lanes == 1 or view.strides[2]:
            return self.load(ref, view, shift)
        column = copy.copy(self)
        column.geometry = dataclasses.replace(self.geometry, lanes=1, inner=1)
        column.lane_block = jnp.int32(0)
        return column.load(ref, view, shift)

    def row_of(self, view: View) -> jax.Array:
        """An operand's row, in a tile of one row."""
        repeat, count = view.row_period
        return lax.rem(lax.div(self.row_block, np.int32(repeat)), np.int32(count))

    def load_one(self, ref: Any, view: View, place: jax.Array) -> jax.Array:
        """The operand's element at ``place``, in a tile of one row: one for each lane, or for all.

        Undefined where there is none.
        """
        g = self.geometry
        row_stride, stride, lane_stride = view.strides
        terms: list[tuple[Any, int]] = [(self.row_of(view), row_stride), (place, stride)]
        mask = (place >= 0) & (place < np.int32(view.shape[1]))
        if lane_stride:
            terms.append((self.first_lane(), lane_stride))
            if g.lanes > 1:
                terms.append((self._lane(), lane_stride))
                mask = mask & self._lanes_exist()
        return primitives.load(ref, terms, mask=mask)

    def store_row(
        self, ref: Any, extent: int, place: jax.Array, value: jax.Array, mask: jax.Array
    ) -> None:
        """Writes one value for each lane to ``place`` of a result (outer, extent, inner)."""
        g = self.geometry
        terms: list[tuple[Any, int]] = [(self.row_block, extent * g.inner), (place, g.inner)]
        if g.inner > 1:
            terms.append((self.first_lane(), 1))
            if g.lanes > 1:
                terms.append((self._lane(), 1))
                mask = mask & self._lanes_exist()
        primitives.store(ref, terms, value.astype(ref.dtype), mask=mask)

    def _lane(self) -> jax.Array:
        return lax.broadcasted_iota(jnp.int32, (self.geometry.lanes,), 0)

    def _lanes_exist(self) -> jax.Array:
        g = self.geometry
        return self.lane_block * np.int32(g.lanes) + self._lane() < np.int32(g.inner)

    def at(self, index: jax.Array, *, inside: bool = False) -> Tile:
        """Another tile of the same row and lanes; one ``inside`` has no end of the axis in it.

        Nor has its neighbour to the right.
        """
        other = copy.copy(self)
        other.index, other.inside = index, inside
        return other

    def cut(self, geometry: Geometry) -> Tile:
        """The same rows and lanes, cut into tiles of another length."""
        other = copy.copy(self)
        other.geometry = geometry
        return other

    def quarter(self, place: int) -> jax.Array:
        """Index along the axis of what lies ``place`` behind every fourth element."""
        every = lax.broadcasted_iota(jnp.int32, (self.geometry.length // 4,), 0) * np.int32(4)
        return self._first_in_memory() + np.int32(place) + every

    def load_quarter(self, ref: Any, view: View, place: int) -> jax.Array:
        """An operand's elements ``place`` behind every fourth one; a tile has one dimension."""
        row_stride, stride, lane_stride = view.strides
        every = lax.broadcasted_iota(jnp.int32, (self.geometry.length // 4,), 0)
        first = self._first_in_memory() + np.int32(place)
        row = (self.row_of(view), row_stride)
        terms: list[tuple[Any, int]] = [row, (first, stride), (every, 4 * stride)]
        if lane_stride:
            terms.append((self.first_lane(), lane_stride))
        mask = None
        if not self.inside:
            mask = self.quarter(place) < np.int32(self.geometry.n)
        return primitives.load(ref, terms, mask=mask)

    def store(self, ref: Any, value: jax.Array) -> None:
        """Writes the tile of a result, which has the scan's full shape."""
        g = self.geometry
        view = View((g.outer, g.n, g.inner), (1, g.outer))
        terms = self._limited(self._terms(view, 0), ref.dtype, 0)
        primitives.store(ref, terms, value.astype(ref.dtype), mask=self.mask(0))

    def scatter(
        self, ref: Any, extent: int, place: jax.Array, value: jax.Array, mask: jax.Array
    ) -> None:
        """Writes each element where ``mask`` to ``place`` of a result (outer, extent, inner)."""
        place, mask = self.spread(place), self.spread(mask)
        exists = self.mask(0)
        terms = [*self._outside(extent * self.geometry.inner), (place, self.geometry.inner)]
        mask = mask if exists is None else mask & exists
        primitives.store(ref, terms, value.astype(ref.dtype), mask=mask, scattered=True)

    def scatter_quarter(
        self, ref: Any, extent: int, place: jax.Array, value: jax.Array, mask: jax.Array
    ) -> None:
        """`scatter` of every fourth element of a tile of one dimension; all of them exist."""
        inner = self.geometry.inner
        terms: list[tuple[Any, int]] = [(self.row_block, extent * inner)]
        if inner > 1:
            terms.append((self.first_lane(), 1))
        terms.append((place, inner))
        primitives.store(ref, terms, value.astype(ref.dtype), mask=mask, scattered=True)

    def gather_row(self, ref: Any) -> jax.Array:
        """The tile's elements of an operand (outer, inner): one for each row and lane."""
        return primitives.load(ref, self._outside(self.geometry.inner), mask=self.mask(0))

    def _outside(self, row_stride: int) -> list[tuple[Any, int]]:
        """The address of each element's row and lane, in an array of its own extent."""
        g = self.geometry
        terms: list[tuple[Any, int]] = [(self.row_block * np.int32(g.rows), row_stride)]
        # A term of the tile's shape spreads the others over it.
        terms.append((self._iota(0) if g.rows > 1 else jnp.zeros(g.shape, jnp.int32), row_stride))
        if g.inner > 1:
            terms.append((self.first_lane(), 1))
            if g.lanes > 1:
                terms.append((self._iota(len(g.shape) - 1), 1))
        return terms

    def _limited(
        self, terms: list[tuple[Any, int]], dtype: Any, shift: int
    ) -> list[tuple[Any, int]]:
        """The address, known to the compiler as a multiple of `VECTOR` elements and no more."""
        g = self.geometry
        (first, stride), *rest = terms
        whole = g.length % VECTOR == 0 and not shift and not (g.reverse and g.n % VECTOR)
        if dtype.itemsize * VECTOR >= 16 or not g.mixed or g.lanes > 1 or not whole:
            return terms
        first = primitives.opaque(lax.div(first, np.int32(VECTOR))) * np.int32(VECTOR)
        return [(first, stride), *rest]

    def first_lane(self) -> jax.Array:
        """The tile's first lane, opaque to the compiler, so that each thread takes one lane.

        Then the whole scan of a lane is one thread's, without a shuffle: rows (65536, 1024) along
        the first axis run at 0.89 of copy speed instead of 0.80, (1048576, 64) at 0.78 instead of
        0.70 (H200, 2026-11-20).
        """
        return primitives.opaque(self.lane_block * np.int32(self.geometry.lanes))

    def before_start(self, shift: int) -> jax.Array:
        """Where the element ``shift`` positions to the left would lie before the row's start."""
        g = self.geometry
        element = self.element()
        return element >= np.int32(g.n - shift) if g.reverse else element < np.int32(shift)

    def exists(self) -> jax.Array:
        """Which elements there are."""
        mask = self.mask(0)
        return jnp.full(self.geometry.shape, True) if mask is None else mask

    def element_shared(self, spread: bool) -> jax.Array:
        """Like `element`; if not ``spread``, one column of a tile of lanes."""
        if spread:
            return self.element()
        g = self.geometry
        return self._first_in_memory() + lax.broadcasted_iota(jnp.int32, g.shape[:-1], g.axis)

    def element(self) -> jax.Array:
        """Each element's index along the axis, in memory order; outside the axis at its ends."""
        return self._first_in_memory() + self._iota(self.geometry.axis)

    def positions(self) -> jax.Array:
        """Each element's place in the tile, in scan order."""
        place = self._iota(self.geometry.axis)
        return np.int32(self.geometry.length - 1) - place if self.geometry.reverse else place

    def last(self, values: Sequence[jax.Array]) -> list[jax.Array]:
        """Each value at the tile's last position in scan order."""
        g = self.geometry
        edge = self.positions() == np.int32(g.length - 1)
        if values[0].ndim < len(g.shape):  # columns that all lanes share
            place = lax.broadcasted_iota(jnp.int32, g.shape[:-1], g.axis)
            edge = place == np.int32(0 if g.reverse else g.length - 1)
        return [take(v, edge, g.axis) for v in values]

    def spread(self, column: jax.Array) -> jax.Array:
        """A column (length,) over the lanes; a whole tile as it is."""
        shape = self.geometry.shape
        if column.ndim < len(shape):
            column = column[..., None]
        return jnp.broadcast_to(column, shape)
