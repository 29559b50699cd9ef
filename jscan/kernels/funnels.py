"""More in-kernel primitives: what rows that begin inside of memory's words need.

    funnel    32 bits out of two neighbouring words
    along     elements of a row by their places, which may be another thread's
    spread_signs    the highest bit of each byte or half of a word, at all of its bits

They are to `jscan.kernels.language` as its own are.
"""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax
from jax.interpreters import batching

from jscan.kernels.language import primitive, register

funnel_p = primitive("funnel")
along_p = primitive("along")
spread_signs_p = primitive("spread_signs")


def funnel(low: jax.Array, high: jax.Array, bits: jax.Array, *, left: bool = False) -> jax.Array:
    """The low half of ``high:low`` moved right by so many bits; the high half moved ``left``.

    Words are int32, and there are 0 to 31 bits.
    """
    return funnel_p.bind(low, high, bits, left=left)


def along(x: jax.Array, places: jax.Array) -> jax.Array:
    """The elements of each row, which is the last dimension, at these places of it, int32."""
    return along_p.bind(x, places)


def spread_signs(words: jax.Array, bits: int) -> jax.Array:
    """The highest of every so many bits of int32 words, 8 or 16, in place of all of these."""
    return spread_signs_p.bind(words, bits=bits)


def _spread_signs_meaning(words: jax.Array, *, bits: int) -> jax.Array:
    ones = lax.shift_right_logical(words, jnp.full_like(words, bits - 1))
    each = np.int32(sum(1 << place for place in range(0, 32, bits)))
    return (ones & each) * np.int32((1 << bits) - 1)


def _funnel_meaning(low: jax.Array, high: jax.Array, bits: jax.Array, *, left: bool) -> jax.Array:
    most = jnp.full_like(bits, 31)
    # Where there are no bits, the other word gives none: it is moved by 31, then by one more.
    if left:
        rest = lax.shift_right_logical(low, jnp.full_like(low, 1))
        return lax.shift_left(high, bits) | lax.shift_right_logical(rest, most - bits)
    rest = lax.shift_left(high, jnp.full_like(high, 1))
    return lax.shift_right_logical(low, bits) | lax.shift_left(rest, most - bits)


def _along_meaning(x: jax.Array, places: jax.Array) -> jax.Array:
    return jnp.take_along_axis(x, places, axis=-1)


register(funnel_p, lambda low, *_, **__: low, _funnel_meaning)
register(along_p, lambda x, _: x, _along_meaning)
register(spread_signs_p, lambda words, **_: words, _spread_signs_meaning)
batching.defvectorized(spread_signs_p)
