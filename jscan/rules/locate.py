"""The rules of ``locate_p``."""

from __future__ import annotations

import functools
from collections.abc import Sequence
from typing import Any

import jax
import jax.numpy as jnp
from jax.interpreters import batching

from jscan import extent
from jscan.plain.ranks import locate_in_plain_jax
from jscan.primitives import locate_p
from jscan.rules import base


def locate_abstract_eval(bounds: Any, *, n: int, emit: str, **_: Any) -> list[Any]:
    """``n`` along the last axis."""
    dtype = jnp.dtype(jnp.int32 if emit == "ids" else jnp.bool_)
    return [bounds.update(shape=(*bounds.shape[:-1], n), dtype=dtype, weak_type=False)]


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


locate_p.def_impl(functools.partial(base.run, locate_p))
locate_p.def_abstract_eval(locate_abstract_eval)
base.register_lowerings(locate_p, locate_in_kernels, locate_in_plain_jax)
batching.primitive_batchers[locate_p] = locate_batching
