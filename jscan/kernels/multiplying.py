"""Products of sparse matrices: what makes an element of an entry, and the reduction of elements."""

from __future__ import annotations

import functools
from collections.abc import Sequence

import jax
import numpy as np
from jax.extend import core

from jscan import extent, pairs
from jscan.combine import accumulation_dtype
from jscan.kernels import engines, launch, reducing, refusals, tuning
from jscan.kernels.engines import Engine
from jscan.kernels.operator import Inexpressible, prepared_function, trace_scalars


def why_no_product(
    entries: Sequence[jax.Array],
    columns: jax.Array,
    dense: jax.Array,
    bounds: jax.Array,
    *,
    pair: str,
    axis: int,
    num_segments: int,
    dtype: np.dtype,
    interpret: bool,
    tile: tuning.Tuning | None,
) -> str | None:
    """Why no kernel can make these products and reduce them; None if one can."""
    del num_segments, interpret
    reason = launch.why_not_dtypes([*entries, dense])
    if reason is not None:
        return reason
    try:
        _function([*entries, dense], pair, dtype)
    except Inexpressible as error:
        return str(error)
    full = extent.shape_along(axis, columns, *entries, dense, bounds)
    return refusals.why_not(
        [jax.ShapeDtypeStruct(full, dtype)],
        combine=pairs.combine_of(pair, dtype),
        axis=axis,
        exclusive=False,
        method="auto",
        tile=tile,
    )


def product(
    entries: Sequence[jax.Array],
    columns: jax.Array,
    dense: jax.Array,
    bounds: jax.Array,
    *,
    kind: str,
    pair: str,
    axis: int,
    num_segments: int,
    dtype: np.dtype,
    interpret: bool,
    tile: tuning.Tuning | None,
) -> list[jax.Array]:
    """The elements that entries make, reduced row by row.

    ``bounds`` are offsets or, by their ``kind``, the number of each entry's row. Runs where
    `why_no_product` finds nothing to object to, on arrays that have elements.
    """
    made = reducing.Made(
        _function([*entries, dense], pair, dtype),
        launch.readable([dense]),
        [jax.ShapeDtypeStruct(extent.shape_along(axis, columns, *entries, dense, bounds), dtype)],
    )
    return reducing.reduce(
        [*entries, launch.signed(launch.whole_bytes(columns))],
        bounds,
        made=made,
        combine=pairs.combine_of(pair, dtype),
        axis=axis,
        kind=kind,
        num_segments=num_segments,
        method="auto",
        interpret=interpret,
        tile=tile,
    )


def _function(operands: Sequence[jax.Array], pair: str, dtype: np.dtype) -> core.ClosedJaxpr:
    """The product of real scalars. Raises `Inexpressible`."""
    dtypes = tuple(np.dtype(x.dtype) for x in operands)
    return _prepared(pair, np.dtype(dtype), dtypes, engines.running())


@functools.lru_cache(maxsize=256)
def _prepared(
    pair: str, dtype: np.dtype, dtypes: tuple[np.dtype, ...], engine: Engine
) -> core.ClosedJaxpr:
    wide = accumulation_dtype(dtype)

    def made(*operands: jax.Array) -> jax.Array:
        *entry, element = operands
        if not entry:
            return pairs.widened(element, wide)
        return pairs.multiplied(pair, entry[0], element, wide)

    return prepared_function(trace_scalars(made, dtypes), "the product", engine)
