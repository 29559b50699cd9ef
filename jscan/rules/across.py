"""Scans and reductions of an axis that goes on across the devices of a mesh.

Each device has a part of the axis, in the order of the devices. Only totals travel:

    part      reduce ─► total ──┐                      ┌──► scan from what comes before
    others    reduce ─► total ──┴─ gather ─ combine ───┴──► ...

so that three bytes move in memory where a scan of one device moves two. A segmented part is scanned
at once, and its last result is its total: what stands before its first head is then combined with
what comes before the part. These forms run where collectives have names, inside of ``shard_map``.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

from jscan import extent, heads, primitives
from jscan.combine import Combine
from jscan.plain.reduce import full_shape
from jscan.plain.scan import scan_flat
from jscan.primitives import AxisName, parted
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
    **_: Any,
) -> list[jax.Array]:
    """The results of ``scan_p`` for the part of the axis that a device holds."""
    leaves, flags = parted(operands, segmented)
    full = extent.full_shape(operands)
    leaves = extent.at_full_size(leaves, full)
    narrow = combine.result_dtypes([x.dtype for x in leaves])
    way: dict[str, Any] = {"combine": combine, "axis": axis, "reverse": reverse}
    forms: dict[str, Any] = {"exclusive": exclusive, "method": method, **way}
    if 0 in full:
        results = [jnp.zeros(full, dtype) for dtype in narrow]
    elif flags is None:
        totals = _total(leaves, combine, axis=axis, reverse=reverse, method=method)
        before = _before(totals, None, axis_name, combine, reverse=reverse)
        results = primitives.scan(leaves, None, start=before, **forms)
    else:
        wide = [x.astype(dtype) for x, dtype in zip(leaves, combine.dtypes, strict=True)]
        scanned = primitives.scan(wide, flags, **forms)
        ends = _ends(wide, scanned, flags, exclusive=exclusive, **way)
        before = _before(ends.totals, ends, axis_name, combine, reverse=reverse)
        results = _mended(scanned, flags, before, **way)
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
    **_: Any,
) -> list[jax.Array]:
    """The results of ``reduce_p``, the same on every device."""
    leaves, descriptor = parted(operands, kind != "whole")
    full = full_shape(operands, axis, kind)
    leaves = extent.at_full_size(leaves, full)
    if descriptor is not None:
        kind, descriptor = _of_this_part(descriptor, kind, axis_name, axis=axis, n=full[axis])
    how: dict[str, Any] = {"combine": combine, "axis": axis, "method": method}
    totals = primitives.reduce(
        leaves, descriptor, kind=kind, num_segments=num_segments, exact=True, **how
    )
    gathered = [_gathered(x, axis_name) for x in totals]
    results = _folded(combine, gathered)
    if exact:
        return results
    narrow = combine.result_dtypes([x.dtype for x in leaves])
    return [x.astype(dtype) for x, dtype in zip(results, narrow, strict=True)]


def rank_across(
    marks: jax.Array, *, axis: int, emit: str, reverse: bool, axis_name: AxisName, **params: Any
) -> list[jax.Array]:
    """The results of ``rank_p`` that count marked elements, from the first device on."""
    del params
    local = primitives.rank(marks, axis=axis, emit=emit, reverse=reverse)
    count = jnp.sum(heads.as_bool(marks), axis, keepdims=True, dtype=jnp.int32)
    counts = _gathered(count, axis_name)
    here = lax.axis_index(axis_name)
    place = lax.broadcasted_iota(jnp.int32, counts.shape, 0)
    others = place > here if reverse else place < here
    return [local + jnp.sum(jnp.where(others, counts, 0), 0, dtype=jnp.int32)]


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
    scanned: Sequence[jax.Array],
    flags: jax.Array,
    *,
    combine: Combine,
    axis: int,
    reverse: bool,
    exclusive: bool,
) -> _Ends:
    """The ends of a segmented part that has been scanned by itself."""
    totals = [first_of(x, axis=axis, reverse=not reverse) for x in scanned]
    if exclusive:
        last = [first_of(x, axis=axis, reverse=not reverse) for x in leaves]
        totals = combine(totals, last)
    marked = heads.as_bool(flags)
    first = lax.slice_in_dim(marked, 0, 1, axis=axis)
    rest = lax.slice_in_dim(marked, 1, None, axis=axis) if reverse else marked
    return _Ends(totals, jnp.any(rest, axis, keepdims=True), first)


def _before(
    totals: Sequence[jax.Array],
    ends: _Ends | None,
    axis_name: AxisName,
    combine: Combine,
    *,
    reverse: bool,
) -> Start:
    """What comes before this device's part in scan order."""
    here, count = lax.axis_index(axis_name), _count(axis_name)
    gathered = [_gathered(x, axis_name) for x in totals]
    flags = None
    is_open: jax.Array = here < count - 1 if reverse else here > 0
    if ends is not None:
        code = ends.inside.astype(jnp.uint8) + 2 * ends.first.astype(jnp.uint8)
        codes = _gathered(code, axis_name)
        flags, first = codes & np.uint8(1) != 0, codes & np.uint8(2) != 0
        if reverse:
            # A scan also restarts at the end of a part behind which a segment begins. Flags are of
            # heads: that of a device says what lies behind the device before it.
            end = jnp.ones_like(first[:1])
            behind = lax.concatenate([first[1:], end], 0)
            is_open = is_open & ~lax.dynamic_index_in_dim(behind, here, 0, keepdims=False)
            restarts = flags | behind
            flags = lax.concatenate([end, restarts[:-1]], 0)
    scanned = scan_flat(combine, gathered, flags, axis=0, reverse=reverse, identity=None)
    neighbour = jnp.clip(here + 1 if reverse else here - 1, 0, count - 1)
    values = [lax.dynamic_index_in_dim(x, neighbour, 0, keepdims=False) for x in scanned]
    if is_open.ndim == 0:
        is_open = jnp.broadcast_to(is_open, (1,) * values[0].ndim)
    return Start(values, is_open)


