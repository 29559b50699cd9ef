"""Errors of inclusive sums over their length: every strategy, what others offer, and a loop.

Inputs are those of `benchmarks.cases.summands`, bounds those of `benchmarks.measuring.rounding`.
The exact sums come from NumPy's float64 loop up to 2^20 elements and from XLA's float64 scan
beyond: both are exact. The loop beside the strategies is NumPy's in float32, rounded once where the
dtype is narrower.
"""

from __future__ import annotations

import concurrent.futures
import dataclasses
import functools
import importlib
import os
import time
from collections.abc import Callable, Iterator, Mapping
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

import jscan
from benchmarks.cases import operations, summands
from benchmarks.cases.case import Operation, call
from benchmarks.cases.summands import INPUTS, Summands
from benchmarks.measuring import errors, machine, outside, rounding
from benchmarks.measuring.programs import Executables, Program, compile_all, found
from benchmarks.reporting import terminal

EXPONENTS = tuple(range(10, 29, 3))
ON_CPU = 20
"""The largest exponent of a length where there is no GPU."""
BY_NUMPY = 2**20
"""Up to so many elements NumPy makes the exact sums."""
HALVES = ("bfloat16", "float16")
"""Measured at every other length."""
IN_TWO_PASSES = "reduce_then_scan"
STRATEGIES = (
    *("lookback", "serial_lookback", "chained", "repeatable"),
    *(IN_TWO_PASSES, "scan_then_propagate", "xla"),
)
OF_HALVES = ("lookback", "repeatable", IN_TWO_PASSES)
"""What halves are scanned by: strategies differ in how they add float32, which halves are then."""
PRECISE = "precise=True"
"""Sums in compensated pairs, by "auto"."""
LOOP, TORCH = "float32 loop", "torch.cumsum"
Sums = Callable[[], jax.Array]
"""Makes a subject's results of the input at hand."""


@dataclasses.dataclass(frozen=True)
class Size:
    """Inputs of one length and dtype, and the programs that scan them."""

    n: int
    dtype: str

    @property
    def operand(self) -> Any:
        """The shape and dtype of an input."""
        return jax.ShapeDtypeStruct((self.n,), jnp.dtype(self.dtype))

    @property
    def build(self) -> Program:
        """The program that makes all inputs."""
        return Program(summands.builder(self.n, jnp.dtype(self.dtype)), ())

    @property
    def exact(self) -> Program:
        """The program of exact sums, of elements and of their sizes."""
        return Program(errors.exact, (self.operand,), x64=True)

    @property
    def errors(self) -> Program:
        """The program that measures the errors of results."""
        wide = jax.ShapeDtypeStruct((self.n,), np.dtype("float64"))
        return Program(errors.found, (self.operand, wide, wide), x64=True)

    def subjects(self) -> dict[str, Program]:
        """What is measured, but for the loop and libraries outside JAX."""
        return {name: Program(run, (self.operand,)) for name, run in _subjects(self.dtype).items()}

    def programs(self) -> Iterator[Program]:
        """All programs of this size."""
        yield from (self.build, self.errors, *self.subjects().values())
        if self.n > BY_NUMPY:
            yield self.exact


def strategies() -> tuple[str, ...]:
    """The methods that run here."""
    return STRATEGIES if machine.has_gpu() else ("xla",)


def _subjects(dtype: str) -> dict[str, Operation]:
    """The methods of jscan; then lax's scans, in the dtype that they are given."""
    chosen = strategies()
    if dtype != "float32" and machine.has_gpu():
        chosen = OF_HALVES
    in_pairs = {PRECISE: call(jscan.cumsum, precise=True)} if dtype == "float32" else {}
    return {
        **{method: call(jscan.cumsum, method=method) for method in chosen},
        **in_pairs,
        "lax.cumsum": lax.cumsum,
        "lax.associative_scan": call(operations.lax_scan, lax.add),
    }


