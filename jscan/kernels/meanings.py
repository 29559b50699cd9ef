"""What the in-kernel primitives on registers mean in plain JAX.

An interpreter runs this on a machine without a GPU (`jscan.kernels.language`). What accesses to
memory mean there says `jscan.kernels.memory`.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax
from jax.extend import core


def mapped(jaxpr: core.ClosedJaxpr, operands: Sequence[jax.Array]) -> list[jax.Array]:
    """The results of a scalar jaxpr on arrays of one shape, element by element."""
    function: Callable[..., Any] = core.jaxpr_as_fun(jaxpr)
    for _ in range(operands[0].ndim):
        function = jax.vmap(function)
    return list(function(*operands))


def tile_scan(
    *leaves: jax.Array, jaxpr: core.ClosedJaxpr, axis: int, reverse: bool
) -> list[jax.Array]:
    """An inclusive scan."""

    def operator(left: list[jax.Array], right: list[jax.Array]) -> list[jax.Array]:
        return mapped(jaxpr, [*left, *right])

    return lax.associative_scan(operator, list(leaves), reverse=reverse, axis=axis)


def tile_reduce(leaf: jax.Array, *, jaxpr: core.ClosedJaxpr, axis: int) -> jax.Array:
    """The last element of a scan."""
    [scanned] = tile_scan(leaf, jaxpr=jaxpr, axis=axis, reverse=False)
    return lax.index_in_dim(scanned, -1, axis, keepdims=False)


def tile_histogram(keys: jax.Array, mask: jax.Array, *, bins: int) -> jax.Array:
    """A scatter that adds; nonsense where a key is out of range, as on a GPU."""
    counts = jnp.zeros((bins,), jnp.int32)
    counts = counts.at[jnp.where(mask, keys, bins)].add(jnp.int32(1), mode="drop")
    broken = jnp.any(mask & ((keys < 0) | (keys >= bins)))
    return jnp.where(broken, jnp.int32(-(2**20)), counts)


def count_bytes(marks: jax.Array, *, negative: bool) -> jax.Array:
    """At every fourth place the sum of it and the next three, and zero at the others."""
    found = marks.astype(jnp.int8) < 0 if negative else marks != 0
    sums = jnp.sum(found.reshape(-1, 4), 1, dtype=jnp.int32)
    return jnp.zeros(marks.shape, jnp.int32).at[::4].set(sums)


def deinterleave(x: jax.Array, *, count: int) -> list[jax.Array]:
    """The elements at places 0, 1, ... modulo ``count``."""
    return [x[..., place::count] for place in range(count)]


def interleave(*parts: jax.Array) -> jax.Array:
    """The inverse of `deinterleave`."""
    return jnp.stack(parts, -1).reshape(*parts[0].shape[:-1], -1)


def fma(x: jax.Array, y: jax.Array, z: jax.Array, *, minus: bool) -> jax.Array:
    """A product and a sum, rounded twice."""
    return z - x * y if minus else z + x * y


def unsigned(bits: jax.Array, *, dtype: np.dtype) -> jax.Array:
    """The bits as a number without a sign."""
    return lax.convert_element_type(bits, dtype)


def first(operand: jax.Array, **params: Any) -> jax.Array:
    """The operand as it is."""
    del params
    return operand
