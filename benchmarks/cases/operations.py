"""The operations that are measured: calls of jscan, and the same in jax.lax, jax.ops and jax.numpy.

Those that are one call of a public function stand in the suites as they are. Functions that take
more than arrays take it first, or by its name, for `benchmarks.cases.case.call`.
"""

from __future__ import annotations

import functools
from typing import Any

import jax
import jax.numpy as jnp
from jax import lax

import jscan
from benchmarks.cases.case import Operation
from jscan import Segments
from jscan.operators import add, affine

Leaves = tuple[Any, ...]


def scan(operator: Operation, *leaves: jax.Array, **how: Any) -> Any:
    """The scan of one leaf, or of a tuple of leaves."""
    return jscan.associative_scan(operator, leaves if len(leaves) > 1 else leaves[0], **how)


def scan_from(operator: Operation, x: jax.Array, first: jax.Array) -> Any:
    """The scan of one leaf behind an element that is no part of it."""
    return jscan.associative_scan(operator, x, init=first)


def segmented_sum(x: jax.Array, heads: jax.Array | Segments, **how: Any) -> jax.Array:
    """Cumulative sum that starts anew at every head."""
    return jscan.cumsum(x, segments=heads, **how)


def positions(heads: jax.Array) -> jax.Array:
    """The place of each element in its sequence, of rows into which these are packed, from 1."""

    def of_row(heads: jax.Array) -> jax.Array:
        return jscan.cumsum(jnp.ones(heads.shape, jnp.int32), segments=heads)

    return jax.vmap(of_row)(heads)


def sum_by_bits(x: jax.Array, words: jax.Array, **how: Any) -> jax.Array:
    """The same by heads of a bit each."""
    return segmented_sum(x, Segments.from_packed(words, x.shape[0]), **how)


def sum_by_unpacked_bits(x: jax.Array, words: jax.Array, **how: Any) -> jax.Array:
    """The same by heads that are unpacked first."""
    return segmented_sum(x, Segments.from_packed(words, x.shape[0]).flags, **how)


def sum_by_ids(x: jax.Array, ids: jax.Array, axis: int = 0) -> jax.Array:
    """The same by ids, of which a segment has one."""
    return segmented_sum(x, Segments.from_ids(ids), axis=axis)


def sum_by_changes(x: jax.Array, ids: jax.Array, axis: int = 0) -> jax.Array:
    """The same by flags that XLA finds in the ids."""
    begins = jnp.pad(ids[..., 1:] != ids[..., :-1], [(0, 0)] * (ids.ndim - 1) + [(1, 0)])
    return segmented_sum(x, Segments.from_flags(begins), axis=axis)


def sum_by_offsets(x: jax.Array, offsets: jax.Array) -> jax.Array:
    """The same by where segments begin."""
    return segmented_sum(x, Segments.from_offsets(offsets, total=x.shape[0]))


def sum_by_scattered_offsets(x: jax.Array, offsets: jax.Array) -> jax.Array:
    """The same by heads that are scattered into bytes first."""
    return segmented_sum(x, jnp_offsets_to_flags(x.shape[0], offsets))


def recurrence(a: jax.Array, b: jax.Array, heads: jax.Array | None = None, **how: Any) -> Any:
    """h[t] = a[t] h[t-1] + b[t]: the affine operator, of whose two results one is used."""
    return jscan.associative_scan(affine, (a, b), segments=heads, **how)[1]


def with_gradient(run: Operation, *operands: jax.Array) -> Leaves:
    """The result, and from a cotangent, which is the last operand, those of all other operands."""
    *primals, cotangent = operands
    result, back = jax.vjp(run, *primals)
    return result, *back(cotangent)


def segmented_cumprod_with_gradient(x: jax.Array, heads: jax.Array, cotangent: jax.Array) -> Leaves:
    """Cumulative product that starts anew at every head, and its gradient."""
    return with_gradient(lambda factors: jscan.cumprod(factors, segments=heads), x, cotangent)


def gradient_of_cumsum(cotangent: jax.Array) -> Any:
    """What a cotangent of a cumulative sum's result is at its operand."""
    _, back = jax.vjp(jscan.cumsum, cotangent)
    return back(cotangent)[0]


def along_rows(run: Operation, heads_axis: int | None, x: jax.Array, heads: jax.Array) -> Any:
    """The operation on every row, each with its own heads, or all with the same ones (None)."""
    return jax.vmap(run, in_axes=(0, heads_axis))(x, heads)


def join_moments(a: Leaves, b: Leaves) -> Leaves:
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


def multiply_matrices(a: Leaves, b: Leaves) -> Leaves:
    """The product of two by two matrices, row after row: an operator that does not commute."""
    return (
        a[0] * b[0] + a[1] * b[2],
        a[0] * b[1] + a[1] * b[3],
        a[2] * b[0] + a[3] * b[2],
        a[2] * b[1] + a[3] * b[3],
    )


