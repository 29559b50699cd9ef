"""Mistakes that a protocol of tiles may hold, each a small variation of `model`.

Each comes with a launch in which it shows, and with what the exploration must find there: a wrong
word or total, or programs that wait for ever. The right protocol passes in the same launch.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Sequence

from jscan.kernels.steps import Step
from tests.protocol.exploration import Launch
from tests.protocol.model import (
    AGGREGATE,
    BLANK,
    EMPTY,
    PREFIX,
    Program,
    Protocol,
    Row,
    Word,
    Words,
    chained,
    lookback,
    whole,
)


@dataclasses.dataclass(frozen=True)
class Mistake:
    """A wrong protocol, where it shows, and how."""

    protocol: type[Protocol]
    right: Launch  # the launch, by the right protocol
    verdict: str

    @property
    def name(self) -> str:
        """What is wrong, in words."""
        return (self.protocol.__doc__ or "").partition(".")[0]

    @property
    def launch(self) -> Launch:
        """The launch, by the wrong protocol."""
        return dataclasses.replace(self.right, protocol=self.protocol(**vars(self.right.protocol)))


class PrefixWithoutAggregate(Protocol):
    """The prefix is published before the aggregate is folded in."""

    def inclusive(self, program: Program, aggregate: str) -> str:
        del aggregate
        return program.total


class Untagged(Protocol):
    """The tag is in a word of its own, and no fence between it and the value."""

    def initial(self, row: Row, tile: int) -> Words:
        del row, tile
        return (BLANK,), (BLANK,)

    def words(self, tag: int, value: str) -> Sequence[Word]:
        return [(tag, value), (tag, "")]

    def assembled(self, words: Sequence[Word]) -> Word:
        (_, value), (tag, _) = words
        return tag, value


class TagOfOnePiece(Protocol):
    """The tag of one piece is taken for that of all."""

    def assembled(self, words: Sequence[Word]) -> Word:
        return words[0][0], whole(words)


class HighestTag(Protocol):
    """The highest tag of the pieces is taken for that of all."""

    def assembled(self, words: Sequence[Word]) -> Word:
        return max(tag for tag, _ in words), whole(words)


class EmptySkipped(Protocol):
    """Tiles that have not published are passed over."""

    def waits(self, since: Sequence[Word]) -> bool:
        del since
        return False


class NeighbourOnly(Protocol):
    """Only the nearest tile of a window is waited for."""

    def waits(self, since: Sequence[Word]) -> bool:
        return since[-1][0] == EMPTY


class Commuted(Protocol):
    """A window is folded from its end."""

    def fold(self, since: Sequence[Word]) -> str:
        return super().fold(since[::-1])


class WindowsCommuted(Protocol):
    """The total of a further window is put behind that of a nearer one."""

    def behind(self, further: str, nearer: str) -> str:
        return nearer + further


class AllOfWindow(Protocol):
    """All of a window is folded, also what is before its last PREFIX."""

    def looked(self, row: Row, program: Program, seen: Sequence[Word]) -> Program:
        after = super().looked(row, program, seen)
        if after == program or program.tile == 0:
            return after
        return after._replace(total=self.behind(self.fold(seen), program.total))


class FirstPrefix(Protocol):
    """The first PREFIX of a window is taken for the last."""

    def last_prefix(self, tags: Sequence[int]) -> int | None:
        return tags.index(PREFIX) if PREFIX in tags else None


class PrefixExcluded(Protocol):
    """The last PREFIX of a window is not folded in."""

    def fold(self, since: Sequence[Word]) -> str:
        return super().fold([word for word in since if word[0] != PREFIX])


class PastPrefix(Protocol):
    """A tile looks on past a PREFIX."""

    def last_prefix(self, tags: Sequence[int]) -> int | None:
        last = super().last_prefix(tags)
        return last if last == len(tags) - 1 else None


class PastRestart(Protocol):
    """A tile with a restart publishes like any other."""

    def complete(self, row: Row, tile: int) -> bool:
        del row
        return tile == 0


class RestartDoesNotLook(Protocol):
    """A tile with a restart takes nothing from the tiles before it."""

    def looked(self, row: Row, program: Program, seen: Sequence[Word]) -> Program:
        if not self.complete(row, program.tile):
            return super().looked(row, program, seen)
        return super().looked(row, program._replace(tile=0), seen)._replace(tile=program.tile)


class WindowTooFar(Protocol):
    """The next window is one tile too far."""

    def window_before(self, end: int) -> int:
        return super().window_before(end) - 1


class WindowTooNear(Protocol):
    """The next window is one tile too near."""

    def window_before(self, end: int) -> int:
        return super().window_before(end) + 1


class NotCleared(Protocol):
    """The words still hold what the launch before has left."""

    def initial(self, row: Row, tile: int) -> Words:
        before = row.right(tile, PREFIX).swapcase()
        return (((PREFIX, before),),) * self.pieces


class AggregateAsPrefix(Protocol):
    """An aggregate is published as PREFIX."""

    def words(self, tag: int, value: str) -> Sequence[Word]:
        del tag
        return super().words(PREFIX, value)


class PrefixAsAggregate(Protocol):
    """A prefix is published as AGGREGATE."""

    def told(self, row: Row, program: Program) -> Sequence[Word]:
        words = super().told(row, program)
        if program.step is not Step.PUBLISH_PREFIX:
            return words
        return [(AGGREGATE, value) for _, value in words]


class BackToLowerTags(Protocol):
    """Words are stored, not raised: of two writes the later to land stays."""

    def landed(self, words: tuple[Word, ...], word: Word) -> tuple[Word, ...]:
        return (*words, word)


class FirstTileWaits(Protocol):
    """The first tile of a row publishes like any other."""

    def complete(self, row: Row, tile: int) -> bool:
        return tile in row.restarts


class WaitsForAll(Protocol):
    """All of a window is waited for, also what is before its last PREFIX."""

    def looked(self, row: Row, program: Program, seen: Sequence[Word]) -> Program:
        if program.tile and any(tag == EMPTY for tag, _ in seen):
            return program
        return super().looked(row, program, seen)


class TwoSnapshots(Protocol):
    """Two warps decide each from a look of its own.

    They meet at every step of a search, where each adds its part of the window to the other's. If
    one goes on and one does not, both wait for ever: such a program has the piece -1.
    """

    def looks(self, row: Row, program: Program, seen: Iterable[Sequence[Word]]) -> set[Program]:
        if program.piece < 0:
            return set()
        each = super().looks(row, program, seen)
        apart = len({(after.step, after.end) for after in each}) > 1
        return each | {program._replace(piece=-1)} if apart else each


class Unticketed(Protocol):
    """Tiles are numbered like programs, which start in any order."""

    def start(self, row: Row, number: int) -> Program:
        return self.numbered(row, number)


def _right(
    tiles: int,
    window: int = 2,
    *,
    pieces: int = 1,
    restarts: Iterable[int] = (),
    reordered: bool = False,
) -> Launch:
    """A launch of lookback, of which all programs run at once."""
    row = Row(tiles, frozenset(restarts))
    return Launch(lookback(window, pieces), row, in_order=False, reordered=reordered)


MISTAKES = (
    Mistake(PrefixWithoutAggregate, _right(3), "wrong"),
    Mistake(Untagged, _right(3), "wrong"),
    Mistake(TagOfOnePiece, _right(3, pieces=2), "wrong"),
    Mistake(HighestTag, _right(3, pieces=2), "wrong"),
    Mistake(EmptySkipped, _right(3), "wrong"),
    Mistake(NeighbourOnly, _right(4), "wrong"),
    Mistake(Commuted, _right(3), "wrong"),
    Mistake(WindowsCommuted, _right(3, window=1), "wrong"),
    Mistake(AllOfWindow, _right(3), "wrong"),
    Mistake(FirstPrefix, _right(3), "wrong"),
    Mistake(PrefixExcluded, _right(3), "wrong"),
    Mistake(PastPrefix, _right(4), "wrong"),
    Mistake(PastRestart, _right(3, restarts=[1]), "wrong"),
    Mistake(RestartDoesNotLook, _right(3, restarts=[1]), "wrong"),
    Mistake(WindowTooFar, _right(5), "wrong"),
    Mistake(WindowTooNear, _right(4), "wrong"),
    Mistake(NotCleared, _right(3), "wrong"),
    Mistake(AggregateAsPrefix, _right(3), "wrong"),
    Mistake(PrefixAsAggregate, Launch(chained(), Row(3)), "wrong"),
    Mistake(BackToLowerTags, _right(3, pieces=2, reordered=True), "stuck"),
    Mistake(FirstTileWaits, _right(3), "stuck"),
    Mistake(WaitsForAll, _right(3), "stuck"),
    Mistake(TwoSnapshots, _right(3), "stuck"),
    Mistake(Unticketed, Launch(chained(), Row(3), in_order=False, slots=2), "stuck"),
)
