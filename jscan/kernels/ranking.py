"""Ranks: marked elements counted, and what follows from the count written where it belongs.

    marks     0  1  0  0  1  1
    count     0  1  1  1  2  3      the scan, in int32

    before    0  0  1  1  1  2      how many marked elements come before each
    number   -1  0  0  0  1  2      the number of the last marked element so far
    places    1  4  5 │ 6  6  6     where the marked elements are; n for those that do not exist
    order     0  2  3 │ 1  4  5     where the unmarked elements are, then where the marked ones are

The first two are written in place. The last two are scattered: an unmarked element of ``places``
writes an n, from the end backwards, so that every word is written once and none twice; ``order``
needs to be told how many elements are unmarked. How many are marked is one more result, if it is
asked for: the count at the end of the row, which its last strip has.

A long tile whose places are scattered is walked by strips, which take few registers. Its marks are
counted strip by strip, and read again behind the count before the tile, by which time they are in a
cache:

    strips      count │ count │ count ─► publish, look back ─► scan, write │ scan, write │ ...
"""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Callable, Sequence

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

from jscan import heads
from jscan.kernels import (
    flagging,
    language,
    launch,
    lookback,
    quarters,
    reduce_then_scan,
    scanning,
    tuning,
)
from jscan.kernels.description import Scan
from jscan.kernels.forms import OperatorAggregates
from jscan.kernels.language import Ref
from jscan.kernels.operator import trace_scalars
from jscan.kernels.state import AGGREGATE, PREFIX
from jscan.kernels.strips import Part, scan_part
from jscan.kernels.tile import Tile

COUNT = np.dtype(np.int32)


@dataclasses.dataclass(frozen=True)
class Ranking(Scan):
    """What to count, and what to write."""

    source: str  # of the marks: "mask", or head flags as "flags", or changes of value as "runs"
    emit: str  # "before", "number", "places", "order"
    size: int  # of the result, along the axis
    counted: bool = dataclasses.field(default=False, kw_only=True)  # whether the total is a result
    floats: np.dtype | None = dataclasses.field(default=None, kw_only=True)  # whose runs are sought

    @property
    def beside(self) -> int:
        """One where ``order`` reads how many elements are unmarked."""
        return int(self.emit == "order")

    @property
    def segmented(self) -> bool:
        """Ranks count along the whole axis."""
        return False

    @property
    def written(self) -> list[tuple[int, np.dtype]]:
        """What is written along the axis, then the total, each with its size."""
        return [(self.geometry.outer * self.size * self.geometry.inner, COUNT), *self.totals]

    @property
    def totals(self) -> list[tuple[int, np.dtype]]:
        """The total of each row, if it is a result."""
        return [(self.geometry.outer * self.geometry.inner, COUNT)] if self.counted else []

    def split(self, refs: Sequence[Ref]) -> tuple[Sequence[Ref], Sequence[Ref]]:
        """The input and output references out of all of the kernel's."""
        inputs, others = self.apart(refs)
        return inputs, others[: len(self.written)]

    def read(self, tile: Tile, inputs: Sequence[Ref]) -> list[jax.Array]:
        """The marks."""
        return [self.marks(tile, inputs[0])]

    def leaves(
        self, tile: Tile, inputs: Sequence[Ref], read: Sequence[jax.Array]
    ) -> list[jax.Array]:
        """The marks as integers."""
        del tile, inputs
        return [x.astype(COUNT) for x in read]

    def marks(self, tile: Tile, marks: Ref) -> jax.Array:
        """Whether each element is marked."""
        view = self.views[0]
        here = tile.load(marks, view)
        if self.source == "runs":
            return self.differ(here, tile.load(marks, view, 1)) | tile.before_start(1)
        return here != 0 if self.source == "mask" else (here != 0) | tile.before_start(1)

    def differ(self, x: jax.Array, y: jax.Array) -> jax.Array:
        """Whether elements of different runs are neighbours."""
        return x != y if self.floats is None else heads.differ(x, y, self.floats)

    def store(
        self,
        tile: Tile,
        outputs: Sequence[Ref],
        inputs: Sequence[Ref],
        scanned: Sequence[jax.Array],
    ) -> None:
        """Writes what follows from the count, then the total.

        Where something is written in between, compilers would read the marks a second time.
        """
        [count] = scanned
        self._store_ranks(tile, outputs[0], inputs, count)
        self.store_total(tile, outputs, count)

    def _store_ranks(
        self, tile: Tile, result: Ref, inputs: Sequence[Ref], count: jax.Array
    ) -> None:
        """Writes what is wanted along the axis."""
        if self.emit == "number":
            tile.store(result, count - np.int32(1))
            return
        marks = self.marks(tile, inputs[0])
        before = count - marks.astype(COUNT)
        if self.emit == "before":
            tile.store(result, before)
            return
        place = self.places(tile, inputs[1:], marks, before)
        value = element = tile.element()
        if self.emit == "places":
            value = jnp.where(marks, element, jnp.full_like(element, tile.geometry.n))
        tile.scatter(result, self.size, place, value, where=place < np.int32(self.size))

    def store_total(self, tile: Tile, outputs: Sequence[Ref], count: jax.Array) -> None:
        """Writes how many elements of each row are marked, if that is asked for."""
        if not self.counted:
            return
        g, total = tile.geometry, outputs[-1]

        def write() -> None:
            end = tile.at_end(first=g.reverse)
            tile.scatter(total, 1, jnp.zeros_like(count), count, where=end)

        language.when(tile.index == np.int32(g.tiles - 1), write)

    def places(
        self, tile: Tile, beside: Sequence[Ref], marks: jax.Array, before: jax.Array
    ) -> jax.Array:
        """Where each element goes, with how many marked ones before it."""
        element = tile.element()
        if self.emit == "order":
            return jnp.where(marks, of_rows(tile, beside[0]) + before, element - before)
        # The unmarked element with f unmarked ones before it goes to n-1-f.
        last = np.int32(tile.geometry.n - 1)
        return jnp.where(marks, before, last - element + before)


