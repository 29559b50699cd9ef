"""Operands of drawn calls, made on the device by arithmetic on each element's number.

Where it can be, values are whole numbers whose partial results are exact. A logarithm of sums of
exponentials, and what has a root or an exponential in it, get what has none.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

from benchmarks.cases.case import Build
from jscan import SegmentPlan

Shape = tuple[int, ...]
Arrays = tuple[jax.Array, ...]

LARGEST = {"float16": 2**10, "bfloat16": 2**7}
"""Below what whole numbers are that a narrow float holds all of."""


def noise(salt: int, shape: Shape) -> jax.Array:
    """32 bits for each element, by a mixing function of its number."""
    x = lax.iota(jnp.uint32, math.prod(shape)) + jnp.uint32(salt * 0x9E3779B9 & 0xFFFFFFFF)
    for shift, factor in ((16, 0x7FEB352D), (15, 0x846CA68B)):
        x = (x ^ (x >> shift)) * jnp.uint32(factor)
    return (x ^ (x >> 16)).reshape(shape)


def _below(salt: int, shape: Shape, choices: int) -> jax.Array:
    return (noise(salt, shape) % jnp.uint32(choices)).astype(jnp.int32)


def _unit(salt: int, shape: Shape) -> jax.Array:
    """float32 from 0 to 1."""
    return (noise(salt, shape) >> 8).astype(jnp.float32) * jnp.float32(2**-24)


def _in(dtype: str, x: jax.Array) -> jax.Array:
    return x != 0 if dtype == "bool" else x.astype(dtype)


def signs(salt: int, shape: Shape, dtype: str) -> jax.Array:
    """-1, 0 and 1; 0, 1 and 2 of an unsigned dtype; both parts so of a complex one."""
    first = 0 if dtype.startswith("u") else -1
    x = _below(salt, shape, 3) + first
    if dtype.startswith("complex"):
        y = _below(salt + 1, shape, 3) + first
        return lax.complex(x.astype(jnp.float32), y.astype(jnp.float32)).astype(dtype)
    return _in(dtype, x)


def factors(salt: int, shape: Shape, dtype: str) -> jax.Array:
    """-1 and 1, whose products neither grow nor vanish; odd numbers of an unsigned dtype."""
    x = _below(salt, shape, 2)
    return _in(dtype, 2 * x + 1 if dtype.startswith("u") else 2 * x - 1)


def turns(salt: int, shape: Shape, dtype: str) -> jax.Array:
    """Matrices with a -1 or 1 in each row and column, whose products neither grow nor vanish."""
    size = shape[-1]
    rows, columns = (lax.broadcasted_iota(jnp.int32, shape, len(shape) - d) for d in (2, 1))
    moved = _below(salt, (*shape[:-2], 1, 1), size)
    signed = factors(salt + 1, shape, dtype)
    return jnp.where((rows + moved) % size == columns, signed, jnp.zeros_like(signed))


def quarters(salt: int, shape: Shape, dtype: str) -> jax.Array:
    """Turns by quarters, (c, s)."""
    which = _below(salt, (*shape[:-1], 1), 2)
    signed = factors(salt + 1, shape, dtype)
    own = lax.broadcasted_iota(jnp.int32, shape, len(shape) - 1) == which
    return jnp.where(own, signed, jnp.zeros_like(signed))


def fours(salt: int, shape: Shape, dtype: str) -> jax.Array:
    """-4 and 4: diagonals beside which signs are small, complex ones too."""
    return 4 * factors(salt, shape, dtype)


def numbers(salt: int, shape: Shape, dtype: str) -> jax.Array:
    """Whole numbers: of all bits in integer dtypes, as many as a float holds in others."""
    if dtype == "bool":
        return noise(salt, shape) & 1 == 1
    if "int" in dtype:
        return noise(salt, shape).astype(dtype)
    size = LARGEST.get(dtype, 2**20)
    return (_below(salt, shape, 2 * size) - size).astype(dtype)


def sizes(salt: int, shape: Shape, dtype: str) -> jax.Array:
    """`numbers`, but an integer's least one, whose absolute value is none: 0 would be greater."""
    found = numbers(salt, shape, dtype)
    return jnp.maximum(found, -np.iinfo(dtype).max) if dtype.startswith("int") else found


def exponents(salt: int, shape: Shape, dtype: str) -> jax.Array:
    """-4 to 4, as exponents of what is added up."""
    return (8 * _unit(salt, shape) - 4).astype(dtype)


def slopes(salt: int, shape: Shape, dtype: str) -> jax.Array:
    """0.5 to 1: what a recurrence forgets by."""
    return (0.5 + 0.5 * _unit(salt, shape)).astype(dtype)


def rare(salt: int, shape: Shape, dtype: str) -> jax.Array:
    """0, but for some numbers."""
    there = noise(salt, shape) % jnp.uint32(1000) == 0
    return jnp.where(there, numbers(salt + 1, shape, dtype), jnp.zeros((), dtype))


