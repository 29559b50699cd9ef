"""Reductions by segments: one pass that writes each segment's total once.

    keys     4  4  4 │ 5  5 │ 7  7  7  7 │ 8 ...     the segment of each element
    values   a  b  c │ d  e │ f  g  h  i │ j ...
             └─ strip ─┘└─ strip ─┘└─ strip ─┘       one tile: strips, read one after another
                   ▼       ▼            ▼
    results       [4]     [5]          [7]           each total is written at its segment's number

A program walks a tile strip by strip and carries the total of the run that is not over yet, which
joins the strip's first element. Within a strip the keys are scanned beside the values,
(kx, x) ⊕ (ky, y) = (ky, x ⊕ y if kx = ky else y); elements whose neighbour has another key end a
run, and their totals are written.

Only a tile's first run may have begun before the tile, so that its total must wait. When the tile
has been read, the program publishes what its last run amounts to, as AGGREGATE if that run began
before the tile and as PREFIX if not; looks back, if its first run began before it; and writes the
first run's total, or publishes the PREFIX if that run goes on behind the tile. Nothing of the tile
is held in registers while a program waits.
"""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax
from jax.extend import core

from jscan.kernels import language, lookback
from jscan.kernels.keys import COUNTED, KEY, Keys
from jscan.kernels.layout import Geometry, View
from jscan.kernels.operator import commuting_identity, trace_scalars
from jscan.kernels.registers import take
from jscan.kernels.state import AGGREGATE, PREFIX, TileState
from jscan.kernels.tile import Tile


@functools.lru_cache(maxsize=1024)
def beside_key(operator: core.ClosedJaxpr, counts: bool) -> core.ClosedJaxpr:
    """The operator on (key, values since the key last changed).

    Where it ``counts`` the key's place is taken by heads: (heads so far, values since the last).
    """
    leaves = len(operator.out_avals)
    apply = core.jaxpr_as_fun(operator)

    def by_key(*scalars: Any) -> tuple[Any, ...]:
        (kx, *x), (ky, *y) = scalars[: leaves + 1], scalars[leaves + 1 :]
        combined = apply(*x, *y)
        goes_on = ky == KEY.type(0) if counts else kx == ky
        values = [lax.select(goes_on, c, b) for b, c in zip(y, combined, strict=True)]
        return kx + ky if counts else ky, *values

    dtypes = [KEY, *(np.dtype(a.dtype) for a in operator.out_avals)]
    return trace_scalars(by_key, dtypes * 2)


@dataclasses.dataclass(frozen=True)
class Reduction:
    """What to reduce: everything about the call that is known when it is compiled."""

    geometry: Geometry
    strip: int  # positions of a tile that are read at once
    operator: core.ClosedJaxpr  # on the values
    dtypes: tuple[np.dtype, ...]  # of the values, as accumulated
    results: tuple[np.dtype, ...]  # of the values, as written
    identity: tuple[Any, ...] | None
    used: tuple[bool, ...]
    views: tuple[View, ...]
    keys: Keys
    chained: bool = False  # whether tiles wait for their neighbours, and take tickets

    @property
    def written(self) -> list[tuple[int, np.dtype]]:
        """The results that somebody uses: an element for each segment."""
        size = self.geometry.outer * self.keys.num_segments * self.geometry.inner
        return [(size, d) for d, used in zip(self.results, self.used, strict=True) if used]

    @property
    def state(self) -> TileState:
        """The layout of the state words."""
        g = self.geometry
        return TileState(self.dtypes, g.outer, g.tiles, g.inner, tickets=int(self.chained))

    @property
    def empty(self) -> list[Any]:
        """What each result holds for a segment that has no elements; none without segments."""
        if self.keys.kind == "whole":
            return []
        assert self.identity is not None
        pairs = zip(self.identity, self.results, self.used, strict=True)
        return [np.asarray(i).astype(d)[()] for i, d, used in pairs if used]

    def combine(self, left: Sequence[jax.Array], right: Sequence[jax.Array]) -> list[jax.Array]:
        """Values ⊕ values; ``left`` is broadcast to the shape of ``right``."""
        shape = right[0].shape
        left = [jnp.broadcast_to(x, shape) for x in left]
        return language.evaluate(self.operator, [*left, *right])


