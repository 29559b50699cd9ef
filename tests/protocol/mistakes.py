"""Mistakes that a protocol of tiles may hold, each a small variation of `model`.

Each comes with a launch in which it shows, and with what the exploration must find there: a wrong
word or total, or programs that wait for ever. The right protocol passes in the same launch.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Sequence
from typing import Any

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

APART = -1
"""In place of a piece: the program's warps wait for each other."""


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
    def reason(self) -> str:
        """What comes of it, and what is right."""
        _, _, text = (self.protocol.__doc__ or "").partition(".")
        return " ".join(text.split())

    @property
    def launch(self) -> Launch:
        """The launch, by the wrong protocol."""
        return dataclasses.replace(self.right, protocol=self.protocol(**vars(self.right.protocol)))


class PrefixWithoutAggregate(Protocol):
    """The prefix is published before the aggregate is folded in.

    What a tile found is not yet its prefix: its own elements are missing from it, and from whatever
    its successors make of it.
    """

    def inclusive(self, program: Program, aggregate: str) -> str:
        del aggregate
        return program.total


class Untagged(Protocol):
    """The tag is in a word of its own, and no fence between it and the value.

    The tag says that there is a value before it can be read. Tag and value belong in one word,
    which is seen whole or not at all.
    """

    def initial(self, row: Row, tile: int) -> Words:
        del row, tile
        return (BLANK,), (BLANK,)

    def words(self, tag: int, value: str) -> Sequence[Word]:
        return [(tag, value), (tag, "")]

    def assembled(self, words: Sequence[Word]) -> Word:
        (_, value), (tag, _) = words
        return tag, value


class TagOfOnePiece(Protocol):
    """The tag of one piece is taken for that of all.

    A value of 64 bits is two words, written one after the other: between the two a reader sees half
    of it. It counts once the tags of both agree.
    """

    def assembled(self, words: Sequence[Word]) -> Word:
        return words[0][0], whole(words)


class HighestTag(Protocol):
    """The highest tag of the pieces is taken for that of all.

    A tag on one half says nothing of the other: the value is torn. Until all tags agree a reader
    has to take the tile for one that has not published.
    """

    def assembled(self, words: Sequence[Word]) -> Word:
        return max(tag for tag, _ in words), whole(words)


class EmptySkipped(Protocol):
    """Tiles that have not published are passed over.

    What they hold is missing from the total. Who meets an EMPTY word behind the last PREFIX has to
    look again.
    """

    def waits(self, since: Sequence[Word]) -> bool:
        del since
        return False


class NeighbourOnly(Protocol):
    """Only the nearest tile of a window is waited for.

    The other words of the window may still be EMPTY, and what they are to hold is missing from the
    total.
    """

    def waits(self, since: Sequence[Word]) -> bool:
        return since[-1][0] == EMPTY


class Commuted(Protocol):
    """A window is folded from its end.

    Operators need not commute: the words of a window are combined in the order of their tiles.
    """

    def fold(self, since: Sequence[Word]) -> str:
        return super().fold(since[::-1])


class WindowsCommuted(Protocol):
    """The total of a further window is put behind that of a nearer one.

    What lies further back comes first: operators need not commute.
    """

    def behind(self, further: str, nearer: str) -> str:
        return nearer + further


class AllOfWindow(Protocol):
    """All of a window is folded, also what is before its last PREFIX.

    A PREFIX holds everything up to and with its tile, so that what is before it is counted twice.
    """

    def looked(self, row: Row, program: Program, seen: Sequence[Word]) -> Program:
        after = super().looked(row, program, seen)
        if after == program or program.tile == 0:
            return after
        return after._replace(total=self.behind(self.fold(seen), program.total))


class FirstPrefix(Protocol):
    """The first PREFIX of a window is taken for the last.

    Later tiles have published what they found from it, so that it is counted twice.
    """

    def last_prefix(self, tags: Sequence[int]) -> int | None:
        return tags.index(PREFIX) if PREFIX in tags else None


class PrefixExcluded(Protocol):
    """The last PREFIX of a window is not folded in.

    A PREFIX ends the search and belongs to the total: without it all that it stands for is missing.
    """

    def fold(self, since: Sequence[Word]) -> str:
        return super().fold([word for word in since if word[0] != PREFIX])


