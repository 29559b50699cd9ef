"""Two calls that are timed by turns, by the wall clock."""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable, Iterable, Sequence
from typing import Any

import jax

from benchmarks.reporting import terminal


def advancing(title: str, total: int, entries: Iterable[dict[str, Any]]) -> list[dict[str, Any]]:
    """Entries, of which each is one step of a bar."""
    found = []
    with terminal.progress(title, total) as advance:
        for entry in entries:
            found.append(entry)
            advance("")
    return found


def in_turn(
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
        times.append(timed(both, len(times)))
    return entry_of(name, times, allowed)


def timed(
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


def entry_of(
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
