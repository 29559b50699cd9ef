"""Scans and reductions of an axis that goes on across the devices of a mesh.

Each device has a part of the axis, in the order of the devices. Only totals travel:

    part      reduce ─► total ──┐                      ┌──► scan from what comes before
    others    reduce ─► total ──┴─ gather ─ combine ───┴──► ...

so that three bytes move in memory where a scan of one device moves two. A segmented part is scanned
at once, and its last result is its total: what stands before its first head is then combined with
what comes before the part. These forms run where collectives have names, inside of ``shard_map``.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

from jscan import extent, heads, primitives
from jscan.arguments.identity import Neutral
from jscan.combine import Combine, accumulation_dtype
from jscan.plain.reduce import full_shape, reduce_pairs
from jscan.plain.scan import Combination, flattened, scan_flat, scan_in_plain_jax
from jscan.primitives import AxisName, joined, parted
from jscan.starts import Start, first_of


def scan_across(
    *operands: jax.Array,
    combine: Combine,
    axis: int,
    reverse: bool,
    exclusive: bool,
    segmented: bool,
    used: Sequence[bool],
    method: str,
    axis_name: AxisName,
    differentiable: bool = False,
    **_: Any,
) -> list[jax.Array]:
    """The results of ``scan_p`` for the part of the axis that a device holds."""
    leaves, flags = parted(operands, segmented)
    full = extent.full_shape(operands)
    leaves = extent.at_full_size(leaves, full)
    narrow = combine.result_dtypes([x.dtype for x in leaves])
    if 0 in full:
        return [jnp.zeros(full, d) for d, is_used in zip(narrow, used, strict=True) if is_used]
    fn = functools.partial(combine, differentiable=differentiable)
    along: dict[str, Any] = {"axis": axis, "reverse": reverse}
    forms: dict[str, Any] = {"combine": combine, "exclusive": exclusive, **along}
    if flags is None:
        totals = _total(leaves, combine, method=method, **along)
        before = _before(fn, totals, None, axis_name, **along)
    else:
        leaves = [x.astype(dtype) for x, dtype in zip(leaves, combine.dtypes, strict=True)]
        scanned = primitives.scan(leaves, flags, method=method, **forms)
        ends = _ends(fn, leaves, scanned, flags, exclusive=exclusive, **along)
        before = _before(fn, ends.totals, ends, axis_name, **along)
    if differentiable:
        given = joined(leaves, flags)
        start: dict[str, Any] = {"start": before.values, "start_open": before.open}
        forms |= {"segmented": segmented, "used": (True,) * len(leaves), "differentiable": True}
        results = scan_in_plain_jax(*given, **start, **forms)
    elif flags is None:
        results = primitives.scan(leaves, None, method=method, start=before, **forms)
    else:
        results = _mended(fn, scanned, flags, before, **along)
    pairs = zip(results, narrow, used, strict=True)
    return [x.astype(dtype) for x, dtype, is_used in pairs if is_used]


def reduce_across(
    *operands: jax.Array,
    combine: Combine,
    axis: int,
    kind: str,
    num_segments: int,
    method: str,
    exact: bool,
    axis_name: AxisName,
    differentiable: bool = False,
    **_: Any,
) -> list[jax.Array]:
    """The results of ``reduce_p``, the same on every device.

    Where it is to be differentiated, their type says so, too.
    """
    leaves, descriptor = parted(operands, kind != "whole")
    full = full_shape(operands, axis, kind)
    leaves = extent.at_full_size(leaves, full)
    if descriptor is not None:
        kind, descriptor = of_this_part(descriptor, kind, axis_name, axis=axis, n=full[axis])
    how: dict[str, Any] = {"combine": combine, "axis": axis, "method": method}
    totals = primitives.reduce(
        leaves, descriptor, kind=kind, num_segments=num_segments, exact=True, **how
    )
    if combine.is_sum:
        results: list[jax.Array] = [lax.psum(x, axis_name) for x in totals]
    else:
        fn = functools.partial(combine, differentiable=differentiable)
        results = _folded(fn, [lax.all_gather(x, axis_name) for x in totals])
        if differentiable:
            results = [_from_the_first(x, axis_name) for x in results]
    if exact:
        return results
    narrow = combine.result_dtypes([x.dtype for x in leaves])
    return [x.astype(dtype) for x, dtype in zip(results, narrow, strict=True)]


def scan_general_across(
    fn: Callable[[Any, Any], Any],
    leaves: Sequence[jax.Array],
    treedef: jax.tree_util.PyTreeDef,
    *,
    axis: int,
    reverse: bool,
    identity: Sequence[Neutral] | None,
    axis_name: AxisName,
) -> list[jax.Array]:
    """The scan of a device's part with an operator on whole arrays."""
    if leaves[0].shape[axis] == 0:
        return list(leaves)
    wide = extent.vary_alike([x.astype(accumulation_dtype(x.dtype)) for x in leaves], axis_name)
    flat = flattened(fn, leaves, treedef)
    totals = reduce_pairs((lambda a, b: flat(b, a)) if reverse else flat, wide, axis=axis)
    along: dict[str, Any] = {"axis": axis, "reverse": reverse}
    before = _before(flat, totals, None, axis_name, **along)
    results = scan_flat(flat, wide, None, identity=identity, start=before, **along)
    return [x.astype(leaf.dtype) for x, leaf in zip(results, leaves, strict=True)]


