"""The single-pass scan whose groups are fixed: the same bits on every run.

    tiles         [t][t][t][t] [t][t][t][t] [t][t][t][t] [t][t][t][t] [t][t] ...
    groups        └─── [g] ──┘ └─── [g] ──┘ └─── [g] ──┘ └──────────┘
    supergroups   └────────────────────────────────────────────── [p]┘   the next prefix

    tile   load ─► reduce ─► publish the total
             ─► as the last tile of a group: look at its tiles, publish the group's total
                as the last of a supergroup: look at the whole window, publish the next prefix
             ─► scan ─► look at the whole window ─► store

    window   [ ] [ ] [p] [g] [g] [g] [t] [t]     the nearest tile last

What comes before a tile is one window of words, one for each lane of a warp: the prefix of its
supergroup, the groups before its own in there, and the tiles before it in its group. The window is
folded at once, and its words have places that follow from the number of the tile. In
`jscan.kernels.lookback` a tile takes the nearest prefix that there is, so that its groups depend on
timing; here every word is written once, and there is nothing to choose. The chain of prefixes has
one link for each supergroup. Where windows are narrow there are more levels of smaller groups.

A word that many programs wait for is slow to come. So totals of groups and prefixes are written
several times over, for the tiles of a group each; and a tile that looks again reads only the words
that were not there.

A total that holds a restart is published as PREFIX, those of other tiles and groups as AGGREGATE:
nobody looks past a restart, nor waits for what is before it, so that a restart cuts the fold at the
same place whatever the timing. The row's first tile and group count as such.

The chain of prefixes has as many additions one behind another as a row has supergroups, 512 of 2^28
float32 numbers. So totals of float32 sums along one row are told in pairs (`jscan.compensation`):
what is before a tile is rounded once, however far it is from the row's start.

Forward progress: a program waits only for programs of lower number, which the hardware dispatches
first, as in `jscan.kernels.lookback`. Totals of groups and prefixes are written by the last of the
tiles that they are of.
"""

from __future__ import annotations

import dataclasses
import functools
import math
from collections.abc import Sequence

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax
from jax.extend import core

from jscan import compensation
from jscan.kernels import language, tuning
from jscan.kernels.description import Scan
from jscan.kernels.forms import Aggregates, OperatorAggregates, whole
from jscan.kernels.held import worked
from jscan.kernels.language import Ref
from jscan.kernels.lookback import Look, Lookback
from jscan.kernels.operator import FLAG, is_float32_sum, prepare
from jscan.kernels.state import AGGREGATE, EMPTY, PREFIX, TileState
from jscan.kernels.steps import Step
from jscan.kernels.strips import Part, scan_part
from jscan.kernels.tile import Tile
from jscan.kernels.tuning import Tuning


@dataclasses.dataclass(frozen=True)
class Levels:
    """How so many tiles of a row are grouped, and where the words of groups are: behind theirs.

    Nodes of level 0 are tiles, those of the next levels groups of ``sizes`` nodes of the level
    below. Beyond the last are prefixes, each of all that is before and of a node of this level.
    """

    tiles: int
    sizes: tuple[int, ...]
    copies: int  # of each word but those of tiles

    @classmethod
    def of(cls, tiles: int, window: int, inner: int) -> Levels:
        """The levels of so many tiles, as a window holds them."""
        sizes = tuning.group_sizes(window, inner)
        return cls(tiles, sizes, tuning.copies(sizes, inner))

    def nodes(self, level: int) -> int:
        """How many there are; one that the row's end cuts short tells nothing."""
        return self.tiles // math.prod(self.sizes[:level])

    def first(self, level: int) -> int:
        """The number of the first word of a level, or behind the last one."""
        return sum(self.nodes(k) * (self.copies if k else 1) for k in range(level))

    @property
    def words(self) -> int:
        """Of a row and a piece."""
        return self.first(len(self.sizes) + 1)


def tells_pairs(scan: Scan) -> bool:
    """Whether totals are told in compensated pairs.

    Not beside lanes, where a tile has few positions, and its words would be a share of what it
    reads. Nor of segments: their tiles take 166 to 168 registers, would take 173, and beyond 168 a
    multiprocessor has two thirds of the warps (sm_90, Triton 3.7.1). All tiles tell alike, those
    too in which no row begins.
    """
    g = scan.geometry
    restarts = scan.flagged or scan.identity_apart or g.row > 0
    return g.inner == 1 and not (restarts or scan.linear) and is_float32_sum(scan.operator)


