"""Scans in plain JAX, on ``lax.associative_scan``: what runs where no kernel does."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

from jscan import extent, meshes, operators
from jscan.combine import Combine, accumulation_dtype
from jscan.operators import integer_limits


def scan(
    leaves: Sequence[jax.Array],
    flags: jax.Array | None,
    *,
    combine: Combine,
    axis: int,
    reverse: bool,
    exclusive: bool,
    used: Sequence[bool],
    differentiable: bool = False,
) -> list[jax.Array]:
    """Scan ``leaves``, full size or 1 in every dimension; those that ``used`` names come back."""
    operands = [*leaves] if flags is None else [*leaves, flags]
    shape = extent.full_shape(operands)
    wide = [
        lax.convert_element_type(jnp.broadcast_to(x, shape), dtype)
        for x, dtype in zip(leaves, combine.dtypes, strict=True)
    ]
    narrow = combine.result_dtypes([x.dtype for x in leaves])

    def fn(left: list[jax.Array], right: list[jax.Array]) -> list[jax.Array]:
        return combine(left, right, differentiable=differentiable)

    results = scan_flat(
        fn,
        wide,
        flags,
        axis=axis,
        reverse=reverse,
        identity=combine.identity if exclusive else None,
    )
    return [
        lax.convert_element_type(result, dtype)
        for result, dtype, is_used in zip(results, narrow, used, strict=True)
        if is_used
    ]


def scan_general(
    fn: Callable[[Any, Any], Any],
    leaves: Sequence[jax.Array],
    treedef: jax.tree_util.PyTreeDef,
    flags: jax.Array | None,
    *,
    axis: int,
    reverse: bool,
    identity: Sequence[Any] | None,
) -> list[jax.Array]:
    """Scan with an operator on whole arrays, called as ``lax.associative_scan`` would call it.

    ``flags`` covers the leading dimensions of every leaf, with their sizes or 1. Where ``identity``
    is given the scan is exclusive.
    """
    wide = [lax.convert_element_type(x, accumulation_dtype(x.dtype)) for x in leaves]
    flat = flattened(fn, leaves, treedef)
    results = scan_flat(flat, wide, flags, axis=axis, reverse=reverse, identity=identity)
    return [
        lax.convert_element_type(result, leaf.dtype)
        for result, leaf in zip(results, leaves, strict=True)
    ]


def flattened(
    fn: Callable[[Any, Any], Any],
    leaves: Sequence[jax.Array],
    treedef: jax.tree_util.PyTreeDef,
) -> Callable[[list[jax.Array], list[jax.Array]], list[jax.Array]]:
    """``fn`` on lists of leaves in their accumulation dtypes."""

    def flat(left: list[jax.Array], right: list[jax.Array]) -> list[jax.Array]:
        results = jax.tree.leaves(
            fn(jax.tree.unflatten(treedef, left), jax.tree.unflatten(treedef, right))
        )
        return [
            lax.convert_element_type(result, accumulation_dtype(leaf.dtype))
            if result.dtype == leaf.dtype
            else result
            for result, leaf in zip(results, leaves, strict=True)
        ]

    return flat


def scan_flat(
    fn: Callable[[list[jax.Array], list[jax.Array]], list[jax.Array]],
    leaves: list[jax.Array],
    flags: jax.Array | None,
    *,
    axis: int,
    reverse: bool,
    identity: Sequence[Any] | None,
) -> list[jax.Array]:
    """Scan leaves of accumulation dtypes; ``flags`` makes it segmented, ``identity`` exclusive."""
    if leaves[0].shape[axis] == 0:
        return list(leaves)
    placed, leaves = leaves, [meshes.gather(x, axis) for x in leaves]
    starts = None if flags is None else segment_starts(flags, axis=axis, reverse=reverse)
    inclusive = scan_from(fn, leaves, starts, axis=axis, reverse=reverse)
    if identity is not None:
        inclusive = shift(inclusive, starts, identity, axis=axis, reverse=reverse)
    return [meshes.place_like(result, x) for result, x in zip(inclusive, placed, strict=True)]


def scan_from(
    fn: Callable[[list[jax.Array], list[jax.Array]], list[jax.Array]],
    leaves: list[jax.Array],
    starts: jax.Array | None,
    *,
    axis: int,
    reverse: bool,
) -> list[jax.Array]:
    """Scan inclusively, anew wherever ``starts`` says."""
    if starts is None:
        whole: list[jax.Array] = lax.associative_scan(fn, leaves, reverse=reverse, axis=axis)
        return whole

    # Schwartz's transform: (fx, x) + (fy, y) = (fx or fy, y if fy else x + y). Where fy the
    # operator is applied across a head and its result thrown away. Its derivative there may be
    # infinite or NaN, which zero times does not throw away: it is applied to ones instead.
    def flag_value(left: list[jax.Array], right: list[jax.Array]) -> list[jax.Array]:
        (fx, *xs), (fy, *ys) = left, right
        apart = [[choose(fy, lax.full_like(v, 1), v) for v in side] for side in (xs, ys)]
        return [
            lax.bitwise_or(fx, fy),
            *(choose(fy, y, r) for y, r in zip(ys, fn(*apart), strict=True)),
        ]

    _, *values = lax.associative_scan(flag_value, [starts, *leaves], reverse=reverse, axis=axis)
    return values


REDUCTIONS: dict[str | None, tuple[operators.Operator, Callable[..., Any]]] = {
    "add": (operators.add, lax.add),
    "mul": (operators.mul, lax.mul),
    "max": (operators.max, lax.max),
    "min": (operators.min, lax.min),
    "and": (operators.bitwise_and, lax.bitwise_and),
    "or": (operators.bitwise_or, lax.bitwise_or),
    "xor": (operators.bitwise_xor, lax.bitwise_xor),
}
"""The operators, by primitive, that XLA reduces by itself, with their identities."""


def are_monoids(combine: Combine) -> bool:
    """Whether XLA reduces every leaf by itself."""
    return all(
        name in REDUCTIONS and REDUCTIONS[name][0].takes(dtype)
        for name, dtype in zip(combine.monoids, combine.dtypes, strict=True)
    )


def reduce_monoids(leaves: Sequence[jax.Array], combine: Combine, *, axis: int) -> list[jax.Array]:
    """Reduce each leaf by the one operation that combines it; ``axis`` is gone from the results."""
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
    """Reduce with an operator on whole arrays; results have one element along ``axis``."""
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
    fn: Callable[[list[jax.Array], list[jax.Array]], list[jax.Array]],
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
    identity: Sequence[Any],
    *,
    axis: int,
    num_segments: int,
) -> list[jax.Array]:
    """The last element of each segment of a scan, at its number along ``axis``, or the identity.

    ``numbers`` covers the leading dimensions of every leaf, with their sizes or 1. Places are
    scattered and elements gathered, since a gather is linear and a scatter to equal places is not.
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
    """Where each segment's last element is along ``axis``, or -1 where it has none."""
    n = numbers.shape[axis]
    last = segment_starts(changes(numbers, axis=axis), axis=axis, reverse=True)
    segment = jnp.where(last, places_of(numbers, num_segments), np.int32(num_segments))
    wide = n >= 2**31
    with jax.enable_x64(True) if wide else contextlib.nullcontext():
        dtype = jnp.int64 if wide else jnp.int32

        def one(segment: jax.Array) -> jax.Array:
            into = jnp.full((num_segments,), -1, dtype)
            return into.at[segment].max(lax.iota(dtype, n), mode="drop")

        by_row = jax.vmap(one)(jnp.moveaxis(segment, axis, -1).reshape(-1, n))
        rest = (*numbers.shape[:axis], *numbers.shape[axis + 1 :])
        return jnp.moveaxis(by_row.reshape(*rest, num_segments), -1, axis)