def reduce_general_across(
    fn: Callable[[Any, Any], Any],
    leaves: Sequence[jax.Array],
    treedef: jax.tree_util.PyTreeDef,
    *,
    axis: int,
    axis_name: AxisName,
) -> list[jax.Array]:
    """The reduction of an axis with an operator on whole arrays."""
    wide = extent.vary_alike([x.astype(accumulation_dtype(x.dtype)) for x in leaves], axis_name)
    flat = flattened(fn, leaves, treedef)
    gathered = [_gathered(x, axis_name, axis) for x in reduce_pairs(flat, wide, axis=axis)]
    totals = [_from_the_first(x, axis_name) for x in reduce_pairs(flat, gathered, axis=axis)]
    return [x.astype(leaf.dtype) for x, leaf in zip(totals, leaves, strict=True)]


def rank_across(
    marks: jax.Array, *, axis: int, emit: str, reverse: bool, axis_name: AxisName, **params: Any
) -> list[jax.Array]:
    """The results of ``rank_p`` that count marked elements, from the first device on."""
    del params
    local = primitives.rank(marks, axis=axis, emit=emit, reverse=reverse)
    count = jnp.sum(heads.as_bool(marks), axis, keepdims=True, dtype=jnp.int32)
    counts = _gathered(count, axis_name, axis)
    here = lax.axis_index(axis_name)
    place = lax.broadcasted_iota(jnp.int32, counts.shape, axis)
    others = jnp.where(place > here if reverse else place < here, counts, 0)
    return [local + jnp.sum(others, axis, keepdims=True, dtype=jnp.int32)]


class _Ends(NamedTuple):
    """What the others need to know of a part.

    Attributes:
      totals: what its elements combine to since its last restart, of size 1 along the axis.
      inside: whether a scan restarts inside of it.
      first: whether its first element is a head.
    """

    totals: list[jax.Array]
    inside: jax.Array
    first: jax.Array


def _total(
    leaves: Sequence[jax.Array], combine: Combine, *, axis: int, reverse: bool, method: str
) -> list[jax.Array]:
    """What a part combines to in scan order, of size 1 along the axis."""
    return primitives.reduce(
        leaves,
        None,
        combine=combine.reversed() if reverse else combine,
        axis=axis,
        kind="whole",
        num_segments=1,
        method=method,
        exact=True,
    )


def _ends(
    fn: Combination,
    leaves: Sequence[jax.Array],
    scanned: Sequence[jax.Array],
    flags: jax.Array,
    *,
    axis: int,
    reverse: bool,
    exclusive: bool,
) -> _Ends:
    """The ends of a segmented part that has been scanned by itself."""
    totals = [first_of(x, axis=axis, reverse=not reverse) for x in scanned]
    if exclusive:
        last = [first_of(x, axis=axis, reverse=not reverse) for x in leaves]
        totals = fn(totals, last)
    marked = heads.as_bool(flags)
    first = lax.slice_in_dim(marked, 0, 1, axis=axis)
    rest = lax.slice_in_dim(marked, 1, None, axis=axis) if reverse else marked
    return _Ends(totals, _any_along(rest, axis), first)


