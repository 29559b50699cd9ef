"""The rules of ``rank_p``. Its result is an integer or a flag, so that it has no derivative."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import jax
import jax.numpy as jnp
from jax.core import ShapedArray

from jscan import extent, heads, meshes
from jscan.plain.across import rank_across
from jscan.plain.ranks import rank_in_plain_jax, rank_on_cpu
from jscan.plain.uneven import rank_uneven
from jscan.primitives import AxisName, rank_p
from jscan.rules import base, partition


def rank_abstract_eval(
    marks: ShapedArray,
    *_unmarked: ShapedArray,
    axis: int,
    size: int,
    emit: str,
    counted: bool,
    axis_name: AxisName,
    **_: Any,
) -> list[ShapedArray]:
    """int32, or heads, in the shape of the marks; ``size`` long along an axis that ends here.

    And how many are marked, of size 1 along it.
    """
    sizes = [marks.shape[axis] if axis_name else size, *([1] if counted else [])]
    dtypes = [jnp.dtype(jnp.bool_ if emit == "heads" else jnp.int32), jnp.dtype(jnp.int32)]
    return [
        marks.update(
            shape=(*marks.shape[:axis], length, *marks.shape[axis + 1 :]),
            dtype=dtype,
            weak_type=False,
        )
        for length, dtype in zip(sizes, dtypes, strict=False)
    ]


def rank_in_kernels(
    marks: jax.Array,
    *unmarked: jax.Array,
    axis: int,
    size: int,
    layout: meshes.Layout | None,
    axis_name: AxisName,
    **params: Any,
) -> list[jax.Array]:
    """The ranks by a kernel, which counts positions in 32 bits."""
    if marks.size == 0 or size == 0:
        raise base.NoKernel("there is nothing to rank")
    if marks.shape[axis] >= extent.FAR:
        raise base.NoKernel("the axis is too long for 32 bits")
    # Pallas takes seconds to import, and only GPU programs need it.
    from jscan.kernels import flagging, ranking

    if params["emit"] == "heads":
        return [flagging.heads_of_runs(marks, axis=axis, interpret=params["interpret"])]
    del layout, axis_name
    totals = unmarked[0] if unmarked else None
    return ranking.rank(marks, totals, axis=axis, size=size, **params)


def _heads_by_xla(marks: jax.Array, *, axis: int, **_: Any) -> list[jax.Array]:
    """Heads, of which a device asks its neighbour for one element where the axis is divided."""
    return [heads.changes(marks, axis=axis)]


def rank_divisible(*, emit: str, **_: Any) -> base.Form | None:
    """A form of heads that XLA divides."""
    return _heads_by_xla if emit == "heads" else None


def rank_dimensions(
    operands: Sequence[ShapedArray],
    results: Sequence[ShapedArray],
    *,
    axis: int,
    emit: str,
    source: str,
    **_: Any,
) -> partition.Dimensions:
    """Counts of marked elements are told part by part, and places are not."""
    if emit in ("before", "number") and source == "mask":
        return partition.together(operands, results, axis=axis)
    return partition.but_for(axis, operands, results)


base.register(
    rank_p,
    name="rank",
    abstract_eval=rank_abstract_eval,
    plain=rank_in_plain_jax,
    on_cpu=rank_on_cpu,
    across=rank_across,
    uneven=rank_uneven,
    in_kernels=rank_in_kernels,
    divisible=rank_divisible,
    dimensions=rank_dimensions,
)
