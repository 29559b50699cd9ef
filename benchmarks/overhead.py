"""What a call and a compilation cost beside lax.associative_scan, on any machine."""

from __future__ import annotations

import dataclasses
import functools
import itertools
import statistics
import time
from collections.abc import Callable, Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

from benchmarks import inputs, machine, operations, report
from benchmarks.inputs import Build
from benchmarks.operations import Operation

LENGTH = 2**20
# The most that jscan may take, as a multiple of lax.associative_scan.
ALLOWED_CALL = 1.05  # where there is no GPU
ALLOWED_COMPILING = 1.0


@dataclasses.dataclass(frozen=True)
class Pair:
    """One operation in jscan and in lax."""

    name: str
    jscan: Operation
    lax: Operation
    build: Callable[[int], Build]
    args: tuple[float, ...] = ()

    def operands(self, n: int) -> tuple[jax.Array, ...]:
        """Operands of length ``n``."""
        made: tuple[jax.Array, ...] = jax.jit(self.build(n))(*self.args)
        return made

    def shapes(self, n: int) -> tuple[Any, ...]:
        """The same, abstract."""
        made: tuple[Any, ...] = jax.eval_shape(self.build(n), *self.args)
        return made


def _floats(n: int) -> Build:
    return inputs.signs((n,), jnp.float32)


def _integers(n: int) -> Build:
    return inputs.signs((n,), jnp.int32)


def _flagged(n: int) -> Build:
    return inputs.flagged((n,), (n,), jnp.uint8)


PAIRS = (
    Pair("sum, float32", operations.cumsum(), operations.lax_scan(lax.add), _floats),
    Pair("sum, int32", operations.cumsum(), operations.lax_scan(lax.add), _integers),
    Pair("reverse sum", operations.cumsum(0, True), operations.lax_scan(lax.add, True), _floats),
    Pair("max", operations.cummax, operations.lax_scan(lax.max), _floats),
    Pair("logaddexp", operations.cumlogsumexp, operations.lax_scan_logaddexp, inputs.normal),
    Pair(
        "segmented sum",
        operations.segmented_sum,
        operations.lax_segmented_sum,
        _flagged,
        (0.01,),
    ),
    Pair("affine", operations.recurrence, operations.lax_recurrence, inputs.reflections),
    Pair("Welford", operations.running_moments, operations.lax_running_moments, inputs.samples),
)

COMPILED = tuple(
    pair for pair in PAIRS if pair.name in ("sum, float32", "max", "segmented sum", "affine")
)

LENGTHS = tuple(2**exponent for exponent in range(10, 21, 2))
BY_LENGTH = (
    Pair("sum beside lax.cumsum", operations.cumsum(), operations.lax_cumsum(), _floats),
    *(
        dataclasses.replace(pair, name=f"{pair.name} beside lax.associative_scan")
        for pair in PAIRS
        if pair.name in ("sum, float32", "segmented sum", "affine")
    ),
)


def latency(seconds: float = 1.5) -> list[dict[str, Any]]:
    """Times jitted calls, jscan and lax in turn, by the wall clock; so long for each operation."""
    allowed = None if machine.has_gpu() else ALLOWED_CALL
    entries = []
    with report.progress("calls", len(PAIRS)) as advance:
        for pair in PAIRS:
            operands = pair.operands(LENGTH)
            ours, theirs = _in_turn(
                functools.partial(jax.jit(pair.jscan), *operands),
                functools.partial(jax.jit(pair.lax), *operands),
                seconds,
            )
            entries.append(_entry(f"{pair.name}, jitted", ours, theirs, allowed))
            advance("")
    x = PAIRS[0].operands(2**12)
    ours, theirs = _in_turn(
        functools.partial(PAIRS[0].jscan, *x),
        functools.partial(operations.lax_cumsum(), *x),
        seconds,
    )
    name = "sum, float32, 2^12, not jitted, beside lax.cumsum"
    entries.append(_entry(name, ours, theirs, None))
    return entries


def _in_turn(
    first: Callable[[], Any], second: Callable[[], Any], seconds: float
) -> tuple[list[float], list[float]]:
    """Milliseconds of each call, in an order that favours neither."""
    calls: tuple[tuple[Callable[[], Any], list[float]], ...] = ((first, []), (second, []))
    for call, _ in calls:
        for _ in range(3):
            jax.block_until_ready(call())
    begin = time.perf_counter()
    while len(calls[0][1]) < 21 or time.perf_counter() - begin < seconds:
        for call, times in calls if len(calls[0][1]) % 2 else calls[::-1]:
            start = time.perf_counter()
            jax.block_until_ready(call())
            times.append(1e3 * (time.perf_counter() - start))
    return calls[0][1], calls[1][1]


def _entry(
    name: str, ours: list[float], theirs: list[float], allowed: float | None
) -> dict[str, Any]:
    """Statistics of both; the ratio is the median over neighbouring calls, which share a load."""
    result: dict[str, Any] = {"name": name}
    for who, times in (("jscan", ours), ("lax", theirs)):
        result[who] = {
            "median_ms": round(statistics.median(times), 4),
            "min_ms": round(min(times), 4),
            "max_ms": round(max(times), 4),
            "repeats": len(times),
        }
    ratios = [a / b for a, b in zip(ours, theirs, strict=True)]
    result["ratio"] = round(statistics.median(ratios), 4)
    result["ratio_of_fastest"] = round(min(ours) / min(theirs), 4)
    result["allowed"] = allowed
    return result


