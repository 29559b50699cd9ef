"""The rules of ``reduce_p``."""

from __future__ import annotations

import functools
import math
from collections.abc import Callable, Hashable, Sequence
from typing import Any

import jax
import jax.numpy as jnp
from jax import lax
from jax.core import ShapedArray
from jax.interpreters import ad

from jscan import compensation, extent, primitives
from jscan.combine import Combine
from jscan.derivatives import transposition
from jscan.derivatives.recurrence import sum_of
from jscan.derivatives.tangents import Tangent, is_moving, jvp_of, summed_to, zero_of
from jscan.plain.across import of_this_part, reduce_across
from jscan.plain.reduce import (
    full_shape,
    reduce_in_plain_jax,
    scatters_differentiably,
    segment_numbers,
)
from jscan.plain.uneven import reduce_uneven
from jscan.primitives import AxisName, joined, parted, reduce_p
from jscan.rules import base, partition


def reduce_abstract_eval(
    *avals: ShapedArray,
    combine: Combine,
    axis: int,
    kind: str,
    num_segments: int,
    exact: bool,
    axis_name: AxisName,
    **_: Any,
) -> list[ShapedArray]:
    """The leaves with ``num_segments`` in place of the axis; no device has another result."""
    full = full_shape(avals, axis, kind)
    shape = (*full[:axis], num_segments, *full[axis + 1 :])
    leaves, _descriptor = parted(avals, kind != "whole")
    dtypes = combine.dtypes if exact else combine.result_dtypes([leaf.dtype for leaf in leaves])
    return [
        extent.alike_across(leaf, axis_name).update(shape=shape, dtype=dtype, weak_type=False)
        for leaf, dtype in zip(leaves, dtypes, strict=True)
    ]


def reduce_in_kernels(
    *operands: jax.Array,
    order: jax.Array | None = None,
    combine: Combine,
    axis: int,
    kind: str,
    num_segments: int,
    method: str,
    interpret: bool,
    tile: Hashable,
    exact: bool,
    **_: Any,
) -> list[jax.Array]:
    """The reduction by the kernels of a strategy, which read elements in an ``order``, if any."""
    leaves, descriptor = parted(operands, kind != "whole")
    how: dict[str, Any] = {"combine": combine, "axis": axis, "method": method, "tile": tile}
    full = full_shape(operands, axis, kind)
    if 0 in full or num_segments == 0:
        how["exact"] = exact
        return reduce_in_plain_jax(*operands, kind=kind, num_segments=num_segments, **how)
    # Pallas takes seconds to import, and only GPU programs need it.
    from jscan import kernels

    leaves = extent.at_full_size(leaves, full)
    reason = kernels.why_not(leaves, exclusive=False, **how)
    if reason is not None:
        raise base.NoKernel(reason)
    if kind == "offsets":
        assert descriptor is not None
        lanes, far = math.prod(full[axis + 1 :]), extent.FAR
        if lanes > 1 or max(descriptor.size, full[axis]) >= far:
            # Lanes can share the result of one search, and a program counts offsets in 32 bits.
            descriptor = segment_numbers(descriptor, axis=axis, kind=kind, n=full[axis])
            kind = "ids"
    how |= {"interpret": interpret, "exact": exact}
    return kernels.reduce(leaves, descriptor, order, kind=kind, num_segments=num_segments, **how)


