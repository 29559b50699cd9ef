"""Scans: the public functions."""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from jscan import checks, combine, fallback, operators, primitive


def associative_scan(
    fn: Callable[[Any, Any], Any],
    elems: Any,
    reverse: bool = False,
    axis: int = 0,
    *,
    exclusive: bool = False,
    identity: Any = None,
    segments: Any = None,
    method: str = "auto",
) -> Any:
    caller = "jscan.associative_scan"
    checks.check_operator(caller, fn)
    checks.check_method(caller, method)
    values, treedef = jax.tree.flatten(elems)
    leaves = checks.as_arrays(caller, "elems", values)
    axis = checks.check_axis(caller, "elems", axis, leaves[0].shape)
    checks.check_lengths(caller, "elems", leaves, axis)
    reverse = checks.check_flag(caller, "reverse", reverse)
    exclusive = checks.check_flag(caller, "exclusive", exclusive)
    neutral = _identity(caller, fn, identity, treedef, leaves, exclusive)
    return jax.tree.unflatten(
        treedef,
        _scan(caller, fn, leaves, treedef, axis, reverse, exclusive, neutral, segments, method),
    )


def cumsum(
    x: Any,
    axis: int = 0,
    reverse: bool = False,
    *,
    exclusive: bool = False,
    segments: Any = None,
    method: str = "auto",
) -> jax.Array:
    return _cumulative("jscan.cumsum", operators.add, x, axis, reverse, exclusive, segments, method)


def _cumulative(
    caller: str,
    operator: operators.Operator,
    x: Any,
    axis: int,
    reverse: bool,
    exclusive: bool,
    segments: Any,
    method: str,
) -> jax.Array:
    checks.check_method(caller, method)
    array = jnp.asarray(x)
    axis = checks.check_axis(caller, "x", axis, array.shape)
    if array.dtype == jnp.bool_:
        raise TypeError(f"{caller}: x must have a numeric dtype; got bool")
    try:
        neutral = operator.identities([combine.accumulation_dtype(array.dtype)])
    except TypeError:
        raise TypeError(
            f"{caller}: x has dtype {array.dtype}, which {operator.name} does not take"
        ) from None
    return _scan(
        caller,
        operator,
        [array],
        _ONE_LEAF,
        axis,
        checks.check_flag(caller, "reverse", reverse),
        checks.check_flag(caller, "exclusive", exclusive),
        neutral,
        segments,
        method,
    )[0]


_ONE_LEAF = jax.tree.structure(0)


def _identity(
    caller: str,
    fn: Callable[[Any, Any], Any],
    identity: Any,
    treedef: jax.tree_util.PyTreeDef,
    leaves: Sequence[jax.Array],
    exclusive: bool,
) -> Sequence[Any] | None:
    """The identity's leaves, given or known; None where there is none and none is needed."""
    if identity is not None:
        return checks.identity_leaves(caller, identity, treedef, leaves)
    if isinstance(fn, operators.Operator):
        return fn.identities([combine.accumulation_dtype(leaf.dtype) for leaf in leaves])
    if exclusive:
        raise ValueError(
            f"{caller}: exclusive=True needs identity= where fn is not one of jscan.operators"
        )
    return None


def _scan(
    caller: str,
    fn: Callable[[Any, Any], Any],
    leaves: Sequence[jax.Array],
    treedef: jax.tree_util.PyTreeDef,
    axis: int,
    reverse: bool,
    exclusive: bool,
    identity: Sequence[Any] | None,
    segments: Any,
    method: str,
) -> list[jax.Array]:
    """Scan checked leaves: through the primitive where the operator is elementwise, else in plain JAX."""
    # A traced identity, or one with a shape, cannot be part of a static operator: it is shifted in afterwards.
    known = identity is not None and all(isinstance(value, np.generic) for value in identity)
    static_identity = tuple(identity) if identity is not None and known else None
    try:
        operator = _trace(fn, leaves, treedef, axis, static_identity)
    except (TypeError, ValueError) as error:
        if str(error).startswith("fn must return"):
            raise type(error)(f"{caller}: {error}") from None
        raise
    flags = checks.flags_for(caller, segments, leaves, axis, elementwise=operator is not None)
    if operator is None:
        if method not in ("auto", "xla"):
            raise ValueError(
                f"{caller}: method={method!r} needs an operator that works element by element on leaves of one shape "
                "and closes over no traced values or arrays; this one runs with method='auto' or method='xla'"
            )
        return fallback.scan_general(
            fn,
            leaves,
            treedef,
            flags,
            axis=axis,
            reverse=reverse,
            identity=identity if exclusive else None,
        )
    results = primitive.scan(
        leaves,
        flags,
        combine=operator,
        axis=axis,
        reverse=reverse,
        exclusive=exclusive and known,
        method=method,
    )
    if exclusive and not known and identity is not None:
        starts = (
            None if flags is None else fallback.segment_starts(flags, axis=axis, reverse=reverse)
        )
        return fallback.shift(results, starts, identity, axis=axis, reverse=reverse)
    return results


def _trace(
    fn: Callable[[Any, Any], Any],
    leaves: Sequence[jax.Array],
    treedef: jax.tree_util.PyTreeDef,
    axis: int,
    identity: tuple[Any, ...] | None,
) -> combine.Combine | None:
    if isinstance(fn, operators.Operator) and all(leaf.shape == leaves[0].shape for leaf in leaves):
        keys = None if identity is None else tuple((v.dtype, v.tobytes()) for v in identity)
        return _trace_operator(fn, treedef, tuple(leaf.dtype for leaf in leaves), keys)
    return combine.trace(fn, leaves, treedef, axis, identity)


@functools.lru_cache(maxsize=256)
def _trace_operator(
    operator: operators.Operator,
    treedef: jax.tree_util.PyTreeDef,
    dtypes: tuple[Any, ...],
    identity: tuple[tuple[Any, bytes], ...] | None,
) -> combine.Combine | None:
    """One of our own operators traced once per structure and dtypes; equal identities may differ in sign or NaN."""
    values = None if identity is None else tuple(np.frombuffer(b, d)[0] for d, b in identity)
    leaves = [jax.ShapeDtypeStruct((1,), dtype) for dtype in dtypes]
    return combine.trace(operator, leaves, treedef, 0, values)
