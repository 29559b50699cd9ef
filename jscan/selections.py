"""Elements of each segment by their order: the greatest, all of them sorted, k of them."""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

from jscan import cumulative, extent, groups, heads, made, operators, orders, plans
from jscan.advice import advised
from jscan.arguments import scalars, trees
from jscan.groups import Groups
from jscan.plans import SegmentPlan
from jscan.ranks import rank
from jscan.sorting import sort

__all__ = ["segment_argmax", "segment_argmin", "segment_sort", "segment_top_k"]


@advised
def segment_argmax(
    data: Any,
    segment_ids: Any,
    num_segments: int | None = None,
    indices_are_sorted: bool = False,
    *,
    method: str = "auto",
) -> jax.Array:
    """Place in ``data`` of the greatest element of each segment, of the first where several are.

    ``y[s] = min of i over all i with segment_ids[i] == s and data[i] == max of data[j] over all j
    with segment_ids[j] == s``, and -1 where there is none. As in ``jnp.argmax``, NaN counts as the
    greatest.

    Arguments are those of ``jscan.segment_mean``; ``data`` is real or bool.

    Returns:
      int32, ``(num_segments, ...)``: the place along the first axis, for each index of the others.

    Raises:
      TypeError: ``data`` is complex or not of numbers; else as for ``jscan.segment_mean``.
      ValueError: as for ``jscan.segment_mean``; or ``data`` has 2^31 elements or more along its
        first axis.

    Where ids are sorted, a kernel reduces data and places together; else these are two reductions,
    with a gather and a pass between.

    Source: Blelloch, *Prefix Sums and Their Applications* (1990).

    Example:
      >>> import jax.numpy as jnp
      >>> import jscan
      >>> data = jnp.array([5.0, 1.0, 2.0, 4.0, 4.0])
      >>> ids = jnp.array([0, 0, 2, 2, 2])
      >>> print(jscan.segment_argmax(data, ids, 4, indices_are_sorted=True))
      [ 0 -1  3 -1]
    """
    how = data, segment_ids, num_segments, indices_are_sorted, method, groups.by_segment
    return groups.apply("jscan.segment_argmax", _argmax, groups.is_real, *how)


@advised
def segment_argmin(
    data: Any,
    segment_ids: Any,
    num_segments: int | None = None,
    indices_are_sorted: bool = False,
    *,
    method: str = "auto",
) -> jax.Array:
    """Place in ``data`` of the least element of each segment, of the first where several are.

    ``y[s] = min of i over all i with segment_ids[i] == s and data[i] == min of data[j] over all j
    with segment_ids[j] == s``, and -1 where there is none. As in ``jnp.argmin``, NaN counts as the
    least.

    Arguments, result, errors and cost are those of ``jscan.segment_argmax``.

    Example:
      >>> import jax.numpy as jnp
      >>> import jscan
      >>> data = jnp.array([5.0, 1.0, 2.0, 4.0, 2.0])
      >>> ids = jnp.array([0, 0, 2, 2, 2])
      >>> print(jscan.segment_argmin(data, ids, 4, indices_are_sorted=True))
      [ 1 -1  2 -1]
    """
    how = data, segment_ids, num_segments, indices_are_sorted, method, groups.by_segment
    return groups.apply("jscan.segment_argmin", _argmin, groups.is_real, *how)


def _argmax(data: jax.Array, by: Groups) -> jax.Array:
    return _first_of("jscan.segment_argmax", made.GREATEST_AND_PLACE, data, by)


def _argmin(data: jax.Array, by: Groups) -> jax.Array:
    return _first_of("jscan.segment_argmin", made.LEAST_AND_PLACE, data, by)


def _first_of(caller: str, summary: str, data: jax.Array, by: Groups) -> jax.Array:
    """The first place in each segment of an element that is the total of its segment."""
    extent.check_places(caller, "data", data, 0)
    x = lax.stop_gradient(_comparable(data))
    _, first = by.summary(summary, x)
    return jnp.where(first < made.NOWHERE, first, -1)


def _comparable(x: jax.Array) -> jax.Array:
    """``x`` in a dtype that XLA spreads and sorts, in the same order."""
    is_narrow = x.dtype == np.bool_ or x.dtype.name in ("int2", "uint2", "int4", "uint4")
    return x.astype(np.int8) if is_narrow else x


