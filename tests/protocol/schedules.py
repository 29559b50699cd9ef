"""The real kernels, run in any order: their programs interleaved, over a memory that is relaxed.

Pallas interprets a kernel's programs one after another, so that every tile finds its neighbour's
prefix. Here a schedule chooses who makes the next access to the words, and what he reads, by the
memory of `model`. Beside each program runs the model of what it should do: its accesses
must be the model's, one by one.
"""

from __future__ import annotations

import dataclasses
import functools
import random
from collections.abc import Callable, Sequence
from typing import Any
from unittest import mock

import jax
import numpy as np

from jscan import primitives
from jscan.kernels import engines, tuning
from jscan.kernels.steps import Step
from jscan.primitives import reduce_p, scan_p
from jscan.rules.reduce import reduce_in_kernels
from jscan.rules.scan import scan_in_kernels
from tests.protocol.model import Look, Memory, Protocol, Publish, Row, Take, Word
from tests.protocol.stepwise import Call, Code, Engine, Interpreter, Request, anything


@dataclasses.dataclass(frozen=True)
class Schedule:
    """Who goes on when: at random, within what a GPU may do."""

    seed: int
    in_order: bool = True  # whether programs start in the order of their numbers
    slots: int | None = None  # how many may run at a time; None for all of them


@dataclasses.dataclass(frozen=True)
class Model:
    """What the programs of a launch should do: a protocol, on each of some rows."""

    protocol: Protocol
    rows: Sequence[Row]  # of each row of the scan its lanes, a tile having one
    lanes: int = 1


class Twin:
    """The model of one program, held against what the program does."""

    def __init__(self, model: Model, number: int):
        self.protocol, self._model = model.protocol, model
        if self.protocol.tickets:
            self.program = self.protocol.start(model.rows[0], -1)
        else:
            self._numbered(number)
        self._pieces: list[list[Word]] = []

    def _numbered(self, number: int) -> None:
        # Tiles are numbered slowest.
        tile, self._number = divmod(number, len(self._model.rows))
        self._row = self._model.rows[self._number]
        self.program = self.protocol.numbered(self._row, tile)

    @property
    def _request(self) -> Any:
        row = self._model.rows[0] if self.program.tile < 0 else self._row
        return self.protocol.request(row, self.program)

    def _address(self, tile: int, piece: int) -> int:
        """Where the words are: [row][piece][tile][lane]."""
        lanes = self._model.lanes
        row, lane = divmod(self._number, lanes)
        entries = self.protocol.entries(self._row)
        place = (row * self.protocol.pieces + piece) * entries + tile
        return place * lanes + lane

    def take_ticket(self, step: Step | None, number: int) -> None:
        """The program has taken a ticket."""
        assert isinstance(self._request, Take), (self.program, "takes a ticket")
        assert step is self.program.step
        self._numbered(number)

    def publish(self, step: Step | None, address: int, tag: int) -> str:
        """The program writes a word; returns what it should mean."""
        request = self._request
        assert isinstance(request, Publish), (self.program, "publishes", tag)
        assert step is self.program.step, (step, self.program)
        assert address == self._address(request.tile, request.piece), (address, request)
        assert tag == request.word[0], (tag, request)
        self.program = self.protocol.published(self._row, self.program)
        return request.word[1]

    def peek(
        self, step: Step | None, addresses: Sequence[int], mask: Sequence[bool], seen: list[Word]
    ) -> None:
        """The program reads a piece of a window."""
        request = self._request
        assert isinstance(request, Look), (self.program, "looks at", addresses)
        assert step is self.program.step, (step, self.program)
        piece = len(self._pieces)
        assert [*mask] == [t >= 0 for t in request.tiles], (mask, request)
        read = [address for address, is_read in zip(addresses, mask, strict=True) if is_read]
        assert read == [self._address(t, piece) for t in request.tiles if t >= 0], request
        self._pieces.append(seen)
        if len(self._pieces) == self.protocol.pieces:
            words = [self.protocol.assembled(tile) for tile in zip(*self._pieces, strict=True)]
            self.program = self.protocol.looked(self._row, self.program, words)
            self._pieces = []

    def end(self, steps: Sequence[Step]) -> None:
        """The program has ended, and came by these steps."""
        assert self.program.step is Step.STORE, (self.program, "has ended")
        assert self.program.total == self.protocol.before(self._row, self.program.tile)
        # A scanned tile has nothing left to scan, and others do so in the middle of a look.
        passed = [step for step in steps if step is not Step.SCAN]
        passed = [s for s, before in zip(passed, [None, *passed], strict=False) if s is not before]
        assert passed == [*self.protocol.steps(self.program.tile)]


IN_KERNELS: dict[Any, Callable[..., Any]] = {scan_p: scan_in_kernels, reduce_p: reduce_in_kernels}


