"""The choice of a cut for a shape: one function for each way to work through a row.

    block                rows that fit a tile
    lookback, serial     tiles of a row that several programs share
    chain                the same, where every tile waits for its neighbour
    parts, strips, ...   what is read strip by strip (`tuning.by_strips`)

Full tiles of what is a neighbour in memory are in `tuning.neighbours`. `chosen` takes the one that
suits a strategy. A shape that brings a tile of its own is cut by that. The figures of a device are
in a file of its kind; what is here holds for all of them.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping

from jscan.kernels.tuning import measured, neighbours, odd_lanes, slow_doubles
from jscan.kernels.tuning.by_strips import alone, parts, strips, tree, walks, whole
from jscan.kernels.tuning.cut import (
    LIGHT,
    THREADS,
    Shape,
    Tuning,
    first_match,
    next_power_of_2,
)
from jscan.kernels.tuning.folds import FEWEST, SHORT
from jscan.kernels.tuning.long_steps import is_heavy_pair, is_heavy_wide_pair
from jscan.kernels.tuning.pressure import more_warps, of_a_warp
from jscan.kernels.tuning.starting import are_many_programs

# --- one program a row --------------------------------------------------------------------------


def longest_block(shape: Shape) -> int:
    """The most elements of a row that fit a tile."""
    return measured.device().block_bytes // shape.width


def block(shape: Shape) -> Tuning | None:
    """The tile of whole rows, or None where a row does not fit."""
    known = measured.device()
    length = next_power_of_2(shape.n)
    if length > longest_block(shape):
        return None
    if shape.tile is not None:
        return dataclasses.replace(shape.tile, length=length, strip=0)
    if shape.large:
        rows = min(max(1, THREADS // length), next_power_of_2(shape.outer))
        warps = max(1, length // THREADS)
        return Tuning(length=length, lanes=1, warps=warps, window=1, rows=rows)
    lanes = 1
    if shape.inner > 1:
        lanes = min(next_power_of_2(shape.inner), max(64, 1024 // length))
        while lanes > 2 and length * lanes * shape.width > known.block_bytes // 2:
            lanes //= 2
    rows, most = 1, known.block_elements
    if shape.inner > 1:
        # Of narrow elements as many bytes: (508380, 3, 11), bfloat16, 27 µs with 2048 elements, 28
        # with 1024, 40 with 512 (H200, 2026-11-23).
        most *= 4 // min(shape.width, 4)
    # Maximum and sum of exponentials of rows of 69, float64, by segments, 0.26 of copy speed by
    # four rows, 0.49 by one (H100, 2026-11-27).
    one = is_heavy_wide_pair(shape) and shape.segmented and length >= 128
    # logaddexp of rows of 153, float32, by flags that rows share, 0.34 and 0.44, of 223 0.54 and
    # 0.64; of 256 1.00 and 0.79 (H200, 2026-11-28).
    long = shape.long_steps and shape.segmented and (shape.leaves, shape.width) == (1, 4)
    one |= long and length == 256 and shape.n < length
    if shape.inner == 1 and are_many_programs(shape, length, most):
        most *= 2
    if lanes >= shape.inner and not one:
        while rows * length * lanes < most and rows < shape.outer:
            rows *= 2
    elements = rows * length * lanes
    programs = -(-shape.outer // rows) * -(-shape.inner // lanes)
    spread = programs < known.block_programs
    times = more_warps(shape) if rows == 1 and length >= 2048 else 1
    warps = min(16, max(1, elements // (1024 if spread else of_a_warp(shape) // times)))
    if (shape.width, shape.leaves, shape.segmented) == (8, 1, False) and length >= 4096:
        # int64 sums of rows of 2252 0.50 of copy speed by one warp, which takes 255 registers, 0.85
        # by two, 0.94 so; products of 2432 0.96 and 0.99 (H100, 2026-11-27).
        warps = max(warps, 4)
    few = shape.leaves == 1 and shape.segmented and shape.each == 2 and length <= 4
    if few and lanes == 256 and rows == 1:
        # logaddexp of (3, 16092122), float16, by segments, 0.36 of copy speed by one warp and 0.53,
        # maxima of (7, 3, 27, 87591), bfloat16, 0.65 and 0.84 (H200, 2026-11-28); of 128 lanes, and
        # of two leaves, nothing is gained.
        warps = max(warps, 2)
    return Tuning(length=length, lanes=lanes, warps=warps, window=1, rows=rows)


def columns(shape: Shape, rows: Tuning) -> Tuning:
    """The tile of narrow elements of which a thread has several lanes' rows whole, else ``rows``.

    By shares of rows a thread and so (H200, 2026-11-24): float16 products of (101, 576912) 119 µs
    and 65, sums of (36, 1871154) 119 and 107; bytes of two lanes (77, 1126016) 87 and 173.
    """
    light = shape.leaves == 1 and shape.equations <= LIGHT and not shape.segmented
    if not light or shape.width > 2 or shape.n <= 16 or shape.tile is not None:
        return rows
    together = 8
    while shape.n * together * shape.width > 600 or shape.inner % together:
        together //= 2
        if together * shape.width < 4:  # a register holds four bytes
            return rows
    lanes, warps = (64 * together, 2) if together == 2 else (32 * together, 1)
    if shape.outer * -(-shape.inner // lanes) < 4 * measured.device().block_programs:
        return rows
    return Tuning(length=rows.length, lanes=lanes, warps=warps, window=1)


def suits_block(shape: Shape, tile: Tuning) -> bool:
    """Whether block is better for a row that fits.

    Not if its tiles are slivers of the lanes, nor if a row has more elements than its own tile or
    than 8192, 4096 by segments: bfloat16 rows of 16381 ran at 0.36 of copy speed (H200).
    """
    if shape.tile is not None:
        return shape.n <= shape.tile.length
    if shape.large:
        return shape.n <= THREADS
    longest = 4096 if shape.segmented else 8192
    fits = tile.length * min(tile.lanes, 8) <= longest
    return fits and tile.lanes >= min(32, next_power_of_2(shape.inner))


def suits_no_block(shape: Shape) -> bool:
    """Whether rows that fit a tile had better be several folded ones.

    Maximum and sum of exponentials of (16, 2048, 2649), float32, 0.45 of copy speed, and 0.71;
    sqrt(a² + b²) of (8, 4096, 1626), bfloat16, 0.40 and 0.49, but by segments of (30522, 1621),
    float16, 0.42 and 0.38 (H200, 2026-11-29).
    """
    if shape.inner > 1 or shape.outer * shape.n < FEWEST or shape.tile is not None:
        return False
    pair = is_heavy_pair(shape) and shape.even and shape.n >= 2048
    halves = (shape.leaves, shape.width) == (1, 2) and shape.roots and shape.n > 1024
    halves &= shape.equations <= LIGHT and not (shape.segmented or shape.long_steps)
    return (pair or halves) and shape.uneven


def several_of_a_block(shape: Shape, *, reverse: bool) -> int:
    """The positions of several tiles for rows of 64 bits that fit one; 0 where one is better.

    What takes several instructions spills: of copy speed, in a tile and so (H100, 2026-11-27), the
    least of (28996, 3174), float64, 0.36 and 0.80, the greatest of (16937, 3512), int64, 0.47 and
    0.89, a + b + a b of (32918, 1439), uint64, 0.67 and 0.88. But float64 affine of (32003, 2791)
    0.74 and 0.68, products of (32000, 2432), uint64, 0.96 and 0.91. Sums of rows that begin inside
    of words, from their ends, int64 (29191, 3023), 0.51, 0.87, and 0.92 by 1024 positions.
    """
    long = shape.n > 1024 and shape.outer * shape.n >= FEWEST and shape.inner == 1
    alone = (shape.width, shape.leaves) == (8, 1) and not shape.segmented and shape.tile is None
    if not (long and alone) or shape.long_steps:
        return 0
    if shape.extrema or (shape.integers and shape.equations > 1):
        return 512
    turned = reverse and shape.uneven and not shape.exclusive and shape.n >= SHORT
    return 1024 if turned and shape.equations == 1 else 0


def of_rows_backwards(shape: Shape, rows: Tuning) -> Tuning:
    """The tile of whole rows that begin inside of words, scanned from their ends, else ``rows``.

    Sums of int32, of copy speed, by one warp and so (H200, 2026-11-29): of (32381, 1867) 0.78 and
    0.84, of (16384, 3979) 0.61 and 0.73; but of float32, (52057, 1759), 0.95 and 0.85.
    """
    of_words = (shape.width, shape.leaves) == (4, 1) and shape.integers
    alone = of_words and shape.inner == 1 and shape.uneven
    light = shape.equations == 1 and not (shape.segmented or shape.exclusive)
    long = rows.rows == rows.warps == 1 and rows.length >= 2048 and shape.tile is None
    return dataclasses.replace(rows, warps=2) if alone and light and long else rows


# --- several programs a row ---------------------------------------------------------------------


def lookback(shape: Shape) -> Tuning:
    """The tile of a row that several programs share."""
    if shape.tile is not None:
        return shape.tile
    if shape.inner > 1:
        return _beside_lanes(shape)
    rule = first_match(measured.device().few, shape)
    return neighbours.cut(shape, rule or neighbours.full(shape))


def serial(shape: Shape) -> Tuning:
    """The tile of a walk by single tiles: of one warp, since every warp would read for itself."""
    tuned = _however_few(shape)
    if shape.tile is None and shape.inner == 1:
        # As much as it holds where several warps hold more.
        tuned = dataclasses.replace(tuned, length=max(tuned.length // tuned.warps, 256))
    return dataclasses.replace(tuned, window=1, warps=1)


def chain(shape: Shape) -> Tuning:
    """The tile of a row whose tiles wait for their neighbours: fat, because every one of them does.

    A hop from tile to tile takes 0.4 µs, whatever its length: sum of 2^26, 16384 tiles 6.6 ms, 2048
    tiles 1.06 ms (H200, 2026-11-22). Segments cut the chain.
    """
    tuned = _however_few(shape)
    if shape.tile is not None or shape.segmented or shape.inner > 1 or shape.large:
        return tuned
    fat = 1
    while fat < 8 and tuned.length * fat * 16 <= shape.n:
        fat *= 2
    return dataclasses.replace(tuned, length=tuned.length * fat, warps=fat)


def _however_few(shape: Shape) -> Tuning:
    """`lookback`, with a full tile however few elements there are."""
    if shape.tile is not None or shape.inner > 1:
        return lookback(shape)
    return neighbours.cut(shape, neighbours.full(shape))


def _beside_lanes(shape: Shape) -> Tuning:
    """The tile of a row whose elements have other rows' between them in memory."""
    lanes, warps = min(32, next_power_of_2(shape.inner)), 1
    # Of complex numbers a product has many equations, and is not heavy; logaddexp is.
    light = shape.equations <= (64 if shape.complex else LIGHT)
    steep = not light and (shape.complex or shape.long_steps) and not shape.segmented
    if steep and shape.inner in (3, 4) and (shape.leaves, shape.width) == (2, 8):
        # Maximum and sum of exponentials of (26362923, 3), float32, reversed, 0.16 of copy speed by
        # 256 x 4 and one warp, 0.23 so, logaddexp of (19410437, 4), complex64, 0.22 and 0.36 (H100,
        # 2026-11-28).
        return Tuning(length=512, lanes=4, warps=4, window=32)
    if shape.logaddexp and shape.width == 8 and 3 < shape.inner <= 12 and not shape.segmented:
        # float64, of 4 lanes 0.25 of copy speed by 256 x 4 and one warp, 0.34 so; of 6, 10 and 12
        # by 512 x 8 0.24, 0.20 and 0.23, and 0.27, 0.27 and 0.33: fewer lanes are none. By segments
        # of 9 and 11 0.16 and 0.17, 0.19 and 0.21 (H200, 2026-11-29).
        return Tuning(length=512, lanes=4, warps=4, window=32)
    if 4 < shape.inner < (32 if shape.leaves == 1 and light else 17):
        return _of_few_lanes(shape, light=light)
    length = min(measured.device().lane_elements // lanes // shape.registers, 1024)
    # Both together spill: logaddexp by segments, bfloat16, 972 to 2616 bytes with half the tile.
    length //= 2 ** (shape.segmented + (not light))
    heavy = shape.segmented and not light
    if (shape.width, shape.leaves) == (12, 3) and not light and not shape.segmented:
        # Welford of (151936, 512) 0.61 of copy speed with 16 positions, 0.76 so, of (32, 8192, 183)
        # 0.55 and 0.68 (H100, 2026-11-27).
        length = max(length, 32)
    if heavy and (shape.width, shape.leaves) == (4, 1) and not shape.exclusive:
        # logaddexp of (151936, 256), float32, 147 µs, 179 with 32 positions (H100, 2026-11-25), but
        # exclusive, of (1569, 51200), 283 and 249: 132 bytes spilled.
        length *= 2
    odd = odd_lanes.are_odd(shape)
    few = not light and 1 < shape.leaves <= 3 and shape.width <= 24
    few = few and not (shape.each == 8 and shape.long_steps)  # not measured; three leaves spill
    if length <= 16 and few and not (odd or (shape.segmented and shape.exclusive)):
        # Of copy speed, with 16 positions and so (H200, 2026-11-29): maximum and sum of
        # exponentials of (28996, 2048), float32, by segments, 0.59 and 0.69, complex products of
        # (8, 4096, 2048) 0.66 and 0.77, of (100277, 256), float64, 0.44 and 0.60, Welford's of
        # (49152, 1024), float64, 0.49 and 0.61; but exclusive, by segments, 0.72 and 0.45. Four
        # leaves of 64 bits would spill: complex128 recurrences 284 bytes, 2432 by flags (sm_90).
        length = 32
    if odd:
        length, lanes, warps = odd_lanes.cut(shape, length, light=light)
    # A word is a lane's, so a window of many lanes is dear, and one of few lanes has a long way to
    # go (benchmarks/NOTES.md, "The tile").
    window = 2 if lanes >= 32 else 8 if lanes == 16 else 16
    return Tuning(length=max(length, 16), lanes=lanes, warps=warps, window=window)


def _of_few_lanes(shape: Shape, *, light: bool) -> Tuning:
    """The tile of a row with 5 to 16 lanes, of one light leaf 31.

    Few threads have a lane each, and a tile is long. Of one light leaf, (5 10^6, 6), float32 sums,
    98 µs, 117 with 256 places and one warp; (441499, 19), int8 minima by segments, 28 and 69;
    (2^22, 12), bfloat16 sums, 122, 143 with 512 x 8. Of more, 32 elements a thread and four warps,
    beside one warp: recurrences of 11 lanes, float32 457 µs and 608, int8 312 and 614; of 6,
    bfloat16, 224 and 413; complex sums of 9, 504 and 779 (H200, 2026-11-23 and 24).
    """
    lanes, warps = 8, 4
    if shape.complex and not light and shape.segmented and shape.width == 8:
        # logaddexp of (13738611, 6), complex64, 1679 µs, 3014 with 64 places (H100, 2026-11-26).
        return Tuning(length=512, lanes=8, warps=4, window=16)
    if shape.leaves == 1 and light and shape.width < 4:
        if shape.segmented and shape.width == 2 and 8 < shape.inner <= 16:
            # Sums of 14 lanes, bfloat16, 121 µs, 166 with 1024 x 4.
            return Tuning(length=256, lanes=16, warps=4, window=8)
        if not 12 < shape.inner < 16:  # sums of 15 lanes, bfloat16, 164 µs, 201 with 1024 x 4
            return Tuning(length=1024, lanes=4, warps=4, window=32)
    if shape.leaves == 2 and shape.words == 1:
        if shape.inner <= 6:
            return Tuning(length=512, lanes=2, warps=1, window=16)
        if shape.width == 2:
            return Tuning(length=512, lanes=4, warps=4, window=32)
    length = 512 if shape.registers <= 2 else 1024 // shape.registers
    if shape.leaves > 1:
        length //= 2 ** (shape.segmented + (not light))
    if shape.segmented and 1 < shape.leaves <= 3 and not shape.even:
        # Flags and numbers by an operator of one's own, by segments, by four warps and so, of copy
        # speed (H200, 2026-11-29): int64 of 6 lanes 0.24 and 0.31, complex64 of 5 0.17 and 0.20,
        # bfloat16 of 10, by 256 positions and so, 0.20 and 0.23.
        return Tuning(length=min(max(length, 32), 128), lanes=lanes, warps=1, window=16)
    return Tuning(length=max(length, 32), lanes=lanes, warps=warps, window=16)


# --- by strategy --------------------------------------------------------------------------------

Ways = Mapping[str, Callable[[Shape], Tuning]]
"""The cut of rows that do not go into a tile whole, by the strategy."""

SCAN: Ways = {
    "auto": lookback,
    "block": lookback,
    "lookback": lookback,
    "serial_lookback": serial,
    "chained": chain,
    "repeatable": lookback,
    "reduce_then_scan": parts,
    "scan_then_propagate": lookback,
}
REDUCTION: Ways = {
    "auto": strips,
    "block": strips,
    "lookback": strips,
    "serial_lookback": alone,
    "chained": alone,
    "repeatable": strips,
    "reduce_then_scan": walks,
    "scan_then_propagate": tree,
}

TALKING = ("lookback", "serial_lookback", "chained")
"""Strategies whose tiles wait for each other. Asked for by name, they do so in short rows too."""


def chosen(shape: Shape, method: str, ways: Ways) -> Tuning:
    """The cut for the method, of a `SCAN` or a `REDUCTION`: of whole rows, if that suits them."""
    rows = None if method in TALKING else block(shape)
    if rows is not None:
        rows = whole(shape, rows) if ways is REDUCTION else slow_doubles.narrowed(shape, rows)
        several = ways is SCAN and slow_doubles.takes_several_tiles(shape)
        if method == "block" or (suits_block(shape, rows) and not several):
            return rows
    return ways[method](shape)
