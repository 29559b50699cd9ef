"""Functions of the elements of each segment: means, norms, and sums of exponentials."""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp

from jscan import groups, made, operators
from jscan.advice import advised
from jscan.groups import Groups

__all__ = ["segment_logsumexp", "segment_mean", "segment_norm", "segment_softmax"]


@advised
def segment_mean(
    data: Any,
    segment_ids: Any,
    num_segments: int | None = None,
    indices_are_sorted: bool = False,
    *,
    method: str = "auto",
) -> jax.Array:
    """Mean of the elements of each segment.

    ``y[s] = (sum of data[i] over all i with segment_ids[i] == s) / (how many there are)``, and 0
    where there is none.

    Args:
      data: an array ``(n, ...)`` of any dtype. One element, or a scalar, is taken for all ids.
      segment_ids: ``(n,)``, any integer dtype. Elements whose id is negative or not below
        ``num_segments`` are dropped. Or a ``jscan.SegmentPlan``, by which a kernel takes ids in any
        order, or ``jscan.Segments`` of one axis.
      num_segments: how many segments there are, static. Where it is left out it is
        ``max(segment_ids) + 1``, and the ids must be concrete; or it is what a plan or ``Segments``
        know.
      indices_are_sorted: promises that equal ids are neighbours, as for ``jscan.segment_sum``.
      method: as for ``jscan.segment_sum``.

    Returns:
      An array ``(num_segments, ...)`` of the dtype of ``data``, or of JAX's default float for
      integers and booleans, which are added as such. float16 and bfloat16 are added and divided in
      float32 and rounded once at the end.

    Raises:
      TypeError: ``data`` is not of numbers; ``segment_ids`` is not of an integer dtype;
        ``num_segments`` or the promise has another type.
      ValueError: a shape, ``num_segments`` or ``method`` does not fit, or is missing.

    One reduction by segment, of ``data`` and a count; two where ids are in any order, and where
    data have more than one axis, whose elements share their counts.

    Source: Blelloch, *Prefix Sums and Their Applications* (1990).

    Example:
      >>> import jax.numpy as jnp
      >>> import jscan
      >>> data = jnp.array([5.0, 1.0, 2.0, 3.0, 4.0])
      >>> ids = jnp.array([0, 0, 2, 2, 2])
      >>> print(jscan.segment_mean(data, ids, 4, indices_are_sorted=True))
      [3. 0. 3. 0.]
    """
    how = data, segment_ids, num_segments, indices_are_sorted, method, groups.by_segment
    return groups.apply("jscan.segment_mean", _mean, groups.is_number, *how)


def _mean(data: jax.Array, by: Groups) -> jax.Array:
    """The means. float16 and bfloat16 are widened as they are added."""
    is_half = data.dtype in (jnp.float16, jnp.bfloat16)
    x = data if is_half else groups.widened(data)
    if not is_half and data.size == data.shape[0] and by.neighbours(data.ndim) is not None:
        total, count = by.summary("sum and count", x)
    else:  # lanes share a count
        total, count = by.total(operators.add, x, exact=True), by.lengths(data.ndim)
    count = jnp.maximum(count, 1)
    return (total / count.astype(total.dtype)).astype(groups.in_floats(data.dtype))


@advised
def segment_norm(
    data: Any,
    segment_ids: Any,
    num_segments: int | None = None,
    indices_are_sorted: bool = False,
    *,
    method: str = "auto",
) -> jax.Array:
    """Euclidean norm of the elements of each segment.

    ``y[s] = sqrt(sum of |data[i]|^2 over all i with segment_ids[i] == s)``, and 0 where there is
    none. As in ``jnp.linalg.norm``, squares may overflow or vanish where elements do not.

    Arguments and errors are those of ``jscan.segment_mean``.

    Returns:
      An array ``(num_segments, ...)`` of the dtype of ``data``; of its parts where it is complex,
      and of JAX's default float for integers and booleans. float16 and bfloat16 are combined in
      float32 and rounded once at the end.

    One reduction by segment. The derivative is 0 in a segment of zeros.

    Source: Blelloch, *Prefix Sums and Their Applications* (1990).

    Example:
      >>> import jax.numpy as jnp
      >>> import jscan
      >>> data = jnp.array([3.0, 4.0, 1.0, 2.0, 2.0])
      >>> ids = jnp.array([0, 0, 2, 2, 2])
      >>> print(jscan.segment_norm(data, ids, 4, indices_are_sorted=True))
      [5. 0. 3. 0.]
    """
    how = data, segment_ids, num_segments, indices_are_sorted, method, groups.by_segment
    return groups.apply("jscan.segment_norm", _norm, groups.is_number, *how)


def _norm(data: jax.Array, by: Groups) -> jax.Array:
    x = groups.widened(data)
    if jnp.iscomplexobj(x):
        squares = jnp.square(jnp.real(x)) + jnp.square(jnp.imag(x))
        total = by.total(operators.add, squares)
    else:
        [total] = by.summary("squares", x)
    # No derivative may pass through the root of zero.
    is_zero = total == 0
    norm = jnp.where(is_zero, 0, jnp.sqrt(jnp.where(is_zero, 1, total)))
    return norm.astype(jnp.real(jnp.zeros((), groups.in_floats(data.dtype))).dtype)


