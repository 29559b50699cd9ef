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
from typing import Any, Protocol

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax
from jax.extend import core

from jscan.kernels import language
from jscan.kernels.description import Scan
from jscan.kernels.forms import form
from jscan.kernels.operator import FLAG, flag_value
from jscan.kernels.registers import constant, take
from jscan.kernels.state import AGGREGATE, EMPTY, PREFIX, TileState
from jscan.kernels.steps import Step
from jscan.kernels.tile import Tile

Carry = tuple[jax.Array, ...]


def tile_state(scan: Scan) -> TileState:
    """The layout of a scan's state words."""
    g = scan.geometry
    return TileState(scan.dtypes, g.outer, g.tiles, g.inner)


def kernel(scan: Scan, window: int, program: jax.Array, refs: Sequence[Any]) -> None:
    """One tile of a row, by one program."""
    tile = Tile(scan.geometry, program)
    scan.on_tile(tile, functools.partial(_one_tile, scan, window, refs))


def _one_tile(scan: Scan, window: int, refs: Sequence[Any], tile: Tile) -> None:
    inputs, outputs = scan.split(refs)
    words, state = refs[-1], tile_state(scan)

    with Step.LOAD.marked():
        one = form(scan, tile, inputs)
        complete = jnp.broadcast_to(tile.index == 0, one.aggregate[0].shape)
        if one.restarts is not None:
            complete = complete | one.restarts
    with Step.PUBLISH_AGGREGATE.marked():
        state.publish(words, tile, AGGREGATE + complete.astype(jnp.int32), one.aggregate)

    with Step.LOOK_BACK.marked():
        search = Lookback(scan.operator, state, words, tile, window, one)
        seen = search.peek(tile.index)
    with Step.SCAN.marked():
        one.scan()
    with Step.LOOK_BACK.marked():
        prefix = search.prefix(seen)

    with Step.PUBLISH_PREFIX.marked():
        inclusive = one.combine(prefix, one.aggregate)
        tag = jnp.full_like(complete, PREFIX, jnp.int32)
        state.publish(words, tile, tag, inclusive, ~complete)
    with Step.STORE.marked():
        one.store(outputs, prefix)


PAUSE = 100
"""Nanoseconds between two looks at a window that is not complete."""


class Aggregates(Protocol):
    """How aggregates combine."""

    identity: Any

    def fold(self, values: jax.Array) -> jax.Array:
        """The total of a window of aggregates, in any order."""

    def combine(self, left: list[jax.Array], right: list[jax.Array]) -> list[jax.Array]:
        """One aggregate behind another."""


class Lookback:
    """A tile's search for the total of everything before it in its row."""

    def __init__(
        self,
        operator: core.ClosedJaxpr,
        state: TileState,
        words: Any,
        tile: Tile,
        window: int,
        one: Aggregates,
    ):
        self.operator, self.state, self.words, self.tile = operator, state, words, tile
        self.window, self.form = window, one

    def peek(self, end: jax.Array) -> tuple[jax.Array, ...]:
        """The tags and values of the window of tiles before ``end``, as they are now."""
        numbers = end - np.int32(self.window) + lax.broadcasted_iota(jnp.int32, (self.window,), 0)
        tags, values = self.state.peek(self.words, self.tile, numbers)
        return (tags, *values)

    def prefix(self, seen: tuple[jax.Array, ...]) -> list[jax.Array]:
        """The total, given a first look at the nearest window.

        No value is defined for the first tile of a row.
        """
        first = jnp.broadcast_to(self.tile.index == 0, self.tile.geometry.per_lane)
        folded, done = self._total(self.tile.index, first, seen)

        def unfinished(carry: Carry) -> jax.Array:
            return jnp.min(carry[-1].astype(jnp.int32)) == 0

        def step(carry: Carry) -> Carry:
            *prefix, end, done = carry
            end = end - np.int32(self.window)
            folded, complete = self._total(end, done, self.peek(end))
            further = self.form.combine(folded, prefix)
            prefix = [jnp.where(done, p, f) for p, f in zip(prefix, further, strict=True)]
            return (*prefix, end, done | complete)

        carry = (*folded, self.tile.index, done | first)
        *prefix, _, _ = lax.while_loop(unfinished, step, carry)
        return list(prefix)

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
        self, end: jax.Array, done: jax.Array, seen: tuple[jax.Array, ...]
    ) -> tuple[list[jax.Array], jax.Array]:
        """Waits for the window before ``end``; its total since its last PREFIX, and if it has one.

        A lane that is ``done`` is not waited for.
        """

        def look(tags: jax.Array) -> tuple[jax.Array, jax.Array]:
            nearest, empty = self._nearest(tags)
            return nearest, jnp.max((empty & ~done).astype(jnp.int32)) > 0

        def poll(carry: Carry) -> Carry:
            del carry
            seen = self.peek(language.pause(end, PAUSE))
            return (*seen, *look(seen[0]))

        # Tensors come first: Triton's layout pass takes a loop's operands to be numbered like its
        # results, of which the unused ones fall away.
        tags, *values, nearest, _ = lax.while_loop(lambda c: c[-1], poll, (*seen, *look(seen[0])))
        identity = self.form.identity
        if identity is not None:
            [value] = values
            since = self._place() >= self.tile.along_positions(nearest)
            value = jnp.where(since, value, constant(value.shape, identity))
            return [self.form.fold(value)], nearest >= 0
        complete = (tags == PREFIX).astype(FLAG)
        operator = flag_value(self.operator)
        _, *folded = language.tile_scan(operator, [complete, *values], 0, reverse=False)
        edge = self._place() == np.int32(self.window - 1)
        return [take(v, edge, 0) for v in folded], nearest >= 0
