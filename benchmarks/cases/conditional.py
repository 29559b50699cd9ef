"""Segmented scans whose tiles are scanned by conditional indexing: the operator stays as it is.

    position   0  1  2  3  4  5  6  7
    heads      0        3        6
    head of    0  0  0  3  3  3  6  6      a maximum scan of the positions of heads
    step 1     x[p] = x[p-1] ⊕ x[p]        where p-1 is at or behind the head of p
    step 2     x[p] = x[p-2] ⊕ x[p]        where p-2 is
    step 4     x[p] = x[p-4] ⊕ x[p]        where p-4 is

Sengupta, Harris and Garland (2008) scan a warp like this. A tile is rows of as many elements as a
warp has lanes. Rows are scanned in guarded steps, then their totals likewise, and a row takes the
total before it where its head lies before it.

jscan's own way is the flag-value operator (`jscan.kernels.operator.flag_value`), which needs no
moves but those of the scan itself. benchmarks/NOTES.md compares them.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax
from jax.extend import core
from jax.interpreters import mlir

from jscan.combine import trace
from jscan.kernels import internals, language, scanning
from jscan.kernels.description import Scan
from jscan.kernels.engines.source import writing
from jscan.kernels.engines.source.function import Equation
from jscan.kernels.engines.source.operands import Operand
from jscan.kernels.language import Aval
from jscan.kernels.launch import Cut
from jscan.kernels.operator import FLAG, prepare, trace_scalars
from jscan.kernels.registers import from_bits, to_bits
from jscan.kernels.tuning import Tuning
from jscan.operators import add, affine

ROW = 32
"""Elements of a row: the lanes of a warp."""


def segmented_sum(x: jax.Array, heads: jax.Array, *, tile: Tuning) -> jax.Array:
    """A sum along one dimension that starts anew at every head."""
    [result] = scan(add, [x], heads, tile)
    return result


def recurrence(a: jax.Array, b: jax.Array, heads: jax.Array, *, tile: Tuning) -> jax.Array:
    """h[t] = a[t] h[t-1] + b[t], and h[t] = b[t] at every head."""
    [result] = scan(affine, [a, b], heads, tile, used=(False, True))
    return result


def scan(
    operator: Callable[[Any, Any], Any],
    leaves: Sequence[jax.Array],
    heads: jax.Array,
    tile: Tuning,
    *,
    used: Sequence[bool] | None = None,
    reverse: bool = False,
    interpret: bool = False,
) -> list[jax.Array]:
    """The used results of a segmented scan of arrays of one dimension, by decoupled lookback."""
    tree = jax.tree.structure(0 if len(leaves) == 1 else tuple(leaves))
    combine = trace(operator, leaves, tree, 0, None)
    assert combine is not None
    prepared, shape = prepare(combine), leaves[0].shape
    results = combine.result_dtypes([leaf.dtype for leaf in leaves])
    cut = Cut([*leaves, heads], shape, 0, tile, reverse=reverse)
    one = ConditionalScan(
        geometry=cut.geometry,
        operator=prepared,
        dtypes=tuple(np.dtype(a.dtype) for a in prepared.out_avals),
        results=tuple(np.dtype(d) for d in results),
        identity=None,
        used=tuple(used or [True] * len(leaves)),
        linear=False,
        views=cut.views[:-1],
        flag_view=cut.views[-1],
    )
    outputs = scanning.run(one, cut, interpret, method="lookback")
    return [x.reshape(shape) for x in outputs]


@dataclasses.dataclass(frozen=True)
class ConditionalScan(Scan):
    """A scan in tiles of one dimension."""

    def tile_scan(self, leaves: Sequence[jax.Array]) -> list[jax.Array]:
        """The tile's leaves, scanned inclusively."""
        return tile_scan(self.operator, leaves, reverse=self.geometry.reverse)


def tile_scan(
    operator: core.ClosedJaxpr, leaves: Sequence[jax.Array], *, reverse: bool
) -> list[jax.Array]:
    """The inclusive scan of a tile of one dimension, ``[restart, *values]``; restarts are or-ed."""
    restart, *values = leaves
    place = _places(restart.shape[0], reverse)
    none = jnp.full_like(place, -1)
    latest = trace_scalars(lax.max, [np.dtype(np.int32)] * 2)
    [head] = language.tile_scan(latest, [jnp.where(restart != 0, place, none)], 0, reverse=reverse)
    seen = (head >= 0).astype(FLAG)
    return [seen, *_scanned(operator, jnp.maximum(head, np.int32(0)), values, reverse)]