MENDED = 2**18
"""Elements that are mended at once."""


def _mended(
    scanned: Sequence[jax.Array],
    flags: jax.Array,
    before: Start,
    *,
    combine: Combine,
    axis: int,
    reverse: bool,
) -> list[jax.Array]:
    """Scanned parts whose elements before the first restart come behind the start.

    Where an exclusive scan begins the identity stands, and the start takes its place.
    """
    full = scanned[0].shape
    n = full[axis]
    flags = jnp.broadcast_to(
        heads.as_bool(flags), (*flags.shape[:axis], n, *flags.shape[axis + 1 :])
    )
    assert before.open is not None
    place = lax.broadcasted_iota(jnp.int32, flags.shape, axis)
    if reverse:
        reached = n - jnp.max(jnp.where(flags, place, 0), axis, keepdims=True)
    else:
        reached = jnp.min(jnp.where(flags, place, n), axis, keepdims=True)
    reached = jnp.where(jnp.broadcast_to(before.open, reached.shape), reached, 0)
    chunk = max(1, min(n, MENDED * n // max(1, int(np.prod(full)))))
    most = jnp.max(reached)

    def unfinished(carry: tuple[jax.Array, list[jax.Array]]) -> jax.Array:
        return carry[0] * chunk < most

    def step(carry: tuple[jax.Array, list[jax.Array]]) -> tuple[jax.Array, list[jax.Array]]:
        number, arrays = carry
        # The last chunk ends where the axis does, and covers what the one before it has mended.
        start = jnp.minimum(number * chunk, n - chunk)
        offset = n - chunk - start if reverse else start
        parts = [lax.dynamic_slice_in_dim(x, offset, chunk, axis) for x in arrays]
        values = [jnp.broadcast_to(x, y.shape) for x, y in zip(before.values, parts, strict=True)]
        along = offset + lax.broadcasted_iota(jnp.int32, parts[0].shape, axis)
        along = n - 1 - along if reverse else along
        mends = (along < reached) & (along >= number * chunk)
        pairs = zip(combine(values, parts), parts, strict=True)
        mended = [jnp.where(mends, x, y) for x, y in pairs]
        updated = [
            lax.dynamic_update_slice_in_dim(x, y, offset, axis)
            for x, y in zip(arrays, mended, strict=True)
        ]
        return number + 1, updated

    given = extent.vary_alike([jnp.zeros((), jnp.int32), *scanned, most])
    carry = given[0], given[1:-1]
    most = given[-1]
    return list(lax.while_loop(unfinished, step, carry)[1])


def _count(axis_name: AxisName) -> int:
    """The number of devices across which the axis goes on."""
    size: int = lax.axis_size(axis_name)
    return size


def _gathered(x: jax.Array, axis_name: AxisName) -> jax.Array:
    """The parts of all devices in their order, along a new first dimension."""
    parts: jax.Array = lax.all_gather(x, axis_name)
    return parts


def _folded(combine: Combine, gathered: Sequence[jax.Array]) -> list[jax.Array]:
    """The elements of the first dimension, combined in their order."""
    columns = [[x[i] for x in gathered] for i in range(gathered[0].shape[0])]
    total = columns[0]
    for column in columns[1:]:
        total = combine(total, column)
    return total


def _of_this_part(
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
        last = lax.slice_in_dim(descriptor, n - 1, n, axis=axis)
        before = _gathered(last, axis_name)
        other = lax.dynamic_index_in_dim(before, jnp.maximum(here - 1, 0), 0, keepdims=False)
        first = lax.slice_in_dim(descriptor, 0, 1, axis=axis) != other
    # The first element of the whole axis counts as no head, so that segments count from 0.
    marked = lax.dynamic_update_slice_in_dim(marked, first & (here > 0), 0, axis)
    count = jnp.sum(marked, axis, keepdims=True, dtype=jnp.int32)
    counts = _gathered(count, axis_name)
    earlier = lax.broadcasted_iota(jnp.int32, counts.shape, 0) < here
    offset = jnp.sum(jnp.where(earlier, counts, 0), 0, dtype=jnp.int32)
    return "ids", offset + lax.cumsum(marked.astype(jnp.int32), axis)
