"""Every strategy: over the length, many rows to few, segments of all sizes, reductions."""

from __future__ import annotations

import dataclasses
import functools
import math
from collections.abc import Callable, Iterator, Sequence

import jax.numpy as jnp
from jax import lax

import jscan
from benchmarks.cases import answers, inputs, operations
from benchmarks.cases.case import Build, Case, call, length, made, number, others, shrunk
from benchmarks.cases.core import SCAN
from benchmarks.cases.segments import SEGMENT_SUM, shapes, values_and
from jscan.operators import add, affine

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

ROWS_EXPONENT = 26
ROWS = (0, 4, 8, 10, 12, 16, 20)  # of two
BY_EVERY_STRATEGY = {1: (8, 16), 0: (10,)}

METHODS_OF_SKEW = ("auto", "lookback", "chained", "scan_then_propagate", "reduce_then_scan")
SEGMENT_SIZES = (1, 3, 10, 32, 100, 1000, 10**4, 10**6)

METHODS_OF_REDUCTIONS = {
    "auto": "auto",
    "lookback": "lookback",
    "serial_lookback": "serial_lookback",
    "chained": "chained",
    "tree": "scan_then_propagate",
    "matrix": "reduce_then_scan",
}
"""By the names that the literature has for them: a matrix is a row of sums for each program."""


def plain_sum(n: int) -> Case:
    """A sum of float32: 8 bytes an element."""
    peers = {"lax.cumsum": call(operations.lax_cumsum)}
    if n.bit_count() == 1:
        peers[SCAN] = call(operations.lax_scan, lax.add)
    names = ("torch.cumsum", "cupy.cumsum", "cub.InclusiveSum", "cuda.compute.inclusive_scan")
    operands, check = made(inputs.signs, (n,), jnp.float32), answers.sum_of_integers()
    run = call(jscan.cumsum)
    return Case("sum", operands, run, check, 8 * n, peers=peers, outside=others(*names))


def segmented_sum(n: int, heads: Build, args: tuple[float, ...] = ()) -> Case:
    """A segmented sum of float32 with uint8 heads: 9 bytes an element.

    CUB takes keys of 4 bytes in place of heads, and so moves 12; its share is of the 9 as well.
    """
    return Case(
        "segmented sum",
        dataclasses.replace(made(heads), build=heads, args=args),
        operations.segmented_sum,
        answers.segmented_sum,
        9 * n,
        peers={SCAN: operations.lax_segmented_sum},
        outside=others("cub.InclusiveSumByKey"),
    )


def sum_by_heads(n: int, density: float = 0.01) -> Case:
    """A segmented sum with heads of a density."""
    return segmented_sum(n, call(inputs.flagged, (n,), (n,), jnp.uint8), (density,))


def recurrence(n: int) -> Case:
    """A recurrence in float32: 12 bytes an element."""
    operands, peers = made(inputs.reflections, (n,)), {SCAN: operations.lax_recurrence}
    run, check = operations.recurrence, answers.recurrence
    return Case("affine", operands, run, check, 12 * n, peers=peers)


def both_results(n: int) -> Case:
    """The same with the products of slopes as a result: 16 bytes an element."""
    operands, run = made(inputs.reflections, (n,)), call(operations.scan, affine)
    return Case("affine, both results", operands, run, answers.both_recurrences, 16 * n)


def segmented_recurrence(n: int, density: float) -> Case:
    """A segmented recurrence in float32 with uint8 heads: 13 bytes an element."""
    operands = made(inputs.flagged_reflections, n, args=(density,))
    run, check = operations.recurrence, answers.segmented_recurrence
    return Case("segmented affine", operands, run, check, 13 * n)


def cases(shrink: int = 0) -> list[Case]:
    """Every strategy over the length, with sizes divided by about 2^shrink."""
    compared = functools.partial(_over_the_length, shrink)
    result: list[Case] = []
    for n in sorted((*SIZES, *UNEVEN)):
        result += compared(plain_sum, n, SHORT if 4 * n <= LARGEST_TILE else LONG)
    for subject in (sum_by_heads, recurrence):
        for n in FEW_SIZES:
            result += compared(subject, n, LONG)
        result += compared(subject, UNEVEN[-1], REPEATABLE_OR_NOT)
        result += compared(subject, LARGEST, ("auto", "reduce_then_scan"))
    for n in (*FEW_SIZES[1:], LARGEST):
        result += compared(both_results, n, REPEATABLE_OR_NOT)
    return result


