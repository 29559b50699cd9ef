"""Scan, then propagate: every tile by itself, then the totals, then what came before each tile.

    tile 0      tile 1      tile 2
    ┌ scan ┐    ┌ scan ┐    ┌ scan ┐      every tile by itself, kept in memory
    └──┐   │    └──┐   │    └──┐   │
       └───────────┴───────────┴───► scan of the totals: one tile, or by these kernels again
           ▼           ▼           ▼
           kept        ⊕ kept      ⊕ kept  the totals before the tile, in front of what was kept

The scan of Sengupta, Harris and Garland (2008), whose tile scan is composed of scans of warps.
Every element is read twice and written twice: half of copy speed at best, and memory for all leaves
once more, as wide as they are combined. Elements behind a restart are not touched by what came
before their tile, so a tile also keeps where it first restarts. The order of combination is fixed,
hence results are repeatable.
"""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Sequence

import jax
import jax.numpy as jnp
import numpy as np

from jscan.kernels import launch, totals
from jscan.kernels.description import Scan
from jscan.kernels.language import Ref
from jscan.kernels.layout import View
from jscan.kernels.operator import FLAG
from jscan.kernels.tile import Tile

POSITION = np.dtype(np.int32)


@dataclasses.dataclass(frozen=True)
class Kept:
    """What the first kernel leaves: totals, each tile's first restart, and the scanned leaves."""

    scan: Scan

    @property
    def written(self) -> list[tuple[int, np.dtype]]:
        """Totals, then first restarts where there are segments, then scanned leaves."""
        g, dtypes = self.scan.geometry, totals.dtypes(self.scan)
        few, many = g.outer * g.tiles * g.inner, g.outer * g.n * g.inner
        restarts = [(few, POSITION)] if self.scan.segmented else []
        values = dtypes[len(restarts) :]
        return [*((few, d) for d in dtypes), *restarts, *((many, d) for d in values)]


def run(
    scan: Scan, cut: launch.Cut, interpret: bool, beside: Sequence[jax.Array] = ()
) -> list[jax.Array]:
    """Runs the kernels."""
    body = functools.partial(_scan, scan)
    kept = cut.call(Kept(scan), beside, body, None, "jscan_tiles", interpret)
    count = len(totals.dtypes(scan))
    tile = min(scan.geometry.length, totals.LONGEST)
    before = totals.scanned(scan, kept[:count], interpret, run, tile)
    body = functools.partial(_propagate, scan)
    behind = [*beside, *before, *kept[count:]]
    return cut.call(scan, behind, body, None, "jscan_propagate", interpret)


def _scan(scan: Scan, program: jax.Array, refs: Sequence[Ref]) -> None:
    """A tile by itself."""
    tile = Tile(scan.geometry, program)
    inputs, outputs = scan.apart(refs)
    leaves = scan.tile_scan(scan.load(tile, inputs))
    last = tile.last(leaves)
    if scan.segmented:
        flag, *leaves = leaves
        # The flag was scanned too: it is zero up to the first restart.
        first = jnp.sum((flag == 0).astype(POSITION), axis=scan.geometry.axis, dtype=POSITION)
        last = [*last, first]
    few = len(last)
    totals.write(scan, tile, outputs[:few], last)
    for ref, leaf in zip(outputs[few:], leaves, strict=True):
        tile.store(ref, leaf)


def _propagate(scan: Scan, program: jax.Array, refs: Sequence[Ref]) -> None:
    """A tile behind the total of all before it."""
    g = scan.geometry
    tile = Tile(g, program)
    inputs, others = scan.apart(refs)
    kinds = totals.dtypes(scan)
    before, others = others[: len(kinds)], others[len(kinds) :]
    prefix = totals.read(tile, g, before, kinds)
    leaves: list[jax.Array] = []
    if scan.segmented:
        view = View((g.outer, g.tiles, g.inner), (1, g.outer))
        first, kinds = tile.load_one(others[0], view, tile.index), kinds[1:]
        first, others = tile.along_positions(first), others[1:]
        leaves.append((tile.positions() >= first).astype(FLAG))
    whole = g.whole
    kept, outputs = others[: len(kinds)], others[len(kinds) :]
    for ref, kind in zip(kept, kinds, strict=True):
        leaves.append(totals.as_read(tile.load(ref, whole), kind))
    prefix = [tile.along_positions(p) for p in prefix]
    combined = scan.combine(prefix, leaves)
    pairs = zip(leaves, combined, strict=True)
    scan.store(tile, outputs, inputs, [jnp.where(tile.index == 0, x, y) for x, y in pairs])
