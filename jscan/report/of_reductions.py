"""Checks of reductions by segments, of what is made of them, and of sparse matrices."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

import jax.numpy as jnp
import numpy as np

import jscan
from jscan import operators
from jscan.report import loops
from jscan.report.check import ROUNDED, Check
from jscan.report.inputs import (
    COUNT,
    LONG,
    SHORT,
    ids,
    normal,
    rows_of_a_matrix,
    signs,
    small,
    sorted_ids,
)
from jscan.report.loops import Array


def reduced(
    fn: Callable[[Any, Any], Any], identity: Any, x: Array, ids: Any, count: int = COUNT
) -> Array:
    """Totals of segments by a loop, in the dtype of ``x``."""
    [y] = loops.reduce(lambda a, b: (fn(a[0], b[0]),), [x], ids, count, (identity,))
    return y.astype(x.dtype)


BY_IDS: dict[str, tuple[Callable[[Any, Any], Any], float, Array]] = {
    "segment_sum": (np.add, 0.0, small(np.float32, LONG)),
    "segment_prod": (np.multiply, 1.0, signs(LONG)),
    "segment_max": (np.maximum, -np.inf, normal(LONG)),
    "segment_min": (np.minimum, np.inf, normal(LONG)),
}
"""Reductions by what combines two numbers, the total of none, and the data."""


def reductions() -> Iterator[Check]:
    """`reduce`, and the reductions by ids."""
    for name, (fn, identity, x) in BY_IDS.items():
        call = partial(getattr(jscan, name), num_segments=COUNT)
        loop = partial(reduced, fn, identity)
        yield Check(name, "float32, any ids", (x, ids(LONG)), call, loop)
        sorted_call = partial(call, indices_are_sorted=True)
        yield Check(name, "float32, sorted ids", (x, sorted_ids(LONG)), sorted_call, loop)
    rows = small(jnp.bfloat16, LONG, 3)
    yield Check(
        "segment_sum",
        "bfloat16, rows, sorted ids",
        (rows, sorted_ids(LONG)),
        partial(jscan.segment_sum, num_segments=COUNT, indices_are_sorted=True),
        partial(reduced, np.add, 0.0),
    )
    yield Check(
        "SegmentPlan",
        "int32, a sum and a gather",
        (small(np.int32, LONG), np.abs(ids(LONG))),
        _by_plan,
        lambda x, ids: (y := reduced(np.add, 0, x, ids), y[ids]),
    )
    bounds = np.array([0, 0, 5000, 5001, 5001, LONG], np.int32)
    yield Check(
        "reduce",
        "the last of each segment, int32",
        (small(np.int32, LONG), bounds),
        lambda x, o: jscan.reduce(
            lambda _, b: b, x, identity=-9, segments=jscan.Segments.from_offsets(o, LONG)
        ),
        lambda x, o: reduced(lambda _, b: b, -9, x, np.repeat(np.arange(5), np.diff(o)), 5),
    )
    yield Check(
        "reduce",
        "add, uint8",
        (small(np.uint8, LONG),),
        partial(jscan.reduce, operators.add),
        lambda x: reduced(np.add, 0, x, np.zeros(LONG, int), 1)[0],
    )


def _by_plan(x: Any, ids: Any) -> tuple[Any, Any]:
    plan = jscan.SegmentPlan(ids, COUNT)
    totals = jscan.segment_sum(x, plan)
    return totals, plan.gather(totals)


def _each(x: Array, ids: Array, of: Callable[[Array], Any]) -> list[Any]:
    """What a function makes of the elements of each segment."""
    return [of(x[ids == segment]) for segment in range(COUNT)]


def _softmax(x: Array, ids: Array) -> Array:
    result = np.zeros(x.shape, np.float64)
    for segment in range(COUNT):
        part = np.exp(x[ids == segment].astype(np.float64))
        result[ids == segment] = part / part.sum()
    return result.astype(x.dtype)


STATISTICS: dict[str, Callable[[Array], Any]] = {
    "segment_mean": lambda part: part.mean() if part.size else 0.0,
    "segment_norm": lambda part: np.sqrt(np.sum(part * part)),
    "segment_logsumexp": lambda part: np.log(np.sum(np.exp(part))) if part.size else -np.inf,
}


def statistics() -> Iterator[Check]:
    """Means, norms, and what is made of exponentials."""
    given = (normal(LONG), sorted_ids(LONG))
    for name, of in STATISTICS.items():
        yield Check(
            name,
            "float32",
            given,
            partial(getattr(jscan, name), num_segments=COUNT),
            lambda x, ids, of=of: np.array(_each(x.astype(np.float64), ids, of)).astype(x.dtype),
            ROUNDED,
        )
    softmax = partial(jscan.segment_softmax, num_segments=COUNT)
    yield Check("segment_softmax", "float32", given, softmax, _softmax, ROUNDED)


TOP = 3


def _places(x: Array, ids: Array, sign: int) -> Array:
    """Where the greatest of each segment is, or the least of sign -1; the first of several."""
    places = np.arange(len(x))
    found = [
        places[ids == s][np.argmax(sign * x[ids == s])] if np.any(ids == s) else -1
        for s in range(COUNT)
    ]
    return np.array(found, np.int32)


def _sorted(x: Array, ids: Array) -> Array:
    y = x.copy()
    for segment in range(COUNT):
        y[ids == segment] = np.sort(x[ids == segment])
    return y


def _top(x: Array, ids: Array) -> tuple[Array, Array]:
    values = np.full((COUNT, TOP), np.iinfo(x.dtype).min, x.dtype)
    places = np.full((COUNT, TOP), -1, np.int32)
    for segment in range(COUNT):
        here = np.flatnonzero(ids == segment)
        order = here[np.argsort(-x[here].astype(np.int64), kind="stable")][:TOP]
        values[segment, : len(order)], places[segment, : len(order)] = x[order], order
    return values, places


def selections() -> Iterator[Check]:
    """Places of extremes, sorted segments, and the greatest of each."""
    x = small(np.int32, SHORT)
    given = (x, ids(SHORT))
    for name, sign in (("segment_argmax", 1), ("segment_argmin", -1)):
        call = partial(getattr(jscan, name), num_segments=COUNT)
        yield Check(name, "int32", given, call, partial(_places, sign=sign))
    call = partial(jscan.segment_sort, num_segments=COUNT)
    yield Check("segment_sort", "int32", given, call, _sorted)
    call = partial(jscan.segment_top_k, num_segments=COUNT, k=TOP)
    yield Check("segment_top_k", "int32", given, call, _top)


def _dense(values: Array, indices: Array, offsets: Array, columns: int) -> Array:
    matrix = np.zeros((len(offsets) - 1, columns))
    for row in range(len(offsets) - 1):
        for entry in range(offsets[row], offsets[row + 1]):
            matrix[row, indices[entry]] += values[entry]
    return matrix


def _multiplied(values: Array, indices: Array, offsets: Array, x: Array) -> Array:
    return (_dense(values, indices, offsets, len(x)) @ x).astype(x.dtype)


def _shortest(values: Array, indices: Array, offsets: Array, x: Array) -> Array:
    y = np.full(len(offsets) - 1, np.inf, x.dtype)
    for row in range(len(offsets) - 1):
        for entry in range(offsets[row], offsets[row + 1]):
            y[row] = min(y[row], values[entry] + x[indices[entry]])
    return y


def products() -> Iterator[Check]:
    """Products of sparse matrices in compressed rows."""
    matrix = rows_of_a_matrix(SHORT, 50)
    x = small(np.float32, 50, 4)
    yield Check(
        "csr_matvec",
        "float32",
        (*matrix, x[:, 0]),
        jscan.csr_matvec,
        _multiplied,
    )
    yield Check(
        "csr_matvec",
        "float32, min-plus",
        (*matrix, x[:, 0]),
        partial(jscan.csr_matvec, operators="min-plus"),
        _shortest,
    )
    yield Check(
        "csr_matmat",
        "float32",
        (*matrix, x),
        jscan.csr_matmat,
        _multiplied,
    )
