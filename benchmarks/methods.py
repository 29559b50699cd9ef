"""Operations of jscan by a named method or with a given operator.

As in `benchmarks.operations`, each is a plain function of arrays; the same arguments give the same
function, so that equal programs are compiled once.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import jax

import jscan
from benchmarks.operations import Operation


@functools.cache
def cumsum(method: str, axis: int = 0) -> Operation:
    """A cumulative sum along one axis."""
    return lambda x: jscan.cumsum(x, axis, method=method)


@functools.cache
def segmented_sum(method: str) -> Operation:
    """A cumulative sum that starts anew at every head."""
    return lambda x, heads: jscan.cumsum(x, segments=heads, method=method)


@functools.cache
def recurrence(method: str) -> Operation:
    """h[t] = a[t] h[t-1] + b[t]: the affine operator, of whose two results one is used."""

    def run(a: jax.Array, b: jax.Array) -> Any:
        return jscan.associative_scan(jscan.operators.affine, (a, b), method=method)[1]

    return run


@functools.cache
def affine(method: str) -> Operation:
    """The affine operator, of whose two results both are used."""
    return lambda a, b: jscan.associative_scan(jscan.operators.affine, (a, b), method=method)


@functools.cache
def segmented_recurrence(method: str) -> Operation:
    """The same, with h[t] = b[t] at every head."""

    def run(a: jax.Array, b: jax.Array, heads: jax.Array) -> Any:
        affine = jscan.operators.affine
        return jscan.associative_scan(affine, (a, b), segments=heads, method=method)[1]

    return run


@functools.cache
def scan(operator: Callable[[Any, Any], Any]) -> Operation:
    """The scan of one leaf."""
    return lambda x: jscan.associative_scan(operator, x)


@functools.cache
def scan_leaves(operator: Callable[[Any, Any], Any]) -> Operation:
    """The scan of a tuple of leaves."""
    return lambda *leaves: jscan.associative_scan(operator, leaves)


@functools.cache
def total(method: str) -> Operation:
    """The sum of all elements."""
    return lambda x: jscan.reduce(jscan.operators.add, x, method=method)


@functools.cache
def segment_sum(count: int, method: str) -> Operation:
    """Sums of ``count`` segments by sorted ids."""
    return lambda x, ids: jscan.segment_sum(x, ids, count, indices_are_sorted=True, method=method)


def multiply_matrices(a: Any, b: Any) -> tuple[Any, Any, Any, Any]:
    """The product of two by two matrices, row after row: an operator that does not commute."""
    return (
        a[0] * b[0] + a[1] * b[2],
        a[0] * b[1] + a[1] * b[3],
        a[2] * b[0] + a[3] * b[2],
        a[2] * b[1] + a[3] * b[3],
    )
