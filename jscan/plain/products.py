"""Products of sparse matrices in plain JAX: every product in memory, then a reduction."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

from jscan import extent, heads, pairs, primitives
from jscan.combine import accumulation_dtype
from jscan.multiplication import Operands, product, product_p
from jscan.plain.across import combined_across, of_this_part
from jscan.plain.reduce import reduce_in_plain_jax
from jscan.plain.uneven import bounds_within
from jscan.primitives import AxisName

MOST_BYTES = 256
"""Bytes of lanes that a loop over entries takes at once. Of 1.3 million entries in rows of five it
takes 0.9, 0.2 and 0.15 of the time of products in memory with 4, 8 and 64 lanes of float32, and as
long with one (jax 0.12 on an EPYC, 2026-11-23)."""


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


def product_on_cpu(*operands: jax.Array, **params: Any) -> list[jax.Array]:
    """The results of ``product_p``, of several lanes one entry after another.

    Neither products nor the rows of entries are in memory then.
    """
    if _suits_a_walk(Operands.of(operands), **params):
        return _one_after_another(Operands.of(operands), **params)
    return product_in_plain_jax(*operands, on_cpu=True, **params)


def _suits_a_walk(
    given: Operands, *, axis: int, num_segments: int, dtype: np.dtype, **_: Any
) -> bool:
    """Whether there is one matrix, and the dense one has several columns, but few."""
    full, columns = given.full_shape(axis), given.dense.shape[axis]
    n, lanes = full[axis], math.prod(full[axis + 1 :])
    if 0 in (*full, num_segments, columns) or math.prod(full[:axis]) != 1:
        return False
    in_place = all(x.size == n for x in (*given.entries, given.columns))
    few = 1 < lanes <= MOST_BYTES // accumulation_dtype(dtype).itemsize
    near = max(n, num_segments, columns * lanes) < extent.FAR
    return few and near and in_place and given.offsets.size == num_segments + 1


def _one_after_another(
    given: Operands, *, pair: str, axis: int, num_segments: int, dtype: np.dtype, **_: Any
) -> list[jax.Array]:
    full, columns = given.full_shape(axis), given.dense.shape[axis]
    n, lanes = full[axis], math.prod(full[axis + 1 :])
    wide, zero = accumulation_dtype(dtype), np.int32(0)
    combine, identity = pairs.combine_of(pair, dtype), pairs.PAIRS[pair].add.identity(wide)
    elements = jnp.broadcast_to(given.dense, (*full[:axis], columns, *full[axis + 1 :]))
    arrays = [
        given.offsets.reshape(-1, 1),
        heads.places_of(given.columns, columns).reshape(n, 1),
        pairs.widened(elements, wide).reshape(columns, lanes),
        *(pairs.widened(x, wide).reshape(n, 1) for x in given.entries),
    ]
    # Behind the barrier they are computed once, and not for each entry.
    arrays = [*lax.optimization_barrier(extent.vary_alike(arrays))]
    [bounds, places, dense], entries = arrays[:3], arrays[3:]
    blank = [jnp.full((1, lanes), identity, wide), jnp.zeros((num_segments, lanes), wide)]
    empty, results = extent.vary_alike([*blank, *arrays])[:2]

    def at(x: jax.Array, place: Any) -> jax.Array:
        index = lax.convert_element_type(place, np.int32)  # with 64-bit types it may have 64 bits
        return lax.dynamic_slice(x, (index, zero), (1, x.shape[1]), allow_negative_indices=False)

    def take(k: Any, total: jax.Array) -> jax.Array:
        place = at(places, k)
        made = at(dense, place[0, 0])
        for entry in entries:
            made = pairs.multiplied(pair, at(entry, k), made, wide)
        exists = jnp.broadcast_to(place < np.int32(columns), made.shape)
        return lax.select(exists, combine([total], [made])[0], total)

    def of_row(row: Any, results: jax.Array) -> jax.Array:
        row = lax.convert_element_type(row, np.int32)
        first, end = at(bounds, row)[0, 0], at(bounds, row + np.int32(1))[0, 0]
        found = lax.fori_loop(first, end, take, empty)
        return lax.dynamic_update_slice(results, found, (row, zero))

    results = lax.fori_loop(zero, np.int32(num_segments), of_row, results)
    return [results.astype(dtype).reshape(*full[:axis], num_segments, *full[axis + 1 :])]


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
