"""Scans of elements that are several numbers, side by side in memory: their primitive.

The operator is one on scalars, of which each number of an element is one. `apart` makes the scan by
`jscan.primitives.scan_p` of it, whose leaves are these numbers.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import jax
import jax.numpy as jnp
from jax.extend import core

from jscan import extent, primitives
from jscan.blocks import Whole
from jscan.combine import Combine
from jscan.starts import Start

elements_p = core.Primitive("jscan_elements")
"""Every inclusive scan of such elements.

Operands: arrays whose last dimension holds the numbers of each element; head flags where
``segmented``, whose last dimension is 1; where ``started``, what comes before the first element of
each array, of size 1 along the axis. The dimensions before the last are full or 1.
Results: the arrays that are ``used``, at full size.
Parameters: ``combine``, on the numbers of the first array, then of the second, ...; the ``whole``
operator on their blocks, where plain JAX takes that (`jscan.blocks`), or None; the others are those
of ``scan_p`` for inclusive scans by flags.
"""
elements_p.multiple_results = True


def scan(
    arrays: Sequence[jax.Array],
    flags: jax.Array | None,
    start: Sequence[jax.Array] | None,
    *,
    combine: Combine,
    whole: Whole | None,
    axis: int,
    reverse: bool,
    method: str,
    axis_name: primitives.AxisName,
) -> list[jax.Array]:
    """Bind ``elements_p``."""
    operands = [*arrays, *([] if flags is None else [flags]), *(start or [])]
    operands = extent.vary_alike(operands, axis_name)
    results: list[jax.Array] = elements_p.bind(
        *operands,
        combine=combine,
        whole=whole,
        axis=axis,
        reverse=reverse,
        segmented=flags is not None,
        used=(True,) * len(arrays),
        method=method,
        started=start is not None,
        axis_name=axis_name,
        **primitives.settings_for(leading(operands)),
    )
    return results


def leading(operands: Sequence[extent.Shaped]) -> tuple[int, ...]:
    """The shape that operands have together, but for what an element holds."""
    sizes = zip(*(x.shape[:-1] for x in operands), strict=True)
    return tuple(next((size for size in each if size != 1), 1) for each in sizes)


def numbers(arrays: Sequence[jax.Array]) -> list[jax.Array]:
    """The numbers of the elements of arrays, an array for each."""
    return [x[..., i] for x in arrays for i in range(x.shape[-1])]


def parted(
    operands: Sequence[Any], count: int, *, segmented: bool
) -> tuple[list[Any], Any, list[Any]]:
    """The arrays among operands, of which there are ``count``; flags or None; the start."""
    arrays, rest = [*operands[:count]], [*operands[count:]]
    return arrays, rest.pop(0) if segmented else None, rest


def apart(
    *operands: jax.Array,
    combine: Combine,
    used: tuple[bool, ...],
    segmented: bool,
    started: bool,
    axis: int,
    reverse: bool,
    method: str,
    axis_name: primitives.AxisName,
    **_: Any,
) -> list[jax.Array]:
    """The same by ``scan_p``, whose leaves are the numbers."""
    arrays, flags, before = parted(operands, len(used), segmented=segmented)
    full, counts = leading(operands), [x.shape[-1] for x in arrays]
    scanned = iter(
        primitives.scan(
            extent.at_full_size(numbers(arrays), full),
            None if flags is None else flags[..., 0],
            combine=combine,
            axis=axis,
            reverse=reverse,
            exclusive=False,
            method=method,
            start=Start(numbers(before)) if started else None,
            axis_name=axis_name,
            used=[is_used for is_used, n in zip(used, counts, strict=True) for _ in range(n)],
        )
    )
    kept = [n for is_used, n in zip(used, counts, strict=True) if is_used]
    return [jnp.stack([next(scanned) for _ in range(n)], -1) for n in kept]
