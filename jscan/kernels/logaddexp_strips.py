"""Strips of lanes under logaddexp: each is summed behind its own maximum, as a tile is.

    before ─► strip 0: m, exp(a - m), E, written ─► total ─► strip 1 ─► ...

A thread has lanes of its own, so that a strip's sums take no exchange between threads. Combined one
by one an element takes an exponential and a logarithm of 1 + x, some 45 instructions; here a strip
does for each lane, and an element some 15.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

from jscan.kernels import tuning
from jscan.kernels.carrying import has_own_lanes
from jscan.kernels.description import Scan
from jscan.kernels.language import Ref
from jscan.kernels.logaddexp import LinearTile, SegmentedLinearTile
from jscan.kernels.operator import FLAG
from jscan.kernels.strips import Part, Progress, in_order
from jscan.kernels.terms import LinearAggregates, logarithm_of_zero
from jscan.kernels.tile import Tile


def may_sum(scan: Scan, part: Part) -> bool:
    """Whether strips can be summed so: logaddexp of float32 and narrower, beside lanes."""
    plain = scan.linear and scan.dtypes == (np.dtype(np.float32),)
    return plain and has_own_lanes(part.tile)


def walks(scan: Scan, part: Part) -> bool:
    """Whether a part that nobody waits for is walked so."""
    g, each = scan.geometry, min(dtype.itemsize for dtype in scan.results)
    suits = not scan.segmented and tuning.sums_walks(g.n, g.inner, each)
    return suits and may_sum(scan, part)


def _summed(scan: Scan, part: Part, strip: Tile, read: Sequence[jax.Array]) -> LinearTile:
    """A strip, of which this was read."""
    at_strip = dataclasses.replace(scan, geometry=strip.geometry)
    form = SegmentedLinearTile if scan.segmented else LinearTile
    return form(at_strip, strip, part.inputs, read)


def part_total(scan: Scan, part: Part) -> list[jax.Array]:
    """What `strips.part_total` gives: the total of a part, from its end to its last restart."""
    rule, segmented = LinearAggregates(scan), scan.segmented

    def goes_on(state: Progress) -> jax.Array:
        restarted, *_, left = state
        if not segmented:
            return left > 0
        return (left > 0) & (jnp.min(restarted) == 0)

    def step(state: Progress) -> Progress:
        restarted, *total, left = state
        strip = part.strip(left - np.int32(1))
        work = _summed(scan, part, strip, scan.read(strip, part.inputs))
        further = rule.combine(work.aggregate, total)
        kept = [jnp.where(restarted != 0, t, f) for t, f in zip(total, further, strict=True)]
        if work.restarts is not None:
            restarted = jnp.where(work.restarts, jnp.ones_like(restarted), restarted)
        return (restarted, *kept, left - np.int32(1))

    shape = scan.geometry.per_lane
    nothing = logarithm_of_zero(jnp.zeros(shape, scan.dtypes[0]), 1)
    start = (jnp.zeros(shape, FLAG), *nothing, part.count)
    flag, *total, _ = lax.while_loop(goes_on, step, start)
    return [flag, *total] if segmented else total


def scan_part(
    scan: Scan,
    part: Part,
    begin: Sequence[jax.Array],
    outputs: Sequence[Ref],
    *,
    ahead: bool = False,
) -> None:
    """What `strips.scan_part` does: scans a part behind ``begin``, and writes it."""
    rule = LinearAggregates(scan)

    def work(
        here: Tile, before: Sequence[jax.Array], read: Sequence[jax.Array], first: jax.Array
    ) -> list[jax.Array]:
        summed = _summed(scan, part, here, read)
        summed.scan()
        summed.store(outputs, list(before))
        total = rule.combine(list(before), summed.aggregate)
        anew = first if summed.restarts is None else first | summed.restarts
        return [jnp.where(anew, a, t) for a, t in zip(summed.aggregate, total, strict=True)]

    in_order(scan, part, work, begin[scan.segmented :], ahead=ahead)
