"""Keys counted by scatters, in one place for each of them or in several."""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp

from jscan import heads, primitives
from jscan.plain.scatters import copies_of, in_copies
from jscan.primitives import AxisName


def histogram_in_plain_jax(
    keys: jax.Array, *, axis: int, num_keys: int, **_: Any
) -> list[jax.Array]:
    """The result of ``histogram_p``, by a scatter for each row."""
    return _by_rows(keys, axis=axis, num_keys=num_keys, copies=1)


def histogram_on_gpu(keys: jax.Array, *, axis: int, num_keys: int, **_: Any) -> list[jax.Array]:
    """The same with as many copies of the counts as pay. Additions at one place wait."""
    copies = copies_of(keys.size, keys.size // max(keys.shape[axis], 1) * num_keys)
    return _by_rows(keys, axis=axis, num_keys=num_keys, copies=copies)


def _by_rows(keys: jax.Array, *, axis: int, num_keys: int, copies: int) -> list[jax.Array]:
    places = heads.places_of(keys, num_keys)
    n = places.shape[axis]

    def of_row(places: jax.Array) -> jax.Array:
        ones = jnp.ones((n,), jnp.int32)
        return in_copies("add", ones, places, shape=(num_keys,), identity=0, copies=copies)

    rows = jnp.moveaxis(places, axis, -1)
    if 0 in rows.shape:
        counts = jnp.zeros((*rows.shape[:-1], num_keys), jnp.int32)
    elif rows.size == n:
        counts = of_row(rows.reshape(n))
    else:
        counts = jax.vmap(of_row)(rows.reshape(-1, n))
    return [jnp.moveaxis(counts.reshape(*rows.shape[:-1], num_keys), -1, axis)]


def histogram_across(keys: jax.Array, *, axis_name: AxisName, **params: Any) -> list[jax.Array]:
    """The counts of the keys of all devices, the same on each."""
    [counts] = primitives.histogram_p.bind(keys, axis_name=(), layout=None, **params)
    return [heads.sum_of_parts(counts, axis_name)]
