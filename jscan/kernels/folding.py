"""Tiles of rows, of which a thread folds its neighbours and scans them behind what came before.

    memory    a0 a1 a2 a3 │ a4 a5 a6 a7 │ a8 ...              a thread's words
    folded    a0, a1⊕a2⊕a3 │ a4, a5⊕a6⊕a7 │ a8 ...           the first place, and the others' total
    scanned   s0, s3 │ s4, s7 │ s8 ...                        ─► publish the last ─► look back
    joined    s0 │ s4 │ s8 ...                                behind what came before the tile
    onward    s1 = s0⊕a1, s2 = s1⊕a2, s3 = s2⊕a3 │ s5 ...     all that is held, as it was read

So each place is combined twice, once to fold it and once to scan it, and the tile holds the bytes
that it has. Scanned as it is, a tile takes three combinations a place: to scan what a thread has,
behind what other threads have, and behind what came before the tile; and it waits in as many
registers as it has places.
"""

from __future__ import annotations

import functools
from collections.abc import Sequence

import jax
import jax.numpy as jnp
import numpy as np

from jscan.kernels import language
from jscan.kernels.description import Scan
from jscan.kernels.forms import OperatorAggregates
from jscan.kernels.language import Ref
from jscan.kernels.operator import commuting_identity
from jscan.kernels.registers import take
from jscan.kernels.tile import Tile

Leaves = list[jax.Array]


class FoldedTile(OperatorAggregates):
    """A tile of one lane, of which a thread has so many neighbours."""

    def __init__(self, scan: Scan, tile: Tile, inputs: Sequence[Ref], width: int):
        super().__init__(scan.operator, commuting_identity(scan.operator))
        self._scan, self._tile, self._inputs, self._width = scan, tile, inputs, width
        read, count = scan.read(tile, inputs), len(scan.dtypes)
        # Flags of bits are spread anew: held, they would take as many bytes.
        flags = map(_narrow, read[count:]) if scan.flag_bits is None else []
        self._read = [language.hold(x) for x in (*read[:count], *flags)]
        first, *others = self._apart()
        rest = functools.reduce(self._combined, others)
        self._folded = [first, rest]
        self._scanned: Leaves | None = None
        self.restarts: jax.Array | None = None
        if self.identity is not None and not scan.segmented:
            total = self._combined(first, rest)
            self.aggregate = [language.tile_reduce(scan.operator, total[0], self._axis)]
            return
        total = self._over_threads()
        if scan.segmented:
            flag, *total = total
            self.restarts = flag != 0
        self.aggregate = total

    @property
    def _axis(self) -> int:
        return self._scan.geometry.axis

    def _apart(self) -> list[Leaves]:
        """What is scanned of each neighbour, in scan order."""
        scan, tile, inputs = self._scan, self._tile, self._inputs
        flags = [] if scan.flag_bits is None else scan.flags(tile, inputs, tile.geometry.shift)
        leaves = scan.leaves(tile, inputs, [*self._read, *flags])
        each = zip(*(language.deinterleave(x, self._width) for x in leaves), strict=True)
        return [list(x) for x in each][:: -1 if self._backwards else 1]

    @property
    def _backwards(self) -> bool:
        return self._scan.geometry.backwards

    def _combined(self, left: Leaves, right: Leaves) -> Leaves:
        return language.mapped(self._scan.leaf_operator, [*left, *right])

    def _over_threads(self) -> Leaves:
        """Scans the first places and the others' totals; returns the tile's total."""
        places = self._folded[:: -1 if self._backwards else 1]
        leaves = [language.interleave(x) for x in zip(*places, strict=True)]
        scanned = self._scan.tile_scan(leaves)
        apart = [language.deinterleave(x, 2) for x in scanned]
        first, last = (1, 0) if self._backwards else (0, 1)
        self._scanned = [x[first] for x in apart]
        place = jax.lax.broadcasted_iota(jnp.int32, apart[0][0].shape, self._axis)
        end = 0 if self._backwards else apart[0][0].shape[self._axis] - 1
        return [take(x[last], place == np.int32(end), self._axis) for x in apart]

    def scan(self) -> None:
        """Scans the first places, if that has not been done."""
        if self._scanned is None:
            self._over_threads()

    def store(self, outputs: Sequence[Ref], prefix: Sequence[jax.Array] | None = None) -> None:
        """Scans the other places and writes all; without a prefix, as the only tile of its row."""
        self.scan()
        assert self._scanned is not None
        scan, tile, scanned = self._scan, self._tile, self._scanned
        if prefix is not None:
            tall = [tile.along_positions(x) for x in prefix]
            tall = [jnp.zeros_like(scanned[0]), *tall] if scan.segmented else tall
            tall = [jnp.broadcast_to(x, scanned[0].shape) for x in tall]
            joined = self._combined(tall, scanned)
            scanned = [
                jnp.where(tile.index == 0, s, j) for s, j in zip(scanned, joined, strict=True)
            ]
        self._read = [language.hold(x) for x in self._read]
        found = [scanned]
        for values in self._apart()[1:]:
            found.append(self._combined(found[-1], values))
        found = found[:: -1 if self._backwards else 1]
        scan.store(
            tile, outputs, self._inputs, [language.interleave(x) for x in zip(*found, strict=True)]
        )


def _narrow(flags: jax.Array) -> jax.Array:
    """Flags in a byte each, if they are not."""
    return flags if flags.dtype.itemsize == 1 else (flags != 0).astype(jnp.int8)


def may_fold(scan: Scan, width: int) -> bool:
    """Whether a tile can be worked through so; under logaddexp by `folded_logaddexp`."""
    g = scan.geometry
    whole = width > 1 and width & (width - 1) == 0 and g.length % (2 * width) == 0
    return whole and g.inner == 1 and g.lanes == 1
