"""The single-pass scan with decoupled lookback (Merrill and Garland 2016).

    tile   load ─► reduce ─► publish AGGREGATE ─► scan ─► look back ─► publish PREFIX ─► store
    state  ... [P] [P] [A] [A] [A] [ ] ...          A: a tile's own total
                    ▲───────────┘                   P: the total up to and with the tile
            window of tiles, the nearest one last

An operator that does not commute is not reduced, nor is a segmented tile, where that costs more
than it hides: the last element of the scanned tile is the aggregate.

A program reads a window of its predecessors' words at once, one tile a lane, waits until every tile
after the window's last PREFIX has published, scans the window in order (the operator need not
commute) and goes on to the window before it if there was no PREFIX.

A tile that holds a restart publishes its aggregate as PREFIX at once: what comes before it cannot
matter to its successors, so nobody looks past it. The first tile of a row does the same, and has
nothing to wait for.

Forward progress: a program waits only for programs of lower number, which the hardware dispatches
first.

A window has as many words as the program has lanes, each its own to read: all warps of a program
see one state, or they would go different ways. A program of one warp may look at fewer.
"""

from __future__ import annotations

import functools
from collections.abc import Sequence
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax
from jax.extend import core

from jscan.kernels import language
from jscan.kernels.description import Scan
from jscan.kernels.forms import Aggregates, whole
from jscan.kernels.held import worked
from jscan.kernels.language import Ref
from jscan.kernels.operator import FLAG, flag_value
from jscan.kernels.registers import constant, take
from jscan.kernels.state import AGGREGATE, EMPTY, PREFIX, TileState
from jscan.kernels.steps import Step
from jscan.kernels.strips import Part, scan_part
from jscan.kernels.tile import Tile
from jscan.kernels.tuning import Tuning


def tile_state(scan: Scan) -> TileState:
    """The layout of a scan's state words."""
    g = scan.geometry
    return TileState(scan.dtypes, g.outer, g.tiles, g.inner)


def kernel(
    scan: Scan, tuned: Tuning, program: jax.Array, refs: Sequence[Ref], *, walks: bool
) -> None:
    """One tile of a row, by one program.

    Where the axis is rows one behind the other, a tile in which one begins is walked by strips if
    the scan ``walks``.
    """
    tile = Tile(scan.geometry, program)
    walk = functools.partial(_in_strips, tuned, refs) if walks else None
    scan.on_tile(tile, functools.partial(_one_tile, tuned, refs), walk)


def _one_tile(tuned: Tuning, refs: Sequence[Ref], scan: Scan, tile: Tile) -> None:
    inputs, outputs = scan.split(refs)
    words, state = refs[-1], tile_state(scan)

    with Step.LOAD.marked():
        work = worked(scan, tile, inputs, tuned)
        complete = jnp.broadcast_to(tile.index == 0, work.aggregate[0].shape)
        if work.restarts is not None:
            complete = complete | work.restarts
    with Step.PUBLISH_AGGREGATE.marked():
        state.publish(words, tile, AGGREGATE + complete.astype(jnp.int32), work.aggregate)

    with Step.LOOK_BACK.marked():
        search = Lookback(scan.operator, state, words, tile, tuned.window, work)
        seen = search.peek(tile.index)
    with Step.SCAN.marked():
        work.scan()
    with Step.LOOK_BACK.marked():
        prefix = search.prefix(seen)

    with Step.PUBLISH_PREFIX.marked():
        inclusive = work.combine(prefix, work.aggregate)
        tag = jnp.full_like(complete, PREFIX, jnp.int32)
        state.publish(words, tile, tag, inclusive, ~complete)
    with Step.STORE.marked():
        work.store(outputs, prefix)


def _in_strips(tuned: Tuning, refs: Sequence[Ref], scan: Scan, tile: Tile) -> None:
    """A tile with one restart, scanned strip by strip: that takes few registers.

    Tiles behind it wait, so that its total is taken from all of it at once.
    """
    inputs, outputs = scan.split(refs)
    words, state = refs[-1], tile_state(scan)
    rule = whole(scan, tile, scan.since_restart(tile, inputs))
    state.publish(words, tile, jnp.int32(PREFIX), rule.aggregate)
    search = Lookback(scan.operator, state, words, tile, tuned.window, rule)
    prefix = search.prefix(search.peek(tile.index))
    scan_part(scan, Part(scan, tuned.strip, tile, refs), [jnp.zeros((), FLAG), *prefix], outputs)


PAUSE = 100
"""Nanoseconds between two looks at a window that is not complete."""


class Look(NamedTuple):
    """What a window of tiles had published when it was read."""

    tags: jax.Array
    values: Sequence[jax.Array]


