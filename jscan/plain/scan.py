"""Scans in plain JAX, on ``lax.associative_scan``. They run where no kernel does."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, TypeAlias

import jax
import jax.numpy as jnp
from jax import lax

from jscan import extent, heads, meshes
from jscan.arguments.identity import Neutral
from jscan.combine import Combine, accumulation_dtype
from jscan.primitives import joined, parted
from jscan.starts import Start, of_scan

Combination: TypeAlias = Callable[[list[jax.Array], list[jax.Array]], list[jax.Array]]
"""An operator on flat lists of leaves: what is on the left and on the right, combined."""

Inclusive: TypeAlias = Callable[..., list[jax.Array]]
"""A way to scan inclusively, called as `scan_from` is."""


def scan_in_plain_jax(
    *operands: jax.Array,
    combine: Combine,
    axis: int,
    reverse: bool,
    exclusive: bool,
    segmented: bool,
    used: Sequence[bool],
    differentiable: bool = False,
    start: Sequence[jax.Array] | None = None,
    start_open: jax.Array | None = None,
    by: Inclusive | None = None,
    **_: Any,
) -> list[jax.Array]:
    """The results of ``scan_p``; what `jscan.starts` says of a start holds for these, too."""
    leaves, flags = parted(operands, segmented)
    before = Start.of(start, start_open)
    shape = extent.full_shape([*operands, *([] if before is None else before.arrays)])
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
        start=before,
        by=by,
    )
    return [
        lax.convert_element_type(result, dtype)
        for result, dtype, is_used in zip(results, narrow, used, strict=True)
        if is_used
    ]


def scan_plainly(
    *operands: jax.Array, combine: Combine, segmented: bool, started: bool, **params: Any
) -> list[jax.Array]:
    """The results of ``scan_p``, of all of its operands."""
    given = of_scan(operands, combine=combine, segmented=segmented, started=started)
    whole = joined(given.leaves, given.flags)
    start: dict[str, Any] = {"start": given.values or None, "start_open": given.open}
    return scan_in_plain_jax(*whole, combine=combine, segmented=segmented, **start, **params)


def scan_general(
    fn: Callable[[Any, Any], Any],
    leaves: Sequence[jax.Array],
    treedef: jax.tree_util.PyTreeDef,
    flags: jax.Array | None,
    *,
    axis: int,
    reverse: bool,
    identity: Sequence[Neutral] | None,
    start: Start | None = None,
) -> list[jax.Array]:
    """Scan with an operator on whole arrays, called as ``lax.associative_scan`` would call it.

    ``flags`` covers the leading dimensions of every leaf, with their sizes or 1. Where ``identity``
    is given the scan is exclusive. It may have a ``start``.
    """
    wide = [lax.convert_element_type(x, accumulation_dtype(x.dtype)) for x in leaves]
    flat = flattened(fn, leaves, treedef)
    how: dict[str, Any] = {"axis": axis, "reverse": reverse, "identity": identity}
    results = scan_flat(flat, wide, flags, start=start, **how)
    return [
        lax.convert_element_type(result, leaf.dtype)
        for result, leaf in zip(results, leaves, strict=True)
    ]


def flattened(
    fn: Callable[[Any, Any], Any],
    leaves: Sequence[jax.Array],
    treedef: jax.tree_util.PyTreeDef,
) -> Combination:
    """A user's operator as one on lists of leaves, which stay in their accumulation dtypes."""

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
    fn: Combination,
    leaves: list[jax.Array],
    flags: jax.Array | None,
    *,
    axis: int,
    reverse: bool,
    identity: Sequence[Neutral] | None,
    start: Start | None = None,
    by: Inclusive | None = None,
) -> list[jax.Array]:
    """Scan leaves of accumulation dtypes, by `scan_from` unless it is told how.

    The scan is segmented if there are head ``flags``, and exclusive if there is an ``identity``.
    """
    if leaves[0].shape[axis] == 0:
        return list(leaves)
    placed, leaves = leaves, [meshes.gather(x, axis) for x in leaves]
    starts = None if flags is None else heads.segment_starts(flags, axis=axis, reverse=reverse)
    where: dict[str, Any] = {"axis": axis, "reverse": reverse}
    reaches = None if start is None else start.reaches(flags, **where)
    if start is not None:
        leaves = start.joined(fn, leaves, reaches, **where)
    inclusive = (by or scan_from)(fn, leaves, starts, **where)
    if identity is not None:
        inclusive = heads.shift(inclusive, starts, identity, **where)
    if start is not None and identity is not None:
        inclusive = start.shown(inclusive, reaches, **where)
    return [meshes.place_like(result, x) for result, x in zip(inclusive, placed, strict=True)]


def scan_from(
    fn: Combination,
    leaves: list[jax.Array],
    starts: jax.Array | None,
    *,
    axis: int,
    reverse: bool,
) -> list[jax.Array]:
    """Scan inclusively, and restart at ``starts``, if there are any."""
    if starts is None:
        whole: list[jax.Array] = lax.associative_scan(fn, leaves, reverse=reverse, axis=axis)
        return whole

    # Schwartz's transform: (fx, x) + (fy, y) = (fx or fy, y if fy else x + y). Where fy is set the
    # operator is applied across a head, and its result is thrown away. But its derivative may be
    # infinite or NaN there, which times zero is not zero, so the operator is applied to ones.
    def flag_value(left: list[jax.Array], right: list[jax.Array]) -> list[jax.Array]:
        (fx, *xs), (fy, *ys) = left, right
        apart = [[heads.choose(fy, lax.full_like(v, 1), v) for v in side] for side in (xs, ys)]
        return [
            lax.bitwise_or(fx, fy),
            *(heads.choose(fy, y, r) for y, r in zip(ys, fn(*apart), strict=True)),
        ]

    _, *values = lax.associative_scan(flag_value, [starts, *leaves], reverse=reverse, axis=axis)
    return values
