"""The rules of ``sort_p``. Who differentiates keys moves them by their places."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import jax
import jax.numpy as jnp
from jax.core import ShapedArray

from jscan import extent
from jscan.plain.sorts import sort_in_plain_jax, sort_on_gpu
from jscan.rules import base, partition
from jscan.sorting import sort_p


def sort_abstract_eval(
    numbers: ShapedArray, keys: ShapedArray, *, emit: str, **_: Any
) -> list[ShapedArray]:
    """int32, or the dtype of the keys, in the shape of both."""
    dtype = keys.dtype if emit == "keys" else jnp.dtype(jnp.int32)
    shape = extent.full_shape([numbers, keys])
    return [keys.update(shape=shape, dtype=dtype, weak_type=False)]


def sort_dimensions(
    operands: Sequence[ShapedArray], results: Sequence[ShapedArray], *, axis: int, **_: Any
) -> partition.Dimensions:
    """Those of all rows; the axis is whole on each device."""
    return partition.but_for(axis, operands, results)


def sort_in_kernels(*_operands: jax.Array, **_: Any) -> list[jax.Array]:
    """No kernel sorts."""
    raise base.NoKernel("XLA sorts")


base.register(
    sort_p,
    name="sort",
    abstract_eval=sort_abstract_eval,
    plain=sort_in_plain_jax,
    on_gpu=sort_on_gpu,
    in_kernels=sort_in_kernels,
    dimensions=sort_dimensions,
)