def tile_state(scan: Scan, tuned: Tuning) -> TileState:
    """The layout of a scan's state words: those of tiles, of groups, of supergroups."""
    g, dtypes = scan.geometry, scan.dtypes * (2 if tells_pairs(scan) else 1)
    return TileState(dtypes, g.outer, Levels.of(g.tiles, tuned.window, g.inner).words, g.inner)


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
        work = worked(scan, tile, inputs, tuned)
        complete = jnp.broadcast_to(tile.index == 0, work.aggregate[0].shape)
        if work.restarts is not None:
            complete = complete | work.restarts
    search = _search(scan, tuned, tile, refs[-1], work)
    search.tell(_told(scan, tile, work.aggregate), complete)
    with Step.SCAN.marked():
        work.scan()
    with Step.LOOK_BACK.marked():
        prefix = search.prefix(search.peek(tile.index))[: len(scan.dtypes)]
    with Step.STORE.marked():
        work.store(outputs, prefix)


def _in_strips(tuned: Tuning, refs: Sequence[Ref], scan: Scan, tile: Tile) -> None:
    """A tile with one restart, scanned strip by strip (`lookback`)."""
    inputs, outputs = scan.split(refs)
    rule = whole(scan, tile, scan.since_restart(tile, inputs))
    search = _search(scan, tuned, tile, refs[-1], rule)
    search.tell(_told(scan, tile, rule.aggregate), tile.index >= 0)
    prefix = search.prefix(search.peek(tile.index))[: len(scan.dtypes)]
    scan_part(scan, Part(scan, tuned.strip, tile, refs), [jnp.zeros((), FLAG), *prefix], outputs)


def _told(scan: Scan, tile: Tile, aggregate: Sequence[jax.Array]) -> list[jax.Array]:
    """A total as it is told: of a pair the second number, what was lost, is not known."""
    if not tells_pairs(scan):
        return [*aggregate]
    [total] = aggregate
    zero = (tile.index & np.int32(0)).astype(total.dtype)  # a literal has no bits to be told
    return [total, jnp.broadcast_to(zero, total.shape)]


def _search(
    scan: Scan, tuned: Tuning, tile: Tile, words: Ref, aggregates: Aggregates
) -> GroupSearch:
    state, operator = tile_state(scan, tuned), scan.operator
    if tells_pairs(scan):
        operator = prepare(compensation.links(np.dtype(np.float32)))
        aggregates = OperatorAggregates(operator, None)
    return GroupSearch(operator, state, words, tile, tuned.window, aggregates)


