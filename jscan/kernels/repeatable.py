"""The single-pass scan whose groups are fixed: the same bits on every run.

    tiles         [t][t][t][t] [t][t][t][t] [t][t][t][t] [t][t][t][t] [t][t] ...
    groups        └─── [g] ──┘ └─── [g] ──┘ └─── [g] ──┘ └─── [g] ──┘
    supergroups   └─────────────────[p]─────────────────────────[p]─┘
                                     │                  ▲       │
                                     └──────────────────────────┘  one link of the chain

    tile   load ─► reduce ─► publish the total ─► scan ─► look at the tiles before it in its group
             ─► publish the group's total, as its last tile
             ─► look at the groups before it in its supergroup, and at the supergroup's prefix
             ─► publish the next prefix, as the supergroup's last tile ─► store

What comes before a tile is always

    (prefix of its supergroup) ⊕ ((fold of the groups before it) ⊕ (fold of the tiles before it))

where a fold has one shape for each number of words. In `jscan.kernels.lookback` a tile takes the
nearest prefix that there is, so that its groups depend on timing; here every word is written once,
and there is nothing to choose. The chain of prefixes has one link for each supergroup, and all that
is on it is one combination. All three windows are read at once, before the program waits for any.

A total that holds a restart is published as PREFIX, those of other tiles and groups as AGGREGATE:
nobody looks past a restart, nor waits for what is before it, so that a restart cuts the fold at the
same place whatever the timing. The row's first tile and group count as such.

Forward progress: a program waits only for programs of lower number, which the hardware dispatches
first, as in `jscan.kernels.lookback`. Totals of groups and prefixes are written by the last of the
tiles that they are of.
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

from jscan.kernels.description import Scan
from jscan.kernels.forms import Aggregates, Form, form, whole
from jscan.kernels.held import HeldTile, may_hold
from jscan.kernels.language import Ref
from jscan.kernels.lookback import Look, Lookback
from jscan.kernels.operator import FLAG
from jscan.kernels.reduce_then_scan import Part, scan_part
from jscan.kernels.registers import constant
from jscan.kernels.state import AGGREGATE, TileState
from jscan.kernels.steps import Step
from jscan.kernels.tile import Tile
from jscan.kernels.tuning import Tuning

TILES = 32
"""The most tiles of a group: a word for each lane of a warp."""
GROUPS = 8
"""The most groups of a supergroup. The chain wants many short links: 2^28 float32 elements took 543
µs with groups of 32 tiles in eights, 549 in sixteens, 566 in thirty-twos; lookback 517 (a sketch on
an H200, 2026-11-22; this kernel has not been measured)."""


class Groups(NamedTuple):
    """How tiles are grouped, and where the words of groups are: behind those of the tiles."""

    tiles: int  # of a group
    groups: int  # of a supergroup
    first_group: int  # the number of a word
    first_prefix: int
    words: int  # of a row and a piece

    @classmethod
    def of(cls, scan: Scan, tuned: Tuning) -> Groups:
        """The groups of a scan; those that the row's end cuts short tell nothing."""
        tiles, groups = min(TILES, tuned.window), min(GROUPS, tuned.window)
        count = scan.geometry.tiles
        first_prefix = count + count // tiles
        return cls(tiles, groups, count, first_prefix, first_prefix + count // (tiles * groups))


def tile_state(scan: Scan, tuned: Tuning) -> TileState:
    """The layout of a scan's state words: those of tiles, of groups, of supergroups."""
    g = scan.geometry
    return TileState(scan.dtypes, g.outer, Groups.of(scan, tuned).words, g.inner)


def kernel(
    scan: Scan, tuned: Tuning, program: jax.Array, refs: Sequence[Ref], *, walks: bool
) -> None:
    """One tile of a row, by one program; the arguments are those of `lookback.kernel`."""
    tile = Tile(scan.geometry, program)
    walk = functools.partial(_in_strips, tuned, refs) if walks else None
    scan.on_tile(tile, functools.partial(_one_tile, tuned, refs), walk)


def _one_tile(tuned: Tuning, refs: Sequence[Ref], scan: Scan, tile: Tile) -> None:
    inputs, outputs = scan.split(refs)

    with Step.LOAD.marked():
        holds = may_hold(scan, tile, tuned.held)
        work: Form = HeldTile(scan, tile, inputs, tuned.held) if holds else form(scan, tile, inputs)
        complete = jnp.broadcast_to(tile.index == 0, work.aggregate[0].shape)
        if work.restarts is not None:
            complete = complete | work.restarts
    search = Search(scan, tuned, tile, refs[-1], work, complete)
    search.begin(work.aggregate)
    with Step.SCAN.marked():
        work.scan()
    prefix = search.prefix()
    with Step.STORE.marked():
        work.store(outputs, prefix)


def _in_strips(tuned: Tuning, refs: Sequence[Ref], scan: Scan, tile: Tile) -> None:
    """A tile with one restart, scanned strip by strip (`lookback`)."""
    inputs, outputs = scan.split(refs)
    rule = whole(scan, tile, scan.since_restart(tile, inputs))
    search = Search(scan, tuned, tile, refs[-1], rule, tile.index >= 0)
    search.begin(rule.aggregate)
    prefix = search.prefix()
    scan_part(scan, Part(scan, tuned.strip, tile, refs), [jnp.zeros((), FLAG), *prefix], outputs)


class Found(NamedTuple):
    """A total, and whether it goes back to a restart or to the start of the row."""

    total: list[jax.Array]
    done: jax.Array


class Search:
    """A tile's search for what comes before it, and what it tells of itself, its group and so on.

    A tile that is ``complete`` holds a restart, or is the first of its row.
    """

    def __init__(
        self,
        scan: Scan,
        tuned: Tuning,
        tile: Tile,
        words: Ref,
        aggregates: Aggregates,
        complete: jax.Array,
    ):
        self._scan, self._tile, self._words, self._aggregates = scan, tile, words, aggregates
        self._complete, self._state = complete, tile_state(scan, tuned)
        self._groups = groups = Groups.of(scan, tuned)
        self._group = lax.div(tile.index, np.int32(groups.tiles))
        self._within = tile.index - self._group * np.int32(groups.tiles)
        self._supergroup = lax.div(self._group, np.int32(groups.groups))
        self._before = self._group - self._supergroup * np.int32(groups.groups)
        window = functools.partial(
            Window, scan.operator, self._state, words, tile, aggregates=aggregates
        )
        self._tiles = window(tuned.window, self._group * np.int32(groups.tiles), self._within)
        first = np.int32(groups.first_group) + self._supergroup * np.int32(groups.groups)
        self._of_groups = window(tuned.window, first, self._before)
        # Every warp may read a lone word for itself: it is EMPTY until it is PREFIX, for good.
        first = np.int32(groups.first_prefix - 1) + self._supergroup
        self._start = window(1, first, jnp.minimum(self._supergroup, 1))

    def begin(self, aggregate: list[jax.Array]) -> None:
        """Publishes the tile's total, and reads what others have published."""
        self._aggregate = aggregate
        with Step.PUBLISH_AGGREGATE.marked():
            self._publish(Found(aggregate, self._complete), self._tile.index, None)
        with Step.LOOK_BACK.marked():
            windows = (self._tiles, self._of_groups, self._start)
            self._seen = [window.peek(window.first) for window in windows]

    def prefix(self) -> list[jax.Array]:
        """What comes before the tile; undefined for the first of a row."""
        near, groups, start = self._seen
        last = self._within == np.int32(self._groups.tiles - 1)
        nearer = self._within > 0
        with Step.LOOK_BACK.marked():
            alone = jnp.broadcast_to(~nearer, self._complete.shape)
            before = self._tiles.found(alone, near)
        with Step.PUBLISH_GROUP.marked():
            through = Found(self._aggregate, self._complete)
            through = self._joined(self._tiles, before, through)
            number = np.int32(self._groups.first_group) + self._group
            self._publish(through, number, last)

        with Step.LOOK_BACK.marked():
            further = self._of_groups.found(before.done, groups)
            before = self._joined(self._of_groups, further, before, nearer)
            known = through = self._joined(self._of_groups, further, through)
        last = last & (self._before == np.int32(self._groups.groups - 1))
        number = np.int32(self._groups.first_prefix) + self._supergroup
        if self._scan.segmented:
            with Step.PUBLISH_PREFIX.marked():
                self._publish(known, number, last & known.done)
        with Step.LOOK_BACK.marked():
            nearer = nearer | (self._before > 0)
            further = self._start.found(before.done, start)
            before = self._joined(self._start, further, before, nearer)
            through = self._joined(self._start, further, through)
        with Step.PUBLISH_PREFIX.marked():
            told = last & ~known.done if self._scan.segmented else last
            self._publish(Found(through.total, self._tile.index >= 0), number, told)
        return before.total

    def _joined(
        self, window: Window, further: Found, nearer: Found, present: jax.Array | None = None
    ) -> Found:
        """What was found nearer, if any was ``present``, behind what was found in a ``window``."""
        both = self._aggregates.combine(further.total, nearer.total)
        if present is not None:
            pairs = zip(further.total, both, strict=True)
            both = [jnp.where(present, y, x) for x, y in pairs]
        alone = nearer.done | ~window.any
        joined = [jnp.where(alone, x, y) for x, y in zip(nearer.total, both, strict=True)]
        return Found(joined, nearer.done | further.done)

    def _publish(self, told: Found, number: jax.Array, where: jax.Array | None) -> None:
        """Publishes a total, as PREFIX where nobody has to look past it."""
        shape = self._complete.shape
        tag = jnp.broadcast_to(AGGREGATE + told.done.astype(jnp.int32), shape)
        mask = None if where is None else jnp.broadcast_to(where, shape)
        self._state.publish(self._words, self._tile, tag, told.total, mask, number=number)


class Window(Lookback):
    """So many words from the ``first`` on, of which ``count`` come before the tile."""

    def __init__(
        self,
        operator: core.ClosedJaxpr,
        state: TileState,
        words: Ref,
        tile: Tile,
        window: int,
        first: jax.Array,
        count: jax.Array,
        *,
        aggregates: Aggregates,
    ):
        super().__init__(operator, state, words, tile, window, aggregates)
        self.first, self._count, self.any = first, count, count > 0

    def peek(self, end: jax.Array) -> Look:
        """The words from the one of number ``end`` on; those that are not of the window."""
        place = lax.broadcasted_iota(jnp.int32, (self.window,), 0)
        numbers = jnp.where(place < self._count, end + place, jnp.full_like(place, -1))
        tags, values = self.state.peek(self.words, self.tile, numbers)
        absent = self._place() >= self._count
        return Look(jnp.where(absent, jnp.full_like(tags, AGGREGATE), tags), tuple(values))

    def found(self, done: jax.Array, seen: Look) -> Found:
        """The total since the last restart, when all of it is there.

        A lane that is ``done`` is not waited for. Of no words the total is undefined.
        """
        return Found(*self._total(self.first, done, seen))

    def _folded(self, values: jax.Array, nearest: jax.Array) -> jax.Array:
        place = self._place()
        taken = (place >= self.tile.along_positions(nearest)) & (place < self._count)
        identity = constant(values.shape, self.aggregates.identity)
        return self.aggregates.fold(jnp.where(taken, values, identity))

    def _scanned(self, look: Look) -> list[jax.Array]:
        return self._scanned_to(look, self._count - np.int32(1))