def show_ratios(title: str, entries: Sequence[dict[str, Any]]) -> None:
    """Times of jscan and of lax, and their ratio."""
    rows = [
        [
            entry["name"],
            f"{entry['jscan']['median_ms']:.3f}",
            f"{entry['lax']['median_ms']:.3f}",
            str(entry["jscan"]["repeats"]),
            f"{entry['ratio']:.2f}",
            f"{entry['ratio_of_fastest']:.2f}",
            "–" if entry["allowed"] is None else f"{entry['allowed']:.2f}",
        ]
        for entry in entries
    ]
    columns = ["operation", "jscan ms", "lax ms", "repeats", "ratio", "of fastest", "allowed"]
    report.table(f"{title}: medians, lower is better", columns, rows)


def by_length(seconds: float = 0.2) -> list[dict[str, Any]]:
    """Times jitted calls over the length, jscan's default and lax in turn, by the wall clock."""
    entries = []
    with report.progress("calls", len(BY_LENGTH) * len(LENGTHS)) as advance:
        for pair, n in itertools.product(BY_LENGTH, LENGTHS):
            operands = pair.operands(n)
            ours, theirs = _in_turn(
                functools.partial(jax.jit(pair.jscan), *operands),
                functools.partial(jax.jit(pair.lax), *operands),
                seconds,
            )
            entries.append(_entry(f"{pair.name}, 2^{n.bit_length() - 1}", ours, theirs, None))
            advance("")
    return entries


def compile_times(repeats: int = 3) -> list[dict[str, Any]]:
    """Times tracing, lowering and compiling at 2^20 for the default backend, caches cleared."""
    # Whatever a process does only once, such as importing Pallas, is done before.
    jax.block_until_ready(PAIRS[0].jscan(*PAIRS[0].operands(2**16)))
    entries = []
    with report.progress("compiling", len(COMPILED)) as advance:
        for pair in COMPILED:
            shapes = pair.shapes(LENGTH)
            ours: list[float] = []
            theirs: list[float] = []
            for repeat in range(repeats):
                both = ((pair.jscan, ours), (pair.lax, theirs))
                for operation, times in both if repeat % 2 else both[::-1]:
                    times.append(_compile_time(operation, shapes))
            entries.append(_entry(pair.name, ours, theirs, ALLOWED_COMPILING))
            advance("")
    return entries


def _compile_time(operation: Operation, shapes: Sequence[Any]) -> float:
    jax.clear_caches()
    start = time.perf_counter()
    jax.jit(operation).lower(*shapes).compile()
    return 1e3 * (time.perf_counter() - start)


def program_sizes() -> list[dict[str, Any]]:
    """Calls and text of programs lowered for CUDA, and instructions compiled for this backend."""
    exponents = range(12, 27, 2)
    entries = []
    with report.progress("lowering", len(COMPILED) * len(exponents)) as advance:
        for pair, exponent in itertools.product(COMPILED, exponents):
            shapes = pair.shapes(2**exponent)
            cuda = machine.lower_for_cuda(pair.jscan, shapes).as_text()
            entry: dict[str, Any] = {
                "name": pair.name,
                "n": 2**exponent,
                "cuda_triton_calls": cuda.count("custom_call @__gpu$xla.gpu.triton"),
                "cuda_custom_calls": cuda.count("stablehlo.custom_call"),
                "cuda_text_bytes": len(cuda),
            }
            if exponent in (12, 20, 26):  # compiling lax's form takes seconds on a CPU
                entry["compiled_instructions"] = _instructions(pair.jscan, shapes)
                entry["compiled_instructions_lax"] = _instructions(pair.lax, shapes)
            entries.append(entry)
            advance("")
    return entries


def _instructions(operation: Operation, shapes: Sequence[Any]) -> int:
    """Instructions of the compiled program, those inside fusions included."""
    text = jax.jit(operation).lower(*shapes).compile().as_text() or ""
    return text.count(" = ")


def show_sizes(entries: Sequence[dict[str, Any]]) -> None:
    """Program sizes over n."""
    backend = jax.default_backend()
    rows = [
        [
            f"{entry['name']}, 2^{int(np.log2(entry['n']))}",
            str(entry["cuda_triton_calls"]),
            str(entry["cuda_custom_calls"]),
            str(entry["cuda_text_bytes"]),
            str(entry.get("compiled_instructions", "")),
            str(entry.get("compiled_instructions_lax", "")),
        ]
        for entry in entries
    ]
    columns = [
        "program",
        "Triton calls, CUDA",
        "custom calls, CUDA",
        "bytes of StableHLO, CUDA",
        f"HLO instructions, {backend}",
        f"the same, lax, {backend}",
    ]
    report.table("Size of the program", columns, rows)
