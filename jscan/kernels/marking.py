"""Words of head flags of a bit each, from where segments begin.

bounds   0  3  3  35  40            sorted, so that those of a word are neighbours
words    0  0  0   1   1            made of the bounds as these are read
bits     1  8  8   8 256            a segment without elements has that of another
or       9        264
"""

from __future__ import annotations

import functools

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax
from jax.extend import core

from jscan import bits, operators, pairs
from jscan.kernels import reducing
from jscan.kernels.operator import trace_scalars
from jscan.starts import first_of, with_first

LEAST = 2**16
"""From so many bounds on. XLA scatters 1.3 million in 203 µs and 13 million in 828, each by an
atomic of its own (H200, 2026-11-23)."""


def words_of_bounds(bounds: jax.Array, *, axis: int, n: int, interpret: bool) -> jax.Array:
    """The words (uint32) of ``n`` elements, of which segments begin at ``bounds``, in int32."""
    if bounds.size < LEAST:
        return bits.of_bounds(bounds, axis=axis, n=n)
    rows = jnp.moveaxis(bounds, axis, -1)
    word = np.dtype(np.int32)
    [found] = reducing.reduce(
        [rows],
        rows,
        made=reducing.Made(_bit_below(n), [], [jax.ShapeDtypeStruct(rows.shape, word)]),
        combine=pairs.operator_on(operators.bitwise_or, word),
        axis=rows.ndim - 1,
        kind="ids",
        num_segments=bits.count(n, word),
        shift=bits.width(word).bit_length() - 1,
        method="auto",
        interpret=interpret,
    )
    return jnp.moveaxis(lax.bitcast_convert_type(found, jnp.uint32), -1, axis)


def words_of_ends(ends: jax.Array, *, axis: int, n: int, interpret: bool) -> jax.Array:
    """The same by where segments end: they begin there and, with the first bit, at 0."""
    if ends.size < LEAST:
        return bits.of_bounds(bits.behind_zero(ends, axis=axis), axis=axis, n=n)
    words = words_of_bounds(ends, axis=axis, n=n, interpret=interpret)
    first = first_of(words, axis=axis, reverse=False) | np.uint32(1)
    return with_first(words, first, axis=axis, reverse=False)


@functools.lru_cache(maxsize=256)
def _bit_below(n: int) -> core.ClosedJaxpr:
    """The bit of each bound in its word; nothing where it is not below ``n``."""

    def bit(bound: jax.Array) -> list[jax.Array]:
        place = lax.bitwise_and(bound, np.int32(31))
        own = lax.shift_left(jnp.ones_like(bound), place)
        return [jnp.where(bound < np.int32(n), own, jnp.zeros_like(own))]

    return trace_scalars(bit, [np.dtype(np.int32)])
