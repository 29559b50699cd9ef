"""The rules of ``histogram_p``. Its result is an integer, so that it has no derivative."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import jax
import jax.numpy as jnp
from jax.core import ShapedArray

from jscan import extent, meshes
from jscan.plain.counts import histogram_across, histogram_in_plain_jax, histogram_on_gpu
from jscan.plain.uneven import histogram_uneven
from jscan.primitives import AxisName, histogram_p
from jscan.rules import base, partition


def histogram_abstract_eval(
    keys: ShapedArray, *, axis: int, num_keys: int, axis_name: AxisName, **_: Any
) -> list[ShapedArray]:
    """int32 with ``num_keys`` elements in place of the axis; no device has another result."""
    shape = (*keys.shape[:axis], num_keys, *keys.shape[axis + 1 :])
    like = extent.alike_across(keys, axis_name)
    return [like.update(shape=shape, dtype=jnp.dtype(jnp.int32), weak_type=False)]


def histogram_in_kernels(
    keys: jax.Array,
    *,
    axis: int,
    num_keys: int,
    layout: meshes.Layout | None,
    axis_name: AxisName,
    **params: Any,
) -> list[jax.Array]:
    """The counts of few numbers."""
    # Pallas takes seconds to import, and only GPU programs need it.
    from jscan.kernels import counting, tuning

    del layout, axis_name
    n, inner = keys.shape[axis], math.prod(keys.shape[axis + 1 :])
    if 0 in keys.shape or n >= extent.FAR or not tuning.suits_counts(n, inner, num_keys):
        raise base.NoKernel("a kernel counts few numbers among many keys")
    return [counting.histogram(keys, axis=axis, num_keys=num_keys, **params)]


def histogram_dimensions(
    operands: Sequence[ShapedArray], results: Sequence[ShapedArray], *, axis: int, **_: Any
) -> partition.Dimensions:
    """Those of the keys; the counts are whole along the axis on each device."""
    return partition.reduced(axis, operands, results, 1)


base.register(
    histogram_p,
    name="histogram",
    abstract_eval=histogram_abstract_eval,
    plain=histogram_in_plain_jax,
    across=histogram_across,
    uneven=histogram_uneven,
    on_gpu=histogram_on_gpu,
    in_kernels=histogram_in_kernels,
    dimensions=histogram_dimensions,
)
