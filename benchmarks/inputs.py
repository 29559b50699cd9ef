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
from jax import lax

Build = Callable[..., tuple[jax.Array, ...]]
Shape = tuple[int, ...]


def draw(seed: int, shape: Shape, choices: int) -> jax.Array:
    """Whole numbers from 0, all below ``choices``; a seed's are the same in every call."""
    bits = jax.random.bits(jax.random.key(seed), shape, jnp.uint32)
    return (bits % choices).astype(jnp.int32)


@functools.cache
def signs(shape: Shape, dtype: Any) -> Build:
    """-1, 0 and 1: a walk whose sums stay within 2^24 for every length measured here."""
    return lambda: ((draw(0, shape, 3) - 1).astype(dtype),)


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
        return ((ramp + draw(2, (n,), 2**16)).astype(jnp.float32),)

    return build


@functools.cache
def falling(n: int) -> Build:
    """The same downwards, whose minimum changes all the way."""
    return lambda: (-rising(n)()[0],)


@functools.cache
def complex_signs(n: int) -> Build:
    """Real and imaginary parts -1, 0 and 1, whose sums stay within 2^24."""

    def build() -> tuple[jax.Array]:
        parts = (draw(seed, (n,), 3) - 1 for seed in (0, 23))
        return (lax.complex(*(x.astype(jnp.float32) for x in parts)),)

    return build


