"""Reductions by segments: one pass that writes each segment's total once.

    keys     4  4  4 │ 5  5 │ 7  7  7  7 │ 8 ...     the segment of each element
    values   a  b  c │ d  e │ f  g  h  i │ j ...
             └─ strip ─┘└─ strip ─┘└─ strip ─┘       one tile: strips, read one after another
                   ▼       ▼            ▼
    results       [4]     [5]          [7]           each total is written at its segment's number

A program walks a tile strip by strip and carries the total of the run that is not over yet. Within
a strip the keys are scanned beside the values, (kx, x) ⊕ (ky, y) = (ky, x ⊕ y if kx = ky else y);
elements whose neighbour has another key end a run, and their totals are written.

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
from jax.experimental import pallas as pl
from jax.extend import core

from jscan.kernels import lookback, primitives
from jscan.kernels.keys import KEY, Keys
from jscan.kernels.operator import commuting_identity, trace_scalars
from jscan.kernels.state import AGGREGATE, PREFIX, TileState
from jscan.kernels.tile import Geometry, Tile, View, take


@functools.lru_cache(maxsize=1024)
def keyed(operator: core.ClosedJaxpr) -> core.ClosedJaxpr:
    """The operator on (key, values since the key last changed)."""
    leaves = len(operator.out_avals)
    apply = core.jaxpr_as_fun(operator)

    def by_key(*scalars: Any) -> tuple[Any, ...]:
        (kx, *x), (ky, *y) = scalars[: leaves + 1], scalars[leaves + 1 :]
        combined = apply(*x, *y)
        return ky, *(lax.select(kx == ky, c, b) for b, c in zip(y, combined, strict=True))

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

    @property
    def result_size(self) -> int:
        """How many elements each result has."""
        return self.geometry.outer * self.keys.num_segments * self.geometry.inner

    @property
    def state(self) -> TileState:
        """The layout of the state words."""
        g = self.geometry
        return TileState(self.dtypes, g.outer, g.tiles, g.inner)

    def fills(self) -> list[Any]:
        """The identity, for segments that have no elements."""
        if self.keys.kind == "whole":
            return []
        assert self.identity is not None
        pairs = zip(self.identity, self.results, self.used, strict=True)
        return [np.asarray(i).astype(d)[()] for i, d, used in pairs if used]

    def combine(self, left: Sequence[jax.Array], right: Sequence[jax.Array]) -> list[jax.Array]:
        """Values ⊕ values; ``left`` is broadcast to the shape of ``right``."""
        shape = right[0].shape
        left = [jnp.broadcast_to(x, shape) for x in left]
        return primitives.evaluate(self.operator, [*left, *right])


@dataclasses.dataclass
class Window:
    """What a search asks of a tile at work: how aggregates combine."""

    one: Reduction
    identity: Any

    def fold(self, values: jax.Array) -> jax.Array:
        """The total of a window of aggregates, in any order."""
        return primitives.tile_reduce(self.one.operator, values, 0)

    def combine(self, left: list[jax.Array], right: list[jax.Array]) -> list[jax.Array]:
        """One aggregate behind another."""
        return primitives.evaluate(self.one.operator, [*left, *right])


def kernel(one: Reduction, window: int, refs: Sequence[Any]) -> None:
    """One tile of a row, by one program."""
    g, keys = one.geometry, one.keys
    inputs = refs[: len(one.views)]
    described = refs[len(one.views) : len(one.views) + keys.operands]
    outputs = refs[len(one.views) + keys.operands :]
    tile = Tile(g, pl.program_id(0))
    strips = Tile(dataclasses.replace(g, length=one.strip), pl.program_id(0))
    lanes = (g.lanes,) if g.lanes > 1 else ()
    before = keys.before(tile, described)
    opened = tile.index > 0  # whether the first run may have begun before the tile

    def scanned(strip: Tile, carry_key: jax.Array) -> tuple[jax.Array, list[jax.Array], jax.Array]:
        """The keys of a strip, its values scanned by key, and where runs end."""
        values = [
            strip.load(ref, view).astype(dtype)
            for ref, view, dtype in zip(inputs, one.views, one.dtypes, strict=True)
        ]
        key = keys.load(strip, described, carry_key)
        leaves = [strip.spread(key), *values]
        _, *values = primitives.tile_scan(keyed(one.operator), leaves, g.axis, reverse=False)
        return key, values, keys.ends(strip, described, key)

    def write(strip: Tile, key: jax.Array, values: Sequence[jax.Array], where: jax.Array) -> None:
        """Writes totals where they belong."""
        # As numbers without a sign, negative ones are too large.
        limit = primitives.unsigned(np.uint32(keys.num_segments))
        inside = lax.bitcast_convert_type(key, jnp.uint32) < limit
        kept = [v for v, used in zip(values, one.used, strict=True) if used]
        for ref, value in zip(outputs, kept, strict=False):
            strip.scatter(ref, keys.num_segments, strip.spread(key), value, strip.spread(where & inside))

    if g.tiles == 1 and one.strip == g.length:
        key, values, ends = scanned(strips, jnp.int32(-1))
        write(strips, key, values, ends)
        return

    def walk(number: jax.Array, carry: tuple[jax.Array, ...]) -> tuple[jax.Array, ...]:
        carry_key, found, *rest = carry
        totals, first = rest[: len(one.dtypes)], rest[len(one.dtypes) :]
        strip = strips.at(tile.index * np.int32(g.length // one.strip) + number)
        key, values, ends = scanned(strip, carry_key)
        continues = strip.spread((key == _across(carry_key)) & (number > 0))
        combined = one.combine([_across(t) for t in totals], values)
        values = [jnp.where(continues, c, v) for c, v in zip(combined, values, strict=True)]
        waits = (key == _across(before)) & opened
        write(strip, key, values, ends & ~waits)
        over = strip.spread(ends & waits) & strip.exists()
        here = jnp.max(over.astype(jnp.int32), axis=g.axis) > 0
        first = [
            jnp.where(here, take(v, over, g.axis), f) for v, f in zip(values, first, strict=True)
        ]
        [last] = strip.last([key])
        return (last, found | here, *strip.last(values), *first)

    count = jnp.minimum(
        np.int32(g.length // one.strip),
        lax.div(
            np.int32(g.n + one.strip - 1) - tile.index * np.int32(g.length), np.int32(one.strip)
        ),
    )
    blank = [jnp.zeros(lanes, d) for d in one.dtypes]
    initial = (before, jnp.zeros(lanes, jnp.bool_), *blank, *blank)
    last, found, *rest = lax.fori_loop(np.int32(0), count, walk, initial)
    totals, first = rest[: len(one.dtypes)], rest[len(one.dtypes) :]
    if g.tiles == 1:
        return
    _finish(one, window, tile, outputs, before, last, found, totals, first)


def _finish(
    one: Reduction,
    window: int,
    tile: Tile,
    outputs: Sequence[Any],
    before: jax.Array,
    last: jax.Array,
    found: jax.Array,
    totals: list[jax.Array],
    first: list[jax.Array],
) -> None:
    """Publishes the last run, and finds what the first run amounted to before the tile."""
    keys, words, state = one.keys, outputs[-1], one.state
    restarts = jnp.broadcast_to((last != before) | (tile.index == 0), totals[0].shape)
    state.publish(words, tile, AGGREGATE + restarts.astype(jnp.int32), totals)
    wanted = (found | ~restarts) & (tile.index > 0)

    def search() -> None:
        form = Window(one, commuting_identity(one.operator))
        looking = lookback.Lookback(one, state, words, tile, window, form)
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

    pl.when(jnp.max(wanted.astype(jnp.int32)) > 0)(search)


def _across(x: jax.Array) -> jax.Array:
    """One value a lane, as it meets a tile; or a scalar."""
    return x[None, :] if x.ndim else x
