"""The protocol of tiles in groups, as a model: no total depends on timing, nor how it is grouped.

    program   publish the tile's total
                ─► as the last tile of a group: look at its tiles, publish the group's total
                   as the last of a supergroup: look at the window, publish the next prefix
                ─► look at the window ─► end

It is the protocol of `jscan.kernels.repeatable`. Every word is written once. Totals carry brackets
for what has been combined with what, so that two that differ in nothing but the grouping differ:
`before` says what a tile has to find, and there is one answer, whatever the timing.

A kernel that looks again reads only what was not there. A word that was there stays as it is, so
that this adds nothing to what can come of a look, and an exploration leaves it out unless the
protocol ``keeps`` what it has seen.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Sequence
from typing import Any

from jscan.kernels.steps import Step
from tests.protocol.model import (
    AGGREGATE,
    EMPTY,
    PREFIX,
    Look,
    Program,
    Protocol,
    Publish,
    Request,
    Row,
    Word,
)

THROUGH, WINDOW = 0, 1
"""What a program looks for: what it tells of its group, as the last tile of it; and for itself."""


def joined(left: str, right: str) -> str:
    """One total behind another; there may be none of either."""
    return f"({left}{right})" if left and right else left + right


@dataclasses.dataclass(frozen=True)
class Grouped(Protocol):
    """Tiles in groups, these in supergroups, and so on: of so many each, by their ``sizes``.

    The words of totals of groups and of prefixes have ``copies``, which the tiles of one group
    after another look at.
    """

    sizes: tuple[int, ...] = (2, 2)
    copies: int = 1
    keeps: bool = False

    @classmethod
    def of(cls, *sizes: int, **how: Any) -> Grouped:
        """The protocol with a window that is as wide as it has to be."""
        return cls(sum(sizes) - len(sizes) + 1, sizes=sizes, **how)

    def of_level(self, level: int) -> int:
        """The tiles of a node of a level: 0 are tiles, and the last is that of prefixes."""
        return math.prod(self.sizes[:level])

    def ended(self, tile: int) -> int:
        """The level of the largest node of which a tile is the last; 0 where there is none."""
        levels = range(len(self.sizes), 0, -1)
        return next((k for k in levels if (tile + 1) % self.of_level(k) == 0), 0)

    # --- words: of tiles, then of groups, then of supergroups -----------------------------------

    def entries(self, row: Row) -> int:
        return self._first(row, len(self.sizes) + 1)

    def _first(self, row: Row, level: int) -> int:
        counts = [row.tiles // self.of_level(k) * (self.copies if k else 1) for k in range(level)]
        return sum(counts)

    def entry(self, row: Row, level: int, node: int, copy: int) -> int:
        """The entry of a node's total, or of the prefix up to and with it."""
        return self._first(row, level) + node * self.copies + copy if level else node

    def copy(self, tile: int) -> int:
        """Which of the copies a tile looks at."""
        return tile // self.sizes[0] % self.copies

    def nodes(self, row: Row, tile: int, level: int) -> Sequence[int]:
        """The nodes of a level that come before a tile, and whose totals nothing larger holds."""
        del row
        node = tile // self.of_level(level)
        if level == len(self.sizes):
            return range(node)[-1:]
        return range(node - node % self.sizes[level], node)

    def looked_at(self, row: Row, tile: int, what: int) -> tuple[int, ...]:
        """The entries of a look, the nearest last; -1 where there is none."""
        top = len(self.sizes)
        reach = self.ended(tile) if what == THROUGH else top
        levels = range(top, -1, -1) if reach == top else range(reach - 1, -1, -1)
        copy = self.copy(tile)
        found = [self.entry(row, k, n, copy) for k in levels for n in self.nodes(row, tile, k)]
        return (*[-1] * (self.window - len(found)), *found)

    # --- what is right ---------------------------------------------------------------------------

    def right(self, row: Row, entry: int, tag: int) -> str:
        word = self._right(row, entry)
        return word[1] if word[0] == tag else f"no {tag}"

    def _right(self, row: Row, entry: int) -> Word:
        level = max(k for k in range(len(self.sizes) + 1) if self._first(row, k) <= entry)
        node = (entry - self._first(row, level)) // (self.copies if level else 1)
        last = (node + 1) * self.of_level(level) - 1
        if not level or row.complete(last):
            return _tagged(row.complete(last), row.aggregate(last))
        total, cut = self._all_of(row, last, THROUGH)
        return _tagged(cut, joined(total, row.aggregate(last)))

    def before(self, row: Row, tile: int) -> str:
        return self._all_of(row, tile, WINDOW)[0]

    def _all_of(self, row: Row, tile: int, what: int) -> tuple[str, bool]:
        """What a look amounts to, and whether it goes back to a restart; with no mistake in it."""
        right = Grouped(**vars(self))
        words = [self._right(row, e) for e in right.looked_at(row, tile, what) if e >= 0]
        start = right.last_prefix([tag for tag, _ in words])
        return right.fold(words if start is None else words[start:]), start is not None

    def fold(self, since: Sequence[Word]) -> str:
        return f"[{super().fold(since)}]" if len(since) > 1 else super().fold(since)

    # --- what programs do ------------------------------------------------------------------------

    def steps(self, tile: int) -> Sequence[Step]:
        further = (Step.LOOK_BACK, Step.PUBLISH_GROUP) if self.ended(tile) else ()
        return Step.LOAD, Step.PUBLISH_AGGREGATE, *further, Step.LOOK_BACK, Step.STORE

    def numbered(self, row: Row, tile: int) -> Program:
        del row
        return Program(Step.PUBLISH_AGGREGATE, tile)

    def request(self, row: Row, program: Program) -> Request | None:
        if program.step is Step.LOOK_BACK:
            entries = self.looked_at(row, program.tile, program.end)
            if self.keeps and program.kept:
                pairs = zip(entries, program.kept, strict=True)
                entries = tuple(-1 if tag != EMPTY else entry for entry, (tag, _) in pairs)
            return Look(entries)
        if program.step is Step.STORE:
            return None
        places, word = self._told(row, program)
        piece, copy = divmod(program.piece, len(places))
        return Publish(places[copy], piece, word)

    def _told(self, row: Row, program: Program) -> tuple[Sequence[int], Word]:
        """The entries that a step writes, and what each piece of them holds."""
        tile, aggregate = program.tile, row.aggregate(program.tile)
        complete = self.complete(row, tile)
        if program.step is Step.PUBLISH_AGGREGATE:
            return [tile], _tagged(complete, aggregate)
        level = self.ended(tile)
        node = tile // self.of_level(level)
        total = aggregate if complete else self.behind(program.total, aggregate)
        places = [self.entry(row, level, node, copy) for copy in range(self.copies)]
        return places, _tagged(complete or program.done, total)

    def published(self, row: Row, program: Program) -> Program:
        places, _ = self._told(row, program)
        program = program._replace(piece=program.piece + 1)
        if program.piece < self.pieces * len(places):
            return program
        first = program.step is Step.PUBLISH_AGGREGATE and self.ended(program.tile)
        what = THROUGH if first else WINDOW
        return Program(Step.LOOK_BACK, program.tile, end=what)

    def looked(self, row: Row, program: Program, seen: Sequence[Word]) -> Program:
        """After a look; the same program if it has to look again."""
        window = self.looked_at(row, program.tile, program.end)
        if self.keeps and program.kept:
            pairs = zip(program.kept, seen, strict=True)
            seen = [now if before[0] == EMPTY else before for before, now in pairs]
        words = [word for word, entry in zip(seen, window, strict=True) if entry >= 0]
        start = self.last_prefix([tag for tag, _ in words])
        since = words if start is None else words[start:]
        of_itself = program.end == WINDOW
        alone = program.tile == 0 if of_itself else self.complete(row, program.tile)
        if self.waits(since) and not alone:
            return program._replace(kept=tuple(seen)) if self.keeps else program
        total = "" if alone else self.fold(since)
        found = program._replace(total=total, done=start is not None, kept=())
        if of_itself:
            return found._replace(step=Step.STORE, end=0, done=False)
        return found._replace(step=Step.PUBLISH_GROUP)

    def behind(self, further: str, nearer: str) -> str:
        return joined(further, nearer)

    def waits(self, since: Sequence[Word]) -> bool:
        return any(tag == EMPTY for tag, _ in since)


def _tagged(complete: bool, value: str) -> Word:
    return PREFIX if complete else AGGREGATE, value
