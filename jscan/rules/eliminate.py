"""The rules of ``eliminate_p``. Who differentiates a solution solves again."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import jax
from jax.core import ShapedArray

from jscan import extent, meshes
from jscan.elimination import eliminate_p
from jscan.plain.elimination import eliminate_by_factors
from jscan.primitives import AxisName
from jscan.rules import base, partition


def eliminate_abstract_eval(*operands: ShapedArray, **_: Any) -> list[ShapedArray]:
    """One element for each of the right-hand sides."""
    shape = extent.full_shape(operands)
    return [operands[3].update(shape=shape, weak_type=False)]


def eliminate_in_kernels(
    *operands: jax.Array,
    axis: int,
    transposed: bool,
    layout: meshes.Layout | None,
    axis_name: AxisName,
    **params: Any,
) -> list[jax.Array]:
    """The solutions of systems that fit a tile, if no two of them share a matrix.

    Nothing of the factors is read then, and XLA drops what computes them.
    """
    # Pallas takes seconds to import, and only GPU programs need it.
    from jscan.kernels import eliminating

    del layout, axis_name
    given, full = operands[:4], extent.full_shape(operands)
    if 0 in full:
        raise base.NoKernel("there is nothing to solve")
    if extent.full_shape(operands[:3]) != full:
        raise base.NoKernel("systems that share a matrix share its pivots")
    reason = eliminating.why_not(given, full, axis, params["tile"])
    if reason is not None:
        raise base.NoKernel(reason)
    how: dict[str, Any] = {"axis": axis, "transposed": transposed}
    return [eliminating.solve(given, full, **how, **params)]


def eliminate_dimensions(
    operands: Sequence[ShapedArray], results: Sequence[ShapedArray], *, axis: int, **_: Any
) -> partition.Dimensions:
    """Those of all systems, and of their unknowns: a device with some of them scans its part."""
    return partition.together(operands, results, axis=axis)


base.register(
    eliminate_p,
    name="elimination",
    abstract_eval=eliminate_abstract_eval,
    plain=eliminate_by_factors,
    across=eliminate_by_factors,
    uneven=eliminate_by_factors,
    in_kernels=eliminate_in_kernels,
    dimensions=eliminate_dimensions,
)
