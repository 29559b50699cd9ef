"""logaddexp, scanned as a sum of exponentials: one exp and one log an element, not four of each.

For a tile with maximum m, and everything before it summing to exp(q):

    E[t] = sum over i <= t of exp(x[i] - m)            a plain sum
    r = max(q, m)                                       y[t] = r + log(exp(q - r) + exp(m - r) E[t])

The terms are at most 1, so nothing overflows. A sum that starts far below r would underflow, though
it is all there is at that point. It does not if either q or the tile's first element is within
`DEPTH` of r: the sum then starts above exp(-DEPTH), and what is lost against it lies below its
rounding. Other tiles (steep ones, and those with infinite or NaN maximum) are scanned with the
operator itself, strip by strip: beside all of a tile's elements at once its instructions and
registers would be most of what the kernel has.

Where segments begin in a tile, E begins anew there, and what comes before the tile counts no
longer. The first element of each of these segments has to be within `BESIDE` of r: its logarithm is
taken beside r, whose rounding it gets (16 times 2^-22 at most; 60 would cost 4e-5).

Complex numbers have two leaves, a real part and a phase: m and r are of real parts, and terms and
sums are pairs. What cancels is lost against the terms up to that place, as in a loop.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

from jscan.kernels import language, weaving
from jscan.kernels.description import Scan
from jscan.kernels.language import Ref
from jscan.kernels.operator import FLAG, flag_value
from jscan.kernels.registers import take
from jscan.kernels.strips import Part, part_total, scan_part
from jscan.kernels.terms import (
    LinearAggregates,
    added,
    behind_maximum,
    exp,
    least,
    logarithm,
    logarithm_of_zero,
    reference_or_zero,
    term,
)
from jscan.kernels.tile import Tile
from jscan.kernels.tuning import THREADS

DEPTH = 69.0
"""Natural logs: exp(-69) is 2^-100, 26 bits above the smallest normal float32. A sum has rounding
errors of r, so that float64 goes no deeper: by 600 one was wrong by 212 units of 2^-52."""
BESIDE = 16.0
"""Natural logs by which a segment may begin below the largest value of its tile."""


class LinearTile(LinearAggregates):
    """A tile of one leaf under logaddexp, summed in the linear domain."""

    restarts: jax.Array | None = None
    lowest: jax.Array | None = None
    """The least of the elements at which sums begin anew."""

    def __init__(
        self,
        scan: Scan,
        tile: Tile,
        inputs: Sequence[Ref],
        read: Sequence[jax.Array] | None = None,
    ):
        self._scan, self._tile, self._inputs = scan, tile, inputs
        super().__init__(scan)
        self._strips = _strips(scan, tile, inputs)
        flags, values = self._load(read)
        axis = scan.geometry.axis
        place = tile.positions() - tile.first_place()
        self.first = take(values[0], place == 0, axis)
        if scan.geometry.exclusive:
            # A row begins with nothing, beside which the next element is the first.
            second = take(values[0], place == 1, axis)
            begins = (tile.index == 0) & (self.first == -np.inf)
            self.first = jnp.where(begins, second, self.first)
        self._begin(flags, values)

    def _begin(self, flags: list[jax.Array], values: list[jax.Array]) -> None:
        """Does what a tile needs before its aggregate is known; flags, if there are segments."""
        del flags
        axis = self._scan.geometry.axis
        self.terms, self.maximum, self.aggregate = behind_maximum(values, axis)

    def _load(
        self, read: Sequence[jax.Array] | None = None
    ) -> tuple[list[jax.Array], list[jax.Array]]:
        """The flags, if there are any, and the values, of what was `Scan.read` if it was."""
        read = self._scan.read(self._tile, self._inputs) if read is None else read
        leaves = self._scan.leaves(self._tile, self._inputs, read)
        count = len(leaves) - len(self._scan.dtypes)
        flags, values = leaves[:count], leaves[count:]
        exists = self._scan.loaded(self._tile)
        if exists is not None:
            nothing = logarithm_of_zero(values[0], len(values))
            values = [jnp.where(exists, x, n) for x, n in zip(values, nothing, strict=True)]
        return flags, values

    def scan(self) -> None:
        """E, the inclusive sum of the tile's terms."""
        g = self._scan.geometry
        add = added(self._scan.dtypes)
        sums = language.tile_scan(add, self.terms, g.axis, reverse=g.backwards)
        self.sums = [language.settle(x) for x in sums]

    def store(self, outputs: Sequence[Ref], prefix: list[jax.Array] | None = None) -> None:
        """Writes the tile; without a prefix, as the only tile of its row."""
        before = logarithm_of_zero(self.maximum, len(self.aggregate))
        if prefix is not None:
            first, pairs = self._tile.index == 0, zip(before, prefix, strict=True)
            before = [jnp.where(first, nothing, p) for nothing, p in pairs]
        self._store(outputs, before)

    def _store(self, outputs: Sequence[Ref], prefix: list[jax.Array]) -> None:
        highest = language.nan_max(prefix[0], self.maximum)

        def fast() -> None:
            reference = reference_or_zero(highest)
            before = term(prefix[0] - reference, *prefix[1:])
            self._write(outputs, self._behind(reference, before, exp(self.maximum - reference)))

        def exact() -> None:
            # Read again: to keep the tile for this rare case would cost its registers in every
            # case.
            if self._strips is not None:
                part, no_flags = self._strips, [jnp.zeros(prefix[0].shape, FLAG)]
                scan_part(self._scan, part, no_flags * self._scan.segmented + prefix, outputs)
                return
            flags, values = self._load()
            scanned = self._scan.tile_scan([*flags, *values])
            before = [*map(jnp.zeros_like, flags), *map(self._tall, prefix)]
            self._write(outputs, self._scan.combine(before, scanned)[len(flags) :])

        starts = [jnp.maximum(prefix[0], self.first)]
        lax.cond(self._all_near(highest, starts), fast, exact)

    def _behind(
        self, reference: jax.Array, before: Sequence[jax.Array], weight: jax.Array
    ) -> list[jax.Array]:
        """The results: of what comes ``before``, and E by ``weight``, beside the reference."""
        tall, weight = [self._counting(self._tall(x)) for x in before], self._tall(weight)
        sums = [b + weight * x for b, x in zip(tall, self.sums, strict=True)]
        size, *angle = logarithm(sums)
        return [self._tall(reference) + size, *angle]

    def _since_restart(
        self, last: Callable[[], list[jax.Array]], held: Sequence[jax.Array] = ()
    ) -> list[jax.Array]:
        """Sets the aggregate, of segments; ``last`` is the flag and E at the tile's end.

        Returns what is ``held`` until the tile is written, undefined where it is scanned with the
        operator: while its total is found so, no register holds it.
        """

        def fast() -> list[jax.Array]:
            flag, *total = last()
            size, *angle = logarithm(total)
            return [flag, self.maximum + size, *angle, *held]

        def exact() -> list[jax.Array]:
            if self._strips is not None:
                total = part_total(self._scan, self._strips)
            else:
                heads, values = self._load()
                total = self._tile.last(self._scan.tile_scan([*heads, *values]))
            return [*total, *map(jnp.zeros_like, held)]

        near, count = self._all_near(self.maximum, []), len(self._scan.dtypes)
        flag, *found = lax.cond(near, fast, exact)
        self.aggregate, self.restarts = found[:count], flag != 0
        return found[count:]

    def _counting(self, before: jax.Array) -> jax.Array:
        """What comes before the tile, where it counts."""
        return before

    def _all_near(self, reference: jax.Array, starts: Sequence[jax.Array]) -> jax.Array:
        """Whether no sum that begins with one of ``starts`` underflows beside ``reference``."""
        nothing = reference == -np.inf
        reference = reference_or_zero(reference)
        deepest = reference - self.dtype.type(DEPTH)
        near = jnp.abs(reference) < np.inf
        for start in starts:
            near &= (start >= deepest) | nothing
        if self.lowest is not None:
            near &= (self.lowest >= reference - self.dtype.type(BESIDE)) | nothing
        return jnp.min(near.astype(jnp.int32)) > 0

    def _write(self, outputs: Sequence[Ref], result: list[jax.Array]) -> None:
        self._scan.store(self._tile, outputs, self._inputs, result)

    def _tall(self, value: jax.Array) -> jax.Array:
        """A value of the tile, or one a lane, in the tile's shape."""
        value = weaving.along(self._tile, value)
        return jnp.broadcast_to(value, self._scan.geometry.shape)


