"""The rules of ``summary_p``. Where it is divided or differentiated, elements are in memory."""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from typing import Any

import jax
import numpy as np
from jax.core import ShapedArray

from jscan import extent
from jscan.derivatives.tangents import Tangent, jvp_of
from jscan.made import combine_of
from jscan.plain.summaries import summary_by_reduction
from jscan.rules import base, partition
from jscan.summaries import summary_p


def summary_abstract_eval(
    data: ShapedArray,
    *others: ShapedArray,
    summary: str,
    dtype: np.dtype,
    axis: int,
    num_segments: int,
    **_: Any,
) -> list[ShapedArray]:
    """``num_segments`` elements along the axis, for each element that is made."""
    full = extent.shape_along(axis, data, *others)
    shape = (*full[:axis], num_segments, *full[axis + 1 :])
    dtypes = combine_of(summary, dtype).dtypes
    return [data.update(shape=shape, dtype=own, weak_type=False) for own in dtypes]


def summary_in_kernels(
    data: jax.Array,
    *others: jax.Array,
    summary: str,
    dtype: np.dtype,
    axis: int,
    num_segments: int,
    method: str,
    interpret: bool,
    tile: Hashable,
    **_: Any,
) -> list[jax.Array]:
    """The same by kernels that make elements as they reduce."""
    how: dict[str, Any] = {"summary": summary, "dtype": dtype, "axis": axis, "method": method}
    how |= {"num_segments": num_segments}
    full = extent.shape_along(axis, data, *others)
    far = max([full[axis], *(x.size for x in others[:-1])]) >= extent.FAR
    if 0 in (*full, num_segments) or far:
        # A kernel counts the places of elements and values in 32 bits.
        return summary_by_reduction(data, *others, **how)
    # Pallas takes seconds to import, and only GPU programs need it.
    from jscan.kernels import summarizing

    how |= {"full": full, "tile": tile}
    reason = summarizing.why_not(data, *others, **how)
    if reason is not None:
        raise base.NoKernel(reason)
    return summarizing.summary(data, *others, interpret=interpret, **how)


def summary_jvp(
    primals: Sequence[jax.Array], tangents: Sequence[Tangent], **params: Any
) -> tuple[list[jax.Array], list[Tangent]]:
    """The tangents of the elements in memory."""
    _, slopes = jvp_of(summary_by_reduction, primals, tangents, **params)
    results: list[jax.Array] = summary_p.bind(*primals, **params)
    return results, slopes


def summary_dimensions(
    operands: Sequence[ShapedArray], results: Sequence[ShapedArray], *, axis: int, **_: Any
) -> partition.Dimensions:
    """Those of the data; its axis is whole on each device."""
    return partition.but_for(axis, operands, results)


def _in_memory(**_: Any) -> base.Form:
    return summary_by_reduction


base.register(
    summary_p,
    name="summary",
    abstract_eval=summary_abstract_eval,
    plain=summary_by_reduction,
    in_kernels=summary_in_kernels,
    dimensions=summary_dimensions,
    divisible=_in_memory,
    jvp=summary_jvp,
)
