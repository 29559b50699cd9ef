"""Reduce, then scan: kernels in a fixed order of combination, hence repeatable bit by bit.

    part 0               part 1               part 2
    ┌ strip ─ strip ─ ┐  ┌ strip ─ strip ─ ┐  ┌ strip ─ ...
              total ◄─┘            total ◄─┘            every part by one program, from its end
                └────────────────────┴──────────┴─► scan of the totals
    └─► scan, behind the totals before the part         every part by one program, again

An axis is cut into as many parts as keep a GPU busy, whatever its length, and a program walks its
part strip by strip, so that little is held in registers and nothing waits. The price is that every
element is read twice: two thirds of copy speed at best (Merrill and Grimshaw 2009 take this for the
cascade of a fixed number of blocks). Totals are taken from the part's end, because what comes
before its last restart does not matter: where there are many segments, little is read twice. Beside
so many lanes that an axis may be one part, the second kernel is all there is.
"""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Sequence

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

from jscan.kernels import forms, language, launch, scan_then_propagate, totals, walking, weaving
from jscan.kernels.description import Scan
from jscan.kernels.language import Ref
from jscan.kernels.operator import commuting_identity
from jscan.kernels.registers import take
from jscan.kernels.tile import Tile


def run(
    scan: Scan, cut: launch.Cut, interpret: bool, beside: Sequence[jax.Array] = ()
) -> list[jax.Array]:
    """Runs the kernels; parts are the tiles of ``scan``'s geometry."""
    if cut.tuned.chunk:
        return walking.run(scan, cut, interpret, beside)
    strip = min(cut.tuned.strip, scan.geometry.length)
    if scan.geometry.tiles == 1:  # nothing comes before the only part
        walk = functools.partial(_scan, scan, strip, ahead=cut.tuned.ahead)
        return cut.call(scan, beside, walk, None, "jscan_parts", interpret)
    found = part_totals(scan, cut, interpret, beside)
    before = totals.scanned(scan, found, interpret, scan_then_propagate.run, totals.LONGEST)
    walk = functools.partial(_scan, scan, strip)
    return cut.call(scan, [*beside, *before], walk, None, "jscan_parts", interpret)


def part_totals(
    scan: Scan,
    cut: launch.Cut,
    interpret: bool,
    beside: Sequence[jax.Array] = (),
    *,
    to_the_end: bool = False,
) -> list[jax.Array]:
    """What each part combines to since its last restart, as an array for each leaf.

    That of a row's last part is undefined unless it is wanted ``to_the_end``.
    """
    of_parts = totals.Totals(scan.geometry, totals.dtypes(scan))
    strip = min(cut.tuned.strip, scan.geometry.length)
    walk = functools.partial(_totals, scan, strip, to_the_end)
    return cut.call(of_parts, beside, walk, None, "jscan_part_totals", interpret)


Progress = tuple[jax.Array, ...]
"""The leaves of a total, then the number of a strip."""


class Part:
    """A part of a row, which is a tile, and its strips, as its program walks them."""

    def __init__(self, scan: Scan, strip: int, tile: Tile, refs: Sequence[Ref]):
        self.scan, self.tile = scan, tile
        g = scan.geometry
        self._place = tile.cut(dataclasses.replace(g, length=strip))
        per_part, strips = g.length // strip, self._place.geometry.tiles
        # Cut from the front, a reversed scan's first part has strips behind the end of the axis.
        behind = g.tiles * per_part - strips if g.from_front and g.reverse else 0
        begin = tile.index * np.int32(per_part) - np.int32(behind)
        end = jnp.minimum(begin + np.int32(per_part), np.int32(strips))
        self._first = jnp.maximum(begin, np.int32(0))
        self.count = end - self._first
        self.inputs, self.others = scan.apart(refs)

    def strip(self, number: jax.Array) -> Tile:
        """The strip of this number."""
        return self._place.at(self._first + number, inside=self.tile.inside)


def _totals(
    scan: Scan, strip: int, to_the_end: bool, program: jax.Array, refs: Sequence[Ref]
) -> None:
    """Writes the total of a part."""
    part = Part(scan, strip, Tile(scan.geometry, program), refs)
    found = part_total(scan, part, to_the_end=to_the_end)
    totals.write(scan, part.tile, part.others, found)


