"""Rows of a sparse matrix, several to a program: products of rows that are short and even.

    offsets     0        5  5       9              a program reads those of its rows
    row 0       a b│c d│e                          two lanes a row, which take an entry each, and
    row 1                                          go on behind what they took
    row 2       f g│h i│
    results    [0] [1] [2]                         side by side; the identity of an empty row

A turn costs a program the time that memory takes to answer, however few of its rows go on. So lanes
take turns only as long as the longest row needs fewer of them than the rows that are left would, if
the whole program took one of those after the other; then it does that. Which entries a lane adds
up, and in which order, follows from the offsets alone.

Rows of more than ``long`` entries are left to programs of equal numbers of entries
(`jscan.kernels.reduction`). Marks tell these whether one lies in their tile.

Sources: Bell and Garland, *Implementing Sparse Matrix-Vector Multiplication on Throughput-Oriented
Processors* (2009), the vector kernel; Greathouse and Daga, *Efficient Sparse Matrix-Vector
Multiplication on GPUs using the CSR Storage Format* (2014), rows of different lengths.
"""

from __future__ import annotations

import dataclasses
import functools
import math
from collections.abc import Sequence
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

from jscan.kernels import joining, language, launch, tuning
from jscan.kernels.language import Ref
from jscan.kernels.layout import Geometry, View, size_of
from jscan.kernels.operator import commuting_identity
from jscan.kernels.reduction import Reduction
from jscan.kernels.registers import constant, take
from jscan.kernels.state import PREFIX
from jscan.kernels.tile import Tile

MARK = np.dtype(np.int8)


