"""Two engines side by side: the same cases, of results that were measured with each.

JSCAN_ENGINE=jax-triton python -m benchmarks core --out results/engines/core-jax-triton.json
"""

from __future__ import annotations

import json
import math
import pathlib
from collections.abc import Iterator
from typing import Any, NamedTuple

from benchmarks.measuring import machine
from benchmarks.reporting import markdown, tables

FOLDER = machine.REPOSITORY / "benchmarks" / "results" / "engines"
ENGINES = ("pallas", "jax-triton")
SUITES = ("core", "segments", "derivatives")
SLOW = 0.9
"""Cases below this share of the first engine's speed are named."""


class Pair(NamedTuple):
    """A case on both engines, in microseconds."""

    name: str
    first: float
    second: float

    @property
    def share(self) -> float:
        """The speed of the second as a share of the first's."""
        return self.first / self.second


def _result(suite: str, engine: str, folder: pathlib.Path) -> dict[str, Any]:
    text = (folder / f"{suite}-{engine}.json").read_text(encoding="utf-8")
    found: dict[str, Any] = json.loads(text)
    return found


def pairs(suite: str, folder: pathlib.Path = FOLDER) -> Iterator[Pair]:
    """The cases that both engines have run, with the right answers."""
    first, second = (
        {
            case["name"]: case["median_us"]
            for case in _result(suite, engine, folder)["cases"]
            if case.get("median_us") and (case["answer"] or {}).get("right")
        }
        for engine in ENGINES
    )
    for name, time in first.items():
        if name in second:
            yield Pair(name, time, second[name])


def mean(found: list[Pair]) -> float:
    """The geometric mean of the shares."""
    return math.exp(sum(math.log(pair.share) for pair in found) / len(found))


def page(folder: pathlib.Path = FOLDER) -> str | None:
    """Both engines by suites, and the cases in which the second is slow; None if not measured."""
    if not (folder / f"{SUITES[0]}-{ENGINES[0]}.json").exists():
        return None
    by_suite = {suite: list(pairs(suite, folder)) for suite in SUITES}
    lines = []
    for suite, found in by_suite.items():
        least, most = (pick(found, key=lambda pair: pair.share) for pick in (min, max))
        shares = (f"{x:.2f}" for x in (mean(found), least.share, most.share))
        lines.append([markdown.code(suite), str(len(found)), *shares])
    slow = [pair for found in by_suite.values() for pair in found if pair.share < SLOW]
    about = (
        "The speed of `jax-triton` as a share of `pallas`'s, by the same benchmark; then each case "
        f"below {SLOW:.2f}, in µs. {tables.measured_on(_result(SUITES[0], ENGINES[1], folder))}"
    )
    named = sorted(slow, key=lambda pair: pair.share)
    cells = [[p.name, f"{p.first:.1f}", f"{p.second:.1f}", f"{p.share:.2f}"] for p in named]
    return "\n\n".join(
        [
            markdown.fill(about),
            markdown.table(["suite", "cases", "geometric mean", "least", "most"], lines),
            markdown.table(["case", *map(markdown.code, ENGINES), "share"], cells),
        ]
    )
