"""Reductions by segments: a scan of which only the totals are written.

    ids      0  0  0 │ 2  2 │ 3 ...        heads come from comparing an id with the one before it,
    values   a  b  c │ d  e │ f ...        ends from comparing it with the one behind it
                   ▼      ▼
    results  [a⊕b⊕c] [ identity ] [d⊕e] ...     each total is written once, at its segment's number

A tile scans its values as any segmented tile does, finds what came before it by lookback, and
writes the elements that end a segment. Where the number of a segment is not in memory but a count
of heads, the count is a leaf of its own:

    (cx, x) ⊕ (cy, y) = (cx + cy, y if cy else x ⊕ y)

which is associative, and no segmented scan: nobody knows a count without all heads before it.
"""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax
from jax.extend import core

from jscan.kernels import launch, primitives
from jscan.kernels.operator import prepare, real_dtypes, real_identity, trace_scalars
from jscan.kernels.scan import Scan
from jscan.kernels.tile import Tile

COUNT = np.dtype(np.int32)
COUNTED = ("flags", "runs")
"""Descriptors whose segments are numbered by counting heads."""


@functools.lru_cache(maxsize=1024)
def counting(operator: core.ClosedJaxpr) -> core.ClosedJaxpr:
    """The operator on (heads so far, values since the last head)."""
    leaves = len(operator.out_avals)
    apply = core.jaxpr_as_fun(operator)

    def counted(*scalars: Any) -> tuple[Any, ...]:
        (cx, *x), (cy, *y) = scalars[: leaves + 1], scalars[leaves + 1 :]
        combined = apply(*x, *y)
        values = [lax.select(cy != COUNT.type(0), b, c) for b, c in zip(y, combined, strict=True)]
        return cx + cy, *values

    dtypes = [COUNT, *(np.dtype(a.dtype) for a in operator.out_avals)]
    return trace_scalars(counted, dtypes * 2)


@functools.lru_cache(maxsize=1024)
def keyed(operator: core.ClosedJaxpr) -> core.ClosedJaxpr:
    """The operator on (id, values since the id last changed)."""
    leaves = len(operator.out_avals)
    apply = core.jaxpr_as_fun(operator)

    def by_key(*scalars: Any) -> tuple[Any, ...]:
        (kx, *x), (ky, *y) = scalars[: leaves + 1], scalars[leaves + 1 :]
        combined = apply(*x, *y)
        return ky, *(lax.select(kx == ky, c, b) for b, c in zip(y, combined, strict=True))

    dtypes = [COUNT, *(np.dtype(a.dtype) for a in operator.out_avals)]
    return trace_scalars(by_key, dtypes * 2)