def result(budget: float) -> dict[str, Any]:
    """Errors of all lengths, the shortest first; none is begun when so many seconds are over."""
    begin = time.monotonic()
    exponents = [k for k in EXPONENTS if k <= ON_CPU or machine.has_gpu()]
    sizes = {
        k: [Size(2**k, dtype) for dtype in ("float32", *(HALVES if number % 2 == 0 else ()))]
        for number, k in enumerate(exponents)
    }
    entries: list[dict[str, Any]] = []
    depths: list[dict[str, Any]] = []
    left_out = []
    with terminal.progress("measuring", len(exponents)) as advance:
        for k, each in sizes.items():
            if time.monotonic() - begin > budget:
                left_out.append(2**k)
                continue
            counts = {m: _count(2**k, m) for m in strategies() if _counts(k, m)}
            # By itself, so that a length that is not begun costs nothing.
            executables = compile_all(
                [*counts.values(), *(p for size in each for p in size.programs())], lambda: None
            )
            compiled = time.monotonic() - begin
            depths += [_counted(2**k, m, counts.get(m), executables) for m in strategies()]
            entries += [entry for size in each for entry in measured(size, executables)]
            advance(
                f"2^{k}: compiled at {compiled:.0f} s, done at {time.monotonic() - begin:.0f} s"
            )
    return {
        "exact": f"NumPy's float64 loop up to {BY_NUMPY} elements, XLA's float64 scan beyond; "
        "every partial sum is a float64 number, so that both are exact",
        "inputs": {each.name: {"rises": each.rises} for each in INPUTS},
        "left_out": left_out,
        "depths": depths,
        "errors": entries,
    }


def _counts(k: int, method: str) -> bool:
    """Whether a depth is counted: that of plain JAX is known, and takes long to compile."""
    return method != "xla" or k <= ON_CPU


def _count(n: int, method: str) -> Program:
    return Program(rounding.counted(method), (jax.ShapeDtypeStruct((n,), jnp.int32),))


def _counted(
    n: int, method: str, program: Program | None, executables: Executables
) -> dict[str, Any]:
    """The depth of a strategy, at most and as counted."""
    entry: dict[str, Any] = {"subject": method, "n": n, "bound": rounding.depth(method, n)}
    if program is None:
        return entry
    try:
        entry["counted"] = int(found(executables, program)(jnp.zeros(n, jnp.int32)))
    except Exception as error:  # the other strategies are worth having
        entry["why_not"] = machine.told(error, 200)
    return entry


def measured(size: Size, executables: Executables) -> Iterator[dict[str, Any]]:
    """An entry for every input and subject."""
    inputs = jax.block_until_ready(found(executables, size.build)())
    with concurrent.futures.ThreadPoolExecutor(min(len(INPUTS), os.cpu_count() or 1)) as pool:
        loops = [pool.submit(loop, x) for x in inputs]
        for summand, x, looped in zip(INPUTS, inputs, loops, strict=True):
            exact = exact_sums(summand, x, size, executables)
            for name, sums in _all_sums(size, x, looped.result, executables).items():
                yield _entry(size, summand, name, sums, exact, executables)


def loop(x: jax.Array) -> Any:
    """NumPy's float32 sums, one element after another."""
    return np.cumsum(np.asarray(x).astype(np.float32), dtype=np.float32)


def exact_sums(
    summand: Summands, x: jax.Array, size: Size, executables: Executables
) -> tuple[jax.Array, jax.Array]:
    """Sums of elements and of sizes, on the device, in float64."""
    with jax.enable_x64(True):
        if size.n > BY_NUMPY:
            sums, sizes = found(executables, size.exact)(x)
        else:
            wide = np.asarray(x).astype(np.float64)
            sums, sizes = jnp.asarray(np.cumsum(wide)), jnp.asarray(np.cumsum(np.abs(wide)))
        quanta = float(sizes[-1]) / summand.quantum_of(x.dtype)
    if quanta > 2**53:
        raise ValueError(f"{summand.name}: sums of {size.n} elements are not exact in float64")
    return sums, sizes


def _all_sums(
    size: Size, x: jax.Array, looped: Callable[[], Any], executables: Executables
) -> Mapping[str, Sums]:
    """What makes the results of each subject."""
    sums: dict[str, Sums] = {
        name: functools.partial(_by_program, program, x, executables)
        for name, program in size.subjects().items()
    }
    if outside.available("torch"):
        sums[TORCH] = lambda: _by_torch(x)
    sums[LOOP] = lambda: jnp.asarray(looped()).astype(x.dtype)
    return sums