def changes(numbers: jax.Array, *, axis: int) -> jax.Array:
    """Head flags of runs of equal numbers."""
    return lax.ne(numbers, before(numbers, axis=axis)) | is_first(numbers, axis=axis)


def before(x: jax.Array, *, axis: int) -> jax.Array:
    """The element before each one, and zero before the first.

    A pad becomes part of the loop that uses it. A concatenation of bytes is a kernel of its own, at
    a tenth of copy speed (H200, 2026-11-22).
    """
    if x.shape[axis] == 0:
        return x
    ends = [(1, -1, 0) if d == axis else (0, 0, 0) for d in range(x.ndim)]
    return lax.pad(x, np.zeros((), x.dtype)[()], ends)


def is_first(x: jax.Array, *, axis: int) -> jax.Array:
    """Which elements are the first ones along ``axis``."""
    if x.shape[axis] >= 2**31:  # an index in 32 bits would come round to 0 again
        return before(lax.full(x.shape, np.uint8(1)), axis=axis) == np.uint8(0)
    return lax.broadcasted_iota(jnp.int32, x.shape, axis) == np.int32(0)


def places_of(numbers: jax.Array, num_segments: int) -> jax.Array:
    """Segment numbers as indices in int32: what is out of range is ``num_segments``.

    An index beyond the end is dropped by a scatter, one before the start counts from the end.
    """
    limit = min(num_segments, int(integer_limits(numbers.dtype).max))
    inside = (numbers >= 0) & (numbers < np.asarray(limit, numbers.dtype))
    if limit < num_segments:
        inside = numbers >= 0
    return jnp.where(inside, numbers.astype(jnp.int32), np.int32(num_segments))