@advised
def segment_sort(
    data: Any,
    segment_ids: Any,
    num_segments: int | None = None,
    indices_are_sorted: bool = False,
    *,
    payload: Any = None,
) -> Any:
    """The elements of each segment in ascending order, in the places that the segment has.

    ``y`` at the places of segment ``s``, from the first to the last, is ``data`` at these places,
    sorted. Equal elements keep their order, and NaN comes last, as in ``jnp.sort``. Elements that
    are dropped stay where they are.

    Args:
      data: the keys, an array ``(n, ...)`` of any dtype. Each index of the other axes is sorted for
        itself. One element, or a scalar, is taken for all ids. Complex numbers are ordered by their
        real parts, then by their imaginary parts.
      segment_ids: as for ``jscan.segment_mean``.
      num_segments: as for ``jscan.segment_mean``.
      indices_are_sorted: promises that equal ids are neighbours. The ids are then not sorted.
      payload: a pytree of arrays of any dtype, which move as the keys do. Each has the dimensions
        of ``data`` in front.

    Returns:
      An array of the shape and dtype of ``data``; with a payload, a pair of it and the payload.

    Raises:
      TypeError: ``data`` is not of numbers, or a leaf of ``payload`` is not an array; else as for
        ``jscan.segment_mean``.
      ValueError: as for ``jscan.segment_mean``; ``payload`` does not have the dimensions of
        ``data`` in front; or ``data`` has 2^31 elements or more along its first axis.

    One sort by XLA, of the number of each element's segment and the key; with a payload or a
    derivative also of its place, and a gather of ``data`` and of each leaf of the payload, whose
    derivative is a scatter. On a GPU, 2^19 elements and more take two radix sorts, a pass for each
    byte of a key and four for the segments: a fifth of the time. Ids that are neither promised
    to be neighbours nor in a plan are sorted besides.

    Source: Sengupta et al., *Scan Primitives for GPU Computing* (2007), section 4.2.

    Example:
      >>> import jax.numpy as jnp
      >>> import jscan
      >>> keys = jnp.array([5, 1, 4, 2, 3])
      >>> ids = jnp.array([0, 0, 2, 2, 2])
      >>> print(jscan.segment_sort(keys, ids, 3, indices_are_sorted=True))
      [1 5 2 3 4]
      >>> print(jscan.segment_sort(keys, jnp.array([1, 0, 1, 0, 1]), 2))
      [3 1 4 2 5]
      >>> keys, names = jscan.segment_sort(keys, ids, 3, True, payload=jnp.arange(5))
      >>> print(names)
      [1 0 3 4 2]
    """
    caller = "jscan.segment_sort"
    if payload is not None:
        leaves, treedef = trees.as_leaves(caller, "payload", payload)
        payload = jax.tree.unflatten(treedef, leaves)
    how: dict[str, Any] = {"others": payload}
    given = data, segment_ids, num_segments, indices_are_sorted
    return groups.apply(caller, _sort, groups.is_number, *given, **how)


def _sort(data: jax.Array, by: Groups, payload: Any = None) -> Any:
    caller = "jscan.segment_sort"
    extent.check_places(caller, "data", data, 0)
    for leaf in jax.tree.leaves(payload):
        if leaf.shape[: data.ndim] != data.shape:
            raise ValueError(
                f"{caller}: payload has shape {leaf.shape}; expected the dimensions of data in "
                f"front, {data.shape}"
            )
    if data.shape[0] == 0:
        return data if payload is None else (data, payload)
    if payload is None:
        is_inexact = jnp.issubdtype(data.dtype, jnp.inexact)
        return _differentiable_keys(data, by) if is_inexact else _sorted_keys(data, by)
    order = _sorted_places(lax.stop_gradient(data), by)
    return _moved(data, order), jax.tree.map(lambda leaf: _moved(leaf, order), payload)


def _moved(x: jax.Array, order: jax.Array) -> jax.Array:
    """``x`` in an order of its first axis, which is that of its leading dimensions."""
    beside = lax.expand_dims(order, range(order.ndim, x.ndim)) if order.ndim > 1 else order
    shape = x.shape if order.ndim > 1 else order.shape
    return orders.take(x, jnp.broadcast_to(beside, shape), 0)


def _sorted_keys(data: jax.Array, by: Groups) -> jax.Array:
    """The keys without their places, in which they are sorted in half of the time."""
    runs, x, order = _neighbours(data, by)
    found = sort(runs, x, axis=0, count=data.shape[0], emit="keys").astype(data.dtype)
    return orders.take(found, orders.inverse(order, 0), 0) if order is not None else found


@jax.custom_jvp
def _differentiable_keys(data: jax.Array, by: Groups) -> jax.Array:
    return _sorted_keys(data, by)


@_differentiable_keys.defjvp
def _sorted_jvp(
    primals: tuple[jax.Array, Groups], tangents: tuple[jax.Array, Any]
) -> tuple[jax.Array, jax.Array]:
    """Tangents move as their elements do."""
    order = _sorted_places(lax.stop_gradient(primals[0]), primals[1])
    return _moved(primals[0], order), _moved(tangents[0], order)


def _sorted_places(keys: jax.Array, by: Groups) -> jax.Array:
    """The place from which each element of the sorted segments comes."""
    runs, x, order = _neighbours(keys, by)
    found = sort(runs, x, axis=0, count=keys.shape[0], emit="places")
    if order is None:
        return found
    source = jnp.take(order, found, mode="clip")
    return orders.take(source, orders.inverse(order, 0), 0)


