"""Reduce, then scan: three kernels in a fixed order of combination, hence repeatable bit by bit.

    part 0               part 1               part 2
    ┌ strip ─ strip ─ ┐  ┌ strip ─ strip ─ ┐  ┌ strip ─ ...
    └─► total         │  └─► total         │  └─► total          every part by one program
        └──────────────────────┴────────────────────┴─► scan     of the totals
    └─► scan, behind the totals before the part                  every part by one program, again

An axis is cut into as many parts as keep a GPU busy, whatever its length, and a program walks its
part strip by strip, so that little is held in registers and nothing waits. The price is that every
element is read twice: two thirds of copy speed at best (Merrill and Grimshaw 2009 take this for the
cascade of a fixed number of blocks).
"""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Callable, Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax
from jax.experimental import pallas as pl

from jscan.kernels import launch, primitives, scan_then_propagate, totals
from jscan.kernels.operator import commuting_identity
from jscan.kernels.scan import Scan
from jscan.kernels.tile import Tile


def run(
    scan: Scan, cut: launch.Cut, interpret: bool, beside: Sequence[jax.Array] = ()
) -> list[jax.Array]:
    """Runs the kernels; parts are the tiles of ``scan``'s geometry."""
    strip = min(cut.tuned.strip, scan.geometry.length)
    of_parts = totals.Totals(scan.geometry, totals.dtypes(scan))
    walk = functools.partial(_totals, scan, strip)
    found = launch.call(of_parts, cut, beside, walk, None, "jscan_part_totals", interpret)
    before = totals.scanned(scan, found, interpret, scan_then_propagate.run, totals.LONGEST)
    walk = functools.partial(_scan, scan, strip)
    return launch.call(scan, cut, [*beside, *before], walk, None, "jscan_parts", interpret)


Carry = tuple[jax.Array, ...]
"""Leaves of the last position, then the number of the next strip."""


class Walk:
    """A program's way through the strips of its part."""

    def __init__(self, scan: Scan, strip: int, refs: Sequence[Any]):
        self.scan = scan
        self.tile = Tile(scan.geometry, pl.program_id(0))
        g = scan.geometry
        self.place = self.tile.cut(dataclasses.replace(g, length=strip))
        self.per_part = np.int32(g.length // strip)
        strips = np.int32(-(-g.n // strip))
        self.count = jnp.minimum(self.per_part, strips - self.tile.index * self.per_part)
        inputs = len(scan.views) + (scan.flag_view is not None) + scan.beside
        self.inputs, self.others = refs[:inputs], refs[inputs:]

    def run(self, carry: Sequence[jax.Array], step: Callable[[Tile, Any, Any], Any]) -> Any:
        """Every strip in turn; the carry of the first may be undefined in part 0."""

        def one(state: Carry) -> Carry:
            *leaves, number = state
            strip = self.place.at(self.tile.index * self.per_part + number)
            return (*step(strip, leaves, number), number + np.int32(1))

        *leaves, _ = lax.while_loop(lambda s: s[-1] < self.count, one, (*carry, jnp.int32(0)))
        return leaves


def _totals(scan: Scan, strip: int, refs: Sequence[Any]) -> None:
    """The total of a part."""
    walk = Walk(scan, strip, refs)
    operator = scan.leaf_operator

    def step(strip: Tile, carry: Sequence[jax.Array], number: jax.Array) -> list[jax.Array]:
        leaves = scan.load(strip, walk.inputs)
        if commuting_identity(operator) is not None and strip.mask(0) is None:
            last = [primitives.tile_reduce(operator, leaves[0], strip.geometry.axis)]
        else:
            last = strip.last(scan.tile_scan(leaves))
        behind = primitives.evaluate(operator, [*carry, *last])
        return [jnp.where(number == 0, x, y) for x, y in zip(last, behind, strict=True)]

    zeros = [jnp.zeros(totals.lanes(scan), a.dtype) for a in operator.out_avals]
    totals.write(scan, walk.tile, walk.others, walk.run(zeros, step))


def _scan(scan: Scan, strip: int, refs: Sequence[Any]) -> None:
    """A part, scanned behind the total of all before it."""
    walk = Walk(scan, strip, refs)
    kinds = totals.dtypes(scan)
    count = len(kinds)
    before = totals.read(walk.tile, scan.geometry, walk.others[:count], kinds)
    outputs = walk.others[count:]

    def step(strip: Tile, carry: Sequence[jax.Array], number: jax.Array) -> list[jax.Array]:
        scanned = scan.tile_scan(scan.load(strip, walk.inputs))
        prefix = [c[None, :] if c.ndim else c for c in carry]
        combined = scan.combine(prefix, scanned)
        first = (number == 0) & (walk.tile.index == 0)
        leaves = [jnp.where(first, s, c) for s, c in zip(scanned, combined, strict=True)]
        scan.store(strip, outputs, walk.inputs, leaves)
        return strip.last(leaves)

    walk.run([jnp.broadcast_to(x, totals.lanes(scan)) for x in before], step)
