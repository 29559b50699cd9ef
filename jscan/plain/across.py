"""Scans and reductions of an axis that goes on across the devices of a mesh.

Each device has a part of the axis, in the order of the devices. Only totals travel:

    part      reduce ─► total ──┐                      ┌──► scan from what comes before
    others    reduce ─► total ──┴─ gather ─ combine ───┴──► ...

so that three bytes move in memory where a scan of one device moves two. Of a segmented part the
total since its last restart is wanted, which is of the last elements alone where segments are
short. These forms run where collectives have names, inside of ``shard_map``.
"""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

from jscan import extent, heads, primitives, ranks
from jscan.arguments.identity import Neutral
from jscan.combine import Combine, accumulation_dtype
from jscan.plain import tails
from jscan.plain.reduce import full_shape, last_of_segments, reduce_pairs
from jscan.plain.scan import Combination, flattened, scan_flat, scan_in_plain_jax
from jscan.primitives import AxisName, joined, parted
from jscan.starts import Start, first_of, of_scan


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
    started: bool,
    differentiable: bool = False,
    **_: Any,
) -> list[jax.Array]:
    """The results of ``scan_p`` for the part of the axis that a device holds."""
    given = of_scan(operands, combine=combine, segmented=segmented, started=started)
    leaves, flags = given.leaves, given.flags
    begins = Start(given.values, given.open) if started else None
    full = extent.full_shape(operands)
    leaves = extent.at_full_size(extent.whole_along(axis, leaves, full[axis]), full)
    narrow = combine.result_dtypes([x.dtype for x in leaves])
    if 0 in full:
        return [jnp.zeros(full, d) for d, is_used in zip(narrow, used, strict=True) if is_used]
    fn = functools.partial(combine, differentiable=differentiable)
    along: dict[str, Any] = {"axis": axis, "reverse": reverse}
    forms: dict[str, Any] = {"combine": combine, "exclusive": exclusive, **along}
    inclusive = dataclasses.replace(combine, identity=None)
    if flags is None:
        totals = _total(leaves, inclusive if started else combine, method=method, **along)
        before = _before(fn, totals, None, begins, axis_name, **along)
    else:
        how: dict[str, Any] = {"method": method, "differentiable": differentiable}
        ends = _ends(leaves, flags, combine=combine, **how, **along)
        before = _before(fn, ends.totals, ends, begins, axis_name, **along)
    if differentiable:
        start: dict[str, Any] = {"start": before.values, "start_open": before.open}
        forms |= {"segmented": segmented, "used": (True,) * len(leaves), "differentiable": True}
        every = scan_in_plain_jax(*joined(leaves, flags), **start, **forms)
        results = [x for x, is_used in zip(every, used, strict=True) if is_used]
    else:
        results = primitives.scan(leaves, flags, method=method, start=before, used=used, **forms)
    wanted = [dtype for dtype, is_used in zip(narrow, used, strict=True) if is_used]
    return [x.astype(dtype) for x, dtype in zip(results, wanted, strict=True)]


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
    if descriptor is not None and full[axis]:
        kind, descriptor = of_this_part(descriptor, kind, axis_name, axis=axis, n=full[axis])
    how: dict[str, Any] = {"combine": combine, "axis": axis, "method": method}
    totals = primitives.reduce(
        leaves, descriptor, kind=kind, num_segments=num_segments, exact=True, **how
    )
    results = combined_across(totals, combine, axis_name, differentiable=differentiable)
    if exact:
        return results
    narrow = combine.result_dtypes([x.dtype for x in leaves])
    return [x.astype(dtype) for x, dtype in zip(results, narrow, strict=True)]


def combined_across(
    totals: Sequence[jax.Array],
    combine: Combine,
    axis_name: AxisName,
    *,
    differentiable: bool = False,
) -> list[jax.Array]:
    """The totals of all devices, from those of each, in the devices' order."""
    if combine.is_sum:
        return [heads.sum_of_parts(x, axis_name) for x in totals]
    fn = functools.partial(combine, differentiable=differentiable)
    results = _folded(fn, [heads.gather_parts(x, axis_name) for x in totals])
    return [_from_the_first(x, axis_name) for x in results] if differentiable else results


