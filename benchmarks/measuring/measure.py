"""Compiles cases, checks their answers and times them by the GPU's own clock."""

from __future__ import annotations

import dataclasses
import importlib
import statistics
import time
from collections.abc import Callable, Sequence
from typing import Any

import jax
import jax.numpy as jnp

from benchmarks.cases.case import Case
from benchmarks.measuring import machine, outside
from benchmarks.measuring.programs import Executables, Plan, Program, found, plan

Kernels = list[tuple[str, float]]
"""The kernels of one call: name and milliseconds."""

LONGEST_PEER = 0.5  # seconds of one call, beyond which a peer is left out
LONGEST = 1.0  # seconds of all calls of a round, beyond which there are fewer of them
HURRY = 45.0  # seconds of measuring, after which a case gets one round
SHORT = 2**23  # bytes, which take a few microseconds
MANY = 64  # kernels of one call that a file lists
COPY_EVERY = 8  # cases between two measurements of the copy


@dataclasses.dataclass(frozen=True)
class Times:
    """GPU time of several calls, in microseconds, and each kernel's median."""

    calls: tuple[float, ...]
    kernels: tuple[tuple[str, float], ...]

    @property
    def median(self) -> float:
        """The median call."""
        return statistics.median(self.calls)

    def as_json(self) -> dict[str, Any]:
        """Numbers for a file; of thousands of kernels, a loop's, the first and how many."""
        shown = self.kernels[:MANY]
        return {
            "median_us": round(self.median, 3),
            "min_us": round(min(self.calls), 3),
            "max_us": round(max(self.calls), 3),
            "repeats": len(self.calls),
            "kernels": [{"name": name, "median_us": round(us, 3)} for name, us in shown],
            **({"of_kernels": len(self.kernels)} if len(self.kernels) > MANY else {}),
        }


@dataclasses.dataclass
class Outcome:
    """What became of one case. ``times`` is None where it was not timed.

    ``temporaries`` are the bytes that its program, and those of its peers by their names, allocate
    beside operands and results, as multiples of the largest operand. ``peer_errors`` are the
    largest differences between the answers of libraries outside JAX and the case's own.
    """

    case: Case
    error: float | None = None
    times: Times | None = None
    failure: str | None = None
    peers: dict[str, Times | str] = dataclasses.field(default_factory=dict)
    temporaries: float | None = None
    peer_temporaries: dict[str, float | None] = dataclasses.field(default_factory=dict)
    peer_errors: dict[str, float] = dataclasses.field(default_factory=dict)

    @property
    def is_right(self) -> bool:
        """Whether it ran and its answer is within the bound; NaN is not."""
        return (
            self.failure is None and self.error is not None and self.error <= self.case.check.bound
        )


def gpu_time(compiled: Any, operands: Sequence[jax.Array], iterations: int) -> list[Kernels]:
    """The kernels of each of several calls, from CUPTI."""
    # Imported here because it needs a CUDA build of jaxlib.
    profiler: Any = importlib.import_module("jax.experimental.mosaic.gpu.profiler")
    measured = profiler.measure(compiled, aggregate=False, iterations=iterations)
    try:
        _, timings = measured(*operands)
    except RuntimeError:  # records of two calls that do not match; a second try is clean
        _, timings = measured(*operands)
    if timings is None:
        raise RuntimeError("CUPTI saw no kernel")
    return [timings] if iterations == 1 else timings


class Stopwatch:
    """Times programs while the GPU's clocks are up, and the copy now and then."""

    def __init__(self, copy: jax.stages.Compiled, words: int) -> None:
        self.words = words
        self._copy = copy
        self._operand = jnp.arange(words, dtype=jnp.int32)
        self._copies: list[Kernels] = []

    def time(
        self, compiled: Any, operands: Sequence[jax.Array], rounds: int, iterations: int
    ) -> Times:
        """So many rounds of so many calls, some copies before each round."""
        return _times(self._sample(compiled, operands, rounds, iterations))

    def wake(self) -> None:
        """Some copies: an idle GPU lowers its clocks."""
        for _ in range(10):
            copied = self._copy(self._operand)
        jax.block_until_ready(copied)

    def time_copy(self, rounds: int, iterations: int) -> None:
        """Adds to the samples of the copy."""
        self._copies += self._sample(self._copy, (self._operand,), rounds, iterations)

    @property
    def copies(self) -> Times:
        """All copies timed so far."""
        return _times(self._copies)

    @property
    def bandwidth(self) -> float:
        """Of the median copy, in bytes a microsecond."""
        return 8 * self.words / self.copies.median

    def _sample(
        self, compiled: Any, operands: Sequence[jax.Array], rounds: int, iterations: int
    ) -> list[Kernels]:
        samples: list[Kernels] = []
        for _ in range(rounds):
            self.wake()
            samples += gpu_time(compiled, operands, iterations)
        return samples


def _times(samples: Sequence[Kernels]) -> Times:
    calls = tuple(1e3 * sum(ms for _, ms in kernels) for kernels in samples)
    alike = [kernels for kernels in samples if len(kernels) == len(samples[0])]
    kernels = tuple(
        (same[0][0], 1e3 * statistics.median(ms for _, ms in same))
        for same in zip(*alike, strict=True)
    )
    return Times(calls, kernels)


