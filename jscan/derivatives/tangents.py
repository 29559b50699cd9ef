"""Tangents as JAX hands them to a rule, and those of functions in plain JAX."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, TypeAlias, TypeGuard

import jax
import jax.numpy as jnp
from jax.interpreters import ad

from jscan.extent import Shaped

Tangent: TypeAlias = jax.Array | ad.Zero
"""A tangent or cotangent as JAX hands it to a rule; `ad.Zero` is zero by structure."""


def is_moving(tangent: Tangent) -> TypeGuard[jax.Array]:
    """Whether a tangent may be other than zero."""
    return not isinstance(tangent, ad.Zero) and tangent.dtype != jax.dtypes.float0


def zero_of(x: jax.Array) -> ad.Zero:
    """The zero tangent of an operand that does not move."""
    return ad.Zero(jax.typeof(x).to_tangent_aval())


def jvp_of(
    plain: Callable[..., list[jax.Array]],
    primals: Sequence[jax.Array],
    tangents: Sequence[Tangent],
    **params: Any,
) -> tuple[list[jax.Array], list[Tangent]]:
    """Results and tangents of a primitive's form in ``plain`` JAX.

    It is differentiated in the operands that move; JAX may know no derivative of the others.
    """
    moving = [i for i, t in enumerate(tangents) if is_moving(t)]

    def of_moving(*moved: jax.Array) -> list[jax.Array]:
        operands = list(primals)
        for i, x in zip(moving, moved, strict=True):
            operands[i] = x
        return plain(*operands, differentiable=True, **params)

    results, slopes = jax.jvp(
        of_moving, [primals[i] for i in moving], [tangents[i] for i in moving]
    )
    return results, [
        zero_of(x) if t.dtype == jax.dtypes.float0 else t
        for x, t in zip(results, slopes, strict=True)
    ]


def summed_to(x: jax.Array, like: Shaped) -> jax.Array:
    """``x``, summed over the dimensions that are 1 in ``like``: the transpose of a broadcast."""
    shared = [d for d, size in enumerate(like.shape) if size == 1 and x.shape[d] != 1]
    return jnp.sum(x, shared, keepdims=True, dtype=x.dtype) if shared else x
