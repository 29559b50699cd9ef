"""Every order in which the programs of a launch may run, and every word that they may read.

A state is what the programs know and what the words have held. From every state each program makes
its next step, each look with everything that it may see. What is read by a look that has to be
repeated is forgotten: the next may see all of it again, and something newer too, so that nothing is
left out and nothing impossible is added. States are therefore passed through once, but for the
looks that change nothing, which count as no transition.

    safety     every word that is written, and every total that is found, is the right one
    progress   from every state the end of all programs can be reached by looks that see the newest
               words: what was written is seen in the end, and what is gone need not be

How far a look back goes is neither: a lookback that never publishes a PREFIX passes, slow as it is.
`tests/protocol/schedules.py` sees that the kernels publish what the model does.

Interleavings are the ways through the states from the start to the end.
"""

from __future__ import annotations

import dataclasses
import itertools
from collections import Counter
from collections.abc import Hashable, Iterator, Sequence
from typing import Generic, NamedTuple, TypeVar

from jscan.kernels.steps import Step
from tests.protocol.model import (
    BLANK,
    Look,
    Program,
    Protocol,
    Publish,
    Row,
    Take,
    Word,
    Words,
)


@dataclasses.dataclass(frozen=True)
class Launch:
    """A protocol at work on a row."""

    protocol: Protocol
    row: Row
    in_order: bool = True  # whether programs start in the order of their numbers
    slots: int | None = None  # how many may run at a time; None for all of them
    reordered: bool = False  # whether a program's writes may reach memory in any order


@dataclasses.dataclass(frozen=True)
class Exploration:
    """What there is to say of a launch."""

    states: int
    transitions: int
    interleavings: int
    fault: str | None = None  # what went wrong, if anything
    steps: tuple[str, ...] = ()  # that lead there, as few as possible
    path: tuple[Snapshot, ...] = dataclasses.field(default=(), repr=False)  # the states between

    @property
    def verdict(self) -> str:
        """One word for it."""
        return "right" if self.fault is None else self.fault.split(":", 1)[0]


class Stuck(AssertionError):
    """A schedule in which nothing moves any more."""


Thing = TypeVar("Thing", bound=Hashable)


class Numbers(Generic[Thing]):
    """Numbers for things, so that states are tuples of them."""

    def __init__(self) -> None:
        self.things: list[Thing] = []
        self._numbers: dict[Thing, int] = {}

    def of(self, thing: Thing) -> int:
        """The number of a thing."""
        if thing not in self._numbers:
            self._numbers[thing] = len(self.things)
            self.things.append(thing)
        return self._numbers[thing]


@dataclasses.dataclass(frozen=True)
class Running:
    """A program, with what it has written that memory does not hold yet."""

    program: Program | None  # None before it starts
    flight: tuple[Publish, ...] = ()

    @property
    def holds_slot(self) -> bool:
        """Whether it runs."""
        return self.program is not None and self.program.step is not Step.STORE

    @property
    def over(self) -> bool:
        """Whether nothing will come of it any more."""
        return self.program is not None and not self.holds_slot and not self.flight


class Snapshot(NamedTuple):
    """A state in full."""

    tickets: int  # taken
    programs: tuple[Running, ...]
    words: tuple[Words, ...]  # by tile, then of what else has words

    def since(self, before: Snapshot) -> tuple[Running, Running]:
        """The program that has made the step between two states: as it was, and as it is."""
        [gone] = (Counter(before.programs) - Counter(self.programs)).elements()
        [come] = (Counter(self.programs) - Counter(before.programs)).elements()
        return gone, come


State = tuple[int, tuple[int, ...], tuple[int, ...]]
"""Tickets taken, programs, words by tile."""


class Move(NamedTuple):
    """A step of a program."""

    after: int  # the program
    tile: int = -1  # whose words it wrote
    words: int = -1  # which these now are
    fault: str | None = None
    late: bool = False  # whether it has seen words that were no longer the newest


