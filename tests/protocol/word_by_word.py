"""The exploration without its shortest cut: looks that read one word at a time.

`exploration` takes a look for one operation and forgets what a look in vain has read. Here a
program reads a window word by word, in the kernels' order, while others run in between, and never
an older version of a word than it has read before. What can be reached must be the same.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator
from typing import Any

from tests.protocol.exploration import Explorer, Launch, Move, Running
from tests.protocol.model import BLANK, Look, Program, Word

Address = tuple[int, int]
"""A tile and a piece."""


@dataclasses.dataclass(frozen=True)
class Reading(Running):
    """A program in the middle of a look."""

    read: tuple[Word, ...] = ()  # by this look
    versions: tuple[tuple[Address, int], ...] = ()  # the last that it has read of each word


class WordByWord(Explorer):
    """Explores a launch whose programs read one word at a time."""

    def _made(self, running: Running, words: tuple[int, ...], tickets: int) -> Iterator[Move]:
        program = running.program
        request = None if program is None else self.protocol.request(self.row, program)
        if program is None or not isinstance(request, Look):
            yield from super()._made(running, words, tickets)
            return
        for index, publish in enumerate(running.flight):
            rest = (*running.flight[:index], *running.flight[index + 1 :])
            yield self._write(dataclasses.replace(running, flight=rest), publish, words)
        if not isinstance(running, Reading):
            running = Reading(program, running.flight)
        pieces = range(len(self._words.things[words[0]]))
        order = [(tile, piece) for piece in pieces for tile in request.tiles if tile >= 0]
        if len(running.read) == len(order):
            yield self._decided(
                running, program, request, dict(zip(order, running.read, strict=True))
            )
            return
        tile, piece = address = order[len(running.read)]
        history = self._words.things[words[tile]][piece]
        versions = dict(running.versions)
        for version in range(versions.get(address, 0), len(history)):
            seen = tuple(sorted({**versions, address: version}.items()))
            read = (*running.read, history[version])
            yield Move(self._programs.of(dataclasses.replace(running, read=read, versions=seen)))

    def _decided(
        self, running: Reading, program: Program, request: Look, read: dict[Address, Word]
    ) -> Move:
        """At the end of a look; what has been read is remembered as long as there are more."""
        count = len({piece for _, piece in read})
        seen = [
            self.protocol.assembled([read[tile, piece] for piece in range(count)])
            if tile >= 0
            else BLANK
            for tile in request.tiles
        ]
        after = self.protocol.looked(self.row, program, seen)
        return Move(self._programs.of(Reading(after, running.flight, (), running.versions)))


def reached(explorer: Explorer) -> set[Any]:
    """All states of a launch, without what programs have read in looks that are not over."""
    start = explorer.start()
    states, found = [start], {start}
    for state in states:
        for following, _ in explorer.steps(state):
            if following not in found:
                found.add(following)
                states.append(following)
    return {explorer.shown(state) for state in states}


def same(launch: Launch) -> bool:
    """Whether both explorations reach the same states."""
    return reached(Explorer(launch)) == reached(WordByWord(launch))
