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

from jscan import extent, heads, logsums, meshes, operators, primitives, ranks
from jscan.arguments.identity import Neutral
from jscan.combine import Combine, accumulation_dtype
from jscan.pairs import operator_on
from jscan.plain import scatters
from jscan.plain.ranks import last_places_on_cpu
from jscan.plain.scan import Combination, flattened, scan_in_plain_jax
from jscan.plain.sequence import counted_on_cpu, scan_on_cpu
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
    on_cpu: bool = False,
    **_: Any,
) -> list[jax.Array]:
    """The results of ``reduce_p``.

    A whole axis is reduced in pairs of neighbours, or of bits by XLA's own reduction; segments by a
    scatter if the operator is one that XLA scatters by, else by a scan. Where JAX is to
    differentiate that scan, it is a bound one by ``method``; a program for CPUs has its own.
    """
    leaves, descriptor = parted(operands, kind != "whole")
    full = full_shape(operands, axis, kind)
    narrow = combine.dtypes if exact else combine.result_dtypes([x.dtype for x in leaves])
    elements = [
        jnp.broadcast_to(x, full).astype(dtype)
        for x, dtype in zip(leaves, combine.dtypes, strict=True)
    ]
    if descriptor is not None and differentiable and not scatters_differentiably(combine):
        # Rows that fit a tile may not do so with leaves as wide as they are combined.
        way = "auto" if method == "block" else method
        how: dict[str, Any] = {"axis": axis, "kind": kind}
        numbers = segment_numbers(descriptor, n=full[axis], bound=True, **how)
        results = _by_bound_scan(
            elements, numbers, combine, axis=axis, num_segments=num_segments, method=way
        )
        return [x.astype(dtype) for x, dtype in zip(results, narrow, strict=True)]
    if descriptor is None and logsums.is_logaddexp(combine) and not differentiable:
        found = [logsums.reduced(x, axis=axis) for x in elements]
        return [x.astype(dtype) for x, dtype in zip(found, narrow, strict=True)]
    if descriptor is None:
        if are_monoids(combine) and not are_divisible(combine):
            results = reduce_monoids(elements, combine, axis=axis)
            results = [lax.expand_dims(x, (axis,)) for x in results]
        else:
            fn = functools.partial(combine, differentiable=differentiable)
            results = reduce_pairs(fn, elements, axis=axis)
        return [x.astype(dtype) for x, dtype in zip(results, narrow, strict=True)]
    wide = [jnp.moveaxis(x, axis, 0) for x in elements]
    numbers = segment_numbers(descriptor, axis=axis, kind=kind, n=full[axis], on_cpu=on_cpu)
    numbers = jnp.moveaxis(numbers, axis, 0)
    scan = functools.partial(scan_on_cpu, method=method) if on_cpu else scan_in_plain_jax
    results = _reduce_segments(wide, numbers, combine, num_segments, scan, on_cpu=on_cpu)
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


def segment_numbers(
    descriptor: jax.Array,
    *,
    axis: int,
    kind: str,
    n: int,
    bound: bool = False,
    on_cpu: bool = False,
) -> jax.Array:
    """The number of the segment of each of ``n`` elements, out of range where it is dropped.

    Outside of a lowering heads are counted by a ``bound`` primitive, which is divided among
    devices.
    """
    if kind == "ids":
        return descriptor
    if kind == "offsets":
        ids = ranks.locate(jnp.moveaxis(descriptor, axis, -1), n=n, emit="ids")
        return jnp.moveaxis(ids, -1, axis)
    as_flags = (
        heads.as_bool(descriptor) if kind == "flags" else heads.changes(descriptor, axis=axis)
    )
    behind_first = as_flags & ~heads.is_first(descriptor, axis=axis)
    if bound and n < 2**31:
        before = ranks.rank(behind_first, axis=axis, emit="number")
        return before + np.int32(1)
    counted = counted_on_cpu if on_cpu else lax.cumsum
    return counted(behind_first.astype(jnp.int32), axis=axis)


def _reduce_segments(
    leaves: list[jax.Array],
    numbers: jax.Array,
    combine: Combine,
    num_segments: int,
    scan: Callable[..., list[jax.Array]],
    *,
    on_cpu: bool,
) -> list[jax.Array]:
    """Reduce along the first axis."""
    identity = combine.identity
    assert identity is not None
    monoids = combine.monoids
    if all(map(_scatters, monoids, identity)):
        return [
            _scatter(str(name), x, numbers, i, num_segments, on_cpu)
            for name, x, i in zip(monoids, leaves, identity, strict=True)
        ]
    flags = heads.changes(numbers, axis=0)
    how: dict[str, Any] = {"combine": combine, "axis": 0, "reverse": False, "exclusive": False}
    used = (True,) * len(leaves)
    scanned = scan(*leaves, flags, segmented=True, used=used, **how)
    where: dict[str, Any] = {"axis": 0, "num_segments": num_segments}
    places = None
    if on_cpu and numbers.size and num_segments and numbers.shape[0] < extent.FAR:
        inside = heads.places_of(numbers, num_segments)
        places = last_places_on_cpu(inside, axis=0, size=num_segments)
    return last_of_segments(scanned, numbers, identity, places=places, **where)