class GroupSearch(Lookback):
    """A tile's look at what comes before it, and what it tells of itself and its group."""

    def __init__(
        self,
        operator: core.ClosedJaxpr,
        state: TileState,
        words: Ref,
        tile: Tile,
        window: int,
        aggregates: Aggregates,
    ):
        super().__init__(operator, state, words, tile, window, aggregates)
        g = tile.geometry
        self._levels = Levels.of(g.tiles, window, g.inner)
        self._node, self._within = [tile.index], []
        for size in self._levels.sizes:
            above = lax.div(self._node[-1], np.int32(size))
            self._within.append(self._node[-1] - above * np.int32(size))
            self._node.append(above)

    def tell(self, aggregate: list[jax.Array], complete: jax.Array) -> None:
        """Publishes the tile's total, then that of the largest group of which it is the last tile.

        A tile that is ``complete`` holds a restart, or is the first of its row.
        """
        with Step.PUBLISH_AGGREGATE.marked():
            self._publish(aggregate, complete, self.tile.index)
        language.when(self._ends(0), lambda: self._tell_further(aggregate, complete))

    def _ends(self, level: int) -> jax.Array:
        """Whether the tile's node is the last of its group."""
        return self._within[level] == np.int32(self._levels.sizes[level] - 1)

    def _tell_further(self, aggregate: list[jax.Array], complete: jax.Array) -> None:
        levels, ends = self._levels, self.tile.index >= 0
        copies = np.int32(levels.copies)
        number = reach = jnp.int32(0)
        for level, size in enumerate(levels.sizes):
            ends = ends & self._ends(level)
            above = np.int32(levels.first(level + 1)) + self._node[level + 1] * copies
            number = jnp.where(ends, above, number)
            reach = jnp.where(ends, reach + np.int32(size - 1), reach)
        through = _Through(self, jnp.where(ends, np.int32(self.window), reach))
        total, done = through.total(complete)
        both = self.aggregates.combine(total, aggregate)
        told = [jnp.where(complete, x, y) for x, y in zip(aggregate, both, strict=True)]
        with Step.PUBLISH_GROUP.marked():
            mask = None
            if levels.copies > 1:
                copy = lax.broadcasted_iota(jnp.int32, (self.window,), 0)
                number, mask = number + copy, copy < copies
            self._publish(told, complete | done, number, mask)

    def _publish(
        self,
        total: list[jax.Array],
        done: jax.Array,
        number: jax.Array,
        mask: jax.Array | None = None,
    ) -> None:
        """Publishes a total, as PREFIX where nobody has to look past it."""
        tag = jnp.broadcast_to(AGGREGATE + done.astype(jnp.int32), total[0].shape)
        self.state.publish(self.words, self.tile, tag, total, mask, number=number)

    def numbers(self, end: jax.Array) -> jax.Array:
        """The numbers of the window's words before tile ``end``; -1 where there is none."""
        levels, node = self._levels, self._node
        back = np.int32(self.window - 1) - lax.broadcasted_iota(jnp.int32, (self.window,), 0)
        copies = np.int32(levels.copies)
        copy = lax.rem(node[1], copies)

        def word(level: int, node: jax.Array) -> jax.Array:
            """The number of a node's word, of those that are for this tile."""
            return np.int32(levels.first(level)) + node * copies + copy if level else node

        further = functools.reduce(lax.add, self._within)
        none = jnp.full_like(back, -1)
        start = (back == further) & (node[-1] > 0)
        number = jnp.where(start, word(len(levels.sizes), node[-1] - np.int32(1)), none)
        for level in reversed(range(len(levels.sizes))):
            nearer = further - self._within[level]
            last = end if level == 0 else node[level]
            index = last - np.int32(1) - (back - nearer)
            number = jnp.where(back < further, word(level, index), number)
            further = nearer
        return number

    def peek(self, end: jax.Array) -> Look:
        """The words before tile ``end``, as they are now."""
        return self._seen(end, None)

    def again(self, seen: Look, end: jax.Array) -> Look:
        """The same of those that were not there; the others stay as they were ``seen``."""
        missing = seen.tags == EMPTY
        now = self._seen(end, missing)
        pairs = zip(seen.values, now.values, strict=True)
        values = tuple(jnp.where(missing, y, x) for x, y in pairs)
        return Look(jnp.where(missing, now.tags, seen.tags), values)

    def _seen(self, end: jax.Array, where: jax.Array | None) -> Look:
        tags, values = self.state.peek(self.words, self.tile, self.numbers(end), where)
        return Look(tags, tuple(values))

    def prefix(self, seen: Look) -> list[jax.Array]:
        """What comes before the tile, given a first look; undefined for the first of a row."""
        first = jnp.broadcast_to(self.tile.index == 0, self.tile.geometry.per_lane)
        return self._total(self.tile.index, first, seen)[0]


class _Through(GroupSearch):
    """What comes before the last tile of a group in there: the last ``reach`` words of a window."""

    def __init__(self, search: GroupSearch, reach: jax.Array):
        super().__init__(
            *(search.operator, search.state, search.words, search.tile, search.window),
            search.aggregates,
        )
        self._first = np.int32(self.window) - reach

    def total(self, complete: jax.Array) -> tuple[list[jax.Array], jax.Array]:
        """The total, and whether it goes back to a restart; undefined where there is no word.

        A tile that is ``complete`` waits for none.
        """
        with Step.LOOK_BACK.marked():
            return self._total(self.tile.index, complete, self.peek(self.tile.index))

    def numbers(self, end: jax.Array) -> jax.Array:
        numbers = super().numbers(end)
        place = lax.broadcasted_iota(jnp.int32, (self.window,), 0)
        return jnp.where(place < self._first, jnp.full_like(numbers, -1), numbers)

    def _seen(self, end: jax.Array, where: jax.Array | None) -> Look:
        tags, values = super()._seen(end, where)
        outside = self._place() < self._first
        return Look(jnp.where(outside, jnp.full_like(tags, AGGREGATE), tags), values)

    def _folded(self, values: jax.Array, nearest: jax.Array) -> jax.Array:
        return super()._folded(values, jnp.maximum(nearest, self._first))

    def _scanned(self, look: Look) -> list[jax.Array]:
        first = self._place() == self._first
        tags = jnp.where(first, jnp.full_like(look.tags, PREFIX), look.tags)
        return super()._scanned(Look(tags, look.values))