def latest(a: Any, b: Any) -> Any:
    """The later one, unless it is 0; the operator does not commute."""
    return jnp.where(b != 0, b, a)


def lax_cumsum(x: jax.Array, axis: int = 0, reverse: bool = False) -> jax.Array:
    """lax.cumsum; half precision is accumulated in float32, as jscan does."""
    if jnp.issubdtype(x.dtype, jnp.floating) and x.dtype.itemsize < 4:
        return lax.cumsum(x.astype(jnp.float32), axis, reverse).astype(x.dtype)
    return lax.cumsum(x, axis, reverse)


def lax_scan(operator: Operation, *leaves: jax.Array, reverse: bool = False) -> Any:
    """lax.associative_scan of one leaf, or of a tuple of leaves."""
    return lax.associative_scan(operator, leaves if len(leaves) > 1 else leaves[0], reverse)


def _join_flagged(a: Leaves, b: Leaves) -> Leaves:
    (head_a, x), (head_b, y) = a, b
    return head_a | head_b, jnp.where(head_b, y, x + y)


def lax_segmented_sum(x: jax.Array, heads: jax.Array) -> jax.Array:
    """lax.associative_scan with the flag-value operator."""
    result: jax.Array = lax.associative_scan(_join_flagged, (heads != 0, x))[1]
    return result


def join_affine(a: Leaves, b: Leaves) -> Leaves:
    """The affine operator on (slope, offset)."""
    return b[0] * a[0], b[0] * a[1] + b[1]


def lax_recurrence(a: jax.Array, b: jax.Array) -> jax.Array:
    """lax.associative_scan with the affine operator."""
    result: jax.Array = lax.associative_scan(join_affine, (a, b))[1]
    return result


def lax_recurrence_of_rows(a: jax.Array, b: jax.Array) -> jax.Array:
    """The same along the rows of a batch, which share their slopes, as S5 has it."""
    result: jax.Array = jax.vmap(functools.partial(lax_recurrence, a[0]))(b)
    return result


def join_systems(a: Leaves, b: Leaves) -> Leaves:
    """The affine operator on (matrix, vector)."""
    return b[0] @ a[0], (b[0] @ a[1][..., None])[..., 0] + b[1]


def lax_matrix_recurrence(matrices: jax.Array, terms: jax.Array) -> jax.Array:
    """lax.associative_scan with it."""
    result: jax.Array = lax.associative_scan(join_systems, (matrices, terms))[1]
    return result


def last_of_scan(x: jax.Array) -> jax.Array:
    """The last result of lax.associative_scan."""
    result: jax.Array = lax.associative_scan(latest, x)[-1]
    return result


def segment_sum(count: int, x: jax.Array, ids: jax.Array, **how: Any) -> jax.Array:
    """Sums of ``count`` segments by sorted ids."""
    return jscan.segment_sum(x, ids, count, indices_are_sorted=True, **how)


def segment_max(count: int, x: jax.Array, ids: jax.Array) -> jax.Array:
    """Maxima of ``count`` segments by sorted ids."""
    return jscan.segment_max(x, ids, count, indices_are_sorted=True)


def unsorted_segment_sum(count: int, x: jax.Array, ids: jax.Array) -> jax.Array:
    """Sums of ``count`` segments by ids in any order."""
    return jscan.segment_sum(x, ids, count)


def sort_then_segment_sum(count: int, x: jax.Array, ids: jax.Array) -> jax.Array:
    """The same with elements brought into the order of their ids."""
    order = jnp.argsort(ids)
    return segment_sum(count, x[order], ids[order])


def reduce_by_flags(count: int, x: jax.Array, flags: jax.Array) -> Any:
    """Sums of ``count`` segments by head flags."""
    return jscan.reduce(add, x, segments=flags, num_segments=count)


def reduce_by_runs(count: int, x: jax.Array, ids: jax.Array) -> Any:
    """Sums of ``count`` runs of equal ids."""
    return jscan.reduce(add, x, segments=Segments.from_ids(ids), num_segments=count)


def reduce_by_offsets(x: jax.Array, offsets: jax.Array) -> Any:
    """Sums of the segments between offsets."""
    return jscan.reduce(add, x, segments=Segments.from_offsets(offsets, total=x.shape[0]))


def split_and_segment(x: jax.Array, mask: jax.Array, flags: jax.Array) -> tuple[Any, jax.Array]:
    """Each segment split, and the head flags of its parts."""
    result, parts = jscan.split_and_segment(x, mask, flags)
    return result, parts.flags


def histogram(length: int, keys: jax.Array) -> jax.Array:
    """How often there is each key below a length."""
    return jscan.histogram(keys, length)