@dataclasses.dataclass
class Window:
    """What a search asks of a tile at work: how aggregates combine."""

    one: Reduction
    identity: Any

    def fold(self, values: jax.Array) -> jax.Array:
        """The total of a window of aggregates, in any order."""
        return language.tile_reduce(self.one.operator, values, 0)

    def combine(self, left: list[jax.Array], right: list[jax.Array]) -> list[jax.Array]:
        """One aggregate behind another."""
        return language.evaluate(self.one.operator, [*left, *right])


def kernel(one: Reduction, window: int, program: jax.Array, refs: Sequence[Any]) -> None:
    """One tile of a row, by one program."""
    g, words = one.geometry, refs[-1]
    number = one.state.take_ticket(words) if one.chained else program
    tile = Tile(g, number)
    walk = Walk(one, tile, refs)
    if g.tiles == 1 and one.strip == g.length:
        walk.only_strip()
        return
    carry = walked(walk)
    if g.tiles > 1:
        _finish(one, window, tile, refs, walk.before, *walk.parts(carry))


def walked(walk: Walk) -> Carry:
    """The strips of a tile, one after another; what there is to say when it has been read."""
    one, tile, g = walk.one, walk.tile, walk.one.geometry
    # The last strip of a row is the only one that may end before its last element does.
    per_tile = np.int32(g.length // one.strip)
    before_last = np.int32((g.n - 1) // one.strip) - tile.index * per_tile
    inner = jnp.minimum(per_tile, before_last)
    strips = jnp.minimum(per_tile, before_last + np.int32(1))

    def goes_on(carry: Carry) -> jax.Array:
        """While nothing but the first run has been seen, if that began before the tile."""
        *_, key, number = carry
        same = jnp.max((key == walk.before).astype(jnp.int32)) > 0
        return (number < inner) & same & (tile.index > 0)

    carry = walk.blank()
    carry = lax.while_loop(goes_on, functools.partial(walk.strip, opening=True), carry)
    carry = lax.while_loop(lambda c: c[-1] < inner, walk.strip, carry)
    edge = functools.partial(walk.strip, opening=True, edge=True)
    return lax.while_loop(lambda c: c[-1] < strips, edge, carry)


Carry = tuple[jax.Array, ...]
"""Totals of the last run, total of the first run if it is over, whether it is, key, next strip."""


class Walk:
    """A program's way through the strips of its tile."""

    def __init__(self, one: Reduction, tile: Tile, refs: Sequence[Any]):
        self.one, self.tile = one, tile
        self.geometry = dataclasses.replace(one.geometry, length=one.strip)
        count = len(one.views)
        self.inputs = refs[:count]
        self.described = refs[count : count + one.keys.operands]
        self.outputs = refs[count + one.keys.operands :]
        self.before = one.keys.before(tile, self.described)
        self.place = tile.cut(self.geometry)
        g = self.geometry
        self.counts = one.keys.kind in COUNTED and len(g.shape) == 1
        self.by_quarters = len(g.shape) == 1 and g.length >= 4

    def blank(self) -> Carry:
        """The carry before the first strip."""
        lanes = self.geometry.per_lane
        values = [jnp.zeros(lanes, d) for d in self.one.dtypes]
        return (*values, *values, jnp.zeros(lanes, jnp.bool_), self.before, jnp.int32(0))

    def parts(self, carry: Carry) -> tuple[list[jax.Array], list[jax.Array], jax.Array, jax.Array]:
        """Totals, first, found, key."""
        count = len(self.one.dtypes)
        *values, found, key, _ = carry
        return values[:count], values[count:], found, key

    def only_strip(self) -> None:
        """The whole row."""
        key, values, leaf = self._scanned(self.place, None)
        self._write(self.place, key, values, leaf, opening=False, edge=True)

    def strip(self, carry: Carry, *, opening: bool = False, edge: bool = False) -> Carry:
        """The next strip: ``opening`` if the first run may be on, ``edge`` if it ends the row."""
        totals, first, found, carry_key = self.parts(carry)
        number = carry[-1]
        strips = np.int32(self.one.geometry.length // self.one.strip)
        strip = self.place.at(self.tile.index * strips + number, inside=not edge)
        key, values, leaf = self._scanned(strip, (totals, carry_key, number))
        over, picked = self._write(strip, key, values, leaf, opening=opening, edge=edge)
        if over is not None:
            found = found | over
            first = [jnp.where(over, p, f) for p, f in zip(picked, first, strict=True)]
        [last] = strip.last([key])
        return (*strip.last(values), *first, found, last, number + np.int32(1))

    def _scanned(
        self, strip: Tile, carry: tuple[list[jax.Array], jax.Array, jax.Array] | None
    ) -> tuple[jax.Array, list[jax.Array], jax.Array]:
        """The keys of a strip, its values scanned behind them, and the leaf beside the values."""
        one = self.one
        values = [
            strip.load(ref, view).astype(dtype)
            for ref, view, dtype in zip(self.inputs, one.views, one.dtypes, strict=True)
        ]
        before = jnp.int32(-1) if carry is None else carry[1]
        leaf = one.keys.load(strip, self.described, before, counts=self.counts)
        if carry is not None:
            # What is carried joins the first element, and no other needs to know of it.
            totals, carry_key, number = carry
            same = leaf == 0 if self.counts else leaf == strip.along_positions(carry_key)
            joins = strip.spread(same) & (strip.positions() == 0) & (number > 0)
            combined = one.combine([strip.along_positions(t) for t in totals], values)
            values = [jnp.where(joins, c, v) for c, v in zip(combined, values, strict=True)]
        operator = beside_key(one.operator, self.counts)
        count, *values = language.tile_scan(
            operator, [strip.spread(leaf), *values], strip.geometry.axis, reverse=False
        )
        key = one.keys.counted(count, strip, before) if self.counts else leaf
        return key, values, leaf

    def _write(
        self,
        strip: Tile,
        key: jax.Array,
        values: Sequence[jax.Array],
        leaf: jax.Array,
        *,
        opening: bool,
        edge: bool,
    ) -> tuple[jax.Array | None, list[jax.Array]]:
        """Writes totals where they belong, but the first run's if that began before the tile.

        Returns whether that ended here, and with what total.
        """
        keys = self.one.keys
        if not self.by_quarters:
            ends = keys.ends(strip, self.described, key)
            if edge:
                ends = ends | strip.ends_shared(ends.shape == strip.geometry.shape)
            waits = self._waits(key) if opening else None
            self._scatter(strip.scatter, key, values, self._wanted(key, ends, waits))
            if waits is None:
                return None, []
            over = strip.spread(ends & waits)
            exists = strip.mask(0)
            over = over if exists is None else over & exists
            return self._pick([over], [list(values)])
        ended = keys.ends_by_quarters(strip, self.described, leaf, by_key := language.quarters(key))
        by_value = [language.quarters(v) for v in values]
        quarters: list[Marked] = []
        all_over = []
        for place, (key, ends) in enumerate(zip(by_key, ended, strict=True)):
            if edge:
                left = strip.quarter_left(place)
                ends = (ends | (left == 0)) & (left >= 0)
            waits = self._waits(key) if opening else None
            if waits is not None:
                all_over.append(ends & waits)
            quarter = [v[place] for v in by_value]
            quarters.append((key, quarter, self._wanted(key, ends, waits)))
        for pair in (quarters[:2], quarters[2:]):
            for key, quarter, where in _merged(*pair):
                self._scatter(strip.scatter_quarter, key, quarter, where)
        if not opening:
            return None, []
        return self._pick(all_over, [[v[place] for v in by_value] for place in range(4)])

    def _waits(self, key: jax.Array) -> jax.Array:
        """Which elements belong to a first run that began before the tile."""
        return (key == self.tile.along_positions(self.before)) & (self.tile.index > 0)

    def _wanted(self, key: jax.Array, ends: jax.Array, waits: jax.Array | None) -> jax.Array:
        """Which elements' totals are written here."""
        # As numbers without a sign, negative ones are too large.
        limit = language.unsigned(np.uint32(self.one.keys.num_segments))
        where = ends & (lax.bitcast_convert_type(key, jnp.uint32) < limit)
        return where if waits is None else where & ~waits

    def _scatter(
        self, scatter: Any, key: jax.Array, values: Sequence[jax.Array], where: jax.Array
    ) -> None:
        kept = [v for v, used in zip(values, self.one.used, strict=True) if used]
        for ref, value in zip(self.outputs, kept, strict=False):
            scatter(ref, self.one.keys.num_segments, key, value, where)

    def _pick(
        self, over: Sequence[jax.Array], values: Sequence[Sequence[jax.Array]]
    ) -> tuple[jax.Array, list[jax.Array]]:
        """Whether any element is marked, for each lane, and the values of the one that is."""
        axis = self.geometry.axis
        some = functools.reduce(lax.bitwise_or, over)
        merged = values[0]
        for marks, others in zip(over[1:], values[1:], strict=True):
            merged = [jnp.where(marks, o, m) for o, m in zip(others, merged, strict=True)]
        # Where ids are not sorted, as they should be, there may be several: the last one it is.
        place = lax.broadcasted_iota(jnp.int32, some.shape, axis)
        last = jnp.max(jnp.where(some, place, jnp.full_like(place, -1)), axis=axis, keepdims=True)
        return jnp.max(last, axis=axis) >= 0, [take(m, place == last, axis) for m in merged]


Marked = tuple[jax.Array, list[jax.Array], jax.Array]
"""Keys, values, and which of them are to be written."""


def _merged(left: Marked, right: Marked) -> tuple[Marked, Marked]:
    """Two neighbours' writes as one, and what is left: the left one's, where both write.

    Half as many stores touch a sector of results, where segments are short.
    """
    (left_key, left_values, by_left), (right_key, right_values, by_right) = left, right
    pairs = zip(left_values, right_values, strict=True)
    values = [jnp.where(by_right, r, v) for v, r in pairs]
    both = jnp.where(by_right, right_key, left_key), values, by_left | by_right
    return both, (left_key, left_values, by_left & by_right)


def _finish(
    one: Reduction,
    window: int,
    tile: Tile,
    refs: Sequence[Any],
    before: jax.Array,
    totals: list[jax.Array],
    first: list[jax.Array],
    found: jax.Array,
    last: jax.Array,
) -> None:
    """Publishes the last run, and finds what the first run amounted to before the tile."""
    keys, words, state = one.keys, refs[-1], one.state
    outputs = refs[len(one.views) + keys.operands :]
    restarts = jnp.broadcast_to((last != before) | (tile.index == 0), totals[0].shape)
    told = restarts if one.chained else None  # what is no PREFIX is not for a neighbour
    state.publish(words, tile, AGGREGATE + restarts.astype(jnp.int32), totals, told)
    wanted = (found | ~restarts) & (tile.index > 0)

    def search() -> None:
        form = Window(one, commuting_identity(one.operator))
        looking = lookback.Lookback(one.operator, state, words, tile, window, form)
        prefix = looking.prefix(looking.peek(tile.index))
        pending = [jnp.where(found, f, t) for f, t in zip(first, totals, strict=True)]
        total = form.combine(prefix, pending)
        tag = jnp.full_like(restarts, PREFIX, jnp.int32)
        state.publish(words, tile, tag, total, ~restarts)
        limit = np.int32(keys.num_segments)
        inside = (before >= 0) & (before < limit)
        kept = [v for v, used in zip(total, one.used, strict=True) if used]
        for ref, value in zip(outputs, kept, strict=False):
            tile.store_row(ref, keys.num_segments, before, value, found & inside)

    language.when(jnp.max(wanted.astype(jnp.int32)) > 0, search)
