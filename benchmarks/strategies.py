"""Every strategy over the length: sums, segmented sums and recurrences of float32."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence

import jax.numpy as jnp

from benchmarks import inputs, subjects
from benchmarks.case import Case
from benchmarks.subjects import Subject, number, shrunk

ONE_PASS = ("lookback", "serial_lookback", "chained")
TWO_PASSES = ("scan_then_propagate", "reduce_then_scan")
LONG = ("auto", "xla", *ONE_PASS, *TWO_PASSES)
SHORT = ("auto", "xla", "block", *ONE_PASS, *TWO_PASSES)
REPEATABLE_OR_NOT = ("auto", "lookback", "reduce_then_scan")
LARGEST_TILE = 2**15  # bytes of a row that one program can hold

SIZES = (2**9, *(2**exponent for exponent in range(10, 30, 2)))
UNEVEN = (1000, 10**5, 10**6 + 1, 10**7, 10**8, 2 * 10**8 + 3)
FEW_SIZES = (2**16, 2**20, 2**24, 2**27)
LARGEST = 2**28


def cases(shrink: int = 0) -> list[Case]:
    """All of them, with sizes divided by about 2^shrink."""
    result = []
    for n in sorted((*SIZES, *UNEVEN)):
        methods = SHORT if 4 * n <= LARGEST_TILE else LONG
        result += _compared("sum", subjects.plain_sum, n, shrink, methods)
    for group, subject in (("segmented sum", _segmented_sum), ("affine", subjects.affine)):
        for n in FEW_SIZES:
            result += _compared(group, subject, n, shrink, LONG)
        result += _compared(group, subject, UNEVEN[-1], shrink, REPEATABLE_OR_NOT)
        result += _compared(group, subject, LARGEST, shrink, ("auto", "reduce_then_scan"))
    group = "affine, both results"
    for n in (*FEW_SIZES[1:], LARGEST):
        result += _compared(group, subjects.both_affine, n, shrink, REPEATABLE_OR_NOT)
    return result


def _segmented_sum(n: int) -> Subject:
    return subjects.segmented_sum(n, inputs.flagged((n,), (n,), jnp.uint8), (0.01,))


def _compared(
    group: str, subject_of: subjects.Of, full: int, shrink: int, methods: Sequence[str]
) -> list[Case]:
    """One size by all methods; "auto" is to be as fast as the best of the others."""
    n = shrunk(full, shrink)
    subject = subject_of(n)
    names = {method: f"{group}, float32, {number(n)}, {method}" for method in methods}
    result = []
    for method, name in names.items():
        case = subject.case(name, method, group=group, at=n)
        if method == "auto":
            others = tuple(other for other in names.values() if other != name)
            case = dataclasses.replace(case, target=1.0, floor=0.95, unit="ratio", against=others)
        elif method == "reduce_then_scan" and full == LARGEST:
            case = dataclasses.replace(case, target=0.60, floor=0.60)
        result.append(case)
    return result