def _by_program(program: Program, x: jax.Array, executables: Executables) -> jax.Array:
    sums: jax.Array = found(executables, program)(x)
    return sums


def _by_torch(x: jax.Array) -> jax.Array:
    torch: Any = importlib.import_module("torch")
    sums = outside.Torch().prepared(torch, "cumsum", 0, [x], x)()
    if machine.has_gpu():
        torch.cuda.synchronize()
    return jnp.from_dlpack(sums)


def _entry(
    size: Size,
    summand: Summands,
    subject: str,
    sums: Sums,
    exact: tuple[jax.Array, jax.Array],
    executables: Executables,
) -> dict[str, Any]:
    """Errors of a subject, or why there are none."""
    entry: dict[str, Any] = {
        "dtype": size.dtype,
        "input": summand.name,
        "n": size.n,
        "subject": subject,
    }
    try:
        y = sums()
        with jax.enable_x64(True):
            values = found(executables, size.errors)(y, *exact)
    except Exception as error:  # the other subjects are worth having
        return entry | {"why_not": machine.told(error, 200)}
    largest = float(values["max_eps"])
    entry |= {name: _short(value) for name, value in values.items()}
    entry["steps_back"], entry["not_finite"] = int(values["steps_back"]), int(values["not_finite"])
    if not summand.rises:
        del entry["steps_back"], entry["step_back_ulps"]
    wider = errors.eps(size.dtype) / rounding.EPS
    if wider > 1:
        entry["max_output_eps"] = _short(largest / wider)
    depth = depth_of(subject, size)
    if subject == PRECISE:
        bound = rounding.bound_in_pairs(size.n)
        entry |= {"bound_eps": _short(bound), "within_bound": largest <= bound}
    if depth is not None:
        bound = rounding.bound(depth, size.n)
        if wider > 1:  # the result is rounded once more
            bound += wider / 2 * (1 + bound * rounding.EPS)
        entry |= {"bound_eps": _short(bound), "within_bound": largest <= bound}
    return entry


def _short(number: Any) -> float:
    return float(f"{float(number):.4g}")


def depth_of(subject: str, size: Size) -> int | None:
    """How many additions an element goes through at most; None for scans of others."""
    if subject == LOOP:
        return size.n - 1
    if subject not in STRATEGIES:
        return None
    return rounding.depth(subject, size.n, width=jnp.dtype(size.dtype).itemsize)


def beyond(content: Mapping[str, Any]) -> list[str]:
    """What is wrong: errors and depths beyond their bounds, and strategies that failed."""
    wrong = [] if content["errors"] else ["nothing was measured"]
    for entry in content["errors"]:
        where = f"{entry['subject']}, {entry['dtype']}, {entry['input']}, {entry['n']}"
        if "why_not" in entry and entry["subject"] in (*STRATEGIES, PRECISE):
            wrong.append(f"{where}: {entry['why_not']}")
        elif not entry.get("within_bound", True):
            wrong.append(f"{where}: {entry['max_eps']} > {entry['bound_eps']} eps")
    for entry in content["depths"]:
        if "why_not" in entry or entry.get("counted", 0) > entry["bound"]:
            wrong.append(f"depth of {entry['subject']}, {entry['n']}: {entry}")
    return wrong


def show(content: Mapping[str, Any]) -> None:
    """The largest errors in float32, at the largest length."""
    entries = [e for e in content["errors"] if e["dtype"] == "float32" and "max_eps" in e]
    if not entries:
        terminal.say("no length was begun within the budget")
        return
    n = max(entry["n"] for entry in entries)
    chosen = {(e["input"], e["subject"]): f"{e['max_eps']:.3g}" for e in entries if e["n"] == n}
    names = list(dict.fromkeys(subject for _, subject in chosen))
    rows = [[each.name, *(chosen.get((each.name, s), "–") for s in names)] for each in INPUTS]
    title = f"Largest error of {n} float32 elements, in eps of the sum of their sizes"
    terminal.table(title, ["input", *names], rows)