def kernel(ranking: Ranking, tuned: tuning.Tuning, program: jax.Array, refs: Sequence[Ref]) -> None:
    """One tile of a row, by one program."""
    inputs, outputs = ranking.split(refs)
    tile, words, state = Tile(ranking.geometry, program), refs[-1], lookback.tile_state(ranking)
    part = Part(ranking, tuned.strip, tile, refs)
    total = [_count(ranking, tuned, part, inputs)]
    first = jnp.broadcast_to(tile.index == 0, total[0].shape)
    state.publish(words, tile, AGGREGATE + first.astype(jnp.int32), total)
    rule = OperatorAggregates(ranking.operator, COUNT.type(0))
    search = lookback.Lookback(ranking.operator, state, words, tile, tuned.window, rule)
    prefix = search.prefix(search.peek(tile.index))
    inclusive = rule.combine(prefix, total)
    state.publish(words, tile, jnp.full_like(total[0], PREFIX), inclusive, ~first)
    scan_part(ranking, part, prefix, outputs)


def _count(ranking: Ranking, tuned: tuning.Tuning, part: Part, inputs: Sequence[Ref]) -> jax.Array:
    """The marked elements of a tile."""
    marks = inputs[0]
    by_bytes = ranking.source == "mask" and suits_bytes(marks.dtype, tuned)
    by_quarters = ranking.source == "runs" and _suits_quarters(ranking, marks.dtype, tuned)

    def of_strip(strip: Tile) -> jax.Array:
        if by_quarters:
            return _first_of_runs(ranking, strip, marks)
        exists = strip.mask(0)
        if not by_bytes:
            marked = ranking.marks(strip, marks)
            return (marked if exists is None else marked & exists).astype(COUNT)
        here = strip.load(marks, ranking.views[0])
        if exists is not None:
            here = jnp.where(exists, here, jnp.zeros_like(here))
        return language.count_bytes(here)

    def step(strip: Tile, state: Sequence[jax.Array]) -> list[jax.Array]:
        return [state[0] + of_strip(strip)]

    [counts] = over_strips(part, step, [no_counts(part, by_fours=by_bytes or by_quarters)])
    return language.tile_reduce(ranking.operator, counts, ranking.geometry.axis)


def _suits_quarters(ranking: Ranking, dtype: np.dtype, tuned: tuning.Tuning) -> bool:
    """Whether a thread holds four neighbours of a strip, and rows begin where it does."""
    g = ranking.geometry
    one_row = tuned.rows == tuned.lanes == 1 and (g.outer == 1 or g.n % 4 == 0)
    return one_row and dtype.itemsize <= 4 and tuned.strip >= 128 * tuned.warps and not g.reverse


def _first_of_runs(ranking: Ranking, strip: Tile, values: Ref) -> jax.Array:
    """How many of each four neighbours begin a run; three of four are compared in registers."""
    view, exists = ranking.views[0], strip.mask(0)
    here = language.deinterleave(strip.load(values, view), 4)
    before = [quarters.load(strip, values, view, -1), *here[:3]]
    counts = jnp.zeros(here[0].shape, COUNT)
    for place, (x, y) in enumerate(zip(here, before, strict=True)):
        begins = ranking.differ(x, y)
        if place == 0:
            begins = begins | (quarters.index(strip, 0) == 0)
        if exists is not None:
            begins = begins & (quarters.left(strip, place) >= 0)
        counts = counts + begins.astype(COUNT)
    return counts


