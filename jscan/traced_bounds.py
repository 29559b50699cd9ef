"""The bounds of segments, from lengths or offsets whose values are traced.

Bounds are where each segment begins and the last one ends: they begin with 0 and never decrease.
Traced values cannot be checked, and scans make bounds of whatever they are. All else is done in the
pass before a scan, so that its results are the bounds as they lie: a pass behind it would read and
write them once more. Known values are checked by `jscan.arguments.descriptors`.
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
    is_first = lax.broadcasted_iota(jnp.int32, bounds.shape, 0) == 0
    return _scan(lax.min, jnp.where(is_first, np.int32(0), bounds), reverse=True)


def of_lengths(lengths: Array, total: int) -> jax.Array:
    """Bounds from any lengths; `jscan.Segments.from_lengths` says what lengths that misfit mean."""
    return meshes.automatically(functools.partial(_of_lengths, total=total), lengths, like=[])


def _of_lengths(lengths: jax.Array, total: int) -> jax.Array:
    given = lax.convert_element_type(jnp.clip(_at_least_int32(lengths), 0, total), jnp.int32)
    limit = np.int32(total)
    # Sums are cut down to the total before they exceed it, and then perhaps 32 bits.
    behind_zero = lax.pad(given, np.int32(0), [(1, 0, 0)])
    return _scan(lambda a, b: a + jnp.minimum(b, limit - a), behind_zero, reverse=False)


def first(bounds: jax.Array, size: int, total: int) -> jax.Array:
    """The first bounds of each row, ``size`` of them; those behind the last are ``total``."""

    def run(bounds: jax.Array) -> jax.Array:
        # A negative pad cuts off. Unlike a concatenation it is part of the loop that uses it.
        end = (0, size - bounds.shape[-1], 0)
        return lax.pad(bounds, np.int32(total), [(0, 0, 0)] * (bounds.ndim - 1) + [end])

    return meshes.automatically(run, bounds, like=[])


def _at_least_int32(x: jax.Array) -> jax.Array:
    """Integers in a dtype that can hold a total."""
    return lax.convert_element_type(x, jnp.int32) if x.dtype.itemsize < 4 else x


def _scan(
    fn: Callable[[jax.Array, jax.Array], jax.Array], x: jax.Array, *, reverse: bool
) -> jax.Array:
    combine = trace(fn, [x], jax.tree.structure(0), 0, None)
    assert combine is not None
    [result] = primitives.scan(
        [x], None, combine=combine, axis=0, reverse=reverse, exclusive=False, method="auto"
    )
    return result
