"""Totals of tiles or parts, for strategies of several kernels: written by one, read by the next.

They are (outer, tiles, inner) arrays of each leaf, head flags first, and are scanned in their turn:
by one program a row where they fit a tile, else as an array of their own.
"""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Callable, Sequence

import jax
import jax.numpy as jnp
import numpy as np

from jscan.kernels import block, launch, tuning
from jscan.kernels.description import Scan
from jscan.kernels.language import Ref
from jscan.kernels.layout import Geometry, View
from jscan.kernels.tile import Tile

LONGEST = 4096
"""So many totals of a row are scanned by one program."""


def dtypes(scan: Scan) -> tuple[np.dtype, ...]:
    """The dtypes of a scan's totals."""
    return tuple(np.dtype(a.dtype) for a in scan.leaf_operator.out_avals)


@dataclasses.dataclass(frozen=True)
class Totals:
    """The result of a kernel that writes nothing but totals."""

    geometry: Geometry
    dtypes: tuple[np.dtype, ...]

    @property
    def written(self) -> list[tuple[int, np.dtype]]:
        """A total of each leaf for each tile."""
        g = self.geometry
        return [(g.outer * g.tiles * g.inner, d) for d in self.dtypes]


def write(scan: Scan, tile: Tile, outputs: Sequence[Ref], values: Sequence[jax.Array]) -> None:
    """Writes a tile's totals, each of the shape of one position."""
    everywhere = jnp.ones(scan.geometry.per_lane, jnp.bool_)
    for ref, value in zip(outputs, values, strict=True):
        tile.store_row(ref, scan.geometry.tiles, tile.index, value, everywhere)


def read(
    tile: Tile, g: Geometry, refs: Sequence[Ref], kinds: Sequence[np.dtype]
) -> list[jax.Array]:
    """The totals of the tile before; undefined for the first tile of a row."""
    view = View((g.outer, g.tiles, g.inner), (1, g.outer))
    found = [tile.load_one(ref, view, tile.index - np.int32(1)) for ref in refs]
    return [as_read(x, d) for x, d in zip(found, kinds, strict=True)]


def as_read(values: jax.Array, dtype: np.dtype) -> jax.Array:
    """What was loaded from an array of ``dtype``: Booleans come as the bytes that they are."""
    return values != 0 if dtype == np.bool_ else values


Longer = Callable[[Scan, launch.Cut, bool], list[jax.Array]]
"""A strategy for totals that do not fit a tile."""


def scanned(
    scan: Scan, totals: Sequence[jax.Array], interpret: bool, longer: Longer, tile: int
) -> list[jax.Array]:
    """The totals up to and with each tile; rows of more than ``tile`` go the ``longer`` way."""
    g = scan.geometry
    shape, leaves = (g.outer, g.tiles, g.inner), dtypes(scan)
    words = sum(-(-dtype.itemsize // 4) for dtype in leaves)
    if words > 4:  # a thread keeps one, or four of a few words
        tile = min(tile, tuning.THREADS * (1 if words > 8 else 4))
    length = min(tuning.next_power_of_2(g.tiles), tuning.next_power_of_2(tile))
    tuned = tuning.Tuning(length, lanes=1, warps=max(1, min(8, length // 256)), window=1)
    cut = launch.Cut([x.reshape(shape) for x in totals], shape, 1, tuned)
    of_totals = Scan(
        geometry=cut.geometry,
        operator=scan.leaf_operator,
        dtypes=leaves,
        results=leaves,
        identity=None,
        used=(True,) * len(leaves),
        linear=False,
        views=cut.views,
        flag_view=None,
    )
    if of_totals.geometry.tiles > 1:
        return longer(of_totals, cut, interpret)
    body = functools.partial(block.kernel, of_totals)
    return cut.call(of_totals, (), body, None, "jscan_totals", interpret)
