"""The bounds of segments, from lengths or offsets whose values are traced.

Bounds are where each segment begins and the last one ends: they begin with 0 and never decrease.
Traced values cannot be checked, and scans make bounds of whatever they are. Known values are
checked by `jscan.arguments.descriptors`.
"""

from __future__ import annotations

import functools
from collections.abc import Callable

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

from jscan import meshes, primitives
from jscan.arguments.arrays import Array
from jscan.combine import trace


def of_offsets(offsets: Array, total: int) -> jax.Array:
    """Bounds from any offsets; `jscan.Segments.from_offsets` says what offsets that misfit mean."""
    return meshes.automatically(functools.partial(_of_offsets, total=total), offsets, like=[])


def _of_offsets(offsets: jax.Array, total: int) -> jax.Array:
    given = _at_least_int32(offsets)
    inside = (given >= 0) & (given < total)
    bounds = lax.convert_element_type(jnp.where(inside, given, total), jnp.int32)
    return _after_zero(lax.slice_in_dim(_scan(lax.min, bounds, reverse=True), 1, None))


def of_lengths(lengths: Array, total: int) -> jax.Array:
    """Bounds from any lengths; `jscan.Segments.from_lengths` says what lengths that misfit mean."""
    return meshes.automatically(functools.partial(_of_lengths, total=total), lengths, like=[])


def _of_lengths(lengths: jax.Array, total: int) -> jax.Array:
    # Each sum is cut down to the total at once, so that none exceeds twice the total: that fits
    # 32 bits without a sign.
    given = lax.convert_element_type(jnp.clip(_at_least_int32(lengths), 0, total), jnp.uint32)
    limit = np.uint32(total)
    ends = _scan(lambda a, b: jnp.minimum(a + b, limit), given, reverse=False)
    return _after_zero(lax.convert_element_type(ends, jnp.int32))


def first(bounds: jax.Array, size: int, total: int) -> jax.Array:
    """The first bounds of each row, ``size`` of them; those behind the last are ``total``."""

    def run(bounds: jax.Array) -> jax.Array:
        kept = lax.slice_in_dim(bounds, 0, min(size, bounds.shape[-1]), axis=-1)
        shape = (*bounds.shape[:-1], size - kept.shape[-1])
        return lax.concatenate([kept, lax.full(shape, np.int32(total))], bounds.ndim - 1)

    return meshes.automatically(run, bounds, like=[])


def _at_least_int32(x: jax.Array) -> jax.Array:
    """Integers in a dtype that can hold a total."""
    return lax.convert_element_type(x, jnp.int32) if x.dtype.itemsize < 4 else x


def _after_zero(ends: jax.Array) -> jax.Array:
    return lax.concatenate([jnp.zeros((1,), jnp.int32), ends], 0)


def _scan(
    fn: Callable[[jax.Array, jax.Array], jax.Array], x: jax.Array, *, reverse: bool
) -> jax.Array:
    combine = trace(fn, [x], jax.tree.structure(0), 0, None)
    assert combine is not None
    [result] = primitives.scan(
        [x], None, combine=combine, axis=0, reverse=reverse, exclusive=False, method="auto"
    )
    return result
