"""Derivatives of sequential scans as loops in NumPy, one element at a time in float64.

Of y[t] = f(y[t-1], x[t]) with A = ∂f/∂y[t-1] and B = ∂f/∂x[t], which `slopes` has for operators:

    dy[t] = A[t] dy[t-1] + B[t] dx[t]                            and dy = dx at starts
    λ[t]  = ȳ[t] + A[t+1]ᵀ λ[t+1],    x̄[t] = B[t]ᵀ λ[t]          and x̄ = λ at starts

The same loops over absolute values bound what rounding can do, as in `reference`.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import jax.numpy as jnp
import numpy as np

from tests import reference, slopes


class Recurrence:
    """The two loops for one scan."""

    def __init__(
        self,
        rule: slopes.Rule,
        xs: Sequence[Any],
        *,
        axis: int = 0,
        reverse: bool = False,
        exclusive: bool = False,
        flags: Any = None,
    ):
        self.axis, self.exclusive = axis, exclusive
        wide = [reference.widen(x) for x in xs]
        options = {"axis": axis, "reverse": reverse, "flags": flags}
        values = [self.lead(y) for y in reference.scan(rule.combine, wide, **options)]
        leaves = [self.lead(x) for x in wide]
        self.n = leaves[0].shape[0]
        fresh = reference.restarts(flags, self.n, axis % wide[0].ndim, reverse)
        self.order = [*range(self.n)][::-1] if reverse else [*range(self.n)]
        self.starts = [
            np.broadcast_to(s.reshape(s.shape + (1,) * (leaves[0].ndim - 1 - s.ndim)), x.shape)
            for s, x in zip(fresh, leaves[0], strict=True)
        ]
        self.slopes = {}
        for before, t in zip(self.order, self.order[1:], strict=False):
            entries = rule.slopes([y[before] for y in values], [x[t] for x in leaves])
            self.slopes[t] = tuple(
                _matrix(part, len(leaves), leaves[0].shape[1:]) for part in entries
            )

    def lead(self, x: Any) -> reference.Array:
        """The array with the scanned axis first."""
        return np.moveaxis(x, self.axis, 0)

    def _stacked(self, arrays: Sequence[Any], sized: bool) -> reference.Array:
        stacked = np.stack([self.lead(reference.widen(x)) for x in arrays], 1)
        return np.abs(stacked) if sized else stacked

    def _unstacked(self, stacked: reference.Array) -> list[reference.Array]:
        return [np.moveaxis(stacked[:, i], 0, self.axis) for i in range(stacked.shape[1])]

    def tangents(self, dxs: Sequence[Any], *, sized: bool = False) -> list[reference.Array]:
        """dy; the loop over absolute values where `sized`."""
        dx = self._stacked(dxs, sized)
        out = np.zeros_like(dx)
        before = np.zeros_like(dx[0]) if self.n else dx
        for t in self.order:
            inside = dx[t]
            if t in self.slopes:
                a, b = (np.abs(x) if sized else x for x in self.slopes[t])
                inside = _times(a, before) + _times(b, dx[t])
            after = np.where(self.starts[t], dx[t], inside)
            out[t] = np.where(self.starts[t], 0, before) if self.exclusive else after
            before = after
        return self._unstacked(out)

    def cotangents(self, gs: Sequence[Any], *, sized: bool = False) -> list[reference.Array]:
        """x̄; the loop over absolute values where `sized`."""
        g = self._stacked(gs, sized)
        out = np.zeros_like(g)
        coming = np.zeros_like(g[0]) if self.n else g
        for position in reversed(range(self.n)):
            t = self.order[position]
            later = self.order[position + 1] if position + 1 < self.n else None
            own = g[t]
            if self.exclusive:
                own = np.zeros_like(g[t])
                if later is not None:
                    own = np.where(self.starts[later], 0, g[later])
            state = own + coming
            out[t] = state
            coming = np.zeros_like(state)
            if t in self.slopes:
                a, b = (np.abs(x) if sized else x for x in self.slopes[t])
                out[t] = np.where(self.starts[t], state, _times(np.swapaxes(b, 0, 1), state))
                coming = np.where(self.starts[t], 0, _times(np.swapaxes(a, 0, 1), state))
        return self._unstacked(out)


def _matrix(entries: slopes.Entries, size: int, row: tuple[int, ...]) -> reference.Array:
    matrix = np.zeros((size, size, *row))
    for place, value in entries.items():
        matrix[place] = value
    return matrix


def _times(matrix: reference.Array, vector: reference.Array) -> reference.Array:
    return np.einsum("ij...,j...->i...", matrix, vector)


def assert_within(actual: Any, expected: Any, sizes: Any, *, axis: int, steps: int) -> None:
    """Asserts that each result is as near to the loop's as rounding allows.

    Slopes come out of results that were rounded before, so that an error is as large as the
    largest size along the row; results of half precision were rounded to their own type there.
    """
    for got, want, size in zip(actual, expected, sizes, strict=True):
        dtype, n = got.dtype, want.shape[axis]
        scale = np.max(size, axis=axis, keepdims=True, initial=0.0)
        error = n * steps * reference.accumulation_eps(dtype) * scale
        if jnp.finfo(dtype).bits < 32:
            error = error + steps * float(jnp.finfo(dtype).eps) * scale
        reference.assert_within(got, want, error + float(jnp.finfo(dtype).tiny))
