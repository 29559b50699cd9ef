"""What JAX itself offers beside reductions, conversions, pack and split.

Each is a plain function of arrays, as in `benchmarks.operations`; where it says what the answer is,
results are compared with it too.
"""

from __future__ import annotations

import functools

import jax
import jax.numpy as jnp
from jax import lax

from benchmarks.operations import Operation, latest


@functools.cache
def segment_sum(count: int) -> Operation:
    """jax.ops.segment_sum of sorted ids; half precision is accumulated in float32."""

    def run(x: jax.Array, ids: jax.Array) -> jax.Array:
        wide = x.astype(jnp.float32)
        return jax.ops.segment_sum(wide, ids, count, indices_are_sorted=True).astype(x.dtype)

    return run


@functools.cache
def segment_max(count: int) -> Operation:
    """jax.ops.segment_max of sorted ids."""
    return lambda x, ids: jax.ops.segment_max(x, ids, count, indices_are_sorted=True)


@functools.cache
def segment_sum_by_flags(count: int) -> Operation:
    """jax.ops.segment_sum by counted head flags."""
    return lambda x, flags: segment_sum(count)(x, flags_to_ids(flags))


@functools.cache
def segment_sum_by_runs(count: int) -> Operation:
    """jax.ops.segment_sum by counted changes of the ids."""
    return lambda x, ids: segment_sum(count)(x, runs_to_ids(ids))


def segment_sum_by_offsets(x: jax.Array, offsets: jax.Array) -> jax.Array:
    """jax.ops.segment_sum by ids that are repeated."""
    result: jax.Array = segment_sum(offsets.size - 1)(x, offsets_to_ids(x.size)(offsets))
    return result


def whole_sum(x: jax.Array) -> jax.Array:
    """jnp.sum."""
    return jnp.sum(x)


def whole_max(x: jax.Array) -> jax.Array:
    """jnp.max."""
    return jnp.max(x)


def sum_of_bits(x: jax.Array) -> jax.Array:
    """jnp.sum of the same 32-bit words as integers."""
    return jnp.sum(lax.bitcast_convert_type(x, jnp.int32))


def max_of_bits(x: jax.Array) -> jax.Array:
    """jnp.max of the same 32-bit words as integers, which has no NaN to look for."""
    return jnp.max(lax.bitcast_convert_type(x, jnp.int32))


def last_of_scan(x: jax.Array) -> jax.Array:
    """The last result of lax.associative_scan."""
    result: jax.Array = lax.associative_scan(latest, x)[-1]
    return result


def enumerate_mask(mask: jax.Array) -> jax.Array:
    """jnp.cumsum less the element itself."""
    marks = mask.astype(jnp.int32)
    return jnp.cumsum(marks) - marks


@functools.cache
def compress(size: int) -> Operation:
    """jnp.compress of static size."""
    return lambda x, mask: jnp.compress(mask, x, size=size)


def split(x: jax.Array, mask: jax.Array) -> jax.Array:
    """In the order of a stable jnp.argsort of the mask."""
    return x[jnp.argsort(mask, stable=True)]


def split_and_segment(
    x: jax.Array, mask: jax.Array, flags: jax.Array
) -> tuple[jax.Array, jax.Array]:
    """In the order of a stable jnp.argsort by segment and mask."""
    parts = 2 * flags_to_ids(flags) + mask
    order = jnp.argsort(parts, stable=True)
    return x[order], _changes(parts[order])


def flags_to_ids(flags: jax.Array) -> jax.Array:
    """jnp.cumsum of the flags."""
    return jnp.cumsum(flags.at[0].set(True), dtype=jnp.int32) - 1


def runs_to_ids(ids: jax.Array) -> jax.Array:
    """jnp.cumsum of where ids change."""
    return flags_to_ids(_changes(ids))


def _changes(x: jax.Array) -> jax.Array:
    return jnp.concatenate([jnp.ones(1, jnp.bool_), x[1:] != x[:-1]])


@functools.cache
def flags_to_offsets(count: int) -> Operation:
    """jnp.nonzero of static size."""
    return lambda flags: jnp.nonzero(flags, size=count + 1, fill_value=flags.size)[0]


@functools.cache
def offsets_to_ids(n: int) -> Operation:
    """jnp.repeat of every segment's number."""

    def run(offsets: jax.Array) -> jax.Array:
        segments = jnp.arange(offsets.size - 1, dtype=jnp.int32)
        return jnp.repeat(segments, jnp.diff(offsets), total_repeat_length=n)

    return run


@functools.cache
def offsets_to_flags(n: int) -> Operation:
    """A scatter."""
    return lambda offsets: jnp.zeros(n, jnp.bool_).at[offsets[:-1]].set(True, mode="drop")