@functools.cache
def rare_bits(n: int) -> Build:
    """0, but for some 128 numbers of one bit each."""

    def build() -> tuple[jax.Array]:
        there = draw(24, (n,), max(n // 128, 1)) == 0
        return (jnp.where(there, jnp.int32(1) << draw(25, (n,), 32), 0),)

    return build


@functools.cache
def rare_gaps(n: int) -> Build:
    """The same with all bits reversed."""
    return lambda: (~rare_bits(n)()[0],)


@functools.cache
def quarter_turns(n: int) -> Build:
    """Matrices of two by two, row after row: quarter turns, half of them reflected first.

    Products are such matrices again, however many there are.
    """

    def build() -> tuple[jax.Array, ...]:
        turn, sign = draw(26, (n,), 4), 1 - 2 * draw(27, (n,), 2)
        cosine = jnp.where(turn & 1 == 1, 0, 1 - turn)
        sine = jnp.where(turn & 1 == 1, 2 - turn, 0)
        entries = (cosine, -sign * sine, sine, sign * cosine)
        return tuple(x.astype(jnp.float32) for x in entries)

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
        return (draw(0, shape, 3) - 1).astype(jnp.float32), heads.astype(heads_dtype)

    return build


@functools.cache
def flagged_reflections(n: int) -> Build:
    """Slopes -1 and 1, offsets -1, 0 and 1, and heads of the density that is the argument."""

    def build(density: jax.Array) -> tuple[jax.Array, jax.Array, jax.Array]:
        slopes, offsets = reflections((n,))()
        return slopes, offsets, flagged((n,), (n,), jnp.uint8)(density)[1]

    return build


@functools.cache
def reflections(shape: Shape, slopes_shape: Shape | None = None) -> Build:
    """Slopes -1 and 1, offsets -1, 0 and 1: a recurrence whose values are whole numbers."""

    def build() -> tuple[jax.Array, jax.Array]:
        (slopes,) = factors(slopes_shape or shape)()
        return slopes, (draw(0, shape, 3) - 1).astype(jnp.float32)

    return build


@functools.cache
def factors(shape: Shape) -> Build:
    """-1 and 1, whose products neither grow nor vanish however many there are."""
    return lambda: ((2 * draw(6, shape, 2) - 1).astype(jnp.float32),)


@functools.cache
def cotangents(shape: Shape) -> Build:
    """-1, 0 and 1, drawn apart from every other operand."""
    return lambda: ((draw(15, shape, 3) - 1).astype(jnp.float32),)


@functools.cache
def flagged_factors(n: int) -> Build:
    """-1 and 1, heads of the density that is the builder's argument, and cotangents."""

    def build(density: jax.Array) -> tuple[jax.Array, jax.Array, jax.Array]:
        heads = jax.random.uniform(jax.random.key(5), (n,)) < density
        ((x,), (cotangent,)) = factors((n,))(), cotangents((n,))()
        return x, heads.astype(jnp.uint8), cotangent

    return build


@functools.cache
def turns(n: int) -> Build:
    """Coefficients 1, i, -1 and -i; rare terms and cotangents of parts -1, 0 and 1.

    One in 64 is not 0, so that a product of two walks has parts below 2^24 at every length here.
    """

    def build() -> tuple[jax.Array, jax.Array, jax.Array]:
        k = draw(16, (n,), 4)
        coefficients = lax.complex(*(_less(k == i, k == i + 2) for i in (0, 1)))
        return coefficients, _rare(17, n), _rare(20, n)

    return build


def _less(a: jax.Array, b: jax.Array) -> jax.Array:
    return a.astype(jnp.float32) - b.astype(jnp.float32)


def _rare(seed: int, n: int) -> jax.Array:
    there = draw(seed, (n,), 64) == 0
    parts = (jnp.where(there, draw(seed + i, (n,), 3) - 1, 0) for i in (1, 2))
    return lax.complex(*(x.astype(jnp.float32) for x in parts))


@functools.cache
def climbing(n: int) -> Build:
    """Whole numbers below n, no two alike, whose maximum changes in every 256 of them."""

    def build() -> tuple[jax.Array]:
        place = jnp.arange(n, dtype=jnp.int32)
        shuffled = (place * 167) & 255  # 167 is odd: a permutation of 256 numbers
        return ((place - (place & 255) + shuffled).astype(jnp.float32),)

    return build


LOG_RANGE = 512.0  # nats; exponentials of it are float64 numbers


@functools.cache
def slopes_of_logs(n: int) -> Build:
    """Normal deviates on a ramp of `LOG_RANGE` from end to end, and cotangents of -1 and 1."""

    def build() -> tuple[jax.Array, jax.Array]:
        ramp = jnp.arange(n, dtype=jnp.float32) * (LOG_RANGE / n)
        noise = jax.random.normal(jax.random.key(3), (n,), jnp.float32)
        return ramp + noise, (2 * draw(15, (n,), 2) - 1).astype(jnp.float32)

    return build


@functools.cache
def samples(n: int) -> Build:
    """The moments of single samples 0, 1 and 2: count 1, mean the sample, no deviation."""

    def build() -> tuple[jax.Array, jax.Array, jax.Array]:
        one, zero = jnp.ones(n, jnp.float32), jnp.zeros(n, jnp.float32)
        return one, draw(0, (n,), 3).astype(jnp.float32), zero

    return build


@functools.cache
def joined(*builds: Build) -> Build:
    """The operands of several builders, one after another."""
    return lambda: tuple(operand for build in builds for operand in build())


@functools.cache
def eights(shape: Shape, dtype: Any) -> Build:
    """-8 to 8, whose sums stay within 2^24 for every length measured here."""
    return lambda: ((draw(7, shape, 17) - 8).astype(dtype),)


@functools.cache
def numbers(n: int) -> Build:
    """Whole float32 numbers below 2^20, hardly any two of them alike."""
    return lambda: (draw(8, (n,), 2**20).astype(jnp.float32),)


@functools.cache
def rare_writes(n: int) -> Build:
    """Some thirty random int32 numbers, and 0 everywhere else."""

    def build() -> tuple[jax.Array]:
        written = draw(9, (n,), max(n // 32, 1)) == 0
        return (jnp.where(written, 1 + draw(10, (n,), 2**30), 0),)

    return build


@functools.cache
def mask(n: int, density: float) -> Build:
    """Booleans, true with this probability."""
    return lambda: (jax.random.uniform(jax.random.key(11), (n,)) < density,)


def _ids(n: int, count: int) -> jax.Array:
    return draw(12, (n,), count)


@functools.cache
def random_ids(n: int, count: int) -> Build:
    """Ids of ``count`` segments, each element's by chance."""
    return lambda: (_ids(n, count),)


@functools.cache
def sorted_ids(n: int, count: int) -> Build:
    """The same, sorted: segments of n / count elements on average."""
    return lambda: (lax.sort(_ids(n, count)),)


@functools.cache
def runs(n: int, count: int) -> Build:
    """The same with other ids, in no order."""

    def build() -> tuple[jax.Array]:
        return (lax.sort(_ids(n, count)) * jnp.int32(-1640531527),)  # odd, so none become alike

    return build


@functools.cache
def heads(n: int, count: int) -> Build:
    """Head flags of the same segments, as booleans."""

    def build() -> tuple[jax.Array]:
        ids = lax.sort(_ids(n, count))
        return (jnp.concatenate([jnp.ones(1, jnp.bool_), ids[1:] != ids[:-1]]),)

    return build


@functools.cache
def offsets(n: int, count: int) -> Build:
    """Offsets of the same segments: count + 1 of them."""

    def build() -> tuple[jax.Array]:
        ids = lax.sort(_ids(n, count))
        return (jnp.searchsorted(ids, jnp.arange(count + 1, dtype=jnp.int32)),)

    return build
