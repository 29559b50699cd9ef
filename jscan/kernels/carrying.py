"""What came before a tile, carried into it: behind its scanned elements, or into the first of them.

behind    scan the tile ─► what came before ⊕ each element
onward    what came before ⊕ the first element ─► scan the tile      an element once
"""

from __future__ import annotations

from collections.abc import Sequence

import jax
import jax.numpy as jnp

from jscan.kernels import weaving
from jscan.kernels.description import Scan
from jscan.kernels.operator import FLAG
from jscan.kernels.tile import Tile
from jscan.kernels.tuning import THREADS


def behind(
    scan: Scan, tile: Tile, prefix: Sequence[jax.Array], scanned: Sequence[jax.Array]
) -> list[jax.Array]:
    """The scanned tile with what came before it; unchanged in the first tile of a row."""
    first = tile.index == 0
    prefix = [weaving.along(tile, p) for p in prefix]
    if scan.segmented:
        flag, *values = scanned
        prefix = [jnp.zeros_like(flag), *prefix]
        return scan.combine(prefix, [flag | first.astype(FLAG), *values])
    combined = scan.combine(prefix, scanned)
    return [jnp.where(first, s, c) for s, c in zip(scanned, combined, strict=True)]


def has_own_lanes(tile: Tile) -> bool:
    """Whether a thread has lanes of its own, and knows which of its elements a tile begins with.

    Where a tile has fewer lanes than threads, as no chosen one has, some ask in vain.
    """
    return tile.geometry.lanes >= THREADS and not tile.geometry.woven


def onward(
    scan: Scan,
    tile: Tile,
    prefix: Sequence[jax.Array],
    leaves: Sequence[jax.Array],
    first: jax.Array,
) -> list[jax.Array]:
    """Leaves to be scanned, of which the first has what came before it; unless it is the ``first``.

    Beside lanes a thread knows which of its elements that is, so that each is combined once, and
    no flags need to be scanned: behind a scanned tile, twice. Such a tile is of one row.
    """
    prefix = [weaving.along(tile, p) for p in prefix]
    if scan.segmented:
        prefix = [jnp.zeros_like(leaves[0]), *prefix]
    combined = scan.combine(prefix, leaves)
    here = (tile.column().positions() == 0)[:, None] & ~first
    return [jnp.where(here, c, x) for c, x in zip(combined, leaves, strict=True)]
