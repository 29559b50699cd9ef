"""Tiles that are held as they were read, or read again, and scanned behind what came before.

    read      strip 0, 1, 2, ...    all that is held: an element takes the bytes that it has
    reduce    strip by strip ─► publish the aggregate ─► look back
    scan      strip by strip, each behind the one before it ─► store

A thread has its own lanes, so that it scans by itself. Of narrow elements a register holds several,
so that a tile has more of them: what tiles tell each other, 8 bytes a lane, and the time that they
wait, are for more of them, too. A strip is a few rows of all lanes, written at once. Where rows
begin inside of sectors of memory, two neighbours write to one, and had better do so together.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence

import jax
import jax.numpy as jnp
import numpy as np

from jscan.kernels import language, logaddexp_strips
from jscan.kernels.carrying import behind, has_own_lanes, onward
from jscan.kernels.chunks import ChunkedTile, may_chunk
from jscan.kernels.description import Scan
from jscan.kernels.folded_logaddexp import FoldedLinearTile
from jscan.kernels.folding import FoldedTile, may_fold
from jscan.kernels.forms import Form, OperatorAggregates, form
from jscan.kernels.language import Ref
from jscan.kernels.operator import FLAG, commuting_identity
from jscan.kernels.strips import Part, part_total, scan_part
from jscan.kernels.tile import Tile
from jscan.kernels.tuning import Tuning


class HeldTile(OperatorAggregates):
    """A tile in strips of so many positions."""

    def __init__(self, scan: Scan, tile: Tile, inputs: Sequence[Ref], strip: int):
        super().__init__(scan.operator, commuting_identity(scan.operator))
        self._scan, self._inputs = scan, inputs
        self._strips = _strips(tile, strip)
        read = [scan.read(each, inputs) for each in self._strips]
        self._read = [[language.hold(x) for x in each] for each in read]
        total = self._total(0)
        for k in range(1, len(self._strips)):
            total = language.mapped(scan.leaf_operator, [*total, *self._total(k)])
        self.restarts: jax.Array | None = None
        if scan.segmented:
            flag, *total = total
            self.restarts = flag != 0
        self.aggregate = total

    def _total(self, number: int) -> list[jax.Array]:
        """What a strip combines to."""
        strip, scan = self._strips[number], self._scan
        leaves = scan.leaves(strip, self._inputs, self._read[number])
        if self.identity is not None and not scan.segmented:
            return [language.tile_reduce(scan.operator, leaves[0], strip.geometry.axis)]
        return strip.last(scan.tile_scan(leaves))

    def scan(self) -> None:
        """Does nothing: the tile is scanned behind what comes before it."""

    def store(self, outputs: Sequence[Ref], prefix: list[jax.Array] | None = None) -> None:
        """Scans the tile and writes it; without a prefix, as the only tile of its row."""
        scan = self._scan
        for strip, read in zip(self._strips, self._read, strict=True):
            held = [language.hold(x) for x in read]
            values = scan.leaves(strip, self._inputs, held)
            own = has_own_lanes(strip) and _has_few_steps(scan)
            if prefix is not None and own:
                values = onward(scan, strip, prefix, values, strip.index == 0)
            values = scan.tile_scan(values)
            if prefix is not None and not own:
                values = behind(scan, strip, prefix, values)
            scan.store(strip, outputs, self._inputs, values)
            prefix = strip.last(values)
            if scan.segmented:
                prefix = prefix[1:]


def _has_few_steps(scan: Scan) -> bool:
    """Whether a thread may combine one element of a strip after another, behind what came before.

    It waits for each: sqrt(a² + b²) of (512, 50257), bfloat16, 0.51 of copy speed, 0.62 where
    strips are scanned first (H100, 2026-11-26). Operators on words of lanes have many equations,
    and few instructions an element: scanned first they take a third combination a word.
    """
    return scan.geometry.abreast > 1 or len(scan.operator.jaxpr.eqns) <= 2 * len(scan.dtypes)


class StripsTile(OperatorAggregates):
    """A tile of strips, beside lanes, which are reduced, and read again to be scanned.

    So it holds few registers however long it is, and what is read again is in the cache.
    """

    def __init__(self, scan: Scan, tile: Tile, inputs: Sequence[Ref], strip: int):
        super().__init__(scan.operator, commuting_identity(scan.operator))
        self._scan, self._part = scan, Part(scan, strip, tile, inputs)
        # Not where lanes end: float16 (100277, 772) by segments 0.22 of copy speed, so 0.12 (H200,
        # 2026-11-29).
        self._linear = logaddexp_strips.may_sum(scan, self._part) and not scan.geometry.lanes_end
        total = (logaddexp_strips.part_total if self._linear else part_total)(scan, self._part)
        self.restarts = total[0] != 0 if scan.segmented else None
        self.aggregate = total[scan.segmented :]

    def scan(self) -> None:
        """Does nothing: the tile is scanned behind what comes before it."""

    def store(self, outputs: Sequence[Ref], prefix: list[jax.Array] | None = None) -> None:
        """Scans the tile and writes it; undefined without a prefix, but in a row's first tile."""
        nothing = [jnp.zeros(self._scan.geometry.per_lane, d) for d in self._scan.dtypes]
        flag = [jnp.zeros(self._scan.geometry.per_lane, FLAG)] if self._scan.segmented else []
        walk = logaddexp_strips.scan_part if self._linear else scan_part
        walk(self._scan, self._part, [*flag, *(prefix or nothing)], outputs)


def _strips(tile: Tile, length: int) -> list[Tile]:
    """The tile in pieces of so many positions, of which some may lie behind the axis's end."""
    g, count = tile.geometry, tile.geometry.length // length
    place = tile.cut(dataclasses.replace(g, length=length))
    place.may_end = tile.may_end
    # Cut from the front, a reversed scan's first tile has strips behind the end of the axis.
    behind = g.tiles * count - place.geometry.tiles if g.from_front and g.reverse else 0
    first = tile.index * np.int32(count) - np.int32(behind)
    strips = [place.at(first + np.int32(k), inside=tile.inside) for k in range(count)]
    for strip in strips:
        strip.within_row = tile.within_row
    return strips


def may_hold(scan: Scan, tile: Tile, strip: int) -> bool:
    """Whether a tile can be worked through so.

    Not under logaddexp, which is summed behind a maximum, nor where strips have no place of their
    own, in front of a row or inside of a word.
    """
    g = scan.geometry
    placed = strip % g.word == 0 and (tile.inside or not g.leads)
    return strip > 0 and placed and not scan.linear and not g.far


def worked(scan: Scan, tile: Tile, inputs: Sequence[Ref], tuned: Tuning) -> Form:
    """Loads the tile in the form that the cut asks for, or else in what suits the scan."""
    if may_chunk(scan, tuned.chunk):
        return ChunkedTile(scan, tile, inputs, tuned.chunk)
    if may_fold(scan, tuned.fold):
        folds = FoldedLinearTile if scan.linear else FoldedTile
        return folds(scan, tile, inputs, tuned.fold)
    if scan.geometry.inner > 1 and tuned.strip and tuned.length % tuned.strip == 0:
        return StripsTile(scan, tile, inputs, tuned.strip)
    if may_hold(scan, tile, tuned.held):
        return HeldTile(scan, tile, inputs, tuned.held)
    return form(scan, tile, inputs)
