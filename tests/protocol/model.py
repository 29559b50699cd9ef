"""The protocol of tiles that talk, as a model: what each does, one operation on memory at a time.

    program   (take a ticket) ─► publish the aggregate ─► look back ... ─► publish the prefix ─► end

It is the protocol of `jscan.kernels.lookback` and `jscan.kernels.chained`, with their tags and
their names of steps, and without JAX. `exploration` runs it in every order, `mistakes` varies it,
`schedules` holds it against the kernels.

Values are strings that are put behind one another, so that a total says of which tiles it is and in
which order: no operator can tell more.

Memory is relaxed. A read may return anything that the word has held, unless the program has read
something newer there before. So it is nothing to a program when it reads the words of a window, at
one instant or one after another, and a look is one operation. What is local to a program is part
of the operation before it.
"""

from __future__ import annotations

import dataclasses
import random
import string
from collections.abc import Hashable, Iterable, Sequence
from typing import Generic, NamedTuple, TypeVar

from jscan.kernels import state
from jscan.kernels.steps import Step

EMPTY, AGGREGATE, PREFIX = (int(tag) for tag in (state.EMPTY, state.AGGREGATE, state.PREFIX))

Word = tuple[int, str]
"""A tag and a value."""
BLANK: Word = (EMPTY, "")
Words = tuple[tuple[Word, ...], ...]
"""What each piece of a tile has held, the oldest first."""


class Program(NamedTuple):
    """What a program knows: the step that it is at, and what it needs for it."""

    step: Step  # STORE once there is nothing left that others could see
    tile: int  # -1 before it has a ticket
    piece: int = 0  # to be published next
    end: int = 0  # it looks at the tiles before this one
    total: str = ""  # of the tiles from `end` to its own
    done: bool = False  # whether that goes back to a restart or the start, in `groups`
    kept: tuple[Word, ...] = ()  # what its last look has seen, in `groups`


class Take(NamedTuple):
    """Takes a ticket."""


class Publish(NamedTuple):
    """Writes one word."""

    tile: int
    piece: int
    word: Word


class Look(NamedTuple):
    """Reads all words of some tiles; there is none before tile 0."""

    tiles: tuple[int, ...]


Request = Take | Publish | Look


@dataclasses.dataclass(frozen=True)
class Row:
    """What is scanned: a letter for each tile, and where scans restart."""

    tiles: int
    restarts: frozenset[int] = frozenset()

    def aggregate(self, tile: int) -> str:
        """The total of a tile, since its last restart."""
        return string.ascii_letters[tile]

    def complete(self, tile: int) -> bool:
        """Whether the aggregate of a tile is its prefix."""
        return tile == 0 or tile in self.restarts

    def before(self, tile: int) -> str:
        """The total of what is before a tile."""
        start = max((t for t in range(tile) if self.complete(t)), default=0)
        return string.ascii_letters[start:tile]

    def right(self, tile: int, tag: int) -> str:
        """What a word of this tag must hold."""
        complete = tag == AGGREGATE or self.complete(tile)
        return ("" if complete else self.before(tile)) + self.aggregate(tile)


