"""Register tiles, wherever they belong in memory: constants, one element of many, bits."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

from jscan.kernels import language
from jscan.kernels.layout import Geometry


def constant(shape: Sequence[int], scalar: Any) -> jax.Array:
    """A register tile of ``scalar``."""
    if scalar.dtype.kind == "u":
        return jnp.broadcast_to(language.unsigned(scalar), shape)
    return jnp.full(shape, scalar)


def take(values: jax.Array, where: jax.Array, axis: int) -> jax.Array:
    """The one element of ``values`` along ``axis`` that ``where`` selects.

    The sum runs over the bits as integers, so that it is exact; all but one of the selects fold
    away when the place is known at compile time.
    """
    bits = to_bits(values)
    kept = jnp.where(where, bits, jnp.zeros_like(bits))
    return from_bits(jnp.sum(kept, axis=axis, dtype=kept.dtype), values.dtype)


def to_bits(values: jax.Array) -> jax.Array:
    """``values`` as signed integers of 32 or 64 bits; floats and unsigned ones keep their bits."""
    dtype = values.dtype
    if dtype == jnp.bool_:
        return values.astype(jnp.int32)
    signed = jnp.dtype(f"int{8 * dtype.itemsize}")
    if dtype != signed:
        values = lax.bitcast_convert_type(values, signed)
    return values.astype(jnp.int32) if dtype.itemsize < 4 else values


def from_bits(bits: jax.Array, dtype: np.dtype | type) -> jax.Array:
    """The inverse of `to_bits`."""
    dtype = jnp.dtype(dtype)
    if dtype == jnp.bool_:
        return bits != 0
    signed = jnp.dtype(f"int{8 * dtype.itemsize}")
    if bits.dtype != signed:
        bits = bits.astype(signed)
    return bits if dtype == signed else lax.bitcast_convert_type(bits, dtype)


def turned(g: Geometry, values: Sequence[jax.Array]) -> list[jax.Array]:
    """Values as they are held from values as they are accessed, or back (`Geometry.turns`)."""
    apart = [language.deinterleave(x, g.at_once) for x in values]
    return [language.interleave(x[::-1]) for x in apart]
