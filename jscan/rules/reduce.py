"""``reduce_p``: one primitive for every reduction, and all its rules.

Operands are the K leaves, then the descriptor unless ``kind`` is "whole". All have one rank; a
dimension is full size or 1 (then shared), and the reduced one is full size everywhere. Results are
the leaves, with ``num_segments`` elements along that axis. Kinds of descriptor:

    ids      an element's segment is its id; what lies outside [0, num_segments) is dropped. Equal
             ids must be neighbours
    flags    head flags; segments are numbered from 0
    runs     a segment is a run of equal values; segments are numbered from 0
    offsets  int32, one more than there are segments: where each begins and the last one ends; from
             0, never decreasing. What lies behind the last is a segment of its own
    whole    one segment, no descriptor
"""

from __future__ import annotations

import functools
import math
from collections.abc import Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax
from jax.extend import core
from jax.interpreters import ad, batching

from jscan import extent, fallback, primitive
from jscan.combine import Combine
from jscan.derivatives import transposition
from jscan.plain import scatters
from jscan.rules.locate import locate

reduce_p: Any = core.Primitive("jscan_reduce")
reduce_p.multiple_results = True


def reduce(
    leaves: Sequence[jax.Array],
    descriptor: jax.Array | None,
    *,
    combine: Combine,
    axis: int,
    kind: str,
    num_segments: int,
    method: str,
) -> list[jax.Array]:
    """Bind ``reduce_p``; leaves and descriptor have one rank."""
    operands = [*leaves] if descriptor is None else [*leaves, descriptor]
    results: list[jax.Array] = reduce_p.bind(
        *extent.vary_alike(operands),
        combine=combine,
        axis=axis,
        kind=kind,
        num_segments=num_segments,
        method=method,
        interpret=primitive.interpreting(),
    )
    return results


def _split(operands: Sequence[Any], kind: str) -> tuple[list[Any], Any]:
    return ([*operands], None) if kind == "whole" else ([*operands[:-1]], operands[-1])


def _full_shape(operands: Sequence[Any], axis: int, kind: str) -> tuple[int, ...]:
    """The leaves' shape, with the dimensions that only the descriptor has in full."""
    if kind != "offsets":
        return extent.full_shape(operands)
    *leaves, offsets = operands
    shape = extent.full_shape(leaves)
    outside = extent.full_shape([*leaves, offsets])
    return (*outside[:axis], shape[axis], *outside[axis + 1 :])


def reduce_abstract_eval(
    *avals: Any, combine: Combine, axis: int, kind: str, num_segments: int, **_: Any
) -> list[Any]:
    """The leaves with ``num_segments`` in place of the axis."""
    full = _full_shape(avals, axis, kind)
    shape = (*full[:axis], num_segments, *full[axis + 1 :])
    leaves, _descriptor = _split(avals, kind)
    dtypes = combine.result_dtypes([leaf.dtype for leaf in leaves])
    return [
        leaf.update(shape=shape, dtype=dtype, weak_type=False)
        for leaf, dtype in zip(leaves, dtypes, strict=True)
    ]


def reduce_in_plain_jax(
    *operands: jax.Array,
    combine: Combine,
    axis: int,
    kind: str,
    num_segments: int,
    method: str,
    differentiable: bool = False,
    **_: Any,
) -> list[jax.Array]:
    """The reduction in plain JAX: a scatter for the machine's operations, else a scan.

    Where it is ``differentiable`` and not by scatter, the scan is one by ``method``.
    """
    leaves, descriptor = _split(operands, kind)
    full = _full_shape(operands, axis, kind)
    narrow = combine.result_dtypes([leaf.dtype for leaf in leaves])
    wide = [
        jnp.moveaxis(jnp.broadcast_to(x, full).astype(dtype), axis, 0)
        for x, dtype in zip(leaves, combine.dtypes, strict=True)
    ]
    if kind == "whole":
        fn = functools.partial(combine, differentiable=differentiable)
        results = fallback.reduce_pairs(fn, wide, axis=0)
    else:
        numbers = segment_numbers(descriptor, axis=axis, kind=kind, n=full[axis])
        numbers = jnp.moveaxis(numbers, axis, 0)
        # JAX differentiates scattered sums and extrema. Others are differentiated as scans.
        scattered = combine.rules is None and set(combine.monoids) <= {"add", "max", "min"}
        # Rows that fit a tile may not do so with leaves as wide as they are combined.
        way = "auto" if method == "block" else method
        by_scan = way if differentiable and not scattered else None
        results = _reduce_segments(wide, numbers, combine, num_segments, by_scan)
    return [
        jnp.moveaxis(x, 0, axis).astype(dtype) for x, dtype in zip(results, narrow, strict=True)
    ]


