"""The rules of ``collect_p``: totals of segments by a plan, and the value of its segment for each.

Both directions are linear for a sum, and each is the transpose of the other: elements are gathered
by their segments' numbers, and totals come from elements that are read in the plan's order. Neither
scatters. Plain JAX has no use for the order, and scatters elements as they lie.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Sequence
from typing import Any

import jax
import jax.numpy as jnp
from jax.core import ShapedArray
from jax.interpreters import ad

from jscan import compensation, extent, primitives
from jscan.combine import Combine
from jscan.derivatives import transposition
from jscan.derivatives.recurrence import sum_of
from jscan.derivatives.tangents import Tangent, is_moving, jvp_of, summed_to, zero_of
from jscan.plain.reduce import reduce_in_plain_jax
from jscan.primitives import collect_p
from jscan.rules import base, partition
from jscan.rules.reduce import mean_of_chosen, reduce_in_kernels
from jscan.rules.spread import spread_in_plain_jax


def collect_abstract_eval(
    values: ShapedArray,
    numbers: ShapedArray,
    *_order: ShapedArray,
    combine: Combine,
    axis: int,
    emit: str,
    num_segments: int,
    exact: bool,
    **_: Any,
) -> list[ShapedArray]:
    """The values, with as many along the axis as there are segments, or elements."""
    shape = [*extent.shape_along(axis, numbers, values)]
    if emit == "elements":
        return [values.update(shape=tuple(shape), weak_type=False)]
    shape[axis] = num_segments
    narrow = combine.result_dtypes([values.dtype] * combine.num_leaves)
    dtypes = combine.dtypes if exact else narrow
    return [values.update(shape=tuple(shape), dtype=dtypes[0], weak_type=False)]


def collect_in_plain_jax(
    values: jax.Array,
    numbers: jax.Array,
    order: jax.Array,
    in_order: jax.Array,
    *,
    emit: str,
    axis: int,
    **params: Any,
) -> list[jax.Array]:
    """A gather by the segments' numbers, or a scatter; pairs are combined in the plan's order."""
    if emit == "elements":
        return spread_in_plain_jax(values, numbers, axis=axis)
    params |= {"axis": axis, "kind": "ids"}
    if compensation.adds_pairs(params["combine"]):
        leaves = _leaves(_moved(values, order, axis), **params)
        return reduce_in_plain_jax(*leaves, in_order, **params)[:1]
    return reduce_in_plain_jax(values, numbers, **params)


def collect_in_kernels(
    values: jax.Array,
    numbers: jax.Array,
    order: jax.Array,
    in_order: jax.Array,
    *,
    emit: str,
    axis: int,
    **params: Any,
) -> list[jax.Array]:
    """The same, but totals by the kernels of a strategy."""
    if emit == "elements":
        return spread_in_plain_jax(values, numbers, axis=axis)
    params |= {"axis": axis, "kind": "ids"}
    if math.prod(extent.full_shape([values, order])) >= extent.FAR:
        # A kernel counts the places that it reads in 32 bits.
        leaves = _leaves(_moved(values, order, axis), **params)
        return reduce_in_kernels(*leaves, in_order, **params)[:1]
    full = extent.full_shape([values, order])
    outer, inner = math.prod(full[:axis]), math.prod(full[axis + 1 :])
    shared = order.size == order.shape[axis] == in_order.size
    large = math.prod(full) >= MANY_ELEMENTS
    if shared and large and outer >= MANY_ROWS and inner < FEW_LANES:
        # Side by side, rows are read by whole sectors of memory wherever an element lies.
        moved = [
            jnp.moveaxis(x, axis, 0) for x in (jnp.broadcast_to(values, full), order, in_order)
        ]
        [result] = collect_in_kernels(
            moved[0], numbers, *moved[1:], emit=emit, **{**params, "axis": 0}
        )
        return [jnp.moveaxis(result, 0, axis)]
    return reduce_in_kernels(*_leaves(values, **params), in_order, order=order, **params)[:1]


MANY_ROWS, FEW_LANES = 8, 8
"""Of so many rows in one order, and fewer lanes, elements are moved. Minima of 4097 rows of 25937,
int32, in 261 segments: 2993 µs as they lie, 624 so (H100, 2026-11-27)."""

MANY_ELEMENTS = 2**16
"""So many are worth two passes that move them."""


def _leaves(values: jax.Array, *, combine: Combine, **_: Any) -> list[jax.Array]:
    """What is combined: of pairs, beside the values what they have lost."""
    if compensation.adds_pairs(combine):
        return [values, compensation.nothing_lost(values)]
    return [values]


def _moved(values: jax.Array, order: jax.Array, axis: int) -> jax.Array:
    """The elements in the order of their segments."""
    full = extent.full_shape([values, order])
    if order.size == order.shape[axis]:
        return jnp.take(values, order.reshape(-1), axis, mode="clip", unique_indices=True)
    values, order = jnp.broadcast_to(values, full), jnp.broadcast_to(order, full)
    return jnp.take_along_axis(values, order, axis, mode="clip")


def _in_their_order(
    values: jax.Array,
    _numbers: jax.Array,
    order: jax.Array,
    in_order: jax.Array,
    *,
    combine: Combine,
    axis: int,
    num_segments: int,
    method: str,
    exact: bool,
    **_: Any,
) -> list[jax.Array]:
    """Totals by ``reduce_p``, which has a derivative by any operator."""
    return primitives.reduce(
        [_moved(values, order, axis)],
        in_order,
        combine=combine,
        axis=axis,
        kind="ids",
        num_segments=num_segments,
        method=method,
        exact=exact,
    )


def collect_jvp(
    primals: Sequence[jax.Array],
    tangents: Sequence[Tangent],
    *,
    combine: Combine,
    **params: Any,
) -> tuple[list[jax.Array], list[Tangent]]:
    """The collected tangents where that is linear; else those of extrema, or of a reduction."""
    (values, *plan), (tangent, *_) = primals, tangents
    in_pairs = compensation.adds_pairs(combine)
    linear = in_pairs or combine.is_sum or params["emit"] == "elements"
    if not (linear or combine.monoids[0] in ("max", "min")):
        return jvp_of(_in_their_order, primals, tangents, combine=combine, **params)
    [result] = collect_p.bind(*primals, combine=combine, **params)
    if not is_moving(tangent):
        return [result], [zero_of(result)]
    if linear:
        plain = sum_of(values.dtype) if in_pairs else combine
        return [result], collect_p.bind(tangent, *plan, combine=plain, **params)
    given = jnp.broadcast_to(tangent, extent.full_shape(primals))
    total = functools.partial(_totals, plan=plan, **{**params, "exact": True})
    spread = functools.partial(_elements, plan=plan, **params)
    return [result], [mean_of_chosen(values, given, result, spread, total)]


def _totals(x: jax.Array, *, plan: Sequence[jax.Array], **params: Any) -> jax.Array:
    [result] = collect_p.bind(x, *plan, combine=sum_of(x.dtype), **{**params, "emit": "totals"})
    return result


def _elements(x: jax.Array, *, plan: Sequence[jax.Array], **params: Any) -> jax.Array:
    how = {**params, "emit": "elements", "exact": False, "method": "auto"}
    [result] = collect_p.bind(x, *plan, combine=sum_of(x.dtype), **how)
    return result


def collect_transpose(
    cotangents: Sequence[Tangent], *operands: Any, combine: Combine, emit: str, **params: Any
) -> list[Any]:
    """The value of its segment for each element, or totals of elements."""
    [cotangent], (values, *plan) = cotangents, operands
    if emit == "totals" and not compensation.adds_pairs(combine):
        moving = transposition.undefined(operands)
        transposition.check_linear("reduction", combine, moving, (0,), identity=True)
    if isinstance(cotangent, ad.Zero):
        return [ad.Zero(values.aval), *[None] * len(plan)]
    back = _elements if emit == "totals" else _totals
    result = back(transposition.as_wide_as(cotangent, values.aval), plan=plan, **params)
    result = transposition.as_wide_as(summed_to(result, values.aval), values.aval)
    return [result, *[None] * len(plan)]


def collect_dimensions(
    operands: Sequence[ShapedArray], results: Sequence[ShapedArray], *, axis: int, **_: Any
) -> partition.Dimensions:
    """Those that are not collected. Each device has the whole axis, of which it reads any place."""
    return partition.but_for(axis, operands, results)


base.register(
    collect_p,
    name="reduction",
    abstract_eval=collect_abstract_eval,
    plain=collect_in_plain_jax,
    on_cpu=functools.partial(collect_in_plain_jax, on_cpu=True),
    in_kernels=collect_in_kernels,
    dimensions=collect_dimensions,
    jvp=collect_jvp,
    transpose=collect_transpose,
)
