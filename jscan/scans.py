"""Scans along an axis: ``associative_scan`` and the cumulative operations."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
from jax import lax

from jscan import compensation, dispatch, operators
from jscan.advice import advised
from jscan.arguments.arrays import as_array
from jscan.arguments.choices import as_axis_name, check_method, check_operator
from jscan.arguments.identity import as_identity
from jscan.arguments.scalars import as_axis, as_switch
from jscan.arguments.trees import as_leaves_along
from jscan.combine import accumulation_dtype
from jscan.division import as_segments, of_scan
from jscan.eager import NONE, compiled, elements, tree
from jscan.templates import Bound, as_bound, as_data

__all__ = ["associative_scan", "cumlogsumexp", "cummax", "cummin", "cumprod", "cumsum"]


@advised
def associative_scan(
    fn: Callable[[Any, Any], Any],
    elems: Any,
    reverse: bool = False,
    axis: int = 0,
    *,
    exclusive: bool = False,
    identity: Any = None,
    segments: Any = None,
    axis_name: Any = None,
    method: str = "auto",
) -> Any:
    """Scan with any associative operator, in place of ``jax.lax.associative_scan``.

    ``y[t] = fn(y[t-1], x[t])`` with ``y[0] = x[0]``. With ``reverse`` it is
    ``y[t] = fn(y[t+1], x[t])`` from the last element on, so that ``[.., x, y, z]`` becomes
    ``[.., fn(fn(z, y), x), fn(z, y), z]``.

    Args:
      fn: an associative operator; it need not commute. ``fn(a, b)`` takes two pytrees like
        ``elems`` and returns one with the same shapes and dtypes. The GPU kernels need it to work
        element by element on leaves of one shape and to close over nothing but scalars;
        any other operator runs in plain JAX.
        Outside of ``jit`` it is traced once for each way that it is written, and numbers that it
        reads may change; one that reads what can change unnoticed is traced in each call.
      elems: a pytree of arrays of any dtype with one length along ``axis``.
      reverse: scan from the end. Segments then restart at their last elements.
      axis: the axis to scan, counted from the end where negative.
      exclusive: leave each element out of its own result: ``y[t] = fn(..., x[t-1])``, and the
        identity at the first element (the last, when reversed) of the axis or of each segment.
      identity: the identity of ``fn``, a pytree of scalars like ``elems`` (or of arrays that
        broadcast to one element along ``axis``). Needed only where ``exclusive``, and not for
        the operators of ``jscan.operators``. ``fn(identity, x)`` has to be ``x``. Where all is
        concrete and the scan exclusive, this is tried on the first elements, 65536 at most. A
        wrong identity that could not be tried is the result at starts, and changes no other.
      segments: ``jscan.Segments``, or head flags of a bool or integer dtype with the shape of the
        leaves or ``(length of axis,)``: the scan starts anew at each head. For an operator on
        whole arrays flags may also cover the leading dimensions of every leaf.
      axis_name: inside of ``jax.shard_map``, the mesh axis across which the axis goes on, or a
        tuple of them, the slowest first: each device has a part, in the order of the devices.
        ``segments`` are then flags or ids of its own part, or lengths or offsets of the whole
        axis. Totals of the parts are exchanged.
      method: ``"auto"``; the name of a GPU strategy, which raises where it cannot run: ``"block"``,
        ``"lookback"``, ``"serial_lookback"``, ``"chained"``, ``"repeatable"`` (in one pass, the
        same bits on every run), ``"reduce_then_scan"`` (the same in two passes) or
        ``"scan_then_propagate"``; or ``"xla"``, plain JAX.

    Returns:
      A pytree like ``elems``. float16 and bfloat16 are combined in float32 and rounded once at the
      end, other dtypes in their own.

    Raises:
      TypeError: ``fn`` is not callable, cannot take a dtype, or returns another one; flags are
        not bool or integer; a leaf is not an array of numbers; ``axis_name`` is not a name.
      ValueError: ``axis``, a length, a shape, ``identity`` or ``method`` does not fit,
        ``identity`` is not neutral, or ``fn`` returns another structure (a list may stand for a
        tuple) or shape; ``axis_name`` is used outside of ``shard_map``, names an axis that it does
        not divide, or one twice; lengths across devices do not add up to the whole axis.

    On a CUDA GPU a scan is one kernel and a fill of its state: each leaf and flag is read once and
    each result that is used is written once. An exclusive scan by an ``identity`` that does not
    follow from ``fn`` for every element moves its results one place on in one more pass. Plain JAX
    reads and writes about four times as much.

    Sources: Blelloch, *Prefix Sums and Their Applications* (1990); Sengupta et al., *Scan
    Primitives for GPU Computing* (2007); Merrill and Garland, *Single-pass Parallel Prefix Scan
    with Decoupled Look-back* (2016).

    Example:
      >>> import jax.numpy as jnp
      >>> import jscan
      >>> x = jnp.array([3, 1, 4, 1, 5])
      >>> print(jscan.associative_scan(jnp.maximum, x))
      [3 3 4 4 5]
      >>> print(jscan.associative_scan(jnp.add, x, segments=jnp.array([1, 0, 1, 0, 0])))
      [ 3  4  4  5 10]
      >>> print(jscan.associative_scan(jnp.add, x, exclusive=True, identity=0))
      [0 3 4 8 9]

      Of an axis that goes on across all devices:

      >>> import jax
      >>> from jax.sharding import Mesh, PartitionSpec as P
      >>> def largest(part):
      ...     return jscan.associative_scan(jnp.maximum, part, axis_name="i")
      >>> mesh = Mesh(jax.devices(), ("i",))
      >>> run = jax.shard_map(largest, mesh=mesh, in_specs=P("i"), out_specs=P("i"))
      >>> x = jnp.arange(4 * mesh.size) % 3
      >>> print((run(x) == jscan.cummax(x)).all())
      True
    """
    if axis_name is None and type(exclusive) is bool:
        given = "jscan.associative_scan", fn, elems, axis, identity
        fn, identity = as_data(*given, needs_identity=exclusive)
    run = _scan_by_data if isinstance(fn, Bound) else _scan_by_operator
    return run(fn, elems, identity, segments, axis, reverse, exclusive, axis_name, method)


def _associative_scan(
    fn: Callable[[Any, Any], Any] | Bound,
    elems: Any,
    identity: Any,
    segments: Any,
    axis: int,
    reverse: bool,
    exclusive: bool,
    axis_name: Any,
    method: str,
) -> Any:
    """The scan of a pytree."""
    caller = "jscan.associative_scan"
    check_operator(caller, fn)
    check_method(caller, method)
    leaves, treedef, axis = as_leaves_along(caller, "elems", elems, axis)
    exclusive = as_switch(caller, "exclusive", exclusive)
    neutral = fn.identity if isinstance(fn, Bound) else None
    if identity is not None:
        dtypes = [accumulation_dtype(leaf.dtype) for leaf in leaves]
        neutral = as_identity(caller, identity, treedef, leaves, dtypes, axis)
    elif exclusive and neutral is None and not isinstance(fn, operators.Operator):
        raise ValueError(
            f"{caller}: exclusive=True needs identity= where fn is not one of jscan.operators"
        )
    reverse = as_switch(caller, "reverse", reverse)
    given = as_segments(caller, segments)
    names = as_axis_name(caller, axis_name)
    call = dispatch.Call(caller, fn, leaves, treedef, axis, given, neutral, method, names)
    results = dispatch.scan(call, reverse=reverse, exclusive=exclusive)
    return jax.tree.unflatten(treedef, results)


_how = of_scan, int, bool, bool, NONE, str
_scan_by_operator = compiled(operators.KINDS, tree, NONE, *_how)(_associative_scan)
_scan_by_data = compiled(as_bound, tree, NONE, *_how)(_associative_scan)


@advised
def cumsum(
    x: Any,
    axis: int = 0,
    reverse: bool = False,
    *,
    exclusive: bool = False,
    segments: Any = None,
    axis_name: Any = None,
    method: str = "auto",
    precise: bool = False,
) -> jax.Array:
    """Cumulative sum along an axis.

    ``y[t] = x[0] + ... + x[t]``; from the last element on where ``reverse``.

    Args:
      x: an array of numeric dtype.
      axis: the axis to scan, counted from the end where negative.
      reverse: scan from the end. Segments then restart at their last elements.
      exclusive: leave each element out of its own result: ``y[t] = x[0] + ... + x[t-1]``, and 0 at
        the first element (the last, when reversed) of the axis or of each segment.
      segments: ``jscan.Segments``, or head flags of a bool or integer dtype with the shape of ``x``
        or ``(length of axis,)``: the scan starts anew at each head.
      axis_name: as for ``jscan.associative_scan``.
      method: as for ``jscan.associative_scan``.
      precise: add floats in compensated pairs: each result is its exact sum, rounded once, but for
        at most 2^-45 of the sum of sizes (float32) for each addition. It takes one more
        word of a tile's state, and 13 operations for an addition. Derivatives are those of plain
        sums.

    Returns:
      An array of the shape and dtype of ``x``. float16 and bfloat16 are combined in float32 and
      rounded once at the end; integers wrap.

    Raises:
      TypeError: ``x`` has a dtype that is not numeric, flags are not bool or integer, or
        ``axis_name`` is not a name.
      ValueError: ``axis``, the shape of the flags, ``axis_name`` or ``method`` does not fit.

    On a CUDA GPU the scan is one kernel and a fill of its state; ``x`` and the flags are read once
    and the result is written once. Sources as for ``jscan.associative_scan``.

    Example:
      >>> import jax.numpy as jnp
      >>> import jscan
      >>> print(jscan.cumsum(jnp.arange(5)))
      [ 0  1  3  6 10]
      >>> print(jscan.cumsum(jnp.ones(5), segments=jscan.Segments.from_lengths([2, 3])))
      [1. 2. 1. 2. 3.]

      Of an axis that goes on across all devices:

      >>> import jax
      >>> from jax.sharding import Mesh, PartitionSpec as P
      >>> def sums(part):
      ...     return jscan.cumsum(part, axis_name="i")
      >>> mesh = Mesh(jax.devices(), ("i",))
      >>> run = jax.shard_map(sums, mesh=mesh, in_specs=P("i"), out_specs=P("i"))
      >>> x = jnp.arange(4 * mesh.size)
      >>> print((run(x) == jscan.cumsum(x)).all())
      True
    """
    along = axis, reverse, exclusive, segments, axis_name, method
    in_pairs = as_switch("jscan.cumsum", "precise", precise)
    return _cumulative("jscan.cumsum", compensation.ADD if in_pairs else operators.add, x, *along)


@advised
def cumprod(
    x: Any,
    axis: int = 0,
    reverse: bool = False,
    *,
    exclusive: bool = False,
    segments: Any = None,
    axis_name: Any = None,
    method: str = "auto",
) -> jax.Array:
    """Cumulative product along an axis.

    ``y[t] = x[0] * ... * x[t]``; from the last element on where ``reverse``. Where ``exclusive``,
    the axis and each segment begin with 1.

    Arguments, result, errors and cost are those of ``jscan.cumsum``.

    Example:
      >>> import jax.numpy as jnp
      >>> import jscan
      >>> print(jscan.cumprod(jnp.arange(1, 6)))
      [  1   2   6  24 120]
      >>> print(jscan.cumprod(jnp.arange(1, 6), exclusive=True))
      [ 1  1  2  6 24]
    """
    along = axis, reverse, exclusive, segments, axis_name, method
    return _cumulative("jscan.cumprod", operators.mul, x, *along)


@advised
def cummax(
    x: Any,
    axis: int = 0,
    reverse: bool = False,
    *,
    exclusive: bool = False,
    segments: Any = None,
    axis_name: Any = None,
    method: str = "auto",
) -> jax.Array:
    """Cumulative maximum along an axis.

    ``y[t] = max(x[0], ..., x[t])``; from the last element on where ``reverse``. NaN propagates.
    Where ``exclusive``, the axis and each segment begin with the least value of the dtype.

    Arguments, result, errors and cost are those of ``jscan.cumsum``; ``x`` is of real dtype.

    Example:
      >>> import jax.numpy as jnp
      >>> import jscan
      >>> print(jscan.cummax(jnp.array([3, 1, 4, 1, 5])))
      [3 3 4 4 5]
    """
    along = axis, reverse, exclusive, segments, axis_name, method
    return _cumulative("jscan.cummax", operators.max, x, *along)


@advised
def cummin(
    x: Any,
    axis: int = 0,
    reverse: bool = False,
    *,
    exclusive: bool = False,
    segments: Any = None,
    axis_name: Any = None,
    method: str = "auto",
) -> jax.Array:
    """Cumulative minimum along an axis.

    ``y[t] = min(x[0], ..., x[t])``; from the last element on where ``reverse``. NaN propagates.
    Where ``exclusive``, the axis and each segment begin with the greatest value of the dtype.

    Arguments, result, errors and cost are those of ``jscan.cumsum``; ``x`` is of real dtype.

    Example:
      >>> import jax.numpy as jnp
      >>> import jscan
      >>> print(jscan.cummin(jnp.array([3, 1, 4, 1, 5])))
      [3 1 1 1 1]
    """
    along = axis, reverse, exclusive, segments, axis_name, method
    return _cumulative("jscan.cummin", operators.min, x, *along)


@advised
def cumlogsumexp(
    x: Any,
    axis: int = 0,
    reverse: bool = False,
    *,
    exclusive: bool = False,
    segments: Any = None,
    axis_name: Any = None,
    method: str = "auto",
) -> jax.Array:
    """Cumulative logarithm of the sum of exponentials along an axis.

    ``y[t] = log(exp(x[0]) + ... + exp(x[t]))``; from the last element on where ``reverse``. No
    exponential overflows. Where ``exclusive``, the axis and each segment begin with minus infinity.

    Arguments, result, errors and cost are those of ``jscan.cumsum``; ``x`` is of floating-point or
    complex dtype.

    Example:
      >>> import jax.numpy as jnp
      >>> import jscan
      >>> print(jscan.cumlogsumexp(jnp.log(jnp.array([1.0, 2.0, 5.0]))))
      [0.        1.0986123 2.0794415]
    """
    along = axis, reverse, exclusive, segments, axis_name, method
    return _cumulative("jscan.cumlogsumexp", operators.logaddexp, x, *along)


_ONE_LEAF = jax.tree.structure(0)


@compiled(str, operators.Operator, elements, int, bool, bool, of_scan, NONE, str)
def _cumulative(
    caller: str,
    operator: operators.Operator,
    x: Any,
    axis: int,
    reverse: bool,
    exclusive: bool,
    segments: Any,
    axis_name: Any,
    method: str,
) -> jax.Array:
    """The scan of an array with an operator of this package."""
    check_method(caller, method)
    array = as_array(caller, "x", x)
    axis = as_axis(caller, "x", axis, array.shape)
    if array.dtype == jnp.bool_ or not operator.takes(array.dtype):
        raise TypeError(f"{caller}: x has dtype {array.dtype}, which {operator.name} does not take")
    reverse = as_switch(caller, "reverse", reverse)
    exclusive = as_switch(caller, "exclusive", exclusive)
    given = as_segments(caller, segments)
    how: dict[str, Any] = {"method": method, "axis_name": as_axis_name(caller, axis_name)}
    if operator is compensation.ADD and not jnp.issubdtype(array.dtype, jnp.inexact):
        operator = operators.add  # which is exact
    if operator is not compensation.ADD:
        call = dispatch.Call(caller, operator, [array], _ONE_LEAF, axis, given, **how)
        (result,) = dispatch.scan(call, reverse=reverse, exclusive=exclusive)
        return result

    def in_pairs(array: jax.Array) -> jax.Array:
        call = dispatch.Call(caller, operator, [array], _ONE_LEAF, axis, given, **how)
        return dispatch.scan_in_pairs(call, reverse=reverse, exclusive=exclusive)

    if jnp.issubdtype(array.dtype, jnp.complexfloating):
        return lax.complex(in_pairs(lax.real(array)), in_pairs(lax.imag(array)))
    return in_pairs(array)