def _neighbours(keys: jax.Array, by: Groups) -> tuple[jax.Array, jax.Array, jax.Array | None]:
    """The number of each key's run, and the keys, in an order in which segments are runs.

    There is none where they are as they come.
    """
    plan = by.plan
    if plan is None and not by.are_neighbours:
        plan = SegmentPlan(by.ids, by.count)
    numbers, *order = [by.places] if plan is None else plans.operands(plan, 1)
    numbers = order[1] if order else numbers
    # Each dropped element is a run of its own, so that it stays where it is.
    begins = heads.changes(numbers, axis=0) | (numbers >= by.count)
    runs = rank(begins, axis=0, emit="before") + begins.astype(jnp.int32)
    x = _comparable(orders.take(keys, order[0], 0) if order else keys)
    runs = lax.expand_dims(runs, range(1, x.ndim))
    return runs, x, order[0] if order else None


@advised
def segment_top_k(
    data: Any,
    segment_ids: Any,
    num_segments: int | None = None,
    indices_are_sorted: bool = False,
    *,
    k: int,
) -> tuple[jax.Array, jax.Array]:
    """The ``k`` greatest elements of each segment, in descending order, and their places.

    ``values[s, j]`` is the element of segment ``s`` that comes at place ``j`` in descending order,
    and ``places[s, j]`` is where it is in ``data``. Of equal elements the first comes first. As in
    ``jax.lax.top_k``, NaN counts as the greatest. Where a segment has fewer than ``k`` elements,
    places are -1, and values what ``jscan.segment_max`` has for no element.

    Args:
      data: an array ``(n, ...)``, real or bool. One element, or a scalar, is taken for all ids.
      segment_ids: as for ``jscan.segment_mean``.
      num_segments: as for ``jscan.segment_mean``.
      indices_are_sorted: promises that equal ids are neighbours. It changes nothing here.
      k: how many elements to return, static.

    Returns:
      ``values``, an array ``(num_segments, k, ...)`` of the dtype of ``data``, and ``places``,
      int32 of the same shape: the place along the first axis.

    Raises:
      TypeError: ``data`` is complex or not of numbers; ``k`` is not an integer; else as for
        ``jscan.segment_mean``.
      ValueError: as for ``jscan.segment_mean``; ``k`` is negative; or ``data`` has 2^31 elements or
        more along its first axis.

    One sort by XLA, of the number of each element's segment, the element and its place, and on a
    GPU of 2^19 elements and more two radix sorts; a gather of places and one of values, whose
    derivative is a scatter.

    Source: Sengupta et al., *Scan Primitives for GPU Computing* (2007), section 4.2.

    Example:
      >>> import jax.numpy as jnp
      >>> import jscan
      >>> data = jnp.array([5.0, 1.0, 4.0, 7.0, 4.0])
      >>> ids = jnp.array([0, 1, 1, 1, 1])
      >>> values, places = jscan.segment_top_k(data, ids, 2, k=2)
      >>> print(values)
      [[  5. -inf]
       [  7.   4.]]
      >>> print(places)
      [[ 0 -1]
       [ 3  2]]
    """
    caller = "jscan.segment_top_k"
    wanted = scalars.as_count(caller, "k", k)
    if wanted is None:
        raise TypeError(f"{caller}: k must be an integer; got None")
    given = data, segment_ids, num_segments, indices_are_sorted, "auto", _with_ranks, (wanted,)
    return groups.apply(caller, _top_k, groups.is_real, *given)


def _with_ranks(dimension: int) -> int | None:
    """Dimensions of results with k elements for each segment."""
    return None if dimension < 2 else dimension - 1


def _top_k(data: jax.Array, by: Groups, k: int) -> tuple[jax.Array, jax.Array]:
    extent.check_places("jscan.segment_top_k", "data", data, 0)
    n, *trailing = data.shape
    shape = (by.count, k, *trailing)
    lowest = operators.max.identity(data.dtype)
    if n == 0 or 0 in shape:
        return jnp.full(shape, lowest), jnp.full(shape, -1, jnp.int32)
    numbers = lax.expand_dims(by.places, range(1, data.ndim))
    keys = _comparable(lax.stop_gradient(data))
    in_order = sort(numbers, keys, axis=0, count=by.count, emit="places", descending=True)
    lengths = by.lengths(1)
    ranks = lax.broadcasted_iota(jnp.int32, (by.count, k), 1)
    begins = cumulative.cumsum(lengths, exclusive=True)
    begins = jnp.broadcast_to(lax.expand_dims(begins, (1,)), ranks.shape)
    there = ranks < jnp.broadcast_to(lax.expand_dims(lengths, (1,)), ranks.shape)
    there = jnp.broadcast_to(lax.expand_dims(there, range(2, len(shape))), shape)
    found = jnp.take(in_order, begins + ranks, axis=0, mode="clip")
    rows = found.reshape(by.count * k, *trailing)
    values = jnp.take_along_axis(data, rows, axis=0, mode="clip").reshape(shape)
    return jnp.where(there, values, lowest), jnp.where(there, found, -1)