def scan_general_across(
    fn: Callable[[Any, Any], Any],
    leaves: Sequence[jax.Array],
    treedef: jax.tree_util.PyTreeDef,
    flags: jax.Array | None,
    *,
    axis: int,
    reverse: bool,
    identity: Sequence[Neutral] | None,
    axis_name: AxisName,
    start: Start | None = None,
) -> list[jax.Array]:
    """The scan of a device's part with an operator on whole arrays."""
    if leaves[0].shape[axis] == 0:
        return list(leaves)
    wide = [x.astype(accumulation_dtype(x.dtype)) for x in leaves]
    every = extent.vary_alike([*wide, *([] if start is None else start.values)], axis_name)
    wide, begins = every[: len(leaves)], Start.of(every[len(leaves) :] or None, None)
    flat = flattened(fn, leaves, treedef)
    along: dict[str, Any] = {"axis": axis, "reverse": reverse}
    if flags is None:
        totals = reduce_pairs((lambda a, b: flat(b, a)) if reverse else flat, wide, axis=axis)
        before = _before(flat, totals, None, begins, axis_name, **along)
    else:
        scanned = scan_flat(flat, wide, flags, identity=None, **along)
        totals = [first_of(x, axis=axis, reverse=not reverse) for x in scanned]
        marked = heads.as_bool(flags)
        inside = tails.restarts(marked, **along)
        ends = _Ends(totals, inside, lax.slice_in_dim(marked, 0, 1, axis=axis))
        before = _before(flat, totals, ends, begins, axis_name, **along)
    results = scan_flat(flat, wide, flags, identity=identity, start=before, **along)
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
    local = ranks.rank(marks, axis=axis, emit=emit, reverse=reverse)
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
    leaves: Sequence[jax.Array],
    flags: jax.Array,
    *,
    combine: Combine,
    axis: int,
    reverse: bool,
    method: str,
    differentiable: bool,
) -> _Ends:
    """The ends of a segmented part. Where it is to be differentiated, a bound scan finds them."""
    along: dict[str, Any] = {"combine": combine, "axis": axis, "reverse": reverse}
    # The end of a part may fit a tile that the part does not fit, and the other way round.
    how = "xla" if method == "xla" else "auto"
    if differentiable:
        scan = functools.partial(primitives.scan, exclusive=False, method=how, **along)
        *totals, inside = tails.tail_by(scan, leaves, flags, **along)
    else:
        *totals, inside = primitives.tail(leaves, flags, method=how, **along)
    first = lax.slice_in_dim(heads.as_bool(flags), 0, 1, axis=axis)
    return _Ends(totals, inside, first)


def _before(
    fn: Combination,
    totals: Sequence[jax.Array],
    ends: _Ends | None,
    begins: Start | None,
    axis_name: AxisName,
    *,
    axis: int,
    reverse: bool,
) -> Start:
    """What comes before this device's part in scan order; the whole axis ``begins`` with a start.

    Where nothing comes before it, it is not open.
    """
    here = lax.axis_index(axis_name)
    gathered = [_gathered(x, axis_name, axis) for x in totals]
    count = gathered[0].shape[axis]
    flags = reaches = None
    is_first = here == count - 1 if reverse else here == 0
    is_open: jax.Array = ~is_first
    if ends is not None:
        # In the dtype of a total, so that XLA gathers both at once; not every narrow one has a 3.
        dtype = totals[0].dtype if totals[0].dtype.itemsize >= 4 else np.dtype(np.uint8)
        code = jnp.where(ends.inside, np.uint8(1), np.uint8(0))
        code = code + jnp.where(ends.first, np.uint8(2), np.uint8(0))
        codes = _gathered(code.astype(dtype), axis_name, axis)
        codes = lax.real(codes) if jnp.issubdtype(dtype, jnp.complexfloating) else codes
        codes = codes.astype(jnp.uint8)
        flags, first = codes & np.uint8(1) != 0, codes & np.uint8(2) != 0
        reaches = ~first_of(flags, axis=axis, reverse=reverse)
        if reverse:
            # A scan also restarts at the end of a part behind which a segment begins. Flags are of
            # heads: that of a device says what lies behind the device before it.
            end = lax.full_like(lax.slice_in_dim(first, 0, 1, axis=axis), True)
            behind = lax.concatenate([lax.slice_in_dim(first, 1, None, axis=axis), end], axis)
            is_open = is_open & ~lax.dynamic_index_in_dim(behind, here, axis)
            restarts = flags | behind
            rest = lax.slice_in_dim(restarts, 0, count - 1, axis=axis)
            flags = lax.concatenate([end, rest], axis)
    if begins is not None:
        along: dict[str, Any] = {"axis": axis, "reverse": reverse}
        gathered = begins.joined(fn, gathered, reaches, **along)
    scanned = scan_flat(fn, gathered, flags, axis=axis, reverse=reverse, identity=None)
    neighbour = jnp.clip(here + 1 if reverse else here - 1, 0, count - 1)
    values = [lax.dynamic_index_in_dim(x, neighbour, axis) for x in scanned]
    if begins is not None:
        pairs = zip(begins.values, values, strict=True)
        values = [jnp.where(is_first, x, y) for x, y in pairs]
        is_open = is_open | is_first
    if is_open.ndim == 0:
        beside = values if ends is None else [ends.first]
        is_open = jnp.broadcast_to(is_open, (1,) * min(x.ndim for x in beside))
    return Start(values, is_open)


