"""What drawn calls run: public functions, transformations of them, and what others offer."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import jax
import jax.numpy as jnp
from jax import lax

import jscan
from benchmarks.cases.case import Operation
from jscan import SegmentPlan, Segments

Arrays = Sequence[jax.Array]


def described(form: str, length: int, given: Arrays) -> Any:
    """The argument ``segments`` of what an operand says of them; None where there is none."""
    if not form:
        return None
    (array,) = given
    if form in ("lengths", "offsets"):
        segments: Segments = getattr(Segments, f"from_{form}")(array, total=length)
        return segments
    if form == "bits":
        return Segments.from_packed(array, length)
    return Segments.from_ids(array) if form == "ids" else array


def cumulative(name: str, form: str, x: jax.Array, *given: jax.Array, **how: Any) -> jax.Array:
    """`jscan.cumsum` and the like."""
    segments = described(form, x.shape[how["axis"]], given)
    result: jax.Array = getattr(jscan, name)(x, segments=segments, **how)
    return result


def started(
    name: str, form: str, x: jax.Array, init: jax.Array, *given: jax.Array, **how: Any
) -> jax.Array:
    """`jscan.cumsum` and the like, from an initial value."""
    segments = described(form, x.shape[how["axis"]], given)
    result: jax.Array = getattr(jscan, name)(x, init=init, segments=segments, **how)
    return result


def last(run: Operation, *arrays: jax.Array, **how: Any) -> Any:
    """The last of several results, which is the only one that is used."""
    return run(*arrays, **how)[-1]


def scan(operator: Operation, leaves: int, form: str, *arrays: jax.Array, **how: Any) -> Any:
    """`jscan.associative_scan` of so many leaves."""
    elems, given = arrays[:leaves], arrays[leaves:]
    segments = described(form, elems[0].shape[how["axis"]], given)
    tree = elems if leaves > 1 else elems[0]
    return jscan.associative_scan(operator, tree, segments=segments, **how)


def recurrence(form: str, started: bool, a: jax.Array, b: jax.Array, *more: Any, **how: Any) -> Any:
    """`jscan.linear_recurrence`, perhaps with a start."""
    h0, given = (more[0], more[1:]) if started else (None, more)
    segments = described(form, b.shape[how["axis"]], given)
    return jscan.linear_recurrence(a, b, h0, segments=segments, **how)


def matrices(
    form: str, held: str, started: bool, a: jax.Array, b: jax.Array, *more: Any, **how: Any
) -> Any:
    """`jscan.matrix_recurrence`, perhaps with a start."""
    h0, given = (more[0], more[1:]) if started else (None, more)
    segments = described(form, b.shape[how["axis"]], given)
    return jscan.matrix_recurrence(a, b, h0, segments=segments, form=held, **how)


def system(dl: jax.Array, d: jax.Array, du: jax.Array, b: jax.Array, **how: Any) -> jax.Array:
    """`jscan.tridiagonal_solve`."""
    return jscan.tridiagonal_solve(dl, d, du, b, **how)


def by_ids(name: str, count: int, x: jax.Array, ids: jax.Array, **how: Any) -> jax.Array:
    """`jscan.segment_sum` and the like."""
    result: jax.Array = getattr(jscan, name)(x, ids, count, **how)
    return result


def by_plan(name: str, count: int, x: jax.Array, *parts: jax.Array, **how: Any) -> jax.Array:
    """The same by a plan, which is an argument of the program."""
    plan = SegmentPlan.tree_unflatten(count, parts)
    result: jax.Array = getattr(jscan, name)(x, plan, **how)
    return result


def gathered(count: int, x: jax.Array, *parts: jax.Array) -> jax.Array:
    """`jscan.SegmentPlan.gather`."""
    return SegmentPlan.tree_unflatten(count, parts).gather(x)


def reduced(
    operator: Operation,
    leaves: int,
    form: str,
    count: int | None,
    *arrays: jax.Array,
    **how: Any,
) -> Any:
    """`jscan.reduce` of so many leaves, of the axis or of so many segments of it."""
    elems, given = arrays[:leaves], arrays[leaves:]
    segments = described(form, elems[0].shape[how["axis"]], given)
    tree = elems if leaves > 1 else elems[0]
    return jscan.reduce(operator, tree, segments=segments, num_segments=count, **how)


def packed(size: int, x: jax.Array, mask: jax.Array) -> Any:
    """`jscan.pack`."""
    return jscan.pack(x, mask, size=size)


def split(axis: int, x: jax.Array, mask: jax.Array) -> Any:
    """`jscan.split`."""
    return jscan.split(x, mask, axis)


def split_segments(axis: int, x: jax.Array, mask: jax.Array, flags: jax.Array) -> Any:
    """`jscan.split_and_segment`, with the flags of its segments."""
    values, segments = jscan.split_and_segment(x, mask, flags, axis)
    return values, segments.flags


def enumerated(form: str, mask: jax.Array, *given: jax.Array, **how: Any) -> jax.Array:
    """`jscan.enumerate`."""
    segments = described(form, mask.shape[how["axis"]], given)
    return jscan.enumerate(mask, segments=segments, **how)


def distributed(form: str, x: jax.Array, *given: jax.Array, **how: Any) -> Any:
    """`jscan.distribute`."""
    segments = described(form, x.shape[how["axis"]], given)
    return jscan.distribute(x, segments=segments, **how)


def converted(form: str, length: int, into: str, count: int, array: jax.Array) -> jax.Array:
    """Flags, ids, lengths or offsets of segments that are described otherwise."""
    segments = Segments.from_flags(array) if form == "flags" else described(form, length, [array])
    if into in ("lengths", "offsets"):
        result: jax.Array = getattr(segments, into)(count)
        return result
    found: jax.Array = getattr(segments, into)
    return found


# --- transformations ----------------------------------------------------------------------------


def mapped(
    run: Operation,
    in_axes: tuple[int | None, ...],
    out_axes: tuple[int, ...],
    *operands: jax.Array,
    **how: Any,
) -> Any:
    """`jax.vmap` of a call."""

    def call(*operands: jax.Array) -> Any:
        return tuple(jax.tree.leaves(run(*operands, **how)))

    return jax.vmap(call, in_axes=in_axes, out_axes=out_axes)(*operands)


def gradient(
    run: Operation, leaves: tuple[int, ...], count: int, *operands: jax.Array, **how: Any
) -> Any:
    """The floating results, and what their cotangents are at some of the operands.

    The cotangents stand behind the ``count`` operands of the call.
    """
    call, primals = _of_floats(run, leaves, operands[:count], how)
    results, back = jax.vjp(call, *primals)
    return results, back(operands[count:])


def tangent(
    run: Operation, leaves: tuple[int, ...], count: int, *operands: jax.Array, **how: Any
) -> Any:
    """The floating results, and their tangents for those that stand behind the operands."""
    call, primals = _of_floats(run, leaves, operands[:count], how)
    return jax.jvp(call, primals, operands[count:])


def _of_floats(
    run: Operation, leaves: tuple[int, ...], operands: Arrays, how: dict[str, Any]
) -> tuple[Operation, tuple[jax.Array, ...]]:
    """A call as a function of some operands alone, and these operands."""

    def call(*moved: jax.Array) -> tuple[jax.Array, ...]:
        every = list(operands)
        for place, x in zip(leaves, moved, strict=True):
            every[place] = x
        results = jax.tree.leaves(run(*every, **how))
        return tuple(x for x in results if jnp.issubdtype(x.dtype, jnp.inexact))

    return call, tuple(operands[place] for place in leaves)


# --- what others offer --------------------------------------------------------------------------


def widened(x: jax.Array) -> jax.Array:
    """Half precision in float32, as jscan combines it."""
    half = jnp.issubdtype(x.dtype, jnp.floating) and x.dtype.itemsize < 4
    return x.astype(jnp.float32) if half else x


def lax_cumulative(
    name: str, before: float | None, axis: int, reverse: bool, x: jax.Array
) -> jax.Array:
    """`lax.cumsum` and the like; exclusive where there is something to stand before the first."""
    wide = x if name in ("cummax", "cummin") else widened(x)
    result: jax.Array = getattr(lax, name)(wide, axis, reverse)
    if before is not None:
        ends = [(0, 0, 0)] * x.ndim
        ends[axis] = (-1, 1, 0) if reverse else (1, -1, 0)
        result = lax.pad(result, jnp.asarray(before, result.dtype), ends)
    return result.astype(x.dtype)


def lax_scan(operator: Operation, leaves: int, axis: int, reverse: bool, *arrays: jax.Array) -> Any:
    """`lax.associative_scan`; of segments by the operator on pairs of a flag and a value."""
    elems = arrays[:leaves]
    tree = elems if leaves > 1 else elems[0]
    if len(arrays) == leaves:
        return lax.associative_scan(operator, tree, reverse, axis)
    flags = arrays[leaves].astype(jnp.bool_)
    if flags.ndim < elems[0].ndim:
        flags = lax.expand_dims(flags, [d for d in range(elems[0].ndim) if d != axis])
        flags = jnp.broadcast_to(flags, elems[0].shape)
    if reverse:  # a segment begins at its last element then
        flags = jnp.roll(flags, -1, axis)

    def join(a: Any, b: Any) -> Any:
        (restarts, x), (restart, y) = a, b
        chosen = jax.tree.map(lambda new, old: jnp.where(restart, new, old), y, operator(x, y))
        return restarts | restart, chosen

    return lax.associative_scan(join, (flags, tree), reverse, axis)[1]


def lax_system(axis: int, *arrays: jax.Array) -> jax.Array:
    """`jax.lax.linalg.tridiagonal_solve`, which takes rows alone."""
    shape = arrays[-1].shape
    rows = (jnp.moveaxis(jnp.broadcast_to(x, shape), axis, -1) for x in arrays)
    dl, d, du, b = rows
    dl, du = dl.at[..., 0].set(0), du.at[..., -1].set(0)
    return jnp.moveaxis(lax.linalg.tridiagonal_solve(dl, d, du, b[..., None])[..., 0], -1, axis)


def lax_recurrence(axis: int, reverse: bool, a: jax.Array, b: jax.Array) -> Any:
    """`lax.associative_scan` of the affine operator, of which one result is used."""

    def join(p: Any, q: Any) -> Any:
        return q[0] * p[0], q[0] * p[1] + q[1]

    a = jnp.broadcast_to(lax.expand_dims(a, range(a.ndim, b.ndim)), b.shape)
    return lax.associative_scan(join, (a, b), reverse, axis)[1]


def ops_by_ids(name: str, count: int, x: jax.Array, ids: jax.Array, **how: Any) -> jax.Array:
    """`jax.ops.segment_sum` and the like."""
    wide = x if name in ("segment_max", "segment_min") else widened(x)
    result: jax.Array = getattr(jax.ops, name)(wide, ids, count, **how)
    return result.astype(x.dtype)


def ops_by_plan(name: str, count: int, x: jax.Array, ids: jax.Array, *_: jax.Array) -> jax.Array:
    """The same by the ids of a plan, which is not needed."""
    return ops_by_ids(name, count, x, ids)


def jnp_gathered(x: jax.Array, ids: jax.Array, *_: jax.Array) -> jax.Array:
    """What ids index."""
    return x.at[ids].get(mode="promise_in_bounds")


def jnp_reduced(name: str, axis: int, x: jax.Array) -> jax.Array:
    """`jnp.sum` and the like, in the dtype of the operand."""
    result: jax.Array = getattr(jnp, name)(x, axis=axis)
    return result.astype(x.dtype)


def lax_reduced(
    operator: Operation, neutral: tuple[Any, ...], leaves: int, axis: int, *arrays: jax.Array
) -> Any:
    """`lax.reduce` with an operator, which XLA takes to commute."""
    starts = [jnp.asarray(value, x.dtype) for value, x in zip(neutral, arrays, strict=True)]
    if leaves == 1:
        return lax.reduce(arrays[0], starts[0], operator, (axis,))
    return lax.reduce(arrays, tuple(starts), operator, (axis,))


def ops_reduced(
    name: str, form: str, count: int, axis: int, x: jax.Array, given: jax.Array
) -> jax.Array:
    """The segments of an axis by `jax.ops`, which are numbered first."""
    ids = numbers_of(form, x.shape[axis], given)
    rows = jnp.moveaxis(widened(x), axis, 0)
    result = getattr(jax.ops, name)(rows, ids, count, indices_are_sorted=True)
    return jnp.moveaxis(result, 0, axis).astype(x.dtype)


def numbers_of(form: str, length: int, array: jax.Array) -> jax.Array:
    """The number of each element's segment."""
    if form == "offsets":
        array = jnp.diff(array)
    if form in ("lengths", "offsets"):
        segments = jnp.arange(array.size, dtype=jnp.int32)
        return jnp.repeat(segments, array, total_repeat_length=length)
    if form == "ids":
        return jnp.cumsum(array != jnp.roll(array, 1), dtype=jnp.int32) - 1
    marks = array.astype(jnp.bool_).astype(jnp.int32)
    return jnp.cumsum(marks) - marks[0]