def segment_numbers(descriptor: jax.Array, *, axis: int, kind: str, n: int) -> jax.Array:
    """The segment of each of ``n`` elements; what is dropped may have any other number."""
    if kind == "ids":
        return descriptor
    if kind == "offsets":
        ids = locate(jnp.moveaxis(descriptor, axis, -1), n=n, emit="ids")
        return jnp.moveaxis(ids, -1, axis)
    if kind == "flags":
        heads = fallback.as_bool(descriptor)
    else:
        heads = fallback.changes(descriptor, axis=axis)
    heads = heads & ~fallback.is_first(descriptor, axis=axis)
    return lax.cumsum(heads.astype(jnp.int32), axis)


def _reduce_segments(
    leaves: list[jax.Array],
    numbers: jax.Array,
    combine: Combine,
    num_segments: int,
    by_scan: str | None,
) -> list[jax.Array]:
    identity = combine.identity
    assert identity is not None
    monoids = combine.monoids
    if by_scan is None and all(map(_scatters, monoids, identity)):
        return [
            _scatter(str(name), x, numbers, i, num_segments)
            for name, x, i in zip(monoids, leaves, identity, strict=True)
        ]
    flags = fallback.changes(numbers, axis=0)
    along: dict[str, Any] = {"combine": combine, "axis": 0, "reverse": False, "exclusive": False}
    if by_scan is not None:
        scanned = primitive.scan(leaves, flags, method=by_scan, **along)
    else:
        scanned = fallback.scan(leaves, flags, used=(True,) * len(leaves), **along)
    return fallback.last_of_segments(scanned, numbers, identity, axis=0, num_segments=num_segments)


def _scatters(name: str | None, identity: np.generic) -> bool:
    """Whether a scatter reduces a leaf: into its identity, which is combined with the rest."""
    if name not in scatters.UPDATES:
        return False
    operator, _ = fallback.REDUCTIONS[name]
    return operator.takes(identity.dtype) and bool(identity == operator.identity(identity.dtype))


def _scatter(
    name: str, x: jax.Array, numbers: jax.Array, identity: Any, num_segments: int
) -> jax.Array:
    """``x`` gathered into segments along the first axis; numbers outside are dropped."""

    def one(x: jax.Array, numbers: jax.Array) -> jax.Array:
        places = fallback.places_of(numbers, num_segments)
        return scatters.scatter(name, x, places, (num_segments, *x.shape[1:]), identity)

    if all(size == 1 for size in numbers.shape[1:]):
        return one(x, numbers.reshape(numbers.shape[0]))
    rest = x.shape[1:]
    numbers = jnp.broadcast_to(numbers, x.shape)
    columns = jax.vmap(one, in_axes=1, out_axes=1)
    matrix = (x.shape[0], math.prod(rest))
    flat = columns(x.reshape(matrix), numbers.reshape(matrix))
    return flat.reshape(num_segments, *rest)


def reduce_in_kernels(
    *operands: jax.Array, kind: str, method: str, interpret: bool, **params: Any
) -> list[jax.Array]:
    """The reduction in a kernel where one can run it."""
    leaves, descriptor = _split(operands, kind)
    combine, axis, num_segments = params["combine"], params["axis"], params["num_segments"]
    full = _full_shape(operands, axis, kind)
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
    primitive.check_runs_anywhere(method)
    return reduce_in_plain_jax(*operands, method=method, **params)


def reduce_jvp(
    primals: Sequence[jax.Array], tangents: Sequence[Any], **params: Any
) -> tuple[list[jax.Array], list[Any]]:
    """A sum's tangent is the sum of tangents; others are differentiated as plain JAX."""
    combine, kind = params["combine"], params["kind"]
    if not combine.is_sum:
        return primitive.jvp_of(reduce_in_plain_jax, primals, tangents, **params)
    leaves, _ = _split(primals, kind)
    results = reduce_p.bind(*primals, **params)
    slopes: list[Any] = [
        ad.instantiate_zeros(t) if jnp.issubdtype(x.dtype, jnp.inexact) else None
        for x, t in zip(leaves, tangents, strict=False)
    ]
    moving = [i for i, t in enumerate(slopes) if t is not None]
    full = _full_shape(primals, params["axis"], kind)
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
    leaves, descriptor = _split(operands, kind)
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
        places = fallback.places_of(numbers, limit)
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
    return primitive.summed_to(spread, like)


reduce_p.def_impl(functools.partial(primitive.run, reduce_p))
reduce_p.def_abstract_eval(reduce_abstract_eval)
primitive.register_lowerings(reduce_p, reduce_in_kernels, reduce_anywhere)
batching.primitive_batchers[reduce_p] = functools.partial(primitive.batched, reduce_p)
ad.primitive_jvps[reduce_p] = reduce_jvp
ad.primitive_transposes[reduce_p] = reduce_transpose
