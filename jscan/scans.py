"""Scans along an axis by any associative operator."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import jax

from jscan import dispatch, operators
from jscan.advice import advised
from jscan.arguments.choices import as_axis_name, check_method, check_operator
from jscan.arguments.identity import as_identity, as_init, as_known
from jscan.arguments.scalars import as_switch
from jscan.arguments.trees import as_leaves_along
from jscan.combine import accumulation_dtype
from jscan.division import as_segments, of_scan
from jscan.eager import NONE, compiled, tree
from jscan.templates import Bound, as_bound, as_data

__all__ = ["associative_scan"]


@advised
def associative_scan(
    fn: Callable[[Any, Any], Any],
    elems: Any,
    reverse: bool = False,
    axis: int = 0,
    *,
    exclusive: bool = False,
    identity: Any = None,
    init: Any = None,
    segments: Any = None,
    axis_name: Any = None,
    method: str = "auto",
) -> Any:
    """Scan with any associative operator, in place of ``jax.lax.associative_scan``.

    ``y[t] = fn(y[t-1], x[t])`` with ``y[0] = x[0]``. With ``reverse`` it is
    ``y[t] = fn(y[t+1], x[t])`` from the last element on, so that ``[.., x, y, z]`` becomes
    ``[.., fn(fn(z, y), x), fn(z, y), z]``. With ``init`` it is ``y[0] = fn(init, x[0])``.

    Args:
      fn: an associative operator; it need not commute. ``fn(a, b)`` takes two pytrees like
        ``elems`` and returns one with the same shapes and dtypes. The GPU kernels need it to work
        element by element on leaves of one shape and to close over nothing but scalars, or to work
        so on small blocks: what it mixes is in trailing dimensions, of 24 numbers an element at
        most, or 64 words of 32 bits, and it uses products of matrices, sums, transposes, slices
        and the like. Any other operator runs in plain JAX.
        Outside of ``jit`` it is traced once for each way that it is written, and numbers that it
        reads may change; one that reads what can change unnoticed is traced in each call.
      elems: a pytree of arrays of any dtype with one length along ``axis``.
      reverse: scan from the end. Segments then restart at their last elements.
      axis: the axis to scan, counted from the end where negative.
      exclusive: leave each element out of its own result: ``y[t] = fn(..., x[t-1])``, and the
        identity at the first element (the last, when reversed) of the axis or of each segment.
      identity: the identity of ``fn``, a pytree of scalars like ``elems`` (or of arrays that
        broadcast to one element along ``axis``). Needed only where ``exclusive`` without ``init``,
        or with ``segments``, and not for the operators of ``jscan.operators``.
        ``fn(identity, x)`` has to be ``x``. Where all is
        concrete and the scan exclusive, this is tried on the first elements, 65536 at most. A
        wrong identity that could not be tried is the result at starts, and changes no other.
      init: what comes before the first element (behind the last one, when reversed): a pytree
        like ``elems``, of numbers or arrays that broadcast to its leaves without ``axis``. So the
        last results of a chunk continue the scan in the next one. Where ``exclusive``,
        ``y[0] = init``. It belongs to the segment that is open where the axis begins: a head at
        the first element drops it. By ids, lengths and offsets the first element is always one; by
        flags, packed or not, where its flag is set. Where ``reverse``, the axis begins at its last
        element, and no head drops it there. Arrays are taken in the dtypes in which leaves are
        combined.
      segments: ``jscan.Segments``, or head flags of a bool or integer dtype: the scan starts anew
        at each head. They have the shape of the leaves, or ``(length of axis,)`` for all rows, or
        the leading dimensions of every leaf through ``axis``, and are then read once for all
        channels behind it: ``(batch, n)`` beside leaves of shape ``(batch, n, channels)``.
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
      TypeError: ``fn`` is not callable, cannot take a dtype, or returns another one; ``init`` has
        a dtype of a wider kind than its leaf, or is a JAX array whose dtype does not promote to
        that in which its leaf is combined; flags are not bool or integer; a leaf is not an array of
        numbers; ``axis_name`` is not a name.
      ValueError: ``axis``, a length, a shape, ``identity``, ``init`` or ``method`` does not fit,
        a number of ``init`` is out of range, ``identity`` is not neutral, or ``fn`` returns another
        structure (a list may stand for a tuple) or shape; ``axis_name`` is used outside of
        ``shard_map``, names an axis that it does not divide, or one twice; lengths
        across devices do not add up to the whole axis.

    On a CUDA GPU a scan is one kernel and a fill of its state: each leaf and flag is read once and
    each result that is used is written once; the first tile reads ``init``. An exclusive scan by an
    ``identity`` that does not follow from ``fn`` for every element moves its results one place on
    in one more pass where there is an ``init`` or ``axis_name``, or ``fn`` is a sum or logaddexp,
    and where the arrays lie on several devices. Plain JAX reads and writes about four times as
    much.

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

      In chunks, each of which goes on where the one before it ended:

      >>> first = jscan.associative_scan(jnp.maximum, x[:2])
      >>> print(first, jscan.associative_scan(jnp.maximum, x[2:], init=first[-1]))
      [3 3] [4 4 5]

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
        needs_identity = exclusive and (init is None or segments is not None)
        fn, identity = as_data(*given, needs_identity=needs_identity)
    init = as_known("jscan.associative_scan", init, elems, accumulation_dtype)
    run = _scan_by_data if isinstance(fn, Bound) else _scan_by_operator
    return run(fn, elems, identity, init, segments, axis, reverse, exclusive, axis_name, method)


def _associative_scan(
    fn: Callable[[Any, Any], Any] | Bound,
    elems: Any,
    identity: Any,
    init: Any,
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
    dtypes = [accumulation_dtype(leaf.dtype) for leaf in leaves]
    start = as_init(caller, init, treedef, leaves, dtypes, axis)
    if identity is not None:
        neutral = as_identity(caller, identity, treedef, leaves, dtypes, axis)
    elif exclusive and neutral is None and not isinstance(fn, operators.Operator):
        if start is None:
            raise ValueError(
                f"{caller}: exclusive=True needs identity= or init= where fn is not one of "
                "jscan.operators"
            )
        if segments is not None:
            raise ValueError(
                f"{caller}: exclusive=True needs identity= beside init= and segments=, for the "
                "heads of segments, where fn is not one of jscan.operators"
            )
    reverse = as_switch(caller, "reverse", reverse)
    given = as_segments(caller, segments)
    names = as_axis_name(caller, axis_name)
    call = dispatch.Call(caller, fn, leaves, treedef, axis, given, neutral, method, names, start)
    results = dispatch.scan(call, reverse=reverse, exclusive=exclusive)
    return jax.tree.unflatten(treedef, results)


_how = of_scan, int, bool, bool, NONE, str
_scan_by_operator = compiled(operators.KINDS, tree, NONE, tree, *_how)(_associative_scan)
_scan_by_data = compiled(as_bound, tree, NONE, tree, *_how)(_associative_scan)
