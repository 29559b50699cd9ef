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

Only a tile's first run may have begun before the tile, so that its total must wait: that is the
affair of `jscan.kernels.joining`, or of the levels of `jscan.kernels.partials`.
"""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Callable, Iterator, Sequence
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax
from jax.extend import core

from jscan.kernels import elements, language, quarters
from jscan.kernels.keys import COUNTED, KEY, Keys
from jscan.kernels.language import Ref
from jscan.kernels.layout import Geometry, View
from jscan.kernels.operator import trace_scalars
from jscan.kernels.products import Product
from jscan.kernels.registers import take
from jscan.kernels.tile import Tile


@functools.lru_cache(maxsize=1024)
def beside_key(operator: core.ClosedJaxpr, counts: bool) -> core.ClosedJaxpr:
    """The operator on (key, values since the key last changed).

    Where it ``counts`` the key's place is taken by heads: (heads so far, values since the last).
    """
    leaves = len(operator.out_avals)
    apply = core.jaxpr_as_fun(operator)

    def by_key(*scalars: jax.Array) -> tuple[jax.Array, ...]:
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
    fixed: bool = False  # whether tiles that share a run are combined in groups that are fixed
    order: View | None = None  # where an operand lies that says which element comes when, if any
    product: Product | None = None  # how elements are made, if they are not read
    long: int = 0  # only rows of more elements are reduced, in tiles with marks; all rows if 0

    @property
    def inputs(self) -> int:
        """How many references are read: the leaves, what describes segments, and what is gathered.

        This is the order, or what elements are made of. Marks of tiles come last.
        """
        gathered = len(self.product.dense) if self.product else int(self.order is not None)
        return len(self.views) + self.keys.operands + gathered + (self.long > 0)

    @property
    def written(self) -> list[tuple[int, np.dtype]]:
        """The results that somebody uses: an element for each segment."""
        size = self.geometry.outer * self.keys.num_segments * self.geometry.inner
        return [(size, d) for d, used in zip(self.results, self.used, strict=True) if used]

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
        return language.mapped(self.operator, [*left, *right])


class Runs(NamedTuple):
    """What a program knows of its tile's runs when it has read some of the strips."""

    last: Sequence[jax.Array]  # totals of the last run
    first: Sequence[jax.Array]  # totals of the first run, where it is over
    first_over: jax.Array  # whether it began before the tile and has ended
    key: jax.Array  # of the last run
    strips: jax.Array  # how many have been read


class Scanned(NamedTuple):
    """A strip whose values are scanned run by run."""

    strip: Tile
    key: jax.Array
    values: list[jax.Array]
    leaf: jax.Array  # what stood beside the values: the keys, or heads


class Marked(NamedTuple):
    """Elements, and which of them are to be written."""

    key: jax.Array
    values: list[jax.Array]
    where: jax.Array


