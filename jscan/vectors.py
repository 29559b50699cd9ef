"""The vector operations that are made of scans: enumerate, distribute, pack and split."""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

from jscan import dispatch, extent, meshes, orders
from jscan.advice import advised
from jscan.arguments.arrays import as_marks
from jscan.arguments.scalars import as_axis, as_count, as_scalar, as_switch
from jscan.arguments.trees import as_leaves, as_leaves_along, check_along
from jscan.division import as_segments, flags_along, of_scan
from jscan.eager import compiled, marks, tree
from jscan.heads import as_bool
from jscan.ranks import rank
from jscan.segments import Segments

# Without enumerate, which a star import would put in the place of Python's own.
__all__ = ["distribute", "pack", "split", "split_and_segment"]


@advised
def enumerate(
    mask: Any, axis: int = 0, *, reverse: bool = False, segments: Any = None
) -> jax.Array:
    """The number of true elements before each element.

    ``y[t] = number of true mask[s] with s < t``; with ``s > t`` where ``reverse``, and with ``s``
    in the segment of ``t`` where there are ``segments``.

    Args:
      mask: an array of a bool or integer dtype; what is not zero is true.
      axis: the axis to count along, counted from the end where negative.
      reverse: count from the end.
      segments: ``jscan.Segments`` or head flags, as for ``jscan.cumsum``.

    Returns:
      int32, in the shape of ``mask``.

    Raises:
      TypeError: ``mask`` or flags are not bool or integer.
      ValueError: ``axis`` or the shape of the flags does not fit, or the axis has 2^31 elements or
        more.

    One scan: on a CUDA GPU one kernel, which reads the mask (and flags) and writes the result.

    Source: Sengupta et al., *Scan Primitives for GPU Computing* (2007).

    Example:
      >>> import jax.numpy as jnp
      >>> import jscan
      >>> print(jscan.enumerate(jnp.array([1, 0, 0, 1, 0, 1, 1], bool)))
      [0 1 1 1 2 2 3]
    """
    return _enumerate(mask, axis, reverse, segments)


@compiled(marks, int, bool, of_scan)
@meshes.automatic(lambda given: (given["mask"], meshes.same))
def _enumerate(mask: Any, axis: int, reverse: bool, segments: Any) -> jax.Array:
    """The numbers of a mask."""
    caller = "jscan.enumerate"
    array = jnp.asarray(as_marks(caller, "mask", mask))
    axis = as_axis(caller, "mask", axis, array.shape)
    extent.check_places(caller, "mask", array, axis)
    reverse = as_switch(caller, "reverse", reverse)
    flags = flags_along(caller, segments, [array], axis)
    if flags is None:
        return rank(array, axis=axis, emit="before", reverse=reverse)
    return orders.count_before(as_bool(array), flags, axis=axis, reverse=reverse)


@advised
def distribute(x: Any, axis: int = 0, *, segments: Any = None, reverse: bool = False) -> Any:
    """The first element of each segment, copied to all of its elements.

    ``y[t] = x[s]``, ``s`` the first element (the last, where ``reverse``) of the segment of ``t``,
    or of the axis where there are no segments.

    Args:
      x: a pytree of arrays of any dtype with one length along ``axis``.
      axis: the axis that segments run along, counted from the end where negative.
      segments: ``jscan.Segments`` or head flags, as for ``jscan.associative_scan``.
      reverse: copy the last element.

    Returns:
      A pytree like ``x``.

    Raises:
      TypeError: flags are not bool or integer; a leaf is not an array.
      ValueError: ``axis``, a length or the shape of the flags does not fit.

    One scan for each leaf, with the operator that keeps its first argument; none without segments.

    Source: Sengupta et al., *Scan Primitives for GPU Computing* (2007).

    Example:
      >>> import jax.numpy as jnp
      >>> import jscan
      >>> segments = jscan.Segments.from_lengths([3, 2])
      >>> print(jscan.distribute(jnp.array([7, 1, 2, 9, 3]), segments=segments))
      [7 7 7 9 9]
    """
    return _distribute(x, axis, segments, reverse)


@compiled(tree, int, of_scan, bool)
@meshes.automatic(lambda given: (given["x"], meshes.same))
def _distribute(x: Any, axis: int, segments: Any, reverse: bool) -> Any:
    """The first elements of segments of a pytree."""
    caller = "jscan.distribute"
    leaves, treedef, axis = as_leaves_along(caller, "x", x, axis)
    reverse = as_switch(caller, "reverse", reverse)
    if segments is None:
        results = [_spread_end(leaf, axis, reverse) for leaf in leaves]
    else:
        given = as_segments(caller, segments)
        calls = [dispatch.Call(caller, _first, [x], _ONE_LEAF, axis, given) for x in leaves]
        results = [dispatch.scan(call, reverse=reverse, exclusive=False)[0] for call in calls]
    return jax.tree.unflatten(treedef, results)


