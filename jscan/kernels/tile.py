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
of ``tt.scan`` change. A reversed scan's tile may be held in scan order (`Geometry.mirrored`): to
scan it in reverse takes Triton ten exchanges between threads an element. Of one lane words are
accessed from the tile's end on, and each is turned in a thread's registers.

Where the rows of an array begin inside of memory's words, tiles are cut along the words (`Words`):
a position then has an element of the axis less the places in front of the row.

An axis that is `far` is too long for 32-bit positions: a tile then knows its number and counts
places within itself, and an address is the sum of the two in 64 bits.
"""

from __future__ import annotations

import copy
import dataclasses
import functools
from collections.abc import Callable, Sequence

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

from jscan.kernels import language, memory, repeating
from jscan.kernels.language import Ref
from jscan.kernels.layout import VECTOR, Geometry, Period, View, size_of
from jscan.kernels.registers import take, turned
from jscan.kernels.words import Address, Words


class Tile:
    """One program's tile: made inside a kernel from the program's number."""

    step, neighbours = 1, 0  # of `comb.Comb`

    def __init__(self, geometry: Geometry, program: jax.Array):
        g = self.geometry = geometry
        self.lane_block, self.row_block, self.index = g.place(program)
        self.inside = self.within_row = self.accessed = False
        self.may_end = g.n % g.length != 0

    def _iota(self, dimension: int) -> jax.Array:
        return lax.broadcasted_iota(jnp.int32, self.geometry.shape, dimension)

    def first_in_memory(self) -> jax.Array:
        """The axis index of the tile's first element in memory; may be negative where reversed."""
        g = self.geometry
        assert not g.far, "positions do not fit 32 bits"
        start = self.index * np.int32(g.length)
        if g.from_front:
            return np.int32((g.tiles - 1) * g.length) - start if g.reverse else start
        if g.word > 1:
            start = start - self.words.lead
        return np.int32(g.n - g.length) - start if g.reverse else start

    @property
    def words(self) -> Words:
        """The words of the tile's rows."""
        return Words(self.geometry, self.row_block, self.index, accessed=self.accessed)

    def terms(self, view: View, shift: int) -> Address:
        """The address of each element, ``shift`` positions to the left."""
        g, (_, stride, lane_stride) = self.geometry, view.strides
        terms = [*self.start(stride, shift), (self.offset(), stride)]
        if not g.of_row:
            terms += self.row_terms(view, lambda: self._iota(0))
        lane = self._iota(len(g.shape) - 1)
        if g.of_row:
            return repeating.lanes_of_rows(g, terms, self.lane_block, lane, view)
        return [*terms, *self.lane_terms(lane_stride, lane, view.lane_period)]

    def row_terms(self, view: View, within: Callable[[], jax.Array]) -> Address:
        """The terms of an address that tell rows apart; ``within`` numbers those of a tile."""
        g, row_stride = self.geometry, view.strides[0]
        if view.row_period[1] == 1:
            return []
        if g.rows == 1:
            return [(self.row_of(view), row_stride)]
        if view.row_period == (1, g.outer):
            return [(self.row_block, g.rows * row_stride), (within(), row_stride)]
        repeat, count = view.row_period
        row = self.row_block * np.int32(g.rows) + within()
        row = lax.rem(lax.div(row, np.int32(repeat)), np.int32(count))
        return [(row, row_stride)]

    def start(self, stride: int, shift: int) -> Address:
        """The address ``shift`` positions left of the tile's first element in memory."""
        g = self.geometry
        step = shift if g.reverse else -shift
        if not g.far:
            return [(self.first_in_memory() + np.int32(step), stride)]
        sign, first = (-1, g.n - g.length + step) if g.reverse else (1, step)
        return [(self.index, sign * g.length * stride), (jnp.int32(1), first * stride)]

    def lane_terms(self, stride: int, lane: jax.Array, period: Period | None = None) -> Address:
        """The term of an address that tells lanes of a ``period`` apart; none if they share."""
        assert not self.geometry.of_row, "lanes are those of several rows"
        if not stride:
            return []
        if period is not None:
            return repeating.lanes(self.geometry, self.lane_block, lane, stride, period)
        # Opaque to the compiler, so that each thread takes one lane, or those that go `together`,
        # and scans them without a shuffle: (65536, 1024) 0.89 of copy speed, not 0.80 (H200).
        g, block, step = self.geometry, self.lane_block, self.geometry.lane_step
        if not g.far_lanes:
            block, step = block * np.int32(step // g.together), g.together
        first = [(language.opaque(block), step * stride)]
        return [*first, (lane, stride)] if g.lanes > 1 else first

    def mask(self, shift: int) -> jax.Array | None:
        """Whether each element ``shift`` places to the left exists, or to the right where negative.

        None where all do.
        """
        g = self.geometry
        # In scan order, only elements to the left may lie before the start of the axis, and only
        # the last tile and elements to the right reach beyond its end.
        before = (shift > 0 and not self.within_row) or (g.leads and not self.inside)
        ragged = g.word > 1 or (self.may_end and not g.leads)
        beyond = not self.inside and (shift < 0 or ragged)
        on_axis = self._on_far_axis if g.far else self._on_axis
        checks = on_axis(shift, before, beyond)
        if g.outer % g.rows:
            checks.append(self.rows_exist(self._iota(0)))
        if g.lanes_end:
            checks.append(self.lanes_exist(self._iota(len(g.shape) - 1)))
        return functools.reduce(lax.bitwise_and, checks) if checks else None

    def _on_axis(self, shift: int, before: bool, beyond: bool) -> list[jax.Array]:
        """Whether the elements ``shift`` to the left lie not ``before`` the axis nor ``beyond``.

        A check for each of the two that is asked for, in memory order.
        """
        if not (before or beyond):
            return []
        g = self.geometry
        element = self.element() + np.int32(shift if g.reverse else -shift)
        too_low, too_high = (beyond, before) if g.reverse else (before, beyond)
        checks = [element >= 0] if too_low else []
        return [*checks, element < np.int32(g.n)] if too_high else checks

    def _on_far_axis(self, shift: int, before: bool, beyond: bool) -> list[jax.Array]:
        """`_on_axis` by places in the tile, where elements have no number in 32 bits."""
        place = self.positions() - np.int32(shift)
        checks = [(self.index > 0) | (place >= 0)] if before else []
        return [*checks, place < self.left()] if beyond else checks

    def left(self) -> jax.Array:
        """The positions from the tile's first to the end of the axis, or more than a tile has."""
        g = self.geometry
        last = np.int32(g.n - (g.tiles - 1) * g.length)
        return jnp.where(self.index == np.int32(g.tiles - 1), last, np.int32(2 * g.length))

    def load(self, ref: Ref, view: View, shift: int = 0) -> jax.Array:
        """The tile of an operand, ``shift`` positions to the left; undefined where none exist."""
        [values] = self.load_parts(ref, view, shift)
        return values

    def load_parts(self, ref: Ref, view: View, shift: int = 0) -> list[jax.Array]:
        """The same of any operand: of complex numbers the real and the imaginary parts."""
        g = self.geometry
        if g.turns and not self.accessed:
            return turned(g, self.as_accessed().load_parts(ref, view, shift))
        if g.word > 1 and not shift and view.follows(g):
            return self.words.load(ref, self._limited(self.words.terms(), ref.dtype, 0))
        terms = self._limited(self.terms(view, shift), ref.dtype, shift)
        return language.load_parts(ref, terms, mask=self.mask(shift), once=view.once)

    def load_shared(self, ref: Ref, view: View, shift: int = 0) -> jax.Array:
        """The same, but one column of an operand whose lanes are shared."""
        if self.geometry.lanes == 1 or view.strides[2]:
            return self.load(ref, view, shift)
        return self.column().load(ref, view, shift)

    def column(self) -> Tile:
        """The tile of one lane, as it holds what all lanes share."""
        column = self.cut(dataclasses.replace(self.geometry, lanes=1, inner=1, shared=0))
        column.lane_block = jnp.int32(0)
        return column

    def row_of(self, view: View) -> jax.Array:
        """An operand's row, in a tile of one row."""
        repeat, count = view.row_period
        if view.row_period == (1, self.geometry.outer):
            return self.row_block
        return lax.rem(lax.div(self.row_block, np.int32(repeat)), np.int32(count))

    def load_one(self, ref: Ref, view: View, place: jax.Array) -> jax.Array:
        """The element at ``place`` for each lane or all, of one row; undefined where none is."""
        stride = view.strides[1]
        inside = (place >= 0) & (place < np.int32(view.shape[1]))
        return self._load_lanes(ref, view, [(place, stride)], inside)

    def load_before(self, ref: Ref, view: View) -> jax.Array:
        """The element before the tile's first, not reversed; undefined in the first tile."""
        stride = view.strides[1]
        place = [(self.index, self.geometry.length * stride), (jnp.int32(-1), stride)]
        return self._load_lanes(ref, view, place, self.index > 0)

    def _load_lanes(self, ref: Ref, view: View, place: Address, mask: jax.Array) -> jax.Array:
        row_stride, _, lane_stride = view.strides
        terms = [(self.row_of(view), row_stride), *place, *self.one_a_lane(lane_stride)]
        if lane_stride and self.geometry.lanes > 1:
            mask = mask & self.lanes_exist(self.lane())
        return language.load(ref, terms, mask=mask)

    def store_row(
        self, ref: Ref, extent: int, place: jax.Array, value: jax.Array, mask: jax.Array
    ) -> None:
        """Writes one value for each lane to ``place`` of a result (outer, extent, inner)."""
        g = self.geometry
        terms = [(self.row_block, extent * g.inner), (place, g.inner)]
        if g.lanes > 1:
            mask = mask & self.lanes_exist(self.lane())
        terms += self.one_a_lane(int(g.inner > 1))
        language.store(ref, terms, value.astype(ref.dtype), mask=mask)

    def lane(self) -> jax.Array:
        """The number of each of the tile's lanes."""
        return lax.broadcasted_iota(jnp.int32, (self.geometry.lanes,), 0)

    def one_a_lane(self, stride: int) -> Address:
        """The terms of an address with one element for each lane."""
        return self.lane_terms(stride, self.lane())

    def rows_exist(self, row: jax.Array) -> jax.Array:
        """Whether each of these rows of the tile is a row of the array."""
        return row < size_of(self.row_block, self.geometry.outer, self.geometry.rows)

    def lanes_exist(self, lane: jax.Array) -> jax.Array:
        """Whether each of these lanes of the tile is a lane of the array."""
        return lane < self.geometry.lanes_left(self.lane_block)

    def at(self, index: jax.Array, *, inside: bool = False) -> Tile:
        """Another tile of the row; one ``inside``, and its neighbour, do not reach its end."""
        other = copy.copy(self)
        other.index, other.inside, other.within_row = index, inside, False
        return other

    def without_ends(self, *, of_rows: bool) -> Tile:
        """The same, which does not reach the end of the axis, nor of rows in it."""
        other = self.at(self.index, inside=True)
        other.within_row = of_rows
        return other

    def as_accessed(self) -> Tile:
        """The same with its places in the order in which they are accessed (`Geometry.turns`)."""
        other = copy.copy(self)
        other.accessed = self.geometry.turns
        return other

    def cut(self, geometry: Geometry) -> Tile:
        """The same rows and lanes, cut into tiles of another length."""
        other = copy.copy(self)
        other.geometry = geometry
        other.may_end = geometry.n % geometry.length != 0
        return other

    def store(self, ref: Ref, *parts: jax.Array, where: jax.Array | None = None) -> None:
        """Writes the tile of a result, which has the scan's full shape, or what of it is ``where``.

        Of complex numbers it takes the parts. Tiles that are cut along words are written whole.
        """
        g, complex_ = self.geometry, memory.parts(ref.dtype) == 2
        values = parts if complex_ else [x.astype(ref.dtype) for x in parts]
        if g.turns and not self.accessed:
            assert where is None, "nothing is left out of tiles of scans"
            return self.as_accessed().store(ref, *turned(g, values))
        if g.word == 1:
            terms = self._limited(self.terms(g.whole, 0), ref.dtype, 0)
            masks = [mask for mask in (self.mask(0), where) if mask is not None]
            mask = functools.reduce(lax.bitwise_and, masks) if masks else None
            return language.store(ref, terms, values, mask=mask)
        return self.words.store(ref, self._limited(self.words.terms(), ref.dtype, 0), values)

    def scatter(
        self, ref: Ref, extent: int, place: jax.Array, *parts: jax.Array, where: jax.Array
    ) -> None:
        """Writes each element ``where`` it is wanted to ``place`` of (outer, extent, inner)."""
        place, where = self.spread(place), self.spread(where)
        exists = self.mask(0)
        terms = [*self.outside(extent * self.geometry.inner), (place, self.geometry.inner)]
        mask = where if exists is None else where & exists
        values = parts if memory.parts(ref.dtype) == 2 else [x.astype(ref.dtype) for x in parts]
        language.store(ref, terms, values, mask=mask, scattered=True)

    def gather(self, ref: Ref, view: View, place: jax.Array) -> list[jax.Array]:
        """The parts of the elements at ``place`` of each position, undefined where there is none.

        The operand has fewer elements than fit 32 bits.
        """
        _, stride, lane_stride = view.strides
        terms = [(self.spread(place), stride), *self.row_terms(view, lambda: self._iota(0))]
        terms += self.lane_terms(lane_stride, self._iota(len(self.geometry.shape) - 1))
        return language.load_parts(ref, terms, mask=self.mask(0))

    def outside(self, row_stride: int) -> Address:
        """The address of each element's row and lane, in an array of its own extent."""
        g = self.geometry
        # A term of the tile's shape spreads the others over it.
        within = self._iota(0) if g.rows > 1 else jnp.zeros(g.shape, jnp.int32)
        terms = [(self.row_block, g.rows * row_stride), (within, row_stride)]
        return [*terms, *self.lane_terms(int(g.inner > 1), self._iota(len(g.shape) - 1))]

    def _limited(self, terms: Address, dtype: np.dtype, shift: int) -> Address:
        """The address, known as a multiple of `VECTOR` elements where more would widen accesses."""
        g = self.geometry
        narrow = dtype.itemsize * VECTOR < 16
        begins_whole = not shift and (g.word > 1 or not (g.reverse and g.n % VECTOR))
        whole = g.lanes == 1 and g.length % VECTOR == 0 and begins_whole
        if not (narrow and g.mixed and whole):
            return terms
        return [(language.opaque(jnp.int32(0)), VECTOR), *terms]

    def before_start(self, shift: int) -> jax.Array:
        """Whether the element ``shift`` positions to the left lies before the start of the axis."""
        g = self.geometry
        # Known when the kernel is compiled for almost all places, if tile 0 begins with the axis.
        if g.word == 1 and not g.leads:
            return (self.index == 0) & (self.positions() < np.int32(shift))
        element = self.element()
        before = element >= np.int32(g.n - shift) if g.reverse else element < np.int32(shift)
        if g.word == 1 or g.word - 1 + shift > g.length:  # or such places may lie in tile 1
            return before
        return before & (self.index == 0) & (self.positions() < np.int32(g.word + shift))

    def at_end(self, *, first: bool, spread: bool = True) -> jax.Array:
        """Whether each element is the first one of the axis in memory, or the last.

        It is a column for all lanes, unless ``spread``.
        """
        if not spread:
            return self.column().at_end(first=first)
        g = self.geometry
        if not g.far:
            return self.element() == np.int32(0 if first else g.n - 1)
        if first != g.reverse:
            return self.before_start(1)
        return self.positions() == self.left() - np.int32(1)

    def element(self) -> jax.Array:
        """The index of each element along the axis; beyond its ends, what would come there.

        On an axis that is `Geometry.far`, 32 bits do not hold it.
        """
        return self.first_in_memory() + self.offset()

    def offset(self) -> jax.Array:
        """The place of each element in the tile, in memory order."""
        return self.geometry.offset(self._iota(self.geometry.axis), accessed=self.accessed)

    def positions(self) -> jax.Array:
        """The place of each element in the tile, in scan order."""
        place = self._iota(self.geometry.axis)
        return np.int32(self.geometry.length - 1) - place if self.geometry.backwards else place

    def first_place(self) -> jax.Array:
        """The position of the tile's first element, of which places in front may be none."""
        g = self.geometry
        if not g.leads:
            return jnp.int32(0)
        lead = np.int32(g.length - g.n % g.length) if g.from_front else self.words.lead
        return jnp.where(self.index == 0, lead, np.int32(0))

    def last(self, values: Sequence[jax.Array]) -> list[jax.Array]:
        """The elements at the tile's last position in scan order."""
        tile = self.column() if values[0].ndim < len(self.geometry.shape) else self
        edge = tile.positions() == np.int32(self.geometry.length - 1)
        return [take(v, edge, self.geometry.axis) for v in values]

    def along_positions(self, value: jax.Array) -> jax.Array:
        """A value for each lane, as it meets every position; a scalar as it is."""
        return lax.expand_dims(value, [self.geometry.axis]) if value.ndim else value

    def across_lanes(self, column: jax.Array) -> jax.Array:
        """A value for each position, as it meets every lane; a scalar as it is."""
        return column[:, None] if column.ndim and self.geometry.lanes > 1 else column

    def spread(self, column: jax.Array) -> jax.Array:
        """A column (length,) over the lanes; a whole tile as it is."""
        shape = self.geometry.shape
        if column.ndim < len(shape):
            column = column[..., None]
        return jnp.broadcast_to(column, shape)
