"""How far sums are from the exact ones, and how often they fall where they should not.

Everything is computed on the device in float64, where the exact sums are
(`benchmarks.cases.summands`).
"""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
from jax import lax

FINFO: Any = jnp.finfo  # has no annotations
EXPONENT = 0x7FF0000000000000
"""The bits of a float64 that hold its exponent."""


def exact(x: jax.Array) -> tuple[jax.Array, jax.Array]:
    """Running sums in float64, of elements and of their sizes; needs 64-bit types."""
    wide = x.astype(jnp.float64)
    return lax.cumsum(wide), lax.cumsum(jnp.abs(wide))


def eps(dtype: Any) -> float:
    """The spacing of a dtype at one."""
    return float(FINFO(dtype).eps)


def spacing(x: jax.Array, dtype: Any) -> jax.Array:
    """The distance between neighbours of a dtype in the binade of each float64 of ``x``."""
    bits = lax.bitcast_convert_type(x, jnp.uint64) & jnp.uint64(EXPONENT)
    power = lax.bitcast_convert_type(bits, jnp.float64)
    return jnp.maximum(power, float(FINFO(dtype).smallest_normal)) * eps(dtype)


def found(y: jax.Array, sums: jax.Array, sizes: jax.Array) -> dict[str, jax.Array]:
    """What there is to say of results ``y``; needs 64-bit types.

    ``max_eps`` and ``mean_eps`` are errors as multiples of the sum of sizes so far, in eps of
    float32, in which every dtype here is accumulated; ``max_ulps`` is the largest error in spacings
    of y's dtype at the exact sum, where that is not zero. ``steps_back`` are results below the one
    before them, ``step_back_ulps`` the largest of those steps in spacings at the result that it
    starts from. Results that are not finite are counted and otherwise left out.
    """
    wide = y.astype(jnp.float64)
    finite = jnp.isfinite(wide)
    error = jnp.where(finite, jnp.abs(wide - sums), 0.0)
    relative = jnp.where(sizes > 0, error / jnp.where(sizes > 0, sizes, 1.0), 0.0)
    unit = eps(jnp.float32)
    ulps = jnp.where(sums == 0, 0.0, error / spacing(sums, y.dtype))
    falls = jnp.where(finite[1:] & finite[:-1], wide[:-1] - wide[1:], 0.0)
    return {
        "max_eps": jnp.max(relative) / unit,
        "mean_eps": jnp.mean(relative) / unit,
        "max_ulps": jnp.max(ulps),
        "steps_back": jnp.sum(falls > 0),
        "step_back_ulps": jnp.max(falls / spacing(wide[:-1], y.dtype), initial=0.0),
        "not_finite": jnp.sum(~finite),
    }