def _any_along(marked: jax.Array, axis: int) -> jax.Array:
    """Whether any element of each row is marked; what is found at once is not looked for."""
    n = marked.shape[axis]
    chunk = _chunk(marked.shape, axis)
    if chunk == n:
        return jnp.any(marked, axis, keepdims=True)
    soon = jnp.any(lax.slice_in_dim(marked, 0, chunk, axis=axis), axis, keepdims=True)
    found: jax.Array = lax.cond(
        jnp.all(soon), lambda: soon, lambda: jnp.any(marked, axis, keepdims=True)
    )
    return found


def _chunk(shape: Sequence[int], axis: int) -> int:
    """How many elements along an axis are looked at, or mended, at once."""
    return max(1, min(shape[axis], AT_ONCE * shape[axis] // max(1, math.prod(shape))))


def _before(
    fn: Combination,
    totals: Sequence[jax.Array],
    ends: _Ends | None,
    axis_name: AxisName,
    *,
    axis: int,
    reverse: bool,
) -> Start:
    """What comes before this device's part in scan order."""
    here = lax.axis_index(axis_name)
    gathered = [_gathered(x, axis_name, axis) for x in totals]
    count = gathered[0].shape[axis]
    flags = None
    is_open: jax.Array = here < count - 1 if reverse else here > 0
    if ends is not None:
        # In the dtype of a total, so that XLA gathers both at once.
        dtype = totals[0].dtype if totals[0].dtype != jnp.bool_ else np.dtype(np.uint8)
        code = jnp.where(ends.inside, np.uint8(1), np.uint8(0))
        code = code + jnp.where(ends.first, np.uint8(2), np.uint8(0))
        codes = _gathered(code.astype(dtype), axis_name, axis)
        codes = lax.real(codes) if jnp.issubdtype(dtype, jnp.complexfloating) else codes
        codes = codes.astype(jnp.uint8)
        flags, first = codes & np.uint8(1) != 0, codes & np.uint8(2) != 0
        if reverse:
            # A scan also restarts at the end of a part behind which a segment begins. Flags are of
            # heads: that of a device says what lies behind the device before it.
            end = lax.full_like(lax.slice_in_dim(first, 0, 1, axis=axis), True)
            behind = lax.concatenate([lax.slice_in_dim(first, 1, None, axis=axis), end], axis)
            is_open = is_open & ~lax.dynamic_index_in_dim(behind, here, axis)
            restarts = flags | behind
            rest = lax.slice_in_dim(restarts, 0, count - 1, axis=axis)
            flags = lax.concatenate([end, rest], axis)
    scanned = scan_flat(fn, gathered, flags, axis=axis, reverse=reverse, identity=None)
    neighbour = jnp.clip(here + 1 if reverse else here - 1, 0, count - 1)
    values = [lax.dynamic_index_in_dim(x, neighbour, axis) for x in scanned]
    if is_open.ndim == 0:
        is_open = jnp.broadcast_to(is_open, (1,) * values[0].ndim)
    return Start(values, is_open)


AT_ONCE = 2**22
"""Elements of a segmented part that are looked at, and mended, at once."""


def _mended(
    fn: Combination,
    scanned: Sequence[jax.Array],
    flags: jax.Array,
    before: Start,
    *,
    axis: int,
    reverse: bool,
) -> list[jax.Array]:
    """Scanned parts whose elements before the first restart come behind the start.

    Where an exclusive scan begins the identity stands, and the start takes its place. Elements are
    mended chunk by chunk, until every row has restarted.
    """
    full = scanned[0].shape
    n = full[axis]
    assert before.open is not None
    marked = jnp.broadcast_to(
        heads.as_bool(flags), (*flags.shape[:axis], n, *flags.shape[axis + 1 :])
    )
    chunk = _chunk(full, axis)
    row = (*marked.shape[:axis], 1, *marked.shape[axis + 1 :])
    reaches = jnp.broadcast_to(before.open, np.broadcast_shapes(before.open.shape, row))

    def unfinished(carry: _Mending) -> jax.Array:
        return (carry.number * chunk < n) & jnp.any(carry.reaches)

    def step(carry: _Mending) -> _Mending:
        # The last chunk ends where the axis does, and begins in the one before it.
        begin = jnp.minimum(carry.number * chunk, n - chunk)
        offset = n - chunk - begin if reverse else begin
        cut = functools.partial(
            lax.dynamic_slice_in_dim, start_index=offset, slice_size=chunk, axis=axis
        )
        parts = [cut(x) for x in carry.arrays]
        values = [jnp.broadcast_to(x, y.shape) for x, y in zip(before.values, parts, strict=True)]
        here = cut(marked)
        place = lax.broadcasted_iota(jnp.int32, here.shape, axis)
        # From the other end a head is reached still, and what lies before it no more.
        if reverse:
            last = jnp.max(jnp.where(here, place, -1), axis, keepdims=True)
            reached = place >= last
        else:
            last = jnp.min(jnp.where(here, place, chunk), axis, keepdims=True)
            reached = place < last
        order = chunk - 1 - place if reverse else place
        mends = carry.reaches & reached & (order + begin >= carry.number * chunk)
        pairs = zip(fn(values, parts), parts, strict=True)
        mended = [jnp.where(jnp.broadcast_to(mends, y.shape), x, y) for x, y in pairs]
        updated = [
            lax.dynamic_update_slice_in_dim(x, y, offset, axis)
            for x, y in zip(carry.arrays, mended, strict=True)
        ]
        passed = ~jnp.any(here, axis, keepdims=True)
        return _Mending(carry.number + 1, carry.reaches & passed, updated)

    number, reaches, *arrays = extent.vary_alike([jnp.zeros((), jnp.int32), reaches, *scanned])
    return list(lax.while_loop(unfinished, step, _Mending(number, reaches, arrays)).arrays)


class _Mending(NamedTuple):
    """How far a part is mended.

    Attributes:
      number: how many chunks are.
      reaches: whether the start reaches beyond them.
      arrays: the results.
    """

    number: jax.Array
    reaches: jax.Array
    arrays: Sequence[jax.Array]


def _gathered(x: jax.Array, axis_name: AxisName, axis: int) -> jax.Array:
    """What all devices have, in their order along the axis."""
    parts: jax.Array = lax.all_gather(x, axis_name, axis=axis, tiled=True)
    return parts


def _from_the_first(x: jax.Array, axis_name: AxisName) -> jax.Array:
    """What the first device has, which is what all of them have."""
    mine = jnp.where(lax.axis_index(axis_name) == 0, x, jnp.zeros_like(x))
    same: jax.Array = lax.psum(mine, axis_name)
    return same


def _folded(fn: Combination, gathered: Sequence[jax.Array]) -> list[jax.Array]:
    """The elements of the first dimension, combined in their order."""
    columns = [[x[i] for x in gathered] for i in range(gathered[0].shape[0])]
    total = columns[0]
    for column in columns[1:]:
        total = fn(total, column)
    return total


def of_this_part(
    descriptor: jax.Array, kind: str, axis_name: AxisName, *, axis: int, n: int
) -> tuple[str, jax.Array]:
    """The descriptor of a part, with numbers of segments that count from the first device on."""
    here = lax.axis_index(axis_name)
    if kind == "offsets":
        return kind, jnp.clip(descriptor - here * n, 0, n).astype(descriptor.dtype)
    if kind == "ids":
        return kind, descriptor
    if kind == "flags":
        marked = heads.as_bool(descriptor)
        first = lax.slice_in_dim(marked, 0, 1, axis=axis)
    else:
        marked = heads.changes(descriptor, axis=axis)
        other, _ = heads.neighbours(descriptor, axis_name, axis=axis, behind=False)
        first = lax.slice_in_dim(descriptor, 0, 1, axis=axis) != other
    # The first element of the whole axis counts as no head, so that segments count from 0.
    marked = lax.dynamic_update_slice_in_dim(marked, first & (here > 0), 0, axis)
    count = jnp.sum(marked, axis, keepdims=True, dtype=jnp.int32)
    counts = _gathered(count, axis_name, axis)
    earlier = lax.broadcasted_iota(jnp.int32, counts.shape, axis) < here
    offset = jnp.sum(jnp.where(earlier, counts, 0), axis, keepdims=True, dtype=jnp.int32)
    return "ids", offset + lax.cumsum(marked.astype(jnp.int32), axis)
