"""Sorts by two keys, at once or one behind the other."""

from __future__ import annotations

import math
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

from jscan import extent
from jscan.sorting import unsigned

MANY = 2**19
"""So many elements a GPU sorts by one key after another: XLA has a radix sort of a key and 32 bits
beside it, and compares where there are more. By two keys, µs at once and so: 2^18 175 and 183, 2^20
402 and 209, 2^24 9600 and 1750 (H100, 2026-11-28)."""

SHORT = 2**12
"""Rows up to so long are sorted at once: 1024 rows of 4096, 440 and 730 µs (H100, 2026-11-28)."""


def sort_in_plain_jax(
    numbers: jax.Array, keys: jax.Array, *, axis: int, emit: str, descending: bool, **_: Any
) -> list[jax.Array]:
    """The result of ``sort_p`` by one sort."""
    full = extent.full_shape([numbers, keys])
    # XLA puts NaN of some floats of 8 bits first.
    by_bits = descending or (jnp.issubdtype(keys.dtype, jnp.floating) and keys.dtype.itemsize == 1)
    steps = reversed(_steps(keys, descending=descending)) if by_bits else [keys]
    by = [jnp.broadcast_to(x, full) for x in (numbers, *steps)]
    if emit == "keys":
        beside = [jnp.broadcast_to(keys, full)] if by_bits else []
    else:
        beside = [lax.broadcasted_iota(jnp.int32, full, axis)]
    found = lax.sort((*by, *beside), dimension=axis, num_keys=len(by), is_stable=True)
    return [found[-1]]


def sort_on_gpu(
    numbers: jax.Array,
    keys: jax.Array,
    *,
    axis: int,
    count: int,
    emit: str,
    descending: bool,
    **params: Any,
) -> list[jax.Array]:
    """The same by radix sorts of all rows as one, the last of them by the row and the number."""
    full = extent.full_shape([numbers, keys])
    n, size = full[axis], math.prod(full)
    rows = size // max(n, 1)
    last = rows * (count + 1) - 1
    few = size < MANY or (rows > 1 and n <= SHORT)
    if few or size >= extent.FAR or last >= 2**32:
        params |= {"axis": axis, "emit": emit, "descending": descending}
        return sort_in_plain_jax(numbers, keys, **params)

    def flat(x: jax.Array) -> jax.Array:
        return jnp.moveaxis(jnp.broadcast_to(x, full), axis, -1).reshape(size)

    row = lax.broadcasted_iota(jnp.uint32, (rows, n), 0).reshape(size)
    group = row * np.uint32(count + 1) + flat(numbers).astype(jnp.uint32)
    group = group.astype(unsigned(last))
    if emit == "keys" and jnp.issubdtype(keys.dtype, jnp.integer):
        [key] = ordered(flat(keys))
        key, moved = _by(key, group)
        found = from_ordered(_by(moved.astype(group.dtype), key)[1], keys.dtype)
    else:
        places = lax.iota(jnp.int32, size)
        steps = _steps(flat(keys), descending=descending)
        for number, key in enumerate([*steps, group]):
            places = _by(_taken(key, places) if number else key, places)[1]
        if emit == "keys":
            found = _taken(flat(keys), places)
        else:
            found = places - row.astype(jnp.int32) * np.int32(n)
    others = [size for d, size in enumerate(full) if d != axis]
    return [jnp.moveaxis(found.reshape(*others, n), -1, axis)]


def _by(key: jax.Array, beside: jax.Array) -> tuple[jax.Array, jax.Array]:
    """Both in the order of the first, which is unsigned; what is beside it has 16 bits or more."""
    beside = beside.astype(jnp.uint16) if beside.dtype.itemsize == 1 else beside
    key, beside = lax.sort((key, beside), num_keys=1, is_stable=True)
    return key, beside


def _taken(x: jax.Array, places: jax.Array) -> jax.Array:
    return x.at[places].get(mode="promise_in_bounds", unique_indices=True)


def _steps(keys: jax.Array, *, descending: bool) -> list[jax.Array]:
    """What a stable sort is by, the least significant first."""
    return [~x if descending else x for x in ordered(keys)]


def ordered(x: jax.Array) -> list[jax.Array]:
    """Numbers without a sign in the order of ``x``, the least significant first.

    Equal ones are equal: both zeros, and all that is not a number, which is the last.
    """
    if jnp.issubdtype(x.dtype, jnp.complexfloating):
        return [*ordered(lax.imag(x)), *ordered(lax.real(x))]
    if jnp.issubdtype(x.dtype, jnp.unsignedinteger):
        return [x]
    if jnp.issubdtype(x.dtype, jnp.inexact):
        x = x.astype(np.float32) if x.dtype.itemsize < 2 else x
        x = jnp.where(x == 0, jnp.zeros_like(x), jnp.where(x != x, jnp.full_like(x, np.nan), x))
        sign = _sign(x.dtype)
        number = lax.bitcast_convert_type(x, sign.dtype)
        return [jnp.where(lax.lt(x, jnp.zeros_like(x)), ~number, number | sign)]
    sign = _sign(x.dtype)
    return [lax.bitcast_convert_type(x, sign.dtype) ^ sign]


def from_ordered(x: jax.Array, dtype: np.dtype[Any]) -> jax.Array:
    """The integers whose order was ``x``, which may be wider than they are."""
    sign = _sign(dtype)
    x = x.astype(sign.dtype)
    if jnp.issubdtype(dtype, jnp.unsignedinteger):
        return x.astype(dtype)
    return lax.bitcast_convert_type(x ^ sign, dtype)


def _sign(dtype: np.dtype[Any]) -> np.ndarray[Any, Any]:
    """The bit of the sign, in a number without one."""
    bits = 8 * dtype.itemsize
    return np.array(1 << bits - 1, f"uint{bits}")