class Explorer:
    """A launch's states and the steps between them."""

    def __init__(self, launch: Launch):
        self.launch, self.protocol, self.row = launch, launch.protocol, launch.row
        self._programs: Numbers[Running] = Numbers()
        self._words: Numbers[Words] = Numbers()
        self._moves: dict[tuple[int, ...], list[Move]] = {}
        self._reads: dict[int, tuple[int, ...]] = {}

    def start(self) -> State:
        """Before the first program starts."""
        entries = range(self.protocol.entries(self.row))
        words = tuple(self._words.of(self.protocol.initial(self.row, e)) for e in entries)
        return 0, (self._programs.of(Running(None)),) * self.row.tiles, words

    def ended(self, state: State) -> bool:
        """Whether all programs have."""
        return all(self._programs.things[p].over for p in state[1])

    def shown(self, state: State) -> tuple[object, ...]:
        """A state in full: programs with what they have in flight, and words."""
        tickets, programs, words = self.snapshot(state)
        shown = [(one.program, tuple(sorted(one.flight))) for one in programs]
        if self.protocol.tickets:
            shown.sort(key=str)
        return tickets, tuple(shown), words

    def snapshot(self, state: State) -> Snapshot:
        """A state, its numbers read."""
        tickets, programs, words = state
        things, held = self._programs.things, self._words.things
        return Snapshot(tickets, tuple(things[p] for p in programs), tuple(held[w] for w in words))

    def steps(self, state: State) -> Iterator[tuple[State, Move]]:
        """What may come next, and by which step."""
        tickets, programs, words = state
        for k in self._startable(programs):
            first = Move(self._programs.of(Running(self.protocol.start(self.row, k))))
            yield self._state(tickets, programs, k, first.after, words), first
        for k, number in enumerate(programs):
            for move in self._next(number, words, tickets):
                tile, taken = move.tile, tickets + (move.tile == TICKET)
                both = words if tile < 0 else (*words[:tile], move.words, *words[tile + 1 :])
                yield self._state(taken, programs, k, move.after, both), move

    def _state(
        self, tickets: int, programs: tuple[int, ...], k: int, after: int, words: tuple[int, ...]
    ) -> State:
        programs = (*programs[:k], after, *programs[k + 1 :])
        # Programs that take tickets have no number of their own: any may stand for any.
        return tickets, tuple(sorted(programs)) if self.protocol.tickets else programs, words

    def _startable(self, programs: tuple[int, ...]) -> list[int]:
        things = self._programs.things
        waiting = [k for k, p in enumerate(programs) if things[p].program is None]
        slots = self.row.tiles if self.launch.slots is None else self.launch.slots
        if sum(things[p].holds_slot for p in programs) >= slots:
            return []
        return waiting[:1] if self.launch.in_order else waiting

    def _next(self, number: int, words: tuple[int, ...], tickets: int) -> list[Move]:
        """A program's next steps, which depend on nothing but the words that it works on."""
        if number not in self._reads:
            self._reads[number] = self._tiles(self._programs.things[number])
        key = (number, *[words[t] if t >= 0 else tickets for t in self._reads[number]])
        if key not in self._moves:
            self._moves[key] = [*self._made(self._programs.things[number], words, tickets)]
        return self._moves[key]

    def _tiles(self, running: Running) -> tuple[int, ...]:
        """The tiles whose words matter to a program; `TICKET` if the count of tickets does."""
        if running.program is None:
            return ()
        request = self.protocol.request(self.row, running.program)
        tiles = [p.tile for p in running.flight]
        if isinstance(request, Look):
            tiles += [t for t in request.tiles if t >= 0]
        elif isinstance(request, Publish):
            tiles.append(request.tile)
        elif isinstance(request, Take):
            tiles.append(TICKET)
        return tuple(tiles)

    def _made(self, running: Running, words: tuple[int, ...], tickets: int) -> Iterator[Move]:
        program, flight = running.program, running.flight
        if program is None:
            return
        for publish in dict.fromkeys(flight):
            rest = [p for p in flight if p != publish]
            yield self._write(Running(program, tuple(rest)), publish, words)
        request = self.protocol.request(self.row, program)
        if isinstance(request, Take):
            after = self.protocol.numbered(self.row, tickets)
            yield Move(self._programs.of(Running(after)), TICKET)
        elif isinstance(request, Publish):
            after = self.protocol.published(self.row, program)
            if self.launch.reordered:
                flying = self._programs.of(Running(after, (*flight, request)))
                yield Move(flying, fault=self._fault(request) or self._end(after))
            else:
                yield self._write(Running(after, flight), request, words)
        elif isinstance(request, Look):
            seen = itertools.product(*(self._visible(t, words) for t in request.tiles))
            newest = [self._newest(t, words) for t in request.tiles]
            now = self.protocol.looks(self.row, program, [newest])
            # In an order that is the same in every process.
            for after in sorted(self.protocol.looks(self.row, program, seen) - {program}, key=str):
                number = self._programs.of(Running(after, flight))
                yield Move(number, fault=self._end(after), late=after not in now)

    def _write(self, after: Running, publish: Publish, words: tuple[int, ...]) -> Move:
        pieces = [*self._words.things[words[publish.tile]]]
        pieces[publish.piece] = self.protocol.landed(pieces[publish.piece], publish.word)
        fault = self._fault(publish)
        if after.program is not None:
            fault = fault or self._end(after.program)
        return Move(self._programs.of(after), publish.tile, self._words.of(tuple(pieces)), fault)

    def _visible(self, tile: int, words: tuple[int, ...]) -> set[Word]:
        """What a look may see of a tile."""
        if tile < 0:
            return {BLANK}
        histories = self._words.things[words[tile]]
        return {self.protocol.assembled(seen) for seen in itertools.product(*histories)}

    def _newest(self, tile: int, words: tuple[int, ...]) -> Word:
        if tile < 0:
            return BLANK
        histories = self._words.things[words[tile]]
        return self.protocol.assembled([history[-1] for history in histories])

    def _fault(self, publish: Publish) -> str | None:
        tag, value = publish.word
        if value in ("", self.protocol.right(self.row, publish.tile, tag)):
            return None
        return f"wrong: tile {publish.tile} publishes {value!r} with the tag {tag}"

    def _end(self, program: Program) -> str | None:
        right = program.tile < 0 or self.protocol.before(self.row, program.tile)
        if program.step is not Step.STORE or program.total == right:
            return None
        return f"wrong: before tile {program.tile} is {right!r}, not {program.total!r}"


