"""Arguments that lie along the leading dimensions of another, as coefficients do."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax


def common_shape(caller: str, given: Mapping[str, jax.Array], full: str) -> tuple[int, ...]:
    """The shape that arrays have together; all but ``full`` may lack its trailing dimensions."""
    whole = given[full]
    shape = whole.shape
    for name, x in given.items():
        try:
            if x.ndim > whole.ndim:
                raise ValueError
            shape = np.broadcast_shapes((*x.shape, *[1] * (whole.ndim - x.ndim)), shape)
        except ValueError:
            raise ValueError(
                f"{caller}: {name} must have the dimensions of {full}, each in full or 1, or the "
                f"leading ones; got {name} of shape {x.shape} and {full} of shape {whole.shape}"
            ) from None
    return shape


def common_dtype(caller: str, given: Mapping[str, jax.Array]) -> np.dtype:
    """The dtype to which arrays of numbers promote."""
    for name, x in given.items():
        if x.dtype == jnp.bool_ or not jnp.issubdtype(x.dtype, jnp.number):
            raise TypeError(f"{caller}: {name} has dtype {x.dtype}, which is not numeric")
    try:
        return jnp.result_type(*given.values())
    except jax.dtypes.TypePromotionError as error:
        *names, last = given
        kinds = ", ".join(str(x.dtype) for x in given.values())
        raise ValueError(
            f"{caller}: {', '.join(names)} and {last} do not promote to one dtype: {kinds}"
        ) from error


def spread_along(x: jax.Array, shape: Sequence[int], axis: int) -> jax.Array:
    """``x`` in the rank of ``shape``, spread along ``axis`` and as it is in other dimensions."""
    x = lax.expand_dims(x, range(x.ndim, len(shape)))
    full = [shape[d] if d == axis else size for d, size in enumerate(x.shape)]
    return jnp.broadcast_to(x, full)
