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

import functools
from collections.abc import Callable, Sequence

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax
from jax.extend import core

from jscan.kernels import doubles, language, phasors, weaving
from jscan.kernels.description import Scan
from jscan.kernels.language import Ref
from jscan.kernels.operator import FLAG, flag_value, trace_scalars
from jscan.kernels.registers import take
from jscan.kernels.strips import Part, part_total, scan_part
from jscan.kernels.tile import Tile
from jscan.kernels.tuning import THREADS

DEPTH = 69.0
"""Natural logs: exp(-69) is 2^-100, 26 bits above the smallest normal float32. A sum has rounding
errors of r, so that float64 goes no deeper: by 600 one was wrong by 212 units of 2^-52."""


def exp(x: jax.Array) -> jax.Array:
    """The exponential of x <= 0 or NaN, as a term of a sum that is not much smaller."""
    return doubles.exp(x) if x.dtype == np.float64 else phasors.exp(x)


def log(x: jax.Array) -> jax.Array:
    """The logarithm of x >= 0 or NaN."""
    return doubles.log(x) if x.dtype == np.float64 else phasors.log(x)


@functools.cache
def _scalar(function: Callable[..., jax.Array], dtype: np.dtype) -> core.ClosedJaxpr:
    return trace_scalars(lambda x, y: [function(x, y)], [dtype] * 2)


BESIDE = 16.0
"""Natural logs by which a segment may begin below the largest value of its tile."""


@functools.cache
def _added(dtypes: tuple[np.dtype, ...]) -> core.ClosedJaxpr:
    """The sum of terms, which have a part or two."""
    count = len(dtypes)
    return trace_scalars(lambda *x: list(map(lax.add, x[:count], x[count:])), dtypes * 2)


@functools.cache
def _of_pairs(function: Callable[..., phasors.Pair], dtype: np.dtype) -> core.ClosedJaxpr:
    return trace_scalars(function, [dtype] * 2)


def _term(real: jax.Array, *phase: jax.Array) -> list[jax.Array]:
    """The exponential of a number whose real part is not above 0."""
    if not phase:
        return [exp(real)]
    return language.mapped(_of_pairs(phasors.term, np.dtype(real.dtype)), [real, *phase])


def _logarithm(total: Sequence[jax.Array]) -> list[jax.Array]:
    """The logarithm of a sum of terms."""
    if len(total) == 1:
        return [log(total[0])]
    return language.mapped(_of_pairs(phasors.logarithm, np.dtype(total[0].dtype)), total)


def _terms(
    values: Sequence[jax.Array], axis: int
) -> tuple[list[jax.Array], jax.Array, list[jax.Array]]:
    """exp(values - m), their maximum m, and m + log of the terms' sum, along ``axis``."""
    real, *phase = values
    dtype = np.dtype(real.dtype)
    maximum = language.tile_reduce(_scalar(language.nan_max, dtype), real, axis)
    finite = jnp.abs(maximum) < np.inf
    center = lax.expand_dims(jnp.where(finite, maximum, jnp.zeros_like(maximum)), [axis])
    terms = _term(real - jnp.broadcast_to(center, real.shape), *phase)
    total = [language.tile_reduce(_scalar(lax.add, dtype), x, axis) for x in terms]
    size, *angle = _logarithm(total)
    return terms, maximum, [jnp.where(finite, maximum + size, maximum), *angle]


def _finite(reference: jax.Array) -> jax.Array:
    """The reference, which is 0 where there is nothing but zeros' logarithms to refer to."""
    return jnp.where(reference == -np.inf, jnp.zeros_like(reference), reference)


def _nothing(like: jax.Array, count: int) -> list[jax.Array]:
    """The logarithm of 0, which has a phase or none."""
    return [jnp.full_like(like, -np.inf), *[jnp.zeros_like(like)] * (count - 1)]


class LinearAggregates:
    """Totals of tiles."""

    def __init__(self, scan: Scan):
        self.dtype, self._operator = scan.dtypes[0], scan.operator
        single = len(scan.dtypes) == 1
        self.identity = self.dtype.type(-np.inf) if single else None

    def total(self, values: Sequence[jax.Array], axis: int) -> list[jax.Array]:
        """The total of values along ``axis``."""
        _, _, total = _terms(values, axis)
        return total

    def fold(self, values: jax.Array) -> jax.Array:
        """The total of a window of aggregates."""
        [total] = self.total([values], 0)
        return total

    def combine(self, left: list[jax.Array], right: list[jax.Array]) -> list[jax.Array]:
        """One aggregate behind another."""
        if len(left) > 1:
            return language.mapped(self._operator, [*left, *right])
        maximum = language.nan_max(left[0], right[0])
        depth = -jnp.abs(left[0] - right[0])
        total = maximum + log(1 + exp(depth))
        return [jnp.where(depth == depth, total, maximum)]


