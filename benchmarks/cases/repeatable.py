"""Scans whose groups are fixed, beside those that look back and those in two passes."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterator

import jscan
from benchmarks.cases.case import Case, call, number, shrunk
from benchmarks.cases.strategies import both_results, plain_sum, recurrence, sum_by_heads

METHODS = ("lookback", "repeatable", "reduce_then_scan")
LARGEST = 2**28
SIZES = (2**20, 2**24, LARGEST)


def precise_sum(n: int) -> Case:
    """A sum of float32 in pairs: 8 bytes an element, as a plain one."""
    plain = plain_sum(n)
    run = call(jscan.cumsum, precise=True)
    return dataclasses.replace(plain, name="sum in pairs", run=run, peers={}, outside=())


Subjects = dict[Callable[[int], Case], tuple[float | None, float | None]]
SHARES: Subjects = {
    plain_sum: (0.96, 0.93),
    sum_by_heads: (0.95, 0.90),
    recurrence: (0.84, 0.80),
    both_results: (0.84, 0.80),
    precise_sum: (None, None),
}
"""Of copy speed: the target and the floor of `repeatable` at the largest size."""


def cases(shrink: int = 0) -> list[Case]:
    """All methods over the length, with sizes divided by about 2^shrink."""
    return [case for subject in SHARES for n in SIZES for case in _compared(subject, n, shrink)]


def _compared(subject_of: Callable[[int], Case], full: int, shrink: int) -> Iterator[Case]:
    """One size by all methods, side by side."""
    n = shrunk(full, shrink)
    subject = subject_of(n)
    for method in METHODS:
        name = f"{subject.name}, float32, {number(n)}, {method}"
        case = subject.by(method, name, subject.name, n)
        if method == "repeatable" and full == LARGEST:
            target, floor = SHARES[subject_of]
            case = dataclasses.replace(case, target=target, floor=floor)
        yield case
