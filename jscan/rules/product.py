"""The rules of ``product_p``.

By sums it is linear in the entries and in the elements, so that a tangent is two products more. By
other pairs, and to be transposed, it is the products in memory and ``reduce_p``: JAX knows what
becomes of a gather.
"""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from typing import Any

import jax
import numpy as np
from jax.core import ShapedArray

from jscan import extent, pairs
from jscan.combine import accumulation_dtype
from jscan.derivatives import transposition
from jscan.derivatives.tangents import Tangent, is_moving, jvp_of, zero_of
from jscan.multiplication import Operands, product_p
from jscan.plain.products import (
    product_across,
    product_by_reduction,
    product_in_plain_jax,
    product_on_cpu,
    product_uneven,
    products,
)
from jscan.plain.reduce import segment_numbers
from jscan.primitives import AxisName
from jscan.rules import base, partition
from jscan.rules.reduce import reduce_in_kernels

SHARED = 16
"""Up to so many lanes share the search of their rows; for more it is cheaper to be made once."""


def product_abstract_eval(
    *avals: ShapedArray,
    axis: int,
    num_segments: int,
    dtype: np.dtype,
    axis_name: AxisName,
    **_: Any,
) -> list[ShapedArray]:
    """The products with ``num_segments`` in place of the axis; no device has another result."""
    given = Operands.of(avals)
    full = given.full_shape(axis)
    shape = (*full[:axis], num_segments, *full[axis + 1 :])
    first = extent.alike_across(given.columns, axis_name)
    return [first.update(shape=shape, dtype=dtype, weak_type=False)]


def product_in_kernels(
    *operands: jax.Array,
    pair: str,
    axis: int,
    num_segments: int,
    dtype: np.dtype,
    interpret: bool,
    tile: Hashable,
    **_: Any,
) -> list[jax.Array]:
    """The same by kernels that multiply as they reduce."""
    given = Operands.of(operands)
    how: dict[str, Any] = {"pair": pair, "axis": axis, "dtype": dtype}
    full, dense = given.full_shape(axis), given.dense
    if 0 in (*full, num_segments, dense.shape[axis]):
        return product_in_plain_jax(*operands, num_segments=num_segments, **how)
    # Pallas takes seconds to import, and only GPU programs need it.
    from jscan import kernels

    how |= {"num_segments": num_segments, "interpret": interpret, "tile": tile}
    if dense.size >= extent.FAR:
        # A kernel counts the places that it reads in 32 bits.
        made = products(*given[:-1], pair=pair, axis=axis, dtype=dtype)
        combine = pairs.combine_of(pair, dtype)
        del how["pair"], how["dtype"]
        reduced = {"combine": combine, "kind": "offsets", "method": "auto", "exact": True, **how}
        [result] = reduce_in_kernels(made, given.offsets, **reduced)
        return [result.astype(dtype)]
    reason = kernels.why_no_product(*given, **how)
    if reason is not None:
        raise base.NoKernel(reason)
    bounds, kind = given.offsets, "offsets"
    apart = any(size > 1 for size in bounds.shape[axis + 1 :])
    lanes = np.prod(full[axis + 1 :], dtype=np.int64)
    if apart or lanes > SHARED or max(bounds.size, full[axis]) >= extent.FAR:
        bounds, kind = segment_numbers(bounds, axis=axis, kind=kind, n=full[axis]), "ids"
    return kernels.product(*given[:-1], bounds, kind=kind, **how)


def product_jvp(
    primals: Sequence[jax.Array],
    tangents: Sequence[Tangent],
    *,
    pair: str,
    dtype: np.dtype,
    **params: Any,
) -> tuple[list[jax.Array], list[Tangent]]:
    """The sum of the products with each tangent, or the tangents of plain JAX."""
    params |= {"pair": pair}
    if not pairs.combine_of(pair, dtype).is_sum and any(map(is_moving, tangents)):
        return jvp_of(product_by_reduction, primals, tangents, dtype=dtype, **params)
    [result] = product_p.bind(*primals, dtype=dtype, **params)
    slopes: list[jax.Array] = []
    for i, tangent in enumerate(tangents):
        if not is_moving(tangent):
            continue
        operands = extent.vary_alike([*primals[:i], tangent, *primals[i + 1 :]])
        slopes += product_p.bind(*operands, dtype=accumulation_dtype(dtype), **params)
    if not slopes:
        return [result], [zero_of(result)]
    first, *others = slopes
    return [result], [sum(others, start=first).astype(dtype)]


def product_transpose(
    cotangents: Sequence[Tangent], *operands: Any, pair: str, dtype: np.dtype, **params: Any
) -> list[Any]:
    """The cotangents of entries, by a gather, or of elements, by a scatter."""
    moving = transposition.undefined(operands)
    combine = pairs.combine_of(pair, dtype)
    transposition.check_linear("product", combine, (0,), (0,), identity=True)

    def reduced(*moved: Any) -> list[jax.Array]:
        _, directions = transposition.at_zero(operands, moving, moved)
        return product_by_reduction(*directions, pair=pair, dtype=dtype, **params)

    return transposition.transposed(reduced, cotangents, operands, [dtype] * len(operands))


def product_dimensions(
    operands: Sequence[ShapedArray], results: Sequence[ShapedArray], *, axis: int, **_: Any
) -> partition.Dimensions:
    """Those of entries and columns; elements and offsets are whole along the axis everywhere."""
    return partition.reduced(axis, operands, results, len(operands) - 2)


base.register(
    product_p,
    name="product",
    abstract_eval=product_abstract_eval,
    plain=product_in_plain_jax,
    on_cpu=product_on_cpu,
    across=product_across,
    uneven=product_uneven,
    in_kernels=product_in_kernels,
    dimensions=product_dimensions,
    jvp=product_jvp,
    transpose=product_transpose,
)
