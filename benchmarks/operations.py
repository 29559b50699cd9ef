"""The operations that are measured: calls of jscan, and the same in jax.lax.

Each is a plain function of arrays, so that it can be jitted, lowered and compared under one name.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
from jax import lax

import jscan

Operation = Callable[..., Any]


@functools.cache
def cumsum(axis: int = 0, reverse: bool = False, exclusive: bool = False) -> Operation:
    """A cumulative sum along one axis, in one direction."""
    return lambda x: jscan.cumsum(x, axis, reverse, exclusive=exclusive)


def cummax(x: jax.Array) -> jax.Array:
    """Cumulative maximum."""
    return jscan.cummax(x)


def cumlogsumexp(x: jax.Array) -> jax.Array:
    """Cumulative log-sum-exp."""
    return jscan.cumlogsumexp(x)


def cumxor(x: jax.Array) -> jax.Array:
    """Cumulative exclusive or."""
    result: jax.Array = jscan.associative_scan(jscan.operators.bitwise_xor, x)
    return result


def segmented_sum(x: jax.Array, heads: jax.Array) -> jax.Array:
    """Cumulative sum that starts anew at every head."""
    return jscan.cumsum(x, segments=heads)


def rows_with_heads(x: jax.Array, heads: jax.Array) -> jax.Array:
    """Segmented sum of every row, each with its own heads."""
    return jax.vmap(segmented_sum)(x, heads)


def rows_with_shared_heads(x: jax.Array, heads: jax.Array) -> jax.Array:
    """Segmented sum of every row, all with the same heads."""
    return jax.vmap(segmented_sum, in_axes=(0, None))(x, heads)


def recurrence(a: jax.Array, b: jax.Array) -> jax.Array:
    """h[t] = a[t] h[t-1] + b[t]: the affine operator, of whose two results one is used."""
    result: jax.Array = jscan.associative_scan(jscan.operators.affine, (a, b))[1]
    return result


def linear_recurrence(a: jax.Array, b: jax.Array) -> jax.Array:
    """h[t] = a[t] h[t-1] + b[t] along the first axis."""
    return jscan.linear_recurrence(a, b)


@functools.cache
def linear_recurrence_along(axis: int) -> Operation:
    """The same along another axis."""
    return lambda a, b: jscan.linear_recurrence(a, b, axis=axis)


def cumprod(x: jax.Array) -> jax.Array:
    """Cumulative product."""
    return jscan.cumprod(x)


@functools.cache
def with_gradient(run: Operation) -> Operation:
    """The result, and from a cotangent, which is the last operand, those of all other operands."""

    def both(*operands: jax.Array) -> tuple[Any, ...]:
        *primals, cotangent = operands
        result, back = jax.vjp(run, *primals)
        return result, *back(cotangent)

    return both


def segmented_cumprod_with_gradient(
    x: jax.Array, heads: jax.Array, cotangent: jax.Array
) -> tuple[Any, ...]:
    """Cumulative product that starts anew at every head, and its gradient."""
    result, back = jax.vjp(lambda factors: jscan.cumprod(factors, segments=heads), x)
    return result, *back(cotangent)


def gradient_of_cumsum(cotangent: jax.Array) -> Any:
    """What a cotangent of a cumulative sum's result is at its operand."""
    _, back = jax.vjp(jscan.cumsum, cotangent)
    return back(cotangent)[0]


def join_moments(a: tuple[Any, Any, Any], b: tuple[Any, Any, Any]) -> tuple[Any, Any, Any]:
    """Welford's operator on (count, mean, sum of squared deviations), for NumPy and JAX."""
    (count_a, mean_a, squares_a), (count_b, mean_b, squares_b) = a, b
    count = count_a + count_b
    difference = mean_b - mean_a
    share = count_b / count
    return (
        count,
        mean_a + difference * share,
        squares_a + squares_b + difference * difference * count_a * share,
    )


def running_moments(*leaves: jax.Array) -> tuple[jax.Array, ...]:
    """Count, mean and sum of squared deviations of everything up to each element."""
    result: tuple[jax.Array, ...] = jscan.associative_scan(join_moments, leaves)
    return result


@functools.cache
def lax_cumsum(axis: int = 0, reverse: bool = False) -> Operation:
    """lax.cumsum; half precision is accumulated in float32, as jscan does."""

    def run(x: jax.Array) -> jax.Array:
        if jnp.issubdtype(x.dtype, jnp.floating) and x.dtype.itemsize < 4:
            return lax.cumsum(x.astype(jnp.float32), axis, reverse).astype(x.dtype)
        return lax.cumsum(x, axis, reverse)

    return run


def lax_cummax(x: jax.Array) -> jax.Array:
    """lax.cummax."""
    return lax.cummax(x)


def lax_cumprod(x: jax.Array) -> jax.Array:
    """lax.cumprod."""
    return lax.cumprod(x)


def lax_cumlogsumexp(x: jax.Array) -> jax.Array:
    """lax.cumlogsumexp."""
    return lax.cumlogsumexp(x)


@functools.cache
def lax_scan(operator: Callable[[Any, Any], Any], reverse: bool = False) -> Operation:
    """lax.associative_scan with an operator on one leaf."""
    return lambda x: lax.associative_scan(operator, x, reverse)


@functools.cache
def lax_scan_leaves(operator: Callable[[Any, Any], Any]) -> Operation:
    """lax.associative_scan of a tuple of leaves."""
    return lambda *leaves: lax.associative_scan(operator, leaves)


def lax_scan_logaddexp(x: jax.Array) -> jax.Array:
    """lax.associative_scan with logaddexp."""
    result: jax.Array = lax.associative_scan(jnp.logaddexp, x)
    return result


