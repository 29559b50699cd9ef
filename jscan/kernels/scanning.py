"""From arrays to the kernels of a strategy.

block                rows that fit a tile
lookback             one pass over longer ones; as serial_lookback, looking at one tile at a time
chained              one pass, every tile behind its neighbour
reduce_then_scan     two passes in a fixed order
scan_then_propagate  the same, and every element written twice

Each has a module of its name, but serial_lookback, which is a window of one tile.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Callable, Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from jscan.kernels import (
    block,
    chained,
    lookback,
    reduce_then_scan,
    scan_then_propagate,
    tuning,
)
from jscan.kernels.complex import real_dtypes, real_identity
from jscan.kernels.description import Scan
from jscan.kernels.launch import (
    Cut,
    complex_parts,
    real_parts,
    shape_of,
    whole_bytes,
    why_not_dtypes,
)
from jscan.kernels.logaddexp import is_logaddexp
from jscan.kernels.operator import Inexpressible, prepare


def why_not(
    leaves: Sequence[Any],
    *,
    combine: Any,
    axis: int,
    exclusive: bool,
    method: str,
    tile: tuning.Tuning | None = None,
) -> str | None:
    """Why no kernel (of this method) can run this scan; None if one can."""
    reason = why_not_dtypes(leaves)
    if reason is not None:
        return reason
    try:
        prepare(combine)
    except Inexpressible as error:
        return str(error)
    if exclusive and combine.identity is None:
        return "an exclusive scan needs the operator's identity"
    return why_not_shape(shape_of(leaves, combine, axis, segmented=False, tile=tile), method)


def why_not_shape(shape: tuning.Shape, method: str) -> str | None:
    """Why no kernel (of this method) can run on operands of this shape; None if one can."""
    if method == "block" and tuning.block(shape) is None:
        limit = tuning.longest_block(shape)
        return f"rows of {shape.n} elements do not fit one tile (at most {limit} here)"
    cut = chosen(shape, method)
    pairs = ((shape.outer, cut.rows), (shape.n, cut.length), (shape.inner, cut.lanes))
    programs = math.prod(-(-extent // size) for extent, size in pairs)
    if programs >= 2**31:
        return f"it takes {programs} programs, more than one launch can have"
    return None


def scan(
    leaves: Sequence[jax.Array],
    flags: jax.Array | None,
    *,
    combine: Any,
    axis: int,
    reverse: bool,
    exclusive: bool,
    used: Sequence[bool],
    method: str,
    interpret: bool = False,
    tile: tuning.Tuning | None = None,
) -> list[jax.Array]:
    """Scans ``leaves`` along ``axis``; returns the used ones in the full shape.

    The cut is ``tile``, or the one that suits the shape where that is None.
    Every operand's dimensions are full or 1. Runs where `why_not` finds nothing to object to.
    """
    full = np.broadcast_shapes(*(leaf.shape for leaf in leaves))
    if math.prod(full) == 0 or full[axis] == 1:
        return _trivial(leaves, combine, exclusive, used, full)
    parts, real_used = real_parts(leaves, used)
    operator = prepare(combine)
    flags = None if flags is None else whole_bytes(flags)
    operands = [*parts, *([] if flags is None else [flags])]
    shape = shape_of(leaves, combine, axis, segmented=flags is not None, tile=tile)
    if method == "auto" and tuning.suits_two_passes(shape, sum(real_used)):
        method = "reduce_then_scan"
    results = combine.result_dtypes([leaf.dtype for leaf in leaves])
    widths = {real.itemsize for d in results for real in real_dtypes(d)}
    cut = Cut(
        *(operands, full, axis, chosen(shape, method)),
        reverse=reverse,
        exclusive=exclusive,
        widths=widths,
    )
    one = Scan(
        geometry=cut.geometry,
        operator=operator,
        dtypes=tuple(np.dtype(a.dtype) for a in operator.out_avals),
        results=tuple(real for d in results for real in real_dtypes(d)),
        identity=None if combine.identity is None else tuple(real_identity(combine.identity)),
        used=real_used,
        linear=flags is None and is_logaddexp(combine),
        views=cut.views[: len(parts)],
        flag_view=None if flags is None else cut.views[-1],
    )
    outputs = launch(one, cut, interpret, method=method)
    return complex_parts([x.reshape(full) for x in outputs], results, used)


def chosen(shape: tuning.Shape, method: str) -> tuning.Tuning:
    """The cut for a named method, or for the better one."""
    rows = None if method in TALKING else tuning.block(shape)
    if rows is not None and (method == "block" or tuning.suits_block(shape, rows)):
        return rows
    if method == "reduce_then_scan":
        return tuning.parts(shape)
    if method == "chained":
        return tuning.chain(shape)
    return tuning.serial(shape) if method == "serial_lookback" else tuning.lookback(shape)


TALKING = ("lookback", "serial_lookback", "chained")
"""Strategies whose tiles wait for each other: asked for by name, they do it even in short rows."""


def launch(
    one: Scan, cut: Cut, interpret: bool, beside: Sequence[jax.Array] = (), method: str = "auto"
) -> list[jax.Array]:
    """Runs the kernels of a scan; operands that are not cut into tiles come ``beside``."""
    in_strips = method == "reduce_then_scan" and cut.tuned.strip > 0
    if one.geometry.tiles == 1 and not in_strips:
        body: Callable[..., None] = functools.partial(block.kernel, one)
        return cut.call(one, beside, body, None, "jscan_block", interpret)
    if method == "reduce_then_scan":
        return reduce_then_scan.run(one, cut, interpret)
    if method == "scan_then_propagate":
        return scan_then_propagate.run(one, cut, interpret)
    if method == "chained":
        body = functools.partial(chained.kernel, one)
        return cut.call(one, beside, body, chained.tile_state(one), "jscan_chained", interpret)
    assert cut.tuned.warps == 1 or cut.tuned.window == 32 * cut.tuned.warps, cut.tuned
    body = functools.partial(lookback.kernel, one, cut.tuned.window)
    return cut.call(one, beside, body, lookback.tile_state(one), "jscan_lookback", interpret)


def _trivial(
    leaves: Sequence[jax.Array], combine: Any, exclusive: bool, used: Sequence[bool], full: Any
) -> list[jax.Array]:
    """Axes of length 0 or 1, and empty batches: nothing to launch."""
    kept = [k for k, u in enumerate(used) if u]
    dtypes = combine.result_dtypes([leaf.dtype for leaf in leaves])
    if exclusive:
        return [jnp.full(full, combine.identity[k], dtypes[k]) for k in kept]
    return [jnp.broadcast_to(leaves[k], full).astype(dtypes[k]) for k in kept]
