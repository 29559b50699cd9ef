"""Scans of elements that are several numbers each, in the arrays in which they lie.

The operator is one on scalars, of which each number of an element is one. So are a tile's leaves,
once it is read (`jscan.kernels.elements`); what comes between reading and writing is that of any
scan of so many leaves.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence

import jax
import jax.numpy as jnp
import numpy as np

from jscan import extent
from jscan.called import Leaf
from jscan.combine import Combine
from jscan.kernels import elements, launch, scanning, tuning
from jscan.kernels.complex import real_dtypes
from jscan.kernels.operator import prepare
from jscan.kernels.start import placed
from jscan.kernels.strategies import settled, single_pass
from jscan.starts import Start


def numbers_of(arrays: Sequence[Leaf]) -> list[jax.ShapeDtypeStruct]:
    """The numbers of elements, as the leaves that they are."""
    return [jax.ShapeDtypeStruct(x.shape[:-1], x.dtype) for x in arrays for _ in range(x.shape[-1])]


def scan_elements(
    arrays: Sequence[jax.Array],
    flags: jax.Array | None,
    *,
    combine: Combine,
    axis: int,
    reverse: bool,
    used: Sequence[bool],
    method: str,
    interpret: bool = False,
    tile: tuning.Tuning | None = None,
    start: Sequence[jax.Array] | None = None,
    behind: Sequence[int] = (),
) -> list[jax.Array] | str:
    """Scans ``arrays`` along ``axis``, whose last dimension holds the numbers of each element.

    Returns the ``used`` ones, or why they cannot be read and written as they lie. The method is one
    that `refusals.why_not` has nothing to say against. ``flags`` have one dimension less, and
    ``start`` holds what comes before the first element of each array. Of each array the element so
    many places ``behind`` in scan order is read; what there is none of is undefined.
    """
    before = Start.of(start, None)
    beside: list[Leaf] = [] if flags is None else [flags]
    beside += [] if start is None else numbers_of(start)
    full = extent.full_shape([*numbers_of(arrays), *beside])
    if 0 in full or full[axis] == 1:
        return "there is nothing to launch"
    if all(x.shape[-1] == 1 for x in arrays):
        return "its elements are numbers"
    if any(x.dtype == np.complex128 for x in arrays):
        return "complex128 is read as two arrays"
    if extent.full_shape(numbers_of(arrays)) != full:
        wide = (*full, arrays[0].shape[-1])
        arrays = [jnp.broadcast_to(arrays[0], wide), *arrays[1:]]
    counts, numbers = tuple(x.shape[-1] for x in arrays), numbers_of(arrays)
    results = _of_arrays(combine.result_dtypes([x.dtype for x in numbers]), counts)
    cut, method = _cut(
        arrays,
        flags,
        tuning.Shape.of(numbers, axis, prepare(combine), segmented=flags is not None, tile=tile),
        full,
        axis,
        results=results,
        used=used,
        reverse=reverse,
        method=method,
    )
    read = [
        (np.dtype(x.dtype), view.numbers)
        for x, view in zip(arrays, cut.views, strict=False)
        if view.strides[1]
    ]
    each = zip(results, counts, used, strict=True)
    written = [(dtype, count) for dtype, count, is_used in each if is_used]
    for dtype, count in [*read, *written]:
        reason = elements.why_not(cut.geometry, dtype, count) if count > 1 else None
        if reason is not None:
            return reason
    described = scanning.described_as(
        combine, cut, results, tuple(used), None, segmented=flags is not None
    )
    views = [
        dataclasses.replace(view, behind=places)
        for view, places in zip(described.views, behind, strict=False)
    ]
    views += described.views[len(views) :]
    described = dataclasses.replace(described, numbers=counts, views=tuple(views))
    given: list[jax.Array] = []
    if before is not None:
        lone = [x[..., 0] if x.shape[-1] == 1 else x for x in before.values]
        given, place = placed(Start(lone), full, axis, counts)
        described = dataclasses.replace(described, start=place)
    outputs = scanning.run(described, cut, interpret, given, method)
    kept = [count for count, is_used in zip(counts, used, strict=True) if is_used]
    return [x.reshape(*full, count) for x, count in zip(outputs, kept, strict=True)]


def _of_arrays(each: Sequence[np.dtype], counts: Sequence[int]) -> tuple[np.dtype, ...]:
    """What the numbers of each array share."""
    return tuple(each[sum(counts[:k])] for k in range(len(counts)))


def _cut(
    arrays: Sequence[jax.Array],
    flags: jax.Array | None,
    shape: tuning.Shape,
    full: tuple[int, ...],
    axis: int,
    *,
    results: Sequence[np.dtype],
    used: Sequence[bool],
    reverse: bool,
    method: str,
) -> tuple[launch.Cut, str]:
    """The cut, and the strategy that "auto" comes to."""
    counts = [x.shape[-1] for x in arrays]
    written = zip(results, counts, used, strict=True)
    values = sum(count * len(real_dtypes(dtype)) for dtype, count, is_used in written if is_used)
    shape = dataclasses.replace(shape, few_results=2 * values <= shape.leaves)
    if method == "auto" and tuning.suits_two_passes(shape, values):
        method = "reduce_then_scan"
    tuned = tuning.chosen(shape, method, tuning.SCAN)
    tuned = settled(shape, tuned, method, reverse=reverse, exclusive=False)
    operands = [x[..., 0] if x.shape[-1] == 1 else x for x in arrays]
    if flags is not None:
        operands.append(launch.whole_bytes(flags))
    widths = {dtype.itemsize for dtype in results}
    cut = launch.Cut(operands, full, axis, tuned, reverse=reverse, widths=widths, numbers=counts)
    return cut, single_pass(method, shape)