def _join_flagged(a: tuple[Any, Any], b: tuple[Any, Any]) -> tuple[Any, Any]:
    (head_a, x), (head_b, y) = a, b
    return head_a | head_b, jnp.where(head_b, y, x + y)


def lax_segmented_sum(x: jax.Array, heads: jax.Array) -> jax.Array:
    """lax.associative_scan with the flag-value operator."""
    result: jax.Array = lax.associative_scan(_join_flagged, (heads != 0, x))[1]
    return result


def lax_rows_with_heads(x: jax.Array, heads: jax.Array) -> jax.Array:
    """lax.associative_scan with the flag-value operator along every row."""
    return jax.vmap(lax_segmented_sum)(x, heads)


def lax_rows_with_shared_heads(x: jax.Array, heads: jax.Array) -> jax.Array:
    """lax.associative_scan with the flag-value operator along every row, heads shared."""
    return jax.vmap(lax_segmented_sum, in_axes=(0, None))(x, heads)


def _join_affine(a: tuple[Any, Any], b: tuple[Any, Any]) -> tuple[Any, Any]:
    return b[0] * a[0], b[0] * a[1] + b[1]


def lax_recurrence(a: jax.Array, b: jax.Array) -> jax.Array:
    """lax.associative_scan with the affine operator."""
    result: jax.Array = lax.associative_scan(_join_affine, (a, b))[1]
    return result


def lax_running_moments(*leaves: jax.Array) -> tuple[jax.Array, ...]:
    """lax.associative_scan with Welford's operator."""
    result: tuple[jax.Array, ...] = lax.associative_scan(join_moments, leaves)
    return result


@functools.cache
def segment_sum(count: int) -> Operation:
    """Sums of ``count`` segments by sorted ids."""
    return lambda x, ids: jscan.segment_sum(x, ids, count, indices_are_sorted=True)


@functools.cache
def segment_max(count: int) -> Operation:
    """Maxima of ``count`` segments by sorted ids."""
    return lambda x, ids: jscan.segment_max(x, ids, count, indices_are_sorted=True)


@functools.cache
def unsorted_segment_sum(count: int) -> Operation:
    """Sums of ``count`` segments by ids in any order."""
    return lambda x, ids: jscan.segment_sum(x, ids, count)


@functools.cache
def sort_then_segment_sum(count: int) -> Operation:
    """The same with elements brought into the order of their ids."""

    def run(x: jax.Array, ids: jax.Array) -> jax.Array:
        order = jnp.argsort(ids)
        return jscan.segment_sum(x[order], ids[order], count, indices_are_sorted=True)

    return run


@functools.cache
def reduce_by_flags(count: int) -> Operation:
    """Sums of ``count`` segments by head flags."""

    def run(x: jax.Array, flags: jax.Array) -> Any:
        return jscan.reduce(jscan.operators.add, x, segments=flags, num_segments=count)

    return run


@functools.cache
def reduce_by_runs(count: int) -> Operation:
    """Sums of ``count`` runs of equal ids."""

    def run(x: jax.Array, ids: jax.Array) -> Any:
        segments = jscan.Segments.from_ids(ids)
        return jscan.reduce(jscan.operators.add, x, segments=segments, num_segments=count)

    return run


def reduce_by_offsets(x: jax.Array, offsets: jax.Array) -> Any:
    """Sums of the segments between offsets."""
    segments = jscan.Segments.from_offsets(offsets, total=x.shape[0])
    return jscan.reduce(jscan.operators.add, x, segments=segments)


def total(x: jax.Array) -> Any:
    """The sum of all elements."""
    return jscan.reduce(jscan.operators.add, x)


def latest(a: Any, b: Any) -> Any:
    """The later one, unless it is 0."""
    return jnp.where(b != 0, b, a)


def last_write(x: jax.Array) -> Any:
    """The last element that is not 0; the operator does not commute."""
    return jscan.reduce(latest, x)


def enumerate_mask(mask: jax.Array) -> jax.Array:
    """How many true elements come before each one."""
    return jscan.enumerate(mask)


@functools.cache
def pack(size: int) -> Operation:
    """The elements where a mask is true."""
    return lambda x, mask: jscan.pack(x, mask, size=size)


def split(x: jax.Array, mask: jax.Array) -> Any:
    """The elements where a mask is false, then the others."""
    return jscan.split(x, mask)


def split_and_segment(x: jax.Array, mask: jax.Array, flags: jax.Array) -> tuple[Any, jax.Array]:
    """Each segment split, and the head flags of its parts."""
    result, parts = jscan.split_and_segment(x, mask, flags)
    return result, parts.flags


def flags_to_ids(flags: jax.Array) -> jax.Array:
    """Segment numbers from head flags."""
    return jscan.Segments.from_flags(flags).ids


def runs_to_ids(ids: jax.Array) -> jax.Array:
    """Segment numbers from ids that change where segments do."""
    return jscan.Segments.from_ids(ids).ids


@functools.cache
def flags_to_offsets(count: int) -> Operation:
    """Offsets of ``count`` segments from head flags."""
    return lambda flags: jscan.Segments.from_flags(flags).offsets(count)


@functools.cache
def offsets_to_ids(n: int) -> Operation:
    """Segment numbers from offsets."""
    return lambda offsets: jscan.Segments.from_offsets(offsets, total=n).ids


@functools.cache
def offsets_to_flags(n: int) -> Operation:
    """Head flags from offsets."""
    return lambda offsets: jscan.Segments.from_offsets(offsets, total=n).flags
