"""From checked leaves to a scan: the primitive for elementwise operators, else plain JAX."""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from typing import Any

import jax
import numpy as np

from jscan import checks, fallback, primitive
from jscan.combine import Combine, accumulation_dtype, trace
from jscan.operators import Operator


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
    if isinstance(fn, Operator) and identity is None:
        identity = fn.identities([accumulation_dtype(leaf.dtype) for leaf in leaves])
        combine = (
            _trace_once(fn, treedef, tuple(x.dtype for x in leaves)) if _alike(leaves) else None
        )
    else:
        # A traced identity, or one with a shape, is no part of a static operator.
        known = tuple(identity) if identity is not None and _is_static(identity) else None
        combine = trace(fn, leaves, treedef, axis, known, caller=caller)
    flags = checks.flags_for(caller, segments, leaves, axis, elementwise=combine is not None)
    if combine is None:
        if method not in ("auto", "xla"):
            raise ValueError(
                f"{caller}: method={method!r} needs an operator that works element by element on "
                "leaves of one shape and closes over no traced values or arrays; use method='auto' "
                "or method='xla' for this one"
            )
        ends = identity if exclusive else None
        return fallback.scan_general(
            fn, leaves, treedef, flags, axis=axis, reverse=reverse, identity=ends
        )
    static = combine.identity is not None
    results = primitive.scan(
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
        starts = fallback.segment_starts(flags, axis=axis, reverse=reverse)
    return fallback.shift(results, starts, identity, axis=axis, reverse=reverse)


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
