"""Tiles of a few lanes, of which a thread scans neighbouring positions by itself.

    memory    a0 b0 a1 b1 a2 b2 a3 b3 │ a4 b4 a5 b5 ...      positions 0, 1, ... of lanes a and b
    threads   0: a0 a1 a2 a3    1: b0 b1 b2 b3    2: a4 ...  chunks of four positions

    read      position 0 of each chunk, position 1, ...      all that is held, as it was read
    reduce    position by position ─► scan the chunks' totals ─► publish the last ─► look back
    scan      position by position behind what came before the chunk ─► store

A tile of (length, lanes) in registers gives few lanes to a warp, so that a thread has every fourth
or eighth position, and each is combined with what other threads hold: twelve combinations an
element. In chunks it takes two.
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

from jscan.kernels import language
from jscan.kernels.comb import Comb
from jscan.kernels.description import Scan
from jscan.kernels.forms import OperatorAggregates
from jscan.kernels.language import Ref
from jscan.kernels.operator import FLAG, commuting_identity, trace_scalars
from jscan.kernels.registers import take
from jscan.kernels.tile import Tile


class ChunkedTile(OperatorAggregates):
    """A tile in chunks of so many positions."""

    def __init__(self, scan: Scan, tile: Tile, inputs: Sequence[Ref], chunk: int):
        super().__init__(scan.operator, commuting_identity(scan.operator))
        self._scan, self._tile, self._inputs = scan, tile, inputs
        order = range(chunk)[:: -1 if scan.geometry.reverse else 1]
        self._combs = [self._comb(chunk, *numbered) for numbered in enumerate(order)]
        self._read = [
            [language.hold(x) for x in each.read(comb, inputs)] for each, comb in self._combs
        ]
        total = self._leaves(0)
        for number in range(1, chunk):
            total = language.mapped(scan.leaf_operator, [*total, *self._leaves(number)])
        self._is_first, self._before, total = self._over_chunks(total)
        self.restarts: jax.Array | None = None
        if scan.segmented:
            flag, *total = total
            self.restarts = flag != 0
        self.aggregate = total

    def _comb(self, chunk: int, number: int, place: int) -> tuple[Scan, Comb]:
        """A position of every chunk, and the scan as it looks there."""
        scan, comb = self._scan, Comb(self._tile, chunk, place)
        if number < max(1, scan.geometry.shift + (scan.geometry.reverse or scan.identity_apart)):
            return scan, comb
        comb.within_row = True  # rows begin at the first positions of tiles
        return dataclasses.replace(scan, start=None), comb

    def _leaves(self, number: int) -> list[jax.Array]:
        """What is scanned of this position of every chunk."""
        scan, comb = self._combs[number]
        return scan.leaves(comb, self._inputs, [language.hold(x) for x in self._read[number]])

    def _over_chunks(
        self, total: Sequence[jax.Array]
    ) -> tuple[jax.Array, list[jax.Array], list[jax.Array]]:
        """Whether a chunk is the tile's first; what is before it in the tile; the tile's total."""
        g, count = self._combs[0][1].geometry, len(total)
        others = jnp.zeros(g.shape, FLAG)
        operator = _with_what_is_before(self._scan.leaf_operator)
        leaves = [others, *total, *total]
        others, *both = language.tile_scan(operator, leaves, g.axis, reverse=g.reverse)
        place = lax.broadcasted_iota(jnp.int32, g.shape, g.axis)
        last = place == np.int32(0 if g.reverse else g.length - 1)
        return others == 0, both[:count], [take(x, last, g.axis) for x in both[count:]]

    def scan(self) -> None:
        """Does nothing: chunks are scanned behind what comes before them."""

    def store(self, outputs: Sequence[Ref], prefix: list[jax.Array] | None = None) -> None:
        """Scans the chunks and writes them; without a prefix, as the only tile of its row."""
        operator, before, nothing = self._scan.leaf_operator, self._before, self._is_first
        if prefix is not None:
            tall = [self._tile.along_positions(x) for x in prefix]
            tall = [jnp.zeros_like(before[0]), *tall] if self._scan.segmented else tall
            tall = [jnp.broadcast_to(x, nothing.shape) for x in tall]
            joined = language.mapped(operator, [*tall, *before])
            row_begins = self._tile.index == 0
            before = [
                jnp.where(row_begins, b, jnp.where(self._is_first, t, j))
                for t, b, j in zip(tall, before, joined, strict=True)
            ]
            nothing = nothing & row_begins
        for number, (scan, comb) in enumerate(self._combs):
            values = self._leaves(number)
            scanned = language.mapped(operator, [*before, *values])
            if number == 0:
                scanned = [jnp.where(nothing, v, x) for v, x in zip(values, scanned, strict=True)]
            scan.store(comb, outputs, self._inputs, scanned)
            before = scanned


@functools.lru_cache(maxsize=1024)
def _with_what_is_before(operator: core.ClosedJaxpr) -> core.ClosedJaxpr:
    """(m, x, y) ⊕ (n, z, w) = (1, y ⊕ z if n else y, y ⊕ w): inclusive totals, and exclusive ones.

    Each element is (0, its value, its value). Of one that is combined with none the second is
    meaningless, and the first 0.
    """
    count = len(operator.out_avals)
    apply = core.jaxpr_as_fun(operator)

    def joined(*scalars: Any) -> list[Any]:
        left, right = scalars[: 2 * count + 1], scalars[2 * count + 1 :]
        total, others = left[count + 1 :], right[0]
        further = apply(*total, *right[1 : count + 1])
        before = [lax.select(others != 0, x, y) for x, y in zip(further, total, strict=True)]
        return [left[0] | FLAG.type(1), *before, *apply(*total, *right[count + 1 :])]

    dtypes = [np.dtype(a.dtype) for a in operator.out_avals]
    return trace_scalars(joined, [FLAG, *dtypes, *dtypes] * 2)


def may_chunk(scan: Scan, chunk: int) -> bool:
    """Whether a tile can be worked through so: not under logaddexp, which has a way of its own."""
    g = scan.geometry
    return chunk > 0 and g.inner > 1 and g.rows == 1 and not (scan.linear or g.far)
