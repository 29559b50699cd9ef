"""Compaction: where marked elements are, how many are equal, and elements brought together."""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

from jscan import extent, meshes, orders, primitives
from jscan.advice import advised
from jscan.arguments.arrays import as_integers, as_marks, as_signs
from jscan.arguments.descriptors import narrow_numbers
from jscan.arguments.scalars import as_scalar, as_size
from jscan.arguments.trees import as_leaves_along, check_along
from jscan.eager import compiled, marks, tree
from jscan.ranks import rank

__all__ = ["histogram", "nonzero", "partition"]

PLACE = np.dtype(np.int32)


@advised
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
    if array.ndim == 1 and isinstance(fill_value, int):  # no second pass writes it
        return (rank(flat, axis=0, emit="places", size=size, fill=int(fill_value)),)
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


@advised
def histogram(keys: Any, length: int) -> jax.Array:
    """How often each of the numbers below ``length`` is among ``keys``.

    ``y[k] = number of keys[i] == k``, as for ``jnp.bincount``, but for keys out of range.

    Args:
      keys: an array of any integer dtype and any rank but 0. Keys that are negative, or not below
        ``length``, are not counted.
      length: how many numbers to count, static.

    Returns:
      int32 ``(length,)``.

    Raises:
      TypeError: ``keys`` is not of an integer dtype; ``length`` is not an integer.
      ValueError: ``keys`` is a scalar, or has 2^31 elements or more; ``length`` is negative or too
        large.

    A scatter that adds 1 for each key, by atomic operations on a GPU. Of up to 512 numbers programs
    count their keys there by themselves, in shared memory, and a sum of their counts follows. Few
    numbers otherwise have many places each, which neighbouring keys take in turn, since additions
    at one place wait for each other. Where keys are sorted, ``jscan.segment_sum`` of ones with
    ``indices_are_sorted`` is a single-pass kernel.

    Source: Blelloch, *Prefix Sums and Their Applications* (1990), the counts of a radix sort.

    Example:
      >>> import jax.numpy as jnp
      >>> import jscan
      >>> print(jscan.histogram(jnp.array([2, 0, 2, -1, 3, 2, 9]), 4))
      [1 0 3 1]
    """
    return _histogram(keys, length)


@compiled(marks, int)
@meshes.automatic(lambda given: (given["keys"], meshes.instead_of(0, np.ndim(given["keys"]))))
def _histogram(keys: Any, length: int) -> jax.Array:
    """The counts of keys."""
    caller = "jscan.histogram"
    given = as_integers(caller, "keys", keys, allow_bool=False)
    if given.ndim == 0:
        raise ValueError(f"{caller}: keys must have at least one dimension; got a scalar")
    length = as_size(caller, "length", length)
    if given.size >= 2**31:
        raise ValueError(
            f"{caller}: keys are counted in int32, so that there may be at most {2**31 - 1} "
            f"elements; got keys of shape {given.shape}"
        )
    narrow = jnp.asarray(narrow_numbers(given, length))
    return primitives.histogram(narrow.reshape(-1), axis=0, num_keys=length)


@advised
def partition(x: Any, signs: Any, axis: int = 0) -> tuple[Any, jax.Array]:
    """The elements whose sign is negative, then those of sign zero, then the positive ones.

    Each part is in its order. Two parts are ``jscan.split``: of a mask, which has no negative sign.

    Args:
      x: a pytree of arrays of any dtype with one length along ``axis``.
      signs: an array of a bool or integer dtype, ``(length of axis,)`` or of the leaves' shape, of
        which the sign alone counts. ``(x > pivot) - (x < pivot)`` in int8 parts by a pivot.
      axis: the axis to part, counted from the end where negative.

    Returns:
      A pytree like ``x``, and how long the three parts are: int32 ``(3,)``, or where ``signs`` has
      the leaves' shape, this shape with 3 along ``axis``.

    Raises:
      TypeError: ``signs`` is not bool or integer; a leaf is not an array.
      ValueError: ``axis``, a length or the shape of ``signs`` does not fit, or the axis has 2^31
        elements or more.

    A sum of signs, and one scan for each leaf of their shape, which on a CUDA GPU moves elements
    while it counts; where one row of ``signs`` is for many, one scan writes the order, for gathers.
    Elsewhere, of short rows and where ``axis`` is not the last one, two passes of a radix sort.

    Source: Blelloch, *Prefix Sums and Their Applications* (1990), the three-way "split" of
    quicksort.

    Example:
      >>> import jax.numpy as jnp
      >>> import jscan
      >>> x = jnp.array([5, 7, 3, 5, 4, 2, 7])
      >>> y, lengths = jscan.partition(x, x - 5)
      >>> print(y, lengths)
      [3 4 2 5 5 7 7] [3 2 2]
    """
    return _partition(x, signs, axis)


@compiled(tree, marks, int)
@meshes.automatic(lambda given: (given["x"], meshes.same))
def _partition(x: Any, signs: Any, axis: int) -> tuple[Any, jax.Array]:
    """A pytree in three parts, and their lengths."""
    caller = "jscan.partition"
    leaves, treedef, axis = as_leaves_along(caller, "x", x, axis)
    extent.check_places(caller, "x", leaves[0], axis)
    array = jnp.asarray(as_signs(caller, "signs", signs))
    check_along(caller, "signs", array, leaves, axis)
    results, lengths = orders.parted(leaves, array, axis)
    return jax.tree.unflatten(treedef, results), lengths
