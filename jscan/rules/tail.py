"""The rules of ``tail_p``. Only lowerings bind it, so that it has no derivative."""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from typing import Any

import jax
import jax.numpy as jnp
from jax.core import ShapedArray

from jscan import extent
from jscan.combine import Combine
from jscan.plain.tails import tail_in_plain_jax
from jscan.primitives import tail_p
from jscan.rules import base, partition


def tail_abstract_eval(
    *avals: ShapedArray, combine: Combine, axis: int, **_: Any
) -> list[ShapedArray]:
    """An element of each leaf for each row, and a boolean for each row of flags."""
    *leaves, flags = avals
    full = extent.full_shape(avals)
    shape = (*full[:axis], 1, *full[axis + 1 :])
    rows = (*flags.shape[:axis], 1, *flags.shape[axis + 1 :])
    totals = [
        leaf.update(shape=shape, dtype=dtype, weak_type=False)
        for leaf, dtype in zip(leaves, combine.dtypes, strict=True)
    ]
    return [*totals, flags.update(shape=rows, dtype=jnp.dtype(jnp.bool_), weak_type=False)]


def tail_in_kernels(
    *operands: jax.Array,
    combine: Combine,
    axis: int,
    reverse: bool,
    interpret: bool,
    tile: Hashable,
    **_: Any,
) -> list[jax.Array]:
    """The tail by kernels, the same for each strategy."""
    *leaves, flags = operands
    full = extent.full_shape(operands)
    if 0 in full:
        raise base.NoKernel("there is nothing to read")
    # Pallas takes seconds to import, and only GPU programs need it.
    from jscan import kernels

    leaves = extent.at_full_size(leaves, full)
    way: Any = {"combine": combine, "axis": axis, "tile": tile}
    reason = kernels.why_not(leaves, exclusive=False, method="reduce_then_scan", **way)
    if reason is not None:
        raise base.NoKernel(reason)
    return kernels.tail(leaves, flags, reverse=reverse, interpret=interpret, **way)


def tail_dimensions(
    operands: Sequence[ShapedArray], results: Sequence[ShapedArray], *, axis: int, **_: Any
) -> partition.Dimensions:
    """All but the axis, which is whole on each device."""
    return partition.but_for(axis, operands, results)


base.register(
    tail_p,
    name="scan",
    abstract_eval=tail_abstract_eval,
    plain=tail_in_plain_jax,
    in_kernels=tail_in_kernels,
    dimensions=tail_dimensions,
)
