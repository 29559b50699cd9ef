"""The protocol of tiles in groups, as a model: no total depends on timing, nor how it is grouped.

    program   publish the tile's total ─► look at the tiles before it in its group
                ─► publish the group's total, as its last tile
                ─► look at the groups before it in its supergroup ─► look at the supergroup's prefix
                ─► publish the next supergroup's prefix, as its last tile ─► end

It is the protocol of `jscan.kernels.repeatable`. Every word is written once. Totals carry brackets
for what has been combined with what, so that two that differ in nothing but the grouping differ:
`before` says what a tile has to find, and there is one answer, whatever the timing.

A kernel reads the words of all three windows before it waits for any. Reads may be as old as they
like, so that this adds nothing to what can come of them, and an exploration leaves it out unless
the protocol is told to read ``early``.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from typing import NamedTuple

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

NEAR, GROUPS, START = 0, 1, 2
"""What a program looks at: tiles of its group, groups of its supergroup, the prefix."""


class Place(NamedTuple):
    """Where a tile is."""

    group: int
    within: int  # its group
    supergroup: int
    groups: int  # before its own in the supergroup


def joined(left: str, right: str) -> str:
    """One total behind another; there may be none of either."""
    return f"({left}{right})" if left and right else left + right


@dataclasses.dataclass(frozen=True)
class Grouped(Protocol):
    """Tiles in groups of ``window``, groups in supergroups of so many.

    A kernel whose scan is ``segmented`` may publish a prefix before it looks at the one before.
    """

    groups: int = 2
    early: bool = False
    segmented: bool = False

    def place(self, tile: int) -> Place:
        """Where a tile is."""
        group, within = divmod(tile, self.window)
        return Place(group, within, *divmod(group, self.groups))

    # --- words: of tiles, then of groups, then of supergroups -----------------------------------

    def entries(self, row: Row) -> int:
        return self._prefixes(row) + row.tiles // (self.window * self.groups)

    def _groups(self, row: Row) -> int:
        return row.tiles

    def _prefixes(self, row: Row) -> int:
        return row.tiles + row.tiles // self.window

    def looked_at(self, row: Row, tile: int) -> tuple[tuple[int, ...], ...]:
        """The entries of a tile's three windows, -1 where there is none."""
        at = self.place(tile)
        start = self._prefixes(row) + at.supergroup - 1 if at.supergroup else -1
        return (
            _window(at.group * self.window, at.within, self.window),
            _window(self._groups(row) + at.supergroup * self.groups, at.groups, self.groups),
            (start,),
        )

    # --- what is right ---------------------------------------------------------------------------

    def right(self, row: Row, entry: int, tag: int) -> str:
        word = self._right(row, entry)
        return word[1] if word[0] == tag else f"no {tag}"

    def _right(self, row: Row, entry: int) -> Word:
        if entry < row.tiles:
            return _tagged(row.complete(entry), row.aggregate(entry))
        if entry < self._prefixes(row):
            last = (entry - row.tiles + 1) * self.window - 1
            total, cut = self._fold(row, self.looked_at(row, last)[NEAR])
            if row.complete(last):
                return PREFIX, row.aggregate(last)
            return _tagged(cut, joined(total, row.aggregate(last)))
        last = (entry - self._prefixes(row) + 1) * self.window * self.groups - 1
        total = row.aggregate(last)
        return PREFIX, total if row.complete(last) else self._behind(row, last, total)

    def before(self, row: Row, tile: int) -> str:
        return self._behind(row, tile, "")

    def _behind(self, row: Row, tile: int, total: str) -> str:
        """A total behind what is before a tile."""
        for window in self.looked_at(row, tile):
            further, cut = self._fold(row, window)
            total = joined(further, total)
            if cut:
                break
        return total

    def _fold(self, row: Row, window: Sequence[int]) -> tuple[str, bool]:
        """What a window amounts to, and whether that is all there is."""
        words = [self._right(row, entry) for entry in window if entry >= 0]
        start = self.last_prefix([tag for tag, _ in words])
        return self.fold(words if start is None else words[start:]), start is not None

    def fold(self, since: Sequence[Word]) -> str:
        return f"[{super().fold(since)}]" if len(since) > 1 else super().fold(since)

    # --- what programs do ------------------------------------------------------------------------

    def steps(self) -> Sequence[Step]:
        begin = (Step.LOAD, Step.PUBLISH_AGGREGATE, Step.LOOK_BACK)
        prefix = (Step.PUBLISH_PREFIX, Step.LOOK_BACK) if self.segmented else ()
        middle = (Step.PUBLISH_GROUP, Step.LOOK_BACK, *prefix)
        return *begin, *middle, Step.PUBLISH_PREFIX, Step.STORE

    def numbered(self, row: Row, tile: int) -> Program:
        return Program(Step.PUBLISH_AGGREGATE, tile, end=NEAR, through=row.aggregate(tile))

    def windows(self, row: Row, tile: int) -> tuple[tuple[int, ...], ...]:
        """The entries that a tile's program looks at."""
        return self.looked_at(row, tile)

    def request(self, row: Row, program: Program) -> Request | None:
        if program.step is Step.LOOK_BACK:
            windows = self.windows(row, program.tile)
            reading = self.early and len(program.kept) < len(windows)
            return Look(windows[len(program.kept) if reading else program.end])
        if program.step is Step.STORE:
            return None
        entry, words = self._told(row, program)
        return Publish(entry, program.piece, words[program.piece])

    def _told(self, row: Row, program: Program) -> tuple[int, Sequence[Word]]:
        """The entry whose words a step writes, and these; none where there is nothing to tell."""
        tile, at = program.tile, self.place(program.tile)
        aggregate, complete = row.aggregate(tile), self.complete(row, tile)
        last = at.within == self.window - 1
        if program.step is Step.PUBLISH_AGGREGATE:
            return tile, self.words(self.tag(complete), aggregate)
        total = program.through
        if program.step is Step.PUBLISH_GROUP:
            tag = self.tag(complete or program.done)
            return self._groups(row) + at.group, self.words(tag, total) if last else []
        last = last and at.groups == self.groups - 1
        return self._prefixes(row) + at.supergroup, self.words(PREFIX, total) if last else []

    def tag(self, complete: bool) -> int:
        """The tag of a total, behind which nobody needs to look or somebody does."""
        return PREFIX if complete else AGGREGATE

    def published(self, row: Row, program: Program) -> Program:
        program = program._replace(piece=program.piece + 1)
        if program.piece < len(self._told(row, program)[1]):
            return program
        return self._after(row, program._replace(piece=0))

    def _after(self, row: Row, program: Program) -> Program:
        """At the next step in which there is something to do."""
        if program.step is Step.PUBLISH_AGGREGATE:
            return self._at_look(row, program._replace(step=Step.LOOK_BACK))
        if program.step is Step.PUBLISH_GROUP:
            return self._at_look(row, program._replace(step=Step.LOOK_BACK, end=GROUPS))
        if program.end == START:
            return program._replace(step=Step.STORE, end=0, through="", kept=(), done=False)
        return self._at_look(row, program._replace(step=Step.LOOK_BACK, end=START))

    def _at_look(self, row: Row, program: Program) -> Program:
        """At a look, or past it where it has been taken or there is nothing to wait for."""
        if not self.early:
            window = self.windows(row, program.tile)[program.end]
            idle = program.done or not any(entry >= 0 for entry in window)
            return self._found(row, program, []) if idle else program
        if len(program.kept) < len(self.windows(row, program.tile)):
            return program
        return self._judged(row, program, program.kept[program.end])

    def looked(self, row: Row, program: Program, seen: Sequence[Word]) -> Program:
        """After a look; the same program if it has to look again."""
        if self.early and len(program.kept) < len(self.windows(row, program.tile)):
            return self._at_look(row, program._replace(kept=(*program.kept, tuple(seen))))
        return self._judged(row, program, seen)

    def _judged(self, row: Row, program: Program, seen: Sequence[Word]) -> Program:
        window = self.windows(row, program.tile)[program.end]
        words = [word for word, entry in zip(seen, window, strict=True) if entry >= 0]
        start = self.last_prefix([tag for tag, _ in words])
        since = words if start is None else words[start:]
        if self.waits(since) and not program.done:
            return program
        return self._found(row, program, since)

    def _found(self, row: Row, program: Program, since: Sequence[Word]) -> Program:
        """Behind a window of which this is to be combined."""
        complete = self.complete(row, program.tile)
        told = program.end == START and (program.done or complete)
        if not program.done:
            cut, further = any(tag == PREFIX for tag, _ in since), self.fold(since)
            through = program.through if complete else self.behind(further, program.through)
            total = self.behind(further, program.total)
            program = program._replace(total=total, through=through, done=cut)
        if program.end == GROUPS and not (program.done or complete):
            return self._at_look(row, program._replace(end=START))
        step = Step.PUBLISH_GROUP if program.end == NEAR else Step.PUBLISH_PREFIX
        program = program._replace(step=step)
        return program if self._told(row, program)[1] and not told else self._after(row, program)

    def behind(self, further: str, nearer: str) -> str:
        return joined(further, nearer)

    def waits(self, since: Sequence[Word]) -> bool:
        return any(tag == EMPTY for tag, _ in since)


def _window(first: int, count: int, size: int) -> tuple[int, ...]:
    """The entries from ``first`` on, of which there are so many."""
    return tuple(first + k if k < count else -1 for k in range(size))


def _tagged(complete: bool, value: str) -> Word:
    return PREFIX if complete else AGGREGATE, value