@advised
def pack(x: Any, mask: Any, *, size: int | None = None, fill_value: Any = 0) -> Any:
    """The elements of ``x`` where ``mask`` is true, next to each other; ``x[mask]`` of static size.

    Args:
      x: a pytree of arrays of any dtype, whose leading dimensions are those of ``mask``.
      mask: an array of a bool or integer dtype; what is not zero is true.
      size: how many elements to return, static. Where ``mask`` is concrete it may be left out, and
        is the number of true elements. True elements beyond it are dropped.
      fill_value: the value behind the last true element, a scalar that the dtype of every leaf
        can hold; floats are rounded.

    Returns:
      A pytree like ``x`` with the dimensions of ``mask`` replaced by one of ``size`` elements.

    Raises:
      TypeError: ``mask`` is not bool or integer, ``size`` is not an integer, or a leaf is not an
        array.
      ValueError: a leaf does not have the dimensions of ``mask`` in front; ``size`` is negative,
        or missing where ``mask`` is traced; ``fill_value`` does not fit a dtype; ``mask`` has 2^31
        elements or more.

    One scan for each leaf, which on a CUDA GPU moves the elements while it counts, and reads no
    others where few are true. Of leaves with dimensions behind those of ``mask``, and of rows that
    share one, it writes where the true elements are, for a gather.

    Source: Blelloch, *Prefix Sums and Their Applications* (1990), "pack".

    Example:
      >>> import jax.numpy as jnp
      >>> import jscan
      >>> x = jnp.array([5, 6, 7, 8])
      >>> print(jscan.pack(x, x % 2 == 0))
      [6 8]
      >>> print(jscan.pack(x, x % 2 == 0, size=3, fill_value=-1))
      [ 6  8 -1]
    """
    if size is None:
        known = as_marks("jscan.pack", "mask", mask)
        if not isinstance(known, jax.core.Tracer):
            size = int(np.count_nonzero(known))
    return _pack(x, mask, size, fill_value)


@compiled(tree, marks, int, int)
@meshes.automatic(lambda given: (given["x"], meshes.instead_of(0, np.ndim(given["mask"]))))
def _pack(x: Any, mask: Any, size: int | None, fill_value: Any) -> Any:
    """The marked elements of a pytree."""
    caller = "jscan.pack"
    known = as_marks(caller, "mask", mask)
    array = jnp.asarray(known)
    leaves, treedef = as_leaves(caller, "x", x)
    for leaf in leaves:
        if array.ndim == 0 or leaf.shape[: array.ndim] != array.shape:
            raise ValueError(
                f"{caller}: mask has shape {array.shape}; expected the leading dimensions of x, "
                f"whose shape is {leaf.shape}"
            )
    size = as_count(caller, "size", size)
    if size is None:
        if isinstance(known, jax.core.Tracer):
            raise ValueError(f"{caller}: size is required where mask is traced")
        size = int(np.count_nonzero(np.asarray(known)))
    fills = [as_scalar(caller, "fill_value", fill_value, leaf.dtype) for leaf in leaves]
    flat = array.reshape(-1)
    extent.check_places(caller, "mask", flat, 0)
    n = flat.shape[0]
    rows = [leaf.reshape(n, *leaf.shape[array.ndim :]) for leaf in leaves]
    return jax.tree.unflatten(treedef, orders.packed(rows, flat, fills, size))


@advised
def split(x: Any, mask: Any, axis: int = 0) -> Any:
    """The elements where ``mask`` is false, then those where it is true, each in their order.

    Args:
      x: a pytree of arrays of any dtype with one length along ``axis``.
      mask: an array of a bool or integer dtype, ``(length of axis,)`` or of the leaves' shape;
        what is not zero is true.
      axis: the axis to split, counted from the end where negative.

    Returns:
      A pytree like ``x``. How many elements come first is the number of false elements.

    Raises:
      TypeError: ``mask`` is not bool or integer; a leaf is not an array.
      ValueError: ``axis``, a length or the shape of ``mask`` does not fit, or the axis has 2^31
        elements or more.

    A sum, and one scan for each leaf, which on a CUDA GPU moves the elements while it counts; where
    one row of ``mask`` is for many, one scan writes the order, for gathers. This is one pass of a
    radix sort.

    Source: Blelloch, *Prefix Sums and Their Applications* (1990), "split".

    Example:
      >>> import jax.numpy as jnp
      >>> import jscan
      >>> x = jnp.array([5, 7, 3, 1, 4, 2, 7, 2])
      >>> print(jscan.split(x, x % 2))
      [4 2 2 5 7 3 1 7]
    """
    return _split(x, mask, axis)


