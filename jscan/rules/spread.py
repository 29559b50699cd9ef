"""The rules of ``spread_p``."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax.core import ShapedArray
from jax.interpreters import ad

from jscan import extent, heads, primitives
from jscan.derivatives import recurrence
from jscan.derivatives.tangents import Tangent, summed_to, zero_of
from jscan.primitives import spread_p
from jscan.rules import base, partition


def spread_abstract_eval(
    values: ShapedArray, numbers: ShapedArray, *, axis: int, **_: Any
) -> list[ShapedArray]:
    """The values, with as many along the axis as there are numbers."""
    shape = extent.shape_along(axis, numbers, values)
    return [values.update(shape=shape, weak_type=False)]


def spread_in_plain_jax(
    values: jax.Array, numbers: jax.Array, *, axis: int, **_: Any
) -> list[jax.Array]:
    """The values by a gather, which moves nothing where all devices have all values."""
    full = extent.shape_along(axis, numbers, values)
    limit = values.shape[axis]
    if limit == 0:
        return [jnp.zeros(full, values.dtype)]
    values = jnp.broadcast_to(values, (*full[:axis], limit, *full[axis + 1 :]))
    places = heads.places_of(numbers, limit)
    exists = jnp.broadcast_to(places < np.int32(limit), full)
    if places.size == places.shape[axis]:
        found = jnp.take(values, places.reshape(-1), axis, mode="clip")
    else:
        found = jnp.take_along_axis(values, jnp.broadcast_to(places, full), axis, mode="clip")
    # A gather that fills has a mask of its own in memory, where two share their places.
    return [jnp.where(exists, found, jnp.zeros_like(found))]


def spread_jvp(
    primals: Sequence[jax.Array], tangents: Sequence[Tangent], **params: Any
) -> tuple[list[jax.Array], list[Tangent]]:
    """The spread tangents."""
    [result] = spread_p.bind(*primals, **params)
    if isinstance(tangents[0], ad.Zero):
        return [result], [zero_of(result)]
    return [result], spread_p.bind(tangents[0], primals[1], **params)


def spread_transpose(
    cotangents: Sequence[Tangent], values: Any, numbers: jax.Array, *, axis: int, **_: Any
) -> list[Any]:
    """The sum of each segment's cotangents."""
    [cotangent] = cotangents
    if isinstance(cotangent, ad.Zero):
        return [ad.Zero(values.aval), None]
    [total] = primitives.reduce(
        [cotangent],
        numbers,
        combine=recurrence.sum_of(cotangent.dtype),
        axis=axis,
        kind="ids",
        num_segments=values.aval.shape[axis],
        method="auto",
    )
    return [summed_to(total, values.aval), None]


def spread_dimensions(
    operands: Sequence[ShapedArray], results: Sequence[ShapedArray], *, axis: int, **_: Any
) -> partition.Dimensions:
    """Those of numbers and results. Values are whole along the axis on each device."""
    values, numbers = operands
    back = partition.reduced(axis, [*results, numbers], [values], 2)
    result, own = back.operands
    return partition.Dimensions((*back.results, own), (result,), back.sizes, back.axis)


base.register(
    spread_p,
    name="spread",
    abstract_eval=spread_abstract_eval,
    plain=spread_in_plain_jax,
    across=spread_in_plain_jax,
    uneven=spread_in_plain_jax,
    in_kernels=spread_in_plain_jax,
    dimensions=spread_dimensions,
    jvp=spread_jvp,
    transpose=spread_transpose,
)
