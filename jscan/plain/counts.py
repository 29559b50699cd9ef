"""Keys counted by scatters, in one place for each of them or in several."""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

from jscan import heads, primitives
from jscan.plain.scatters import updated
from jscan.primitives import AxisName

APART = 2**16
"""Places at which a GPU adds without waiting for one place. 2^26 keys take 730 us there, 17 ms at
256 places and 49 ms at one (H200, 2026-11-23)."""
LANES = 32
"""Keys that a GPU adds at once, all of which may be equal."""
IN_CACHE = 2**22
"""Places that lie in the cache of a GPU, and are filled and read in no time beside the keys'."""


def histogram_in_plain_jax(
    keys: jax.Array, *, axis: int, num_keys: int, copies: int = 1, **_: Any
) -> list[jax.Array]:
    """The result of ``histogram_p``, of so many ``copies`` that neighbouring keys take in turn."""
    places = heads.places_of(keys, num_keys)
    n = places.shape[axis]
    if copies > 1:
        turn = lax.broadcasted_iota(jnp.int32, places.shape, axis) & np.int32(copies - 1)
        inside = places < np.int32(num_keys)
        places = places * np.int32(copies) + jnp.where(inside, turn, np.int32(0))

    def of_row(places: jax.Array) -> jax.Array:
        shape = (num_keys * copies,)
        return updated("add", jnp.ones((n,), jnp.int32), places, shape=shape, identity=0)

    rows = jnp.moveaxis(places, axis, -1)
    if 0 in rows.shape:
        counts = jnp.zeros((*rows.shape[:-1], num_keys * copies), jnp.int32)
    elif rows.size == n:
        counts = of_row(rows.reshape(n))
    else:
        counts = jax.vmap(of_row)(rows.reshape(-1, n))
    if copies > 1:
        counts = counts.reshape(*rows.shape[:-1], num_keys, copies)
        counts = jnp.sum(counts, -1, dtype=jnp.int32)
    return [jnp.moveaxis(counts.reshape(*rows.shape[:-1], num_keys), -1, axis)]


def histogram_on_gpu(keys: jax.Array, *, axis: int, num_keys: int, **_: Any) -> list[jax.Array]:
    """The same with as many copies as pay. Additions at one place wait for each other."""
    copies = copies_of(keys.size, keys.size // max(keys.shape[axis], 1) * num_keys)
    return histogram_in_plain_jax(keys, axis=axis, num_keys=num_keys, copies=copies)


def copies_of(size: int, counts: int) -> int:
    """How many places there are for each of so many counts of ``size`` keys: a power of two."""
    # Four keys a place, so that places take no more time than keys.
    most = min(max(APART, min(LANES * counts, IN_CACHE)), size // 4)
    return 1 << (max(most // counts, 1).bit_length() - 1) if counts else 1


def histogram_across(keys: jax.Array, *, axis_name: AxisName, **params: Any) -> list[jax.Array]:
    """The counts of the keys of all devices, the same on each."""
    [counts] = primitives.histogram_p.bind(keys, axis_name=(), layout=None, **params)
    return [heads.sum_of_parts(counts, axis_name)]