def flags_to_ids(flags: jax.Array) -> jax.Array:
    """Segment numbers from head flags."""
    return Segments.from_flags(flags).ids


def runs_to_ids(ids: jax.Array) -> jax.Array:
    """Segment numbers from ids that change where segments do."""
    return Segments.from_ids(ids).ids


def flags_to_offsets(count: int, flags: jax.Array) -> jax.Array:
    """Offsets of ``count`` segments from head flags."""
    return Segments.from_flags(flags).offsets(count)


def offsets_to_ids(n: int, offsets: jax.Array) -> jax.Array:
    """Segment numbers from offsets."""
    return Segments.from_offsets(offsets, total=n).ids


def offsets_to_flags(n: int, offsets: jax.Array) -> jax.Array:
    """Head flags from offsets."""
    return Segments.from_offsets(offsets, total=n).flags


def ops_segment_sum(count: int, x: jax.Array, ids: jax.Array) -> jax.Array:
    """jax.ops.segment_sum of sorted ids; half precision is accumulated in float32."""
    wide = x.astype(jnp.float32)
    return jax.ops.segment_sum(wide, ids, count, indices_are_sorted=True).astype(x.dtype)


def ops_segment_max(count: int, x: jax.Array, ids: jax.Array) -> jax.Array:
    """jax.ops.segment_max of sorted ids."""
    return jax.ops.segment_max(x, ids, count, indices_are_sorted=True)


def ops_sum_by_flags(count: int, x: jax.Array, flags: jax.Array) -> jax.Array:
    """jax.ops.segment_sum by counted head flags."""
    return ops_segment_sum(count, x, jnp_flags_to_ids(flags))


def ops_sum_by_runs(count: int, x: jax.Array, ids: jax.Array) -> jax.Array:
    """jax.ops.segment_sum by counted changes of the ids."""
    return ops_segment_sum(count, x, jnp_runs_to_ids(ids))


def ops_sum_by_offsets(x: jax.Array, offsets: jax.Array) -> jax.Array:
    """jax.ops.segment_sum by ids that are repeated."""
    return ops_segment_sum(offsets.size - 1, x, jnp_offsets_to_ids(x.size, offsets))


def of_bits(reduce: Operation, x: jax.Array) -> Any:
    """A reduction of the same 32-bit words as integers, which have no NaN to look for."""
    return reduce(lax.bitcast_convert_type(x, jnp.int32))


def jnp_enumerate(mask: jax.Array) -> jax.Array:
    """How many true elements come before each, by jnp.cumsum."""
    marks = mask.astype(jnp.int32)
    return jnp.cumsum(marks) - marks


def jnp_pack(size: int, x: jax.Array, mask: jax.Array) -> jax.Array:
    """The elements where a mask is true, by jnp.compress."""
    return jnp.compress(mask, x, size=size)


def jnp_split(x: jax.Array, mask: jax.Array) -> jax.Array:
    """The elements in the order of a stable jnp.argsort of the mask."""
    return x[jnp.argsort(mask, stable=True)]


def jnp_split_and_segment(
    x: jax.Array, mask: jax.Array, flags: jax.Array
) -> tuple[jax.Array, jax.Array]:
    """The elements in the order of a stable jnp.argsort by segment and mask."""
    parts = 2 * jnp_flags_to_ids(flags) + mask
    order = jnp.argsort(parts, stable=True)
    return x[order], changes(parts[order])


def jnp_flags_to_ids(flags: jax.Array) -> jax.Array:
    """Segment numbers by jnp.cumsum of the flags."""
    return jnp.cumsum(flags.at[0].set(True), dtype=jnp.int32) - 1


def jnp_runs_to_ids(ids: jax.Array) -> jax.Array:
    """Segment numbers by jnp.cumsum of where ids change."""
    return jnp_flags_to_ids(changes(ids))


def changes(x: jax.Array) -> jax.Array:
    """Whether each element differs from the one before it; the first does."""
    return jnp.concatenate([jnp.ones(1, jnp.bool_), x[1:] != x[:-1]])


def jnp_flags_to_offsets(count: int, flags: jax.Array) -> jax.Array:
    """Offsets by jnp.nonzero of static size."""
    return jnp.nonzero(flags, size=count + 1, fill_value=flags.size)[0]


def jnp_offsets_to_ids(n: int, offsets: jax.Array) -> jax.Array:
    """Segment numbers by jnp.repeat of each."""
    segments = jnp.arange(offsets.size - 1, dtype=jnp.int32)
    return jnp.repeat(segments, jnp.diff(offsets), total_repeat_length=n)


def jnp_offsets_to_flags(n: int, offsets: jax.Array) -> jax.Array:
    """Head flags scattered to where offsets say."""
    return jnp.zeros(n, jnp.bool_).at[offsets[:-1]].set(True, mode="drop")
