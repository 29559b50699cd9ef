"""What a call and a compilation cost beside those of lax and jax.numpy, on any machine."""

from __future__ import annotations

import dataclasses
import functools
import itertools
import math
import statistics
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any

import jax
import jax.numpy as jnp
from jax import lax

import jscan
from benchmarks.cases import inputs, operations
from benchmarks.cases.case import Operation, call
from benchmarks.measuring import machine
from benchmarks.reporting import terminal

LENGTH = 2**20
LENGTHS = tuple(2**exponent for exponent in range(10, 21, 2))
# The most that jscan may take, as a multiple of lax.associative_scan.
ALLOWED_CALL = 1.05  # where there is no GPU
ALLOWED_COMPILING = 1.0
ALLOWED_OUTSIDE = 1.3
"""The same outside of ``jit``, as a multiple of what jax.numpy takes for an array of a size."""
SHORT = 1000


@dataclasses.dataclass(frozen=True)
class Pair:
    """One operation in jscan and in lax, and its operands by their length."""

    name: str
    jscan: Operation
    lax: Operation
    build: Callable[[int], tuple[jax.Array, ...]]

    @property
    def both(self) -> tuple[Operation, Operation]:
        """The operation in jscan, then in lax."""
        return self.jscan, self.lax

    def operands(self, n: int) -> tuple[jax.Array, ...]:
        """Operands of length ``n``."""
        made: tuple[jax.Array, ...] = jax.jit(self.build, static_argnums=0)(n)
        return made

    def shapes(self, n: int) -> Any:
        """Their shapes and dtypes."""
        return jax.eval_shape(functools.partial(self.build, n))


def _floats(n: int) -> tuple[jax.Array, ...]:
    return inputs.signs((n,), jnp.float32)


def _integers(n: int) -> tuple[jax.Array, ...]:
    return inputs.signs((n,), jnp.int32)


def _flagged(n: int) -> tuple[jax.Array, ...]:
    return inputs.flagged((n,), (n,), jnp.uint8, jnp.float32(0.01))


def _reflections(n: int) -> tuple[jax.Array, ...]:
    return inputs.reflections((n,))


_by_lax = functools.partial(call, operations.lax_scan)
_by_jscan = functools.partial(call, operations.scan)
_JOIN = operations.join_moments

FLOATS = Pair("sum, float32", jscan.cumsum, _by_lax(lax.add), _floats)
MAX = Pair("max", jscan.cummax, _by_lax(lax.max), _floats)
SEGMENTED = Pair("segmented sum", operations.segmented_sum, operations.lax_segmented_sum, _flagged)
AFFINE = Pair("affine", operations.recurrence, operations.lax_recurrence, _reflections)
COMPILED = (FLOATS, MAX, SEGMENTED, AFFINE)
BESIDE_CUMSUM = dataclasses.replace(FLOATS, name="sum beside lax.cumsum", lax=operations.lax_cumsum)
PAIRS = (
    FLOATS,
    Pair("sum, int32", jscan.cumsum, _by_lax(lax.add), _integers),
    Pair(
        "reverse sum",
        call(jscan.cumsum, reverse=True),
        _by_lax(lax.add, reverse=True),
        _floats,
    ),
    MAX,
    Pair("logaddexp", jscan.cumlogsumexp, _by_lax(jnp.logaddexp), inputs.normal),
    SEGMENTED,
    AFFINE,
    Pair("Welford", _by_jscan(_JOIN), _by_lax(_JOIN), inputs.samples),
)
BY_LENGTH = (
    BESIDE_CUMSUM,
    *(
        dataclasses.replace(pair, name=f"{pair.name} beside lax.associative_scan")
        for pair in (FLOATS, SEGMENTED, AFFINE)
    ),
)


@dataclasses.dataclass(frozen=True)
class Outside:
    """A call outside of ``jit``, and one of jax.numpy that is likewise compiled as a whole.

    Attributes:
      name: what is new in each call.
      jscan: the call, given its number.
      peer: the other call.
    """

    name: str
    jscan: Callable[[int], Any]
    peer: Callable[[], Any]


