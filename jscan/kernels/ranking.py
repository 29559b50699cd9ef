"""Ranks: marked elements counted, and what follows from the count written where it belongs.

    marks     0  1  0  0  1  1
    count     0  1  1  1  2  3      the scan, in int32

    before    0  0  1  1  1  2      how many marked elements come before each
    number   -1  0  0  0  1  2      the number of the last marked element so far
    places    1  4  5 │ 6  6  6     where the marked elements are; behind them what fills, often n
    order     0  2  3 │ 1  4  5     where the unmarked elements are, then where the marked ones are

The first two are written in place. The last two are scattered: an unmarked element of ``places``
writes what fills, from the end backwards, so that every word is written once; ``order``
needs to be told how many elements are unmarked. How many are marked is one more result, if it is
asked for: the count at the end of the row, which its last strip has.

A long tile whose places are scattered is walked by strips, which take few registers. Its marks are
counted strip by strip, and read again behind the count before the tile, by which time they are in a
cache:

    strips      count │ count │ count ─► publish, look back ─► scan, write │ scan, write │ ...
    bits        all at once, count    ─► publish, look back ─► send few, or scan, write │ ...

Marks that send to ``places``, of rows alone, are counted as bits, which are held: where they are
few, they send by these (`jscan.kernels.sending`), and no mark is read again.
"""

from __future__ import annotations

import functools
from collections.abc import Sequence

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

from jscan.kernels import (
    flagging,
    language,
    launch,
    lookback,
    quarters,
    reduce_then_scan,
    scanning,
    sending,
    tuning,
)
from jscan.kernels.forms import OperatorAggregates
from jscan.kernels.language import Ref
from jscan.kernels.operator import trace_scalars
from jscan.kernels.ranks import COUNT, Ranking
from jscan.kernels.state import AGGREGATE, PREFIX
from jscan.kernels.strips import Part, over_strips, scan_part
from jscan.kernels.tile import Tile


def kernel(ranking: Ranking, tuned: tuning.Tuning, program: jax.Array, refs: Sequence[Ref]) -> None:
    """One tile of a row, by one program."""
    inputs, outputs = ranking.split(refs)
    tile, words, state = Tile(ranking.geometry, program), refs[-1], lookback.tile_state(ranking)
    part = Part(ranking, tuned.strip, tile, refs)
    held = _suits_sending(ranking, inputs[0].dtype, tuned)
    bits = ranking.bits(tile, inputs[0]) if held else None
    total = [_count(ranking, tuned, part, inputs) if bits is None else sending.count(bits)]
    first = jnp.broadcast_to(tile.index == 0, total[0].shape)
    state.publish(words, tile, AGGREGATE + first.astype(jnp.int32), total)
    rule = OperatorAggregates(ranking.operator, COUNT.type(0))
    search = lookback.Lookback(ranking.operator, state, words, tile, tuned.window, rule)
    prefix = search.prefix(search.peek(tile.index))
    inclusive = rule.combine(prefix, total)
    state.publish(words, tile, jnp.full_like(total[0], PREFIX), inclusive, ~first)
    if bits is None:
        scan_part(ranking, part, prefix, outputs)
        return
    before = jnp.where(first, jnp.zeros_like(total[0]), prefix[0])
    few = total[0] * np.int32(ranking.few) <= np.int32(ranking.geometry.length)
    lax.cond(
        few | (before >= np.int32(ranking.size)),
        lambda: _send_few(ranking, part, bits, before, before + total[0], outputs),
        lambda: scan_part(ranking, part, prefix, outputs),
    )


def _suits_sending(ranking: Ranking, dtype: np.dtype, tuned: tuning.Tuning) -> bool:
    """Whether the marks of a tile can be held as bits, and sent by these."""
    g, by, view = ranking.geometry, sending.neighbours(dtype), ranking.views[0]
    one_row = tuned.rows == tuned.lanes == 1 and not (g.reverse or g.far)
    own = view.shape == (g.outer, g.n, g.inner)
    in_order = sending.suits_rows(g.outer, g.n, g.inner, own=own, by=by)
    of_bits = ranking.source == "runs" or dtype.itemsize == 1
    groups = g.length // (by * tuned.warps)
    fits = 32 <= groups <= sending.MOST_GROUPS
    return ranking.emit == "places" and one_row and in_order and of_bits and fits