class StripWalk:
    """A program's way through the strips of its tile."""

    def __init__(self, reduction: Reduction, tile: Tile, refs: Sequence[Ref]):
        self.reduction, self.keys, self.tile = reduction, reduction.keys, tile
        g = self.geometry = dataclasses.replace(reduction.geometry, length=reduction.strip)
        count, described = len(reduction.views), self.keys.operands
        self.inputs = refs[:count]
        self.described = refs[count : count + described]
        self.gathered = refs[count + described : reduction.inputs - (reduction.long > 0)]
        self.outputs = refs[reduction.inputs :]
        self.before, self.last = self.keys.around(tile, self.described)
        self.place = tile.cut(g)
        self.counts = self.keys.kind in COUNTED and len(g.shape) == 1
        self.by_quarters = len(g.shape) == 1 and g.length > 4

    def only_strip(self) -> None:
        """Reduces a row that is one strip."""
        self._write(self._scanned(self.place, None), opening=False, edge=True)

    def all_strips(self) -> Runs:
        """Reads the tile and writes the totals of its runs, but for the first and the last one.

        The first run's total is written too, unless that began before the tile.
        """
        tile, g = self.tile, self.reduction.geometry
        # The last strip of a row is the only one that may end before its last element does.
        per_tile = np.int32(g.length // self.reduction.strip)
        before_last = jnp.int32((g.n - 1) // self.reduction.strip)
        if g.leads:
            end = np.int32(g.n - 1) + tile.words.lead
            before_last = lax.div(end, np.int32(self.reduction.strip))
        before_last = before_last - tile.index * per_tile
        inner = jnp.minimum(per_tile, before_last)
        strips = jnp.minimum(per_tile, before_last + np.int32(1))

        def in_first_run(runs: Runs) -> jax.Array:
            same = jnp.max((runs.key == self.before).astype(jnp.int32)) > 0
            return (runs.strips < inner) & same & (tile.index > 0)

        opening = functools.partial(self._next, opening=True)
        edge = functools.partial(self._next, opening=True, edge=True)
        # Triton 3.6 fails on loops of which it knows that they never run.
        runs = self._none_read()
        if g.n + (g.word - 1 if g.leads else 0) <= self.reduction.strip:
            return edge(runs)
        if g.tiles > 1:
            runs = lax.while_loop(in_first_run, opening, runs)
        runs = lax.while_loop(lambda runs: runs.strips < inner, self._next, runs)
        return lax.while_loop(lambda runs: runs.strips < strips, edge, runs)

    def _none_read(self) -> Runs:
        lanes = self.geometry.per_lane
        values = tuple(jnp.zeros(lanes, d) for d in self.reduction.dtypes)
        return Runs(values, values, jnp.zeros(lanes, jnp.bool_), self.before, jnp.int32(0))

    def _next(self, runs: Runs, *, opening: bool = False, edge: bool = False) -> Runs:
        """Reads a strip: ``opening`` if the first run may be on, ``edge`` if it ends the row."""
        per_tile = np.int32(self.reduction.geometry.length // self.reduction.strip)
        strip = self.place.at(self.tile.index * per_tile + runs.strips, inside=not edge)
        scanned = self._scanned(strip, runs)
        ended = self._write(scanned, opening=opening, edge=edge)
        first, first_over = runs.first, runs.first_over
        if ended is not None:
            over, totals = ended
            first_over = first_over | over
            first = tuple(jnp.where(over, t, f) for t, f in zip(totals, first, strict=True))
        [key] = strip.last([scanned.key])
        last = tuple(strip.last(scanned.values))
        return Runs(last, first, first_over, key, runs.strips + np.int32(1))

    def _scanned(self, strip: Tile, runs: Runs | None) -> Scanned:
        """A strip, scanned behind the last run of those before it."""
        reduction = self.reduction
        values = self._elements(strip)
        before = jnp.int32(-1) if runs is None else runs.key
        leaf = self.keys.load(strip, self.described, before, self.last, counts=self.counts)
        if runs is not None:
            # What is carried joins the first element, and no other needs to know of it.
            same = leaf == 0 if self.counts else leaf == strip.along_positions(runs.key)
            joins = strip.spread(same) & (strip.positions() == 0) & (runs.strips > 0)
            combined = reduction.combine([strip.along_positions(t) for t in runs.last], values)
            values = [jnp.where(joins, c, v) for c, v in zip(combined, values, strict=True)]
        operator = beside_key(reduction.operator, self.counts)
        beside, *values = language.tile_scan(
            operator, [strip.spread(leaf), *values], strip.geometry.axis, reverse=False
        )
        key = self.keys.counted(beside, strip, before) if self.counts else leaf
        return Scanned(strip, key, values, leaf)

    def _elements(self, strip: Tile) -> list[jax.Array]:
        """The elements of a strip, in the dtypes in which they are combined."""
        reduction = self.reduction
        read = list(zip(self.inputs, reduction.views, strict=True))
        if reduction.product is not None:
            own = self.inputs, reduction.views, self.gathered
            loaded = reduction.product.elements(strip, *own)
        elif reduction.order is None:
            loaded = [part for x in read for part in _parts(strip, *x, strip.load_parts)]
        else:
            place = strip.load_shared(self.gathered[0], reduction.order)
            # Nothing is read out of bounds, whatever a plan was made of.
            place = jnp.clip(place, 0, np.int32(self.geometry.n - 1))
            gather = functools.partial(strip.gather, place=place)
            loaded = [part for x in read for part in _parts(strip, *x, gather)]
        return [x.astype(d) for x, d in zip(loaded, reduction.dtypes, strict=True)]

    def _write(
        self, scanned: Scanned, *, opening: bool, edge: bool
    ) -> tuple[jax.Array, list[jax.Array]] | None:
        """Writes totals where they belong, but the first run's if that began before the tile.

        Returns for an ``opening`` strip whether that run ended here, and its total.
        """
        write = self._write_quarters if self.by_quarters else self._write_elements
        over, values = write(scanned, opening=opening, edge=edge)
        return self._last_of(over, values) if opening else None

    def _write_elements(
        self, scanned: Scanned, *, opening: bool, edge: bool
    ) -> tuple[list[jax.Array], list[list[jax.Array]]]:
        """Writes a strip of any shape; returns where the first run ends, if opening, and values."""
        strip, key, values, _ = scanned
        ends = self.keys.ends(strip, self.described, key)
        if edge:
            ends = ends | strip.at_end(first=False, spread=ends.shape == strip.geometry.shape)
        waits = self._waits(key) if opening else None
        self._scatter(strip.scatter, Marked(key, values, self._wanted(key, ends, waits)))
        if waits is None:
            return [], []
        over, exists = strip.spread(ends & waits), strip.mask(0)
        return [over if exists is None else over & exists], [values]

    def _write_quarters(
        self, scanned: Scanned, *, opening: bool, edge: bool
    ) -> tuple[list[jax.Array], list[list[jax.Array]]]:
        """The same for a strip of one dimension, by the elements' places modulo four.

        Neighbours are in one thread then, and what two of them write becomes one store.
        """
        strip, key, values, leaf = scanned
        keys = language.deinterleave(key, 4)
        ended = self.keys.ends_by_quarters(strip, self.described, leaf, keys)
        by_value = [language.deinterleave(v, 4) for v in values]
        by_place = [list(quarter) for quarter in zip(*by_value, strict=True)]
        marked, over = [], []
        for place, (key, values, ends) in enumerate(zip(keys, by_place, ended, strict=True)):
            if edge:
                left = quarters.left(strip, place)
                ends = (ends | (left == 0)) & (left >= 0)
            waits = self._waits(key) if opening else None
            if waits is not None:
                over.append(ends & waits)
            marked.append(Marked(key, values, self._wanted(key, ends, waits)))
        for first, second in (marked[:2], marked[2:]):
            for each in _merged(first, second):
                self._scatter(functools.partial(quarters.scatter, strip), each)
        return over, by_place

    def _waits(self, key: jax.Array) -> jax.Array:
        """Which elements belong to a first run that began before the tile."""
        return (key == self.tile.along_positions(self.before)) & (self.tile.index > 0)

    def _wanted(self, key: jax.Array, ends: jax.Array, waits: jax.Array | None) -> jax.Array:
        """Which elements' totals are written here."""
        where = ends & self.keys.inside(key)
        if waits is not None:
            where = where & ~waits
        return where & self.is_long(key, where) if self.reduction.long else where

    def is_long(self, key: jax.Array, where: jax.Array) -> jax.Array:
        """Which of the segments are those that are reduced; undefined but ``where`` they exist."""
        size = self.keys.size(self.tile, self.described, key, where)
        return size > np.int32(self.reduction.long)

    def _scatter(self, scatter: Callable[..., None], marked: Marked) -> None:
        for ref, value in self.results(marked.values):
            scatter(ref, self.keys.num_segments, marked.key, value, where=marked.where)

    def results(self, values: Sequence[jax.Array]) -> Iterator[tuple[Ref, jax.Array]]:
        """The results that somebody uses, each with its value."""
        kept = [v for v, used in zip(values, self.reduction.used, strict=True) if used]
        return zip(self.outputs, kept, strict=False)  # behind results come state words

    def _last_of(
        self, where: Sequence[jax.Array], values: Sequence[Sequence[jax.Array]]
    ) -> tuple[jax.Array, list[jax.Array]]:
        """Whether any element is marked, for each lane, and the values of the one that is."""
        axis = self.geometry.axis
        some = functools.reduce(lax.bitwise_or, where)
        merged = values[0]
        for marks, others in zip(where[1:], values[1:], strict=True):
            merged = [jnp.where(marks, o, m) for o, m in zip(others, merged, strict=True)]
        # Ids that are not sorted, as they should be, may mark several: the last one it is.
        place = lax.broadcasted_iota(jnp.int32, some.shape, axis)
        last = jnp.max(jnp.where(some, place, jnp.full_like(place, -1)), axis=axis, keepdims=True)
        return jnp.max(last, axis=axis) >= 0, [take(m, place == last, axis) for m in merged]


def _merged(left: Marked, right: Marked) -> tuple[Marked, Marked]:
    """Two neighbours' writes as one, and what is left: the left one's, where both write.

    Half as many stores touch a sector of results, where segments are short.
    """
    pairs = zip(left.values, right.values, strict=True)
    values = [jnp.where(right.where, r, v) for v, r in pairs]
    key = jnp.where(right.where, right.key, left.key)
    both = Marked(key, values, left.where | right.where)
    return both, Marked(left.key, left.values, left.where & right.where)


def _parts(
    strip: Tile, ref: Ref, view: View, load: Callable[[Ref, View], list[jax.Array]]
) -> list[jax.Array]:
    """What is read of an operand, which may have one element for all places."""
    return elements.load_common(strip, ref, view) if view.shape[1] == 1 else load(ref, view)
