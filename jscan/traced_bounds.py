"""The bounds of segments, from lengths or offsets whose values are traced.

Bounds are where each segment begins and the last one ends: they begin with 0 and never decrease.
Traced values cannot be checked, and scans make bounds of whatever they are, in as few passes as can
be: one more would read and write them all. Known values are checked by
`jscan.arguments.descriptors`.
"""

from __future__ import annotations

import functools
from collections.abc import Callable

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

from jscan import bits, meshes, primitives
from jscan.arguments.arrays import Array
from jscan.combine import trace
from jscan.starts import first_of, with_first

MANY = 2**20
"""From so many offsets on, two elements put in place cost less than a pass over all of them: 33 µs
of 13.4 million (H200, 2026-11-23)."""


def of_offsets(offsets: Array, total: int) -> jax.Array:
    """Bounds from any offsets; `jscan.Segments.from_offsets` says what offsets that misfit mean."""
    return meshes.automatically(functools.partial(_of_offsets, total=total), offsets, like=[])


def _of_offsets(offsets: jax.Array, total: int) -> jax.Array:
    limit = np.uint32(total)

    def cut(x: jax.Array) -> jax.Array:
        """What is out of range as the total: without a sign, negative numbers are above it."""
        return jnp.minimum(lax.bitcast_convert_type(x, jnp.uint32), limit)

    if offsets.dtype.itemsize == 4 and offsets.size >= MANY:
        # The scan cuts what it combines, so that the last offset is left, with which it begins.
        given = lax.bitcast_convert_type(offsets, jnp.uint32)
        risen = _scan(lambda a, b: jnp.minimum(jnp.minimum(a, b), limit), given, reverse=True)
        last = cut(first_of(offsets, axis=0, reverse=True))
        risen = with_first(risen, last, axis=0, reverse=True)
        zero = jnp.zeros((1,), jnp.uint32)
        return lax.bitcast_convert_type(with_first(risen, zero, axis=0, reverse=False), jnp.int32)
    if offsets.dtype.itemsize > 4:
        offsets = jnp.where((offsets >= 0) & (offsets < total), offsets, total)
    given = lax.bitcast_convert_type(cut(lax.convert_element_type(offsets, jnp.int32)), jnp.int32)
    is_first = lax.broadcasted_iota(jnp.int32, given.shape, 0) == 0
    return _scan(lax.min, jnp.where(is_first, np.int32(0), given), reverse=True)


def of_lengths(lengths: Array, total: int) -> tuple[jax.Array, jax.Array | None]:
    """Bounds from any lengths; `jscan.Segments.from_lengths` says what lengths that misfit mean.

    Then, of many lengths, where each segment ends: the bounds but the first. Whoever reads only
    these does not pay for a pass that puts a zero in front of them.
    """
    if lengths.size < MANY:
        few = functools.partial(_of_lengths, total=total)
        return meshes.automatically(few, lengths, like=[]), None
    ends = meshes.automatically(functools.partial(_ends, total=total), lengths, like=[])
    behind_zero = functools.partial(bits.behind_zero, axis=0)
    return meshes.automatically(behind_zero, ends, like=[]), ends


def _of_lengths(lengths: jax.Array, total: int) -> jax.Array:
    behind_zero = lax.pad(_clipped(lengths, total), np.int32(0), [(1, 0, 0)])
    return _scan(functools.partial(_added, total=total), behind_zero, reverse=False)


def _ends(lengths: jax.Array, total: int) -> jax.Array:
    if lengths.dtype != jnp.int32:
        return _scan(
            functools.partial(_added, total=total), _clipped(lengths, total), reverse=False
        )

    def add(a: jax.Array, b: jax.Array) -> jax.Array:
        return _added(jnp.clip(a, 0, total), jnp.clip(b, 0, total), total=total)

    # The scan clips what it combines, so that the first length is left.
    ends = _scan(add, lengths, reverse=False)
    first = _clipped(first_of(lengths, axis=0, reverse=False), total)
    return with_first(ends, first, axis=0, reverse=False)


def _clipped(lengths: jax.Array, total: int) -> jax.Array:
    wide = lax.convert_element_type(lengths, jnp.int32) if lengths.dtype.itemsize < 4 else lengths
    return lax.convert_element_type(jnp.clip(wide, 0, total), jnp.int32)


def _added(a: jax.Array, b: jax.Array, *, total: int) -> jax.Array:
    """A sum that is cut down to the total before it exceeds that, and then perhaps 32 bits."""
    return a + jnp.minimum(b, np.int32(total) - a)


def first(bounds: jax.Array, size: int, total: int) -> jax.Array:
    """The first bounds of each row, ``size`` of them; those behind the last are ``total``."""

    def run(bounds: jax.Array) -> jax.Array:
        # A negative pad cuts off. Unlike a concatenation it is part of the loop that uses it.
        end = (0, size - bounds.shape[-1], 0)
        return lax.pad(bounds, np.int32(total), [(0, 0, 0)] * (bounds.ndim - 1) + [end])

    return meshes.automatically(run, bounds, like=[])


def _scan(
    fn: Callable[[jax.Array, jax.Array], jax.Array], x: jax.Array, *, reverse: bool
) -> jax.Array:
    combine = trace(fn, [x], jax.tree.structure(0), 0, None)
    assert combine is not None
    [result] = primitives.scan(
        [x], None, combine=combine, axis=0, reverse=reverse, exclusive=False, method="auto"
    )
    return result
