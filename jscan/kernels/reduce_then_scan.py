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

import functools
from collections.abc import Sequence

import jax
import jax.numpy as jnp

from jscan.kernels import launch, logaddexp_strips, scan_then_propagate, totals, walking
from jscan.kernels.description import Scan
from jscan.kernels.language import Ref
from jscan.kernels.strips import Part, part_total, scan_part
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
    assert scan.geometry.abreast == 1, "of several parts the totals would be taken for results"
    found = part_totals(scan, cut, interpret, beside)
    before = totals.scanned(scan, found, interpret, scan_then_propagate.run, totals.LONGEST)
    walk = functools.partial(_scan, scan, strip, ahead=cut.tuned.ahead)
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


def _totals(
    scan: Scan, strip: int, to_the_end: bool, program: jax.Array, refs: Sequence[Ref]
) -> None:
    """Writes the total of a part."""
    part = Part(scan, strip, Tile(scan.geometry, program), refs)
    found = part_total(scan, part, to_the_end=to_the_end)
    totals.write(scan, part.tile, part.others, found)


def _scan(
    scan: Scan, strip: int, program: jax.Array, refs: Sequence[Ref], *, ahead: bool = False
) -> None:
    """A part, scanned behind the total of all before it."""
    part = Part(scan, strip, Tile(scan.geometry, program), refs)
    kinds = totals.dtypes(scan)
    count = len(kinds) if scan.geometry.tiles > 1 else 0
    before = totals.read(part.tile, scan.geometry, part.others[:count], kinds[:count])
    before = before or [jnp.zeros((), kind) for kind in kinds]
    walk = logaddexp_strips.scan_part if logaddexp_strips.walks(scan, part) else scan_part
    walk(scan, part, before, part.others[count:], ahead=ahead)
