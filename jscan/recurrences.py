"""Linear recurrences along an axis."""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp

from jscan import dispatch, meshes, operators, primitives
from jscan.advice import advised
from jscan.arguments.arrays import as_array
from jscan.arguments.choices import as_axis_name, check_method
from jscan.arguments.leading import common_dtype, common_shape, spread_along
from jscan.arguments.scalars import as_axis, as_switch
from jscan.division import marks_along, of_scan
from jscan.eager import NONE, compiled, elements, number
from jscan.starts import started

__all__ = ["linear_recurrence"]


@advised
def linear_recurrence(
    a: Any,
    b: Any,
    h0: Any = None,
    *,
    axis: int = 0,
    reverse: bool = False,
    segments: Any = None,
    axis_name: Any = None,
    method: str = "auto",
) -> jax.Array:
    """First-order linear recurrence along an axis.

    ``h[t] = a[t] * h[t-1] + b[t]``, with ``h[-1] = h0``. With ``reverse`` it is
    ``h[t] = a[t] * h[t+1] + b[t]`` from the last element on, and ``h0`` is what lies behind it.

    Args:
      a: the coefficients, an array of numeric dtype. It has the dimensions of ``b``, each in full
        or 1, or only the leading ones of them; what is missing is shared, and along ``b``'s
        trailing dimensions no copy is made. Where it is 1 along ``axis`` it is written out.
      b: the terms, an array of numeric dtype.
      h0: what precedes the first element (the last, when reversed): shaped like the result without
        ``axis``, each dimension in full or 1, or a scalar. Zero if left out. With segments it
        precedes the first of them (the last, when reversed), and zero the others.
      axis: the axis of ``b`` to run along, counted from the end where negative.
      reverse: run from the end. Segments then restart at their last elements.
      segments: ``jscan.Segments``, or head flags of a bool or integer dtype with the shape of the
        result or ``(length of axis,)``: ``h[t] = b[t]`` at each head but the first.
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
    written in full, then summed. ``h0`` is added to the first term in whatever computes ``b``; of a
    ``b`` that is an argument this makes a copy, 8 bytes more. Complex operands take a few more
    passes: they are split. A float product of coefficients overflows where ``|a|`` exceeds 1 for
    long.

    Sources: Blelloch, *Prefix Sums and Their Applications* (1990), §1.4; Martin and Cundy,
    *Parallelizing Linear Recurrent Neural Nets Over Sequence Length* (2018).

    Example:
      >>> import jax.numpy as jnp
      >>> import jscan
      >>> print(jscan.linear_recurrence(jnp.full(4, 0.5), jnp.ones(4)))
      [1.    1.5   1.75  1.875]
      >>> print(jscan.linear_recurrence(jnp.full(4, 0.5), jnp.zeros(4), h0=8.0))
      [4.  2.  1.  0.5]

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
    return _linear_recurrence(a, b, h0, segments, axis, reverse, axis_name, method)


@compiled(elements, elements, number, of_scan, int, bool, NONE, str)
@meshes.automatic(lambda given: ([given["b"], given["a"]], meshes.same))
def _linear_recurrence(
    a: Any,
    b: Any,
    h0: Any,
    segments: Any,
    axis: int,
    reverse: bool,
    axis_name: Any,
    method: str,
) -> jax.Array:
    """The recurrence of arrays."""
    caller = "jscan.linear_recurrence"
    check_method(caller, method)
    slope = as_array(caller, "a", a)
    offset = as_array(caller, "b", b)
    reverse = as_switch(caller, "reverse", reverse)
    axis = as_axis(caller, "b", axis, offset.shape)
    given = {"a": slope, "b": offset}
    shape = common_shape(caller, given, "b")
    if h0 is not None:
        given["h0"] = as_array(caller, "h0", h0)
    dtype = common_dtype(caller, given)
    slope, offset, *start = [x.astype(dtype) for x in given.values()]
    slope, offset = (spread_along(x, shape, axis) for x in (slope, offset))
    if offset.shape != shape:
        offset = jnp.broadcast_to(offset, shape)
    names = as_axis_name(caller, axis_name)
    if start:
        along: dict[str, Any] = {"axis": axis, "reverse": reverse, "axis_name": names}
        offset = started(caller, slope, offset, start[0], **along)
    flags = marks_along(caller, segments, [offset], axis, names)
    combine = dispatch.combine_once(operators.affine, (dtype, dtype))
    _, result = primitives.scan(
        [slope, offset],
        flags,
        combine=combine,
        axis=axis,
        reverse=reverse,
        exclusive=False,
        method=method,
        axis_name=names,
    )
    return result