def run_all(
    cases: Sequence[Case],
    executables: Executables,
    stopwatch: Stopwatch | None,
    rounds: int,
    iterations: int,
    advance: Callable[[Outcome], None],
) -> list[Outcome]:
    """Runs cases in order, holding the operands of one at a time; no stopwatch, no times."""
    outcomes = []
    operands: tuple[jax.Array, ...] = ()
    held = None
    start = time.monotonic()
    for number, case in enumerate(cases):
        outcome = Outcome(case)
        try:
            programs = plan(case)
            if case.inputs != held:
                operands, held = (), None
                operands = built(programs.build, case, executables)
                held = case.inputs
            outcome.error = _checked(programs, operands, executables)
            if stopwatch is not None:
                rounds = rounds if time.monotonic() - start < HURRY else 1
                if number % COPY_EVERY == 0:
                    stopwatch.time_copy(rounds, iterations)
                _timed(outcome, programs, operands, executables, stopwatch, rounds, iterations)
        except Exception as error:  # the other cases are worth having
            outcome.failure = machine.told(error)
        advance(outcome)
        outcomes.append(outcome)
    return outcomes


def built(program: Program, case: Case, executables: Executables) -> tuple[jax.Array, ...]:
    """The operands of a case, on the device."""
    with jax.enable_x64(program.x64):
        scalars = [jnp.float32(x) for x in case.inputs.args]
        operands: tuple[jax.Array, ...] = found(executables, program)(*scalars)
        return jax.block_until_ready(operands)


def _checked(programs: Plan, operands: Sequence[jax.Array], executables: Executables) -> float:
    with jax.enable_x64(programs.run.x64):
        result = found(executables, programs.run)(*operands)
    with jax.enable_x64(programs.check.x64):
        return float(found(executables, programs.check)(result, *operands))


def _timed(
    outcome: Outcome,
    programs: Plan,
    operands: Sequence[jax.Array],
    executables: Executables,
    stopwatch: Stopwatch,
    rounds: int,
    iterations: int,
) -> None:
    case = outcome.case
    # Short calls scatter more and cost nothing.
    iterations *= 5 if case.unit == "us" or case.bytes < SHORT else 1
    with jax.enable_x64(programs.run.x64):
        run = found(executables, programs.run)
        affordable = max(1, int(LONGEST / _seconds(run, operands)))
        outcome.times = stopwatch.time(run, operands, rounds, min(iterations, affordable))
        outcome.temporaries = _temporaries(run, operands)
        for name, program in programs.peers.items():
            outcome.peer_temporaries[name] = _temporaries(executables[program], operands)
            outcome.peers[name] = _timed_peer(
                executables[program], operands, stopwatch, iterations // 2 or 1
            )
    if programs.distance is not None:
        _time_outside(outcome, programs, operands, executables, stopwatch, iterations)


def _time_outside(
    outcome: Outcome,
    programs: Plan,
    operands: Sequence[jax.Array],
    executables: Executables,
    stopwatch: Stopwatch,
    iterations: int,
) -> None:
    """Times the libraries outside JAX, and compares what they find with the case's first result."""
    assert programs.distance is not None
    with jax.enable_x64(programs.run.x64):
        results = jax.block_until_ready(found(executables, programs.run)(*operands))
        like = jax.tree.leaves(results)[0]
        distance = found(executables, programs.distance)
        for peer in outcome.case.outside:
            stopwatch.wake()
            measured = outside.measure(peer, operands, like, distance, iterations)
            if isinstance(measured, str):
                outcome.peers[peer.name] = measured
            else:
                times, outcome.peer_errors[peer.name] = measured
                outcome.peers[peer.name] = Times(tuple(times), ())


def _seconds(compiled: jax.stages.Compiled, operands: Sequence[jax.Array]) -> float:
    """Seconds of one call by the wall clock."""
    start = time.monotonic()
    jax.block_until_ready(compiled(*operands))
    return max(time.monotonic() - start, 1e-6)


def _temporaries(
    compiled: jax.stages.Compiled | Exception, operands: Sequence[jax.Array]
) -> float | None:
    """The program's own memory in multiples of the largest operand; None where nobody says."""
    analysis = None if isinstance(compiled, Exception) else compiled.memory_analysis()
    if analysis is None:
        return None
    size: int = analysis.temp_size_in_bytes
    return size / max(x.nbytes for x in operands)


def _timed_peer(
    peer: jax.stages.Compiled | Exception,
    operands: Sequence[jax.Array],
    stopwatch: Stopwatch,
    iterations: int,
) -> Times | str:
    """The peer's times, or why there are none."""
    if isinstance(peer, Exception):
        return f"{type(peer).__name__}: {peer}"[:200]
    try:
        jax.block_until_ready(peer(*operands))
        seconds = _seconds(peer, operands)
        if seconds > LONGEST_PEER:
            return f"left out: a call takes {seconds:.1f} s"
        return stopwatch.time(peer, operands, 1, iterations)
    except Exception as error:  # a peer's failure is not the case's
        return machine.told(error, 200)
