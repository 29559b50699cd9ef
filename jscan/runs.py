"""Runs of equal neighbours: found, written out again, and one element of each."""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

from jscan import extent, heads, meshes, traced_bounds
from jscan.advice import advised
from jscan.arguments.arrays import Array, as_array
from jscan.arguments.descriptors import LIMIT, as_vector
from jscan.arguments.scalars import as_scalar, as_size
from jscan.eager import compiled, elements, marks
from jscan.primitives import spread
from jscan.ranks import locate, move_and_count, move_and_place, whole_bytes

__all__ = ["run_length_decode", "run_length_encode", "unique_sorted"]

COMPARED = frozenset(["float16", "bfloat16", "float32", "float64"])
"""Floats that the scan compares; of others a pass makes marks."""


@advised
def run_length_encode(x: Any, *, size: int) -> tuple[jax.Array, jax.Array, jax.Array]:
    """The runs of equal neighbours of ``x``: the first element of each one, and how long it is.

    ``x = [v[0]] * l[0] + [v[1]] * l[1] + ...``, where ``v[i] != v[i+1]`` and ``l[i] > 0``.

    Args:
      x: an array ``(n,)`` of any dtype. Elements are equal as ``==`` has it, 0.0 and -0.0 too; and
        what is not a number equals what is not a number, as for ``jnp.unique``.
      size: how many runs to return, static. Further runs are dropped.

    Returns:
      ``(values, lengths, count)``: the first element of each run, ``(size,)`` of the dtype of
      ``x``, and zeros behind the last one; int32 lengths ``(size,)``, likewise; and how many runs
      ``x`` has, an int32 scalar. Where it is more than ``size``, runs were dropped.

    Raises:
      TypeError: ``x`` is not an array of numbers; ``size`` is not an integer.
      ValueError: ``x`` is not one-dimensional or has 2^31 elements or more; ``size`` is negative or
        too large.

    One scan, which on a CUDA GPU compares neighbours, counts the runs, and writes where they begin
    and their first elements. Complex elements and floats of 8 bits are compared in a pass of their
    own. The gradient of ``values`` is a gather.

    Source: Blelloch, *Prefix Sums and Their Applications* (1990), "pack", of head flags.

    Example:
      >>> import jax.numpy as jnp
      >>> import jscan
      >>> values, lengths, count = jscan.run_length_encode(jnp.array([7, 7, 7, 2, 7]), size=4)
      >>> print(values, lengths, count)
      [7 2 7 0] [3 1 1 0] 3
    """
    return _run_length_encode(x, size)


@compiled(elements, int)
@meshes.automatic(lambda given: (given["x"], meshes.instead_of(0)))
def _run_length_encode(x: Any, size: int) -> tuple[jax.Array, jax.Array, jax.Array]:
    """The runs of an array."""
    caller = "jscan.run_length_encode"
    array = _as_row(caller, x)
    size = as_size(caller, "size", size)
    # The last run ends where the next one begins, also where that one is not asked for.
    given, source = _runs(array)
    how: dict[str, Any] = {"axis": 0, "source": source, "size": size + 1}
    first, begins, count = move_and_place(array, given, jnp.zeros((), array.dtype), **how)
    values, places = (lax.slice_in_dim(y, 0, size) for y in (first, begins))
    return values, lax.slice_in_dim(begins, 1, None) - places, count.reshape(())


@advised
def run_length_decode(values: Any, lengths: Any, *, size: int, fill_value: Any = 0) -> jax.Array:
    """Each element of ``values`` as often as ``lengths`` says; ``jnp.repeat`` of static size.

    ``y = [values[0]] * lengths[0] + [values[1]] * lengths[1] + ...``

    Args:
      values: an array ``(runs, ...)`` of any dtype.
      lengths: ``(runs,)``, any integer dtype. A negative one counts as 0.
      size: how many elements to return, static. Elements beyond it are dropped.
      fill_value: the value behind the last run, a scalar that the dtype of ``values`` can hold;
        floats are rounded.

    Returns:
      An array ``(size, ...)`` of the dtype of ``values``.

    Raises:
      TypeError: ``values`` is not an array of numbers; ``lengths`` is not of an integer dtype;
        ``size`` is not an integer.
      ValueError: ``lengths`` is not one-dimensional, or ``values`` does not have one element for
        each of them; ``size`` is negative or too large; ``fill_value`` does not fit the dtype.

    A scan of the lengths, one of the places where runs begin, and a gather. The gradient in
    ``values`` is the sum of each run: a reduction by sorted ids.

    Source: Blelloch, *Prefix Sums and Their Applications* (1990), "distribute".

    Example:
      >>> import jax.numpy as jnp
      >>> import jscan
      >>> values, lengths = jnp.array([7, 2, 5]), jnp.array([3, 0, 2])
      >>> print(jscan.run_length_decode(values, lengths, size=6, fill_value=-1))
      [ 7  7  7  5  5 -1]
    """
    return _run_length_decode(values, lengths, size, fill_value)


