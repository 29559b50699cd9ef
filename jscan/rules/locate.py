"""``locate_p``: from where segments begin to which one each position is in, and its rules.

The operand is int32 ``(..., count + 1)``: along its last axis it begins with 0 and does not
decrease. The result has ``n`` elements along that axis: the segment of each position as ``ids``
(int32; positions at or behind the last bound are in segment ``count``), or head ``flags`` (bool).
"""

from __future__ import annotations

import functools
from collections.abc import Sequence
from typing import Any

import jax
import jax.numpy as jnp
from jax import lax
from jax.extend import core
from jax.interpreters import batching

from jscan import extent, meshes, primitive

locate_p: Any = core.Primitive("jscan_locate")
locate_p.multiple_results = True


def locate(bounds: jax.Array, *, n: int, emit: str) -> jax.Array:
    """Bind ``locate_p``."""

    def run(bounds: jax.Array) -> jax.Array:
        [result] = locate_p.bind(bounds, n=n, emit=emit, interpret=primitive.interpreting())
        return result

    result: jax.Array = meshes.automatically(
        run, bounds, like=[bounds], dimensions=meshes.instead_of(bounds.ndim - 1)
    )
    return result


def locate_abstract_eval(bounds: Any, *, n: int, emit: str, **_: Any) -> list[Any]:
    """``n`` along the last axis."""
    dtype = jnp.dtype(jnp.int32 if emit == "ids" else jnp.bool_)
    return [bounds.update(shape=(*bounds.shape[:-1], n), dtype=dtype, weak_type=False)]


def locate_in_plain_jax(bounds: jax.Array, *, n: int, emit: str, **_: Any) -> list[jax.Array]:
    """Bounds scattered to where they are; ids are their running count."""
    flat = bounds.reshape(-1, bounds.shape[-1])

    def ids(row: jax.Array) -> jax.Array:
        return lax.cumsum(jnp.zeros((n,), jnp.int32).at[row].add(1, mode="drop")) - 1

    def flags(row: jax.Array) -> jax.Array:
        return jnp.zeros((n,), jnp.bool_).at[row].set(True, mode="drop")

    result = jax.vmap(ids if emit == "ids" else flags)(flat)
    return [result.reshape(*bounds.shape[:-1], n)]


def locate_in_kernels(bounds: jax.Array, *, n: int, emit: str, interpret: bool) -> list[jax.Array]:
    """The search in a kernel, where its positions fit."""
    if n == 0 or 0 in bounds.shape or max(n, bounds.size) >= extent.FAR:
        return locate_in_plain_jax(bounds, n=n, emit=emit)
    # Pallas takes seconds to import, and only GPU programs need it.
    from jscan.kernels import locating

    find = locating.ids if emit == "ids" else locating.flags
    return [find(bounds, n=n, interpret=interpret)]


def locate_batching(
    operands: Sequence[jax.Array], dims: Sequence[int], **params: Any
) -> tuple[list[jax.Array], list[int]]:
    """Rows come first."""
    return locate_p.bind(jnp.moveaxis(operands[0], dims[0], 0), **params), [0]


locate_p.def_impl(functools.partial(primitive.run, locate_p))
locate_p.def_abstract_eval(locate_abstract_eval)
primitive.register_lowerings(locate_p, locate_in_kernels, locate_in_plain_jax)
batching.primitive_batchers[locate_p] = locate_batching
