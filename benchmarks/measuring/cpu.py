"""Calls on a CPU beside other plain JAX, by the wall clock: run times, and those of compiling.

Programs are run by turns, so that what else the machine does meets all of them, and the fastest run
of each counts.
"""

from __future__ import annotations

import dataclasses
import statistics
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from benchmarks.cases.case import Operation
from benchmarks.cases.cpu_inputs import Comparison, comparison
from benchmarks.cases.walk.loops import with_loops
from benchmarks.cases.walk.steps import Step
from benchmarks.measuring import programs
from benchmarks.reporting import terminal

SECONDS = 0.8
"""How long the programs of a case are run, all together, and no less than `LEAST` times each."""

LEAST = 7
COMPILED = 1
"""How often each program is compiled, of which the fastest time counts."""

ALLOWED = 1.2
"""The most that jscan may take, as a multiple of the fastest other program."""

COPIED = 2**24
"""Words of 32 bits that are copied to know the speed of a copy."""

WRONG = 2e-2
"""The most that results may differ, as a share of the largest: a roundings of bfloat16, or those
of a sum of 10^6 float32 one after another."""


def measured(
    cases: Sequence[Comparison], bandwidth: float | None = None
) -> Iterator[dict[str, Any]]:
    """What each case takes, one after another; as a share of a copy's bytes a second, if known."""
    for case in cases:
        yield _entry(case, bandwidth)


def taken(step: Step, bandwidth: float) -> dict[str, Any]:
    """What a step of a walk takes beside its counterparts, trees of which run as loops, too."""
    case = dataclasses.replace(step.case, peers=with_loops(step.case.peers))
    try:
        with jax.enable_x64(case.inputs.x64):
            return _entry(comparison(case), bandwidth) | {"elements": step.drawn.size}
    except Exception as error:  # whatever it is, the next call is taken
        return {"name": case.name, "failure": f"{type(error).__name__}: {error}"[:300]}


def copy_speed() -> float:
    """Bytes a second of a copy in plain JAX, read and written."""
    run, _ = _compiled(programs.add_one, [operand := jnp.arange(COPIED, dtype=jnp.int32)])
    took = by_turns({"copy": run}, [operand])["copy"]
    return 8e3 * COPIED / took


def _entry(case: Comparison, bandwidth: float | None) -> dict[str, Any]:
    operands = [jax.device_put(x) for x in case.inputs()]
    compiled, compiling = {}, {}
    for name, run in {"jscan": case.jscan, **case.peers}.items():
        compiled[name], compiling[name] = _compiled(run, operands)
    answers = {name: run(*operands) for name, run in compiled.items()}
    results = {name: jax.tree.leaves(answer) for name, answer in answers.items()}
    times = by_turns(compiled, operands)
    entry: dict[str, Any] = {
        "name": case.name,
        "jscan_ms": _rounded(times["jscan"]),
        "peers_ms": {name: _rounded(times[name]) for name in case.peers},
        "jscan_compile_s": _rounded(compiling["jscan"]),
    }
    if case.peers:
        best = min(case.peers, key=lambda name: times[name])
        entry |= {
            "fastest": best,
            "ratio": _rounded(times["jscan"] / times[best]),
            "fastest_compile_s": _rounded(compiling[best]),
            "compile_ratio": _rounded(compiling["jscan"] / compiling[best]),
            "difference": max(difference(results["jscan"], results[name]) for name in case.peers),
        }
    if case.bytes is not None and bandwidth is not None:
        at_copy_speed = 1e3 * case.bytes / bandwidth
        entry |= {"bytes": case.bytes, "share": _rounded(at_copy_speed / times["jscan"])}
    if case.check is not None:
        with jax.enable_x64(case.check.x64):
            error = float(jax.jit(case.check.error)(answers["jscan"], *operands))
        right = error <= case.check.bound
        entry["answer"] = {"right": right, "error": error, "measures": case.check.measures}
    return entry


def _rounded(x: float) -> float:
    return float(f"{x:.4g}")


def _compiled(run: Operation, operands: Sequence[jax.Array]) -> tuple[Callable[..., Any], float]:
    """The program, and the seconds that tracing, lowering and compiling it take."""
    best = float("inf")
    for _ in range(COMPILED):
        jax.clear_caches()
        start = time.perf_counter()
        program = jax.jit(lambda *xs: run(*xs)).lower(*operands).compile()
        best = min(best, time.perf_counter() - start)
    return program, best


