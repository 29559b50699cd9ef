"""Parts of an axis that does not divide evenly, whose end lies inside of a part.

XLA rounds the size of parts up, so that the last ones reach past the end, where anything may stand:

    device 0      device 1      device 2      device 3
    x0 x1 x2 x3   x4 x5 x6 x7   x8 ?  ?  ?    ?  ?  ?  ?

A scan from the first element reads nothing of it before it has read the last one. Where something
else is read, what lies behind the end is made a segment of its own, is unmarked, or is left out of
a reduction, so that the parts make a whole axis that `jscan.plain.across` divides evenly.
"""

from __future__ import annotations

import contextlib
from collections.abc import Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

from jscan import extent, heads, primitives
from jscan.combine import Combine
from jscan.plain.across import of_this_part
from jscan.plain.reduce import full_shape
from jscan.primitives import AxisName, joined, parted
from jscan.starts import of_scan


def scan_uneven(
    *operands: jax.Array,
    length: int,
    axis: int,
    reverse: bool,
    segmented: bool,
    axis_name: AxisName,
    **params: Any,
) -> list[jax.Array]:
    """The results of ``scan_p`` for a part of an axis of this length."""
    leaves, flags, start = of_scan(operands, segmented=segmented, **params)
    along: dict[str, Any] = {"axis": axis, "axis_name": axis_name}
    params |= {"reverse": reverse, **along}
    full = extent.full_shape(operands)
    if not reverse:
        results: list[jax.Array] = primitives.scan_p.bind(*operands, segmented=segmented, **params)
        return results
    narrow = params["combine"].result_dtypes([x.dtype for x in leaves])
    wanted = [d for d, is_used in zip(narrow, params["used"], strict=True) if is_used]
    # What lies behind the end, a segment of its own, comes first: the start joins the last element.
    if start:
        leaves = extent.at_full_size(leaves, full)
        leaves = _behind_start(leaves, start, length, combine=params["combine"], **along)
    flags = with_end(flags, full, length, axis, axis_name)
    params |= {"segmented": True, "started": False}
    results = primitives.scan_p.bind(*joined(leaves, flags), **params)
    if start and params["exclusive"]:
        is_last, _ = _last(full, length, axis, axis_name)
        kept = [x for x, is_used in zip(start, params["used"], strict=True) if is_used]
        pairs = zip(results, kept, strict=True)
        results = [jnp.where(is_last, x.astype(y.dtype), y) for y, x in pairs]
    return [x.astype(d) for x, d in zip(results, wanted, strict=True)]


def _behind_start(
    leaves: list[jax.Array],
    start: Sequence[jax.Array],
    length: int,
    *,
    combine: Combine,
    axis: int,
    axis_name: AxisName,
) -> list[jax.Array]:
    """The leaves of a part, of which the last element of the axis comes behind the start."""
    full = extent.full_shape(leaves)
    is_last, place = _last(full, length, axis, axis_name)
    wide = [
        jnp.broadcast_to(x, full).astype(d) for x, d in zip(leaves, combine.dtypes, strict=True)
    ]
    here = [lax.slice_in_dim(x, place, place + 1, axis=axis) for x in wide]
    begin = [jnp.broadcast_to(x, y.shape) for x, y in zip(start, here, strict=True)]
    behind = combine(begin, here)
    pairs = zip(wide, behind, strict=True)
    return [jnp.where(is_last, y, x) for x, y in pairs]


def _last(
    full: tuple[int, ...], length: int, axis: int, axis_name: AxisName
) -> tuple[jax.Array, int]:
    """Whether each element of a part is the last one of the axis, and its place if there is one."""
    device, rest = divmod(length - 1, full[axis])
    place, _ = _places(full, length, axis, axis_name)
    return (place == rest) & (lax.axis_index(axis_name) == device), rest


def tangent_uneven(
    *operands: jax.Array,
    length: int,
    axis: int,
    reverse: bool,
    transposed: bool,
    segmented: bool,
    axis_name: AxisName,
    **params: Any,
) -> list[jax.Array]:
    """The results of ``tangent_p`` for a part of an axis of this length."""
    leaves, flags = parted(operands, segmented)
    if reverse or transposed:
        flags = with_end(flags, extent.full_shape(operands), length, axis, axis_name)
    params |= {"axis": axis, "reverse": reverse, "transposed": transposed, "axis_name": axis_name}
    results: list[jax.Array] = primitives.tangent_p.bind(
        *joined(leaves, flags), segmented=flags is not None, **params
    )
    return results


def rank_uneven(
    marks: jax.Array, *, length: int, axis: int, axis_name: AxisName, **params: Any
) -> list[jax.Array]:
    """The results of ``rank_p`` that count marked elements, for a part of an axis."""
    place, count = _places(marks.shape, length, axis, axis_name)
    existing = jnp.where(place < count, marks, jnp.zeros_like(marks))
    results: list[jax.Array] = primitives.rank_p.bind(
        existing, axis=axis, axis_name=axis_name, **params
    )
    return results


