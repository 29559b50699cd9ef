"""From checked leaves to a primitive for elementwise operators, else to plain JAX."""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Callable, Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

from jscan import checks, heads, identities, meshes, primitives
from jscan.combine import Combine, accumulation_dtype, checked, trace
from jscan.operators import Operator
from jscan.plain import reduce as plain
from jscan.plain.scan import scan_general


def scan(
    caller: str,
    fn: Callable[[Any, Any], Any],
    leaves: Sequence[jax.Array],
    treedef: jax.tree_util.PyTreeDef,
    *,
    axis: int,
    reverse: bool,
    exclusive: bool,
    identity: Sequence[Any] | None,
    segments: Any,
    method: str,
) -> list[jax.Array]:
    """Scan ``leaves`` along ``axis``, which counts from 0; errors name ``caller``.

    ``identity`` has a value for each leaf, in the accumulation dtypes: NumPy scalars, or arrays
    where it is traced or has a shape. An ``Operator`` needs none, any other exclusive scan does.
    """
    given = identity
    identity, combine = _combine(caller, fn, leaves, treedef, axis, identity, needed=exclusive)
    flags = checks.flags_for(caller, segments, leaves, axis, elementwise=combine is not None)
    if combine is None:
        _check_plain(caller, method)
        ends = identity if exclusive else None
        called = checked(caller, fn, leaves, treedef)
        with meshes.entered(leaves):
            return scan_general(
                called, leaves, treedef, flags, axis=axis, reverse=reverse, identity=ends
            )
    # A kernel combines the identity with what follows, which has to be as if it were not there.
    static = combine.identity is not None and (given is None or identities.is_proved(combine))
    if given is not None and not (static and exclusive):
        combine = dataclasses.replace(combine, identity=None)

    def run(leaves: Sequence[jax.Array], flags: jax.Array | None, identity: Any) -> list[jax.Array]:
        results = primitives.scan(
            leaves,
            flags,
            combine=combine,
            axis=axis,
            reverse=reverse,
            exclusive=exclusive and static,
            method=method,
        )
        if static or not exclusive or identity is None:
            return results
        starts = None
        if flags is not None:
            starts = heads.segment_starts(flags, axis=axis, reverse=reverse)
        return heads.shift(results, starts, identity, axis=axis, reverse=reverse)

    like = [*leaves] if flags is None else [*leaves, flags]
    results: list[jax.Array] = meshes.automatically(run, leaves, flags, identity, like=like)
    return results


def reduce(
    caller: str,
    fn: Callable[[Any, Any], Any],
    leaves: Sequence[jax.Array],
    treedef: jax.tree_util.PyTreeDef,
    *,
    axis: int,
    identity: Sequence[Any] | None,
    segments: Any,
    num_segments: int | None,
    method: str,
) -> list[jax.Array]:
    """Reduce ``leaves`` along ``axis``, which counts from 0; errors name ``caller``.

    ``identity`` is as for `scan`. Without ``segments`` the axis is gone from the results.
    """
    given = identity
    by_segments = segments is not None
    identity, combine = _combine(caller, fn, leaves, treedef, axis, identity, needed=by_segments)
    if segments is None:
        return _reduce_whole(
            caller, fn, leaves, treedef, combine, axis=axis, identity=identity, method=method
        )
    assert num_segments is not None
    static = combine is not None and combine.identity is not None
    if static and given is not None and method == "reduce_then_scan":
        # Parts in which no segment begins hold the identity, which is combined with others.
        static = identities.is_proved(combine)
    if combine is None or not static:
        # An identity that is traced, or an array, is no part of a static operator.
        scanned = scan(
            caller,
            fn,
            leaves,
            treedef,
            axis=axis,
            reverse=False,
            exclusive=False,
            identity=given,
            segments=segments,
            method=method,
        )
        kind, descriptor = checks.descriptor_for(
            caller, segments, leaves, axis, elementwise=combine is not None
        )
        n = leaves[0].shape[axis]

        def last(scanned: Any, descriptor: jax.Array, identity: Any) -> list[jax.Array]:
            numbers = plain.segment_numbers(descriptor, axis=axis, kind=kind, n=n)
            return plain.last_of_segments(
                scanned, numbers, identity, axis=axis, num_segments=num_segments
            )

        totals: list[jax.Array] = meshes.automatically(
            last, scanned, descriptor, identity, like=scanned, dimensions=meshes.instead_of(axis)
        )
        return totals
    kind, descriptor = checks.descriptor_for(caller, segments, leaves, axis, elementwise=True)

    def run(leaves: Sequence[jax.Array], descriptor: jax.Array) -> list[jax.Array]:
        return primitives.reduce(
            leaves,
            descriptor,
            combine=combine,
            axis=axis,
            kind=kind,
            num_segments=num_segments,
            method=method,
        )

    results: list[jax.Array] = meshes.automatically(
        run, leaves, descriptor, like=leaves, dimensions=meshes.instead_of(axis)
    )
    return results


