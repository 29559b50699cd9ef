"""Mistakes that tiles in groups may hold, each a small variation of `groups`.

Each comes with a launch in which it shows, as those of `mistakes`.
"""

from __future__ import annotations

import itertools
from collections.abc import Sequence

from jscan.kernels.steps import Step
from tests.protocol.exploration import Launch
from tests.protocol.groups import GROUPS, NEAR, START, Grouped, joined
from tests.protocol.mistakes import Mistake
from tests.protocol.model import EMPTY, PREFIX, Program, Row, Word, Words, whole


class PrefixesOfTiles(Grouped):
    """A tile raises its word to its prefix once it knows that.

    As in lookback: totals are right, but whether a tile adds up aggregates or finds a prefix
    depends on timing, and so do the last bits.
    """

    def _told(self, row: Row, program: Program) -> tuple[int, Sequence[Word]]:
        entry, words = super()._told(row, program)
        if program.step is not Step.PUBLISH_PREFIX or words:
            return entry, words
        return program.tile, self.words(PREFIX, program.through)


class AsTheyCome(Grouped):
    """The words of a window are combined as they come.

    Those that are there at the first look are one fold, and those that come later another: nothing
    is missing, but what is combined with what depends on timing.
    """

    def looked(self, row: Row, program: Program, seen: Sequence[Word]) -> Program:
        after = super().looked(row, program, seen)
        there = tuple(itertools.takewhile(lambda word: word[0] != EMPTY, seen))
        first = after == program and program.end == NEAR and not program.kept
        return after._replace(kept=(there,)) if first and there else after

    def _found(self, row: Row, program: Program, since: Sequence[Word]) -> Program:
        if program.end == NEAR and program.kept:
            [first] = program.kept
            total = joined(self.fold(first), self.fold(since[len(first) :]))
            since = [(max(tag for tag, _ in since), total)]
        return super()._found(row, program._replace(kept=()), since)


class GroupWithoutItself(Grouped):
    """A group's total lacks its last tile."""

    def _told(self, row: Row, program: Program) -> tuple[int, Sequence[Word]]:
        entry, words = super()._told(row, program)
        if program.step is not Step.PUBLISH_GROUP or not words:
            return entry, words
        return entry, self.words(words[0][0], program.total)


class GroupPastRestart(Grouped):
    """A group with a restart publishes like any other.

    What comes before the restart would reach the groups behind it.
    """

    def _told(self, row: Row, program: Program) -> tuple[int, Sequence[Word]]:
        entry, words = super()._told(row, program)
        if program.step is not Step.PUBLISH_GROUP or not words:
            return entry, words
        return entry, self.words(self.tag(self.complete(row, program.tile)), words[0][1])


class RestartForgotten(Grouped):
    """What is further away than a restart is combined, too."""

    def _found(self, row: Row, program: Program, since: Sequence[Word]) -> Program:
        return super()._found(row, program, since)._replace(done=False)


class RestartNotCut(Grouped):
    """The last tile of a group adds what is before it to a total that holds a restart."""

    def _found(self, row: Row, program: Program, since: Sequence[Word]) -> Program:
        if program.end == NEAR:
            total = joined(self.fold(since), row.aggregate(program.tile))
            after = super()._found(row, program, since)
            return after._replace(through=total) if after.step is Step.PUBLISH_GROUP else after
        return super()._found(row, program, since)


class AllOfGroup(Grouped):
    """All tiles of a group are combined, also those behind."""

    def windows(self, row: Row, tile: int) -> tuple[tuple[int, ...], ...]:
        near, groups, start = super().windows(row, tile)
        first = self.place(tile).group * self.window
        whole_group = tuple(first + k for k in range(self.window))
        others = tuple(t if t < row.tiles and t != tile else -1 for t in whole_group)
        return (others if any(t >= 0 for t in near) else near), groups, start


class OwnPrefix(Grouped):
    """The prefix of a tile's own supergroup is waited for, not of the one before.

    It is written by the supergroup's last tile, which waits for this one's group.
    """

    def windows(self, row: Row, tile: int) -> tuple[tuple[int, ...], ...]:
        near, groups, (start,) = super().windows(row, tile)
        own = start + 1
        return near, groups, (own if start >= 0 and own < self.entries(row) else start,)


class PrefixTooSoon(Grouped):
    """The next prefix is published before the one before it is known."""

    def _found(self, row: Row, program: Program, since: Sequence[Word]) -> Program:
        if program.end != GROUPS:
            return super()._found(row, program, since)
        after = super()._found(row, program._replace(done=program.done), since)
        soon = after.step is Step.LOOK_BACK and after.end == START
        early = after._replace(step=Step.PUBLISH_PREFIX, end=GROUPS)
        return early if soon and self._told(row, early)[1] else after


class GroupsOfAll(Grouped):
    """All groups of the row are combined, also those of supergroups before.

    The prefix holds those already.
    """

    def windows(self, row: Row, tile: int) -> tuple[tuple[int, ...], ...]:
        near, _, start = super().windows(row, tile)
        return near, tuple(row.tiles + group for group in range(self.place(tile).group)), start


class GroupsCommuted(Grouped):
    """What is further away is put behind what is nearer."""

    def behind(self, further: str, nearer: str) -> str:
        return joined(nearer, further)


class EmptyGroupsSkipped(Grouped):
    """Tiles and groups that have not published are passed over."""

    def waits(self, since: Sequence[Word]) -> bool:
        del since
        return False


class TornGroups(Grouped):
    """The tag of one piece is taken for that of all."""

    def assembled(self, words: Sequence[Word]) -> Word:
        return words[0][0], whole(words)


class GroupsNotCleared(Grouped):
    """The words still hold what the launch before has left."""

    def initial(self, row: Row, tile: int) -> Words:
        tag, value = self._right(row, tile)
        return (((tag, value.swapcase()),),) * self.pieces


def _right(tiles: int, *restarts: int, window: int = 2, groups: int = 2, pieces: int = 1) -> Launch:
    """A launch of tiles in groups, started in order."""
    row = Row(tiles, frozenset(restarts))
    return Launch(Grouped(window, pieces, groups=groups), row)


GROUP_MISTAKES = (
    Mistake(PrefixesOfTiles, _right(4), "wrong"),
    Mistake(AsTheyCome, _right(4, window=4, groups=1), "wrong"),
    Mistake(GroupWithoutItself, _right(3), "wrong"),
    Mistake(GroupPastRestart, _right(6, 2), "wrong"),
    Mistake(RestartForgotten, _right(5, 2), "wrong"),
    Mistake(RestartNotCut, _right(4, 1), "wrong"),
    Mistake(AllOfGroup, _right(6, window=3), "wrong"),
    Mistake(OwnPrefix, _right(9), "stuck"),
    Mistake(PrefixTooSoon, _right(9), "wrong"),
    Mistake(GroupsOfAll, _right(7), "wrong"),
    Mistake(GroupsCommuted, _right(4), "wrong"),
    Mistake(EmptyGroupsSkipped, _right(3), "wrong"),
    Mistake(TornGroups, _right(3, pieces=2), "wrong"),
    Mistake(GroupsNotCleared, _right(3), "wrong"),
)