def jnp_packed(size: int, x: jax.Array, mask: jax.Array) -> jax.Array:
    """`jnp.compress`, or `jnp.nonzero` and a gather where the mask has dimensions."""
    if mask.ndim == 1:
        return jnp.compress(mask, x, axis=0, size=size, fill_value=0)
    (places,) = jnp.nonzero(mask.reshape(-1), size=size, fill_value=mask.size)
    rows = x.reshape(mask.size, *x.shape[mask.ndim :])
    taken: jax.Array = rows.at[places].get(mode="fill", fill_value=0)
    return taken


def jnp_split(axis: int, x: jax.Array, mask: jax.Array) -> jax.Array:
    """The order of a stable `jnp.argsort` of the mask."""
    along = axis if mask.ndim > 1 else 0
    order = jnp.argsort(mask, axis=along, stable=True)
    if mask.ndim == 1:
        return jnp.take(x, order, axis=axis, unique_indices=True, mode="clip")
    return jnp.take_along_axis(x, order, axis)


def jnp_enumerated(axis: int, reverse: bool, mask: jax.Array) -> jax.Array:
    """`lax.cumsum` of the mask, without the element itself."""
    counted = mask.astype(jnp.bool_).astype(jnp.int32)
    return lax.cumsum(counted, axis, reverse) - counted


def jnp_distributed(form: str, x: jax.Array, given: jax.Array) -> jax.Array:
    """A gather from where each element's segment begins, of an array of one dimension."""
    numbers = numbers_of(form, x.size, given)
    place = jnp.arange(x.size, dtype=jnp.int32)
    heads = jnp.concatenate([jnp.ones(1, jnp.bool_), numbers[1:] != numbers[:-1]])
    return x[lax.cummax(jnp.where(heads, place, 0))]
