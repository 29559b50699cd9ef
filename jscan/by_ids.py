"""Reductions by segment ids: ``reduce_p`` for sorted ids, ``collect_p`` by a plan, or a scatter."""

from __future__ import annotations

import functools
from collections.abc import Mapping
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

from jscan import compensation, dispatch, heads, meshes, operators, plans, primitives
from jscan.arguments import arrays, choices, descriptors, scalars
from jscan.combine import Combine, accumulation_dtype
from jscan.eager import NONE, UNFIT, compiled, elements, is_untraced, marks, tree
from jscan.plain import scatters
from jscan.plans import SegmentPlan


def reduce(
    caller: str,
    operator: operators.Operator,
    data: Any,
    segment_ids: Any,
    num_segments: int | None,
    *,
    indices_are_sorted: bool,
    unique_indices: bool,
    bucket_size: int | None,
    mode: Any,
    out_sharding: Any,
    axis_name: Any,
    method: str,
) -> jax.Array:
    """The totals of ``jscan.segment_sum``, or of its like with another operator."""
    if num_segments is None and isinstance(segment_ids, SegmentPlan):
        num_segments = segment_ids.num_segments
    elif num_segments is None:
        ids = arrays.as_integers(caller, "segment_ids", segment_ids, allow_bool=False)
        num_segments = descriptors.count_segments(caller, num_segments, ids)
    promises = indices_are_sorted, unique_indices
    how = bucket_size, mode, out_sharding, axis_name, method
    return _reduce(caller, operator, data, segment_ids, num_segments, *promises, *how)


def known_ids(argument: Any) -> Any:
    """The kind of segment ids, of which wide ones are cut down to what all results reach."""
    if isinstance(argument, SegmentPlan):
        return tree(argument) if is_untraced() else UNFIT
    if type(argument) is np.ndarray and argument.dtype.kind in "iu" and argument.itemsize > 4:
        low = -1 if argument.dtype.kind == "i" else 0
        return np.clip(argument, low, descriptors.LIMIT).astype(np.int32)
    return UNFIT if argument is None else marks(argument)


@compiled(
    *(str, operators.Operator, elements, known_ids, int),
    *(bool, bool, (NONE, int), (NONE, str), NONE, NONE, str),
)
def _reduce(
    caller: str,
    operator: operators.Operator,
    data: Any,
    segment_ids: Any,
    num_segments: Any,
    indices_are_sorted: Any,
    unique_indices: Any,
    bucket_size: Any,
    mode: Any,
    out_sharding: Any,
    axis_name: Any,
    method: str,
) -> jax.Array:
    """The totals of an array."""
    choices.check_method(caller, method)
    plan = segment_ids if isinstance(segment_ids, SegmentPlan) else None
    if plan is not None:
        segment_ids = plan.ids
    ids = arrays.as_integers(caller, "segment_ids", segment_ids, allow_bool=False)
    array = one_for_each_id(caller, arrays.as_array(caller, "data", data), ids)
    if not operator.takes(array.dtype):
        raise TypeError(
            f"{caller}: data has dtype {array.dtype}, which {operator.name} does not take; cast it "
            "by data.astype"
        )
    if plan is None:
        count = descriptors.count_segments(caller, num_segments, ids)
    else:
        count = count_of(caller, num_segments, plan)
    is_sorted = scalars.as_switch(caller, "indices_are_sorted", indices_are_sorted)
    unique = scalars.as_switch(caller, "unique_indices", unique_indices)
    bucket = _as_bucket_size(caller, bucket_size)
    clips = _clips(caller, mode)
    meshes.check_layout(caller, "out_sharding", out_sharding)
    names = choices.as_axis_name(caller, axis_name)
    if plan is not None:
        check_suits_plan(
            caller,
            {
                "indices_are_sorted=True": is_sorted,
                "unique_indices=True": unique,
                f"mode={mode!r}": clips,
                f"axis_name={axis_name!r}": bool(names),
            },
        )
    orders = is_sorted or plan is not None
    if operator is compensation.ADD and not jnp.issubdtype(array.dtype, jnp.inexact):
        operator = operators.add  # which is exact
    in_pairs = operator is compensation.ADD
    if in_pairs and bucket is not None:
        raise ValueError(f"{caller}: precise=True has no buckets; got bucket_size={bucket}")
    if method not in ("auto", "xla"):
        check_suits_kernels(caller, f"method={method!r}", bucket, orders)
    if names:
        check_suits_kernels(caller, f"axis_name={axis_name!r}", bucket, orders)
    ids = jnp.asarray(descriptors.narrow_numbers(ids, count))
    if clips and count:
        top = min(count - 1, int(operators.integer_limits(ids.dtype).max))
        ids = lax.clamp(np.zeros((), ids.dtype), ids, np.asarray(top, ids.dtype))

    def run(array: jax.Array, ids: jax.Array, plan: SegmentPlan | None) -> jax.Array:
        if in_pairs:
            order = plan if orders else SegmentPlan(ids, count)
            return _in_pairs(array, ids, order, count, method, names)
        if bucket is None and (is_sorted or plan is not None):
            return in_order(operator, array, ids, plan, count, method, names)
        if operator.name == "mul":
            return _product(array, ids, count, bucket, unique)
        return scattered(operator, array, ids, count, bucket, unique)

    dimensions = meshes.instead_of(0)
    result = meshes.automatically(run, array, ids, plan, like=[array], dimensions=dimensions)
    return result if out_sharding is None else jax.sharding.reshard(result, out_sharding)