@dataclasses.dataclass(frozen=True)
class Reduction(Scan):
    """What to reduce. ``operator`` and ``dtypes`` include the count where ``kind`` is counted."""

    kind: str  # of the descriptor: "ids", "flags", "runs", or "whole" where there is none
    num_segments: int

    @property
    def segmented(self) -> bool:
        """No head flag stands before the values: an id or a count does what it would do."""
        return False

    @property
    def keyed(self) -> bool:
        """Whether the values stand behind ids, of which equal ones are neighbours."""
        return self.kind == "ids"

    @property
    def leaf_operator(self) -> core.ClosedJaxpr:
        """The operator on a tile's leaves."""
        return keyed(self.operator) if self.keyed else self.operator

    @property
    def result_size(self) -> int:
        """How many elements each result has."""
        return self.geometry.outer * self.num_segments * self.geometry.inner

    def fills(self) -> list[Any]:
        """The identity, for segments that have no elements."""
        if self.kind == "whole":
            return []
        assert self.identity is not None
        kept = [i for i, used in zip(self.identity, self.used, strict=True) if used]
        results = [d for d, used in zip(self.results, self.used, strict=True) if used]
        return [np.asarray(i).astype(d)[()] for i, d in zip(kept, results, strict=True)]

    def load(self, tile: Tile, inputs: Sequence[Any]) -> list[jax.Array]:
        """The tile's leaves, ready to be scanned."""
        dtypes = self.dtypes[1:] if self.kind in COUNTED else self.dtypes
        values = [
            tile.load(ref, view).astype(dtype)
            for ref, view, dtype in zip(inputs, self.views, dtypes, strict=False)
        ]
        if self.kind == "whole":
            return values
        if self.keyed:
            assert self.flag_view is not None
            return [self.key(tile.load(inputs[-1], self.flag_view)), *values]
        # The count starts at one, whatever is written before the first element.
        heads = self._heads(tile, inputs[-1], 0) | tile.before_start(1)
        return [heads.astype(COUNT), *values]

    def key(self, ids: jax.Array) -> jax.Array:
        """Ids in 32 bits, those that are dropped as -1 where they would not fit."""
        if ids.dtype.itemsize > COUNT.itemsize:
            limit = np.asarray(self.num_segments, ids.dtype)[()]
            ids = jnp.where((ids >= 0) & (ids < limit), ids, jnp.full_like(ids, -1))
        return ids.astype(COUNT)

    def _heads(self, tile: Tile, descriptor: Any, ahead: int) -> jax.Array:
        """Which elements begin a segment, ``ahead`` elements to the right."""
        assert self.flag_view is not None
        here = tile.load(descriptor, self.flag_view, -ahead)
        if self.kind == "flags":
            return here != 0
        return here != tile.load(descriptor, self.flag_view, 1 - ahead)

    def key_before(self, tile: Tile, inputs: Sequence[Any]) -> jax.Array:
        """The id of the element before the tile, for each lane; undefined for the first tile."""
        assert self.flag_view is not None
        return self.key(tile.load_before(inputs[-1], self.flag_view))

    def store(
        self,
        tile: Tile,
        outputs: Sequence[Any],
        inputs: Sequence[Any],
        scanned: Sequence[jax.Array],
    ) -> None:
        """Writes the values that end a segment."""
        last = tile.element() == np.int32(tile.geometry.n - 1)
        if self.kind == "whole":
            ends, number, values = last, jnp.zeros(last.shape, jnp.int32), list(scanned)
        else:
            number, *values = scanned
            if self.keyed:
                assert self.flag_view is not None
                number = self.key(tile.load(inputs[-1], self.flag_view))
                ends = last | (number != self.key(tile.load(inputs[-1], self.flag_view, -1)))
            else:
                number = number - np.int32(1)
                ends = last | self._heads(tile, inputs[-1], 1)
            # As numbers without a sign, negative ones are too large.
            limit = primitives.unsigned(np.uint32(self.num_segments))
            ends = ends & (lax.bitcast_convert_type(number, jnp.uint32) < limit)
        kept = [v for v, used in zip(values, self.used, strict=True) if used]
        for ref, value in zip(outputs, kept, strict=True):
            tile.scatter(ref, self.num_segments, number, value, ends)


def reduce(
    leaves: Sequence[jax.Array],
    descriptor: jax.Array | None,
    *,
    combine: Any,
    axis: int,
    kind: str,
    num_segments: int,
    used: Sequence[bool],
    method: str,
    interpret: bool = False,
) -> list[jax.Array]:
    """Reduces ``leaves`` along ``axis``; returns the used ones, that axis ``num_segments`` long.

    Every operand's dimensions are full or 1. Runs where `launch.why_not` finds nothing to object
    to, on arrays that have elements.
    """
    full = np.broadcast_shapes(*(leaf.shape for leaf in leaves))
    parts, real_used = launch.real_parts(leaves, used)
    operator = prepare(combine)
    if kind in COUNTED:
        operator = counting(operator)
    if kind == "flags" and descriptor is not None and descriptor.dtype.itemsize > 1:
        descriptor = descriptor != 0
    if descriptor is not None and descriptor.dtype.name in ("uint32", "uint64"):
        # Ids beyond the signed range are dropped as negative ones are.
        signed = jnp.dtype(descriptor.dtype.name[1:])
        descriptor = lax.bitcast_convert_type(descriptor, signed)
    operands = [*parts, *([] if descriptor is None else [descriptor])]
    tuned = launch.tile(launch.shape_of(leaves, combine, axis, kind != "whole"), method)
    cut = launch.Cut(operands, full, axis, tuned)
    results = combine.result_dtypes([leaf.dtype for leaf in leaves])
    one = Reduction(
        geometry=cut.geometry,
        operator=operator,
        dtypes=tuple(np.dtype(a.dtype) for a in operator.out_avals),
        results=tuple(real for d in results for real in real_dtypes(d)),
        identity=None if combine.identity is None else tuple(real_identity(combine.identity)),
        used=real_used,
        linear=False,
        views=cut.views[: len(parts)],
        flag_view=None if descriptor is None else cut.views[-1],
        kind=kind,
        num_segments=num_segments,
    )
    shape = (*full[:axis], num_segments, *full[axis + 1 :])
    outputs = [x.reshape(shape) for x in launch.launch(one, cut, interpret)]
    return launch.complex_parts(outputs, results, used)
