"""The terms of a sum of exponentials, behind a maximum, and totals of tiles.

    m, exp(x[i] - m)           what a tile has: its maximum and its terms, which are at most 1
    m + log(sum of terms)      its total, as tiles tell each other

Complex numbers have two leaves, a real part and a phase: m is of real parts.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax
from jax.extend import core

from jscan.kernels import doubles, language, phasors
from jscan.kernels.description import Scan
from jscan.kernels.operator import trace_scalars


def exp(x: jax.Array) -> jax.Array:
    """The exponential of x <= 0 or NaN, as a term of a sum that is not much smaller."""
    return doubles.exp(x) if x.dtype == np.float64 else phasors.exp(x)


def log(x: jax.Array) -> jax.Array:
    """The logarithm of x >= 0 or NaN."""
    return doubles.log(x) if x.dtype == np.float64 else phasors.log(x)


@functools.cache
def scalar(function: Callable[..., jax.Array], dtype: np.dtype) -> core.ClosedJaxpr:
    """A function of two numbers, as tiles are reduced and scanned with it."""
    return trace_scalars(lambda x, y: [function(x, y)], [dtype] * 2)


@functools.cache
def added(dtypes: tuple[np.dtype, ...]) -> core.ClosedJaxpr:
    """The sum of terms, which have a part or two."""
    count = len(dtypes)
    return trace_scalars(lambda *x: list(map(lax.add, x[:count], x[count:])), dtypes * 2)


@functools.cache
def _of_pairs(function: Callable[..., phasors.Pair], dtype: np.dtype) -> core.ClosedJaxpr:
    return trace_scalars(function, [dtype] * 2)


def term(real: jax.Array, *phase: jax.Array) -> list[jax.Array]:
    """The exponential of a number whose real part is not above 0."""
    if not phase:
        return [exp(real)]
    return language.mapped(_of_pairs(phasors.term, np.dtype(real.dtype)), [real, *phase])


def logarithm(total: Sequence[jax.Array]) -> list[jax.Array]:
    """The logarithm of a sum of terms."""
    if len(total) == 1:
        return [log(total[0])]
    return language.mapped(_of_pairs(phasors.logarithm, np.dtype(total[0].dtype)), total)


def centered(maximum: jax.Array) -> jax.Array:
    """What terms are taken behind: their maximum, or 0 where that is no number."""
    return jnp.where(jnp.abs(maximum) < np.inf, maximum, jnp.zeros_like(maximum))


def logarithm_behind(maximum: jax.Array, total: Sequence[jax.Array]) -> list[jax.Array]:
    """The total of a tile, from that of its terms."""
    size, *angle = logarithm(total)
    return [jnp.where(maximum < np.inf, centered(maximum) + size, maximum), *angle]


def greatest(values: Sequence[jax.Array], axis: int) -> jax.Array:
    """The greatest value of all along ``axis``, or NaN where one is."""
    if not _suits_halves(values, axis):
        return _extreme(language.nan_max, values, axis)
    return _by_halves(lax.max, np.iinfo(np.int32).min, values, axis)


def least(values: Sequence[jax.Array], axis: int) -> jax.Array:
    """The least value of all along ``axis``; NaN where one is, of float64 where all are."""
    if not _suits_halves(values, axis):
        return _extreme(language.nan_min, values, axis)
    return _by_halves(lax.min, np.iinfo(np.int32).max, values, axis)


def _suits_halves(values: Sequence[jax.Array], axis: int) -> bool:
    """Whether extremes are found by halves: of float64, but not of short rows.

    Two reductions take longer than one where few numbers are reduced: rows of 8 0.25 of copy speed
    so, and 0.30 (H200, 2026-11-29).
    """
    return values[0].dtype == np.float64 and len(values) * values[0].shape[axis] >= 32


def _extreme(
    function: Callable[..., jax.Array], values: Sequence[jax.Array], axis: int
) -> jax.Array:
    of_two = scalar(function, np.dtype(values[0].dtype))
    return language.tile_reduce(of_two, functools.reduce(function, values), axis)


def _by_halves(
    function: Callable[..., jax.Array], identity: int, values: Sequence[jax.Array], axis: int
) -> jax.Array:
    """The extreme of upper halves, and that of the lower halves of those that have it."""
    halves = list(map(doubles.halves, values))
    high = _extreme(function, [upper for upper, _ in halves], axis)
    tall = jnp.broadcast_to(lax.expand_dims(high, [axis]), values[0].shape)
    others = jnp.full_like(tall, identity)
    lower = [jnp.where(upper == tall, low, others) for upper, low in halves]
    return doubles.joined(high, _extreme(function, lower, axis))


def behind_maximum(
    values: Sequence[jax.Array], axis: int
) -> tuple[list[jax.Array], jax.Array, list[jax.Array]]:
    """exp(values - m), their maximum m, and m + log of the terms' sum, along ``axis``."""
    real, *phase = values
    dtype = np.dtype(real.dtype)
    maximum = greatest([real], axis)
    center = lax.expand_dims(centered(maximum), [axis])
    terms = term(real - jnp.broadcast_to(center, real.shape), *phase)
    total = [language.tile_reduce(scalar(lax.add, dtype), x, axis) for x in terms]
    return terms, maximum, logarithm_behind(maximum, total)


def reference_or_zero(reference: jax.Array) -> jax.Array:
    """The reference, which is 0 where there is nothing but zeros' logarithms to refer to."""
    return jnp.where(reference == -np.inf, jnp.zeros_like(reference), reference)


def logarithm_of_zero(like: jax.Array, count: int) -> list[jax.Array]:
    """The logarithm of 0, which has a phase or none."""
    return [jnp.full_like(like, -np.inf), *[jnp.zeros_like(like)] * (count - 1)]


class LinearAggregates:
    """Totals of tiles."""

    def __init__(self, scan: Scan):
        self.dtype, self._operator = scan.dtypes[0], scan.operator
        single = len(scan.dtypes) == 1
        self.identity = self.dtype.type(-np.inf) if single else None

    def total(self, values: Sequence[jax.Array], axis: int) -> list[jax.Array]:
        """The total of values along ``axis``."""
        _, _, total = behind_maximum(values, axis)
        return total

    def fold(self, values: jax.Array) -> jax.Array:
        """The total of a window of aggregates."""
        [total] = self.total([values], 0)
        return total

    def combine(self, left: list[jax.Array], right: list[jax.Array]) -> list[jax.Array]:
        """One aggregate behind another."""
        if len(left) > 1:
            return language.mapped(self._operator, [*left, *right])
        maximum = language.nan_max(left[0], right[0])
        depth = -jnp.abs(left[0] - right[0])
        total = maximum + log(1 + exp(depth))
        return [jnp.where(depth == depth, total, maximum)]
