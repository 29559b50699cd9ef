"""One scan as the kernels see it: its leaves, its operator, and how a tile is read.

Leaves inside a kernel are ``[head flag, *values]`` if the scan is segmented, else ``values``; the
leaf operator is the flag-value operator in the first case. Flags mark where the *scan* restarts: a
reversed scan restarts at a segment's last element, which is the one whose right neighbour is a
head.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax.extend import core

from jscan.kernels import language
from jscan.kernels.language import Ref
from jscan.kernels.layout import Geometry, View
from jscan.kernels.operator import FLAG, flag_value
from jscan.kernels.registers import constant
from jscan.kernels.tile import VECTOR, Tile


@dataclasses.dataclass(frozen=True)
class Scan:
    """What to scan: everything about the call that is known when it is compiled."""

    geometry: Geometry
    operator: core.ClosedJaxpr  # on the values
    dtypes: tuple[np.dtype, ...]  # of the values, as accumulated
    results: tuple[np.dtype, ...]  # of the values, as written
    identity: tuple[Any, ...] | None
    used: tuple[bool, ...]
    linear: bool  # logaddexp of one leaf, to be summed in the linear domain
    views: tuple[View, ...]
    flag_view: View | None

    @property
    def beside(self) -> int:
        """The number of inputs that are not cut into tiles, and come behind the others."""
        return 0

    @property
    def segmented(self) -> bool:
        """Whether there are head flags."""
        return self.flag_view is not None

    @property
    def leaf_operator(self) -> core.ClosedJaxpr:
        """The operator on a tile's leaves."""
        return flag_value(self.operator) if self.segmented else self.operator

    @property
    def written(self) -> list[tuple[int, np.dtype]]:
        """The results that somebody uses: their size, which is the full one, and dtype."""
        size = self.geometry.outer * self.geometry.n * self.geometry.inner
        return [(size, d) for d, used in zip(self.results, self.used, strict=True) if used]

    def on_tile(self, tile: Tile, work: Callable[[Tile], None]) -> None:
        """Does the work of a tile, twice compiled where only the last one needs masks.

        The length of the axis may be no multiple of what a thread takes at once. Masks of its end
        would then hold for single elements, and every access be one of a single element: sum of
        200,000,003 float32 elements, 0.55 of copy speed (H200, 2026-11-22).
        """
        g = self.geometry
        widest = 16 // min(d.itemsize for d in (*self.dtypes, *self.results))
        if self.segmented:
            widest = max(widest, VECTOR)
        aligned = g.outer * g.inner == 1 and not g.reverse
        if not aligned or g.tiles == 1 or g.n % g.length == 0 or g.n % widest == 0:
            work(tile)
            return
        last = tile.index == np.int32(g.tiles - 1)
        language.when(last, lambda: work(tile))
        language.when(~last, lambda: work(tile.at(tile.index, inside=True)))

    def split(self, refs: Sequence[Ref]) -> tuple[Sequence[Ref], Sequence[Ref]]:
        """The input and output references out of all of the kernel's."""
        inputs, others = self.apart(refs)
        return inputs, others[: sum(self.used)]

    def apart(self, refs: Sequence[Ref]) -> tuple[Sequence[Ref], Sequence[Ref]]:
        """The input references, and those behind them."""
        inputs = len(self.views) + (self.flag_view is not None) + self.beside
        return refs[:inputs], refs[inputs:]

    def load(self, tile: Tile, inputs: Sequence[Ref]) -> list[jax.Array]:
        """The tile's leaves, ready to be scanned inclusively."""
        shift = tile.geometry.shift
        values = [
            tile.load(ref, view, shift).astype(dtype)
            for ref, view, dtype in zip(inputs, self.views, self.dtypes, strict=False)
        ]
        if shift:
            start = tile.before_start(shift)
            values = [self._or_identity(start, v, k) for k, v in enumerate(values)]
        if not self.segmented:
            return values
        return [self._restarts(tile, inputs[-1], shift), *values]

    def _restarts(self, tile: Tile, flags: Ref, shift: int) -> jax.Array:
        """Flags ``shift`` positions to the left; not zero where scans restart or a row starts."""
        shift += tile.geometry.reverse
        assert self.flag_view is not None
        flag = tile.load(flags, self.flag_view, shift)
        # Narrow flags stay as they are: any non-zero value will do, and comparing costs
        # instructions.
        flag = (flag != 0 if flag.dtype.itemsize > FLAG.itemsize else flag).astype(FLAG)
        return flag | tile.before_start(shift).astype(FLAG) if shift else flag

    def _or_identity(self, where: jax.Array, values: jax.Array, leaf: int) -> jax.Array:
        assert self.identity is not None
        identity = np.asarray(self.identity[leaf], self.dtypes[leaf])[()]
        return jnp.where(where, constant(values.shape, identity), values)

    def tile_scan(self, leaves: Sequence[jax.Array]) -> list[jax.Array]:
        """The tile's leaves, scanned inclusively."""
        g = self.geometry
        return language.tile_scan(self.leaf_operator, leaves, g.axis, reverse=g.reverse)

    def combine(self, left: Sequence[jax.Array], right: Sequence[jax.Array]) -> list[jax.Array]:
        """Leaves ⊕ leaves; ``left`` is broadcast to the shape of ``right``."""
        shape = right[0].shape
        left = [jnp.broadcast_to(x, shape) for x in left]
        return language.mapped(self.leaf_operator, [*left, *right])

    def store(
        self,
        tile: Tile,
        outputs: Sequence[Ref],
        inputs: Sequence[Ref],
        scanned: Sequence[jax.Array],
    ) -> None:
        """Writes the values that somebody uses."""
        values = list(scanned[1:] if self.segmented else scanned)
        if self.segmented and tile.geometry.exclusive:
            restarts = self._restarts(tile, inputs[-1], 0) != 0
            values = [self._or_identity(restarts, v, k) for k, v in enumerate(values)]
        kept = [v for v, used in zip(values, self.used, strict=True) if used]
        for ref, value in zip(outputs, kept, strict=True):
            tile.store(ref, value)
