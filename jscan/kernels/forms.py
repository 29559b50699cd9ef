"""Three ways to work through a tile, behind one interface; `form` picks one for a scan.

    ReducedTile   an operator that commutes: the aggregate comes from a reduction, which is
                  cheap, so that successors have it while the tile is scanned
    ScannedTile   any operator, segmented or not: the aggregate is the scanned tile's last element
    LinearTile    logaddexp: a sum of exponentials (`jscan.kernels.logaddexp`)

A cut may ask for another one (`held.worked`). A form is loaded when made. It knows its
``aggregate``, whether it ``restarts`` (None where the scan has no segments) and the ``identity``
with which `fold` takes a window of aggregates in any order (None where it cannot). ``scan`` does
what can wait until the aggregate is published, and ``store`` writes the tile behind what came
before it.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Protocol

import jax
import numpy as np
from jax.extend import core

from jscan.kernels import language
from jscan.kernels.carrying import behind
from jscan.kernels.description import Scan
from jscan.kernels.language import Ref
from jscan.kernels.logaddexp import LinearTile, SegmentedLinearTile
from jscan.kernels.operator import commuting_identity
from jscan.kernels.terms import LinearAggregates
from jscan.kernels.tile import Tile

FEW, FEW_OF_SEGMENTS = 2, 8
"""Positions of a tile that logaddexp combines one by one: see `_sums`."""


class Aggregates(Protocol):
    """A rule by which aggregates combine."""

    identity: Any  # with which a window is folded in any order; None where only a scan will do

    def fold(self, values: jax.Array) -> jax.Array:
        """The total of a window of aggregates, in any order."""

    def combine(self, left: list[jax.Array], right: list[jax.Array]) -> list[jax.Array]:
        """One aggregate behind another."""


class OperatorAggregates:
    """Aggregates of an operator's values."""

    def __init__(self, operator: core.ClosedJaxpr, identity: Any):
        self._operator, self.identity = operator, identity

    def fold(self, values: jax.Array) -> jax.Array:
        """The total of a window of aggregates, in any order."""
        return language.tile_reduce(self._operator, values, 0)

    def combine(self, left: list[jax.Array], right: list[jax.Array]) -> list[jax.Array]:
        """One aggregate behind another."""
        return language.mapped(self._operator, [*left, *right])


class Form(Aggregates, Protocol):
    """A tile that has been loaded, in one of the forms."""

    aggregate: list[jax.Array]
    restarts: jax.Array | None

    def scan(self) -> None:
        """Does what can wait until the aggregate is published."""

    def store(self, outputs: Sequence[Ref], prefix: list[jax.Array] | None = None) -> None:
        """Writes the tile; without a prefix, as the only tile of its row."""


def form(scan: Scan, tile: Tile, inputs: Sequence[Ref]) -> Form:
    """Loads the tile in the form that suits the scan."""
    if scan.linear and _sums(scan):
        linear = SegmentedLinearTile if scan.segmented else LinearTile
        return linear(scan, tile, inputs)
    if commuting_identity(scan.operator) is not None and not scan.segmented:
        return ReducedTile(scan, tile, inputs)
    return ScannedTile(scan, tile, inputs)


def _sums(scan: Scan) -> bool:
    """Whether a tile under logaddexp is summed, and not combined one by one as few positions are.

    A sum takes an exponential and a logarithm an element, and by segments a second way for tiles
    that are steep. Of copy speed, summed and combined (H200, 2026-11-29): float32 (2, 30102348) in
    reverse 0.91 and 0.96, exclusive (2, 32992299) 0.76 and 0.90; by segments float32 (2, 25768311)
    0.60 and 0.95, (5, 13325204) 0.70 and 0.96, (7, 9052083) 0.91 and 1.02, bfloat16 (2, 39100945)
    0.23 and 0.57, float16 (3, 16092122) 0.53 and 0.80. But whole bfloat16 (4, 8192, 2160) 1.09 and
    1.00, float16 (6, 9118385) 0.82 and 0.77. Where lanes are those of all rows, float32 of (3, 2)
    takes 472 instructions and 1696 summed (sm_90); of complex numbers these are summed, too.
    """
    if scan.geometry.of_row and len(scan.dtypes) == 1:
        return False
    few = FEW_OF_SEGMENTS if scan.segmented else FEW
    return scan.geometry.length > few or scan.dtypes != (np.dtype(np.float32),)


class Whole(OperatorAggregates):
    """The aggregate of a tile that nothing else is wanted of."""

    def __init__(self, scan: Scan, tile: Tile, leaves: Sequence[jax.Array]):
        super().__init__(scan.operator, commuting_identity(scan.operator))
        axis, reverse = scan.geometry.axis, scan.geometry.backwards
        if self.identity is not None:
            self.aggregate = [language.tile_reduce(scan.operator, leaves[0], axis)]
        else:
            scanned = language.tile_scan(scan.operator, leaves, axis, reverse=reverse)
            self.aggregate = tile.last(scanned)


class WholeLinear(LinearAggregates):
    """The same under logaddexp."""

    def __init__(self, scan: Scan, leaves: Sequence[jax.Array]):
        super().__init__(scan)
        self.aggregate = self.total(leaves, scan.geometry.axis)


def whole(scan: Scan, tile: Tile, leaves: Sequence[jax.Array]) -> Whole | WholeLinear:
    """The aggregate of unsegmented leaves."""
    return WholeLinear(scan, leaves) if scan.linear else Whole(scan, tile, leaves)


class ScannedTile(OperatorAggregates):
    """A tile that is scanned at once."""

    def __init__(self, scan: Scan, tile: Tile, inputs: Sequence[Ref]):
        self._scan, self._tile, self._inputs = scan, tile, inputs
        super().__init__(scan.operator, commuting_identity(scan.operator))
        self.restarts: jax.Array | None = None
        self._leaves = scan.load(tile, inputs)
        self._first_step()

    def _first_step(self) -> None:
        self._leaves = self._scan.tile_scan(self._leaves)
        if not self._scan.segmented:
            self._leaves = settled(self._leaves)
        self.aggregate = self._tile.last(self._leaves)
        if self._scan.segmented:
            flag, *self.aggregate = self.aggregate
            self.restarts = flag != 0

    def scan(self) -> None:
        """Does nothing: the tile is scanned already."""

    def store(self, outputs: Sequence[Ref], prefix: list[jax.Array] | None = None) -> None:
        """Writes the tile; without a prefix, as the only tile of its row."""
        values = self._leaves
        if prefix is not None:
            values = behind(self._scan, self._tile, prefix, values)
        self._scan.store(self._tile, outputs, self._inputs, values)


class ReducedTile(ScannedTile):
    """A tile that is reduced at once and scanned later."""

    def _first_step(self) -> None:
        axis = self._scan.geometry.axis
        self.aggregate = [language.tile_reduce(self._operator, self._leaves[0], axis)]

    def scan(self) -> None:
        """Scans the tile."""
        self._leaves = settled(self._scan.tile_scan(self._leaves))


def settled(leaves: Sequence[jax.Array]) -> list[jax.Array]:
    """The scanned tile, computed now: the compiler would put its last additions off.

    Waiting for the prefix, they take a quarter more registers, hence programs off the
    multiprocessors. Pinned: sum 0.954 to 0.966, bfloat16 0.79 to 0.87, affine 0.80 to 0.84,
    exclusive 0.92 to 0.956 of copy speed. But segmented 0.97 to 0.91, so segmented tiles are left
    alone (H200, 2026-11-20).
    """
    return [language.settle(x) for x in leaves]
