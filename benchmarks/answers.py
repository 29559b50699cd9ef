"""What the answers should be, computed another way, and how far a result is from them.

Every check takes the result and the operands and returns one number: how many elements differ
where the arithmetic is exact, the worst error elsewhere. NaN anywhere makes it fail.
"""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
from jax import lax


@dataclasses.dataclass(frozen=True)
class Check:
    """A check, the largest value it may return, and what that value is."""

    error: Callable[..., jax.Array]
    bound: float = 0.0
    measures: str = "elements that differ"
    x64: bool = False


def _differing(result: jax.Array, wanted: jax.Array) -> jax.Array:
    return jnp.sum(result != wanted, dtype=jnp.int32)


def _in_dtype(x: jax.Array, dtype: jax.typing.DTypeLike) -> jax.Array:
    """Whole numbers rounded once, from float32, or wrapped, as jscan documents."""
    if jnp.issubdtype(dtype, jnp.floating) and x.dtype == jnp.int32:
        return x.astype(jnp.float32).astype(dtype)
    return x.astype(dtype)


@functools.cache
def sum_of_integers(
    axis: int = 0, reverse: bool = False, exclusive: bool = False, x64: bool = False
) -> Check:
    """Against an integer lax.cumsum."""

    def error(result: jax.Array, x: jax.Array) -> jax.Array:
        whole = x.astype(jnp.int64 if x64 else jnp.int32)
        wanted = lax.cumsum(whole, axis, reverse)
        return _differing(result, _in_dtype(wanted - whole if exclusive else wanted, result.dtype))

    return Check(error, x64=x64)


def _maximum(result: jax.Array, x: jax.Array) -> jax.Array:
    return _differing(result, lax.cummax(x.astype(jnp.int32)).astype(result.dtype))


def _log_sum_exp(result: jax.Array, x: jax.Array) -> jax.Array:
    wanted = jnp.log(lax.cumsum(jnp.exp(x.astype(jnp.float64))))
    return jnp.max(jnp.abs(result - wanted))


def _exclusive_or(result: jax.Array, x: jax.Array) -> jax.Array:
    return _differing(result, lax.associative_scan(lax.bitwise_xor, x))


def _segmented_sum(result: jax.Array, x: jax.Array, heads: jax.Array) -> jax.Array:
    """The sum up to each element less the sum before its segment's head."""
    is_head = jnp.broadcast_to(heads != 0, x.shape)
    is_head = is_head.at[..., 0].set(True).reshape(-1)
    whole = x.astype(jnp.int32).reshape(-1)
    sums = lax.cumsum(whole)
    head = lax.cummax(jnp.where(is_head, jnp.arange(whole.size, dtype=jnp.int32), 0))
    wanted = sums - (sums - whole)[head]
    return _differing(result.reshape(-1), wanted.astype(result.dtype))


def _recurrence(result: jax.Array, slopes: jax.Array, offsets: jax.Array) -> jax.Array:
    """With slopes of -1 and 1 and s their running product, h = s · cumsum(s · b)."""
    negative = lax.cumsum((slopes < 0).astype(jnp.int32))
    product = 1 - 2 * (negative & 1)
    wanted = product * lax.cumsum(product * offsets.astype(jnp.int32))
    return _differing(result, wanted.astype(result.dtype))


def _moments(result: tuple[jax.Array, ...], _: jax.Array, x: jax.Array, __: jax.Array) -> jax.Array:
    """Textbook moments in float64 from exact sums of x and of x squared."""
    count, mean, squares = (leaf.astype(jnp.float64) for leaf in result)
    whole = x.astype(jnp.int32)
    n = jnp.arange(1, whole.size + 1, dtype=jnp.float64)
    first, second = (lax.cumsum(v).astype(jnp.float64) for v in (whole, whole * whole))
    wanted = second - first * first / n
    errors = (
        jnp.abs(count - n) / n,
        jnp.abs(mean - first / n),
        jnp.abs(squares - wanted) / jnp.maximum(wanted, 1.0),
    )
    return jnp.max(jnp.stack([jnp.max(e) for e in errors]))


@functools.cache
def same_as(reference: Callable[..., Any]) -> Check:
    """Against another way to compute all of it."""

    def error(result: Any, *operands: jax.Array) -> jax.Array:
        wanted = reference(*operands)
        return jnp.sum(jnp.stack(jax.tree.leaves(jax.tree.map(_differing, result, wanted))))

    return Check(error)


def _differences(result: jax.Array, x: jax.Array, bounds: jax.Array) -> jax.Array:
    """Each segment's sum as that up to its end less that up to its beginning."""
    sums = lax.cumsum(x.astype(jnp.int32))
    sums = jnp.concatenate([jnp.zeros_like(sums[:1]), sums])
    return _differing(result, _in_dtype(sums[bounds[1:]] - sums[bounds[:-1]], result.dtype))


def _sums_by_ids(result: jax.Array, x: jax.Array, ids: jax.Array) -> jax.Array:
    bounds = jnp.searchsorted(ids, jnp.arange(result.shape[0] + 1, dtype=ids.dtype))
    return _differences(result, x, bounds)


def _sums_by_flags(result: jax.Array, x: jax.Array, flags: jax.Array) -> jax.Array:
    ids = lax.cumsum(flags.at[0].set(True).astype(jnp.int32)) - 1
    return _sums_by_ids(result, x, ids)


def _sums_by_runs(result: jax.Array, x: jax.Array, ids: jax.Array) -> jax.Array:
    changes = jnp.concatenate([jnp.ones(1, jnp.bool_), ids[1:] != ids[:-1]])
    return _sums_by_flags(result, x, changes)


def _sums_by_unsorted_ids(result: jax.Array, x: jax.Array, ids: jax.Array) -> jax.Array:
    ids, x = lax.sort((ids, x), num_keys=1)
    return _sums_by_ids(result, x, ids)


def _whole_sum(result: jax.Array, x: jax.Array) -> jax.Array:
    return _differing(result, _in_dtype(jnp.sum(x.astype(jnp.int32)), result.dtype))


def _last_write(result: jax.Array, x: jax.Array) -> jax.Array:
    last = jnp.max(jnp.where(x != 0, jnp.arange(x.size, dtype=jnp.int32), -1))
    return _differing(result, x[last])


maximum = Check(_maximum)
log_sum_exp = Check(_log_sum_exp, 1e-4, "worst absolute error", x64=True)
exclusive_or = Check(_exclusive_or)
segmented_sum = Check(_segmented_sum)
recurrence = Check(_recurrence)
moments = Check(_moments, 1e-3, "worst relative error of count, mean and deviation", x64=True)
sums_by_ids = Check(_sums_by_ids)
sums_by_flags = Check(_sums_by_flags)
sums_by_runs = Check(_sums_by_runs)
sums_by_offsets = Check(_differences)
sums_by_unsorted_ids = Check(_sums_by_unsorted_ids)
whole_sum = Check(_whole_sum)
last_write = Check(_last_write)
