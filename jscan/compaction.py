"""Compaction: where the marked elements of an array are."""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

from jscan import extent, meshes
from jscan.arguments.arrays import as_marks
from jscan.arguments.scalars import as_scalar, as_size
from jscan.eager import compiled, marks
from jscan.primitives import rank

__all__ = ["nonzero"]

PLACE = np.dtype(np.int32)


def nonzero(mask: Any, *, size: int, fill_value: Any = 0) -> tuple[jax.Array, ...]:
    """Where ``mask`` is true: an array of indices for each of its dimensions.

    ``mask[y]`` are the true elements in the order in which they lie in memory, as for
    ``jnp.nonzero``.

    Args:
      mask: an array of a bool or integer dtype, of any rank but 0; what is not zero is true.
      size: how many indices to return, static. True elements beyond it are dropped.
      fill_value: the index behind the last true element, an int32; or a tuple of one for each
        dimension of ``mask``.

    Returns:
      A tuple of int32 arrays ``(size,)``, one for each dimension of ``mask``.

    Raises:
      TypeError: ``mask`` is not bool or integer; ``size`` is not an integer.
      ValueError: ``mask`` is a scalar, or has 2^31 elements or more; ``size`` is negative or too
        large; ``fill_value`` does not fit int32, or is a tuple of another length.

    One scan, which reads the mask and writes the places. Indices of more than one dimension are
    divided out of these.

    Source: Blelloch, *Prefix Sums and Their Applications* (1990), "pack".

    Example:
      >>> import jax.numpy as jnp
      >>> import jscan
      >>> mask = jnp.array([[1, 0, 1], [0, 0, 1]], bool)
      >>> rows, columns = jscan.nonzero(mask, size=4, fill_value=-1)
      >>> print(rows, columns)
      [ 0  0  1 -1] [ 0  2  2 -1]
    """
    return _nonzero(mask, size, fill_value)


@compiled(marks, int, int)
@meshes.automatic(lambda given: (given["mask"], meshes.instead_of(0, np.ndim(given["mask"]))))
def _nonzero(mask: Any, size: int, fill_value: Any) -> tuple[jax.Array, ...]:
    """The indices of a mask."""
    caller = "jscan.nonzero"
    array = jnp.asarray(as_marks(caller, "mask", mask))
    if array.ndim == 0:
        raise ValueError(f"{caller}: mask must have at least one dimension; got a scalar")
    size = as_size(caller, "size", size)
    fills = _as_fills(caller, fill_value, array.ndim)
    flat = array.reshape(-1)
    extent.check_places(caller, "mask", flat, 0)
    places = rank(flat, axis=0, emit="places", size=size)
    there = places < np.int32(flat.shape[0])
    indices = _unravelled(places, array.shape)
    return tuple(jnp.where(there, x, fill) for x, fill in zip(indices, fills, strict=True))


def _as_fills(caller: str, fill_value: Any, rank: int) -> list[jax.Array]:
    """What stands behind the last index of each dimension."""
    if not isinstance(fill_value, tuple):
        return [as_scalar(caller, "fill_value", fill_value, PLACE)] * rank
    if len(fill_value) != rank:
        raise ValueError(
            f"{caller}: fill_value must be a scalar or a tuple of one for each dimension of mask; "
            f"got {len(fill_value)} for {rank}"
        )
    return [as_scalar(caller, "fill_value", value, PLACE) for value in fill_value]


def _unravelled(places: jax.Array, shape: tuple[int, ...]) -> list[jax.Array]:
    """The index in each dimension of places in memory."""
    indices: list[jax.Array] = []
    for length in reversed(shape[1:]):
        divisor = np.int32(max(length, 1))
        indices.append(lax.rem(places, divisor))
        places = lax.div(places, divisor)
    return [places, *reversed(indices)]
