"""Reductions of an axis, or of segments of it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import jax

from jscan import by_ids, compensation, described, dispatch, operators
from jscan.advice import advised
from jscan.arguments.choices import as_axis_name, check_method, check_operator
from jscan.arguments.identity import as_identity
from jscan.arguments.scalars import as_switch
from jscan.arguments.trees import as_leaves_along
from jscan.combine import accumulation_dtype
from jscan.division import as_segments, known_count, of_reduction, segment_count
from jscan.eager import NONE, compiled, tree
from jscan.segments import Segments
from jscan.templates import Bound, as_bound, as_data

__all__ = ["reduce", "segment_max", "segment_min", "segment_prod", "segment_sum"]


@advised
def segment_sum(
    data: Any,
    segment_ids: Any,
    num_segments: int | None = None,
    indices_are_sorted: bool = False,
    unique_indices: bool = False,
    bucket_size: int | None = None,
    mode: jax.lax.GatherScatterMode | str | None = None,
    out_sharding: Any = None,
    *,
    axis_name: Any = None,
    method: str = "auto",
    precise: bool = False,
) -> jax.Array:
    """Sum of the elements of each segment; takes the place of ``jax.ops.segment_sum``.

    ``y[s] = sum of data[i] over all i with segment_ids[i] == s``, and 0 where there is none.

    Args:
      data: an array ``(n, ...)``. One element, or a scalar, is taken for all ids.
      segment_ids: ``(n,)``, any integer dtype. Elements whose id is negative or not below
        ``num_segments`` are dropped. Or a ``jscan.SegmentPlan``, by which a kernel takes ids in any
        order; no promise, no ``mode="clip"`` and no ``axis_name`` goes with it.
      num_segments: how many segments there are, static. Where it is left out it is
        ``max(segment_ids) + 1``, and the ids must be concrete.
      indices_are_sorted: promises that equal ids are neighbours, as they are in sorted ids. On a
        CUDA GPU a single-pass kernel then runs, and without the promise the scatter of ``jax.ops``.
        Where the promise is broken, a segment holds the total of some of its elements.
      unique_indices: promises that no id comes twice. Only the scatter uses it.
      bucket_size: how many consecutive elements to combine separately before their totals are
        combined, which rounds less. Buckets are scattered in plain JAX, sorted or not, and take
        ``ceil(n / bucket_size)`` times the memory of the result.
      mode: a ``jax.lax.GatherScatterMode``, or its name. ``"clip"`` takes an id out of range for
        the first or the last segment, and the promise of sorted ids is then about the ids so
        clipped; ``"fill"`` and ``"drop"`` are the default; ``"promise_in_bounds"`` is no faster.
      out_sharding: how the result is laid out in a mesh of Explicit axes: a ``NamedSharding`` or a
        ``PartitionSpec``. Left out, its trailing dimensions are laid out as those of ``data``.
      axis_name: inside of ``jax.shard_map``, the mesh axes across which elements are divided, as
        for ``jscan.associative_scan``; the result has the totals of all devices' elements, and is
        the same on each. Needs sorted ids (in the order of the devices, too), and no buckets.
      method: as for ``jscan.associative_scan``. A strategy's name needs sorted ids, and no buckets.
      precise: add floats in compensated pairs, as ``jscan.cumsum`` does, with the same bound on the
        error of each total. Ids that are not promised to be sorted are sorted. No buckets.

    Returns:
      An array ``(num_segments, ...)`` of the dtype of ``data``. float16 and bfloat16 are added in
      float32 and rounded once at the end; integers wrap.

    Raises:
      TypeError: the operation does not take the dtype of ``data``; ``segment_ids`` is not of an
        integer dtype; ``num_segments``, ``bucket_size``, ``mode``, ``axis_name`` or a switch has
        another type.
      ValueError: a shape, ``num_segments``, ``bucket_size``, ``mode``, ``axis_name`` or ``method``
        does not fit.

    With sorted ids or a plan, data and ids are read once and each result is written twice (a fill,
    and the totals), or once where results are large beside ids, which are read twice then. Elements
    are added in groups; the groups before a tile may be added in any order.

    Where several devices share elements with sorted ids, each finds totals of its own elements for
    all segments. Sums are then added up by an all-reduce of the result's size; other totals are
    gathered, once for each device, and combined. Every device has the whole result. One that is
    wanted in parts, by ``out_sharding`` or ``jax.lax.with_sharding_constraint``, is cut from that.

    Sources: Blelloch, *Prefix Sums and Their Applications* (1990); Sengupta et al., *Scan
    Primitives for GPU Computing* (2007).

    Example:
      >>> import jax.numpy as jnp
      >>> import jscan
      >>> data = jnp.array([5, 1, 2, 3, 4])
      >>> ids = jnp.array([0, 0, 2, 2, 2])
      >>> print(jscan.segment_sum(data, ids, 4, indices_are_sorted=True))
      [6 0 9 0]

      Of elements that are divided among all devices:

      >>> import jax
      >>> from jax.sharding import Mesh, PartitionSpec as P
      >>> def totals(data, ids):
      ...     return jscan.segment_sum(data, ids, 2, indices_are_sorted=True, axis_name="i")
      >>> mesh = Mesh(jax.devices(), ("i",))
      >>> run = jax.shard_map(totals, mesh=mesh, in_specs=P("i"), out_specs=P())
      >>> ids = (jnp.arange(4 * mesh.size) > 2).astype(int)
      >>> print(run(jnp.ones(ids.size, int), ids) - jnp.array([0, ids.size]))
      [ 3 -3]
    """
    in_pairs = as_switch("jscan.segment_sum", "precise", precise)
    return by_ids.reduce(
        "jscan.segment_sum",
        compensation.ADD if in_pairs else operators.add,
        data,
        segment_ids,
        num_segments,
        indices_are_sorted=indices_are_sorted,
        unique_indices=unique_indices,
        bucket_size=bucket_size,
        mode=mode,
        out_sharding=out_sharding,
        axis_name=axis_name,
        method=method,
    )


@advised
def segment_prod(
    data: Any,
    segment_ids: Any,
    num_segments: int | None = None,
    indices_are_sorted: bool = False,
    unique_indices: bool = False,
    bucket_size: int | None = None,
    mode: jax.lax.GatherScatterMode | str | None = None,
    out_sharding: Any = None,
    *,
    axis_name: Any = None,
    method: str = "auto",
) -> jax.Array:
    """Product of the elements of each segment; takes the place of ``jax.ops.segment_prod``.

    ``y[s] = product of data[i] over all i with segment_ids[i] == s``, and 1 where there is none.

    Arguments, result, errors and cost are those of ``jscan.segment_sum``. It is differentiable,
    which the product of ``jax.ops`` is not; the derivative sorts ids that are not sorted.

    Example:
      >>> import jax.numpy as jnp
      >>> import jscan
      >>> data = jnp.array([5, 1, 2, 3, 4])
      >>> ids = jnp.array([0, 0, 2, 2, 2])
      >>> print(jscan.segment_prod(data, ids, 4, indices_are_sorted=True))
      [ 5  1 24  1]
    """
    return by_ids.reduce(
        "jscan.segment_prod",
        operators.mul,
        data,
        segment_ids,
        num_segments,
        indices_are_sorted=indices_are_sorted,
        unique_indices=unique_indices,
        bucket_size=bucket_size,
        mode=mode,
        out_sharding=out_sharding,
        axis_name=axis_name,
        method=method,
    )


@advised
def segment_max(
    data: Any,
    segment_ids: Any,
    num_segments: int | None = None,
    indices_are_sorted: bool = False,
    unique_indices: bool = False,
    bucket_size: int | None = None,
    mode: jax.lax.GatherScatterMode | str | None = None,
    out_sharding: Any = None,
    *,
    axis_name: Any = None,
    method: str = "auto",
) -> jax.Array:
    """Maximum of the elements of each segment; takes the place of ``jax.ops.segment_max``.

    ``y[s] = max of data[i] over all i with segment_ids[i] == s``, and the least value of the dtype
    where there is none. NaN propagates.

    Arguments, result, errors and cost are those of ``jscan.segment_sum``; ``data`` is real or
    bool.

    Example:
      >>> import jax.numpy as jnp
      >>> import jscan
      >>> data = jnp.array([5.0, 1.0, 2.0, 3.0, 4.0])
      >>> ids = jnp.array([0, 0, 2, 2, 2])
      >>> print(jscan.segment_max(data, ids, 4, indices_are_sorted=True))
      [  5. -inf   4. -inf]
    """
    return by_ids.reduce(
        "jscan.segment_max",
        operators.max,
        data,
        segment_ids,
        num_segments,
        indices_are_sorted=indices_are_sorted,
        unique_indices=unique_indices,
        bucket_size=bucket_size,
        mode=mode,
        out_sharding=out_sharding,
        axis_name=axis_name,
        method=method,
    )


@advised
def segment_min(
    data: Any,
    segment_ids: Any,
    num_segments: int | None = None,
    indices_are_sorted: bool = False,
    unique_indices: bool = False,
    bucket_size: int | None = None,
    mode: jax.lax.GatherScatterMode | str | None = None,
    out_sharding: Any = None,
    *,
    axis_name: Any = None,
    method: str = "auto",
) -> jax.Array:
    """Minimum of the elements of each segment; takes the place of ``jax.ops.segment_min``.

    ``y[s] = min of data[i] over all i with segment_ids[i] == s``, and the greatest value of the
    dtype where there is none. NaN propagates.

    Arguments, result, errors and cost are those of ``jscan.segment_sum``; ``data`` is real or
    bool.

    Example:
      >>> import jax.numpy as jnp
      >>> import jscan
      >>> data = jnp.array([5.0, 1.0, 2.0, 3.0, 4.0])
      >>> ids = jnp.array([0, 0, 2, 2, 2])
      >>> print(jscan.segment_min(data, ids, 4, indices_are_sorted=True))
      [ 1. inf  2. inf]
    """
    return by_ids.reduce(
        "jscan.segment_min",
        operators.min,
        data,
        segment_ids,
        num_segments,
        indices_are_sorted=indices_are_sorted,
        unique_indices=unique_indices,
        bucket_size=bucket_size,
        mode=mode,
        out_sharding=out_sharding,
        axis_name=axis_name,
        method=method,
    )


@advised
def reduce(
    fn: Callable[[Any, Any], Any],
    elems: Any,
    axis: int = 0,
    *,
    identity: Any = None,
    segments: Any = None,
    num_segments: int | None = None,
    axis_name: Any = None,
    method: str = "auto",
) -> Any:
    """Reduction with any associative operator, of an axis or of segments of it.

    ``y = x[0] ⊕ x[1] ⊕ ... ⊕ x[n-1]``, in this order. With ``segments``, ``y[s]`` is that of the
    elements of segment ``s``, and the identity where it has none.

    Args:
      fn: an associative operator; it need not commute. As for ``jscan.associative_scan``.
      elems: a pytree of arrays of any dtype with one length along ``axis``.
      axis: the axis to reduce, counted from the end where negative.
      identity: the identity of ``fn``, as for ``jscan.associative_scan``. Needed, unless ``fn`` is
        one of ``jscan.operators``, for an empty axis and with ``segments``.
      segments: ``jscan.Segments``, or head flags, as for ``jscan.associative_scan``. Segments are
        numbered from 0 along the axis; those of ``from_lengths`` and ``from_offsets`` keep their
        numbers where some are empty.
      num_segments: how many segments to return, static. It may be left out for ``from_lengths``
        and ``from_offsets``, and where the segments are concrete. Further segments are dropped.
      axis_name: as for ``jscan.associative_scan``; the result is the same on each of these devices.
      method: as for ``jscan.associative_scan``. A reduction is the first half of
        ``"reduce_then_scan"``, in which resident programs walk a part each, and the first half of
        ``"scan_then_propagate"``, a tree; by ``"repeatable"`` it is one pass.

    Returns:
      A pytree like ``elems`` without ``axis``; with ``segments``, with ``num_segments`` elements
      along it. float16 and bfloat16 are combined in float32 and rounded once at the end.

    Raises:
      TypeError: ``fn`` is not callable, cannot take a dtype, or returns another one; flags are
        not bool or integer; a leaf is not an array; ``axis_name`` is not a name.
      ValueError: ``axis``, a length, a shape, ``identity``, ``num_segments``, ``axis_name`` or
        ``method`` does not fit; across devices, ``num_segments`` is missing beside flags or ids of
        a part.

    On a CUDA GPU each leaf is read once; head flags, and the ids of ``from_ids``, are read twice.
    Without segments the operators that are one machine operation (``add``, ``max``, ...) take XLA's
    own reduction, whose order is not fixed.

    Sources: as for ``jscan.segment_sum``.

    Example:
      >>> import jax.numpy as jnp
      >>> import jscan
      >>> x = jnp.array([3, 1, 4, 1, 5])
      >>> print(jscan.reduce(jnp.maximum, x))
      5
      >>> segments = jscan.Segments.from_lengths([2, 0, 3])
      >>> print(jscan.reduce(jscan.operators.add, x, segments=segments))
      [ 4  0 10]

      Of an axis that goes on across all devices:

      >>> import jax
      >>> from jax.sharding import Mesh, PartitionSpec as P
      >>> def largest(part):
      ...     return jscan.reduce(jscan.operators.max, part, axis_name="i")
      >>> mesh = Mesh(jax.devices(), ("i",))
      >>> run = jax.shard_map(largest, mesh=mesh, in_specs=P("i"), out_specs=P())
      >>> print(run(jnp.arange(4 * mesh.size) % 4))
      3
    """
    if num_segments is None and axis_name is None:
        num_segments = known_count(segments)
    if axis_name is None:
        given = "jscan.reduce", fn, elems, axis, identity
        fn, identity = as_data(*given, needs_identity=segments is not None)
    run = _reduce_by_data if isinstance(fn, Bound) else _reduce_by_operator
    return run(fn, elems, identity, segments, num_segments, axis, axis_name, method)


def _reduce(
    fn: Callable[[Any, Any], Any] | Bound,
    elems: Any,
    identity: Any,
    segments: Any,
    num_segments: int | None,
    axis: int,
    axis_name: Any,
    method: str,
) -> Any:
    """The reduction of a pytree."""
    caller = "jscan.reduce"
    check_operator(caller, fn)
    check_method(caller, method)
    leaves, treedef, axis = as_leaves_along(caller, "elems", elems, axis)
    neutral = fn.identity if isinstance(fn, Bound) else None
    if identity is not None:
        dtypes = [accumulation_dtype(leaf.dtype) for leaf in leaves]
        neutral = as_identity(caller, identity, treedef, leaves, dtypes, axis)
    elif neutral is None and not isinstance(fn, operators.Operator):
        if segments is not None:
            raise ValueError(
                f"{caller}: segments need identity= where fn is not one of jscan.operators"
            )
        if leaves[0].shape[axis] == 0:
            raise ValueError(
                f"{caller}: elems has no elements along axis={axis}; identity= is needed where fn "
                "is not one of jscan.operators"
            )
    given = as_segments(caller, segments)
    names = as_axis_name(caller, axis_name)
    part = given is not None and not (isinstance(given, Segments) and described.is_whole(given))
    if names and num_segments is None and part:
        raise ValueError(
            f"{caller}: num_segments is required with axis_name={axis_name!r}: flags and ids are "
            "a device's part, and segments go on across devices"
        )
    count = segment_count(caller, num_segments, given)
    call = dispatch.Call(caller, fn, leaves, treedef, axis, given, neutral, method, names)
    results = dispatch.reduce(call, num_segments=count)
    return jax.tree.unflatten(treedef, results)


_how = of_reduction, (NONE, int), int, NONE, str
_reduce_by_operator = compiled(operators.KINDS, tree, NONE, *_how)(_reduce)
_reduce_by_data = compiled(as_bound, tree, NONE, *_how)(_reduce)