@compiled(tree, marks, int)
@meshes.automatic(lambda given: (given["x"], meshes.same))
def _split(x: Any, mask: Any, axis: int) -> Any:
    """A pytree, split."""
    caller = "jscan.split"
    leaves, treedef, axis = as_leaves_along(caller, "x", x, axis)
    extent.check_places(caller, "x", leaves[0], axis)
    array = _as_mask(caller, mask, leaves, axis)
    return jax.tree.unflatten(treedef, orders.split(leaves, array, axis))


@advised
def split_and_segment(x: Any, mask: Any, segments: Any, axis: int = 0) -> tuple[Any, Segments]:
    """Each segment split on its own, and the segments of the result: two from each one.

    Args:
      x: a pytree of arrays of any dtype with one length along ``axis``.
      mask: an array of a bool or integer dtype, ``(length of axis,)`` or of the leaves' shape;
        what is not zero is true.
      segments: ``jscan.Segments`` or head flags, ``(length of axis,)`` or of the leaves' shape.
      axis: the axis to split, counted from the end where negative.

    Returns:
      A pytree like ``x``, in which each segment holds its elements where ``mask`` is false, then
      those where it is true, each in their order; and ``Segments`` in which these are segments of
      their own, except for a part that has no elements.

    Raises:
      TypeError: ``mask`` or flags are not bool or integer; a leaf is not an array.
      ValueError: ``axis``, a length or a shape does not fit, or the axis has 2^31 elements or more.

    Two scans, a scatter of the order and a gather. A false element moves to the left by the number
    of true ones before it in its segment, a true one to the right by the number of false ones
    behind it. This is one step of a segmented quicksort.

    Source: Sengupta et al., *Scan Primitives for GPU Computing* (2007), section 4.2.

    Example:
      >>> import jax.numpy as jnp
      >>> import jscan
      >>> x = jnp.array([5, 7, 3, 4, 2, 7, 8])
      >>> y, parts = jscan.split_and_segment(x, x > 4, jscan.Segments.from_lengths([3, 4]))
      >>> print(y, parts.ids)
      [3 5 7 4 2 7 8] [0 1 1 2 2 3 3]
    """
    return _split_and_segment(x, mask, segments, axis)


@compiled(tree, marks, of_scan, int)
@meshes.automatic(lambda given: (given["x"], meshes.same))
def _split_and_segment(x: Any, mask: Any, segments: Any, axis: int) -> tuple[Any, Segments]:
    """A pytree of which each segment is split, and its segments."""
    caller = "jscan.split_and_segment"
    leaves, treedef, axis = as_leaves_along(caller, "x", x, axis)
    extent.check_places(caller, "x", leaves[0], axis)
    mask = as_bool(_as_mask(caller, mask, leaves, axis))
    if segments is None:
        raise TypeError(
            f"{caller}: segments must be jscan.Segments or an array of head flags; got None"
        )
    flags = flags_along(caller, segments, leaves, axis)
    assert flags is not None
    if flags.size != flags.shape[axis] and any(leaf.shape != leaves[0].shape for leaf in leaves):
        raise ValueError(
            f"{caller}: segments has shape {flags.shape}; expected that of every leaf of x: "
            f"{[leaf.shape for leaf in leaves]}"
        )
    mask, flags, along = orders.in_one_shape(mask, flags, leaves[0].shape, axis)
    order = orders.split_order(mask, flags, along)
    heads = orders.split_heads(
        jnp.broadcast_to(flags, mask.shape), orders.take(mask, order, along), along
    )
    if along != heads.ndim - 1:
        heads = jnp.moveaxis(heads, along, -1)
    results = [orders.take(leaf, order, axis) for leaf in leaves]
    return jax.tree.unflatten(treedef, results), Segments.from_flags(heads)


_ONE_LEAF = jax.tree.structure(0)


def _first(a: jax.Array, b: jax.Array) -> jax.Array:
    """The operator that keeps its first argument."""
    del b
    return a


def _as_mask(caller: str, mask: Any, leaves: list[jax.Array], axis: int) -> jax.Array:
    """``mask`` as an array of the leaves' shape, or of one row for all of them."""
    array = jnp.asarray(as_marks(caller, "mask", mask))
    check_along(caller, "mask", array, leaves, axis)
    return array


def _spread_end(x: jax.Array, axis: int, reverse: bool) -> jax.Array:
    """The first element along ``axis``, or the last, in the place of all."""
    n = x.shape[axis]
    if n == 0:
        return x
    end = n - 1 if reverse else 0
    return jnp.broadcast_to(lax.slice_in_dim(x, end, end + 1, axis=axis), x.shape)
