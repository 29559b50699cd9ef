"""The rules of ``locate_p``. Its result is an integer or a flag, so that it has no derivative."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import jax
import jax.numpy as jnp
from jax.core import ShapedArray

from jscan import bits, extent, meshes
from jscan.plain.ranks import locate_in_plain_jax, locate_on_cpu
from jscan.primitives import locate_p
from jscan.rules import base, partition


def locate_abstract_eval(bounds: ShapedArray, *, n: int, emit: str, **_: Any) -> list[ShapedArray]:
    """``n`` elements along the last axis."""
    dtype = jnp.dtype(jnp.int32 if emit == "ids" else jnp.bool_)
    return [bounds.update(shape=(*bounds.shape[:-1], n), dtype=dtype, weak_type=False)]


def locate_in_kernels(
    bounds: jax.Array, *, n: int, emit: str, interpret: bool, **_: Any
) -> list[jax.Array]:
    """The search in a kernel, which counts positions in 32 bits; of flags, by their bits.

    Flags set in memory one by one would be filled first, a byte each, and copied.
    """
    if n == 0 or bounds.size == 0:
        raise base.NoKernel("there is nothing to locate")
    if max(n, bounds.size) >= extent.FAR:
        raise base.NoKernel("the axis is too long for 32 bits")
    # Pallas takes seconds to import, and only GPU programs need it.
    from jscan import kernels
    from jscan.kernels import locating

    if emit == "flags":
        axis = bounds.ndim - 1
        words = kernels.words_of_bounds(bounds, axis=axis, n=n, interpret=interpret)
        return [bits.unpacked(words, axis=axis, n=n)]
    return [locating.ids(bounds, n=n, interpret=interpret)]


def locate_dimensions(
    operands: Sequence[ShapedArray], results: Sequence[ShapedArray], **_: Any
) -> partition.Dimensions:
    """All but the last are those of the bounds."""
    return partition.but_for(operands[0].ndim - 1, operands, results)


def locate_batching(
    batch: Any,
    operands: Sequence[jax.Array],
    dims: Sequence[int],
    *,
    layout: meshes.Layout | None,
    **params: Any,
) -> tuple[list[jax.Array], list[int]]:
    """Bind with the batch dimension first, since bounds are located along the last."""
    if layout is not None:
        layout = layout.with_batch(0, batch.size, base.mesh_axis_of(batch))
    moved = jnp.moveaxis(operands[0], dims[0], 0)
    return locate_p.bind(moved, layout=layout, **params), [0]


base.register(
    locate_p,
    name="search",
    abstract_eval=locate_abstract_eval,
    plain=locate_in_plain_jax,
    on_cpu=locate_on_cpu,
    in_kernels=locate_in_kernels,
    dimensions=locate_dimensions,
    batch=locate_batching,
)
