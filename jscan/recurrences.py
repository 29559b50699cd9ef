"""Linear recurrences along an axis."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

from jscan import dispatch, meshes, operators, primitives
from jscan.advice import advised
from jscan.arguments.arrays import as_array
from jscan.arguments.choices import as_axis_name, check_method
from jscan.arguments.identity import in_row
from jscan.arguments.leading import common_dtype, common_shape, spread_along
from jscan.arguments.scalars import as_axis, as_switch
from jscan.bits import Bounds, Ends, Marks, Packed
from jscan.described import flags_of
from jscan.division import marks_along, of_scan
from jscan.eager import NONE, compiled, elements, number
from jscan.starts import Start, first_of, with_first

__all__ = ["linear_recurrence"]


@advised
def linear_recurrence(
    a: Any,
    b: Any,
    h0: Any = None,
    *,
    axis: int = 0,
    reverse: bool = False,
    exclusive: bool = False,
    segments: Any = None,
    axis_name: Any = None,
    method: str = "auto",
) -> jax.Array:
    """First-order linear recurrence along an axis.

    ``h[t] = a[t] * h[t-1] + b[t]``, with ``h[-1] = h0``. With ``reverse`` it is
    ``h[t] = a[t] * h[t+1] + b[t]`` from the last element on, and ``h0`` is what lies behind it.

    Args:
      a: the coefficients, an array of numeric dtype. It has the dimensions of ``b``, each in full
        or 1, or only the leading ones of them; what is missing is shared, and read in place.
      b: the terms, an array of numeric dtype.
      h0: what precedes the first element (the last, when reversed): shaped like the result without
        ``axis``, each dimension in full or 1, or a scalar. Zero if left out. With segments it
        precedes the first of them (the last, when reversed), and zero the others.
      axis: the axis of ``b`` to run along, counted from the end where negative.
      reverse: run from the end. Segments then restart at their last elements.
      exclusive: leave each element out of its own result, which is then the state before it:
        ``h[t-1]``, so ``h0`` at the first element and zero at heads behind it.
      segments: ``jscan.Segments``, or head flags of a bool or integer dtype with the shape of the
        result, its leading dimensions through ``axis``, or ``(length of axis,)``: ``h[t] = b[t]``
        at each head but the first.
      axis_name: as for ``jscan.associative_scan``; ``h0`` is given to each device, and precedes the
        part of the first (the last, when reversed).
      method: as for ``jscan.associative_scan``.

    Returns:
      An array of the shape that ``a`` and ``b`` have together, in the dtype to which JAX promotes
      them. float16 and bfloat16 are combined in float32 and rounded once at the end.

    Raises:
      TypeError: an argument is not of a numeric dtype; flags are not bool or integer; ``axis_name``
        is not a name.
      ValueError: ``axis``, a shape, ``axis_name`` or ``method`` does not fit; the dtypes do not
        promote to one, as no two do under strict promotion.

    Cost: on a CUDA GPU a and b are read once and h is written once, 12 bytes an element of float32.
    The gradient is one more pass: ``λ[t] = h̄[t] + a[t+1] λ[t+1]`` runs the other way, reads a, h
    and h̄, and writes ``b̄ = λ`` and ``ā[t] = λ[t] h[t-1]``, 20 bytes. A shared ``a`` has its part
    written in full, then summed. ``h0`` is read by the first tile. complex128 operands take a few
    more passes: they are split. A float product of coefficients overflows where ``|a|`` exceeds 1
    for long.

    Sources: Blelloch, *Prefix Sums and Their Applications* (1990), §1.4; Martin and Cundy,
    *Parallelizing Linear Recurrent Neural Nets Over Sequence Length* (2018).

    Example:
      >>> import jax.numpy as jnp
      >>> import jscan
      >>> print(jscan.linear_recurrence(jnp.full(4, 0.5), jnp.ones(4)))
      [1.    1.5   1.75  1.875]
      >>> print(jscan.linear_recurrence(jnp.full(4, 0.5), jnp.zeros(4), h0=8.0))
      [4.  2.  1.  0.5]
      >>> print(jscan.linear_recurrence(jnp.full(4, 0.5), jnp.zeros(4), h0=8.0, exclusive=True))
      [8. 4. 2. 1.]

      Of an axis that goes on across all devices:

      >>> import jax
      >>> from jax.sharding import Mesh, PartitionSpec as P
      >>> def states(a, b):
      ...     return jscan.linear_recurrence(a, b, h0=8.0, axis_name="i")
      >>> mesh = Mesh(jax.devices(), ("i",))
      >>> run = jax.shard_map(states, mesh=mesh, in_specs=P("i"), out_specs=P("i"))
      >>> n = 4 * mesh.size
      >>> print(run(jnp.full(n, 0.5), jnp.zeros(n))[:4])
      [4.  2.  1.  0.5]
    """
    return _linear_recurrence(a, b, h0, segments, axis, reverse, exclusive, axis_name, method)


@compiled(elements, elements, number, of_scan, int, bool, bool, NONE, str)
@meshes.automatic(lambda given: ([given["b"], given["a"]], meshes.same))
def _linear_recurrence(
    a: Any,
    b: Any,
    h0: Any,
    segments: Any,
    axis: int,
    reverse: bool,
    exclusive: bool,
    axis_name: Any,
    method: str,
) -> jax.Array:
    """The recurrence of arrays."""
    caller = "jscan.linear_recurrence"
    check_method(caller, method)
    slope = as_array(caller, "a", a)
    offset = as_array(caller, "b", b)
    reverse = as_switch(caller, "reverse", reverse)
    exclusive = as_switch(caller, "exclusive", exclusive)
    axis = as_axis(caller, "b", axis, offset.shape)
    given = {"a": slope, "b": offset}
    shape = common_shape(caller, given, "b")
    if h0 is not None:
        given["h0"] = as_array(caller, "h0", h0)
    dtype = common_dtype(caller, given)
    slope, offset, *start = [x.astype(dtype) for x in given.values()]
    slope = lax.expand_dims(slope, range(slope.ndim, len(shape)))
    offset = spread_along(offset, shape, axis)
    if offset.shape != shape:
        offset = jnp.broadcast_to(offset, shape)
    names = as_axis_name(caller, axis_name)
    combine = dispatch.combine_once(operators.affine, (dtype, dtype))
    before = _start(caller, start[0], shape, axis, combine.dtypes) if start else None
    marks = marks_along(caller, segments, [offset], axis, names)
    if before is not None and marks is not None and not reverse:
        marks = _without_first(marks, axis, shape[axis], names)
    _, result = primitives.scan(
        [slope, offset],
        marks,
        combine=combine,
        axis=axis,
        reverse=reverse,
        exclusive=exclusive,
        method=method,
        start=before,
        axis_name=names,
    )
    return result


def _start(
    caller: str, h0: jax.Array, shape: tuple[int, ...], axis: int, dtypes: Sequence[np.dtype]
) -> Start | None:
    """What the scan of (a, b) starts from; None where there is no element."""
    row = shape[:axis] + shape[axis + 1 :]
    pairs = zip(h0.shape, row, strict=False)
    if h0.ndim and (len(row) != h0.ndim or any(size not in (1, full) for size, full in pairs)):
        raise ValueError(
            f"{caller}: h0 must be a scalar or have the result's shape without axis={axis}, {row}, "
            f"each dimension in full or 1; got {h0.shape}"
        )
    if shape[axis] == 0:
        return None
    slope, state = dtypes
    whole = (1,) * len(shape)
    return Start([lax.full(whole, 1, slope), in_row(h0.astype(state), len(shape), axis)])


def _without_first(marks: Marks, axis: int, n: int, axis_name: tuple[str, ...]) -> Marks:
    """Head flags without that of the first element, before which ``h0`` stands in any case."""
    if isinstance(marks, Packed):
        first = first_of(marks.words, axis=axis, reverse=False)
        others = lax.bitwise_and(first, lax.full_like(first, np.iinfo(first.dtype).max - 1))
        return Packed(with_first(marks.words, others, axis=axis, reverse=False))
    if isinstance(marks, (Bounds, Ends)) and not axis_name:
        # Segments in front of the second that has elements begin where it does.
        [places] = marks
        positive = jnp.where(places > 0, places, jnp.full_like(places, n))
        second = jnp.min(positive, axis=axis, keepdims=True, initial=n)
        return Bounds(jnp.maximum(places, second))
    flags = flags_of(marks, axis=axis, n=n)
    assert flags is not None
    first = first_of(flags, axis=axis, reverse=False)
    none = jnp.zeros_like(first)
    if axis_name:
        none = jnp.where(lax.axis_index(axis_name) == 0, none, first)
    return with_first(flags, none, axis=axis, reverse=False)
