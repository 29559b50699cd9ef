"""The self-test: every public family of functions beside loops, a few dtypes of each."""

from __future__ import annotations

import concurrent.futures
import dataclasses
import os
import time
from collections.abc import Callable, Iterator

from jscan.report import of_reductions, of_scans, of_vectors
from jscan.report.check import Check

FAMILIES: dict[str, Callable[[], Iterator[Check]]] = {
    "scans": of_scans.scans,
    "operators": of_scans.operators_of_any_kind,
    "recurrences": of_scans.recurrences,
    "derivatives": of_scans.derivatives,
    "reductions": of_reductions.reductions,
    "statistics": of_reductions.statistics,
    "selections": of_reductions.selections,
    "sparse matrices": of_reductions.products,
    "vectors": of_vectors.vectors,
    "compaction": of_vectors.compaction,
    "segments": of_vectors.descriptions,
}
"""The checks of each family."""

AT_ONCE = 8
"""The most checks at a time. Compilers take most of it, and run beside each other."""


@dataclasses.dataclass(frozen=True)
class Outcome:
    """A check, its family, and why it failed, if it did."""

    family: str
    check: Check
    why_wrong: str | None


def run(advance: Callable[[str], None]) -> tuple[list[Outcome], float]:
    """The outcomes in the order of the families, and the seconds that they took.

    ``advance`` is told each check's name when it is done.
    """
    begin = time.perf_counter()

    def outcome(family: str, check: Check) -> Outcome:
        found = Outcome(family, check, check.why_wrong())
        advance(check.name)
        return found

    with concurrent.futures.ThreadPoolExecutor(min(AT_ONCE, os.cpu_count() or 1)) as pool:
        waiting = [pool.submit(outcome, family, check) for family, check in listed()]
        outcomes = [future.result() for future in waiting]
    return outcomes, time.perf_counter() - begin


def listed() -> list[tuple[str, Check]]:
    """All checks, each with its family."""
    return [(family, check) for family, checks in FAMILIES.items() for check in checks()]
