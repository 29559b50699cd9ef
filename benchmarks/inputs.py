"""Inputs, made on the device.

Whole numbers in floating-point dtypes, small enough that every partial result is exact, let an
answer be compared with integer arithmetic bit for bit.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp

Build = Callable[..., tuple[jax.Array, ...]]
Shape = tuple[int, ...]


def _draw(seed: int, shape: Shape, choices: int) -> jax.Array:
    bits = jax.random.bits(jax.random.key(seed), shape, jnp.uint32)
    return (bits % choices).astype(jnp.int32)


@functools.cache
def signs(shape: Shape, dtype: Any) -> Build:
    """-1, 0 and 1: a walk whose sums stay within 2^24 for every length measured here."""
    return lambda: ((_draw(0, shape, 3) - 1).astype(dtype),)


@functools.cache
def wide_integers(n: int) -> Build:
    """Whole float64 numbers of 36 bits, whose sums stay within 2^53 but not within float32."""

    def build() -> tuple[jax.Array]:
        x = jax.random.randint(jax.random.key(1), (n,), -(2**36), 2**36, jnp.int64)
        return (x.astype(jnp.float64),)

    return build


@functools.cache
def rising(n: int) -> Build:
    """A noisy ramp of whole numbers below 2^24, whose maximum changes all the way."""

    def build() -> tuple[jax.Array]:
        ramp = jnp.arange(n, dtype=jnp.int32) >> 6
        return ((ramp + _draw(2, (n,), 2**16)).astype(jnp.float32),)

    return build


@functools.cache
def normal(n: int) -> Build:
    """Normal deviates."""
    return lambda: (jax.random.normal(jax.random.key(3), (n,), jnp.float32),)


@functools.cache
def words(n: int) -> Build:
    """All 32 bits at random."""

    def build() -> tuple[jax.Array]:
        bits = jax.random.bits(jax.random.key(4), (n,), jnp.uint32)
        return (jax.lax.bitcast_convert_type(bits, jnp.int32),)

    return build


@functools.cache
def flagged(shape: Shape, heads_shape: Shape, heads_dtype: Any) -> Build:
    """-1, 0 and 1 in float32, and heads of the density that is the builder's argument."""

    def build(density: jax.Array) -> tuple[jax.Array, jax.Array]:
        heads = jax.random.uniform(jax.random.key(5), heads_shape) < density
        return (_draw(0, shape, 3) - 1).astype(jnp.float32), heads.astype(heads_dtype)

    return build


@functools.cache
def reflections(n: int) -> Build:
    """Slopes -1 and 1, offsets -1, 0 and 1: a recurrence whose values are whole numbers."""

    def build() -> tuple[jax.Array, jax.Array]:
        slopes = 2 * _draw(6, (n,), 2) - 1
        return slopes.astype(jnp.float32), (_draw(0, (n,), 3) - 1).astype(jnp.float32)

    return build


@functools.cache
def samples(n: int) -> Build:
    """The moments of single samples 0, 1 and 2: count 1, mean the sample, no deviation."""

    def build() -> tuple[jax.Array, jax.Array, jax.Array]:
        one, zero = jnp.ones(n, jnp.float32), jnp.zeros(n, jnp.float32)
        return one, _draw(0, (n,), 3).astype(jnp.float32), zero

    return build
