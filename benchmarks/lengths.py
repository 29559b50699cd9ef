"""Segments of many shapes, even and skewed: their ids, which are sorted, made on the device."""

from __future__ import annotations

import functools

import jax
import jax.numpy as jnp

from benchmarks.inputs import Build, draw


@functools.cache
def even(n: int, length: int) -> Build:
    """Ids of segments of one length; the last may be shorter."""
    return lambda: (jnp.arange(n, dtype=jnp.int32) // length,)


@functools.cache
def short(n: int, count: int) -> Build:
    """Ids of segments of 10 to 50 elements, of which at most ``count`` are needed."""

    def build() -> tuple[jax.Array]:
        return (_repeated(10 + draw(13, (count,), 41), n),)

    return build


@functools.cache
def half_and_zipf(n: int, count: int) -> Build:
    """Ids of segments of which one, in the middle, has half of the elements.

    The lengths of the others are as 1, 1/2, 1/3 and so on (Zipf's law), in random order.
    """

    def build() -> tuple[jax.Array]:
        lengths = _zipf(n // 2, count - 1)
        before, behind = jnp.split(lengths, [count // 2])
        half = n - jnp.sum(lengths, keepdims=True)
        return (_repeated(jnp.concatenate([before, half, behind]), n),)

    return build


@functools.cache
def zipf(n: int, count: int) -> Build:
    """Ids of segments of which the longest has a fourteenth of 2^26 elements.

    Their lengths are as 1, 1/2, 1/3 and so on (Zipf's law), in random order; the last one has what
    is left by rounding.
    """

    def build() -> tuple[jax.Array]:
        return (_repeated(_zipf(n, count), n),)

    return build


@functools.cache
def half_and_short(n: int, count: int) -> Build:
    """Ids of a segment of half of the elements, and of others of 10 to 50."""

    def build() -> tuple[jax.Array]:
        others = 10 + draw(13, (count,), 41)
        return (_repeated(jnp.concatenate([jnp.full(1, n // 2, jnp.int32), others]), n),)

    return build


@functools.cache
def heads_of(n: int, ids: Build) -> Build:
    """-1, 0 and 1 in float32, and uint8 head flags of the segments of these ids."""

    def build() -> tuple[jax.Array, jax.Array]:
        (numbers,) = ids()
        changes = numbers[1:] != numbers[:-1]
        heads = jnp.concatenate([jnp.ones(1, jnp.bool_), changes]).astype(jnp.uint8)
        return (draw(0, (n,), 3) - 1).astype(jnp.float32), heads

    return build


def _zipf(elements: int, count: int) -> jax.Array:
    """Lengths of ``count`` segments, which together have hardly more elements."""
    shares = 1 / jax.random.permutation(jax.random.key(14), jnp.arange(1.0, count + 1))
    return jnp.maximum(elements * shares / jnp.sum(shares) - 1, 1).astype(jnp.int32)


def _repeated(lengths: jax.Array, n: int) -> jax.Array:
    segments = jnp.arange(lengths.size, dtype=jnp.int32)
    return jnp.repeat(segments, lengths, total_repeat_length=n)