def histogram_uneven(
    keys: jax.Array,
    *,
    length: int,
    axis: int,
    num_keys: int,
    axis_name: AxisName,
    **params: Any,
) -> list[jax.Array]:
    """The results of ``histogram_p``, the same on every device."""
    place, count = _places(keys.shape, length, axis, axis_name)
    existing = jnp.where(place < count, heads.places_of(keys, num_keys), np.int32(num_keys))
    how: dict[str, Any] = {"axis": axis, "num_keys": num_keys, "axis_name": axis_name}
    results: list[jax.Array] = primitives.histogram_p.bind(existing, **how, **params)
    return results


def reduce_uneven(
    *operands: jax.Array,
    length: int,
    combine: Combine,
    axis: int,
    kind: str,
    num_segments: int,
    exact: bool,
    axis_name: AxisName,
    **params: Any,
) -> list[jax.Array]:
    """The results of ``reduce_p``, the same on every device."""
    leaves, descriptor = parted(operands, kind != "whole")
    params |= {"combine": combine, "axis": axis, "num_segments": num_segments}
    if descriptor is None:
        totals = _whole(leaves, length, axis_name, **params)
        narrow = combine.dtypes if exact else combine.result_dtypes([x.dtype for x in leaves])
        return [x.astype(dtype) for x, dtype in zip(totals, narrow, strict=True)]
    full = full_shape(operands, axis, kind)
    if kind == "offsets":
        descriptor = bounds_within(descriptor, length)
    else:
        kind, ids = of_this_part(descriptor, kind, axis_name, axis=axis, n=full[axis])
        place, count = _places(ids.shape, length, axis, axis_name)
        nowhere = np.int32(num_segments)
        descriptor = jnp.where(place < count, heads.places_of(ids, num_segments), nowhere)
    results: list[jax.Array] = primitives.reduce_p.bind(
        *leaves, descriptor, kind=kind, exact=exact, axis_name=axis_name, **params
    )
    return results


def bounds_within(offsets: jax.Array, length: int) -> jax.Array:
    """Offsets that end where the axis does."""
    limit = min(length, np.iinfo(offsets.dtype).max)
    return jnp.minimum(offsets, np.asarray(limit, offsets.dtype))


def _whole(
    leaves: list[jax.Array], length: int, axis_name: AxisName, *, axis: int, **params: Any
) -> list[jax.Array]:
    """The totals of the whole axis, of the parts that have elements, cut where the axis ends.

    An operator may have no identity, which would stand for what is left out.
    """
    size = extent.full_shape(leaves)[axis]
    last = (length - 1) // size
    params |= {"axis": axis, "kind": "whole", "exact": True, "axis_name": ()}

    leaves = extent.whole_along(axis, leaves, size)

    def total(count: int) -> list[jax.Array]:
        cut = [lax.slice_in_dim(x, 0, count, axis=axis) for x in leaves]
        found: list[jax.Array] = primitives.reduce_p.bind(*cut, **params)
        return found

    is_last = lax.axis_index(axis_name) == last
    rest = length - last * size
    totals = lax.cond(is_last, lambda: total(rest), lambda: total(size))
    gathered = [heads.gather_parts(x, axis_name, axis=axis, tiled=True) for x in totals]
    existing = [lax.slice_in_dim(x, 0, last + 1, axis=axis) for x in gathered]
    results: list[jax.Array] = primitives.reduce_p.bind(*existing, **{**params, "method": "xla"})
    return results


def with_end(
    flags: jax.Array | None,
    full: tuple[int, ...],
    length: int,
    axis: int,
    axis_name: AxisName,
) -> jax.Array:
    """Head flags of a part, with a segment that begins behind the last element of the axis."""
    place, count = _places(full, length, axis, axis_name)
    end = place == count
    return end if flags is None else heads.as_bool(flags) | end


def _places(
    shape: tuple[int, ...], length: int, axis: int, axis_name: AxisName
) -> tuple[jax.Array, jax.Array]:
    """The places of a part's elements, and the number of those that exist.

    Places have size 1 in every other dimension.
    """
    size = shape[axis]
    whole, rest = divmod(length, size)
    wide = size >= 2**31
    with jax.enable_x64(True) if wide else contextlib.nullcontext():
        dtype = np.dtype(np.int64 if wide else np.int32)
        here = lax.axis_index(axis_name)
        behind = jnp.where(here == whole, np.asarray(rest, dtype), np.asarray(0, dtype))
        count = jnp.where(here < whole, np.asarray(size, dtype), behind)
        line = tuple(size if d == axis else 1 for d in range(len(shape)))
        return lax.broadcasted_iota(dtype, line, axis), count
