"""The recurrence of a `Component`, forwards and transposed, in plain JAX.

Three places work it out: whole arrays, where JAX is to differentiate it further; chunks of them, on
a CPU (`jscan.chunks`); and tiles, in a kernel (`jscan.kernels.tangent`). They differ in how they
read an operand and in how they scan, and share what lies between: `elements`, what the affine
operator scans, and `results`, what follows from the scanned states.
"""

from __future__ import annotations

import functools
from collections.abc import Sequence
from typing import Any, Protocol

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

from jscan.combine import Combine, trace
from jscan.jacobian import Matrix, Source
from jscan.tangents import Component


class Read(Protocol):
    """How a matrix reads its operands."""

    def __call__(self, source: Source, step: int) -> jax.Array:
        """What there is so many steps on in scan order."""


IN_KERNELS = 3
"""The most states that kernels take together: K of them are K * K + K leaves."""


def elements(
    one: Component,
    read: Read,
    linear: Sequence[jax.Array],
    start: jax.Array,
    *,
    transposed: bool,
    differentiable: bool = False,
) -> list[jax.Array]:
    """The leaves of `operator_of`: slopes row by row, if it has any, then offsets."""
    linear = [x.astype(one.dtype) for x in linear]
    like = linear[0]
    if transposed:
        offsets = list(linear)
    else:
        c = one.c.at(functools.partial(read, step=0), differentiable=differentiable)
        offsets = []
        for row, own in enumerate(one.own):
            inside = _sum([_times(one, one.c, (row, s), c, x) for s, x in enumerate(linear)], like)
            outside = jnp.zeros_like(like) if own is None else linear[own]
            offsets.append(jnp.where(start, outside, inside))
    if is_sum(one):
        return offsets
    # The transpose at t takes the slope at t+1.
    a = one.a.at(functools.partial(read, step=int(transposed)), differentiable=differentiable)
    slopes = []
    for row in range(one.size):
        for column in range(one.size):
            entry = a.get((column, row) if transposed else (row, column))
            slopes.append(jnp.zeros_like(like) if entry is None else _spread(entry, like))
    return [*slopes, *offsets]


def results(
    one: Component,
    read: Read,
    states: Sequence[jax.Array],
    start: jax.Array,
    *,
    transposed: bool,
    differentiable: bool = False,
) -> list[jax.Array]:
    """The states as they are; or the cotangents of what came in, from those of the states."""
    if not transposed:
        return list(states)
    c = one.c.at(functools.partial(read, step=0), differentiable=differentiable)
    like = states[0]
    found = []
    for column in range(one.inputs):
        inside = _sum([_times(one, one.c, (r, column), c, x) for r, x in enumerate(states)], like)
        outside = _sum([x for x, own in zip(states, one.own, strict=True) if own == column], like)
        found.append(jnp.where(start, outside, inside))
    return found


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


def _times(
    one: Component, matrix: Matrix, place: tuple[int, int], entries: dict[Any, Any], x: jax.Array
) -> jax.Array | None:
    """An entry times ``x``; None if it is zero."""
    known = matrix.constant(place)
    if known == 0:
        return None
    return x if known == 1 else _spread(entries[place], x).astype(one.dtype) * x


def _sum(terms: Sequence[jax.Array | None], like: jax.Array) -> jax.Array:
    there = [x for x in terms if x is not None]
    return functools.reduce(lax.add, there) if there else jnp.zeros_like(like)


def _spread(entry: Any, like: jax.Array) -> jax.Array:
    return jnp.broadcast_to(entry, like.shape).astype(like.dtype)