def by_turns(
    programs: Mapping[str, Callable[..., Any]], operands: Sequence[jax.Array]
) -> dict[str, float]:
    """The fewest milliseconds that each program takes.

    Every other turn is backwards, so that none always follows one that leaves the caches cold.
    """
    best = dict.fromkeys(programs, float("inf"))
    begin, turn = time.perf_counter(), 0
    while turn < LEAST or time.perf_counter() - begin < SECONDS:
        for name, run in [*programs.items()][:: -1 if turn % 2 else 1]:
            start = time.perf_counter()
            jax.block_until_ready(run(*operands))
            best[name] = min(best[name], 1e3 * (time.perf_counter() - start))
        turn += 1
    return best


def difference(ours: Sequence[Any], theirs: Sequence[Any]) -> float:
    """The largest difference of results, as a share of the largest number among them."""
    found = 0.0
    for x, y in zip(ours, theirs, strict=True):
        a, b = (np.asarray(z.astype("float32"), np.float64) for z in (x, y))
        found = max(found, float(np.max(np.abs(a - b)) / max(1.0, float(np.max(np.abs(b))))))
    return _rounded(found)


def line(entry: Mapping[str, Any]) -> str:
    """A case in a line."""
    if "failure" in entry:
        return f"{entry['name']}: {entry['failure']}"
    took = f"{entry['name']}: {entry['jscan_ms']:.3f} ms"
    compiled = f"compiled in {entry['jscan_compile_s']:.2f} s"
    if "ratio" not in entry:
        return f"{took}, {compiled}"
    beside = f"{entry['ratio']:.2f} of {entry['fastest']}"
    return f"{took}, {beside}, {compiled}, {entry['compile_ratio']:.2f}"


def show_walk(entries: Sequence[Mapping[str, Any]]) -> None:
    """Which calls others are faster at, and which take longest for an element without another."""
    beside = [entry for entry in entries if "ratio" in entry]
    alone = [entry for entry in entries if "ratio" not in entry and "jscan_ms" in entry]
    slower = sorted((e for e in beside if e["ratio"] > ALLOWED), key=lambda e: -float(e["ratio"]))
    show(slower)

    def each(entry: Mapping[str, Any]) -> float:
        return float(1e6 * entry["jscan_ms"] / max(1, entry["elements"]))

    longest = sorted(alone, key=each, reverse=True)[:10]
    rows = [[e["name"], f"{e['jscan_ms']:.3f}", f"{each(e):.1f}"] for e in longest]
    columns = ["call", "ms", "ns an element"]
    terminal.table("Without a counterpart, the longest for an element", columns, rows)
    if beside:
        mean = statistics.geometric_mean(float(entry["ratio"]) for entry in beside)
        terminal.say(
            f"{len(entries)} calls, {len(beside)} beside others: {mean:.2f} of their times by the "
            f"geometric mean, {len(slower)} beyond {ALLOWED}"
        )


def show(entries: Iterable[Mapping[str, Any]]) -> None:
    """A table of all cases."""
    rows = [
        [
            entry["name"],
            f"{entry['jscan_ms']:.3f}",
            f"{entry['peers_ms'][entry['fastest']]:.3f}",
            entry["fastest"],
            f"{entry['ratio']:.2f}",
            f"{entry['share']:.2f}" if "share" in entry else "",
            f"{entry['jscan_compile_s']:.2f}",
            f"{entry['fastest_compile_s']:.2f}",
        ]
        for entry in entries
    ]
    columns = [
        "call",
        "jscan ms",
        "other ms",
        "the fastest other",
        "ratio",
        "share of copy",
        "compiled s",
        "other s",
    ]
    terminal.table("On a CPU, beside other plain JAX: lower is better", columns, rows)


def wrong(entries: Iterable[Mapping[str, Any]]) -> list[str]:
    """The cases whose results differ, or whose answer is beyond its bound."""
    return [
        f"{entry['name']}: "
        + entry.get("failure", f"{entry.get('difference')} off, answer {entry.get('answer')}")
        for entry in entries
        if "failure" in entry
        or not entry.get("difference", 0) <= WRONG
        or not entry.get("answer", {"right": True})["right"]
    ]