@dataclasses.dataclass(frozen=True)
class Protocol:
    """What programs do: a step's request, and where its answer leads."""

    window: int = 1
    pieces: int = 1
    aggregates: bool = True  # whether a tile publishes what is no prefix yet
    tickets: bool = False  # whether tiles are numbered in the order in which programs start

    def steps(self, tile: int) -> Sequence[Step]:
        """The steps of the program of a tile, one after another, but for when it scans."""
        del tile
        without = {Step.SCAN, Step.PUBLISH_GROUP} | (set() if self.tickets else {Step.TAKE_TICKET})
        return [step for step in Step if step not in without]

    def entries(self, row: Row) -> int:
        """How many have words: the tiles come first."""
        return row.tiles

    def right(self, row: Row, entry: int, tag: int) -> str:
        """What a word of this tag must hold."""
        return row.right(entry, tag)

    def before(self, row: Row, tile: int) -> str:
        """What a tile must find."""
        return row.before(tile)

    def initial(self, row: Row, tile: int) -> Words:
        """A tile's words before the launch."""
        del row, tile
        return ((BLANK,),) * self.pieces

    def start(self, row: Row, number: int) -> Program:
        """A program that begins."""
        return Program(Step.TAKE_TICKET, -1) if self.tickets else self.numbered(row, number)

    def numbered(self, row: Row, tile: int) -> Program:
        """A program that knows its tile."""
        return self._settled(row, Program(Step.PUBLISH_AGGREGATE, tile, end=tile))

    def request(self, row: Row, program: Program) -> Request | None:
        """The next operation on memory; None at the end."""
        if program.step is Step.TAKE_TICKET:
            return Take()
        if program.step is Step.LOOK_BACK:
            return Look(tuple(range(program.end - self.window, program.end)))
        if program.step is Step.STORE:
            return None
        word = self.told(row, program)[program.piece]
        return Publish(program.tile, program.piece, word)

    def told(self, row: Row, program: Program) -> Sequence[Word]:
        """The words of a step that publishes; none where there is nothing to tell."""
        aggregate, complete = row.aggregate(program.tile), self.complete(row, program.tile)
        if program.step is Step.PUBLISH_PREFIX:
            return [] if complete else self.words(PREFIX, self.inclusive(program, aggregate))
        if complete:
            return self.words(PREFIX, aggregate)
        return self.words(AGGREGATE, aggregate) if self.aggregates else []

    def complete(self, row: Row, tile: int) -> bool:
        """Whether nobody needs to look past a tile."""
        return row.complete(tile)

    def inclusive(self, program: Program, aggregate: str) -> str:
        """The prefix up to and with the tile."""
        return program.total + aggregate

    def words(self, tag: int, value: str) -> Sequence[Word]:
        """A value as words, one a piece."""
        return [(tag, value)] * self.pieces

    def published(self, row: Row, program: Program) -> Program:
        """After a word has been written."""
        return self._settled(row, program._replace(piece=program.piece + 1))

    def _settled(self, row: Row, program: Program) -> Program:
        """At the next step in which there is something to do."""
        publishes = (Step.PUBLISH_AGGREGATE, Step.PUBLISH_PREFIX)
        while program.step in publishes and program.piece == len(self.told(row, program)):
            first = program.step is Step.PUBLISH_AGGREGATE
            program = program._replace(step=Step.LOOK_BACK if first else Step.STORE, piece=0)
        return program

    def assembled(self, words: Sequence[Word]) -> Word:
        """A tile's tag and value, from its pieces."""
        tags = {tag for tag, _ in words}
        return (words[0][0], whole(words)) if len(tags) == 1 else BLANK

    def looked(self, row: Row, program: Program, seen: Sequence[Word]) -> Program:
        """After a look; the same program if it has to look again."""
        first = program.tile == 0
        start = self.last_prefix([tag for tag, _ in seen])
        since = seen if start is None else seen[start:]
        if self.waits(since) and not first:
            return program
        total = "" if first else self.behind(self.fold(since), program.total)
        if start is None and not first:
            return program._replace(end=self.window_before(program.end), total=total)
        found = program._replace(step=Step.PUBLISH_PREFIX, end=0, total=total)
        return self._settled(row, found)

    def last_prefix(self, tags: Sequence[int]) -> int | None:
        """The place of the window's last PREFIX."""
        return max((place for place, tag in enumerate(tags) if tag == PREFIX), default=None)

    def waits(self, since: Sequence[Word]) -> bool:
        """Whether a tile from the last PREFIX on is still to publish."""
        return any(tag == EMPTY for tag, _ in since)

    def fold(self, since: Sequence[Word]) -> str:
        """The total of tiles, in order."""
        return "".join(value for _, value in since)

    def behind(self, further: str, nearer: str) -> str:
        """The totals of two windows together."""
        return further + nearer

    def window_before(self, end: int) -> int:
        """Where the next window ends."""
        return end - self.window

    def looks(self, row: Row, program: Program, seen: Iterable[Sequence[Word]]) -> set[Program]:
        """All that may come of one look, given all that it may see."""
        return {self.looked(row, program, window) for window in seen}

    def landed(self, words: tuple[Word, ...], word: Word) -> tuple[Word, ...]:
        """What a word has held after one more write: it never goes back to a lower tag."""
        return (*words, word) if word[0] > words[-1][0] else words


def lookback(window: int, pieces: int = 1) -> Protocol:
    """The protocol of `jscan.kernels.lookback`; a window of one tile is the serial one."""
    return Protocol(window=window, pieces=pieces)


def chained(pieces: int = 1) -> Protocol:
    """The protocol of `jscan.kernels.chained`."""
    return Protocol(pieces=pieces, aggregates=False, tickets=True)


def whole(words: Sequence[Word]) -> str:
    """The value of which these are the pieces; a torn one is no total of any tiles."""
    values = {value: None for _, value in words}
    return "/".join(values)


Value = TypeVar("Value")


class Memory(Generic[Value]):
    """Tagged words of any values, with what each reader has seen of them: for single schedules."""

    def __init__(self, rng: random.Random):
        self._rng = rng
        self._versions: dict[Hashable, list[tuple[int, Value]]] = {}
        self._seen: dict[Hashable, int] = {}

    def set(self, address: Hashable, word: tuple[int, Value]) -> None:
        """What a word holds before the launch."""
        self._versions[address] = [word]

    def publish(self, writer: Hashable, address: Hashable, word: tuple[int, Value]) -> None:
        """Writes a word, unless it is beyond this tag already."""
        versions = self._versions[address]
        if word[0] > versions[-1][0]:
            versions.append(word)
        self._seen[writer, address] = len(versions) - 1

    def choose(self, reader: Hashable, address: Hashable, *, newest: bool) -> int:
        """Which version a read returns: the newest, or any since the reader's last."""
        oldest, last = self._seen.get((reader, address), 0), len(self._versions[address]) - 1
        chosen = last if newest else self._rng.randint(oldest, last)
        self._seen[reader, address] = chosen
        return chosen

    def version(self, address: Hashable, number: int) -> tuple[int, Value]:
        """One of the values that a word has held."""
        return self._versions[address][number]