class LinearTile(LinearAggregates):
    """A tile of one leaf under logaddexp, summed in the linear domain."""

    def __init__(self, scan: Scan, tile: Tile, inputs: Sequence[Ref]):
        self._scan, self._tile, self._inputs = scan, tile, inputs
        super().__init__(scan)
        self._strips = _strips(scan, tile, inputs)
        flags, values = self._load()
        axis = scan.geometry.axis
        place = tile.positions() - tile.first_place()
        self.first = take(values[0], place == 0, axis)
        if scan.geometry.exclusive:
            # A row begins with nothing, beside which the next element is the first.
            second = take(values[0], place == 1, axis)
            self.first = jnp.where(self.first == -np.inf, second, self.first)
        self.terms, self.maximum, self.aggregate = _terms(values, axis)
        self.restarts: jax.Array | None = None
        self._begin(flags, values[0])

    def _begin(self, flags: list[jax.Array], values: jax.Array) -> None:
        """Does what a tile needs before its aggregate is known: nothing, without segments."""

    def _load(self) -> tuple[list[jax.Array], list[jax.Array]]:
        """The flags, if there are any, and the values."""
        leaves = self._scan.load(self._tile, self._inputs)
        count = len(leaves) - len(self._scan.dtypes)
        flags, values = leaves[:count], leaves[count:]
        exists = self._scan.loaded(self._tile)
        if exists is not None:
            nothing = _nothing(values[0], len(values))
            values = [jnp.where(exists, x, n) for x, n in zip(values, nothing, strict=True)]
        return flags, values

    def scan(self) -> None:
        """E, the inclusive sum of the tile's terms."""
        g = self._scan.geometry
        add = _added(self._scan.dtypes)
        sums = language.tile_scan(add, self.terms, g.axis, reverse=g.backwards)
        self.sums = [language.settle(x) for x in sums]

    def store(self, outputs: Sequence[Ref], prefix: list[jax.Array] | None = None) -> None:
        """Writes the tile; without a prefix, as the only tile of its row."""
        before = _nothing(self.maximum, len(self.aggregate))
        if prefix is not None:
            first, pairs = self._tile.index == 0, zip(before, prefix, strict=True)
            before = [jnp.where(first, nothing, p) for nothing, p in pairs]
        self._store(outputs, before)

    def _store(self, outputs: Sequence[Ref], prefix: list[jax.Array]) -> None:
        highest = language.nan_max(prefix[0], self.maximum)

        def fast() -> None:
            reference = _finite(highest)
            terms = _term(prefix[0] - reference, *prefix[1:])
            before = [self._counting(self._tall(x)) for x in terms]
            weight = self._tall(exp(self.maximum - reference))
            sums = [b + weight * x for b, x in zip(before, self.sums, strict=True)]
            size, *angle = _logarithm(sums)
            self._write(outputs, [self._tall(reference) + size, *angle])

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

    def _heads(self) -> list[jax.Array]:
        """The least of the elements at which sums begin anew."""
        return []

    def _counting(self, before: jax.Array) -> jax.Array:
        """What comes before the tile, where it counts."""
        return before

    def _all_near(self, reference: jax.Array, starts: Sequence[jax.Array]) -> jax.Array:
        """Whether no sum that begins with one of ``starts`` underflows beside ``reference``."""
        nothing = reference == -np.inf
        reference = _finite(reference)
        deepest = reference - self.dtype.type(DEPTH)
        near = jnp.abs(reference) < np.inf
        for start in starts:
            near &= (start >= deepest) | nothing
        for head in self._heads():
            near &= (head >= reference - self.dtype.type(BESIDE)) | nothing
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
    strip = max(g.length // STRIPS, SHORTEST)
    placed = strip % max(g.word, THREADS) == 0 or g.inner > 1
    several = strip < g.length and strip * g.lanes >= THREADS and placed
    apart = g.rows > 1 or g.far or g.woven
    return Part(scan, strip, tile, inputs) if several and not apart else None


class SegmentedLinearTile(LinearTile):
    """The same, where segments begin in the tile."""

    def _begin(self, flags: list[jax.Array], values: jax.Array) -> None:
        scan, axis = self._scan, self._scan.geometry.axis
        [heads] = flags
        # Behind the axis flags hold anything, and no value.
        begins, exists = heads != 0, scan.loaded(self._tile)
        if exists is not None:
            begins &= exists
        of_heads = jnp.where(begins, values, jnp.full_like(values, np.inf))
        self._lowest = language.tile_reduce(_scalar(language.nan_min, self.dtype), of_heads, axis)
        add = flag_value(_added(scan.dtypes))
        self._restarted, *self.sums = language.tile_scan(
            add, [heads, *self.terms], axis, reverse=scan.geometry.backwards
        )

        def fast() -> list[jax.Array]:
            flag, *total = self._tile.last([self._restarted, *self.sums])
            size, *angle = _logarithm(total)
            return [flag, self.maximum + size, *angle]

        def exact() -> list[jax.Array]:
            if self._strips is not None:
                return part_total(scan, self._strips)
            heads, values = self._load()
            return self._tile.last(scan.tile_scan([*heads, *values]))

        near = self._all_near(self.maximum, [])
        flag, *self.aggregate = lax.cond(near, fast, exact)
        self.restarts = flag != 0

    def scan(self) -> None:
        """Does nothing: the aggregate takes E, which is there."""

    def _heads(self) -> list[jax.Array]:
        return [self._lowest]

    def _counting(self, before: jax.Array) -> jax.Array:
        return jnp.where(self._restarted == 0, before, jnp.zeros_like(before))

    def _write(self, outputs: Sequence[Ref], result: list[jax.Array]) -> None:
        self._scan.store(self._tile, outputs, self._inputs, [self._restarted, *result])