class Kernel:
    """A function of arrays that is one kernel."""

    def __init__(self, function: Callable[..., Any], *operands: Any, tile: tuning.Tuning):
        """``function`` is a scan or a reduction of its operands, and nothing else."""
        with primitives.tiled(tile):
            outer = jax.make_jaxpr(function)(*operands)
        [one] = outer.eqns
        assert one.invars == outer.jaxpr.invars, "there are other operands"
        in_kernels = functools.partial(IN_KERNELS[one.primitive], **one.params)
        with mock.patch.object(engines, "running", return_value=Engine()):
            self.program = jax.make_jaxpr(in_kernels)(*operands)
        self._code = Code(self.program)

    def run(self, operands: Sequence[Any], schedule: Schedule, model: Model | None) -> Any:
        """The results under a schedule; asserts that programs do what the model does, if any."""
        outer = Interpreter(np.random.default_rng(schedule.seed)).run(self._code, operands)
        answer = None
        try:
            while True:
                call = outer.send(answer)
                assert isinstance(call, Call)
                answer = Launch(call, schedule, model).run()
        except StopIteration as end:
            return end.value


class Resident:
    """A program that runs."""

    def __init__(
        self, number: int, code: Code, refs: Sequence[Any], schedule: Schedule, model: Model | None
    ):
        self.number = number
        self.twin = None if model is None else Twin(model, number)
        self._interpreter = Interpreter(np.random.default_rng([schedule.seed, number]))
        self._running = self._interpreter.run(code, [np.int32(number), *refs])
        self.request: Request | None = None
        self.words: list[int] = []  # places in the request of words that it still has to write
        self.go_on(None)

    def go_on(self, answer: Any) -> None:
        """Goes on to the next access to the words, or to the end."""
        try:
            request = self._running.send(answer)
            while isinstance(request, Request) and request.writes_nothing:
                request = self._running.send([])
        except StopIteration:
            self.request = None
            if self.twin is not None:
                self.twin.end(self._interpreter.steps)
            return
        assert isinstance(request, Request)
        self.request = request
        if request.kind == "publish":
            self.words = [*np.flatnonzero(request.mask)]


class Launch:
    """One launch of a kernel, by a schedule."""

    def __init__(self, call: Call, schedule: Schedule, model: Model | None):
        self._schedule, self._model, self._call = schedule, model, call
        self._rng = random.Random(schedule.seed)
        self._memory: Memory[tuple[int, str]] = Memory(self._rng)
        rng = np.random.default_rng(schedule.seed)
        operands = [np.array(x) for x in call.operands]
        undefined = call.results[: len(call.results) - len(call.starts)]
        self._results = [anything(rng, aval.shape, aval.dtype) for aval in undefined]
        self._results += [np.array(x) for x in call.starts]
        self._refs = [*operands, *self._results]
        # The words come last; those of a ticket hold a count, and no tag.
        self._tickets = self._results[-1]
        assert not self._tickets.any(), "the words have not been cleared"
        for address in range(len(self._tickets)):
            self._memory.set(address, (0, (0, "")))

    def run(self) -> list[Any]:
        """What the kernel writes."""
        waiting = [*range(self._call.programs)]
        if not self._schedule.in_order:
            self._rng.shuffle(waiting)
        slots = self._schedule.slots or len(waiting)
        residents: list[Resident] = []
        steps = 0
        while waiting or residents:
            steps += 1
            assert steps < 500 * self._call.programs, "programs wait for ever"
            if waiting and len(residents) < slots and (not residents or self._rng.random() < 0.5):
                about = (self._call.code, self._refs, self._schedule, self._model)
                residents.append(Resident(waiting.pop(0), *about))
            resident = self._rng.choice(residents)
            if resident.request is not None:
                self._access(resident, resident.request)
            if resident.request is None:
                residents.remove(resident)
        return self._results

    def _access(self, resident: Resident, request: Request) -> None:
        """Does what a program wants; of a request to publish, one word."""
        reader, twin, step = resident.number, resident.twin, request.step
        if request.kind == "take_ticket":
            place = int(request.addresses)
            self._tickets[place, 0] += 1
            ticket = self._tickets[place, 0] - 1
            if twin is not None:
                twin.take_ticket(step, int(ticket))
            resident.go_on(ticket)
        elif request.kind == "publish":
            assert request.tags is not None
            assert request.values is not None
            place = resident.words.pop(0)
            address, tag = (int(x.reshape(-1)[place]) for x in (request.addresses, request.tags))
            meaning = "" if twin is None else twin.publish(step, address, tag)
            word = (tag, (int(request.values.reshape(-1)[place]), meaning))
            self._memory.publish(reader, address, word)
            if not resident.words:
                resident.go_on([])
        else:
            self._peek(resident, request)

    def _peek(self, resident: Resident, request: Request) -> None:
        newest = self._rng.random() < 0.5
        tags, values = np.zeros((2, *request.addresses.shape), np.int32)
        seen: list[Word] = []
        for place, address in np.ndenumerate(request.addresses):
            if not request.mask[place]:
                seen.append((0, ""))
                continue
            number = self._memory.choose(resident.number, int(address), newest=newest)
            tags[place], (values[place], meaning) = self._memory.version(int(address), number)
            seen.append((int(tags[place]), meaning))
        if resident.twin is not None:
            addresses, mask = request.addresses.tolist(), request.mask.tolist()
            resident.twin.peek(request.step, addresses, mask, seen)
        resident.go_on([tags, values])