def in_order(
    operator: operators.Operator,
    data: jax.Array,
    ids: jax.Array,
    plan: SegmentPlan | None,
    num_segments: int,
    method: str,
    axis_name: tuple[str, ...] = (),
    *,
    exact: bool = False,
) -> jax.Array:
    """The totals by a plan, or where equal ids are neighbours.

    Those that are ``exact`` are not rounded to the dtype of ``data``.
    """
    how: dict[str, Any] = {"method": method, "exact": exact}
    if plan is None:
        return _of_neighbours(operator, data, ids, num_segments, axis_name=axis_name, **how)
    numbers, *order = plans.operands(plan, data.ndim)
    if not order:
        return _of_neighbours(operator, data, plan.ids, plan.num_segments, **how)
    return primitives.collect(
        data,
        [numbers, *order],
        combine=_combine(operator, data.dtype),
        axis=0,
        emit="totals",
        num_segments=plan.num_segments,
        **how,
    )


def _of_neighbours(
    operator: operators.Operator,
    data: jax.Array,
    ids: jax.Array,
    num_segments: int,
    *,
    method: str,
    exact: bool,
    axis_name: tuple[str, ...] = (),
) -> jax.Array:
    """The totals where equal ids are neighbours."""
    leaves = [data]
    if operator is compensation.ADD:
        leaves.append(compensation.nothing_lost(data))
    result, *_ = primitives.reduce(
        leaves,
        lax.expand_dims(ids, range(1, data.ndim)),
        combine=_combine(operator, data.dtype),
        axis=0,
        kind="ids",
        num_segments=num_segments,
        method=method,
        exact=exact,
        axis_name=axis_name,
    )
    return result


def _combine(operator: operators.Operator, dtype: np.dtype) -> Combine:
    """How elements are combined: pairs of them where ``operator`` is the precise sum."""
    if operator is compensation.ADD:
        return compensation.pairs(dtype)
    return dispatch.combine_once(operator, (dtype,))


def _in_pairs(data: jax.Array, *how: Any) -> jax.Array:
    """The totals `in_order` of floats in compensated pairs; complex numbers have two of each."""
    if not jnp.issubdtype(data.dtype, jnp.complexfloating):
        return in_order(compensation.ADD, data, *how)
    parts = (in_order(compensation.ADD, part(data), *how) for part in (lax.real, lax.imag))
    return lax.complex(*parts)


@functools.partial(jax.custom_jvp, nondiff_argnums=(2, 3, 4))
def _product(
    data: jax.Array, ids: jax.Array, num_segments: int, bucket_size: int | None, unique: bool
) -> jax.Array:
    """The products of ids in any order: a scatter, for which JAX has no derivative."""
    return scattered(operators.mul, data, ids, num_segments, bucket_size, unique)


@_product.defjvp
def _product_jvp(
    num_segments: int,
    bucket_size: int | None,
    unique: bool,
    primals: tuple[jax.Array, jax.Array],
    tangents: tuple[jax.Array, Any],
) -> tuple[jax.Array, jax.Array]:
    """The products, and their tangents by way of sorting the ids."""
    data, ids = primals
    plan = SegmentPlan(ids, num_segments)

    def planned(x: jax.Array) -> jax.Array:
        return in_order(operators.mul, x, plan.ids, plan, num_segments, "auto")

    _, moved = jax.jvp(planned, (data,), (tangents[0],))
    return _product(data, ids, num_segments, bucket_size, unique), moved


