"""Turns of programs, one after another: a random schedule, or the way to what an exploration found.

A turn says what a program has done and what it has seen, so that it can be told or drawn.
"""

from __future__ import annotations

import enum
import itertools
import random
from collections.abc import Iterator, Sequence
from typing import NamedTuple

from jscan.kernels.steps import Step
from tests.protocol.exploration import Launch, Running, Snapshot
from tests.protocol.model import (
    BLANK,
    Look,
    Memory,
    Program,
    Publish,
    Take,
    Word,
    Words,
)

Seen = tuple[tuple[Word, ...], ...]
"""What a look has read: of each tile its words, none of a tile before the first."""


class Deed(enum.Enum):
    """What a program does in a turn."""

    START = "start"
    TAKE = "take"
    PUBLISH = "publish"
    SEND = "send"  # where writes may reach memory in any order
    LAND = "land"
    LOOK = "look"


class Turn(NamedTuple):
    """What one program does."""

    number: int  # of the program
    deed: Deed
    before: Program | None  # None before it starts
    after: Program
    publish: Publish | None = None
    look: Look | None = None
    seen: tuple[Seen, ...] = ()  # by each of the warps that look for themselves


def wander(launch: Launch, seed: int) -> Iterator[Turn]:
    """One random schedule of a launch, of any size."""
    rng = random.Random(seed)
    protocol, row = launch.protocol, launch.row
    memory: Memory[str] = Memory(rng)
    for tile in range(protocol.entries(row)):
        for piece, versions in enumerate(protocol.initial(row, tile)):
            memory.set((tile, piece), versions[-1])
    waiting = [*range(row.tiles)]
    if not launch.in_order:
        rng.shuffle(waiting)
    running: dict[int, Program] = {}
    tickets = steps = 0
    slots = launch.slots or row.tiles
    while waiting or running:
        steps += 1
        assert steps < 10_000 * row.tiles, "programs wait for ever"
        if waiting and len(running) < slots and (not running or rng.random() < 0.3):
            number = waiting.pop(0)
            running[number] = protocol.start(row, number)
            yield Turn(number, Deed.START, None, running[number])
        number = rng.choice([*running])
        program = running[number]
        request = protocol.request(row, program)
        if isinstance(request, Take):
            after, tickets = protocol.numbered(row, tickets), tickets + 1
            yield Turn(number, Deed.TAKE, program, after)
        elif isinstance(request, Publish):
            assert request.word[1] == protocol.right(row, request.tile, request.word[0]), request
            memory.publish(number, (request.tile, request.piece), request.word)
            after = protocol.published(row, program)
            yield Turn(number, Deed.PUBLISH, program, after, publish=request)
        else:
            assert isinstance(request, Look)
            newest = rng.random() < 0.5
            read = []
            for tile in request.tiles:
                places = [(tile, piece) for piece in range(protocol.pieces) if tile >= 0]
                chosen = [memory.choose(number, place, newest=newest) for place in places]
                read.append(tuple(map(memory.version, places, chosen)))
            after = protocol.looked(row, program, assembled(launch, read))
            yield Turn(number, Deed.LOOK, program, after, look=request, seen=(tuple(read),))
        running[number] = after
        if after.step is Step.STORE:
            assert after.total == protocol.before(row, after.tile), after
            del running[number]


def assembled(launch: Launch, seen: Sequence[tuple[Word, ...]]) -> list[Word]:
    """What a look takes for the words of tiles."""
    return [launch.protocol.assembled(words) if words else BLANK for words in seen]


def along(launch: Launch, path: Sequence[Snapshot]) -> Iterator[Turn]:
    """The turns that lead from state to state."""
    programs = [Running(None)] * launch.row.tiles
    for before, after in itertools.pairwise(path):
        gone, come = after.since(before)
        assert come.program is not None
        # Programs that take tickets have no number of their own: any may stand for any.
        named = gone.program is None and not launch.protocol.tickets
        number = come.program.tile if named else programs.index(gone)
        programs[number] = come
        yield _turn(launch, number, gone, come, before.words)


def in_vain(launch: Launch, last: Snapshot) -> Iterator[Turn]:
    """A look at the newest words by each program that waits, where none can go on."""
    for number, running in enumerate(last.programs):
        program = running.program
        if program is None or program.piece < 0 or not running.holds_slot:
            continue
        request = launch.protocol.request(launch.row, program)
        assert isinstance(request, Look)
        seen = next(_readings(request, last.words))
        [after] = launch.protocol.looks(launch.row, program, [assembled(launch, seen)])
        yield Turn(number, Deed.LOOK, program, after, look=request, seen=(seen,))


def _turn(
    launch: Launch, number: int, gone: Running, come: Running, words: tuple[Words, ...]
) -> Turn:
    before, after = gone.program, come.program
    assert after is not None
    if before is None:
        return Turn(number, Deed.START, None, after)
    if len(come.flight) != len(gone.flight):
        lands = len(come.flight) < len(gone.flight)
        more, fewer = (gone, come) if lands else (come, gone)
        [publish] = [p for p in more.flight if more.flight.count(p) > fewer.flight.count(p)]
        return Turn(number, Deed.LAND if lands else Deed.SEND, before, after, publish=publish)
    request = launch.protocol.request(launch.row, before)
    if isinstance(request, Publish):
        return Turn(number, Deed.PUBLISH, before, after, publish=request)
    if not isinstance(request, Look):
        return Turn(number, Deed.TAKE, before, after)
    return Turn(
        number,
        Deed.LOOK,
        before,
        after,
        look=request,
        seen=_seen(launch, before, after, request, words),
    )


def _seen(
    launch: Launch, before: Program, after: Program, look: Look, words: tuple[Words, ...]
) -> tuple[Seen, ...]:
    """The newest that a look may have seen, given what has come of it."""
    readings = [*_readings(look, words)]
    for warps in (1, 2):
        for seen in itertools.product(readings, repeat=warps):
            each = [assembled(launch, one) for one in seen]
            if after in launch.protocol.looks(launch.row, before, each):
                return seen
    raise AssertionError(f"{before} sees nothing by which it becomes {after}")


def _readings(look: Look, words: tuple[Words, ...]) -> Iterator[Seen]:
    """All that a look may read, the newest first."""
    each = [
        [*itertools.product(*(history[::-1] for history in words[tile]))] if tile >= 0 else [()]
        for tile in look.tiles
    ]
    return itertools.product(*each)
