"""The rules of ``tangent_p``."""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from typing import Any

import jax
import numpy as np
from jax.core import ShapedArray
from jax.interpreters import ad

from jscan import extent, meshes
from jscan.derivatives import transposition
from jscan.derivatives.components import Component
from jscan.derivatives.tangents import Tangent, is_moving, summed_to, zero_of
from jscan.plain.recurrence import (
    is_faster_in_sequence,
    split,
    tangent_in_chunks,
    tangent_in_plain_jax,
    tangent_in_sequence,
)
from jscan.plain.uneven import tangent_uneven
from jscan.primitives import AxisName, joined, parted, tangent_p
from jscan.rules import base, partition

BY_MATRICES = 3
"""States from which on a tree on their slopes takes a CPU's compiler longer than anything else."""


def tangent_abstract_eval(
    *avals: ShapedArray, dtypes: Sequence[np.dtype[Any]], **_: Any
) -> list[ShapedArray]:
    """The results at full size, in ``dtypes``."""
    shape = extent.full_shape(avals)
    return [avals[0].update(shape=shape, dtype=dtype, weak_type=False) for dtype in dtypes]


def tangent_in_kernels(
    *operands: jax.Array,
    component: Component,
    axis: int,
    segmented: bool,
    method: str,
    tile: Hashable,
    layout: meshes.Layout | None,
    axis_name: AxisName,
    **params: Any,
) -> list[jax.Array]:
    """The recurrence in one kernel where one can run it, else in the kernels of a scan.

    The method that was named for the scan is tried, and no error if it cannot run: a row that fits
    a tile may not fit one with the leaves of its derivative.
    """
    # Pallas takes seconds to import, and only GPU programs need it.
    from jscan import kernels

    del layout, axis_name
    known, linear, flags = split(operands, component, segmented)
    linear = extent.at_full_size(linear, extent.full_shape(operands), known)
    how: dict[str, Any] = {"component": component, "axis": axis, "tile": tile}
    for way in (method, "auto"):
        if kernels.why_no_tangent([*known, *linear], method=way, **how) is None:
            return kernels.tangent(known, linear, flags, method=way, **how, **params)
    way = "auto" if method == "block" else method
    return tangent_in_plain_jax(*operands, segmented=segmented, method=way, **how, **params)


def tangent_on_cpu(*operands: jax.Array, method: str, **params: Any) -> list[jax.Array]:
    """The recurrence in plain JAX, by what is fastest there. The method "xla" is a tree."""
    leaves, flags = parted(operands, params["segmented"])
    n = extent.full_shape(operands)[params["axis"]]
    operands = tuple(joined(extent.whole_along(params["axis"], leaves, n), flags))
    if method != "xla" and is_faster_in_sequence(*operands, **params):
        return tangent_in_sequence(*operands, **params)
    if method != "xla" and params["component"].size >= BY_MATRICES:
        return tangent_in_plain_jax(*operands, method=method, by_matrices=True, **params)
    return tangent_in_chunks(*operands, **params)


def tangent_jvp(
    primals: Sequence[jax.Array],
    tangents: Sequence[Tangent],
    *,
    component: Component,
    segmented: bool,
    **params: Any,
) -> tuple[list[jax.Array], list[Tangent]]:
    """The recurrence of the tangents that come in, and the plain form's where the known move."""
    known, linear, flags = split(primals, component, segmented)
    moved, coming, _ = split(tangents, component, segmented)
    params |= {"component": component, "segmented": segmented}
    results = tangent_p.bind(*primals, **params)
    total: list[Any] = [zero_of(x) for x in results]
    if any(type(t) is not ad.Zero for t in coming):
        filled = [ad.instantiate_zeros(t) for t in coming]
        total = tangent_p.bind(*joined([*known, *filled], flags), **params)
    moving = [i for i, t in enumerate(moved) if is_moving(t)]
    if moving:

        def of_known(*values: jax.Array) -> list[jax.Array]:
            operands = list(known)
            for i, x in zip(moving, values, strict=True):
                operands[i] = x
            full = joined([*operands, *linear], flags)
            return tangent_in_plain_jax(*full, **params, differentiable=True)

        _, slope = jax.jvp(of_known, [known[i] for i in moving], [moved[i] for i in moving])
        total = [s if type(t) is ad.Zero else t + s for t, s in zip(total, slope, strict=True)]
    return results, total


def tangent_transpose(
    cotangents: Sequence[Tangent],
    *operands: Any,
    component: Component,
    segmented: bool,
    transposed: bool,
    dtypes: Sequence[np.dtype[Any]],
    **params: Any,
) -> list[Any]:
    """The recurrence the other way in what comes in, or the plain form's transpose."""
    known, linear, flags = split(operands, component, segmented)
    params |= {"component": component, "segmented": segmented}
    if transposition.undefined(known):
        if transposition.undefined(linear):
            raise TypeError(
                "jscan: this tangent of a scan is not linear in the scan's elements and their "
                "tangents together, so it has no transpose in both"
            )
        params |= {"transposed": transposed, "dtypes": dtypes, "differentiable": True}

        def of_known(*moved: jax.Array) -> list[jax.Array]:
            _, full = transposition.at_zero(operands, transposition.undefined(operands), moved)
            return tangent_in_plain_jax(*full, **params)

        return transposition.transposed(of_known, cotangents, operands, [])
    avals = [x.aval if ad.is_undefined_primal(x) else jax.typeof(x) for x in linear]
    coming = [ad.instantiate_zeros(c) for c in cotangents]
    whole = tangent_p.bind(
        *joined([*known, *coming], flags),
        transposed=not transposed,
        dtypes=tuple(aval.dtype for aval in avals),
        **params,
    )
    back = [
        summed_to(x, aval) if ad.is_undefined_primal(given) else None
        for x, aval, given in zip(whole, avals, linear, strict=True)
    ]
    return [*[None] * len(known), *back, *[None] * segmented]


base.register(
    tangent_p,
    name="recurrence",
    abstract_eval=tangent_abstract_eval,
    plain=tangent_in_plain_jax,
    across=tangent_in_plain_jax,
    uneven=tangent_uneven,
    in_kernels=tangent_in_kernels,
    dimensions=partition.together,
    on_cpu=tangent_on_cpu,
    jvp=tangent_jvp,
    transpose=tangent_transpose,
)