def _send_few(
    ranking: Ranking,
    part: Part,
    bits: jax.Array,
    before: jax.Array,
    until: jax.Array,
    outputs: Sequence[Ref],
) -> None:
    """Sends the marked elements of a tile, and fills as many places as it has others."""
    g, tile, inputs = ranking.geometry, part.tile, part.inputs
    fetch = functools.partial(ranking.fetch, inputs, tile)
    put = functools.partial(ranking.put, outputs, tile)
    bits = jnp.where(before < np.int32(ranking.size), bits, jnp.zeros_like(bits))
    sending.send(bits, before, g.length // bits.shape[0], ranking.size, fetch, put)
    start = tile.index * np.int32(g.length)
    end = jnp.minimum(start + np.int32(g.length), np.int32(g.n))
    # The unmarked element with f of them before it fills n-1-f.
    first, last = np.int32(g.n) - (end - until), np.int32(g.n) - (start - before)
    last = jnp.minimum(last, np.int32(ranking.size))
    at_once = part.strip(jnp.int32(0)).geometry.length

    def fill(place: jax.Array, where: jax.Array) -> None:
        put(place, where, ranking.fillers(inputs, place.shape), scattered=False)

    sending.fill(first, last, at_once, fill)
    if ranking.counted:

        def write() -> None:
            language.store(outputs[-1], [(tile.row_block, 1)], until)

        language.when(tile.index == np.int32(g.tiles - 1), write)


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
    """How many of each four neighbours begin a run."""
    first, *others = ranking.begin_runs(strip, values, 4)
    counts = (first | (quarters.index(strip, 0) == 0)).astype(COUNT)
    for begins in others:
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


def rank(
    marks: jax.Array,
    unmarked: jax.Array | None,
    *,
    axis: int,
    source: str,
    emit: str,
    reverse: bool,
    size: int,
    fill: int,
    counted: bool,
    interpret: bool = False,
    tile: tuning.Tuning | None = None,
) -> list[jax.Array]:
    """Ranks the marked elements along ``axis``, of an array that has elements.

    ``unmarked`` says for ``order`` how many elements of each row are not marked; ``fill`` stands
    behind ``places``. Where ``counted``, how many are is the second result.
    """
    marks = readable(marks, source, interpret=interpret)
    full = marks.shape
    operator = trace_scalars(lax.add, [COUNT] * 2)
    counts = jax.ShapeDtypeStruct(full, COUNT)
    shape = tuning.Shape.of([counts], axis, operator, segmented=False, tile=tile)
    if emit in ("places", "order"):
        tuned = tuning.sends(shape, size=size, width=marks.dtype.itemsize)
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
        filler=fill,
        counted=counted,
        floats=floats_of(marks),
    )
    beside = [] if unmarked is None else [unmarked.reshape(-1)]
    if emit in ("places", "order"):
        results = run(ranking, cut, interpret, beside, "jscan_rank")
    else:
        results = scanning.run(ranking, cut, interpret, beside)
    return along(results, full, axis, [size, 1][: 1 + counted])


def readable(marks: jax.Array, source: str, *, interpret: bool) -> jax.Array:
    """The marks as kernels read them."""
    if source == "runs":
        return launch.whole_bytes(marks)
    return flagging.one_byte(marks, interpret=interpret)


def floats_of(marks: jax.Array) -> np.dtype | None:
    """The dtype of the marks, if they are floats."""
    return np.dtype(marks.dtype) if jnp.issubdtype(marks.dtype, jnp.floating) else None


def along(
    results: Sequence[jax.Array], full: tuple[int, ...], axis: int, sizes: Sequence[int]
) -> list[jax.Array]:
    """What was written in its shape: each result has its size along the axis."""
    return [
        x.reshape(*full[:axis], length, *full[axis + 1 :])
        for x, length in zip(results, sizes, strict=True)
    ]