class PastPrefix(Protocol):
    """A tile looks on past a PREFIX.

    There is nothing left to find: what a PREFIX holds is counted again.
    """

    def last_prefix(self, tags: Sequence[int]) -> int | None:
        last = super().last_prefix(tags)
        return last if last == len(tags) - 1 else None


class PastRestart(Protocol):
    """A tile with a restart publishes like any other.

    A segment begins in it, and what comes before must not reach its successors: its aggregate is
    their prefix, and is published as one at once.
    """

    def complete(self, row: Row, tile: int) -> bool:
        del row
        return tile == 0


class RestartDoesNotLook(Protocol):
    """A tile with a restart takes nothing from the tiles before it.

    Its elements before the restart belong to a segment that began earlier: they wait for what comes
    before, though nobody waits for them.
    """

    def looked(self, row: Row, program: Program, seen: Sequence[Word]) -> Program:
        if not self.complete(row, program.tile):
            return super().looked(row, program, seen)
        return super().looked(row, program._replace(tile=0), seen)._replace(tile=program.tile)


class WindowTooFar(Protocol):
    """The next window is one tile too far.

    A tile between two windows is in neither, and missing from the total.
    """

    def window_before(self, end: int) -> int:
        return super().window_before(end) - 1


class WindowTooNear(Protocol):
    """The next window is one tile too near.

    The tile where two windows meet is in both, and counted twice.
    """

    def window_before(self, end: int) -> int:
        return super().window_before(end) + 1


class NotCleared(Protocol):
    """The words still hold what the launch before has left.

    Words have no number of a launch. They are zero, which is EMPTY, before each; else a look takes
    yesterday's totals (in capitals) for today's.
    """

    def initial(self, row: Row, tile: int) -> Words:
        before = row.right(tile, PREFIX).swapcase()
        return (((PREFIX, before),),) * self.pieces


class AggregateAsPrefix(Protocol):
    """An aggregate is published as PREFIX.

    Who reads it looks no further, and misses all that comes before the tile.
    """

    def words(self, tag: int, value: str) -> Sequence[Word]:
        del tag
        return super().words(PREFIX, value)


class PrefixAsAggregate(Protocol):
    """A prefix is published as AGGREGATE.

    Who reads it looks further back for what it holds already.
    """

    def told(self, row: Row, program: Program) -> Sequence[Word]:
        words = super().told(row, program)
        if program.step is not Step.PUBLISH_PREFIX:
            return words
        return [(AGGREGATE, value) for _, value in words]


class BackToLowerTags(Protocol):
    """Words are stored, not raised: of two writes the later to land stays.

    Relaxed writes may arrive in any order. An aggregate that arrives late wipes out half of a
    PREFIX, whose tags never agree again. An atomic maximum never goes back.
    """

    def landed(self, words: tuple[Word, ...], word: Word) -> tuple[Word, ...]:
        return (*words, word)


class FirstTileWaits(Protocol):
    """The first tile of a row publishes like any other.

    Its aggregate is its prefix. Published as an AGGREGATE it sends those who see it further back,
    to where there is nothing, and never will be.
    """

    def complete(self, row: Row, tile: int) -> bool:
        return tile in row.restarts


class WaitsForAll(Protocol):
    """All of a window is waited for, also what is before its last PREFIX.

    Before the first tile there is nothing to wait for, and what is before a PREFIX does not matter:
    who waits for it may wait for ever.
    """

    def looked(self, row: Row, program: Program, seen: Sequence[Word]) -> Program:
        if program.tile and any(tag == EMPTY for tag, _ in seen):
            return program
        return super().looked(row, program, seen)


class TwoSnapshots(Protocol):
    """Two warps decide each from a look of its own.

    They meet at every step of a search, where each adds its part of the window to the other's. If
    one goes on and one does not, both wait for ever.
    """

    def looks(self, row: Row, program: Program, seen: Iterable[Sequence[Word]]) -> set[Program]:
        if program.piece == APART:
            return set()
        each = super().looks(row, program, seen)
        apart = len({(after.step, after.end) for after in each}) > 1
        return each | {program._replace(piece=APART)} if apart else each


class Unticketed(Protocol):
    """Tiles are numbered like programs, which start in any order.

    Programs that run wait for tiles whose programs cannot start before they end. A ticket, taken by
    a program that runs, is a number that only programs before it have.
    """

    def __init__(self, **form: Any):
        super().__init__(**{**form, "tickets": False})


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
