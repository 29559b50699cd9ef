"""Elements of a Kalman filter and of its smoother (Särkkä and García-Fernández, 2021).

They are those of `examples/kalman.py`, of matrices drawn at random: 56 and 36 numbers with four
states.
"""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp

from benchmarks.cases.inputs import Arrays

STATES = 4
Leaves = tuple[Any, ...]


def elements(n: int) -> Arrays:
    """(A, b, C, η, J) of the filter: A shrinks, C and J are covariances."""
    keys = jax.random.split(jax.random.key(51), 5)
    a, c, j = (jax.random.normal(key, (n, STATES, STATES)) / STATES for key in keys[:3])
    b, eta = (jax.random.normal(key, (n, STATES)) for key in keys[3:])
    return a, b, c @ c.mT, eta, j @ j.mT


def backward_elements(n: int) -> Arrays:
    """(E, g, L) of the smoother."""
    return elements(n)[:3]


def joined(first: Leaves, then: Leaves) -> Leaves:
    """Two elements of the filter in a row, as one."""
    (a, b, c, eta, j), (a2, b2, c2, eta2, j2) = first, then
    middle = _inverse(jnp.broadcast_to(jnp.eye(STATES, dtype=a.dtype), a.shape) + c @ j2)
    forth, back = a2 @ middle, a.mT @ middle.mT
    return (
        forth @ a,
        _times(forth, b + _times(c, eta2)) + b2,
        forth @ c @ a2.mT + c2,
        _times(back, eta2 - _times(j2, b)) + eta,
        back @ j2 @ a + j,
    )


def joined_back(later: Leaves, sooner: Leaves) -> Leaves:
    """Two elements of the smoother in a row, as one."""
    (e, g, c), (e2, g2, c2) = later, sooner
    return e2 @ e, _times(e2, g) + g2, e2 @ c @ e2.mT + c2


def _times(matrix: jax.Array, vector: jax.Array) -> jax.Array:
    return (matrix * vector[..., None, :]).sum(-1)


def _inverse(x: jax.Array) -> jax.Array:
    """Of matrices of four rows, by blocks of two."""
    a, b, c, d = x[..., :2, :2], x[..., :2, 2:], x[..., 2:, :2], x[..., 2:, 2:]
    first = _inverse_of_two(a)
    right, below = first @ b, c @ first
    rest = _inverse_of_two(d - c @ right)
    top = jnp.concatenate([first + right @ rest @ below, -right @ rest], -1)
    return jnp.concatenate([top, jnp.concatenate([-rest @ below, rest], -1)], -2)


def _inverse_of_two(x: jax.Array) -> jax.Array:
    (a, b), (c, d) = ([x[..., i, k] for k in range(2)] for i in range(2))
    rows = jnp.stack([jnp.stack([d, -b], -1), jnp.stack([-c, a], -1)], -2)
    return rows / (a * d - b * c)[..., None, None]


def from_neighbours(operator: Any, found: Leaves, *leaves: jax.Array) -> jax.Array:
    """How far y[t] is from y[t-1] and x[t] combined, at the size of the largest."""
    with jax.default_matmul_precision("highest"):
        behind = operator(tuple(y[:-1] for y in found), tuple(x[1:] for x in leaves))
    wanted = [jnp.concatenate([x[:1], y]) for x, y in zip(leaves, behind, strict=True)]
    pairs = zip(found, wanted, strict=True)
    return jnp.max(jnp.stack([jnp.abs(y - w).max() / jnp.abs(w).max() for y, w in pairs]))
