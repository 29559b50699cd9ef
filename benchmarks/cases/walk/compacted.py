"""What drawn calls of compaction run, and what others offer."""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp

import jscan


def nonzero(size: int, mask: jax.Array) -> Any:
    """`jscan.nonzero`."""
    return jscan.nonzero(mask, size=size)


def histogram(length: int, keys: jax.Array) -> jax.Array:
    """`jscan.histogram`."""
    return jscan.histogram(keys, length)


def partition(axis: int, x: jax.Array, signs: jax.Array) -> Any:
    """`jscan.partition`."""
    return jscan.partition(x, signs, axis)


def encoded(size: int, x: jax.Array) -> Any:
    """`jscan.run_length_encode`."""
    return jscan.run_length_encode(x, size=size)


def unique(size: int, x: jax.Array) -> jax.Array:
    """`jscan.unique_sorted` without the count."""
    return jscan.unique_sorted(x, size=size)[0]


def decoded(size: int, values: jax.Array, lengths: jax.Array) -> jax.Array:
    """`jscan.run_length_decode`."""
    return jscan.run_length_decode(values, lengths, size=size)


# --- what others offer --------------------------------------------------------------------------


def jnp_nonzero(size: int, mask: jax.Array) -> Any:
    """`jnp.nonzero`."""
    places = jnp.nonzero(mask, size=size, fill_value=0)
    return tuple(place.astype(jnp.int32) for place in places)


def jnp_histogram(length: int, keys: jax.Array) -> jax.Array:
    """`jnp.bincount`."""
    return jnp.bincount(keys, length=length).astype(jnp.int32)


def jnp_partition(axis: int, x: jax.Array, signs: jax.Array) -> Any:
    """The order of a stable `jnp.argsort` of the signs."""
    along = axis if signs.ndim > 1 else 0
    sign = jnp.sign(signs)
    counts = [jnp.sum(sign == wanted, along, dtype=jnp.int32) for wanted in (-1, 0, 1)]
    lengths = jnp.stack(counts, along)
    order = jnp.argsort(sign, axis=along, stable=True)
    if signs.ndim == 1:
        return jnp.take(x, order, axis=axis, unique_indices=True, mode="clip"), lengths
    return jnp.take_along_axis(x, order, axis), lengths


def jnp_encoded(size: int, x: jax.Array) -> Any:
    """`jnp.nonzero` of where runs begin, and a gather."""
    heads = jnp.concatenate([jnp.ones(1, jnp.bool_), x[1:] != x[:-1]])
    (begins,) = jnp.nonzero(heads, size=size, fill_value=x.size)
    found = x.at[begins].get(mode="fill", fill_value=0)
    lengths = jnp.diff(begins, append=x.size).astype(jnp.int32)
    return found, lengths, jnp.sum(heads, dtype=jnp.int32)


def jnp_first_of_runs(size: int, x: jax.Array) -> jax.Array:
    """The first elements of runs."""
    found: jax.Array = jnp_encoded(size, x)[0]
    return found


def jnp_unique(size: int, x: jax.Array) -> jax.Array:
    """`jnp.unique`, which sorts."""
    return jnp.unique(x, size=size, fill_value=0)


def jnp_decoded(size: int, values: jax.Array, lengths: jax.Array) -> jax.Array:
    """`jnp.repeat`."""
    return jnp.repeat(values, lengths, total_repeat_length=size)