STRIPS = 8
"""So many of a tile, where each has `SHORTEST` positions."""
SHORTEST = 4
"""What begins anew where an axis begins does so in the first strip, two positions at most in it."""


def _strips(scan: Scan, tile: Tile, inputs: Sequence[Ref]) -> Part | None:
    """The tile as a part of strips; None where it has rows of its own, or is short, far or woven.

    With them a tile of 1024 places, bfloat16, by segments of bits, takes 162 registers, 233
    without; 2048 places of float16 96 and 128, 1024 of float64 by four warps 72 and 122; of 18,616
    instructions 8792 are left, of 42,288 of the float64 tile 4712 (sm_90).
    """
    g = scan.geometry
    # Where words are turned, a strip is one of each thread: else they are exchanged.
    strip = max(g.length // STRIPS, SHORTEST, g.at_once * g.threads if g.turns else 0)
    placed = strip % max(g.word, THREADS) == 0 or g.inner > 1
    several = strip < g.length and strip * g.lanes >= THREADS and placed
    apart = g.rows > 1 or g.far or g.woven
    return Part(scan, strip, tile, inputs) if several and not apart else None


class SegmentedLinearTile(LinearTile):
    """The same, where segments begin in the tile."""

    def _begin(self, flags: list[jax.Array], values: list[jax.Array]) -> None:
        scan, axis = self._scan, self._scan.geometry.axis
        self.terms, self.maximum, _ = behind_maximum(values, axis)
        [heads] = flags
        # Behind the axis flags hold anything, and no value.
        begins, exists = heads != 0, scan.loaded(self._tile)
        if exists is not None:
            begins &= exists
        of_heads = jnp.where(begins, values[0], jnp.full_like(values[0], np.inf))
        self.lowest = least([of_heads], axis)
        add = flag_value(added(scan.dtypes))
        self._restarted, *self.sums = language.tile_scan(
            add, [heads, *self.terms], axis, reverse=scan.geometry.backwards
        )
        self._since_restart(lambda: self._tile.last([self._restarted, *self.sums]))

    def scan(self) -> None:
        """Does nothing: the aggregate takes E, which is there."""

    def _counting(self, before: jax.Array) -> jax.Array:
        return jnp.where(self._restarted == 0, before, jnp.zeros_like(before))

    def _write(self, outputs: Sequence[Ref], result: list[jax.Array]) -> None:
        self._scan.store(self._tile, outputs, self._inputs, [self._restarted, *result])
