"""The recurrence of a `Component`, forwards and transposed, in plain JAX.

                 comes in            is scanned                         comes out
    forwards     tangents v          s[t] = A[t] s[t-1] + C[t] v[t]     tangents s
    transposed   cotangents g of s   λ[t] = g[t] + A[t+1]ᵀ λ[t+1]       cotangents C[t]ᵀ λ[t] of v

Three places work it out: whole arrays, where JAX is to differentiate it further; chunks of them, on
a CPU (`jscan.plain.chunks`); and tiles, in a kernel (`jscan.kernels.solving`). They differ in how
they read an operand and in how they scan, and share what lies between: `Recurrence.elements`, what
the affine operator scans, and `Recurrence.results`, what follows from the scanned states.
"""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Sequence
from typing import Protocol

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

from jscan.combine import Combine, accumulation_dtype, trace
from jscan.derivatives.components import Component
from jscan.derivatives.jacobian import Matrix, Place, Source


class Read(Protocol):
    """How a matrix reads its operands."""

    def __call__(self, source: Source, step: int) -> jax.Array:
        """The values of a source, ``step`` positions further on in scan order."""

    def start(self) -> jax.Array:
        """Where the differentiated scan starts: at one end of the axis, and in each segment."""


IN_KERNELS = 3
"""The most states that kernels take together: K of them are K * K + K leaves."""


@dataclasses.dataclass(frozen=True, eq=False)
class Recurrence:
    """The work for a component before and after the scan by `operator_of`.

    Attributes:
      component: the states, and the matrices A and C.
      read: how the matrices read their operands.
      transposed: whether cotangents of the states come in, and not tangents.
      differentiable: whether JAX is to differentiate it further.
    """

    component: Component
    read: Read
    transposed: bool
    differentiable: bool = False

    def elements(self, linear: Sequence[jax.Array]) -> list[jax.Array]:
        """What is scanned: slopes row by row, which a sum has none of, then offsets."""
        component = self.component
        linear = [x.astype(component.dtype) for x in linear]
        like = linear[0]
        if self.transposed:
            offsets = list(linear)
        else:
            c, start = self._entries(component.c), self.read.start()
            offsets = []
            for row, own in enumerate(component.own):
                inside = _sum([self._times(c, (row, s), x) for s, x in enumerate(linear)], like)
                outside = jnp.zeros_like(like) if own is None else linear[own]
                offsets.append(jnp.where(start, outside, inside))
        if is_sum(component):
            return offsets
        # The transpose at t takes the slope at t+1.
        a = self._entries(component.a, step=int(self.transposed))
        slopes = []
        for row in range(component.size):
            for column in range(component.size):
                entry = a.get((column, row) if self.transposed else (row, column))
                slopes.append(jnp.zeros_like(like) if entry is None else _spread(entry, like))
        return [*slopes, *offsets]

    def results(self, states: Sequence[jax.Array]) -> list[jax.Array]:
        """What comes out: the scanned states, or the cotangents that follow from them."""
        if not self.transposed:
            return list(states)
        component, like = self.component, states[0]
        c, start = self._entries(component.c), self.read.start()
        found = []
        for column in range(component.inputs):
            inside = _sum([self._times(c, (r, column), x) for r, x in enumerate(states)], like)
            own = [x for x, number in zip(states, component.own, strict=True) if number == column]
            found.append(jnp.where(start, _sum(own, like), inside))
        return found

    def _entries(self, matrix: Matrix, *, step: int = 0) -> dict[Place, jax.Array]:
        read = functools.partial(self.read, step=step)
        return matrix.at(read, differentiable=self.differentiable)

    def _times(
        self, entries: dict[Place, jax.Array], place: Place, x: jax.Array
    ) -> jax.Array | None:
        """An entry of C times ``x``; None if the entry is zero."""
        constant = self.component.c.constant(place)
        if constant == 0:
            return None
        return x if constant == 1 else _spread(entries[place], x).astype(self.component.dtype) * x


def is_sum(component: Component) -> bool:
    """Whether the component is a sum: it has one state, whose slope is 1."""
    return component.size == 1 and component.a.constant((0, 0)) == 1


def is_recurrent(component: Component) -> bool:
    """Whether any state depends on one before it."""
    return bool(component.a.places)


def operator_of(component: Component) -> Combine:
    """The operator that scans the `Recurrence.elements`: a sum, or the affine one on K states."""
    return _operator(0 if is_sum(component) else component.size, component.dtype)


def affine(size: int, dtype: np.dtype) -> Combine:
    """The affine operator on ``size`` states, whose slopes are matrices, row by row."""
    return _operator(size, dtype)


def sum_of(dtype: np.dtype) -> Combine:
    """The operator that adds up elements of a dtype."""
    return _operator(0, accumulation_dtype(dtype))


@functools.lru_cache(maxsize=64)
def _operator(size: int, dtype: np.dtype) -> Combine:
    """(A, b) then (C, d) ↦ (C A, C b + d) for matrices of ``size``; a sum where that is 0."""

    def combine(left: Sequence[jax.Array], right: Sequence[jax.Array]) -> list[jax.Array]:
        if not size:
            return [left[0] + right[0]]
        square = size * size
        a, b = _rows(left[:square], size), left[square:]
        c, d = _rows(right[:square], size), right[square:]
        slopes = [_dot(row, [a[k][j] for k in range(size)]) for row in c for j in range(size)]
        return [*slopes, *(_dot(row, b) + d[i] for i, row in enumerate(c))]

    leaves = [jax.ShapeDtypeStruct((1,), dtype)] * (size * size + max(size, 1))
    unit = np.eye(size, dtype=dtype).reshape(-1)
    identity = (*unit, *np.zeros(max(size, 1), dtype))
    treedef = jax.tree.structure([0] * len(leaves))
    traced = trace(combine, leaves, treedef, 0, identity)
    assert traced is not None
    return traced


def _rows(entries: Sequence[jax.Array], size: int) -> list[Sequence[jax.Array]]:
    return [entries[i * size : (i + 1) * size] for i in range(size)]


def _dot(row: Sequence[jax.Array], column: Sequence[jax.Array]) -> jax.Array:
    return functools.reduce(lax.add, [lax.mul(x, y) for x, y in zip(row, column, strict=True)])


def _sum(terms: Sequence[jax.Array | None], like: jax.Array) -> jax.Array:
    there = [x for x in terms if x is not None]
    return functools.reduce(lax.add, there) if there else jnp.zeros_like(like)


def _spread(entry: jax.Array, like: jax.Array) -> jax.Array:
    return jnp.broadcast_to(entry, like.shape).astype(like.dtype)
