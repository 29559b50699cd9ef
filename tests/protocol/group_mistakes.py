"""Mistakes that tiles in groups may hold, each a small variation of `groups`.

Each comes with a launch in which it shows, as those of `mistakes`.
"""

from __future__ import annotations

import dataclasses
import itertools
from collections.abc import Sequence
from typing import Any

from jscan.kernels.steps import Step
from tests.protocol.exploration import Launch
from tests.protocol.groups import WINDOW, Grouped, joined
from tests.protocol.mistakes import Mistake
from tests.protocol.model import EMPTY, PREFIX, Look, Program, Request, Row, Word, Words, whole


class PrefixesOfTiles(Grouped):
    """A tile raises its word to its prefix once it knows that.

    As in lookback: totals are right, but whether a tile adds up aggregates or finds a prefix
    depends on timing, and so do the last bits.
    """

    def looked(self, row: Row, program: Program, seen: Sequence[Word]) -> Program:
        after = super().looked(row, program, seen)
        tells = after.step is Step.STORE and not self.complete(row, program.tile)
        return after._replace(step=Step.PUBLISH_PREFIX) if tells else after

    def _told(self, row: Row, program: Program) -> tuple[Sequence[int], Word]:
        if program.step is not Step.PUBLISH_PREFIX:
            return super()._told(row, program)
        total = joined(program.total, row.aggregate(program.tile))
        return [program.tile], (PREFIX, total)

    def published(self, row: Row, program: Program) -> Program:
        if program.step is not Step.PUBLISH_PREFIX:
            return super().published(row, program)
        return program._replace(step=Step.STORE)


class AsTheyCome(Grouped):
    """The words of a window are combined as they come.

    Those that are there at the first look are one fold, and those that come later another: nothing
    is missing, but what is combined with what depends on timing.
    """

    def looked(self, row: Row, program: Program, seen: Sequence[Word]) -> Program:
        after = super().looked(row, program, seen)
        window = self.looked_at(row, program.tile, program.end)
        words = [word for word, entry in zip(seen, window, strict=True) if entry >= 0]
        there = tuple(itertools.takewhile(lambda word: word[0] != EMPTY, words))
        if after == program:
            return program if program.kept else program._replace(kept=there)
        if not program.kept:
            return after
        count = len(program.kept)
        return after._replace(total=joined(self.fold(words[:count]), self.fold(words[count:])))


class GroupWithoutItself(Grouped):
    """A group's total lacks its last tile."""

    def behind(self, further: str, nearer: str) -> str:
        del nearer
        return further


class GroupPastRestart(Grouped):
    """A group with a restart publishes like any other.

    What comes before the restart would reach the groups behind it.
    """

    def _told(self, row: Row, program: Program) -> tuple[Sequence[int], Word]:
        ends_all = self.ended(program.tile) == len(self.sizes)
        return super()._told(row, program._replace(done=ends_all))


class RestartForgotten(Grouped):
    """What is further away than a restart is combined, too."""

    def last_prefix(self, tags: Sequence[int]) -> int | None:
        return min((place for place, tag in enumerate(tags) if tag == PREFIX), default=None)


class RestartNotCut(Grouped):
    """The last tile of a group adds what is before it to a total that holds a restart."""

    def looked(self, row: Row, program: Program, seen: Sequence[Word]) -> Program:
        whole_row = dataclasses.replace(row, restarts=row.restarts - {program.tile})
        return super().looked(whole_row, program, seen)

    def _told(self, row: Row, program: Program) -> tuple[Sequence[int], Word]:
        if program.step is Step.PUBLISH_GROUP:
            row = dataclasses.replace(row, restarts=row.restarts - {program.tile})
        return super()._told(row, program)


class AllOfGroup(Grouped):
    """All tiles of a group are combined, also those behind."""

    def nodes(self, row: Row, tile: int, level: int) -> Sequence[int]:
        nodes = super().nodes(row, tile, level)
        if level or not nodes:
            return nodes
        tiles = range(nodes[0], min(row.tiles, nodes[0] + self.sizes[0]))
        return [t for t in tiles if t != tile]


class OwnPrefix(Grouped):
    """The prefix of a tile's own supergroup is waited for, not of the one before.

    It is written by the supergroup's last tile, which waits for this one's group.
    """

    def nodes(self, row: Row, tile: int, level: int) -> Sequence[int]:
        nodes = super().nodes(row, tile, level)
        if level < len(self.sizes) or not nodes:
            return nodes
        own = tile // self.of_level(level)
        return [own] if own < row.tiles // self.of_level(level) else nodes


class PrefixTooSoon(Grouped):
    """The next prefix is published before the one before it is known."""

    def looked_at(self, row: Row, tile: int, what: int) -> tuple[int, ...]:
        entries = super().looked_at(row, tile, what)
        prefixes = self.entry(row, len(self.sizes), 0, 0)
        return entries if what == WINDOW else tuple(-1 if e >= prefixes else e for e in entries)


class GroupsOfAll(Grouped):
    """All groups of the row are waited for, also those of supergroups before.

    The last group of a supergroup tells no total: the prefix holds it.
    """

    def nodes(self, row: Row, tile: int, level: int) -> Sequence[int]:
        if level != 1:
            return super().nodes(row, tile, level)
        return range(tile // self.of_level(1))

    def looked_at(self, row: Row, tile: int, what: int) -> tuple[int, ...]:
        return super().looked_at(row, tile, what)[-self.window :]


class GroupsCommuted(Grouped):
    """What is further away is put behind what is nearer."""

    def behind(self, further: str, nearer: str) -> str:
        return joined(nearer, further)


class OneCopy(Grouped):
    """Of the copies of a total only the first is written, and the others are waited for."""

    def published(self, row: Row, program: Program) -> Program:
        after = super().published(row, program)
        return super().published(row, after) if after.step is Step.PUBLISH_GROUP else after


class KeptTooLong(Grouped):
    """What was not there at the first look is not looked at again."""

    def request(self, row: Row, program: Program) -> Request | None:
        request = super().request(row, program)
        if not isinstance(request, Look) or not program.kept:
            return request
        return Look((-1,) * len(request.tiles))


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


def _right(tiles: int, *restarts: int, sizes: tuple[int, ...] = (2, 2), **how: Any) -> Launch:
    """A launch of tiles in groups, started in order."""
    return Launch(Grouped.of(*sizes, **how), Row(tiles, frozenset(restarts)))


GROUP_MISTAKES = (
    Mistake(PrefixesOfTiles, _right(4), "wrong"),
    Mistake(AsTheyCome, _right(4, sizes=(4, 1)), "wrong"),
    Mistake(GroupWithoutItself, _right(3), "wrong"),
    Mistake(GroupPastRestart, _right(6, 2), "wrong"),
    Mistake(RestartForgotten, _right(5, 2), "wrong"),
    Mistake(RestartNotCut, _right(4, 1), "wrong"),
    Mistake(AllOfGroup, _right(6, sizes=(3, 2)), "wrong"),
    Mistake(OwnPrefix, _right(9), "stuck"),
    Mistake(PrefixTooSoon, _right(9), "wrong"),
    Mistake(GroupsOfAll, _right(7), "stuck"),
    Mistake(GroupsCommuted, _right(4), "wrong"),
    Mistake(OneCopy, _right(4, copies=2), "stuck"),
    Mistake(KeptTooLong, _right(3, keeps=True), "stuck"),
    Mistake(EmptyGroupsSkipped, _right(3), "wrong"),
    Mistake(TornGroups, _right(3, pieces=2), "wrong"),
    Mistake(GroupsNotCleared, _right(3), "wrong"),
)
