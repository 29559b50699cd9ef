"""Tridiagonal matrices in full, and systems of them, solved one row after another in NumPy."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from tests import reference


def full(xp: Any, dl: Any, d: Any, du: Any, *, periodic: bool = False) -> Any:
    """The matrices of diagonals along the last axis, in NumPy or in jax.numpy."""
    n = d.shape[-1]
    one = np.eye(n)
    below, above = np.roll(one, -1, 1), np.roll(one, 1, 1)
    if not periodic and n:
        below[0], above[-1] = 0, 0
    total = xp.zeros((*d.shape, n), d.dtype)
    for x, place in zip((dl, d, du), (below, one, above), strict=True):
        # Without a product: what is outside of the matrix may be infinite.
        there = np.broadcast_to(place != 0, total.shape)
        total = total + xp.where(
            there, xp.broadcast_to(x[..., None], there.shape), xp.zeros_like(total)
        )
    return total


def along_last(b: Any, axis: int, *diagonals: Any, xp: Any = np) -> list[Any]:
    """Diagonals in the shape of ``b``, and ``b``, each with ``axis`` in the last place."""
    whole = (xp.reshape(x, x.shape + (1,) * (b.ndim - x.ndim)) for x in diagonals)
    return [xp.moveaxis(xp.broadcast_to(x, b.shape), axis, -1) for x in (*whole, b)]


def solved(
    dl: Any, d: Any, du: Any, b: Any, *, axis: int = 0, periodic: bool = False, xp: Any = np
) -> Any:
    """The solution by full matrices, with pivots."""
    *diagonals, right = along_last(b, axis, dl, d, du, xp=xp)
    x = xp.linalg.solve(full(xp, *diagonals, periodic=periodic), right[..., None])
    return xp.moveaxis(x[..., 0], -1, axis)


def eliminated(dl: Any, d: Any, du: Any, b: Any) -> Any:
    """The solution along axis 0 by elimination without pivots, in the dtype of ``b``."""
    pivots, x = np.array(d), np.array(b)
    for i in range(1, len(d)):
        factor = dl[i] / pivots[i - 1]
        pivots[i] = d[i] - factor * du[i - 1]
        x[i] = b[i] - factor * x[i - 1]
    x[-1] = x[-1] / pivots[-1]
    for i in reversed(range(len(d) - 1)):
        x[i] = (x[i] - du[i] * x[i + 1]) / pivots[i]
    return x


def residual(
    given: Sequence[Any], x: Any, *, periodic: bool = False, in_sum: bool = False
) -> float:
    """The largest residual along axis 0, in eps of what it is compared with.

    That of a row is compared with what the row is made of, times the largest x; ``in_sum``, those
    of all rows with all products. It is infinite where one is NaN.
    """
    eps = float(np.finfo(np.asarray(x).dtype).eps)
    dl, d, du, b, wide = (np.array(reference.widen(np.asarray(y))) for y in (*given, x))
    if not periodic:
        dl[0], du[-1] = 0, 0
    terms = [b, dl * np.roll(wide, 1, 0), d * wide, du * np.roll(wide, -1, 0)]
    left = np.abs(terms[0] - terms[1] - terms[2] - terms[3])
    if in_sum:
        left, size = np.sum(left, 0), np.sum(np.abs(terms), (0, 1))
    else:
        size = (np.abs(dl) + np.abs(d) + np.abs(du)) * np.max(np.abs(wide), 0) + np.abs(b)
    worst = float(np.max(left / size, initial=0.0)) / eps
    return np.inf if np.isnan(worst) else worst
