"""Why no kernel can run a scan, and where none had better do so."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Sequence

from jscan.called import Leaf
from jscan.combine import Combine
from jscan.kernels import tuning
from jscan.kernels.launch import why_not_dtypes
from jscan.kernels.operator import Inexpressible, prepare
from jscan.logsums import is_logaddexp


def why_not(
    leaves: Sequence[Leaf],
    *,
    combine: Combine,
    axis: int,
    exclusive: bool,
    method: str,
    tile: tuning.Tuning | None = None,
    full: Sequence[int] | None = None,
) -> str | None:
    """Why no kernel (of this method) can run this scan, of the shape ``full``; None if one can."""
    reason = why_not_dtypes(leaves)
    if reason is not None:
        return reason
    try:
        operator = prepare(combine)
    except Inexpressible as error:
        return str(error)
    if exclusive and combine.identity is None:
        return "an exclusive scan needs the operator's identity"
    shape = tuning.Shape.of(leaves, axis, operator, segmented=False, tile=tile, full=full)
    return why_not_shape(shape, method)


def suits_no_kernel(
    leaves: Sequence[Leaf],
    flags: Leaf | None,
    *,
    combine: Combine,
    axis: int,
    exclusive: bool,
    full: Sequence[int],
) -> bool:
    """Whether this scan, which kernels can run, is faster in plain JAX.

    Each element has a flag of its own, or there are none.
    """
    shape = tuning.Shape.of(
        leaves, axis, prepare(combine), segmented=flags is not None, tile=None, full=full
    )
    own, summed = flags is not None, is_logaddexp(combine)
    return tuning.suits_no_kernel(
        dataclasses.replace(shape, own_flags=own, exclusive=exclusive, logaddexp=summed)
    )


def why_not_shape(shape: tuning.Shape, method: str) -> str | None:
    """Why no kernel (of this method) can run on operands of this shape; None if one can."""
    if method == "block" and tuning.block(shape) is None:
        limit = tuning.longest_block(shape)
        return f"rows of {shape.n} elements do not fit one tile (at most {limit} here)"
    cut = tuning.chosen(shape, method, tuning.SCAN)
    pairs = (
        (shape.outer, cut.rows),
        (shape.n, cut.length),
        (shape.inner, max(1, cut.lanes - cut.shared)),
    )
    programs = math.prod(-(-extent // size) for extent, size in pairs)
    if programs >= 2**31:
        return f"it takes {programs} programs, more than one launch can have"
    return None
