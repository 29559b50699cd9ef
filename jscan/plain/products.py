"""Products of sparse matrices in plain JAX: every product in memory, then a reduction."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from jscan import extent, heads, pairs, primitives
from jscan.combine import accumulation_dtype
from jscan.multiplication import Operands, product, product_p
from jscan.plain.across import combined_across, of_this_part
from jscan.plain.reduce import reduce_in_plain_jax
from jscan.plain.uneven import bounds_within
from jscan.primitives import AxisName


def product_in_plain_jax(
    *operands: jax.Array,
    pair: str,
    axis: int,
    num_segments: int,
    dtype: np.dtype,
    on_cpu: bool = False,
    **_: Any,
) -> list[jax.Array]:
    """The results of ``product_p``."""
    given = Operands.of(operands)
    [result] = reduce_in_plain_jax(
        products(*given[:-1], pair=pair, axis=axis, dtype=dtype),
        given.offsets,
        combine=pairs.combine_of(pair, dtype),
        axis=axis,
        kind="offsets",
        num_segments=num_segments,
        method="auto",
        on_cpu=on_cpu,
    )
    return [result.astype(dtype)]


def product_by_reduction(
    *operands: jax.Array,
    pair: str,
    axis: int,
    num_segments: int,
    dtype: np.dtype,
    **_: Any,
) -> list[jax.Array]:
    """The same by ``reduce_p``, for JAX to differentiate."""
    given = Operands.of(operands)
    [result] = primitives.reduce(
        [products(*given[:-1], pair=pair, axis=axis, dtype=dtype)],
        given.offsets,
        combine=pairs.combine_of(pair, dtype),
        axis=axis,
        kind="offsets",
        num_segments=num_segments,
        method="auto",
    )
    return [result.astype(dtype)]


def products(
    entries: Sequence[jax.Array],
    columns: jax.Array,
    dense: jax.Array,
    *,
    pair: str,
    axis: int,
    dtype: np.dtype,
) -> jax.Array:
    """What each entry makes of its element, the identity where there is none."""
    wide, limit = accumulation_dtype(dtype), dense.shape[axis]
    kept = (columns >= 0) & (heads.places_of(columns, limit) < limit)
    made = gathered(pairs.widened(dense, wide), columns, axis=axis)
    for entry in entries:
        made = pairs.multiplied(pair, entry, made, wide)
    identity = pairs.PAIRS[pair].add.identity(wide)
    return jnp.where(kept, made, identity)


def gathered(dense: jax.Array, columns: jax.Array, *, axis: int) -> jax.Array:
    """The elements of each column along an axis, zero where there is none."""
    full = extent.shape_along(axis, columns, dense)
    limit = dense.shape[axis]
    if limit == 0:
        return jnp.zeros(full, dense.dtype)
    places = heads.places_of(columns, limit)
    zero: dict[str, Any] = {"mode": "fill", "fill_value": 0}
    if places.size == places.shape[axis]:
        return jnp.take(dense, places.reshape(-1), axis, **zero)
    dense = jnp.broadcast_to(dense, (*full[:axis], limit, *full[axis + 1 :]))
    return jnp.take_along_axis(dense, jnp.broadcast_to(places, full), axis, **zero)


def product_across(
    *operands: jax.Array,
    pair: str,
    axis: int,
    num_segments: int,
    dtype: np.dtype,
    axis_name: AxisName,
    **_: Any,
) -> list[jax.Array]:
    """The results of ``product_p``, the same on every device."""
    given = Operands.of(operands)
    n = given.columns.shape[axis]
    if n:
        offsets = of_this_part(given.offsets, "offsets", axis_name, axis=axis, n=n)[1]
        given = given._replace(offsets=offsets)
    total = product(
        given,
        pair=pair,
        axis=axis,
        num_segments=num_segments,
        dtype=accumulation_dtype(dtype),
    )
    [result] = combined_across([total], pairs.combine_of(pair, dtype), axis_name)
    return [result.astype(dtype)]


def product_uneven(
    *operands: jax.Array, length: int, axis_name: AxisName, **params: Any
) -> list[jax.Array]:
    """The same where the entries of the last devices end before their parts do."""
    *given, offsets = operands
    results: list[jax.Array] = product_p.bind(
        *given, bounds_within(offsets, length), axis_name=axis_name, **params
    )
    return results
