"""Elements of a Kalman filter and of its smoother (Särkkä and García-Fernández, 2021).

They are those of `examples/kalman.py`, of matrices drawn at random: 56 and 36 numbers with four
states.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Callable
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


def _inverse(x: jax.Array, product: Callable[..., jax.Array] = jnp.matmul) -> jax.Array:
    """Of matrices of four rows, by blocks of two."""
    a, b, c, d = x[..., :2, :2], x[..., :2, 2:], x[..., 2:, :2], x[..., 2:, 2:]
    first = _inverse_of_two(a)
    right, below = product(first, b), product(c, first)
    rest = _inverse_of_two(d - product(c, right))
    across = product(right, rest)
    top = jnp.concatenate([first + product(across, below), -across], -1)
    return jnp.concatenate([top, jnp.concatenate([-product(rest, below), rest], -1)], -2)


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


# --- both passes over weeks ---------------------------------------------------------------------

YEAR = 365.25 / 7
SEEN, ERROR, NOISE = (1.0, 0.0, 1.0, 0.0), 0.04, (0.1, 0.01, 0.02, 0.02)


def weeks(n: int) -> Arrays:
    """A level that walks, and a season: each week's number."""
    steps, errors = jax.random.normal(jax.random.key(52), (2, n))
    season = 3 * jnp.sin(2 * jnp.pi / YEAR * (jnp.arange(n) % 1461).astype(jnp.float32))
    return (jnp.cumsum(0.3 * steps) + season + 0.2 * errors,)


def by_lax(fn: Any, elements: Leaves, *, init: Leaves | None = None, reverse: bool = False) -> Any:
    """The scan of `lax`, behind a first element."""
    if init is None:
        return jax.lax.associative_scan(fn, elements, reverse)
    longer = jax.tree.map(lambda x, y: jnp.concatenate([x[None], y]), init, elements)
    return jax.tree.map(lambda x: x[1:], jax.lax.associative_scan(fn, longer))


def both_passes(scan: Any, y: jax.Array) -> Leaves:
    """Means and covariances of level, slope and season, by the weeks so far, then by all."""
    move, noise, seen, unit, nothing = _model()
    spread = seen @ noise @ seen + ERROR
    gain, told = noise @ seen / spread, seen @ move
    kept = unit - jnp.outer(gain, seen)
    n, value = len(y), y[:, None]

    def same(x: jax.Array) -> jax.Array:
        return jnp.broadcast_to(x, (n, *x.shape))

    j = jnp.outer(told, told) / spread
    elements_of_weeks = (
        same(kept @ move),
        value * gain[None],
        same(kept @ noise),
        value * (told / spread)[None],
        same(j),
    )
    before = nothing, jnp.zeros(STATES), 10 * unit, jnp.zeros(STATES), nothing
    _, mean, covariance, _, _ = scan(joined, elements_of_weeks, init=before)
    back = _back(covariance)
    predicted = _products(same(move), covariance, same(move.T)) + noise[None]
    rest = covariance - _products(back, predicted, back.mT)
    backwards = back, mean - _times(back, _times(same(move), mean)), rest
    _, smooth, known = scan(joined_back, backwards, reverse=True)
    return mean, covariance, smooth, known


def from_neighbouring_weeks(found: Leaves, y: jax.Array) -> jax.Array:
    """How far weeks are from a step of the filter and a step back, at the size of the largest."""
    move, noise, seen, *_ = _model()
    mean, covariance, smooth, known = found

    def step(mean: jax.Array, covariance: jax.Array, y: jax.Array) -> Leaves:
        mean, covariance = move @ mean, move @ covariance @ move.T + noise
        gain = covariance @ seen / (seen @ covariance @ seen + ERROR)
        return mean + gain * (y - seen @ mean), covariance - jnp.outer(gain, seen @ covariance)

    def step_back(back: jax.Array, mean: jax.Array, covariance: jax.Array, *later: Any) -> Leaves:
        smooth, known = later
        predicted = move @ covariance @ move.T + noise
        change = back @ (known - predicted) @ back.T
        return mean + back @ (smooth - move @ mean), covariance + change

    with jax.default_matmul_precision("highest"):
        forth = jax.vmap(step)(mean[:-1], covariance[:-1], y[1:])
        sooner = jax.vmap(step_back)(
            *(_back(covariance)[:-1], mean[:-1], covariance[:-1], smooth[1:], known[1:])
        )
    pairs = zip((mean[1:], covariance[1:], smooth[:-1], known[:-1]), (*forth, *sooner), strict=True)
    return jnp.max(jnp.stack([jnp.abs(x - w).max() / jnp.abs(w).max() for x, w in pairs]))


def _model() -> tuple[jax.Array, ...]:
    """How states move, the noise of that, how they are seen; the unit matrix, and zeros."""
    cos, sin = math.cos(2 * math.pi / YEAR), math.sin(2 * math.pi / YEAR)
    rows = (1.0, 1, 0, 0), (0.0, 1, 0, 0), (0.0, 0, cos, -sin), (0.0, 0, sin, cos)
    unit = jnp.eye(STATES)
    return jnp.array(rows), jnp.diag(jnp.array(NOISE)), jnp.array(SEEN), unit, jnp.zeros_like(unit)


def _back(covariance: jax.Array) -> jax.Array:
    """What of a week's error is that of the week before; nothing at the last one."""
    move, noise, *_ = _model()
    moves = jnp.broadcast_to(move, covariance.shape)
    predicted = _products(moves, covariance, moves.mT) + noise[None]
    back = _products(covariance, moves.mT, _inverse(predicted, _products))
    is_last = jnp.arange(len(back))[:, None, None] == len(back) - 1
    return jnp.where(is_last, jnp.zeros_like(back), back)


def _products(*factors: jax.Array) -> jax.Array:
    """Products of matrices, as sums that XLA fuses: outside of scans it calls a library for `@`."""
    return functools.reduce(lambda a, b: (a[..., None] * b[..., None, :, :]).sum(-2), factors)
