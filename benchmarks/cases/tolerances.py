"""Checks of answers that are rounded: how far they may be off, and by which measure."""

from __future__ import annotations

import functools
from typing import Any

import jax
import jax.numpy as jnp

from benchmarks.cases.case import Check, Operation, call

EPS = 2.0**-23
"""Of float32."""


def close_to(reference: Operation, bound: float) -> Check:
    """Compares with another function in float64, whose results are near 1 or below 100."""
    return Check(call(_distance, reference), bound, "worst absolute error", x64=True)


def _distance(reference: Operation, result: jax.Array, x: jax.Array, *described: Any) -> jax.Array:
    wide = result.astype(jnp.float64)
    return jnp.max(jnp.abs(wide - reference(x.astype(jnp.float64), *described)))


@functools.partial(
    Check, bound=4.0, measures="worst residual of a row, in eps of what is in it", x64=True
)
def residual(
    result: jax.Array, dl: jax.Array, d: jax.Array, du: jax.Array, b: jax.Array
) -> jax.Array:
    """The promise of `jscan.tridiagonal_solve`, of systems along the last axis."""
    x, below, middle, above, right = (z.astype(jnp.float64) for z in (result, dl, d, du, b))
    ends = [(0, 0)] * (x.ndim - 1)
    before = jnp.pad(x, [*ends, (1, 0)])[..., :-1]
    after = jnp.pad(x, [*ends, (0, 1)])[..., 1:]
    sizes = jnp.abs(below) + jnp.abs(middle) + jnp.abs(above)
    allowed = sizes * jnp.max(jnp.abs(x), axis=-1, keepdims=True) + jnp.abs(right)
    return jnp.max(jnp.abs(right - below * before - middle * x - above * after) / allowed) / EPS
