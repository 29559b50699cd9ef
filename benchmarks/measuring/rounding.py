"""How many additions lie between an element and a sum that it is part of, by strategy.

A sum that a tree of additions takes of x_0, ..., x_t is wrong by rounding by at most

    |y_t - s_t|  ≤  ((1 + u)^depth - 1) Σ |x_i|,    u = eps / 2, about depth · eps / 2,

where ``depth`` is the most additions that any element goes through (Higham, Accuracy and Stability
of Numerical Algorithms, §4.2). A loop has a depth of n - 1. Strategies differ in their depth, and
in nothing else that matters here:

    xla                  2 log2 n
    lookback, chained    a tile's own, then one for every tile before it, at most
    repeatable           a tile's own, of 16 tiles, then 6 for every 256 tiles, a window's
    reduce_then_scan     a part's strips one after another, twice, and a scan of 2112 totals between
    scan_then_propagate  a tile's own for every level, of which there are log n / log tile

In lookback it is timing that decides how aggregates are joined: a tile that finds a PREFIX r tiles
back joins r words by min(log2 window, r - 1) additions and itself by one more. That is r for r = 1,
as in a chain, and 6 of 32 where a window's farthest tile is the one. No timing takes more than one
addition a tile, since a tree over t aggregates has no more than t - 1 levels.
"""

from __future__ import annotations

import dataclasses
import functools
import itertools
import math
from collections.abc import Callable, Sequence

import jax
import jax.numpy as jnp

import jscan
from benchmarks.cases.case import Operation
from jscan.kernels import totals, tuning

EPS = 2.0**-23
"""The spacing of float32 at one: twice what an addition is wrong by, at most."""


def bound(depth: int, n: int) -> float:
    """The most error of such a tree of float32 additions, in eps of the sum of sizes.

    Half an eps for each of the ``depth`` additions that an element goes through, each of what
    the others have made of it; and no more than half an eps for each addition that there is, in
    whatever order (Jeannerod and Rump 2013).
    """
    return min(math.expm1(depth * math.log1p(EPS / 2)) / EPS, (n - 1) / 2)


def bound_in_pairs(n: int) -> float:
    """The same for sums in compensated pairs: half an eps, and 2^-22 for each addition.

    Additions are those of the deepest tree that "auto" takes, or of a CPU's stretches.
    """
    return 0.5 + max(depth("lookback", n), 2 * math.isqrt(n)) * 2.0**-22


@dataclasses.dataclass(frozen=True)
class TileDepth:
    """How deep the additions within a tile are, by its length: of its scan, and of its total.

    Of a window of so many words, the additions that the ``farthest`` one goes through.
    """

    scan: Callable[[int], int]
    total: Callable[[int], int]
    farthest: Callable[[int], int]


def _in_warps(length: int) -> int:
    """Of ``tt.scan`` and ``tt.reduce``, however a tile's elements lie in threads.

    A scan: v elements of a thread one after another, five steps across the 32 threads of a warp,
    then one partial result after another, of 32 v elements each, and one addition for what comes
    before: v + 5 + length / 32 v, which is largest for v = 1. A reduction: all elements of a thread
    one after another, five steps across the warp, at most three across warps.
    """
    return min(length - 1, length // 32 + 6)


@functools.cache
def of_pairs(length: int) -> int:
    """Of ``lax.associative_scan``: pairs are joined and scanned, and fill what is between."""
    if length < 2:
        return 0
    between = 2 + of_pairs((length - 1) // 2) if length > 2 else 0
    return max(1 + of_pairs(length // 2), between)


def _levels(count: int) -> int:
    """Of a tree over so many, all of which join others."""
    return (count - 1).bit_length()


def _first_of_pairs(count: int) -> int:
    """Of the first of so many at the end of a window, where it has a neighbour in a pair."""
    levels = _levels(count)
    return levels - (2**levels - count).bit_count()


TRITON = TileDepth(_in_warps, _in_warps, _levels)
INTERPRETED = TileDepth(of_pairs, _levels, _first_of_pairs)


def depth(
    method: str, n: int, tile: TileDepth = TRITON, width: int = 4, cut: tuning.Tuning | None = None
) -> int:
    """The depth of an inclusive sum of ``n`` elements of ``width`` bytes, at most.

    Tiles are cut by ``cut``, or as suits the shape where that is None.
    """
    if n < 2 or method == "xla":
        return of_pairs(n)
    shape = tuning.Shape(1, n, 1, width, leaves=1, segmented=False, equations=1, tile=cut)
    tuned = tuning.chosen(shape, method, tuning.SCAN)
    if method == "reduce_then_scan" and tuned.strip:
        return _in_parts(n, tuned.length, tuned.strip, tile)
    if method == "scan_then_propagate":
        return _in_levels(n, tuned.length, tile)
    tiles = -(-n // tuned.length)
    if tiles == 1:
        return tile.scan(tuned.length)
    before = tiles - 1
    if method == "repeatable":
        before = _in_groups(tiles, tuning.group_sizes(tuned.window, 1), tile)
    return max(tile.scan(tuned.length) + 1, tile.total(tuned.length) + before)


def _in_groups(tiles: int, sizes: Sequence[int], tile: TileDepth) -> int:
    """From a tile's total to the last tile: through groups of these sizes, and by the chain.

    One addition joins what a window amounts to and what is nearer. Prefixes are farthest in it.
    """
    *groups, before = itertools.accumulate(size - 1 for size in sizes)
    words = [min(count, tiles) for count in (*groups, before + 1)]
    links = -(-tiles // math.prod(sizes)) - 1
    return sum(_levels(count) + 1 for count in words) + links * (tile.farthest(words[-1]) + 1)


def _in_parts(n: int, length: int, strip: int, tile: TileDepth) -> int:
    """A program walks a part from its end, for the total, and again from its start."""
    strip = min(strip, length)
    strips = min(length, -(-n // strip) * strip) // strip
    parts = -(-n // length)
    if parts == 1:
        return tile.scan(strip) + strips - 1
    total = tile.total(strip) + strips - 1
    before = total + _in_levels(parts, _tile_of_totals(parts, totals.LONGEST), tile)
    return max(before, tile.scan(strip)) + strips


def _in_levels(n: int, length: int, tile: TileDepth) -> int:
    """Every tile by itself, and in front of it what the same makes of totals."""
    tiles = -(-n // length)
    if tiles == 1:
        return tile.scan(length)
    shorter = _tile_of_totals(tiles, min(length, totals.LONGEST))
    before = tile.total(length) + _in_levels(tiles, shorter, tile)
    return max(before, tile.scan(length)) + 1


def _tile_of_totals(count: int, longest: int) -> int:
    return min(tuning.next_power_of_2(count), tuning.next_power_of_2(longest))


def deeper(a: jax.Array, b: jax.Array) -> jax.Array:
    """One more than the deeper of two: a scan of zeros by it counts the depth of every result.

    It is not associative, which is the point: it tells how a scan was associated.
    """
    return jnp.maximum(a, b) + 1


@functools.cache
def counted(method: str) -> Operation:
    """The depth of a scan of so many zeros, counted as it runs.

    Of an operator that commutes, lookback and its like reduce a tile for its total; of this one
    they take the last element of the scanned tile.
    """
    return lambda zeros: jnp.max(jscan.associative_scan(deeper, zeros, method=method))