def _reduce_whole(
    caller: str,
    fn: Callable[[Any, Any], Any],
    leaves: Sequence[jax.Array],
    treedef: jax.tree_util.PyTreeDef,
    combine: Combine | None,
    *,
    axis: int,
    identity: Sequence[Any] | None,
    method: str,
) -> list[jax.Array]:
    if leaves[0].shape[axis] == 0:
        assert identity is not None
        shapes = [leaf.shape[:axis] + leaf.shape[axis + 1 :] for leaf in leaves]
        return [
            jnp.broadcast_to(jnp.asarray(value, leaf.dtype), shape)
            for value, leaf, shape in zip(identity, leaves, shapes, strict=True)
        ]
    if combine is None:
        _check_plain(caller, method)
        called = checked(caller, fn, leaves, treedef)
        with meshes.entered(leaves):
            results = plain.reduce_general(called, leaves, treedef, axis=axis)
        return [lax.squeeze(x, (axis,)) for x in results]

    def run(leaves: Sequence[jax.Array]) -> list[jax.Array]:
        if method == "auto" and plain.are_monoids(combine):
            # XLA's own reduction reads at the speed of memory.
            return plain.reduce_monoids(leaves, combine, axis=axis)
        results = primitives.reduce(
            leaves, None, combine=combine, axis=axis, kind="whole", num_segments=1, method=method
        )
        return [lax.squeeze(x, (axis,)) for x in results]

    totals: list[jax.Array] = meshes.automatically(
        run, leaves, like=leaves, dimensions=meshes.without(axis)
    )
    return totals


def _combine(
    caller: str,
    fn: Callable[[Any, Any], Any],
    leaves: Sequence[jax.Array],
    treedef: jax.tree_util.PyTreeDef,
    axis: int,
    identity: Sequence[Any] | None,
    *,
    needed: bool,
) -> tuple[Sequence[Any] | None, Combine | None]:
    """The identity, filled in for an operator of this package, and the operator as data.

    Where it is ``needed``, an identity that is not proved is tried.
    """
    if isinstance(fn, Operator) and identity is None:
        for leaf in leaves:
            if not fn.takes(leaf.dtype):
                raise TypeError(
                    f"{caller}: fn is operators.{fn.name}, which does not take elems of dtype "
                    f"{leaf.dtype}"
                )
        dtypes = tuple(leaf.dtype for leaf in leaves)
        identity = fn.identities([accumulation_dtype(dtype) for dtype in dtypes])
        if not _alike(leaves):
            return identity, None
        try:
            return identity, _trace_once(fn, treedef, dtypes)
        except (TypeError, ValueError):
            # Traced anew, by the function that was called.
            return identity, trace(fn, leaves, treedef, axis, None, caller=caller)
    # A traced identity, or one with a shape, is no part of a static operator.
    known = tuple(identity) if identity is not None and _is_static(identity) else None
    combine = trace(fn, leaves, treedef, axis, known, caller=caller)
    if needed and identity is not None and not (combine and identities.is_proved(combine)):
        identities.check(caller, fn, leaves, treedef, axis, identity)
    return identity, combine


def combine_once(operator: Operator, dtypes: tuple[Any, ...]) -> Combine:
    """An operator of this package on one leaf, or on a flat tuple of them."""
    treedef = jax.tree.structure(0 if len(dtypes) == 1 else dtypes)
    combine = _trace_once(operator, treedef, dtypes)
    assert combine is not None
    return combine


def _check_plain(caller: str, method: str) -> None:
    if method not in ("auto", "xla"):
        raise ValueError(
            f"{caller}: method={method!r} needs an operator that works element by element on "
            "leaves of one shape and closes over no traced values or arrays; use method='auto' "
            "or method='xla' for this one"
        )


def _alike(leaves: Sequence[jax.Array]) -> bool:
    return all(leaf.shape == leaves[0].shape for leaf in leaves)


def _is_static(identity: Sequence[Any]) -> bool:
    return all(isinstance(value, np.generic) for value in identity)


@functools.lru_cache(maxsize=256)
def _trace_once(
    operator: Operator, treedef: jax.tree_util.PyTreeDef, dtypes: tuple[Any, ...]
) -> Combine | None:
    """An operator of this package, which cannot change between calls, with its identity."""
    identity = operator.identities([accumulation_dtype(dtype) for dtype in dtypes])
    leaves = [jax.ShapeDtypeStruct((1,), dtype) for dtype in dtypes]
    return trace(operator, leaves, treedef, 0, identity)