def reduce_jvp(
    primals: Sequence[jax.Array],
    tangents: Sequence[Tangent],
    *,
    combine: Combine,
    axis: int,
    kind: str,
    **params: Any,
) -> tuple[list[jax.Array], list[Tangent]]:
    """The sum of tangents for a sum, and the tangents of plain JAX for another reduction."""
    params |= {"axis": axis, "kind": kind}
    if compensation.adds_pairs(combine) and not is_moving(tangents[1]):
        return _jvp_of_pairs(primals, tangents, combine=combine, **params)
    if not combine.is_sum:
        if kind != "whole" and not params["axis_name"] and scatters_differentiably(combine):
            return _extremum_jvp(primals, tangents, combine=combine, **params)
        form = reduce_across if params["axis_name"] else reduce_in_plain_jax
        return jvp_of(form, primals, tangents, combine=combine, **params)
    leaves, descriptor = parted(primals, kind != "whole")
    results = reduce_p.bind(*primals, combine=combine, **params)
    moving = {
        i: ad.instantiate_zeros(t)
        for i, (x, t) in enumerate(zip(leaves, tangents, strict=False))
        if jnp.issubdtype(x.dtype, jnp.inexact)
    }
    slopes: dict[int, jax.Array] = {}
    if moving:
        # It may be that only a leaf that does not move, or the descriptor, has the size of a batch.
        coming = extent.at_full_size([*moving.values()], full_shape(primals, axis, kind))
        part = combine if len(moving) == len(leaves) else combine.restrict([*moving])
        reduced = reduce_p.bind(*joined(coming, descriptor), combine=part, **params)
        slopes = dict(zip(moving, reduced, strict=True))
    return results, [slopes[i] if i in slopes else zero_of(x) for i, x in enumerate(results)]


def _jvp_of_pairs(
    primals: Sequence[jax.Array], tangents: Sequence[Tangent], *, combine: Combine, **params: Any
) -> tuple[list[jax.Array], list[Tangent]]:
    """The plain sum of the tangents of what is summed; what is lost has none."""
    total, lost = reduce_p.bind(*primals, combine=combine, **params)
    slope: Tangent = zero_of(total)
    if is_moving(tangents[0]):
        leaves, descriptor = parted(primals, params["kind"] != "whole")
        full = full_shape(primals, params["axis"], params["kind"])
        coming = extent.at_full_size([tangents[0]], full, joined([], descriptor))
        way = {**params, "combine": sum_of(leaves[0].dtype)}
        [slope] = reduce_p.bind(*joined(coming, descriptor), **way)
    return [total, lost], [slope, zero_of(lost)]


def _extremum_jvp(
    primals: Sequence[jax.Array],
    tangents: Sequence[Tangent],
    *,
    combine: Combine,
    axis: int,
    kind: str,
    num_segments: int,
    **params: Any,
) -> tuple[list[jax.Array], list[Tangent]]:
    """The mean of the tangents of the elements that are the extremum, and sums of others."""
    leaves, descriptor = parted(primals, True)
    assert descriptor is not None
    along: dict[str, Any] = {"axis": axis, "kind": kind, "num_segments": num_segments}
    results = reduce_p.bind(*primals, combine=combine, **along, **params)
    full = full_shape(primals, axis, kind)
    numbers = segment_numbers(descriptor, axis=axis, kind=kind, n=full[axis], bound=True)
    # A row that fits a tile may not fit one with leaves as wide as they are combined.
    method = "auto" if params["method"] == "block" else params["method"]

    def total(x: jax.Array) -> jax.Array:
        way = {**along, **params, "kind": "ids", "exact": True, "method": method}
        [found] = reduce_p.bind(x, numbers, combine=sum_of(x.dtype), **way)
        return found

    slopes: list[Tangent] = []
    for name, x, t, y in zip(combine.monoids, leaves, tangents, results, strict=False):
        if not is_moving(t):
            slopes.append(zero_of(y))
            continue
        given = jnp.broadcast_to(t, full)
        if name == "add":
            slopes.append(total(given).astype(y.dtype))
            continue
        spread = functools.partial(primitives.spread, numbers=numbers, axis=axis)
        slopes.append(mean_of_chosen(x, given, y, spread, total))
    return results, slopes


def mean_of_chosen(
    x: jax.Array,
    tangent: jax.Array,
    extremum: jax.Array,
    spread: Callable[[jax.Array], jax.Array],
    total: Callable[[jax.Array], jax.Array],
) -> jax.Array:
    """The tangent of an extremum: the mean of the tangents of the elements that are equal to it.

    ``spread`` gives each element the value of its segment, and ``total`` adds up those of a segment
    in the dtype in which they are combined.
    """
    chosen = jnp.broadcast_to(x.astype(extremum.dtype) == spread(extremum), tangent.shape)
    sums = total(jnp.where(chosen, tangent, jnp.zeros_like(tangent)))
    count = total(jnp.where(chosen, jnp.ones_like(tangent), jnp.zeros_like(tangent)))
    return (sums / jnp.maximum(count, jnp.ones_like(count))).astype(extremum.dtype)


