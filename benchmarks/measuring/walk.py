"""Takes a walk: cases are compiled ahead on threads while the device measures one at a time.

A copy of as many bytes as a case moves is what its time is compared with, in this process: copies
of every power of two are timed before the walk and after it. That of a small array is mostly what
starting a kernel takes, so that a small case is compared with a kernel that does nothing else, and
a case that needs two kernels is half as fast at best.
"""

from __future__ import annotations

import collections
import concurrent.futures
import dataclasses
import math
import os
import statistics
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

import jax
import jax.numpy as jnp

from benchmarks.cases import static as static_cases
from benchmarks.cases.walk.calls import total
from benchmarks.cases.walk.steps import Step
from benchmarks.measuring import machine, static
from benchmarks.measuring.measure import SHORT, Stopwatch, Times, built
from benchmarks.measuring.programs import (
    Executables,
    Plan,
    Program,
    compile_all,
    copy_program,
    found,
    plan,
)

EXPONENTS = range(8, 29)
"""The sizes of the copies in words of 32 bits, as powers of two."""
CHECKED = 2**26
"""The most bytes that a call moves whose answer is compared with that of plain JAX."""
AT_MOST = 0.15  # seconds of all calls of a case, beyond which there are fewer
COPIES = 7  # of each size, before and after
CALLS = 9  # of a case, and half as many of a counterpart
MORE = 3  # times as many of one that moves less than `SHORT`
TRIES = 4
HELD = 2**34  # bytes of results, which are held until all calls are done
LONGEST_PEER = 0.2  # seconds of one call, beyond which a counterpart is left out


@dataclasses.dataclass
class Taken:
    """What became of a step: `times` is None where it was not timed, `error` where not checked.

    ``temporaries`` are bytes that the program allocates beside its operands and results.
    """

    step: Step
    times: Times | None = None
    copy: float | None = None
    error: float | None = None
    failure: str | None = None
    peers: dict[str, Times | str] = dataclasses.field(default_factory=dict)
    temporaries: int | None = None
    compile_seconds: float = 0.0

    @property
    def is_right(self) -> bool:
        """Whether it ran, and its answer is within the bound where it was looked at."""
        wrong = self.error is not None and not self.error <= self.step.case.check.bound
        return self.failure is None and not wrong

    @property
    def share(self) -> float | None:
        """The time of the copy as a share of the time it took."""
        return None if self.times is None or self.copy is None else self.copy / self.times.median


class Copies:
    """Copies of every size, and how long one of any other size takes."""

    def __init__(self) -> None:
        self._exponents = EXPONENTS
        programs = [copy_program(2**exponent) for exponent in self._exponents]
        compiled = compile_all(programs, lambda: None)
        self._compiled = [found(compiled, program) for program in programs]
        self._samples: list[list[float]] = [[] for _ in programs]

    def stopwatch(self) -> Stopwatch:
        """One that wakes the device with the largest copy."""
        return Stopwatch(self._compiled[-1], 2 ** self._exponents[-1])

    def time(self, stopwatch: Stopwatch) -> None:
        """Adds to the samples of all of them."""
        for exponent, copy, samples in zip(
            self._exponents, self._compiled, self._samples, strict=True
        ):
            operand = jnp.arange(2**exponent, dtype=jnp.int32)
            samples += stopwatch.time(copy, (operand,), 1, COPIES).calls

    def microseconds(self, byte_count: int) -> float:
        """How long a copy takes that reads and writes so many bytes together.

        Between two sizes it is found by proportion of logarithms; below the least it is the same,
        and above the largest it is as fast.
        """
        medians = list(map(statistics.median, self._samples))
        place = math.log2(max(byte_count, 1) / 8) - self._exponents[0]
        if place <= 0:
            return medians[0]
        if place >= len(medians) - 1:
            return float(medians[-1] * 2 ** (place - len(medians) + 1))
        below = int(place)
        low, high = medians[below], medians[below + 1]
        return float(low * (high / low) ** (place - below))

    def as_json(self) -> list[dict[str, float]]:
        """Bytes and microseconds of each."""
        return [
            {"bytes": 8 * 2**exponent, "median_us": round(statistics.median(samples), 3)}
            for exponent, samples in zip(self._exponents, self._samples, strict=True)
        ]


@dataclasses.dataclass(frozen=True)
class _Compiled:
    """The programs of a step, or why there are none."""

    step: Step
    programs: Plan | None
    executables: Executables
    seconds: float
    failure: str | None = None


def taken(
    steps: Iterator[Step], seconds: float, stopwatch: Stopwatch | None, check: bool
) -> Iterator[Taken]:
    """Takes steps as they are compiled, until there are no more of them or the time is up.

    Without a stopwatch nothing is timed, and counterparts are not compiled.
    """
    end = time.monotonic() + seconds
    workers = min(16, os.cpu_count() or 1)
    pool = concurrent.futures.ThreadPoolExecutor(workers)
    waiting: set[concurrent.futures.Future[_Compiled]] = set()
    ready: collections.deque[concurrent.futures.Future[_Compiled]] = collections.deque()

    def submit(most: int) -> None:
        for step in steps:
            waiting.add(pool.submit(_compile, step, check, stopwatch is not None))
            if len(waiting) >= most:
                return

    try:
        submit(2 * workers)
        while (waiting or ready) and time.monotonic() < end:
            done, waiting = concurrent.futures.wait(
                waiting, 0 if ready else max(end - time.monotonic(), 0), "FIRST_COMPLETED"
            )
            ready.extend(done)
            if ready:
                yield _take(ready.popleft().result(), stopwatch)
            if len(waiting) < 2 * workers:
                submit(len(waiting) + 1)
    finally:
        pool.shutdown(wait=False, cancel_futures=True)


