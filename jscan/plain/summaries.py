"""Elements that are made of data, in memory, and reduced there."""

from __future__ import annotations

from typing import Any

import jax
import numpy as np

from jscan import primitives
from jscan.made import SUMMARIES, combine_of, made


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
    how: dict[str, Any] = {"axis": axis, "num_segments": num_segments, "method": method}
    joined = SUMMARIES[summary].joined
    if joined is not None:
        # XLA has reductions for each of two, and none for both.
        how["dtype"] = dtype
        [total] = summary_by_reduction(data, *operands, summary=joined.first, **how)
        given = data, total.astype(dtype), *operands
        return [total, *summary_by_reduction(*given, summary=joined.then, **how)]
    *values, ids = operands
    spread = [primitives.spread(value, ids, axis=axis) for value in values]
    elements = made(data, spread, name=summary, dtype=dtype, axis=axis)
    combine = combine_of(summary, dtype)
    return primitives.reduce(elements, ids, combine=combine, kind="ids", exact=True, **how)
