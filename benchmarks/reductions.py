"""Every strategy of reductions: the whole sum, and sums of segments of several shapes."""

from __future__ import annotations

import math

import jax.numpy as jnp

from benchmarks import answers, inputs, lengths, methods, peers
from benchmarks.case import Case, Inputs, length
from benchmarks.inputs import Build
from benchmarks.operations import Operation
from benchmarks.outside import Peer
from benchmarks.subjects import Subject

METHODS = {
    "auto": "auto",
    "lookback": "lookback",
    "serial_lookback": "serial_lookback",
    "chained": "chained",
    "tree": "scan_then_propagate",
    "matrix": "reduce_then_scan",
}
"""By the names that the literature has for them: a matrix is a row of sums for each program."""


def cases(shrink: int = 0) -> list[Case]:
    """All of them, with sizes divided by about 2^shrink."""
    n, size = length(28, shrink)
    result = _compared("whole sum", f"whole sum, float32, {size}", _whole(n), n)
    n, size = length(27, shrink)
    short = n // 30 + 2 * math.isqrt(n // 30)  # five standard deviations more than the mean
    for shape, ids, count in (
        ("one segment", lengths.even(n, n), 1),
        ("segments of 10 to 50", lengths.short(n, short), short),
        ("one segment of half, Zipf's law", lengths.half_and_zipf(n, n >> 7), n >> 7),
        ("segments of 3", lengths.even(n, 3), -(-n // 3)),
    ):
        name = f"segment_sum, {shape}, float32, {size}"
        result += _compared(shape, name, _by_ids(n, ids, count), n)
    return result


def _compared(group: str, name: str, subject: Subject, n: int) -> list[Case]:
    return [
        subject.case(f"{name}, {line}", method, group=group, at=n, line=line)
        for line, method in METHODS.items()
    ]


def _whole(n: int) -> Subject:
    return Subject(
        Inputs(inputs.eights((n,), jnp.float32)),
        methods.total,
        answers.whole_sum,
        4 * n,
        {"jnp.sum": peers.whole_sum},
        (Peer("torch", "sum"), Peer("cupy", "sum"), Peer("cub", "Sum")),
    )


def _by_ids(n: int, ids: Build, count: int) -> Subject:
    def run(method: str) -> Operation:
        return methods.segment_sum(count, method)

    return Subject(
        Inputs(inputs.joined(inputs.eights((n,), jnp.float32), ids)),
        run,
        answers.sums_by_ids,
        8 * n + 4 * count,
        {"jax.ops.segment_sum": peers.segment_sum(count)},
        (Peer("cub", "ReduceByKey"), Peer("cub", "SegmentedSum")),
    )
