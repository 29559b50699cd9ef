"""logaddexp, scanned as a sum of exponentials: one exp and one log an element, not four of each.

For a tile with maximum m, and everything before it summing to exp(q):

    E[t] = sum over i <= t of exp(x[i] - m)            a plain sum
    r = max(q, m)                                       y[t] = r + log(exp(q - r) + exp(m - r) E[t])

The terms are at most 1, so nothing overflows. A sum that starts far below r would underflow, though
it is all there is at that point. It does not if either q or the tile's first element is within
`DEPTH` of r: the sum then starts above exp(-DEPTH), and what is lost against it lies below its
rounding. Other tiles (steep ones, and those with infinite or NaN maximum) are scanned with the
operator itself.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax
from jax.extend import core

from jscan.kernels import language
from jscan.kernels.description import Scan
from jscan.kernels.language import Ref
from jscan.kernels.operator import trace_scalars
from jscan.kernels.registers import take
from jscan.kernels.tile import Tile

DEPTH = {np.dtype(np.float32): 69.0, np.dtype(np.float64): 600.0}
"""Natural logs: exp(-69) is 2^-100, 26 bits above the smallest normal float32; likewise float64."""


@functools.cache
def _scalar(function: Callable[..., jax.Array], dtype: np.dtype) -> core.ClosedJaxpr:
    return trace_scalars(lambda x, y: [function(x, y)], [dtype] * 2)


def _exp(x: jax.Array) -> jax.Array:
    """The exponential of x <= 0, exact enough as a term of a sum that starts above exp(-DEPTH)."""
    if x.dtype != jnp.float32:
        return jnp.exp(x)
    return language.fast_exp2(x * np.float32(np.log2(np.e)))


def _log(x: jax.Array) -> jax.Array:
    if x.dtype != jnp.float32:
        return jnp.log(x)
    return language.fast_log2(x) * np.float32(np.log(2))


def _terms(values: jax.Array, axis: int) -> tuple[jax.Array, jax.Array, jax.Array]:
    """exp(values - m), their maximum m, and m + log of the terms' sum, along ``axis``."""
    dtype = np.dtype(values.dtype)
    maximum = language.tile_reduce(_scalar(language.nan_max, dtype), values, axis)
    finite = jnp.abs(maximum) < np.inf
    center = lax.expand_dims(jnp.where(finite, maximum, jnp.zeros_like(maximum)), [axis])
    terms = _exp(values - jnp.broadcast_to(center, values.shape))
    total = language.tile_reduce(_scalar(lax.add, dtype), terms, axis)
    return terms, maximum, jnp.where(finite, maximum + _log(total), maximum)


class LinearTile:
    """A tile of one leaf under logaddexp, summed in the linear domain."""

    def __init__(self, scan: Scan, tile: Tile, inputs: Sequence[Ref]):
        self._scan, self._tile, self._inputs = scan, tile, inputs
        values = self._load()
        self.dtype = np.dtype(values.dtype)
        axis = scan.geometry.axis
        self.first = take(values, tile.positions() == tile.first_place(), axis)
        self.terms, self.maximum, total = _terms(values, axis)
        self.aggregate = [total]
        self.restarts: jax.Array | None = None
        self.identity = self.dtype.type(-np.inf)

    def fold(self, values: jax.Array) -> jax.Array:
        """The total of a window of aggregates."""
        _, _, total = _terms(values, 0)
        return total

    def combine(self, left: list[jax.Array], right: list[jax.Array]) -> list[jax.Array]:
        """One aggregate behind another."""
        maximum = language.nan_max(left[0], right[0])
        depth = -jnp.abs(left[0] - right[0])
        total = maximum + _log(1 + _exp(depth))
        return [jnp.where(depth == depth, total, maximum)]

    def _load(self) -> jax.Array:
        [values] = self._scan.load(self._tile, self._inputs)
        exists = self._scan.loaded(self._tile)
        if exists is None:
            return values
        return jnp.where(exists, values, jnp.full_like(values, -np.inf))

    def scan(self) -> None:
        """E, the inclusive sum of the tile's terms."""
        g = self._scan.geometry
        add = _scalar(lax.add, self.dtype)
        [sums] = language.tile_scan(add, [self.terms], g.axis, reverse=g.reverse)
        self.sums = language.settle(sums)

    def store(self, outputs: Sequence[Ref], prefix: list[jax.Array] | None = None) -> None:
        """Writes the tile; without a prefix, as the only tile of its row."""
        nothing = jnp.full_like(self.maximum, -np.inf)
        before = nothing if prefix is None else jnp.where(self._tile.index == 0, nothing, prefix[0])
        self._store(outputs, before)

    def _store(self, outputs: Sequence[Ref], prefix: jax.Array) -> None:
        reference = language.nan_max(prefix, self.maximum)
        deepest = reference - self.dtype.type(DEPTH[self.dtype])
        start = jnp.maximum(prefix, self.first)
        shallow = (start >= deepest) & (jnp.abs(reference) < np.inf)

        def fast() -> None:
            before = self._tall(_exp(prefix - reference))
            weight = self._tall(_exp(self.maximum - reference))
            result = self._tall(reference) + _log(before + weight * self.sums)
            self._scan.store(self._tile, outputs, self._inputs, [result])

        def exact() -> None:
            # Read again: to keep the tile for this rare case would cost its registers in every
            # case.
            scanned = self._scan.tile_scan([self._load()])
            result = self._scan.combine([self._tall(prefix)], scanned)
            self._scan.store(self._tile, outputs, self._inputs, result)

        lax.cond(jnp.min(shallow.astype(jnp.int32)) > 0, fast, exact)

    def _tall(self, value: jax.Array) -> jax.Array:
        """A value of the tile, or one a lane, in the tile's shape."""
        value = self._tile.along_positions(value)
        return jnp.broadcast_to(value, self._scan.geometry.shape)