def _places(count: int, reverse: bool) -> jax.Array:
    """The position of each element, in scan order."""
    place = lax.broadcasted_iota(jnp.int32, (count,), 0)
    return np.int32(count - 1) - place if reverse else place


def _scanned(
    operator: core.ClosedJaxpr, head: jax.Array, values: Sequence[jax.Array], reverse: bool
) -> list[jax.Array]:
    """Values, each combined with all before it from its ``head`` on."""
    count = head.shape[0]
    width = min(ROW, count)
    rows = count // width
    shape = (rows, width)
    head = head.reshape(shape)
    values = [v.reshape(shape) for v in values]
    lane = lax.broadcasted_iota(jnp.int32, shape, 1)
    within = np.int32(width - 1) - lane if reverse else lane
    row = lax.broadcasted_iota(jnp.int32, shape, 0)
    row = np.int32(rows - 1) - row if reverse else row
    first = row * np.int32(width)
    step = 1
    while step < width:
        # The row begins anew, so to speak, at its first element.
        start = jnp.maximum(head - first, np.int32(0))
        behind = within - np.int32(step) >= start
        source = lane + np.int32(step if reverse else -step)
        values = _combined(operator, values, source & np.int32(width - 1), behind, 1)
        step *= 2
    if rows > 1:
        end = jnp.full((rows, 1), 0 if reverse else width - 1, jnp.int32)
        totals = [_moved(v, end, 1).reshape(rows) for v in values]
        head_row = (_moved(head, end, 1) // np.int32(width)).reshape(rows)
        totals = _scanned(operator, head_row, totals, reverse)
        before = lax.broadcasted_iota(jnp.int32, (rows,), 0) + np.int32(1 if reverse else -1)
        before = jnp.clip(before, np.int32(0), np.int32(rows - 1))
        carried = [_moved(t, before, 0)[:, None] for t in totals]
        joins = (head < first) & (row > 0)
        combined = language.mapped(
            operator, [*(jnp.broadcast_to(c, shape) for c in carried), *values]
        )
        values = [jnp.where(joins, c, v) for c, v in zip(combined, values, strict=True)]
    return [v.reshape(count) for v in values]


def _combined(
    operator: core.ClosedJaxpr,
    values: Sequence[jax.Array],
    source: jax.Array,
    where: jax.Array,
    axis: int,
) -> list[jax.Array]:
    """One guarded step: what lies at ``source`` in front of each element."""
    left = [_moved(v, source, axis) for v in values]
    combined = language.mapped(operator, [*left, *values])
    return [jnp.where(where, c, v) for c, v in zip(combined, values, strict=True)]


def _moved(values: jax.Array, source: jax.Array, axis: int) -> jax.Array:
    """The elements at ``source`` along ``axis``, bit by bit."""
    return from_bits(gather_p.bind(to_bits(values), source, axis=axis), values.dtype)


# --- the move -----------------------------------------------------------------------------------

gather_p = core.Primitive("conditional_gather")
"""Elements of a tile of 32- or 64-bit integers by their places along an axis: ``tt.gather``.

jscan's own kernels move no elements so, and the engines have no form of it.
"""


def _gather_abstract_eval(x: Aval, places: Aval, *, axis: int) -> Aval:
    del axis
    return Aval(places.shape, x.dtype)


def _gather_meaning(x: jax.Array, places: jax.Array, *, axis: int) -> jax.Array:
    return jnp.take_along_axis(x, places, axis)


def _gather_lowering(_: Any, x: Any, places: Any, *, axis: int) -> Any:
    return internals.tt.gather(x, places, axis)


def _gather_text(at: Equation) -> list[Operand]:
    x, places = at.operands
    return at.named(f"tl.gather({x.typed}, {places.typed}, {at.params['axis']})")


gather_p.def_abstract_eval(_gather_abstract_eval)
mlir.register_lowering(gather_p, mlir.lower_fun(_gather_meaning, multiple_results=False))
if hasattr(internals, "triton"):  # the first engine
    internals.triton.register_lowering(gather_p)(_gather_lowering)
writing.RULES[gather_p.name] = _gather_text
