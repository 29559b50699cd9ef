"""The recurrence of a `Component`, forwards and transposed, in plain JAX.

Three places work it out: whole arrays, where JAX is to differentiate it further; chunks of them, on
a CPU (`jscan.plain.chunks`); and tiles, in a kernel (`jscan.kernels.solving`). They differ in how
they read an operand and in how they scan, and share what lies between: `Recurrence.elements`, what
the affine operator scans, and `Recurrence.results`, what follows from the scanned states.
"""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Sequence
from typing import Any, Protocol

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

from jscan.combine import Combine, trace
from jscan.derivatives.components import Component
from jscan.derivatives.jacobian import Matrix, Place, Source


class Read(Protocol):
    """How a matrix reads its operands."""

    def __call__(self, source: Source, step: int) -> jax.Array:
        """What there is so many steps on in scan order."""

    def start(self) -> jax.Array:
        """Where the differentiated scan starts: at the end of the axis, and in each segment."""


IN_KERNELS = 3
"""The most states that kernels take together: K of them are K * K + K leaves."""


@dataclasses.dataclass(frozen=True, eq=False)
class Recurrence:
    """What there is to do for a component before and after the scan of `operator_of`.

    Attributes:
      component: what it is the recurrence of.
      read: how the component's matrices read their operands.
      transposed: whether cotangents of the states come in, and not tangents.
      differentiable: whether JAX is to differentiate it further.
    """

    component: Component
    read: Read
    transposed: bool
    differentiable: bool = False

    def elements(self, linear: Sequence[jax.Array]) -> list[jax.Array]:
        """What is scanned: slopes row by row, if it has any, then offsets."""
        one = self.component
        linear = [x.astype(one.dtype) for x in linear]
        like = linear[0]
        if self.transposed:
            offsets = list(linear)
        else:
            c, start = self._entries(one.c), self.read.start()
            offsets = []
            for row, own in enumerate(one.own):
                inside = _sum([self._times(c, (row, s), x) for s, x in enumerate(linear)], like)
                outside = jnp.zeros_like(like) if own is None else linear[own]
                offsets.append(jnp.where(start, outside, inside))
        if is_sum(one):
            return offsets
        # The transpose at t takes the slope at t+1.
        a = self._entries(one.a, step=int(self.transposed))
        slopes = []
        for row in range(one.size):
            for column in range(one.size):
                entry = a.get((column, row) if self.transposed else (row, column))
                slopes.append(jnp.zeros_like(like) if entry is None else _spread(entry, like))
        return [*slopes, *offsets]

    def results(self, states: Sequence[jax.Array]) -> list[jax.Array]:
        """The states as they are; or the cotangents of what came in, from those of the states."""
        if not self.transposed:
            return list(states)
        one, like = self.component, states[0]
        c, start = self._entries(one.c), self.read.start()
        found = []
        for column in range(one.inputs):
            inside = _sum([self._times(c, (r, column), x) for r, x in enumerate(states)], like)
            own = [x for x, number in zip(states, one.own, strict=True) if number == column]
            found.append(jnp.where(start, _sum(own, like), inside))
        return found

    def _entries(self, matrix: Matrix, *, step: int = 0) -> dict[Place, Any]:
        read = functools.partial(self.read, step=step)
        return matrix.at(read, differentiable=self.differentiable)

    def _times(self, entries: dict[Place, Any], place: Place, x: jax.Array) -> jax.Array | None:
        """One of the entries of C, times ``x``; None if it is zero."""
        known = self.component.c.constant(place)
        if known == 0:
            return None
        return x if known == 1 else _spread(entries[place], x).astype(self.component.dtype) * x


def is_sum(one: Component) -> bool:
    """Whether the state is a sum: its one slope is 1."""
    return one.size == 1 and one.a.constant((0, 0)) == 1


def is_recurrent(one: Component) -> bool:
    """Whether any state depends on one before it."""
    return bool(one.a.places)


def operator_of(one: Component) -> Combine:
    """What scans the `elements`: a sum, or the affine operator on K states."""
    return _operator(0 if is_sum(one) else one.size, one.dtype)


@functools.lru_cache(maxsize=64)
def _operator(size: int, dtype: np.dtype[Any]) -> Combine:
    def combine(left: Sequence[Any], right: Sequence[Any]) -> list[Any]:
        if not size:
            return [left[0] + right[0]]
        square = size * size
        a, b = _rows(left[:square], size), left[square:]
        c, d = _rows(right[:square], size), right[square:]
        slopes = [_dot(row, [a[k][j] for k in range(size)]) for row in c for j in range(size)]
        return [*slopes, *(_dot(row, b) + d[i] for i, row in enumerate(c))]

    leaves = [jax.ShapeDtypeStruct((1,), dtype)] * (size * size + max(size, 1))
    zero: Any = np.zeros((), dtype)[()]
    unit: Any = np.ones((), dtype)[()]
    slopes: list[Any] = [unit if i == j else zero for i in range(size) for j in range(size)]
    identity = (*slopes, *[zero] * max(size, 1))
    treedef = jax.tree.structure([0] * len(leaves))
    traced = trace(combine, leaves, treedef, 0, identity)
    assert traced is not None
    return traced


def _rows(entries: Sequence[Any], size: int) -> list[Sequence[Any]]:
    return [entries[i * size : (i + 1) * size] for i in range(size)]


def _dot(row: Sequence[Any], column: Sequence[Any]) -> Any:
    return functools.reduce(lax.add, [lax.mul(x, y) for x, y in zip(row, column, strict=True)])


def _sum(terms: Sequence[jax.Array | None], like: jax.Array) -> jax.Array:
    there = [x for x in terms if x is not None]
    return functools.reduce(lax.add, there) if there else jnp.zeros_like(like)


def _spread(entry: Any, like: jax.Array) -> jax.Array:
    return jnp.broadcast_to(entry, like.shape).astype(like.dtype)
