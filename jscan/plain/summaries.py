"""Elements that are made of data, in memory, and reduced there."""

from __future__ import annotations

from typing import Any

import jax
import numpy as np

from jscan import primitives
from jscan.made import combine_of, made


def summary_by_reduction(
    data: jax.Array,
    *operands: jax.Array,
    summary: str,
    dtype: np.dtype,
    axis: int,
    num_segments: int,
    method: str,
    **_: Any,
) -> list[jax.Array]:
    """The results of ``summary_p``, by ``spread_p`` and ``reduce_p``."""
    *values, ids = operands
    spread = [primitives.spread(value, ids, axis=axis) for value in values]
    return primitives.reduce(
        made(data, spread, name=summary, dtype=dtype, axis=axis),
        ids,
        combine=combine_of(summary, dtype),
        axis=axis,
        kind="ids",
        num_segments=num_segments,
        method=method,
        exact=True,
    )