def shift(
    inclusive: Sequence[jax.Array],
    starts: jax.Array | None,
    identity: Sequence[Any],
    *,
    axis: int,
    reverse: bool,
) -> list[jax.Array]:
    """The exclusive scan from the inclusive one: results move on, starts get ``identity``."""
    results = []
    for given, value in zip(inclusive, identity, strict=True):
        if given.shape[axis] == 0:
            results.append(given)
            continue
        x = meshes.gather(given, axis)
        element = value if isinstance(value, np.generic) else jnp.asarray(value)
        element = element.astype(x.dtype)
        shifted = shift_one(x, element, axis=axis, reverse=reverse)
        if starts is not None:
            first = spread_element(element, x, axis)
            shifted = choose(
                starts, meshes.broadcast(first, x.shape, jax.typeof(x).sharding), shifted
            )
        results.append(meshes.place_like(shifted, given))
    return results


def shift_one(x: jax.Array, element: jax.Array, *, axis: int, reverse: bool) -> jax.Array:
    """``x`` moved on by one place along ``axis``, with ``element`` in the place left free."""
    # jax cannot transpose a pad of which only the padding value is differentiated.
    if element.ndim == 0 and not isinstance(element, jax.core.Tracer):
        ends = (-1, 1, 0) if reverse else (1, -1, 0)
        return lax.pad(x, element, [ends if d == axis else (0, 0, 0) for d in range(x.ndim)])
    first = spread_element(element, x, axis)
    if reverse:
        parts = [lax.slice_in_dim(x, 1, None, axis=axis), first]
    else:
        parts = [first, lax.slice_in_dim(x, 0, -1, axis=axis)]
    return lax.concatenate(parts, dimension=axis)


def spread_element(element: jax.Array, x: jax.Array, axis: int) -> jax.Array:
    """A slice of ``x`` of length 1, filled with ``element``, which broadcasts to one element."""
    first = lax.slice_in_dim(x, 0, 1, axis=axis)
    if element.ndim == 0:
        return lax.full_like(first, element)
    shape = x.shape[:axis] + x.shape[axis + 1 :]
    row = lax.expand_dims(jnp.broadcast_to(element, shape), (axis,))
    return meshes.place_like(row, first)


def as_bool(flags: jax.Array) -> jax.Array:
    """Flags of any integer dtype, of which every value but zero counts, as booleans."""
    return flags if flags.dtype == jnp.bool_ else lax.ne(flags, lax.full_like(flags, 0))


def segment_starts(flags: jax.Array, *, axis: int, reverse: bool) -> jax.Array:
    """Where the scan restarts: the head flags, or when reversed each segment's last element."""
    heads = as_bool(meshes.gather(flags, axis))
    if not reverse or heads.shape[axis] == 0:
        return heads
    end = lax.full_like(lax.slice_in_dim(heads, 0, 1, axis=axis), True)
    return lax.concatenate([lax.slice_in_dim(heads, 1, None, axis=axis), end], dimension=axis)


def choose(flags: jax.Array, chosen: jax.Array, other: jax.Array) -> jax.Array:
    """``chosen`` where ``flags``, else ``other``; ``flags`` may lack trailing dimensions."""
    flags = lax.expand_dims(flags, range(flags.ndim, chosen.ndim))
    return lax.select(
        meshes.broadcast(flags, other.shape, jax.typeof(other).sharding), chosen, other
    )
