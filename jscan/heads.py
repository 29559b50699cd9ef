"""Head flags as an algebra: where segments begin, where scans restart, and shifts between them.

A head flag is on the first element of a segment in memory order, whatever a scan's direction.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax
from jax.typing import ArrayLike

from jscan import meshes
from jscan.arguments.identity import Neutral
from jscan.operators import integer_limits


def as_bool(flags: jax.Array) -> jax.Array:
    """Flags of any integer dtype, of which every value but zero counts, as booleans."""
    return flags if flags.dtype == jnp.bool_ else lax.ne(flags, lax.full_like(flags, 0))


def is_first(x: jax.Array, *, axis: int) -> jax.Array:
    """Flags of the elements that come first along ``axis``."""
    if x.shape[axis] >= 2**31:  # an index in 32 bits would be 0 a second time
        return before(lax.full(x.shape, np.uint8(1)), axis=axis) == np.uint8(0)
    return lax.broadcasted_iota(jnp.int32, x.shape, axis) == np.int32(0)


def before(x: jax.Array, *, axis: int) -> jax.Array:
    """The element before each one along ``axis``, and zero before the first."""
    return moved_on(x, np.zeros((), x.dtype)[()], axis=axis, reverse=False)


def after(x: jax.Array, *, axis: int) -> jax.Array:
    """The element behind each one along ``axis``, and zero behind the last."""
    return moved_on(x, np.zeros((), x.dtype)[()], axis=axis, reverse=True)


def turned(x: jax.Array, *, axis: int, reverse: bool) -> jax.Array:
    """``x`` moved on by one place, with what falls out at its end in the place left free."""
    out = 0 if reverse else x.shape[axis] - 1
    end = lax.slice_in_dim(x, out, out + 1, axis=axis)
    return moved_behind(end, x, axis=axis, reverse=reverse)


def moved_behind(first: jax.Array, x: jax.Array, *, axis: int, reverse: bool) -> jax.Array:
    """``x`` moved on by one place in scan order, behind ``first``, of size 1 along ``axis``.

    No concatenation, for the reasons that `moved_on` has.
    """
    along: dict[str, Any] = {"axis": axis, "reverse": reverse}
    free = moved_on(lax.full_like(x, False, np.dtype(np.bool_)), np.bool_(True), **along)
    return jnp.where(free, first, moved_on(x, np.zeros((), x.dtype)[()], **along))


def moved_on(x: jax.Array, value: ArrayLike, *, axis: int, reverse: bool) -> jax.Array:
    """``x`` moved on by one place in scan order, with ``value`` in the place left free.

    A pad becomes part of the loop that uses it, and moves no more than an element between devices.
    A concatenation moves whole arrays, and of bytes it is a kernel of its own, at a tenth of copy
    speed (H200, 2026-11-22). One pad that also cuts the other end would do, but of an operand that
    all devices have XLA moves nothing where the result is sharded (jax 0.10 to 0.12).
    """
    n = x.shape[axis]
    if n == 0:
        return x
    kept = (
        lax.slice_in_dim(x, 1, n, axis=axis)
        if reverse
        else lax.slice_in_dim(x, 0, n - 1, axis=axis)
    )
    end = (0, 1, 0) if reverse else (1, 0, 0)
    return lax.pad(kept, value, [end if d == axis else (0, 0, 0) for d in range(x.ndim)])


def changes(numbers: jax.Array, *, axis: int) -> jax.Array:
    """Head flags of runs of equal numbers."""
    return lax.ne(numbers, before(numbers, axis=axis)) | is_first(numbers, axis=axis)


def differ(x: jax.Array, y: jax.Array, dtype: np.dtype) -> jax.Array:
    """Whether floats of a dtype differ, where what is not a number equals what is not a number.

    Their bits are compared: an instruction for floats may take subnormal numbers for zeros.
    """
    bits = jnp.dtype(f"int{8 * dtype.itemsize}")
    word = np.dtype(np.int64 if dtype.itemsize == 8 else np.int32).type
    a, b = (lax.bitcast_convert_type(v, bits).astype(word) for v in (x, y))
    without_sign = word(np.iinfo(bits).max)
    infinity = word(np.array(np.inf, dtype).view(bits))
    both_zero = ((a | b) & without_sign) == word(0)
    neither_a_number = lax.min(a & without_sign, b & without_sign) > infinity
    return (a != b) & ~(both_zero | neither_a_number)


def first_of_runs(x: jax.Array, *, axis: int) -> jax.Array:
    """The same of any numbers, where what is not a number equals what is not a number."""
    if jnp.issubdtype(x.dtype, jnp.floating) and x.dtype.itemsize > 1:
        return differ(x, before(x, axis=axis), x.dtype) | is_first(x, axis=axis)
    begins = changes(x, axis=axis)
    if jnp.issubdtype(x.dtype, jnp.inexact):
        last = before(x, axis=axis)
        begins &= ~(lax.ne(x, x) & lax.ne(last, last))
    return begins


def gather_parts(
    x: jax.Array, axis_name: Sequence[str], *, axis: int = 0, tiled: bool = False
) -> jax.Array:
    """What all devices have, in their order: along a new axis, or ``tiled`` along the old one."""
    parts: jax.Array = lax.all_gather(_widened(x), tuple(axis_name), axis=axis, tiled=tiled)
    return parts.astype(x.dtype)


def sum_of_parts(x: jax.Array, axis_name: Sequence[str]) -> jax.Array:
    """The sum of what all devices have."""
    total: jax.Array = lax.psum(_widened(x), tuple(axis_name))
    return total.astype(x.dtype)


def _widened(x: jax.Array) -> jax.Array:
    """``x`` in a type that XLA sends between devices.

    Elements of less than a byte are gathered wrongly (seen on CPUs, jax 0.10 and 0.12), and 2 bits
    have no sum.
    """
    if x.dtype.name in ("int2", "uint2", "int4", "uint4"):
        return x.astype(jnp.int32)
    return x.astype(jnp.float32) if x.dtype.name == "float4_e2m1fn" else x


def neighbours(
    x: jax.Array, axis_name: Sequence[str], *, axis: int, behind: bool
) -> tuple[jax.Array, jax.Array]:
    """The element before a device's part of an axis or ``behind`` it, and whether there is one.

    At the ends of the whole axis it is the element itself.
    """
    n = x.shape[axis]
    place = 0 if behind else n - 1
    edge = lax.slice_in_dim(x, place, place + 1, axis=axis)
    # By a gather: jax permutes along the axes of a mesh in no other order than the mesh's.
    edges = gather_parts(edge, axis_name)
    count = edges.shape[0]
    other = lax.axis_index(tuple(axis_name)) + (1 if behind else -1)
    exists = (other >= 0) & (other < count)
    found = lax.dynamic_index_in_dim(edges, jnp.clip(other, 0, count - 1), 0, keepdims=False)
    own = lax.slice_in_dim(x, n - 1 - place, n - place, axis=axis)
    return jnp.where(exists, found, own), exists


def segment_starts(
    flags: jax.Array, *, axis: int, reverse: bool, axis_name: Sequence[str] = ()
) -> jax.Array:
    """Flags of the elements at which a scan restarts.

    They are the heads, or the last element of each segment if the scan is reversed. The axis may go
    on across the mesh axes ``axis_name``.
    """
    heads = as_bool(meshes.gather(flags, axis))
    if not reverse or heads.shape[axis] == 0:
        return heads
    if not axis_name:
        return moved_on(heads, np.bool_(True), axis=axis, reverse=True)
    following, exists = neighbours(heads, axis_name, axis=axis, behind=True)
    end = following | ~exists
    return moved_behind(end, heads, axis=axis, reverse=True)


def places_of(numbers: jax.Array, num_segments: int) -> jax.Array:
    """Segment numbers as indices in int32, ``num_segments`` where they are out of range.

    A scatter drops an index beyond the end, and counts one before the start from the end.
    """
    limit = min(num_segments, int(integer_limits(numbers.dtype).max))
    inside = (numbers >= 0) & (numbers < np.asarray(limit, numbers.dtype))
    if limit < num_segments:
        inside = numbers >= 0
    return jnp.where(inside, numbers.astype(jnp.int32), np.int32(num_segments))


def dropped_places_of(numbers: jax.Array, num_segments: int) -> jax.Array:
    """The same for scatters that do not wrap negative indices: those that 32 bits hold stay.

    Such a scatter drops them, too, and on a CPU another pass over them takes a fifth of its time.
    """
    if numbers.dtype in (jnp.uint32, jnp.uint64, jnp.int64):
        return places_of(numbers, num_segments)
    return numbers.astype(jnp.int32)


def choose(flags: jax.Array, chosen: jax.Array, other: jax.Array) -> jax.Array:
    """``chosen`` where ``flags``, else ``other``; ``flags`` may lack trailing dimensions."""
    flags = lax.expand_dims(flags, range(flags.ndim, chosen.ndim))
    return lax.select(
        meshes.broadcast(flags, other.shape, jax.typeof(other).sharding), chosen, other
    )


def shift(
    inclusive: Sequence[jax.Array],
    starts: jax.Array | None,
    identity: Sequence[Neutral],
    *,
    axis: int,
    reverse: bool,
    axis_name: Sequence[str] = (),
) -> list[jax.Array]:
    """The exclusive scan from the inclusive one.

    Results move on by one place in scan order. ``identity`` is put where the axis begins, and at
    ``starts``, where scans restart. The axis may go on across the mesh axes ``axis_name``.
    """
    results = []
    for given, value in zip(inclusive, identity, strict=True):
        if given.shape[axis] == 0:
            results.append(given)
            continue
        x = meshes.gather(given, axis)
        element = value if isinstance(value, np.generic) else jnp.asarray(value)
        element = element.astype(x.dtype)
        if axis_name:
            shifted = _shift_across(x, element, axis_name, axis=axis, reverse=reverse)
        else:
            shifted = shift_one(x, element, axis=axis, reverse=reverse)
        if starts is not None:
            first = spread_element(element, x, axis)
            shifted = choose(
                starts, meshes.broadcast(first, x.shape, jax.typeof(x).sharding), shifted
            )
        results.append(meshes.place_like(shifted, given))
    return results


def shift_one(x: jax.Array, element: jax.Array, *, axis: int, reverse: bool) -> jax.Array:
    """``x`` moved on by one place in scan order, with ``element`` in the place left free."""
    # jax cannot transpose a pad of which only the padding value is differentiated.
    move: dict[str, Any] = {"axis": axis, "reverse": reverse}
    if element.ndim == 0 and not isinstance(element, jax.core.Tracer):
        return moved_on(x, element, **move)
    free = moved_on(lax.full_like(x, False, np.dtype(np.bool_)), np.bool_(True), **move)
    first = spread_element(element, x, axis)
    spread = meshes.broadcast(first, x.shape, jax.typeof(x).sharding)
    return choose(free, spread, moved_on(x, np.zeros((), x.dtype)[()], **move))


def _shift_across(
    x: jax.Array, element: jax.Array, axis_name: Sequence[str], *, axis: int, reverse: bool
) -> jax.Array:
    """A device's part of an axis moved on by one place, with ``element`` where the whole begins."""
    other, exists = neighbours(x, axis_name, axis=axis, behind=reverse)
    first = jnp.where(exists, other, spread_element(element, x, axis))
    return moved_behind(first, x, axis=axis, reverse=reverse)


def spread_element(element: jax.Array, x: jax.Array, axis: int) -> jax.Array:
    """A slice of ``x`` of length 1, filled with ``element``, which broadcasts to one element."""
    first = lax.slice_in_dim(x, 0, 1, axis=axis)
    if element.ndim == 0:
        return lax.full_like(first, element)
    shape = x.shape[:axis] + x.shape[axis + 1 :]
    row = lax.expand_dims(jnp.broadcast_to(element, shape), (axis,))
    return meshes.place_like(row, first)