def _by_bound_scan(
    leaves: list[jax.Array],
    numbers: jax.Array,
    combine: Combine,
    *,
    axis: int,
    num_segments: int,
    method: str,
) -> list[jax.Array]:
    """Reduce by primitives, which are differentiated and divided among devices by themselves."""
    assert combine.identity is not None
    flags = heads.changes(numbers, axis=axis)
    how: dict[str, Any] = {"reverse": False, "exclusive": False, "method": method}
    scanned = primitives.scan(leaves, flags, combine=combine, axis=axis, **how)
    where: dict[str, Any] = {"axis": axis, "num_segments": num_segments}
    places = _bound_last_places(numbers, **where)
    return last_of_segments(scanned, numbers, combine.identity, places=places, **where)


def _scatters(name: str | None, identity: np.generic) -> bool:
    """Whether a scatter reduces a leaf, which combines the elements with ``identity`` too."""
    if name not in scatters.UPDATES:
        return False
    operator, _ = REDUCTIONS[name]
    return operator.takes(identity.dtype) and bool(identity == operator.identity(identity.dtype))


def _scatter(
    name: str,
    x: jax.Array,
    numbers: jax.Array,
    identity: np.generic,
    num_segments: int,
    on_cpu: bool,
) -> jax.Array:
    """``x`` reduced into segments along the first axis, without elements that are in none."""

    def scattered(x: jax.Array, numbers: jax.Array) -> jax.Array:
        places = heads.dropped_places_of(numbers, num_segments)
        shape = (num_segments, *x.shape[1:])
        return scatters.scatter(name, x, places, shape, identity, on_cpu=on_cpu)

    if all(size == 1 for size in numbers.shape[1:]):
        return scattered(x, numbers.reshape(numbers.shape[0]))
    # A scatter for each row of numbers; what they are shared by is scattered together.
    own = [d for d in range(1, x.ndim) if numbers.shape[d] != 1]
    order = [0, *own, *(d for d in range(1, x.ndim) if d not in own)]
    moved = lax.transpose(x, order)
    n, *sizes = moved.shape
    many, shared = math.prod(sizes[: len(own)]), sizes[len(own) :]
    rows = jax.vmap(scattered, in_axes=1, out_axes=1)
    found = rows(moved.reshape(n, many, *shared), numbers.reshape(n, many))
    return lax.transpose(found.reshape(num_segments, *sizes), np.argsort(order).tolist())


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


def scatters_differentiably(combine: Combine) -> bool:
    """Whether scatters that JAX differentiates reduce all leaves: sums and extrema."""
    known = combine.identity is not None and combine.rules is None
    return known and all(
        name in ("add", "max", "min") and _scatters(name, identity)
        for name, identity in zip(combine.monoids, combine.identity or (), strict=True)
    )


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
    places: jax.Array | None = None,
) -> list[jax.Array]:
    """The last element of each segment of a scan, or the identity where a segment has none.

    ``numbers`` are those of the elements' segments, and covers the leading dimensions of every
    leaf, with their sizes or 1. Places are scattered and elements gathered, since a gather is
    linear and a scatter to equal places is not. The ``places`` may be known.
    """
    if numbers.shape[axis] == 0 or num_segments == 0:
        places = jnp.full((*numbers.shape[:axis], num_segments, *numbers.shape[axis + 1 :]), -1)
    elif places is None:
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


def _bound_last_places(numbers: jax.Array, *, axis: int, num_segments: int) -> jax.Array:
    """The same places by a primitive that is divided among devices."""
    n = numbers.shape[axis]
    wide = n >= 2**31
    with jax.enable_x64(True) if wide else contextlib.nullcontext():
        dtype = np.dtype(np.int64 if wide else np.int32)
        line = tuple(size if d == axis else 1 for d, size in enumerate(numbers.shape))
        [places] = primitives.reduce(
            [lax.broadcasted_iota(dtype, line, axis)],
            numbers,
            combine=operator_on(operators.max, dtype),  # the later of two places
            axis=axis,
            kind="ids",
            num_segments=num_segments,
            method="auto",
        )
        return places


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
