"""Segmented sums over the size of segments, even and skewed, by every strategy."""

from __future__ import annotations

import math

from benchmarks import lengths, subjects
from benchmarks.case import Case, length
from benchmarks.inputs import Build

METHODS = ("auto", "lookback", "chained", "scan_then_propagate", "reduce_then_scan")
SIZES = (1, 3, 10, 32, 100, 1000, 10**4, 10**6)


def cases(shrink: int = 0) -> list[Case]:
    """All of them, with sizes divided by about 2^shrink."""
    n, size = length(26, shrink)
    count = n >> 7
    short = n // 60 + 2 * math.isqrt(n // 60)  # of 10 to 50: enough for half of the elements
    result = []
    for length_of_each in (*SIZES, n):
        what = "one segment" if length_of_each == n else f"segments of {length_of_each}"
        heads = lengths.heads_of(n, lengths.even(n, length_of_each))
        result += _compared("segments of one size", what, size, n, heads, length_of_each)
    for what, ids in (
        ("Zipf's law", lengths.zipf(n, count)),
        ("half, and Zipf's law", lengths.half_and_zipf(n, count)),
        ("half, and 10 to 50", lengths.half_and_short(n, short)),
    ):
        result += _compared("skewed segments", what, size, n, lengths.heads_of(n, ids), what)
    return result


def _compared(
    group: str, what: str, size: str, n: int, heads: Build, at: float | str
) -> list[Case]:
    subject = subjects.segmented_sum(n, heads)
    return [
        subject.case(f"segmented sum, {what}, {size}, {method}", method, group=group, at=at)
        for method in METHODS
    ]