def one_for_each_id(caller: str, data: jax.Array, ids: arrays.Array) -> jax.Array:
    """``data`` with an element for each id; one element goes to all ids, as in ``jax.ops``."""
    if ids.ndim == 1 and data.shape[:1] in ((), (1,)):
        return jnp.broadcast_to(data, (*ids.shape, *data.shape[1:]))
    if ids.ndim != 1 or data.shape[0] != ids.shape[0]:
        raise ValueError(
            f"{caller}: segment_ids must have one id for each element of data's first axis; got "
            f"segment_ids of shape {ids.shape} and data of shape {data.shape}"
        )
    return data


def count_of(caller: str, num_segments: Any, plan: SegmentPlan) -> int:
    """The number of segments of a plan, which a caller may repeat."""
    given = scalars.as_count(caller, "num_segments", num_segments)
    if given not in (None, plan.num_segments):
        raise ValueError(
            f"{caller}: num_segments={given} beside a SegmentPlan of {plan.num_segments} segments"
        )
    return plan.num_segments


def check_suits_plan(caller: str, asked: Mapping[str, bool]) -> None:
    """Raise for the first of the arguments that are ``asked`` for, which no plan has a use for."""
    for what, is_asked in asked.items():
        if is_asked:
            raise ValueError(f"{caller}: {what} needs segment_ids; got a SegmentPlan")


def _as_bucket_size(caller: str, bucket_size: Any) -> int | None:
    """The size of a bucket, or None without buckets."""
    size = scalars.as_count(caller, "bucket_size", bucket_size)
    if size == 0:
        raise ValueError(f"{caller}: bucket_size must be at least 1; got 0")
    return size


def check_suits_kernels(caller: str, what: str, bucket: int | None, is_sorted: bool) -> None:
    """Raise for what ``reduce_p`` cannot do; ``what`` asks for it."""
    if bucket is not None:
        raise ValueError(
            f"{caller}: {what} has no buckets; bucket_size={bucket} needs method='auto' "
            "or method='xla', and no axis_name"
        )
    if not is_sorted:
        raise ValueError(f"{caller}: {what} needs indices_are_sorted=True")


def _clips(caller: str, mode: Any) -> bool:
    """Whether ids out of range are moved into it; in every other mode they are dropped."""
    modes = lax.GatherScatterMode
    if mode is not None and not isinstance(mode, (str, modes)):
        raise TypeError(
            f"{caller}: mode must be a jax.lax.GatherScatterMode or its name; got {mode!r}"
        )
    known = (None, "fill", "drop", "clip", "promise_in_bounds")
    if mode not in (*known, modes.FILL_OR_DROP, modes.CLIP, modes.PROMISE_IN_BOUNDS):
        raise ValueError(
            f"{caller}: mode must be one of 'fill', 'drop', 'clip', 'promise_in_bounds'; "
            f"got {mode!r}"
        )
    return mode in ("clip", modes.CLIP)


def scattered(
    operator: operators.Operator,
    data: jax.Array,
    ids: jax.Array,
    num_segments: int,
    bucket_size: int | None = None,
    unique: bool = False,
    *,
    exact: bool = False,
) -> jax.Array:
    """The totals by a scatter into the identity that ``operator`` has for each dtype.

    ``jax.ops`` scatters likewise, but has no identity for dtypes that lack infinity.
    """
    wide = data.astype(accumulation_dtype(data.dtype))
    identity = operator.identity(wide.dtype)
    n = ids.shape[0]
    unique = unique and num_segments + n < descriptors.LIMIT
    # A scatter by wide ids would take them modulo 2**32.
    of_ids = heads.places_of if unique else heads.dropped_places_of
    places = of_ids(ids, num_segments)
    if unique:  # dropped elements get places of their own, since the promise is for them, too
        beyond = lax.iota(jnp.int32, n) + np.int32(num_segments)
        places = jnp.where(places < num_segments, places, beyond)
    shape: tuple[int, ...] = (num_segments, *wide.shape[1:])
    where: jax.Array | tuple[jax.Array, jax.Array] = places
    if bucket_size is not None:
        bucket = lax.iota(jnp.int32, n) // np.int32(bucket_size)
        shape, where = (-(-n // bucket_size), *shape), (bucket, places)
    result = scatters.scatter(operator.name, wide, where, shape, identity, unique=unique)
    if bucket_size is not None:
        result = lax.reduce(result, identity, operator.combine, (0,))
    return result if exact else result.astype(data.dtype)