def _compile(step: Step, check: bool, timed: bool) -> _Compiled:
    start = time.monotonic()
    executables: dict[Program, jax.stages.Compiled | Exception] = {}
    try:
        programs = planned(step)
        wanted = [programs.build, programs.run]
        if check and is_checked(step):
            wanted.append(programs.check)
        if timed:
            wanted += programs.peers.values()
        for program in wanted:
            executables[program] = _or_why(program.compile)
        return _Compiled(step, programs, executables, time.monotonic() - start)
    except Exception as error:  # what cannot be traced is a finding
        return _Compiled(step, None, {}, time.monotonic() - start, machine.told(error))


def planned(step: Step) -> Plan:
    """The programs of a step.

    Raises:
      TypeError: its results are not what they should be.
    """
    programs = plan(step.case)
    result, *_ = programs.check.operands
    found = [(x.shape, x.dtype.name) for x in jax.tree.leaves(result)]
    wanted = [(x.shape, x.dtype) for x in step.drawn.results]
    if found != wanted:
        raise TypeError(f"the results are {found}, and should be {wanted}")
    return programs


def is_checked(step: Step) -> bool:
    """Whether its answer can be looked at: a scan's always, others' where they are small."""
    drawn = step.drawn
    return drawn.steps is not None or (drawn.check is not None and drawn.bytes <= CHECKED)


def _or_why(compile_it: Callable[[], jax.stages.Compiled]) -> jax.stages.Compiled | Exception:
    try:
        return compile_it()
    except Exception as error:  # reported with the step
        return error


def _take(compiled: _Compiled, stopwatch: Stopwatch | None) -> Taken:
    step, programs, executables = compiled.step, compiled.programs, compiled.executables
    outcome = Taken(step, failure=compiled.failure, compile_seconds=compiled.seconds)
    if programs is None:
        return outcome
    try:
        operands = built(programs.build, step.case, executables)
        run = found(executables, programs.run)
        with jax.enable_x64(programs.run.x64):
            result = jax.block_until_ready(run(*operands))
            if programs.check in executables:
                _check(outcome, found(executables, programs.check), (result, *operands))
            del result
            if stopwatch is not None:
                memory = run.memory_analysis()
                outcome.temporaries = None if memory is None else memory.temp_size_in_bytes
                calls = _calls(step)
                outcome.times = _timed(run, operands, stopwatch, calls)
                outcome.peers = _peers(programs.peers, executables, operands, stopwatch, calls // 2)
    except Exception as error:  # the other steps are worth having
        outcome.failure = machine.told(error)
    return outcome


def _check(outcome: Taken, check: jax.stages.Compiled, arrays: tuple[Any, ...]) -> None:
    try:
        outcome.error = float(check(*arrays))
    except Exception as error:  # its time is worth having
        outcome.failure = f"while checking: {machine.told(error)}"


def _calls(step: Step) -> int:
    """How often it is called: short ones scatter more, and the results of all calls are held."""
    wanted = CALLS * (MORE if step.case.bytes < SHORT else 1)
    return max(2, min(wanted, HELD // max(total(step.drawn.results), 1)))


def _timed(
    run: jax.stages.Compiled, operands: tuple[Any, ...], stopwatch: Stopwatch, calls: int
) -> Times:
    start = time.monotonic()
    jax.block_until_ready(run(*operands))
    seconds = max(time.monotonic() - start, 1e-6)
    calls = min(calls, max(2, int(AT_MOST / seconds)))
    for _ in range(TRIES - 1):
        try:
            return stopwatch.time(run, operands, 1, calls)
        except RuntimeError as error:
            # A kernel of what is compiled meanwhile may have come between.
            if "iterations" not in str(error):
                raise
    return stopwatch.time(run, operands, 1, calls)


def _peers(
    programs: Mapping[str, Program],
    executables: Executables,
    operands: tuple[Any, ...],
    stopwatch: Stopwatch,
    calls: int,
) -> dict[str, Times | str]:
    """The times of counterparts, or why there are none."""
    timed: dict[str, Times | str] = {}
    for name, program in programs.items():
        try:
            peer = found(executables, program)
            jax.block_until_ready(peer(*operands))
            start = time.monotonic()
            jax.block_until_ready(peer(*operands))
            seconds = time.monotonic() - start
            if seconds > LONGEST_PEER:
                timed[name] = f"left out: a call takes {seconds:.1f} s"
            else:
                timed[name] = _timed(peer, operands, stopwatch, calls)
        except Exception as error:  # a counterpart's failure is not the case's
            timed[name] = machine.told(error, 200)
    return timed


# --- without a GPU ------------------------------------------------------------------------------


def why_not_lowered(step: Step) -> str | None:
    """What lowering a step for CUDA raises."""
    try:
        planned(step).run.lower_for_cuda()
    except Exception as error:  # what cannot be lowered is a finding
        return machine.told(error)
    return None


def looks_of(
    step_of: Callable[[int], Step], engines: Sequence[str], number: int
) -> list[static.Looks] | str:
    """The kernels of a step as some engines put them, or why there are none."""
    case = step_of(number).case
    try:
        operands = tuple((x.shape, x.dtype.name) for x in plan(case).run.operands)
        return static.looks_at(static_cases.Call(case.name, case.run, operands), engines)
    except Exception as error:  # what cannot be compiled is a finding
        return f"{case.name}: {machine.told(error)}"
