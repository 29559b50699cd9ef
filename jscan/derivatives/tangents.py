"""Tangents as JAX hands them to a rule, those of plain JAX, and what transposes a broadcast."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import jax
import jax.numpy as jnp
from jax.interpreters import ad


def is_moving(tangent: Any) -> bool:
    """Whether it is a tangent that may not be zero."""
    return type(tangent) is not ad.Zero and tangent.dtype != jax.dtypes.float0


def jvp_of(
    meaning: Callable[..., list[jax.Array]],
    primals: Sequence[jax.Array],
    tangents: Sequence[Any],
    **params: Any,
) -> tuple[list[jax.Array], list[Any]]:
    """Differentiate a primitive as written in plain JAX, in the operands that have a tangent."""
    moving = [i for i, t in enumerate(tangents) if is_moving(t)]

    def of_moving(*moved: jax.Array) -> list[jax.Array]:
        operands = list(primals)
        for i, x in zip(moving, moved, strict=True):
            operands[i] = x
        return meaning(*operands, differentiable=True, **params)

    results, slopes = jax.jvp(
        of_moving, [primals[i] for i in moving], [tangents[i] for i in moving]
    )
    zeros = [ad.Zero(jax.typeof(result).to_tangent_aval()) for result in results]
    return results, [
        z if t.dtype == jax.dtypes.float0 else t for z, t in zip(zeros, slopes, strict=True)
    ]


def summed_to(x: jax.Array, like: Any) -> jax.Array:
    """``x``, summed over the dimensions that are 1 in ``like``."""
    shared = [d for d, size in enumerate(like.shape) if size == 1 and x.shape[d] != 1]
    return jnp.sum(x, shared, keepdims=True, dtype=x.dtype) if shared else x
