"""What a call and a compilation cost beside those of lax and jax.numpy, on any machine."""

from __future__ import annotations

import dataclasses
import functools
import itertools
import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

import jax
import jax.numpy as jnp
from jax import lax

import jscan
from benchmarks.cases import inputs, operations
from benchmarks.cases.case import Operation, call
from benchmarks.measuring import machine, outside_jit
from benchmarks.measuring.turns import advancing, entry_of, in_turn, timed
from benchmarks.reporting import terminal

LENGTH = 2**20
LENGTHS = tuple(2**exponent for exponent in range(10, 21, 2))
# The most that jscan may take, as a multiple of lax.associative_scan.
ALLOWED_CALL = 1.05  # where there is no GPU
ALLOWED_COMPILING = 1.0


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


def measured(suite: str) -> dict[str, list[dict[str, Any]]]:
    """What a suite compares where there is no GPU, or on any machine."""
    content = {}
    if suite in ("core", "latency"):
        content["latency"] = latency()
    if suite in ("core", "compile"):
        content["compile"] = compile_times()
        content["sizes"] = program_sizes()
    if suite == "overhead":
        content["overhead"] = outside_jit.measured()
    if suite in ("strategies", "all"):
        content["lengths"] = by_length()
    return content


TITLES = {
    "latency": "A call at 2^20, by the wall clock",
    "compile": "Trace, lower and compile at 2^20",
    "lengths": "A call by the wall clock",
    "overhead": f"A call outside of jit of {outside_jit.SHORT} elements, beside a jitted one",
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


def latency(seconds: float = 1.5) -> list[dict[str, Any]]:
    """Times jitted calls, jscan and lax in turn, by the wall clock; so long for each operation."""
    allowed = None if machine.has_gpu() else ALLOWED_CALL

    def entries() -> Iterator[dict[str, Any]]:
        for pair in PAIRS:
            yield in_turn(f"{pair.name}, jitted", _jitted(pair, LENGTH), seconds, allowed)
        operands = FLOATS.operands(2**12)
        both = [functools.partial(fn, *operands) for fn in BESIDE_CUMSUM.both]
        yield in_turn("sum, float32, 2^12, not jitted, beside lax.cumsum", both, seconds)

    return advancing("calls", len(PAIRS) + 1, entries())


def by_length(seconds: float = 0.2) -> list[dict[str, Any]]:
    """Times jitted calls over the length, jscan's default and lax in turn, by the wall clock."""
    entries = (
        in_turn(f"{pair.name}, 2^{n.bit_length() - 1}", _jitted(pair, n), seconds)
        for pair, n in itertools.product(BY_LENGTH, LENGTHS)
    )
    return advancing("calls", len(BY_LENGTH) * len(LENGTHS), entries)


def compile_times(repeats: int = 3) -> list[dict[str, Any]]:
    """Times tracing, lowering and compiling at 2^20 for the default backend, caches cleared."""
    # Whatever a process does only once, such as importing Pallas, is done before.
    jax.block_until_ready(FLOATS.jscan(*FLOATS.operands(2**16)))

    def entries() -> Iterator[dict[str, Any]]:
        for pair in COMPILED:
            both = [functools.partial(_compile, fn, pair.shapes(LENGTH)) for fn in pair.both]
            times = [timed(both, repeat, jax.clear_caches) for repeat in range(repeats)]
            yield entry_of(pair.name, times, ALLOWED_COMPILING)

    return advancing("compiling", len(COMPILED), entries())


def _jitted(pair: Pair, n: int) -> list[Callable[[], Any]]:
    operands = pair.operands(n)
    return [functools.partial(jax.jit(fn), *operands) for fn in pair.both]


def _compile(operation: Operation, shapes: Sequence[Any]) -> None:
    jax.jit(operation).lower(*shapes).compile()


def program_sizes() -> list[dict[str, Any]]:
    """Calls and text of programs lowered for CUDA, and instructions compiled for this backend."""
    exponents = range(12, 27, 2)
    pairs = itertools.product(COMPILED, exponents)
    entries = (_sizes(pair, exponent) for pair, exponent in pairs)
    return advancing("lowering", len(COMPILED) * len(exponents), entries)


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