@compiled(elements, marks, int, int)
def _run_length_decode(values: Any, lengths: Any, size: int, fill_value: Any) -> jax.Array:
    """The elements of runs."""
    caller = "jscan.run_length_decode"
    array = as_array(caller, "values", values)
    given = as_vector(caller, "lengths", lengths)
    if array.shape[:1] != given.shape:
        raise ValueError(
            f"{caller}: values must have one element for each of lengths along its first axis; got "
            f"values of shape {array.shape} and lengths of shape {given.shape}"
        )
    size = as_size(caller, "size", size)
    fill = as_scalar(caller, "fill_value", fill_value, array.dtype)
    # Bounds are on all devices before they are scattered: XLA adds those of a part twice where they
    # do not divide evenly and the mesh has a second axis (jax 0.10 to 0.12, on CPUs).
    bounds, _ = traced_bounds.of_lengths(_in_32_bits(given), size)
    numbers = locate(bounds, n=size, emit="ids")
    dimensions = meshes.instead_of(0)
    return meshes.automatically(_decoded, array, numbers, fill, like=[array], dimensions=dimensions)


def _decoded(values: jax.Array, numbers: jax.Array, fill: jax.Array) -> jax.Array:
    """The value of each number, and what fills the place of a number that is too large."""
    full = lax.expand_dims(numbers, range(1, values.ndim))
    found = spread(values, full, axis=0)
    there = jnp.broadcast_to(full < np.int32(values.shape[0]), found.shape)
    return jnp.where(there, found, fill)


@advised
def unique_sorted(x: Any, *, size: int, fill_value: Any = 0) -> tuple[jax.Array, jax.Array]:
    """The different elements of an ``x`` in which equal elements are neighbours.

    ``y = [x[t] for all t with t == 0 or x[t] != x[t-1]]``, which is ``jnp.unique`` of what is
    sorted. Of what is not, it is the first element of each run.

    Args:
      x: an array ``(n,)`` of any dtype, sorted; in either direction, since only neighbours are
        compared. They are equal as for ``jscan.run_length_encode``, so that there is one NaN.
      size: how many elements to return, static. Further ones are dropped.
      fill_value: the value behind the last one, a scalar that the dtype of ``x`` can hold; floats
        are rounded.

    Returns:
      ``(values, count)``: ``(size,)`` of the dtype of ``x``, and how many different elements ``x``
      has, an int32 scalar. Where it is more than ``size``, elements were dropped.

    Raises:
      TypeError: ``x`` is not an array of numbers; ``size`` is not an integer.
      ValueError: ``x`` is not one-dimensional or has 2^31 elements or more; ``size`` is negative or
        too large; ``fill_value`` does not fit the dtype.

    One scan, which on a CUDA GPU compares neighbours, moves the first elements of runs and counts
    them. Complex elements and floats of 8 bits are compared in a pass of their own.

    Source: Blelloch, *Prefix Sums and Their Applications* (1990), "pack", of head flags.

    Example:
      >>> import jax.numpy as jnp
      >>> import jscan
      >>> values, count = jscan.unique_sorted(jnp.array([1, 1, 4, 5, 5]), size=4, fill_value=-1)
      >>> print(values, count)
      [ 1  4  5 -1] 3
    """
    return _unique_sorted(x, size, fill_value)


@compiled(elements, int, int)
@meshes.automatic(lambda given: (given["x"], meshes.instead_of(0)))
def _unique_sorted(x: Any, size: int, fill_value: Any) -> tuple[jax.Array, jax.Array]:
    """The different elements of an array."""
    caller = "jscan.unique_sorted"
    array = _as_row(caller, x)
    size = as_size(caller, "size", size)
    fill = as_scalar(caller, "fill_value", fill_value, array.dtype)
    begins, source = _runs(array)
    values, count = move_and_count(array, begins, fill, axis=0, source=source, size=size)
    return values, count.reshape(())


def _as_row(caller: str, x: Any) -> jax.Array:
    """An array of one dimension, whose places fit int32."""
    array = as_array(caller, "x", x)
    if array.ndim != 1:
        raise ValueError(f"{caller}: x must be one-dimensional; got shape {array.shape}")
    extent.check_places(caller, "x", array, 0)
    return array


def _runs(x: jax.Array) -> tuple[jax.Array, str]:
    """Marks of the elements at which runs begin, and their ``source``."""
    x = lax.stop_gradient(whole_bytes(x))
    if x.dtype.kind in "iub" or x.dtype.name in COMPARED:
        return x, "runs"
    return heads.first_of_runs(x, axis=0), "mask"


def _in_32_bits(lengths: Array) -> jax.Array:
    """Lengths in a dtype that JAX holds; known ones that are wide are cut down before."""
    if isinstance(lengths, np.ndarray):
        lengths = np.clip(lengths, 0, LIMIT).astype(np.int32)
    return jnp.asarray(lengths)