def reduce_transpose(
    cotangents: Sequence[Tangent], *operands: Any, combine: Combine, **params: Any
) -> list[Any]:
    """The cotangent of each element's segment for a sum, and otherwise the tangents' transpose."""
    moving = transposition.undefined(operands)
    wanted = tuple(range(combine.num_leaves))
    bounded = params["kind"] != "whole"
    if compensation.adds_pairs(combine) and moving == (0,):
        return _transposed_sum(cotangents, *operands, **params)
    transposition.check_linear("reduction", combine, moving, wanted, identity=bounded)
    if combine.is_sum:
        return _transposed_sum(cotangents, *operands, **params)
    plain = reduce_across if params["axis_name"] else reduce_in_plain_jax
    rules = plain, reduce_jvp
    return transposition.by_tangents(*rules, cotangents, operands, combine=combine, **params)


def _transposed_sum(
    cotangents: Sequence[Tangent],
    *operands: Any,
    axis: int,
    kind: str,
    axis_name: AxisName,
    **_: Any,
) -> list[Any]:
    leaves, descriptor = parted(operands, kind != "whole")
    if axis_name and descriptor is not None:
        n = next(x.aval.shape[axis] for x in leaves if ad.is_undefined_primal(x))
        kind, descriptor = of_this_part(descriptor, kind, axis_name, axis=axis, n=n)
    results: list[Any] = []
    for leaf, cotangent in zip(leaves, cotangents, strict=True):
        if not ad.is_undefined_primal(leaf):
            results.append(None)
        elif isinstance(cotangent, ad.Zero):
            results.append(ad.Zero(leaf.aval))
        else:
            given = _transposed_psum(cotangent, axis_name) if axis_name else cotangent
            results.append(_spread(given, descriptor, leaf.aval, axis=axis, kind=kind))
    return [*results, *([] if descriptor is None else [None])]


def _transposed_psum(cotangent: jax.Array, axis_name: AxisName) -> jax.Array:
    """The cotangent of what is summed over mesh axes.

    Where shard_map does not tell what varies, every device has a share of the sum's cotangent.
    """
    if jax.typeof(lax.axis_index(axis_name)).mat.varying:
        return extent.vary_alike([cotangent], axis_name)[0]
    whole: jax.Array = lax.psum(cotangent, axis_name)
    return whole


def _spread(
    cotangent: jax.Array,
    descriptor: jax.Array | None,
    like: ShapedArray,
    *,
    axis: int,
    kind: str,
) -> jax.Array:
    """The cotangent of each element's segment, summed where the operand was shared."""
    cotangent = transposition.as_wide_as(cotangent, like)
    if descriptor is None:
        full = (*cotangent.shape[:axis], like.shape[axis], *cotangent.shape[axis + 1 :])
        return summed_to(jnp.broadcast_to(cotangent, full), like)
    numbers = segment_numbers(descriptor, axis=axis, kind=kind, n=like.shape[axis], bound=True)
    return summed_to(primitives.spread(cotangent, numbers, axis=axis), like)


def reduce_dimensions(
    operands: Sequence[ShapedArray],
    results: Sequence[ShapedArray],
    *,
    axis: int,
    kind: str,
    neutral: bool,
    **_: Any,
) -> partition.Dimensions:
    """Those of the leaves and of what describes elements; offsets are whole on each device."""
    if not neutral:
        return partition.but_for(axis, operands, results)
    count = len(operands) - (kind == "offsets")
    return partition.reduced(axis, operands, results, count)


base.register(
    reduce_p,
    name="reduction",
    abstract_eval=reduce_abstract_eval,
    plain=reduce_in_plain_jax,
    on_cpu=functools.partial(reduce_in_plain_jax, on_cpu=True),
    across=reduce_across,
    uneven=reduce_uneven,
    in_kernels=reduce_in_kernels,
    dimensions=reduce_dimensions,
    jvp=reduce_jvp,
    transpose=reduce_transpose,
)
