"""Reductions in plain JAX: XLA's own, scatters, pairs of neighbours, and the ends of scans."""

from __future__ import annotations

import contextlib
import functools
import math
from collections.abc import Callable, Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

from jscan import extent, heads, meshes, operators, primitives
from jscan.arguments.identity import Neutral
from jscan.combine import Combine, accumulation_dtype
from jscan.plain import scatters
from jscan.plain.scan import Combination, flattened, scan_in_plain_jax
from jscan.primitives import parted


def reduce_in_plain_jax(
    *operands: jax.Array,
    combine: Combine,
    axis: int,
    kind: str,
    num_segments: int,
    method: str,
    differentiable: bool = False,
    exact: bool = False,
    **_: Any,
) -> list[jax.Array]:
    """The results of ``reduce_p``.

    A whole axis is reduced in pairs of neighbours, or of bits by XLA's own reduction; segments by a
    scatter if the operator is one that XLA scatters by, else by a scan. Where JAX is to
    differentiate that scan, it is a bound one by ``method``.
    """
    leaves, descriptor = parted(operands, kind != "whole")
    full = full_shape(operands, axis, kind)
    narrow = combine.dtypes if exact else combine.result_dtypes([x.dtype for x in leaves])
    wide = [
        jnp.moveaxis(jnp.broadcast_to(x, full).astype(dtype), axis, 0)
        for x, dtype in zip(leaves, combine.dtypes, strict=True)
    ]
    if descriptor is None and are_monoids(combine) and not are_divisible(combine):
        results = [x[None] for x in reduce_monoids(wide, combine, axis=0)]
    elif descriptor is None:
        fn = functools.partial(combine, differentiable=differentiable)
        results = reduce_pairs(fn, wide, axis=0)
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


def full_shape(operands: Sequence[extent.Shaped], axis: int, kind: str) -> tuple[int, ...]:
    """The shape of leaves that may have some dimension in full only in their descriptor.

    Offsets have their own number of elements along the axis.
    """
    if kind != "offsets":
        return extent.full_shape(operands)
    *leaves, offsets = operands
    shape = extent.full_shape(leaves)
    outside = extent.full_shape([*leaves, offsets])
    return (*outside[:axis], shape[axis], *outside[axis + 1 :])


def segment_numbers(descriptor: jax.Array, *, axis: int, kind: str, n: int) -> jax.Array:
    """The number of the segment of each of ``n`` elements, out of range where it is dropped."""
    if kind == "ids":
        return descriptor
    if kind == "offsets":
        ids = primitives.locate(jnp.moveaxis(descriptor, axis, -1), n=n, emit="ids")
        return jnp.moveaxis(ids, -1, axis)
    as_flags = (
        heads.as_bool(descriptor) if kind == "flags" else heads.changes(descriptor, axis=axis)
    )
    behind_first = as_flags & ~heads.is_first(descriptor, axis=axis)
    return lax.cumsum(behind_first.astype(jnp.int32), axis)


def _reduce_segments(
    leaves: list[jax.Array],
    numbers: jax.Array,
    combine: Combine,
    num_segments: int,
    by_scan: str | None,
) -> list[jax.Array]:
    """Reduce along the first axis, by a scan with the method ``by_scan`` unless that is None."""
    identity = combine.identity
    assert identity is not None
    monoids = combine.monoids
    if by_scan is None and all(map(_scatters, monoids, identity)):
        return [
            _scatter(str(name), x, numbers, i, num_segments)
            for name, x, i in zip(monoids, leaves, identity, strict=True)
        ]
    flags = heads.changes(numbers, axis=0)
    along: dict[str, Any] = {"combine": combine, "axis": 0, "reverse": False, "exclusive": False}
    if by_scan is not None:
        scanned = primitives.scan(leaves, flags, method=by_scan, **along)
    else:
        scanned = scan_in_plain_jax(
            *leaves, flags, segmented=True, used=(True,) * len(leaves), **along
        )
    return last_of_segments(scanned, numbers, identity, axis=0, num_segments=num_segments)


def _scatters(name: str | None, identity: np.generic) -> bool:
    """Whether a scatter reduces a leaf, which combines the elements with ``identity`` too."""
    if name not in scatters.UPDATES:
        return False
    operator, _ = REDUCTIONS[name]
    return operator.takes(identity.dtype) and bool(identity == operator.identity(identity.dtype))


def _scatter(
    name: str, x: jax.Array, numbers: jax.Array, identity: np.generic, num_segments: int
) -> jax.Array:
    """``x`` reduced into segments along the first axis, without elements that are in none."""

    def scattered(x: jax.Array, numbers: jax.Array) -> jax.Array:
        places = heads.places_of(numbers, num_segments)
        return scatters.scatter(name, x, places, (num_segments, *x.shape[1:]), identity)

    if all(size == 1 for size in numbers.shape[1:]):
        return scattered(x, numbers.reshape(numbers.shape[0]))
    rest = x.shape[1:]
    numbers = jnp.broadcast_to(numbers, x.shape)
    columns = jax.vmap(scattered, in_axes=1, out_axes=1)
    matrix = (x.shape[0], math.prod(rest))
    flat = columns(x.reshape(matrix), numbers.reshape(matrix))
    return flat.reshape(num_segments, *rest)