def told(before: Snapshot, after: Snapshot) -> str:
    """The step between two states, in words."""
    _, running = after.since(before)
    program = running.program
    assert program is not None
    words = [
        f"tile {t} now holds {w}"
        for t, (v, w) in enumerate(zip(before.words, after.words, strict=True))
        if v != w
    ]
    what = f"tile {program.tile} is at {program.step.value!r}, end {program.end}"
    return "; ".join([f"{what}, total {program.total!r}", *words])


TICKET = -2
"""In place of a tile: the count of tickets."""


def explore(launch: Launch) -> Exploration:
    """Goes through all states of a launch; ends early where one is wrong."""
    explorer = Explorer(launch)
    start = explorer.start()
    states, numbers, parents = [start], {start: 0}, [0]
    edges: list[list[int]] = []
    stuck: int | None = None

    def result(fault: str | None, last: int, *more: State, interleavings: int = 0) -> Exploration:
        way = [*more]
        while last:
            way.insert(0, states[last])
            last = parents[last]
        path = tuple(map(explorer.snapshot, (start, *way)))
        steps = tuple(itertools.starmap(told, itertools.pairwise(path)))
        transitions = sum(map(len, edges))
        return Exploration(len(states), transitions, interleavings, fault, steps, path)

    for number, state in enumerate(states):  # of which there are more and more
        reached: dict[int, None] = {}
        moves = explorer.ended(state)
        for following, move in explorer.steps(state):
            if following not in numbers:
                numbers[following] = len(states)
                states.append(following)
                parents.append(number)
            reached[numbers[following]] = None
            moves = moves or not move.late
            if move.fault is not None:
                return result(move.fault, number, following)
        edges.append([*reached])
        if not moves and stuck is None:
            stuck = number
    # There are no cycles, so who moves wherever he is comes to the end.
    ways = _ways(edges)
    if stuck is not None:
        return result("stuck: programs wait for ever", stuck)
    ends = [n for n, reached in zip(ways, edges, strict=True) if not reached]
    return result(None, 0, interleavings=sum(ends))


def _ways(edges: Sequence[Sequence[int]]) -> list[int]:
    """In how many ways each state is reached from the first; there must be no cycle."""
    arrivals, ways = [0] * len(edges), [0] * len(edges)
    for reached in edges:
        for other in reached:
            arrivals[other] += 1
    ways[0] = 1
    ready, passed = [0], 0
    while ready:
        number = ready.pop()
        passed += 1
        for other in edges[number]:
            ways[other] += ways[number]
            arrivals[other] -= 1
            if not arrivals[other]:
                ready.append(other)
    assert passed == len(edges), "a state leads back to itself"
    return ways