@advised
def segment_logsumexp(
    data: Any,
    segment_ids: Any,
    num_segments: int | None = None,
    indices_are_sorted: bool = False,
    *,
    method: str = "auto",
) -> jax.Array:
    """Logarithm of the sum of the exponentials of the elements of each segment.

    ``y[s] = log(sum of exp(data[i]) over all i with segment_ids[i] == s)``, and -inf where there is
    none. The largest element of each segment is subtracted first, so that nothing overflows. A
    segment that holds NaN has NaN, else one that holds inf has inf.

    Arguments are those of ``jscan.segment_mean``; ``data`` is real.

    Returns:
      An array ``(num_segments, ...)`` of the dtype of ``data``, or of JAX's default float for
      integers and booleans. float16 and bfloat16 are combined in float32 and rounded once at the
      end.

    Raises:
      TypeError: ``data`` is complex or not of numbers; else as for ``jscan.segment_mean``.
      ValueError: as for ``jscan.segment_mean``.

    Where ids are sorted, a kernel has the maximum and the sum by one reduction, which scales sums
    as the maximum rises; else these are two, with a gather and a pass between. The derivative is a
    gather and a reduction; it is 0 in a segment of elements that are all -inf, and 1 at inf.

    Source: Milakov and Gimelshein, *Online normalizer calculation for softmax* (2018), section 3.

    Example:
      >>> import jax.numpy as jnp
      >>> import jscan
      >>> data = jnp.array([1000.0, 1000.0, 2.0, 2.0])
      >>> ids = jnp.array([0, 0, 2, 2])
      >>> print(jscan.segment_logsumexp(data, ids, 3) - jnp.log(2.0))
      [1000. -inf    2.]
    """
    how = data, segment_ids, num_segments, indices_are_sorted, method, groups.by_segment
    return groups.apply("jscan.segment_logsumexp", _logsumexp, groups.is_real, *how)


def _logsumexp(data: jax.Array, by: Groups) -> jax.Array:
    return _wide_logsumexp(groups.widened(data), by).astype(groups.in_floats(data.dtype))


@jax.custom_jvp
def _wide_logsumexp(x: jax.Array, by: Groups) -> jax.Array:
    largest, total = by.summary(made.GREATEST_AND_EXPONENTIALS, x)
    return jnp.log(total) + largest


@_wide_logsumexp.defjvp
def _logsumexp_jvp(
    primals: tuple[jax.Array, Groups], tangents: tuple[jax.Array, Any]
) -> tuple[jax.Array, jax.Array]:
    """The share of an element in its sum is exp(x - y), where y may be infinite as x is."""
    x, by = primals
    y = _wide_logsumexp(x, by)
    below = by.spread(jnp.where(y == -jnp.inf, 0, y))
    distance = jnp.where(x == below, 0, x - below)
    share = jnp.exp(jnp.where(by.holds(x), distance, -jnp.inf))
    return y, by.total(operators.add, share * tangents[0])


@advised
def segment_softmax(
    data: Any,
    segment_ids: Any,
    num_segments: int | None = None,
    indices_are_sorted: bool = False,
    *,
    method: str = "auto",
) -> jax.Array:
    """Exponential of each element, divided by the sum of those of its segment.

    ``y[i] = exp(data[i]) / (sum of exp(data[j]) over all j in the segment of i)``, and 0 where an
    element is dropped. The largest element of each segment is subtracted first, so
    that nothing overflows. As in ``jax.nn.softmax``, a segment that holds NaN or inf, or nothing
    but -inf, has NaN.

    Arguments and errors are those of ``jscan.segment_logsumexp``.

    Returns:
      An array of the shape and dtype of ``data`` (one element for each id), or of JAX's default
      float for integers and booleans. float16 and bfloat16 are computed in float32 and rounded once
      at the end.

    The reductions of ``jscan.segment_logsumexp``, and a pass that gathers the maximum and the sum.
    The derivative is one reduction and a gather.

    Source: Milakov and Gimelshein, *Online normalizer calculation for softmax* (2018), section 3.

    Example:
      >>> import jax.numpy as jnp
      >>> import jscan
      >>> scores = jnp.array([1000.0, 1000.0, 2.0, 7.0])
      >>> ids = jnp.array([0, 0, 2, -1])
      >>> print(jscan.segment_softmax(scores, ids, 3))
      [0.5 0.5 1.  0. ]
    """
    how = data, segment_ids, num_segments, indices_are_sorted, method
    return groups.apply("jscan.segment_softmax", _softmax, groups.is_real, *how)


def _softmax(data: jax.Array, by: Groups) -> jax.Array:
    return _wide_softmax(groups.widened(data), by).astype(groups.in_floats(data.dtype))


@jax.custom_jvp
def _wide_softmax(x: jax.Array, by: Groups) -> jax.Array:
    largest, total = by.summary(made.GREATEST_AND_EXPONENTIALS, x)
    largest, total = by.spread(largest), by.spread(total)
    # Computed again: exponentials in memory would be written and read.
    terms = jnp.exp(x - largest)
    total = total + (largest - largest)  # NaN where that is infinite
    # A sum that has an element is 1 or more, since that of the largest is 1, or NaN.
    inside = total != 0
    return jnp.where(inside, terms / jnp.where(inside, total, 1), 0)


@_wide_softmax.defjvp
def _softmax_jvp(
    primals: tuple[jax.Array, Groups], tangents: tuple[jax.Array, Any]
) -> tuple[jax.Array, jax.Array]:
    """Tangents that sum to zero in each segment."""
    y = _wide_softmax(*primals)
    moved = y * tangents[0]
    return y, moved - y * primals[1].spread(primals[1].total(operators.add, moved))