class Lookback:
    """A tile's search for the total of everything before it in its row."""

    def __init__(
        self,
        operator: core.ClosedJaxpr,
        state: TileState,
        words: Ref,
        tile: Tile,
        window: int,
        aggregates: Aggregates,
    ):
        self.operator, self.state, self.words, self.tile = operator, state, words, tile
        self.window, self.aggregates = window, aggregates

    def peek(self, end: jax.Array) -> Look:
        """The window of tiles before ``end``, as it is now."""
        numbers = end - np.int32(self.window) + lax.broadcasted_iota(jnp.int32, (self.window,), 0)
        tags, values = self.state.peek(self.words, self.tile, numbers)
        return Look(tags, tuple(values))

    def again(self, seen: Look, end: jax.Array) -> Look:
        """Another look at a window that was not complete."""
        del seen
        return self.peek(end)

    def prefix(self, seen: Look) -> list[jax.Array]:
        """The total, given a first look at the nearest window.

        No value is defined for the first tile of a row.
        """
        first = jnp.broadcast_to(self.tile.index == 0, self.tile.geometry.per_lane)
        total, complete = self._total(self.tile.index, first, seen)

        def unfinished(carry: _Search) -> jax.Array:
            return jnp.min(carry.done.astype(jnp.int32)) == 0

        def step(carry: _Search) -> _Search:
            end = carry.end - np.int32(self.window)
            total, complete = self._total(end, carry.done, self.peek(end))
            further = self.aggregates.combine(total, list(carry.total))
            pairs = zip(carry.total, further, strict=True)
            kept = tuple(jnp.where(carry.done, t, f) for t, f in pairs)
            return _Search(kept, end, carry.done | complete)

        start = _Search(tuple(total), self.tile.index, complete | first)
        return list(lax.while_loop(unfinished, step, start).total)

    def _place(self) -> jax.Array:
        shape = (self.window, *self.tile.geometry.per_lane)
        return lax.broadcasted_iota(jnp.int32, shape, 0)

    def _nearest(self, tags: jax.Array) -> tuple[jax.Array, jax.Array]:
        """The place of the nearest tile that is no AGGREGATE, or -1; and whether it is EMPTY."""
        code = 2 * self._place() + (tags == EMPTY).astype(jnp.int32)
        code = jnp.where(tags == AGGREGATE, jnp.full_like(code, -2), code)
        nearest = jnp.max(code, axis=0)
        return lax.shift_right_arithmetic(nearest, jnp.full_like(nearest, 1)), (nearest & 1) != 0

    def _total(
        self, end: jax.Array, done: jax.Array, seen: Look
    ) -> tuple[list[jax.Array], jax.Array]:
        """The total of the window before ``end`` since its last PREFIX, and whether it has one.

        Waits until all of these tiles have published. A lane that is ``done`` is not waited for.
        """
        look, nearest = self._awaited(end, done, seen)
        if self.aggregates.identity is None:
            return self._scanned(look), nearest >= 0
        [values] = look.values
        return [self._folded(values, nearest)], nearest >= 0

    def _awaited(self, end: jax.Array, done: jax.Array, seen: Look) -> tuple[Look, jax.Array]:
        """The window before ``end`` when it is complete, and the place of its last PREFIX or -1."""

        def judged(look: Look) -> _Poll:
            nearest, empty = self._nearest(look.tags)
            return _Poll(look, nearest, jnp.max((empty & ~done).astype(jnp.int32)) > 0)

        def poll(carry: _Poll) -> _Poll:
            return judged(self.again(carry.look, language.pause(end, PAUSE)))

        look, nearest, _ = lax.while_loop(lambda carry: carry.waits, poll, judged(seen))
        return look, nearest

    def _folded(self, values: jax.Array, nearest: jax.Array) -> jax.Array:
        """The total from the place ``nearest`` on, in any order."""
        since = self._place() >= self.tile.along_positions(nearest)
        identity = constant(values.shape, self.aggregates.identity)
        return self.aggregates.fold(jnp.where(since, values, identity))

    def _scanned(self, look: Look) -> list[jax.Array]:
        """The total since the last PREFIX, in order: the scan starts anew there, as at a head."""
        return self._scanned_to(look, np.int32(self.window - 1))

    def _scanned_to(self, look: Look, last: np.int32 | jax.Array) -> list[jax.Array]:
        """The same up to and with the ``last`` place."""
        heads = (look.tags == PREFIX).astype(FLAG)
        operator = flag_value(self.operator)
        _, *scanned = language.tile_scan(operator, [heads, *look.values], 0, reverse=False)
        edge = self._place() == last
        return [take(v, edge, 0) for v in scanned]


class _Search(NamedTuple):
    """How far a search has come."""

    total: Sequence[jax.Array]
    end: jax.Array  # of the window that was seen last
    done: jax.Array  # whether the total goes back to a PREFIX, for each lane


class _Poll(NamedTuple):
    """A look, and whether it has to be repeated.

    Tensors come first: Triton's layout pass takes a loop's operands to be numbered like its
    results, of which the unused ones fall away.
    """

    look: Look
    nearest: jax.Array
    waits: jax.Array