def minus_fours(salt: int, shape: Shape, dtype: str) -> jax.Array:
    """0 and -4."""
    return _in(dtype, -4 * _below(salt, shape, 2))


def ones(salt: int, shape: Shape, dtype: str) -> jax.Array:
    """1."""
    del salt
    return jnp.ones(shape, dtype)


def zeros(salt: int, shape: Shape, dtype: str) -> jax.Array:
    """0."""
    del salt
    return jnp.zeros(shape, dtype)


def marks(per_million: int, salt: int, shape: Shape, dtype: str) -> jax.Array:
    """True for so many elements of a million, each by chance, and for none where there are 0."""
    if per_million >= 10**6:
        return jnp.ones(shape, dtype)
    bound = jnp.uint32(per_million * 2**32 // 10**6)
    return (noise(salt, shape) < bound).astype(dtype)


def words(per_million: int, salt: int, shape: Shape, dtype: str) -> jax.Array:
    """Words of which each bit is such a mark."""
    each = marks(per_million, salt, (*shape, 32), dtype)
    place = lax.broadcasted_iota(dtype, each.shape, len(shape))
    return jnp.sum(each << place, axis=-1, dtype=dtype)


def late_marks(per_million: int, salt: int, shape: Shape, dtype: str) -> jax.Array:
    """The same, but none among the first half of the elements."""
    size = math.prod(shape)
    late = (lax.iota(jnp.uint32, size) >= jnp.uint32(size // 2)).reshape(shape)
    return jnp.where(late, marks(per_million, salt, shape, dtype), jnp.zeros((), dtype))


def bounds(period: int, length: int, salt: int, shape: Shape, dtype: str) -> jax.Array:
    """Offsets of segments of up to two periods, alike in all rows or lanes; one may be empty."""
    count = count_of(period, length) - 1
    place = jnp.arange(count, dtype=jnp.int32)
    begins = jnp.minimum(place * period + _jitter(place, salt, period), length)
    if count == 1:
        begins = jnp.zeros_like(begins)
    ends = jnp.full(1, length, jnp.int32)
    offsets = jnp.concatenate([jnp.zeros(1, jnp.int32), begins, ends])
    if shape[-1] != offsets.size:  # of lanes, which lie behind
        offsets = offsets[:, None]
    return jnp.broadcast_to(offsets.astype(dtype), shape)


def lengths(period: int, length: int, salt: int, shape: Shape, dtype: str) -> jax.Array:
    """The lengths of the same segments."""
    offsets = bounds(period, length, salt, (shape[-1] + 1,), dtype)
    return jnp.broadcast_to(jnp.diff(offsets), shape)


def ids(period: int, salt: int, shape: Shape, dtype: str) -> jax.Array:
    """The numbers of the same segments along the last axis, alike in all rows."""
    place = lax.broadcasted_iota(jnp.int32, shape, len(shape) - 1)
    if count_of(period, shape[-1]) == 2:
        return jnp.ones(shape, dtype)
    segment = place // period
    inside = _jitter(segment, salt, period)
    return jnp.where(place - segment * period >= inside, segment + 1, segment).astype(dtype)


def unsorted_ids(count: int, salt: int, shape: Shape, dtype: str) -> jax.Array:
    """The numbers of ``count`` segments, each element's by chance."""
    return _below(salt, shape, count).astype(dtype)


def part_of_plan(part: int, count: int, salt: int, shape: Shape, dtype: str) -> jax.Array:
    """One of the arrays of a plan, alike in all rows; those of one count are parts of one plan."""
    del salt
    plan = SegmentPlan(unsorted_ids(count, 5, shape[-1:], dtype), count)
    return jnp.broadcast_to(jax.tree.leaves(plan)[part], shape)


def count_of(period: int, length: int) -> int:
    """How many segments of such a period there are."""
    return -(-length // period) + 1


def _jitter(x: jax.Array, salt: int, period: int) -> jax.Array:
    """A whole number below the period for each number."""
    y = x.astype(jnp.uint32) * jnp.uint32(0x9E3779B1) + jnp.uint32(salt)
    y = (y ^ (y >> 15)) * jnp.uint32(0x846CA68B)
    return ((y ^ (y >> 13)) % jnp.uint32(period)).astype(jnp.int32)


KINDS: Mapping[str, Callable[[int, Shape, str], jax.Array]] = {
    "signs": signs,
    "factors": factors,
    "turns": turns,
    "quarters": quarters,
    "fours": fours,
    "numbers": numbers,
    "sizes": sizes,
    "exponents": exponents,
    "slopes": slopes,
    "rare": rare,
    "minus fours": minus_fours,
    "ones": ones,
    "zeros": zeros,
}


def made(builds: tuple[Build, ...]) -> Arrays:
    """The operands of several builders, each of one array that depends on its place among them."""
    return tuple(_one(build, salt) for salt, build in enumerate(builds))


def _one(build: Any, salt: int) -> jax.Array:
    array: jax.Array = build(16 * salt + 1)
    return array