def _over_the_length(
    shrink: int, subject_of: Callable[[int], Case], full: int, methods: Sequence[str]
) -> Iterator[Case]:
    """One size by all methods; "auto" is to be as fast as the best of the others."""
    n = shrunk(full, shrink)
    subject = subject_of(n)
    names = {method: f"{subject.name}, float32, {number(n)}, {method}" for method in methods}
    for method, name in names.items():
        case = subject.by(method, name, subject.name, n)
        if method == "auto":
            rest = tuple(other for other in names.values() if other != name)
            case = dataclasses.replace(case, target=1.0, floor=0.95, unit="ratio", against=rest)
        elif method == "reduce_then_scan" and full == LARGEST:
            case = dataclasses.replace(case, target=0.60, floor=0.60)
        yield case


def rows(shrink: int = 0) -> list[Case]:
    """Sums of one number of elements as many short rows and as few long ones, along either axis."""
    result = []
    for axis, where in ((1, "last axis"), (0, "first axis")):
        for exponent in ROWS[axis == 0 :]:  # a scan of one element is no kernel
            # 2^exponent rows, or fewer and shorter ones, but no two shapes alike.
            fewer = exponent * shrink // ROWS_EXPONENT
            shape = 1 << (exponent - fewer), 1 << (ROWS_EXPONENT - exponent - (shrink - fewer))
            subject = Case(
                f"sum of {shape}, {where}, float32",
                made(inputs.signs, shape, jnp.float32),
                call(jscan.cumsum, axis=axis),
                answers.sum_of_integers(axis),
                8 * math.prod(shape),
                peers={"lax.cumsum": call(operations.lax_cumsum, axis=axis)},
                outside=others("torch.cumsum", "cupy.cumsum", axis=axis),
            )
            methods: tuple[str, ...] = ("auto",)
            if exponent in BY_EVERY_STRATEGY[axis]:
                scanned = 2 ** (ROWS_EXPONENT - exponent if axis else exponent)
                methods = SHORT if 4 * scanned <= LARGEST_TILE else LONG
            for method in methods:
                result.append(subject.by(method, f"{subject.name}, {method}", where, shape[axis]))
    return result


def skew(shrink: int = 0) -> list[Case]:
    """Segmented sums over the size of segments, even and skewed."""
    n, size = length(26, shrink)
    short = n // 60 + 2 * math.isqrt(n // 60)  # of 10 to 50: enough for half of the elements
    one_size, skewed = "segments of one size", "skewed segments"
    shapes_of_segments: list[tuple[str, str, float | str, Build]] = [
        *(
            (one_size, f"segments of {each}", each, call(inputs.even, n, each))
            for each in SEGMENT_SIZES
        ),
        (one_size, "one segment", n, call(inputs.even, n, n)),
        *(
            (skewed, what, what, call(build, n, count))
            for what, build, count in (
                ("Zipf's law", inputs.zipf, n >> 7),
                ("half, and Zipf's law", inputs.half_and_zipf, n >> 7),
                ("half, and 10 to 50", inputs.half_and_short, short),
            )
        ),
    ]
    return [
        segmented_sum(n, call(inputs.heads_of, n, ids)).by(
            method, f"segmented sum, {what}, {size}, {method}", group, at
        )
        for group, what, at, ids in shapes_of_segments
        for method in METHODS_OF_SKEW
    ]


def reductions(shrink: int = 0) -> list[Case]:
    """The whole sum, and sums of segments of several shapes."""
    n, size = length(28, shrink)
    whole = Case(
        f"whole sum, float32, {size}",
        made(inputs.eights, (n,), jnp.float32),
        call(jscan.reduce, add),
        answers.whole_sum,
        4 * n,
        peers={"jnp.sum": jnp.sum},
        outside=others("torch.sum", "cupy.sum", "cub.Sum"),
    )
    result = [*_by_every_method(whole, "whole sum", n)]
    n, size = length(27, shrink)
    found = shapes(n)
    for shape in ("one segment", "segments of 10 to 50", [*found][3], "segments of 3"):
        ids, count = found[shape]
        case = Case(
            f"segment_sum, {shape}, float32, {size}",
            values_and(ids, n),
            call(operations.segment_sum, count),
            answers.sums_by_ids,
            8 * n + 4 * count,
            peers={SEGMENT_SUM: call(operations.ops_segment_sum, count)},
            outside=others("cub.ReduceByKey", "cub.SegmentedSum"),
        )
        result += _by_every_method(case, shape, n)
    return result


def _by_every_method(case: Case, group: str, n: int) -> Iterator[Case]:
    for line, method in METHODS_OF_REDUCTIONS.items():
        yield case.by(method, f"{case.name}, {line}", group, n, line)
