"""Cumulative operations along an axis: scans of one array by an operator of this package."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import jax
import jax.numpy as jnp
from jax import lax

from jscan import compensation, dispatch, meshes, operators, primitives
from jscan.advice import advised
from jscan.arguments.arrays import as_array
from jscan.arguments.choices import as_axis_name, check_method
from jscan.arguments.identity import as_init, as_known
from jscan.arguments.scalars import as_axis, as_switch
from jscan.combine import accumulation_dtype
from jscan.division import as_segments, of_scan
from jscan.eager import NONE, compiled, elements, tree
from jscan.starts import Start

__all__ = ["cumlogsumexp", "cummax", "cummin", "cumprod", "cumsum"]


@advised
def cumsum(
    x: Any,
    axis: int = 0,
    reverse: bool = False,
    *,
    exclusive: bool = False,
    init: Any = None,
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
      init: what comes before the first element (behind the last one, when reversed), a number or an
        array that broadcasts to ``x`` without ``axis``: ``y[0] = init + x[0]``, or
        ``y[0] = init`` where ``exclusive``. It belongs to the segment that is open where the axis
        begins: a head at the first element drops it. By ids, lengths and offsets the first element
        is always one; by flags, packed or not, where its flag is set. Where ``reverse``, the axis
        begins at its last element, and no head drops it there.
      segments: ``jscan.Segments``, or head flags of a bool or integer dtype: the scan starts anew
        at each head. They have the shape of ``x``, its leading dimensions through ``axis``, or
        ``(length of axis,)``.
      axis_name: as for ``jscan.associative_scan``.
      method: as for ``jscan.associative_scan``.
      precise: add floats in compensated pairs: each result is its exact sum, rounded once, but for
        at most 2^-45 of the sum of sizes (float32) for each addition, where elements are zero or of
        size 2^-103 at least (2^-970 of float64). It takes one more word of a tile's state, and 13
        operations for an addition. Derivatives and transposes are those of plain sums. ``init``
        is one number and no pair, so sums that go on from chunk to chunk round once in each.

    Returns:
      An array of the shape and dtype of ``x``. float16 and bfloat16 are combined in float32 and
      rounded once at the end; integers wrap.

    Raises:
      TypeError: ``x`` has a dtype that is not numeric, ``init`` has one of a wider kind than ``x``
        or is a JAX array whose dtype does not promote to that in which ``x`` is combined, flags
        are not bool or integer, or ``axis_name`` is not a name.
      ValueError: ``axis``, ``init``, the shape of the flags, ``axis_name`` or ``method`` does not
        fit; ``init`` is a number of Python or NumPy that is out of range.

    On a CUDA GPU the scan is one kernel and a fill of its state; ``x`` and the flags are read once
    and the result is written once. Sources as for ``jscan.associative_scan``.

    Example:
      >>> import jax.numpy as jnp
      >>> import jscan
      >>> print(jscan.cumsum(jnp.arange(5)))
      [ 0  1  3  6 10]
      >>> print(jscan.cumsum(jnp.ones(5), segments=jscan.Segments.from_lengths([2, 3])))
      [1. 2. 1. 2. 3.]
      >>> print(jscan.cumsum(jnp.arange(5), init=100))
      [100 101 103 106 110]

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
    along = axis, reverse, exclusive, init, segments, axis_name, method
    in_pairs = as_switch("jscan.cumsum", "precise", precise)
    return _cumulative("jscan.cumsum", compensation.ADD if in_pairs else operators.add, x, *along)


@advised
def cumprod(
    x: Any,
    axis: int = 0,
    reverse: bool = False,
    *,
    exclusive: bool = False,
    init: Any = None,
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
    along = axis, reverse, exclusive, init, segments, axis_name, method
    return _cumulative("jscan.cumprod", operators.mul, x, *along)


@advised
def cummax(
    x: Any,
    axis: int = 0,
    reverse: bool = False,
    *,
    exclusive: bool = False,
    init: Any = None,
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
    along = axis, reverse, exclusive, init, segments, axis_name, method
    return _cumulative("jscan.cummax", operators.max, x, *along)


@advised
def cummin(
    x: Any,
    axis: int = 0,
    reverse: bool = False,
    *,
    exclusive: bool = False,
    init: Any = None,
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
    along = axis, reverse, exclusive, init, segments, axis_name, method
    return _cumulative("jscan.cummin", operators.min, x, *along)


@advised
def cumlogsumexp(
    x: Any,
    axis: int = 0,
    reverse: bool = False,
    *,
    exclusive: bool = False,
    init: Any = None,
    segments: Any = None,
    axis_name: Any = None,
    method: str = "auto",
) -> jax.Array:
    """Cumulative logarithm of the sum of exponentials along an axis.

    ``y[t] = log(exp(x[0]) + ... + exp(x[t]))``; from the last element on where ``reverse``. No
    exponential overflows. Where ``exclusive``, the axis and each segment begin with minus infinity.

    Arguments, result, errors and cost are those of ``jscan.cumsum``; ``x`` is of floating-point or
    complex dtype. Imaginary parts of the result are known up to multiples of 2 pi.

    On a GPU elements are summed some hundreds at a time, beside the largest one of them: a result
    has the rounding of that one, though it may come later and be up to 69 larger. In float32, 0.1
    becomes 0.0999986 where 60 follows. Derivatives are NaN where all elements so far are minus
    infinity, as those of ``lax.cumlogsumexp`` are.

    Example:
      >>> import jax.numpy as jnp
      >>> import jscan
      >>> print(jscan.cumlogsumexp(jnp.log(jnp.array([1.0, 2.0, 5.0]))))
      [0.        1.0986123 2.0794415]
    """
    along = axis, reverse, exclusive, init, segments, axis_name, method
    return _cumulative("jscan.cumlogsumexp", operators.logaddexp, x, *along)


_ONE_LEAF = jax.tree.structure(0)


def _cumulative(
    caller: str,
    operator: operators.Operator,
    x: Any,
    axis: int,
    reverse: bool,
    exclusive: bool,
    init: Any,
    *how: Any,
) -> jax.Array:
    """The scan of an array with an operator of this package."""
    init = as_known(caller, init, x, accumulation_dtype)
    return _scan(caller, operator, x, axis, reverse, exclusive, init, *how)


@compiled(str, operators.Operator, elements, int, bool, bool, tree, of_scan, NONE, str)
def _scan(
    caller: str,
    operator: operators.Operator,
    x: Any,
    axis: int,
    reverse: bool,
    exclusive: bool,
    init: Any,
    segments: Any,
    axis_name: Any,
    method: str,
) -> jax.Array:
    """The same of an ``init`` whose known values fit."""
    check_method(caller, method)
    array = as_array(caller, "x", x)
    axis = as_axis(caller, "x", axis, array.shape)
    if array.dtype == jnp.bool_ or not operator.takes(array.dtype):
        raise TypeError(
            f"{caller}: x has dtype {array.dtype}, which {operator.name} does not take; cast it by "
            "x.astype"
        )
    reverse = as_switch(caller, "reverse", reverse)
    exclusive = as_switch(caller, "exclusive", exclusive)
    given = as_segments(caller, segments)
    dtypes = [accumulation_dtype(array.dtype)]
    start = as_init(caller, init, _ONE_LEAF, [array], dtypes, axis)
    how: dict[str, Any] = {
        "method": method,
        "axis_name": as_axis_name(caller, axis_name),
    }
    if operator is compensation.ADD and not jnp.issubdtype(array.dtype, jnp.inexact):
        operator = operators.add  # which is exact
    if operator is not compensation.ADD:
        call = dispatch.Call(caller, operator, [array], _ONE_LEAF, axis, given, init=start, **how)
        (result,) = dispatch.scan(call, reverse=reverse, exclusive=exclusive)
        return result

    def in_pairs(part: Callable[[jax.Array], jax.Array]) -> jax.Array:
        begin = None if start is None else [*map(part, start)]
        parts = [part(array)]
        call = dispatch.Call(caller, operator, parts, _ONE_LEAF, axis, given, init=begin, **how)
        return _scan_in_pairs(call, reverse=reverse, exclusive=exclusive)

    if jnp.issubdtype(array.dtype, jnp.complexfloating):
        return lax.complex(in_pairs(lax.real), in_pairs(lax.imag))
    return in_pairs(lambda x: x)


def _scan_in_pairs(call: dispatch.Call, *, reverse: bool, exclusive: bool) -> jax.Array:
    """The sums of one leaf of real floats, in compensated pairs."""
    division = call.divided(elementwise=True)
    flags = None if division is None else division.flags()

    def run(
        leaves: Sequence[jax.Array],
        flags: jax.Array | None,
        init: Sequence[jax.Array] | None,
    ) -> list[jax.Array]:
        [x] = leaves
        start = None if init is None else Start([*init, jnp.zeros_like(init[0])])
        return primitives.scan(
            [x, compensation.nothing_lost(x)],
            flags,
            combine=compensation.pairs(x.dtype),
            axis=call.axis,
            reverse=reverse,
            exclusive=exclusive,
            method=call.method,
            start=start,
            axis_name=call.axis_name,
            used=(True, False),
        )

    like = [*call.leaves] if flags is None else [*call.leaves, flags]
    init = call.init if call.leaves[0].shape[call.axis] else None
    [result] = meshes.automatically(run, call.leaves, flags, init, like=like)
    return result
