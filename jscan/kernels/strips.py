"""A part of a row, walked strip by strip: little is held in registers, however long it is.

part    [ strip 0 │ strip 1 │ strip 2 │ ... ]
total               ... ◄────── ◄──────        from its end, to its last restart
scan    before ─► ─────► ─────► ─────►         each strip behind the one before it
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Sequence

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

from jscan.kernels import language, weaving
from jscan.kernels.carrying import has_own_lanes, onward
from jscan.kernels.description import Scan
from jscan.kernels.language import Ref
from jscan.kernels.operator import commuting_identity
from jscan.kernels.registers import take
from jscan.kernels.tile import Tile

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


def part_total(scan: Scan, part: Part, *, to_the_end: bool = False) -> list[jax.Array]:
    """The total of a part, from its end to its last restart."""
    operator = scan.leaf_operator

    def goes_on(state: Progress) -> jax.Array:
        *carry, left = state
        if not scan.segmented:
            return left > 0
        restarts, g = carry[0] != 0, scan.geometry
        if g.lanes_end:  # empty lanes have no flags
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


Work = Callable[[Tile, Sequence[jax.Array], Sequence[jax.Array], jax.Array], list[jax.Array]]
"""From a strip, what is carried to it, what was read of it, and whether nothing comes before it, to
what is carried on."""


def in_order(
    scan: Scan, part: Part, work: Work, begin: Sequence[jax.Array], *, ahead: bool = False
) -> None:
    """Works through a part, strip by strip; what is carried to the first is ``begin``.

    A strip may be read ``ahead``, while the one before it is worked through.
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
        first = (number == 0) & (part.tile.index == 0)
        return (*work(here, carry, read, first), *behind, number + np.int32(1))

    carry = [jnp.broadcast_to(x, scan.geometry.per_lane) for x in begin]
    read = scan.read(part.strip(jnp.int32(0)), part.inputs) if ahead else []
    lax.while_loop(lambda s: s[-1] < part.count, step, (*carry, *read, jnp.int32(0)))


def scan_part(
    scan: Scan,
    part: Part,
    begin: Sequence[jax.Array],
    outputs: Sequence[Ref],
    *,
    ahead: bool = False,
) -> None:
    """Scans a part, which comes behind ``begin``, and writes it.

    What comes before the first part is undefined.
    """

    def work(
        here: Tile, carry: Sequence[jax.Array], read: Sequence[jax.Array], first: jax.Array
    ) -> list[jax.Array]:
        leaves = scan.leaves(here, part.inputs, read)
        if has_own_lanes(here):
            before = carry[scan.segmented :]
            leaves = scan.tile_scan(onward(scan, here, before, leaves, first))
        else:
            scanned = scan.tile_scan(leaves)
            combined = scan.combine([weaving.along(here, c) for c in carry], scanned)
            leaves = [jnp.where(first, s, c) for s, c in zip(scanned, combined, strict=True)]
        scan.store(here, outputs, part.inputs, leaves)
        return here.last(leaves)

    in_order(scan, part, work, begin, ahead=ahead)


def over_strips(
    part: Part,
    step: Callable[[Tile, Sequence[jax.Array]], list[jax.Array]],
    start: Sequence[jax.Array],
) -> list[jax.Array]:
    """What ``step`` makes of a part's strips, one after another.

    The axis may end in the last one. All others are known not to reach its end, and have no masks.
    """
    ends = part.strip(jnp.int32(0)).mask(0) is not None

    def whole(state: tuple[jax.Array, ...]) -> tuple[jax.Array, ...]:
        *found, number = state
        strip = part.strip(number)
        if ends:
            strip = strip.without_ends(of_rows=False)
        return (*step(strip, found), number + np.int32(1))

    count = part.count - np.int32(1) if ends else part.count
    *found, number = lax.while_loop(lambda s: s[-1] < count, whole, (*start, jnp.int32(0)))
    return step(part.strip(number), found) if ends else found
