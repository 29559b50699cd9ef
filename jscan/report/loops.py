"""Loops in NumPy, one element after another, that the functions of this package are held against.

Numbers are as wide as NumPy has them: float64, complex128, int64. Who asks rounds the results.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

Array: TypeAlias = NDArray[Any]
Leaves: TypeAlias = tuple[Any, ...]
"""An element of a scan, or arrays of such elements along their first axes."""

Combine: TypeAlias = Callable[[Leaves, Leaves], Leaves]


def scan(
    fn: Combine,
    leaves: Sequence[Array],
    heads: Any = None,
    *,
    reverse: bool = False,
    identity: Leaves | None = None,
) -> list[Array]:
    """An inclusive scan along the first axis; an exclusive one where an identity is given."""
    n = len(leaves[0])
    results = [np.empty(x.shape, wide(x.dtype)) for x in leaves]
    carry: Leaves | None = None
    for i in range(n - 1, -1, -1) if reverse else range(n):
        element = tuple(x[i].astype(wide(x.dtype)) for x in leaves)
        # From the right, a scan restarts at the last element of a segment.
        edge = i + 1 if reverse else i
        if carry is not None and heads is not None and edge < n and heads[edge]:
            carry = None
        before, carry = carry, element if carry is None else fn(carry, element)
        shown = carry if identity is None else identity if before is None else before
        for result, value in zip(results, shown, strict=True):
            result[i] = value
    return results


def reduce(
    fn: Combine, leaves: Sequence[Array], ids: Sequence[int], count: int, identity: Leaves
) -> list[Array]:
    """The total of each segment; ids that are not of one are dropped."""
    totals: list[Leaves | None] = [None] * count
    for i, segment in enumerate(ids):
        if 0 <= segment < count:
            element = tuple(x[i].astype(wide(x.dtype)) for x in leaves)
            before = totals[segment]
            totals[segment] = element if before is None else fn(before, element)
    results = []
    for k, x in enumerate(leaves):
        values = [identity[k] if total is None else total[k] for total in totals]
        rows = [np.broadcast_to(np.asarray(value, wide(x.dtype)), x.shape[1:]) for value in values]
        results.append(np.stack(rows))
    return results


def recurrence(
    a: Array, b: Array, h0: Any = 0.0, heads: Any = None, *, reverse: bool = False
) -> Array:
    """``h[t] = a[t] h[t-1] + b[t]``, where a segment that is not the first begins with b[t]."""
    first = len(b) - 1 if reverse else 0
    begin = b.astype(wide(b.dtype))
    begin[first] += a[first].astype(begin.dtype) * h0
    return scan(affine, (a, begin), heads, reverse=reverse)[1]


def matrix_recurrence(matrices: Array, b: Array, *, reverse: bool = False) -> Array:
    """``h[t] = A[t] @ h[t-1] + b[t]``."""
    states = np.zeros(b.shape, wide(b.dtype))
    h = np.zeros(b.shape[1:], states.dtype)
    for i in range(len(b) - 1, -1, -1) if reverse else range(len(b)):
        h = matrices[i].astype(states.dtype) @ h + b[i]
        states[i] = h
    return states


def affine(before: Leaves, after: Leaves) -> Leaves:
    """The composition of two maps h -> a h + b, the first one first."""
    return before[0] * after[0], before[1] * after[0] + after[1]


def tridiagonal(lower: Array, diagonal: Array, upper: Array, right: Array) -> Array:
    """The solution of a tridiagonal system by elimination and substitution."""
    d, b = diagonal.astype(np.float64), right.astype(np.float64)
    for i in range(1, len(d)):
        factor = lower[i] / d[i - 1]
        d[i] -= factor * upper[i - 1]
        b[i] -= factor * b[i - 1]
    x = b / d
    for i in range(len(d) - 2, -1, -1):
        x[i] = (b[i] - upper[i] * x[i + 1]) / d[i]
    return x


def wide(dtype: Any) -> Any:
    """The dtype in which a loop holds numbers of another."""
    if np.issubdtype(dtype, np.complexfloating):
        return np.dtype(np.complex128)
    if np.issubdtype(dtype, np.integer):
        return np.dtype(np.int64)
    return np.dtype(bool) if np.issubdtype(dtype, np.bool_) else np.dtype(np.float64)