REDUCTIONS: dict[str | None, tuple[operators.Operator, Callable[..., jax.Array]]] = {
    "add": (operators.add, lax.add),
    "mul": (operators.mul, lax.mul),
    "max": (operators.max, lax.max),
    "min": (operators.min, lax.min),
    "and": (operators.bitwise_and, lax.bitwise_and),
    "or": (operators.bitwise_or, lax.bitwise_or),
    "xor": (operators.bitwise_xor, lax.bitwise_xor),
}
"""Operators and XLA's own reductions by them, by the name of the primitive that combines."""


def are_monoids(combine: Combine) -> bool:
    """Whether XLA has a reduction of its own for every leaf."""
    return all(
        name in REDUCTIONS and REDUCTIONS[name][0].takes(dtype)
        for name, dtype in zip(combine.monoids, combine.dtypes, strict=True)
    )


def are_divisible(combine: Combine) -> bool:
    """Whether XLA's reductions may be of an axis that is sharded over devices.

    It has no collective that combines bits (an error on CPUs, jax 0.10 to 0.12).
    """
    return are_monoids(combine) and {*combine.monoids} <= {"add", "mul", "max", "min"}


def reduce_monoids(leaves: Sequence[jax.Array], combine: Combine, *, axis: int) -> list[jax.Array]:
    """Reduce each leaf by the one operation that combines it. The results lack ``axis``."""
    results = []
    for leaf, name, dtype in zip(leaves, combine.monoids, combine.dtypes, strict=True):
        operator, operation = REDUCTIONS[name]
        result = lax.reduce(leaf.astype(dtype), operator.identity(dtype), operation, (axis,))
        results.append(result.astype(leaf.dtype))
    return results


def reduce_general(
    fn: Callable[[Any, Any], Any],
    leaves: Sequence[jax.Array],
    treedef: jax.tree_util.PyTreeDef,
    *,
    axis: int,
) -> list[jax.Array]:
    """Reduce with an operator on whole arrays, to one element along ``axis``."""
    flat = flattened(fn, leaves, treedef)
    wide = [
        lax.convert_element_type(meshes.gather(x, axis), accumulation_dtype(x.dtype))
        for x in leaves
    ]
    results = reduce_pairs(flat, wide, axis=axis)
    return [
        lax.convert_element_type(result, leaf.dtype)
        for result, leaf in zip(results, leaves, strict=True)
    ]


def reduce_pairs(
    fn: Combination,
    leaves: list[jax.Array],
    *,
    axis: int,
) -> list[jax.Array]:
    """Combine neighbours in pairs, in order, until one element is left along ``axis``."""
    while (n := leaves[0].shape[axis]) > 1:
        even = n - n % 2
        pairs = fn(
            [lax.slice_in_dim(x, 0, even, 2, axis) for x in leaves],
            [lax.slice_in_dim(x, 1, even, 2, axis) for x in leaves],
        )
        if n % 2:
            odd = [lax.slice_in_dim(x, even, n, axis=axis) for x in leaves]
            pairs = [lax.concatenate(both, axis) for both in zip(pairs, odd, strict=True)]
        leaves = pairs
    return leaves


def last_of_segments(
    scanned: Sequence[jax.Array],
    numbers: jax.Array,
    identity: Sequence[Neutral],
    *,
    axis: int,
    num_segments: int,
) -> list[jax.Array]:
    """The last element of each segment of a scan, or the identity where a segment has none.

    ``numbers`` are those of the elements' segments, and covers the leading dimensions of every
    leaf, with their sizes or 1. Places are scattered and elements gathered, since a gather is
    linear and a scatter to equal places is not.
    """
    if numbers.shape[axis] == 0 or num_segments == 0:
        places = jnp.full((*numbers.shape[:axis], num_segments, *numbers.shape[axis + 1 :]), -1)
    else:
        places = _last_places(numbers, axis=axis, num_segments=num_segments)
    results = []
    for x, value in zip(scanned, identity, strict=True):
        shape = (*x.shape[:axis], num_segments, *x.shape[axis + 1 :])
        element = jnp.broadcast_to(
            jnp.asarray(value, x.dtype), (*x.shape[:axis], *shape[axis + 1 :])
        )
        nothing = jnp.broadcast_to(lax.expand_dims(element, (axis,)), shape)
        if x.shape[axis] == 0 or num_segments == 0:
            results.append(nothing)
            continue
        index = lax.expand_dims(places, range(places.ndim, x.ndim))
        there = jnp.broadcast_to(index >= 0, shape)
        taken = jnp.take_along_axis(x, jnp.maximum(index, 0), axis, mode="clip")
        results.append(jnp.where(there, taken, nothing))
    return results


def _last_places(numbers: jax.Array, *, axis: int, num_segments: int) -> jax.Array:
    """The place of each segment's last element along ``axis``, or -1 where it has none."""
    n = numbers.shape[axis]
    last = heads.segment_starts(heads.changes(numbers, axis=axis), axis=axis, reverse=True)
    segment = jnp.where(last, heads.places_of(numbers, num_segments), np.int32(num_segments))
    wide = n >= 2**31
    with jax.enable_x64(True) if wide else contextlib.nullcontext():
        dtype = jnp.int64 if wide else jnp.int32

        def of_row(segment: jax.Array) -> jax.Array:
            into = jnp.full((num_segments,), -1, dtype)
            return into.at[segment].max(lax.iota(dtype, n), mode="drop")

        by_row = jax.vmap(of_row)(jnp.moveaxis(segment, axis, -1).reshape(-1, n))
        rest = (*numbers.shape[:axis], *numbers.shape[axis + 1 :])
        return jnp.moveaxis(by_row.reshape(*rest, num_segments), -1, axis)
