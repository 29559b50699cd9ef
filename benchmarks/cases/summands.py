"""Inputs of sums that are hard to round, made on the device, and whose exact sums are known.

Elements of an input are multiples of a power of two, its ``quantum``, and their sizes add up to
less than 2^53 quanta for every length measured here. Every partial sum is then a float64 number: a
float64 scan of any kind, in any order, is exact.

float16 ends at 65504 and its least number is 2^-24. There an input is multiplied by a power of two
that keeps its running sums below 2^15, and rounded, to multiples of 2^-24. bfloat16 has float32's
range and takes inputs as they are, rounded to its eight bits.
"""

from __future__ import annotations

import dataclasses
import functools
import math
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp

from benchmarks.cases.case import Build

BINADES = 26


@dataclasses.dataclass(frozen=True)
class Summands:
    """One input.

    Attributes:
      name: of the input.
      build: float32 elements, by their number.
      quantum: of which all elements are multiples, before float16 rounds them.
      largest: what no running sum exceeds in size, by the number of elements.
      rises: whether no element is negative, so that sums never fall.
    """

    name: str
    build: Callable[[int], jax.Array]
    quantum: float
    largest: Callable[[int], float]
    rises: bool = True

    def quantum_of(self, dtype: Any) -> float:
        """The same after rounding to a dtype."""
        return 2.0**-24 if dtype == jnp.float16 else self.quantum

    def scale(self, n: int, dtype: Any) -> float:
        """By what elements are multiplied before they are rounded to a dtype."""
        if dtype != jnp.float16:
            return 1.0
        return 2.0 ** min(0, 15 - math.ceil(math.log2(self.largest(n))))


def _uniform(n: int) -> jax.Array:
    return jax.random.uniform(jax.random.key(0), (n,), jnp.float32)


def _normal(n: int) -> jax.Array:
    return jnp.round(jax.random.normal(jax.random.key(1), (n,), jnp.float32) * 2.0**22) * 2.0**-22


def _large_then_ones(n: int) -> jax.Array:
    return jnp.ones(n, jnp.float32).at[0].set(2.0**24)


def _pairs(n: int) -> jax.Array:
    """2^k, a small one, -2^k, a small one, where k runs from 4 to 11 over and over."""
    place = jnp.arange(n, dtype=jnp.int32)
    large = (jnp.int32(16) << (place // 4 % 8)).astype(jnp.float32)
    small = jax.random.uniform(jax.random.key(2), (n,), jnp.float32)
    small = jnp.round(small * 2.0**16) * 2.0**-16
    return jnp.where(place % 2 == 1, small, jnp.where(place % 4 == 0, large, -large))


def _ascending(n: int) -> jax.Array:
    place = jnp.arange(n, dtype=jnp.int32).astype(jnp.float32)
    return jnp.floor(jnp.exp2(place * (BINADES / n))) * 2.0**-BINADES


INPUTS = (
    Summands("uniform in [0, 1)", _uniform, 2.0**-23, float),
    Summands("normal", _normal, 2.0**-22, lambda n: 8 * math.sqrt(n), rises=False),
    Summands("all 1", lambda n: jnp.ones(n, jnp.float32), 1.0, float),
    Summands("all 0.1", lambda n: jnp.full(n, 0.1, jnp.float32), 2.0**-27, lambda n: n / 8),
    Summands("2^24, then 1", _large_then_ones, 1.0, lambda n: 2**24 + n),
    Summands("±2^k that cancel", _pairs, 2.0**-16, lambda n: n / 2 + 2**11, rises=False),
    Summands("ascending", _ascending, 2.0**-BINADES, lambda n: n / 16),
    Summands("descending", lambda n: _ascending(n)[::-1], 2.0**-BINADES, lambda n: n / 16),
)
"""`ascending` and `descending` run evenly over 26 binades, from 2^-26 to 1 or back."""


@functools.cache
def builder(n: int, dtype: Any) -> Build:
    """All inputs of a length, in the order of `INPUTS`."""

    def build() -> tuple[jax.Array, ...]:
        return tuple((each.build(n) * each.scale(n, dtype)).astype(dtype) for each in INPUTS)

    return build