def _gathered(x: jax.Array, axis_name: AxisName, axis: int) -> jax.Array:
    """What all devices have, in their order along the axis."""
    return heads.gather_parts(x, axis_name, axis=axis, tiled=True)


def _from_the_first(x: jax.Array, axis_name: AxisName) -> jax.Array:
    """What the first device has, which is what all of them have."""
    mine = jnp.where(lax.axis_index(axis_name) == 0, x, jnp.zeros_like(x))
    return heads.sum_of_parts(mine, axis_name)


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
    if kind == "offsets":
        return kind, _bounds_of_this_part(descriptor, axis_name, n)
    if kind == "ids":
        return kind, descriptor
    here = lax.axis_index(axis_name)
    marked = flags_of_this_part(descriptor, kind, axis_name, axis=axis, n=n)
    # The first element of the whole axis counts as no head, so that segments count from 0.
    first = lax.slice_in_dim(marked, 0, 1, axis=axis) & (here > 0)
    marked = lax.dynamic_update_slice_in_dim(marked, first, 0, axis)
    count = jnp.sum(marked, axis, keepdims=True, dtype=jnp.int32)
    counts = _gathered(count, axis_name, axis)
    earlier = lax.broadcasted_iota(jnp.int32, counts.shape, axis) < here
    offset = jnp.sum(jnp.where(earlier, counts, 0), axis, keepdims=True, dtype=jnp.int32)
    return "ids", offset + lax.cumsum(marked.astype(jnp.int32), axis)


def flags_of_this_part(
    descriptor: jax.Array, kind: str, axis_name: AxisName, *, axis: int, n: int
) -> jax.Array:
    """Head flags of a part of ``n`` elements, from flags or runs of its own, or offsets of all."""
    if kind == "flags":
        return heads.as_bool(descriptor)
    if kind == "runs":
        marked = heads.changes(descriptor, axis=axis)
        other, exists = heads.neighbours(descriptor, axis_name, axis=axis, behind=False)
        first = (lax.slice_in_dim(descriptor, 0, 1, axis=axis) != other) | ~exists
    else:
        bounds = _bounds_of_this_part(descriptor, axis_name, n)
        found = ranks.locate(jnp.moveaxis(bounds, axis, -1), n=n, emit="flags")
        marked = jnp.moveaxis(found, -1, axis)
        begin = lax.axis_index(axis_name) * n
        first = jnp.any(descriptor == begin.astype(descriptor.dtype), axis, keepdims=True)
    marked, first = extent.vary_alike([marked, first], axis_name)
    flags: jax.Array = lax.dynamic_update_slice_in_dim(marked, first, 0, axis)
    return flags


def _bounds_of_this_part(offsets: jax.Array, axis_name: AxisName, n: int) -> jax.Array:
    """Where segments begin in a part, at its start or end if they begin elsewhere."""
    # The whole axis may be longer than a product in 32 bits tells, and no offset reaches there.
    far = np.iinfo(offsets.dtype).max
    begins = [min(part * n, far) for part in range(lax.axis_size(axis_name))]
    table = jnp.asarray(np.array(begins, offsets.dtype))
    begin = lax.dynamic_index_in_dim(table, lax.axis_index(axis_name), keepdims=False)
    return jnp.clip(offsets - begin, 0, min(n, far)).astype(offsets.dtype)


def last_across(
    scanned: Sequence[jax.Array],
    numbers: jax.Array,
    identity: Sequence[Neutral],
    *,
    axis: int,
    num_segments: int,
    axis_name: AxisName,
) -> list[jax.Array]:
    """The last element of each segment of a scan, or the identity where a segment has none.

    ``numbers`` count from the first device on. The results are the same on every device.
    """
    along: dict[str, Any] = {"axis": axis, "num_segments": num_segments}
    following, exists = heads.neighbours(numbers, axis_name, axis=axis, behind=True)
    # A segment that goes on ends elsewhere.
    numbers = jnp.where(exists & (numbers == following), np.int32(-1), numbers)
    zeros = [x.dtype.type(0) for x in scanned]
    mine = last_of_segments(scanned, numbers, zeros, **along)
    ones = jnp.ones(numbers.shape, jnp.int32)
    [found] = last_of_segments([ones], numbers, [np.int32(0)], **along)
    is_there = heads.sum_of_parts(found, axis_name) > 0
    none = [lax.slice_in_dim(x, 0, 0, axis=axis) for x in (*scanned, numbers)]
    nothing = last_of_segments(none[:-1], none[-1], identity, **along)
    results = []
    for x, other in zip(mine, nothing, strict=True):
        # Only one device has it.
        total = heads.sum_of_parts(x, axis_name)
        results.append(heads.choose(is_there, total, other))
    return results