def part_total(scan: Scan, part: Part, *, to_the_end: bool = False) -> list[jax.Array]:
    """The total of a part, from its end to its last restart."""
    operator = scan.leaf_operator

    def goes_on(state: Progress) -> jax.Array:
        *carry, left = state
        if not scan.segmented:
            return left > 0
        restarts = carry[0] != 0
        if scan.geometry.woven:  # whose empty lanes have no flags
            restarts = restarts | ~part.tile.lanes_exist(part.tile.lane())
        restarted = jnp.min(restarts.astype(jnp.int32)) > 0
        unread = jnp.bool_(False) if to_the_end else left == part.count
        return (left > 0) & (unread | ~restarted)

    def step(state: Progress) -> Progress:
        *carry, left = state
        here = part.strip(left - np.int32(1))
        last = _strip_total(scan, part, here)
        both = language.mapped(operator, [*last, *carry])
        if to_the_end:
            return (*both, left - np.int32(1))
        kept = [jnp.where(left == part.count, x, y) for x, y in zip(last, both, strict=True)]
        return (*kept, left - np.int32(1))

    begin = [jnp.zeros(scan.geometry.per_lane, a.dtype) for a in operator.out_avals], part.count
    if to_the_end:
        begin = _last_strip_total(scan, part), part.count - np.int32(1)
    carry, left = begin
    *found, _ = lax.while_loop(goes_on, step, (*carry, left))
    return found


def _strip_total(scan: Scan, part: Part, strip: Tile) -> list[jax.Array]:
    """What a strip combines to whose elements all exist."""
    leaves, operator = scan.load(strip, part.inputs), scan.leaf_operator
    exists = (strip.column() if strip.geometry.woven else strip).mask(0)
    if commuting_identity(operator) is not None and exists is None:
        return [language.tile_reduce(operator, leaves[0], strip.geometry.axis)]
    return strip.last(scan.tile_scan(leaves))


def _last_strip_total(scan: Scan, part: Part) -> list[jax.Array]:
    """What a part's last strip combines to, in which the axis may end."""
    strip, g = part.strip(part.count - np.int32(1)), scan.geometry
    scanned = scan.tile_scan(scan.load(strip, part.inputs))
    end = strip.positions() == np.int32(strip.geometry.length - 1)
    ends_here = part.tile.index == np.int32(g.tiles - 1)
    end = jnp.where(ends_here, strip.at_end(first=g.reverse), end)
    return [take(x, end, strip.geometry.axis) for x in scanned]


def _scan(
    scan: Scan, strip: int, program: jax.Array, refs: Sequence[Ref], *, ahead: bool = False
) -> None:
    """A part, scanned behind the total of all before it."""
    part = Part(scan, strip, Tile(scan.geometry, program), refs)
    kinds = totals.dtypes(scan)
    count = len(kinds) if scan.geometry.tiles > 1 else 0
    before = totals.read(part.tile, scan.geometry, part.others[:count], kinds[:count])
    before = before or [jnp.zeros((), kind) for kind in kinds]
    scan_part(scan, part, before, part.others[count:], ahead=ahead)


def scan_part(
    scan: Scan,
    part: Part,
    begin: Sequence[jax.Array],
    outputs: Sequence[Ref],
    *,
    ahead: bool = False,
) -> None:
    """Scans a part, which comes behind ``begin``, strip by strip, and writes it.

    What comes before the first part is undefined. A strip may be read ``ahead``, while the one
    before it is worked through.
    """
    count, last = len(begin), part.count - np.int32(1)

    def step(state: Progress) -> Progress:
        *carry, number = state
        here = part.strip(number)
        carry, read = carry[:count], carry[count:]
        behind: list[jax.Array] = []
        if ahead:
            behind = scan.read(part.strip(jnp.minimum(number + np.int32(1), last)), part.inputs)
        else:
            read = scan.read(here, part.inputs)
        leaves = scan.leaves(here, part.inputs, read)
        first = (number == 0) & (part.tile.index == 0)  # nothing comes before, and nothing was read
        if forms.has_own_lanes(here):
            before = carry[scan.segmented :]
            leaves = scan.tile_scan(forms.onward(scan, here, before, leaves, first))
        else:
            scanned = scan.tile_scan(leaves)
            combined = scan.combine([weaving.along(here, c) for c in carry], scanned)
            leaves = [jnp.where(first, s, c) for s, c in zip(scanned, combined, strict=True)]
        scan.store(here, outputs, part.inputs, leaves)
        return (*here.last(leaves), *behind, number + np.int32(1))

    carry = [jnp.broadcast_to(x, scan.geometry.per_lane) for x in begin]
    read = scan.read(part.strip(jnp.int32(0)), part.inputs) if ahead else []
    lax.while_loop(lambda s: s[-1] < part.count, step, (*carry, *read, jnp.int32(0)))
