"""The rules of ``reduce_p``."""

from __future__ import annotations

import functools
import math
from collections.abc import Sequence
from typing import Any

import jax
import jax.numpy as jnp
from jax.interpreters import ad, batching

from jscan import extent, heads
from jscan.combine import Combine
from jscan.derivatives import transposition
from jscan.derivatives.tangents import jvp_of, summed_to
from jscan.plain.reduce import full_shape, reduce_in_plain_jax, segment_numbers, split
from jscan.primitives import reduce_p
from jscan.rules import base


def reduce_abstract_eval(
    *avals: Any, combine: Combine, axis: int, kind: str, num_segments: int, **_: Any
) -> list[Any]:
    """The leaves with ``num_segments`` in place of the axis."""
    full = full_shape(avals, axis, kind)
    shape = (*full[:axis], num_segments, *full[axis + 1 :])
    leaves, _descriptor = split(avals, kind)
    dtypes = combine.result_dtypes([leaf.dtype for leaf in leaves])
    return [
        leaf.update(shape=shape, dtype=dtype, weak_type=False)
        for leaf, dtype in zip(leaves, dtypes, strict=True)
    ]


def reduce_in_kernels(
    *operands: jax.Array, kind: str, method: str, interpret: bool, tile: Any, **params: Any
) -> list[jax.Array]:
    """The reduction in a kernel where one can run it."""
    leaves, descriptor = split(operands, kind)
    combine, axis, num_segments = params["combine"], params["axis"], params["num_segments"]
    full = full_shape(operands, axis, kind)
    if method == "xla" or 0 in full or num_segments == 0:
        return reduce_in_plain_jax(*operands, kind=kind, method=method, **params)
    # Pallas takes seconds to import, and only GPU programs need it.
    from jscan import kernels

    if extent.full_shape(leaves) != full:
        leaves[0] = jnp.broadcast_to(leaves[0], full)
    lanes, far = math.prod(full[axis + 1 :]), extent.FAR
    if kind == "offsets" and (lanes > 1 or max(descriptor.size, full[axis]) >= far):
        # Lanes share what one search finds; and a program counts offsets and positions in 32 bits.
        kind, descriptor = "ids", segment_numbers(descriptor, axis=axis, kind=kind, n=full[axis])
    with base.cut_by(tile):
        reason = kernels.why_not(leaves, combine=combine, axis=axis, exclusive=False, method=method)
        if reason is None:
            return kernels.reduce(
                leaves,
                descriptor,
                combine=combine,
                axis=axis,
                kind=kind,
                num_segments=num_segments,
                method=method,
                interpret=interpret,
            )
    if method != "auto":
        raise ValueError(f"jscan: method={method!r} cannot run this reduction: {reason}")
    described = [] if descriptor is None else [descriptor]
    return reduce_in_plain_jax(*leaves, *described, kind=kind, method=method, **params)


def reduce_anywhere(*operands: jax.Array, method: str, **params: Any) -> list[jax.Array]:
    """The reduction where there is no kernel."""
    base.check_runs_anywhere(method)
    return reduce_in_plain_jax(*operands, method=method, **params)


def reduce_jvp(
    primals: Sequence[jax.Array], tangents: Sequence[Any], **params: Any
) -> tuple[list[jax.Array], list[Any]]:
    """A sum's tangent is the sum of tangents; others are differentiated as plain JAX."""
    combine, kind = params["combine"], params["kind"]
    if not combine.is_sum:
        return jvp_of(reduce_in_plain_jax, primals, tangents, **params)
    leaves, _ = split(primals, kind)
    results = reduce_p.bind(*primals, **params)
    slopes: list[Any] = [
        ad.instantiate_zeros(t) if jnp.issubdtype(x.dtype, jnp.inexact) else None
        for x, t in zip(leaves, tangents, strict=False)
    ]
    moving = [i for i, t in enumerate(slopes) if t is not None]
    full = full_shape(primals, params["axis"], kind)
    if moving and extent.full_shape([slopes[i] for i in moving]) != full:
        # Only a leaf that does not move, or the descriptor, has the size of a batch.
        slopes[moving[0]] = jnp.broadcast_to(slopes[moving[0]], full)
    combine = combine if len(moving) == len(leaves) else combine.restrict(moving)
    descriptor = primals[len(leaves) :]
    moved = iter(
        reduce_p.bind(*(slopes[i] for i in moving), *descriptor, **{**params, "combine": combine})
    )
    return results, [
        ad.Zero(jax.typeof(r).to_tangent_aval()) if t is None else next(moved)
        for r, t in zip(results, slopes, strict=True)
    ]


def reduce_transpose(cotangents: Sequence[Any], *operands: Any, **params: Any) -> list[Any]:
    """A sum's transpose: every element takes the cotangent of its segment."""
    combine, kind = params["combine"], params["kind"]
    moving = transposition.undefined(operands)
    wanted = tuple(range(combine.num_leaves))
    transposition.check_linear("reduction", combine, moving, wanted, identity=kind != "whole")
    if combine.is_sum:
        return _transposed_sum(cotangents, *operands, **params)

    rules = reduce_in_plain_jax, reduce_jvp
    return transposition.by_tangents(*rules, cotangents, operands, **params)


def _transposed_sum(
    cotangents: Sequence[Any], *operands: Any, axis: int, kind: str, num_segments: int, **_: Any
) -> list[Any]:
    leaves, descriptor = split(operands, kind)
    results: list[Any] = []
    for leaf, cotangent in zip(leaves, cotangents, strict=True):
        if not ad.is_undefined_primal(leaf):
            results.append(None)
        elif type(cotangent) is ad.Zero:
            results.append(ad.Zero(leaf.aval))
        else:
            results.append(
                _spread(cotangent, descriptor, leaf.aval, axis=axis, kind=kind, limit=num_segments)
            )
    return [*results, *([] if descriptor is None else [None])]


def _spread(
    cotangent: jax.Array, descriptor: Any, like: Any, *, axis: int, kind: str, limit: int
) -> jax.Array:
    """The cotangent of each element's segment, summed where the operand was shared."""
    if kind == "whole":
        full = (*cotangent.shape[:axis], like.shape[axis], *cotangent.shape[axis + 1 :])
        spread = jnp.broadcast_to(cotangent, full)
    elif limit == 0:
        return jnp.zeros(like.shape, cotangent.dtype)
    else:
        numbers = segment_numbers(descriptor, axis=axis, kind=kind, n=like.shape[axis])
        places = heads.places_of(numbers, limit)
        if places.size == places.shape[axis]:
            spread = jnp.take(
                cotangent,
                places.reshape(-1),
                axis,
                mode="fill",
                fill_value=0,
            )
        else:
            shape = (*cotangent.shape[:axis], places.shape[axis], *cotangent.shape[axis + 1 :])
            spread = jnp.take_along_axis(
                cotangent, jnp.broadcast_to(places, shape), axis, mode="fill", fill_value=0
            )
    return summed_to(spread, like)


reduce_p.def_impl(functools.partial(base.run, reduce_p))
reduce_p.def_abstract_eval(reduce_abstract_eval)
base.register_lowerings(reduce_p, reduce_in_kernels, reduce_anywhere)
batching.primitive_batchers[reduce_p] = functools.partial(base.batched, reduce_p)
ad.primitive_jvps[reduce_p] = reduce_jvp
ad.primitive_transposes[reduce_p] = reduce_transpose
