"""Scans in plain JAX for CPUs, one element after another by `jscan.plain.serial`.

`jscan.plain.steps` says what is done with an element.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import jax
import jax.numpy as jnp
from jax import lax

from jscan import extent, operators
from jscan.combine import Combine
from jscan.pairs import operator_on
from jscan.plain import stacked
from jscan.plain.chunks import scan_in_chunks
from jscan.plain.scan import scan_in_plain_jax
from jscan.plain.serial import (
    AS_TREES,
    OF_LOGARITHMS,
    Walk,
    can_be_walked,
    elements_of,
    is_fast,
    is_of_logarithms,
    shape_of,
    words_of,
)
from jscan.plain.steps import Steps, Trees, are_carried, has_trees, most_of, stretch_of
from jscan.primitives import parted
from jscan.starts import Start


def scan_in_sequence(
    *operands: jax.Array,
    combine: Combine,
    axis: int,
    reverse: bool,
    exclusive: bool,
    segmented: bool,
    used: Sequence[bool],
    start: Sequence[jax.Array] | None = None,
    start_open: jax.Array | None = None,
    **_: Any,
) -> list[jax.Array]:
    """The results of `scan_in_plain_jax`, one element after another."""
    leaves, flags = parted(operands, segmented)
    count = len(leaves)
    before = Start.of(start, start_open)
    begin = [] if before is None else before.arrays
    begin = [lax.expand_dims(x, range(x.ndim, leaves[0].ndim)) for x in begin]
    shape = extent.full_shape([*operands, *begin])
    narrow = combine.result_dtypes([x.dtype for x in leaves])
    results = [d for d, is_used in zip(narrow, used, strict=True) if is_used]
    if 0 in shape:
        return [jnp.zeros(shape, d) for d in results]
    form: dict[str, Any] = {"reverse": reverse, "segmented": segmented, "exclusive": exclusive}
    walk = _walk(combine, used, shape, axis=axis, **form)
    written = results
    if walk.beside == 1:  # one by one is a slow way to convert elements
        operands = (
            *(x.astype(d) for x, d in zip(leaves, combine.dtypes, strict=True)),
            *operands[count:],
        )
        written = [d for d, is_used in zip(combine.dtypes, used, strict=True) if is_used]
    alike = extent.vary_alike([*operands, *begin])
    every = [elements_of(x, shape, axis) for x in alike]
    kind = Trees if walk.turn > 1 and has_trees(combine, used, segmented) else Steps
    steps = kind(
        combine,
        every[:count],
        None if flags is None else every[count],
        every[len(operands) :],
        walk,
        exclusive=exclusive,
        used=used,
    )
    found = walk.run(steps.turn, steps.begin, written, alike[0])
    return [x.reshape(shape).astype(d) for x, d in zip(found, results, strict=True)]


def scan_on_cpu(
    *operands: jax.Array, method: str = "auto", compact: bool = False, **params: Any
) -> list[jax.Array]:
    """The results of ``scan_p``, by what is fastest on a CPU.

    The method "xla" is a tree on every platform; in chunks if it is to keep little but its results.
    """
    if method == "auto":
        if stacked.is_large(params["combine"]):
            return scan_in_plain_jax(*operands, by=stacked.scan_stacked, **params)
        if is_faster_in_sequence(*operands, **params):
            return scan_in_sequence(*operands, **params)
    form = scan_in_chunks if compact else scan_in_plain_jax
    return form(*operands, **params)


def counted_on_cpu(x: jax.Array, *, axis: int, reverse: bool = False) -> jax.Array:
    """The cumulative sum of integers, for which ``lax.cumsum`` takes four times as long there."""
    combine = operator_on(operators.add, x.dtype)
    form: dict[str, Any] = {"exclusive": False, "segmented": False, "used": (True,)}
    [found] = scan_on_cpu(x, combine=combine, axis=axis, reverse=reverse, **form)
    return found


def is_faster_in_sequence(
    *operands: jax.Array,
    combine: Combine,
    axis: int,
    reverse: bool,
    segmented: bool,
    exclusive: bool,
    used: Sequence[bool],
    start: Sequence[jax.Array] | None = None,
    **_: Any,
) -> bool:
    """Whether `scan_in_sequence` is faster than a tree."""
    shape = extent.full_shape([*operands, *(start or [])])
    if not can_be_walked(operands, shape, axis):
        return False
    is_long = shape[axis] > OF_LOGARITHMS and math.prod(shape) <= AS_TREES
    if is_long and not (reverse or segmented) and is_of_logarithms(combine.jaxpr):
        return False
    form: dict[str, Any] = {"reverse": reverse, "segmented": segmented, "exclusive": exclusive}
    walk = _walk(combine, used, shape, axis=axis, **form)
    return walk.is_compiled_whole(is_fast(combine.jaxpr))


def _walk(
    combine: Combine,
    used: Sequence[bool],
    shape: Sequence[int],
    *,
    axis: int,
    reverse: bool,
    segmented: bool,
    exclusive: bool,
) -> Walk:
    """The way through the arrays. Each element reads leaves, and writes results and a prefix."""
    dtypes = [
        *combine.dtypes,
        *(d for d, is_used in zip(combine.dtypes, used, strict=True) if is_used),
    ]
    wanted = [i for i, is_used in enumerate(used) if is_used]
    stretch = stretch_of(combine, wanted, shape[axis])
    if stretch < shape[axis]:
        dtypes += combine.dtypes
    else:
        stretch = 0
    most = most_of(combine, segmented) if are_carried(combine, used) else None
    return Walk(shape_of(shape, axis), words_of(dtypes), reverse, most, stretch, exclusive)
