"""Reductions in one pass: what tiles tell each other of the runs that they share.

    tile     read, and write the totals of its runs ─► publish what the last run amounts to
    keys     4  4  4 │ 5  5    5  5  5  5    5  5 │ 7  7
             └─── [P] ────┘    └── [A] ─┘    └── [P] ──┘
                   ▲─────────────────┴────────────┘          the third tile finds the total of 5

A tile's last run is published as AGGREGATE if it began before the tile, and as PREFIX if not. Where
the tile's first run began before it, its total is written when what is before has been found. In
lookback a tile whose only run goes on behind it looks back as well, and publishes the PREFIX.

In groups that are fixed (`jscan.kernels.repeatable`) it does not: the last tile of a group tells
what its group amounts to, and all that wait are these and the tiles in which a run ends. Nothing of
the tile is held in registers while a program waits.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import jax
import jax.numpy as jnp
import numpy as np

from jscan.kernels import language
from jscan.kernels.forms import OperatorAggregates
from jscan.kernels.language import Ref
from jscan.kernels.lookback import Lookback
from jscan.kernels.operator import commuting_identity
from jscan.kernels.reduction import Reduction, Runs, StripWalk
from jscan.kernels.repeatable import GroupSearch, Levels
from jscan.kernels.state import AGGREGATE, PREFIX, TileState
from jscan.kernels.tile import Tile


def tile_state(reduction: Reduction, window: int) -> TileState:
    """The layout of the state words."""
    g = reduction.geometry
    words = Levels.of(g.tiles, window, g.inner).words if reduction.fixed else g.tiles
    return TileState(reduction.dtypes, g.outer, words, g.inner, tickets=int(reduction.chained))


def kernel(reduction: Reduction, window: int, program: jax.Array, refs: Sequence[Ref]) -> None:
    """One tile of a row, by one program."""
    g, state = reduction.geometry, tile_state(reduction, window)
    number = state.take_ticket(refs[-1]) if reduction.chained else program
    walk = StripWalk(reduction, Tile(g, number), refs)
    if g.tiles == 1 and reduction.strip == g.length:
        walk.only_strip()
        return
    runs = walk.all_strips()
    if g.tiles > 1:
        finish = _in_groups if reduction.fixed else _looking_back
        finish(walk, state, window, refs[-1], runs)


def _restarts(walk: StripWalk, runs: Runs, asks: jax.Array) -> jax.Array:
    """Whether the last run begins in the tile, or nothing is asked of what is before it."""
    return jnp.broadcast_to((runs.key != walk.before) | ~asks, runs.last[0].shape)


def _aggregates(reduction: Reduction) -> OperatorAggregates:
    return OperatorAggregates(reduction.operator, commuting_identity(reduction.operator))


def _looking_back(walk: StripWalk, state: TileState, window: int, words: Ref, runs: Runs) -> None:
    """Publishes the last run, and looks back for the first one's total, if that is wanted."""
    reduction, tile, before = walk.reduction, walk.tile, walk.before
    # No tile has published anything of a segment that is not reduced here.
    asks = (walk.is_long(before, before >= 0) if reduction.long else True) & (tile.index > 0)
    restarts = _restarts(walk, runs, asks)
    told = restarts if reduction.chained else None  # what is no PREFIX is not for a neighbour
    state.publish(words, tile, AGGREGATE + restarts.astype(jnp.int32), runs.last, told)

    def end_first_run() -> None:
        totals = _aggregates(reduction)
        search = Lookback(reduction.operator, state, words, tile, window, totals)
        prefix = search.prefix(search.peek(tile.index))
        # A first run that is not over is the last one.
        pairs = zip(runs.first, runs.last, strict=True)
        pending = [jnp.where(runs.first_over, f, t) for f, t in pairs]
        total = totals.combine(prefix, pending)
        tag = jnp.full_like(restarts, PREFIX, jnp.int32)
        state.publish(words, tile, tag, total, ~restarts)
        _write_first(walk, runs, total)

    _when_any((runs.first_over | ~restarts) & asks, end_first_run)


def _in_groups(walk: StripWalk, state: TileState, window: int, words: Ref, runs: Runs) -> None:
    """The same where groups are fixed."""
    reduction, tile, totals = walk.reduction, walk.tile, _aggregates(walk.reduction)
    search = GroupSearch(reduction.operator, state, words, tile, window, totals)
    search.tell([*runs.last], _restarts(walk, runs, tile.index > 0))

    def end_first_run() -> None:
        prefix = search.prefix(search.peek(tile.index))
        _write_first(walk, runs, totals.combine(prefix, [*runs.first]))

    _when_any(runs.first_over & (tile.index > 0), end_first_run)


def _when_any(wanted: jax.Array, work: Callable[[], None]) -> None:
    language.when(jnp.max(wanted.astype(jnp.int32)) > 0, work)


def _write_first(walk: StripWalk, runs: Runs, total: Sequence[jax.Array]) -> None:
    """Writes the total of the first run, where that is over."""
    segments, before = walk.keys.num_segments, walk.before
    inside = (before >= 0) & (before < np.int32(segments))
    for ref, value in walk.results(total):
        walk.tile.store_row(ref, segments, before, value, runs.first_over & inside)