def suits_bytes(dtype: np.dtype, tuned: tuning.Tuning) -> bool:
    """Whether marks are counted four at once, of which a thread has as many in a strip."""
    one_row = tuned.rows == tuned.lanes == 1
    return one_row and dtype.itemsize == 1 and tuned.strip >= 128 * tuned.warps


def no_counts(part: Part, *, by_fours: bool) -> jax.Array:
    """The counts of the places of a strip, or of each four, before there are any."""
    shape = part.strip(jnp.int32(0)).geometry.shape
    return jnp.zeros((shape[0] // 4,) if by_fours else shape, COUNT)


def over_strips(
    part: Part,
    step: Callable[[Tile, Sequence[jax.Array]], list[jax.Array]],
    start: Sequence[jax.Array],
) -> list[jax.Array]:
    """What ``step`` makes of a part's strips, one after another.

    The axis may end in the last one. All others are known not to reach its end, and have no masks.
    """
    ends = part.strip(jnp.int32(0)).mask(0) is not None

    def whole(state: tuple[jax.Array, ...]) -> tuple[jax.Array, ...]:
        *found, number = state
        strip = part.strip(number)
        if ends:
            strip = strip.without_ends(of_rows=False)
        return (*step(strip, found), number + np.int32(1))

    count = part.count - np.int32(1) if ends else part.count
    *found, number = lax.while_loop(lambda s: s[-1] < count, whole, (*start, jnp.int32(0)))
    return step(part.strip(number), found) if ends else found


def run(
    ranking: Ranking, cut: launch.Cut, interpret: bool, beside: Sequence[jax.Array], name: str
) -> list[jax.Array]:
    """Runs the kernel, or where tiles have no strips that of a scan."""
    if not cut.tuned.strip:
        return scanning.run(ranking, cut, interpret, beside)
    if ranking.geometry.tiles == 1:
        return reduce_then_scan.run(ranking, cut, interpret, beside)
    body = functools.partial(kernel, ranking, cut.tuned)
    return cut.call(ranking, beside, body, lookback.tile_state(ranking), name, interpret)


def of_rows(tile: Tile, ref: Ref) -> jax.Array:
    """An operand (outer, inner), as it meets each element: one for each row and lane."""
    g = tile.geometry
    if g.rows * g.lanes * g.inner > 1:
        return language.load(ref, tile.outside(g.inner), mask=tile.mask(0))
    return language.load(ref, [(tile.row_block, 1)])


def rank(
    marks: jax.Array,
    unmarked: jax.Array | None,
    *,
    axis: int,
    source: str,
    emit: str,
    reverse: bool,
    size: int,
    counted: bool,
    interpret: bool = False,
    tile: tuning.Tuning | None = None,
) -> list[jax.Array]:
    """Ranks the marked elements along ``axis``, of an array that has elements.

    ``unmarked`` says for ``order`` how many elements of each row are not marked. Where ``counted``,
    how many are is the second result.
    """
    marks = readable(marks, source, interpret=interpret)
    full = marks.shape
    operator = trace_scalars(lax.add, [COUNT] * 2)
    counts = jax.ShapeDtypeStruct(full, COUNT)
    shape = tuning.Shape.of([counts], axis, operator, segmented=False, tile=tile)
    if emit in ("places", "order"):
        tuned = tuning.sends(shape)
    else:
        tuned = tuning.chosen(shape, "auto", tuning.SCAN)
    cut = launch.Cut([marks], full, axis, tuned, reverse=reverse, widths={4})
    ranking = Ranking(
        geometry=cut.geometry,
        operator=operator,
        dtypes=(COUNT,),
        results=(COUNT,),
        identity=None,
        used=(True,),
        linear=False,
        views=cut.views,
        flag_view=None,
        source=source,
        emit=emit,
        size=size,
        counted=counted,
        floats=floats_of(marks),
    )
    beside = [] if unmarked is None else [unmarked.reshape(-1)]
    if emit in ("places", "order"):
        results = run(ranking, cut, interpret, beside, "jscan_rank")
    else:
        results = scanning.run(ranking, cut, interpret, beside)
    return along(results, full, axis, size)


def readable(marks: jax.Array, source: str, *, interpret: bool) -> jax.Array:
    """The marks as kernels read them."""
    if source == "runs":
        return launch.whole_bytes(marks)
    return flagging.one_byte(marks, interpret=interpret)


def floats_of(marks: jax.Array) -> np.dtype | None:
    """The dtype of the marks, if they are floats."""
    return np.dtype(marks.dtype) if jnp.issubdtype(marks.dtype, jnp.floating) else None


def along(
    results: Sequence[jax.Array], full: tuple[int, ...], axis: int, size: int
) -> list[jax.Array]:
    """What was written in its shape: ``size`` elements along the axis, then perhaps the total."""
    sizes = [size, 1][: len(results)]
    return [
        x.reshape(*full[:axis], length, *full[axis + 1 :])
        for x, length in zip(results, sizes, strict=True)
    ]