def _outside() -> list[Outside]:
    """Calls of which each hands in something new, where its name says so."""
    x, shuffled = inputs.normal(SHORT)[0], inputs.signs((SHORT,), jnp.int32)[0]
    flags, mask = shuffled > 0, shuffled > 0
    ids = jnp.arange(SHORT) // 10
    of_ids = jax.jit(lambda x, ids: jax.ops.segment_sum(x, ids, SHORT // 10))

    def pairs(left: Any, right: Any) -> Any:
        return left[0] * right[0], left[1] * right[0] + right[1]

    def lengths(count: int) -> list[int]:
        return [SHORT - count, *[1] * count]

    def with_number(turn: int) -> Any:
        k = 1 / (turn + 2)
        return jscan.associative_scan(lambda a, b: a + b + k * a * b, x)

    def with_identity(turn: int) -> Any:
        how: dict[str, Any] = {"exclusive": True, "identity": -1000.0 - turn}
        return jscan.associative_scan(jnp.maximum, x, **how)

    def of_new(turn: int) -> jscan.Segments:
        return jscan.Segments.from_lengths(lengths(turn % (SHORT - 1)))

    sums, total = functools.partial(jnp.cumsum, x), functools.partial(jnp.sum, x)
    return [
        Outside("cumsum", lambda _: jscan.cumsum(x), sums),
        Outside("cumsum by flags", lambda _: jscan.cumsum(x, segments=flags), sums),
        Outside("a ufunc", lambda _: jscan.associative_scan(jnp.add, x), sums),
        Outside("a new lambda", lambda _: jscan.associative_scan(lambda a, b: a + b, x), sums),
        Outside("a new number in a lambda", with_number, sums),
        Outside("a new identity, tried", with_identity, sums),
        Outside("pairs by a function", lambda _: jscan.associative_scan(pairs, (x, x)), sums),
        Outside("linear_recurrence", lambda _: jscan.linear_recurrence(x, x), sums),
        Outside("reduce by a lambda", lambda _: jscan.reduce(lambda a, b: a + b, x), total),
        Outside("new segments", lambda i: jscan.cumsum(x, segments=of_new(i)), sums),
        Outside("numbers of new segments", lambda i: of_new(i).ids, sums),
        Outside(
            "segment_sum of sorted ids",
            lambda _: jscan.segment_sum(x, ids, SHORT // 10, indices_are_sorted=True),
            lambda: of_ids(x, ids),
        ),
        Outside("enumerate", lambda _: jscan.enumerate(mask), lambda: jnp.cumsum(mask)),
        Outside("pack", lambda _: jscan.pack(x, mask, size=SHORT), lambda: x[mask]),
        Outside("split", lambda _: jscan.split(x, mask), lambda: jnp.argsort(mask)),
    ]


def outside_jit(seconds: float = 0.5, calls: int = 21) -> list[dict[str, Any]]:
    """Times calls outside of ``jit`` and counts what those after the first compile."""
    cases = _outside()

    def entries() -> Iterator[dict[str, Any]]:
        for case in cases:
            turns = itertools.count()
            run = functools.partial(_next, case.jscan, turns)
            both: list[Callable[[], Any]] = [run, case.peer]
            jax.block_until_ready(run())
            with machine.compilations() as compiled:
                for _ in range(3):
                    jax.block_until_ready(run())
            took = _in_turn(case.name, both, seconds, ALLOWED_OUTSIDE, calls)
            yield took | {"compiled": len(compiled)}

    return _advancing("calls", len(cases), entries())


def _next(call: Callable[[int], Any], turns: Iterator[int]) -> Any:
    return call(next(turns))


def measured(suite: str) -> dict[str, list[dict[str, Any]]]:
    """What a suite compares where there is no GPU, or on any machine."""
    content = {}
    if suite in ("core", "latency"):
        content["latency"] = latency()
    if suite in ("core", "compile"):
        content["compile"] = compile_times()
        content["sizes"] = program_sizes()
    if suite == "overhead":
        content["overhead"] = outside_jit()
    if suite in ("strategies", "all"):
        content["lengths"] = by_length()
    return content


TITLES = {
    "latency": "A call at 2^20, by the wall clock",
    "compile": "Trace, lower and compile at 2^20",
    "lengths": "A call by the wall clock",
    "overhead": f"A call outside of jit of {SHORT} elements, beside one of jax.numpy",
}


def show(content: Mapping[str, Any]) -> None:
    """Times of jscan and of lax and their ratio, and program sizes over n."""
    columns = ["operation", "jscan ms", "lax ms", "repeats", "ratio", "of fastest", "allowed"]
    for name, title in TITLES.items():
        if name in content:
            rows = [
                [
                    entry["name"],
                    f"{entry['jscan']['median_ms']:.3f}",
                    f"{entry['lax']['median_ms']:.3f}",
                    str(entry["jscan"]["repeats"]),
                    f"{entry['ratio']:.2f}",
                    f"{entry['ratio_of_fastest']:.2f}",
                    "–" if entry["allowed"] is None else f"{entry['allowed']:.2f}",
                    *([str(entry["compiled"])] if "compiled" in entry else []),
                ]
                for entry in content[name]
            ]
            more = ["compiled"] if name == "overhead" else []
            terminal.table(f"{title}: medians, lower is better", [*columns, *more], rows)
    if "sizes" in content:
        backend = jax.default_backend()
        counts = {
            "cuda_triton_calls": "Triton calls, CUDA",
            "cuda_custom_calls": "custom calls, CUDA",
            "cuda_text_bytes": "bytes of StableHLO, CUDA",
            "compiled_instructions": f"HLO instructions, {backend}",
            "compiled_instructions_lax": f"the same, lax, {backend}",
        }
        rows = [
            [f"{e['name']}, 2^{int(math.log2(e['n']))}", *(str(e.get(k, "")) for k in counts)]
            for e in content["sizes"]
        ]
        terminal.table("Size of the program", ["program", *counts.values()], rows)


def _advancing(title: str, total: int, entries: Iterable[dict[str, Any]]) -> list[dict[str, Any]]:
    found = []
    with terminal.progress(title, total) as advance:
        for entry in entries:
            found.append(entry)
            advance("")
    return found


def latency(seconds: float = 1.5) -> list[dict[str, Any]]:
    """Times jitted calls, jscan and lax in turn, by the wall clock; so long for each operation."""
    allowed = None if machine.has_gpu() else ALLOWED_CALL

    def entries() -> Iterator[dict[str, Any]]:
        for pair in PAIRS:
            yield _in_turn(f"{pair.name}, jitted", _jitted(pair, LENGTH), seconds, allowed)
        operands = FLOATS.operands(2**12)
        both = [functools.partial(fn, *operands) for fn in BESIDE_CUMSUM.both]
        yield _in_turn("sum, float32, 2^12, not jitted, beside lax.cumsum", both, seconds)

    return _advancing("calls", len(PAIRS) + 1, entries())


def by_length(seconds: float = 0.2) -> list[dict[str, Any]]:
    """Times jitted calls over the length, jscan's default and lax in turn, by the wall clock."""
    entries = (
        _in_turn(f"{pair.name}, 2^{n.bit_length() - 1}", _jitted(pair, n), seconds)
        for pair, n in itertools.product(BY_LENGTH, LENGTHS)
    )
    return _advancing("calls", len(BY_LENGTH) * len(LENGTHS), entries)


def compile_times(repeats: int = 3) -> list[dict[str, Any]]:
    """Times tracing, lowering and compiling at 2^20 for the default backend, caches cleared."""
    # Whatever a process does only once, such as importing Pallas, is done before.
    jax.block_until_ready(FLOATS.jscan(*FLOATS.operands(2**16)))

    def entries() -> Iterator[dict[str, Any]]:
        for pair in COMPILED:
            both = [functools.partial(_compile, fn, pair.shapes(LENGTH)) for fn in pair.both]
            times = [_timed(both, repeat, jax.clear_caches) for repeat in range(repeats)]
            yield _entry(pair.name, times, ALLOWED_COMPILING)

    return _advancing("compiling", len(COMPILED), entries())


def _jitted(pair: Pair, n: int) -> list[Callable[[], Any]]:
    operands = pair.operands(n)
    return [functools.partial(jax.jit(fn), *operands) for fn in pair.both]


def _compile(operation: Operation, shapes: Sequence[Any]) -> None:
    jax.jit(operation).lower(*shapes).compile()


def _in_turn(
    name: str,
    both: Sequence[Callable[[], Any]],
    seconds: float,
    allowed: float | None = None,
    calls: int = 21,
) -> dict[str, Any]:
    """What calls take by turns, after some that warm up."""
    for one in both:
        for _ in range(3):
            jax.block_until_ready(one())
    begin = time.perf_counter()
    times: list[tuple[float, float]] = []
    while len(times) < calls or time.perf_counter() - begin < seconds:
        times.append(_timed(both, len(times)))
    return _entry(name, times, allowed)


def _timed(
    both: Sequence[Callable[[], Any]], turn: int, before: Callable[[], None] = lambda: None
) -> tuple[float, float]:
    """Milliseconds of two calls, in an order that favours neither; ``before`` takes none."""
    took = [0.0, 0.0]
    for which in (0, 1) if turn % 2 else (1, 0):
        before()
        start = time.perf_counter()
        jax.block_until_ready(both[which]())
        took[which] = 1e3 * (time.perf_counter() - start)
    return took[0], took[1]


def _entry(
    name: str, times: Sequence[tuple[float, float]], allowed: float | None
) -> dict[str, Any]:
    """Statistics of both; the ratio is the median over neighbouring calls, which share a load."""
    result: dict[str, Any] = {"name": name}
    ours, theirs = zip(*times, strict=True)
    for who, took in (("jscan", ours), ("lax", theirs)):
        result[who] = {
            "median_ms": round(statistics.median(took), 4),
            "min_ms": round(min(took), 4),
            "max_ms": round(max(took), 4),
            "repeats": len(took),
        }
    result["ratio"] = round(statistics.median(a / b for a, b in times), 4)
    result["ratio_of_fastest"] = round(min(ours) / min(theirs), 4)
    result["allowed"] = allowed
    return result


def program_sizes() -> list[dict[str, Any]]:
    """Calls and text of programs lowered for CUDA, and instructions compiled for this backend."""
    exponents = range(12, 27, 2)
    pairs = itertools.product(COMPILED, exponents)
    entries = (_sizes(pair, exponent) for pair, exponent in pairs)
    return _advancing("lowering", len(COMPILED) * len(exponents), entries)


def _sizes(pair: Pair, exponent: int) -> dict[str, Any]:
    shapes = pair.shapes(2**exponent)
    cuda = machine.lower_for_cuda(pair.jscan, shapes).as_text()
    entry: dict[str, Any] = {
        "name": pair.name,
        "n": 2**exponent,
        "cuda_triton_calls": machine.kernel_calls(cuda),
        "cuda_custom_calls": cuda.count("stablehlo.custom_call"),
        "cuda_text_bytes": len(cuda),
    }
    if exponent in (12, 20, 26):  # compiling lax's form takes seconds on a CPU
        entry["compiled_instructions"] = _instructions(pair.jscan, shapes)
        entry["compiled_instructions_lax"] = _instructions(pair.lax, shapes)
    return entry


def _instructions(operation: Operation, shapes: Sequence[Any]) -> int:
    """Instructions of the compiled program, those inside fusions included."""
    text = jax.jit(operation).lower(*shapes).compile().as_text() or ""
    return text.count(" = ")