def run(
    task: Reduction, cut: tuning.ByRows, operands: Sequence[jax.Array], *, interpret: bool
) -> tuple[list[jax.Array], list[jax.Array]]:
    """The results, and the marks of tiles that hold entries of rows whose results are undefined.

    There are no marks where no row can be so long. The operands are the reduction's.
    """
    g, rows = task.geometry, task.keys.num_segments
    lanes = min(tuning.next_power_of_2(g.inner), cut.rows)
    # A thread takes as many lanes of a gathered row as it can.
    together = math.gcd(g.inner, lanes, 4)
    geometry = Geometry(
        *(g.outer, rows, g.inner, 1, cut.rows // lanes, lanes, False, False), together=together
    )
    written = task.written
    starts = []
    if task.long:
        written = [*written, (g.outer * g.tiles, MARK)]
        starts = [lax.full((g.outer * g.tiles,), 0, MARK)]
    found = launch.call(
        *(functools.partial(kernel, task, geometry, cut), operands, written),
        programs=geometry.programs,
        warps=cut.warps,
        name="jscan_rows",
        interpret=interpret,
        starts=starts,
    )
    count = len(task.written)
    return found[:count], found[count:]


def kernel(
    task: Reduction,
    geometry: Geometry,
    cut: tuning.ByRows,
    program: jax.Array,
    refs: Sequence[Ref],
) -> None:
    """A tile of rows, by one program."""
    work = RowsOfTile(task, Tile(geometry, program), cut, refs)
    if task.long:
        work.mark()
    work.store(work.one_by_one(work.by_lanes()))


def long_rows(task: Reduction, window: int, program: jax.Array, refs: Sequence[Ref]) -> None:
    """A tile of entries, by one program, which ends at once where none is a long row's."""
    g, words = task.geometry, refs[-1]
    tile = Tile(g, program)
    at = [(tile.row_block, g.tiles), (tile.index, 1)]
    marked = language.load(refs[task.inputs - 1], at) != 0
    language.when(marked, lambda: joining.kernel(task, window, program, refs))
    if g.tiles > 1:
        # Nobody asks for the value, but a window waits for all of its tiles.
        some = [jnp.broadcast_to(tile.index.astype(d), g.per_lane) for d in task.dtypes]
        state = joining.tile_state(task, window)
        tell = functools.partial(state.publish, words, tile, jnp.int32(PREFIX), some)
        language.when(~marked, tell)


@dataclasses.dataclass(frozen=True)
class Places:
    """Elements anywhere along the axis, as a program reaches them.

    They are those of all lanes of its tile: one for each of its rows, several, or those of one row.
    """

    tile: Tile
    place: jax.Array
    exists: jax.Array

    def load(self, ref: Ref, view: View) -> list[jax.Array]:
        """The parts of the operand's elements; for each place, where lanes share them."""
        return self._read(ref, view, self.place, self._by_lane and view.strides[2] != 0)

    def gather(self, ref: Ref, view: View, place: jax.Array) -> list[jax.Array]:
        """The parts of the elements at another ``place`` for each of these."""
        return self._read(ref, view, place, self._by_lane)

    def spread(self, column: jax.Array) -> jax.Array:
        """A value for each place over the lanes; one for each lane, too, as it is."""
        if column.ndim < len(self._shape):
            column = column[:, None]
        return jnp.broadcast_to(column, self._shape)

    @property
    def _by_lane(self) -> bool:
        return self.tile.geometry.lanes > 1

    @property
    def _shape(self) -> tuple[int, ...]:
        return (*self.place.shape, *self.tile.geometry.per_lane)

    def _read(self, ref: Ref, view: View, place: jax.Array, by_lane: bool) -> list[jax.Array]:
        row_stride, stride, lane_stride = view.strides
        terms, exists = [(self.tile.row_of(view), row_stride)], self.exists
        if by_lane:
            place, exists = self.spread(place), self.spread(exists)
            lane = lax.broadcasted_iota(jnp.int32, self._shape, 1)
            exists = exists & self.tile.lanes_exist(lane)
            terms += self.tile.lane_terms(lane_stride, lane)
        elif lane_stride:
            terms.append((self.tile.lane_block, lane_stride))
        return language.load_parts(ref, [*terms, (place, stride)], mask=exists)


class _Turns(NamedTuple):
    """What was added up, and how many entries of each row that was."""

    values: Sequence[jax.Array]
    taken: jax.Array


class _Left(NamedTuple):
    """What was added up of each row, and how many of its entries were not."""

    values: Sequence[jax.Array]
    left: jax.Array


class RowsOfTile:
    """A program's way through the rows of its tile."""

    def __init__(self, task: Reduction, tile: Tile, cut: tuning.ByRows, refs: Sequence[Ref]):
        assert task.product is not None
        assert task.identity is not None
        self.task, self.tile, self.cut, self.product = task, tile, cut, task.product
        count = len(task.views)
        self.in_place, (bounds, *rest) = refs[:count], refs[count:]
        count = len(self.product.dense)
        self.dense, self.outputs = rest[:count], rest[count:]
        self.row = lax.broadcasted_iota(jnp.int32, (tile.geometry.length,), 0)
        self.begin, self.end = self._bounds(bounds)
        self.size = self.end - self.begin
        self.is_long = self.size > np.int32(task.long or task.geometry.n)
        identity = commuting_identity(task.operator)
        self.identity = task.identity if identity is None else (identity,)

    def _bounds(self, bounds: Ref) -> tuple[jax.Array, jax.Array]:
        """Where the entries of each row begin and end; what does not exist is empty."""
        g, keys = self.tile.geometry, self.task.keys
        first = [(self.tile.row_of(keys.views[0]), keys.bounds), (self.tile.index, g.length)]
        exists = self.row < size_of(self.tile.index, g.n, g.length)
        found = [
            language.load(bounds, [*first, (jnp.int32(behind), 1), (self.row, 1)], mask=exists)
            for behind in (0, 1)
        ]
        # Nothing is read out of bounds, whatever the offsets are.
        begin, end = (jnp.clip(x, 0, np.int32(self.task.geometry.n)) for x in found)
        return jnp.where(exists, begin, 0), jnp.where(exists, jnp.maximum(begin, end), 0)

    def mark(self) -> None:
        """Marks the tiles that hold entries of long rows, one row after another."""
        marks, g = self.outputs[-1], self.task.geometry
        length, ahead = np.int32(g.length), lax.iota(jnp.int32, self.cut.alone)

        def mark_row(waits: jax.Array) -> jax.Array:
            chosen = self._first(waits)
            first = _only(chosen, lax.div(self.begin, length))
            last = _only(chosen, lax.div(self.end - np.int32(1), length))

            def mark_some(place: jax.Array) -> jax.Array:
                one = jnp.ones(ahead.shape, MARK)
                at = [(self.tile.row_block, g.tiles), (place, 1), (ahead, 1)]
                language.store(marks, at, one, mask=place + ahead <= last)
                return place + np.int32(self.cut.alone)

            lax.while_loop(lambda place: place <= last, mark_some, first)
            return jnp.where(chosen, 0, waits)

        lax.while_loop(lambda waits: jnp.max(waits) > 0, mark_row, self.is_long.astype(jnp.int32))

    def by_lanes(self) -> _Left:
        """The totals of what lanes take of each row, which is all of it where that is best."""
        cut, turn = self.cut, self.cut.width * self.cut.steps
        size = jnp.where(self.is_long, 0, self.size)
        shape, begin, limit = self.row.shape, self.begin, size
        if cut.width > 1:
            shape = (*shape, cut.width)
            begin, limit = (jnp.broadcast_to(x[:, None], shape) for x in (begin, size))
            lane = lax.broadcasted_iota(jnp.int32, shape, 1)
            # Each lane has entries of its own, from the one of its number on.
            begin, limit = begin + lane, limit - lane

        def goes_on(turns: _Turns) -> jax.Array:
            left = jnp.maximum(size - turns.taken, 0)
            alone = lax.div(left + np.int32(cut.alone - 1), np.int32(cut.alone))
            longest, turns_alone = jnp.max(left), jnp.sum(alone, dtype=jnp.int32)
            return (longest > 0) & (turns_alone * np.int32(turn) >= longest)

        def take_turn(turns: _Turns) -> _Turns:
            places = []
            for step in range(cut.steps):
                place = turns.taken + np.int32(step * cut.width)
                places.append(Places(self.tile, begin + place, place < limit))
            return _Turns(self._added(turns.values, places), turns.taken + np.int32(turn))

        turns = lax.while_loop(goes_on, take_turn, _Turns(self._nothing(shape), jnp.int32(0)))
        values = tuple(self._total(turns.values, 1)) if cut.width > 1 else turns.values
        return _Left(values, jnp.maximum(size - turns.taken, 0))

    def one_by_one(self, rows: _Left) -> Sequence[jax.Array]:
        """The totals of the rows, what is left of each taken by the whole program."""
        count = self.cut.alone // self.tile.geometry.lanes
        ahead = lax.iota(jnp.int32, count)

        def take_row(rows: _Left) -> _Left:
            chosen = self._first(rows.left)
            left, end = _only(chosen, rows.left), _only(chosen, self.end)

            def take_turn(turns: _Turns) -> _Turns:
                place = turns.taken + ahead
                at = Places(self.tile, end - left + place, place < left)
                return _Turns(self._added(turns.values, [at]), turns.taken + np.int32(count))

            begin = _Turns(self._nothing(ahead.shape), jnp.int32(0))
            turns = lax.while_loop(lambda turns: turns.taken < left, take_turn, begin)
            both = self.task.combine(self._total(turns.values, 0), rows.values)
            where = self.tile.spread(chosen)
            pairs = zip(both, rows.values, strict=True)
            values = tuple(jnp.where(where, b, v) for b, v in pairs)
            return _Left(values, jnp.where(chosen, 0, rows.left))

        return lax.while_loop(lambda rows: jnp.max(rows.left) > 0, take_row, rows).values

    def store(self, values: Sequence[jax.Array]) -> None:
        """Writes the totals, and the identity of rows without entries."""
        some, here = self.tile.spread(self.size > 0), self.tile.spread(~self.is_long)
        for ref, value, empty in zip(self.outputs, values, self.task.empty, strict=False):
            result = value.astype(empty.dtype)
            result = jnp.where(some, result, constant(result.shape, empty))
            self.tile.store(ref, result, where=here if self.task.long else None)

    def _first(self, left: jax.Array) -> jax.Array:
        """Which row is the first of which something is left."""
        last = np.int32(self.tile.geometry.length)
        return self.row == jnp.min(jnp.where(left > 0, self.row, last))

    def _nothing(self, shape: tuple[int, ...]) -> tuple[jax.Array, ...]:
        """What changes nothing that it is combined with, for each place and lane."""
        wide = (*shape, *self.tile.geometry.per_lane)
        pairs = zip(self.identity, self.task.dtypes, strict=True)
        return tuple(constant(wide, np.asarray(i).astype(d)[()]) for i, d in pairs)

    def _added(self, values: Sequence[jax.Array], places: Sequence[Places]) -> tuple[Any, ...]:
        """The values and, behind them, the elements at each of the places."""
        views = self.task.views
        # All that lies in place is read before anything waits for it.
        read = [[at.load(*x) for x in zip(self.in_place, views, strict=True)] for at in places]
        for at, in_place in zip(places, read, strict=True):
            made = self.product.made(at, in_place, self.dense)
            exists, nothing = at.spread(at.exists), self._nothing(at.place.shape)
            elements = [
                jnp.where(exists, x.astype(n.dtype), n) for x, n in zip(made, nothing, strict=True)
            ]
            values = self.task.combine(values, elements)
        return tuple(values)

    def _total(self, values: Sequence[jax.Array], axis: int) -> list[jax.Array]:
        """The values along an axis, combined."""
        operator = self.task.operator
        if commuting_identity(operator) is not None:
            return [language.tile_reduce(operator, values[0], axis)]
        scanned = language.tile_scan(operator, values, axis, reverse=False)
        place = lax.broadcasted_iota(jnp.int32, values[0].shape, axis)
        return [take(x, place == np.int32(x.shape[axis] - 1), axis) for x in scanned]


def _only(chosen: jax.Array, values: jax.Array) -> jax.Array:
    """The value that is chosen."""
    return jnp.sum(jnp.where(chosen, values, 0), dtype=jnp.int32)
