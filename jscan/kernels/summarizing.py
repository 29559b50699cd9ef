"""Summaries: what makes an element of data in a kernel, and the reduction of elements."""

from __future__ import annotations

import functools
from typing import Any

import jax
import numpy as np
from jax.extend import core

from jscan.kernels import engines, launch, reducing, refusals
from jscan.kernels.engines import Engine
from jscan.kernels.operator import Inexpressible, prepared_function, trace_scalars
from jscan.made import SUMMARIES, combine_of


def why_not(
    data: jax.Array,
    *others: jax.Array,
    summary: str,
    dtype: np.dtype,
    full: tuple[int, ...],
    num_segments: int,
    **how: Any,
) -> str | None:
    """Why no kernel can make these elements and reduce them; None if one can."""
    del num_segments
    reason = launch.why_not_dtypes([data, *others[:-1]])
    if reason is not None:
        return reason
    try:
        _function([data, *others[:-1]], summary, dtype)
    except Inexpressible as error:
        return str(error)
    combine = combine_of(summary, dtype)
    elements = [jax.ShapeDtypeStruct(full, own) for own in combine.dtypes]
    return refusals.why_not(elements, combine=combine, exclusive=False, **how)


def summary(
    data: jax.Array,
    *others: jax.Array,
    summary: str,
    dtype: np.dtype,
    full: tuple[int, ...],
    **how: Any,
) -> list[jax.Array]:
    """The elements that data make, reduced by segments.

    Runs where `why_not` finds nothing to object to, on arrays that have elements.
    """
    *values, ids = others
    combine = combine_of(summary, dtype)
    made = reducing.Made(
        _function([data, *values], summary, dtype),
        launch.readable(values),
        [jax.ShapeDtypeStruct(full, own) for own in combine.dtypes],
        placed=True,
    )
    columns = [launch.signed(launch.whole_bytes(ids))] if values else []
    how |= {"made": made, "combine": combine, "kind": "ids", "exact": True}
    return reducing.reduce([data, *columns], ids, **how)


def _function(operands: list[jax.Array], summary: str, dtype: np.dtype) -> core.ClosedJaxpr:
    """What makes elements of scalars. Raises `Inexpressible`."""
    dtypes = tuple(np.dtype(x.dtype) for x in operands)
    return _prepared(summary, np.dtype(dtype), dtypes, engines.running())


@functools.lru_cache(maxsize=256)
def _prepared(
    summary: str, dtype: np.dtype, dtypes: tuple[np.dtype, ...], engine: Engine
) -> core.ClosedJaxpr:
    def made(x: jax.Array, place: jax.Array, *values: jax.Array) -> list[jax.Array]:
        return [*SUMMARIES[summary].make(x.astype(dtype), place, *values)]

    first, *rest = dtypes
    function = trace_scalars(made, [first, np.dtype(np.int32), *rest])
    return prepared_function(function, "the summary", engine)
