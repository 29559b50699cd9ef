"""The choice of two passes over parts of lanes, which threads walk down strip by strip.

A pass for the totals reads a part from its end to where all its lanes have restarted: where
segments are shorter than parts it reads little. Nothing waits, and few registers are held. What is
not cut short is read twice, two thirds of copy speed at best; so these are shapes whose tiles that
look back are as slow by long segments, and slower by short ones.
"""

from __future__ import annotations

from jscan import extent
from jscan.kernels.tuning import chunks, measured
from jscan.kernels.tuning.cut import LIGHT, SECTOR, THREADS, Shape, Tuning, next_power_of_2
from jscan.kernels.tuning.long_steps import is_heavy_double

ENOUGH = 2**22
"""So many elements are cut so."""
COLUMN = 2**18
"""Fewer positions of 65 to 127 lanes were not measured."""
LONGER = 2**12
"""So many positions of an axis: as many parts keep a device busy."""


def of_lanes(shape: Shape) -> Tuning | None:
    """The parts of an axis beside 3 lanes and more; None where tiles that look back are better."""
    few = shape.outer * shape.n * shape.inner < ENOUGH or shape.n < LONGER
    if few or shape.tile is not None or shape.n >= extent.FAR:
        return None
    if chunks.long_tiles(shape) is not None:
        return None
    if not shape.even and (shape.inner >= 64 or (shape.leaves, shape.width) != (2, 12)):
        return None
    if shape.inner >= 64:
        return _of_many(shape)
    suits = _of_segments(shape) if shape.segmented else _whole(shape)
    many = shape.outer > (64 if shape.width >= 12 else 8)
    if shape.inner < 3 or many or not suits:
        return None
    lanes = next_power_of_2(shape.inner)
    # Recurrences of 15 lanes, whole: int64 0.54 of copy speed by strips of 32, 0.56 so, complex64
    # of 11 0.47 and 0.56; by segments 0.82 and 0.39, which spill.
    strip = max(16, min(64, 512 // lanes)) if shape.segmented else 64
    if (shape.leaves, shape.width) == (2, 8) and lanes < THREADS:
        strip //= 2
    if shape.width == 24:
        strip = max(8, min(32, 256 // lanes))
    return _cut(shape, lanes, strip)


def _whole(shape: Shape) -> bool:
    """Whether rows of few lanes without segments are cut so: pairs of 64 bits, and of halves.

    Of copy speed, in chunks and so (H100, 2026-11-28): int64 recurrences of (5592405, 6) 0.44 and
    0.53, of (2236962, 15) 0.53 and 0.56, complex64 of (3050402, 11) 0.46 and 0.56, float64 of
    (4580308, 14) 0.52 and 0.55; but float64 maxima of 28 lanes 0.72 and 0.61. bfloat16 recurrences
    of (4194304, 8) 0.58 in chunks of 64 positions, 0.46 in chunks of 32, 0.52 so: Triton's pass
    that coalesces accesses takes a time that grows with the cube of a program, of 12 lanes 80 s for
    chunks of 64 and 2 so. Of 64 bits 11 lanes and more are in `chunks.long_tiles` since.
    """
    if (shape.leaves, shape.width) == (2, 4):
        return 7 <= shape.inner <= 16 and shape.equations <= LIGHT and not shape.long_steps
    if (shape.leaves, shape.width) == (3, 24):
        return _are_three_doubles(shape)
    wide = shape.width == 16 and shape.leaves in (2, 4) and not shape.long_steps
    aligned = shape.complex and shape.inner == 8
    return wide and 5 <= shape.inner < 16 and shape.equations <= 16 and not aligned


def _of_segments(shape: Shape) -> bool:
    """Whether rows of few lanes by segments are cut so.

    Of copy speed, as cut before and so, by segments of 30 of each lane's own, and of 10,000 that
    all share (H100, 2026-11-28):

        int64 recurrences of 6, 15 lanes   .73 .62       .85 .82       .61 .55       .54 .57
        complex64 ones of 11               .58           .78           .51           .56
        float64 maxima of 19, 28, 41       .67 .78 .64   .84 .83 .79   .42 .55 .60   .60 .61 .61
        bfloat16 recurrences of 8          .57           .71           .49           .53
        bfloat16 ones of 19, 28, 41        .52 .57 .50   .58 .70 .54   .45 .55 .47   .39 .52 .39
        int8 products of 19, 28, 41        .44 .38 .39   .47 .44 .45   .39 .44 .38   .24 .32 .28
        bfloat16 logaddexp of 19, 28       .39 .29       .48 .41       .30 .38       .22 .30

    Other segments: maximum and sum of exponentials of (16678178, 3), float64, 0.26 and 0.59,
    Welford's of (29509407, 3), float32, 0.56 and 0.83; int64 maxima of 9 lanes, of 100,000, 0.41
    and 0.51; float32 recurrences of (3170311, 19), of each lane's own, 0.54 and 0.66, int32 of
    (899659, 53) 0.42 and 0.55; float32 affine of 5, of each lane's own, 0.55 and 0.74; the place of
    the greatest of (64, 32768, 16), float64, 0.68 and 0.80; float16 sums of 32 lanes 0.40 and 0.51.
    But int32 recurrences of (64, 16384, 32) 0.73 and 0.57, float32 ones of 6 that all share 0.66
    and 0.48, products of 14 lanes, int32, 0.78 and 0.57, float16 sums of 14 0.43 and 0.34.
    """
    if (shape.leaves, shape.width) == (3, 24):
        return _are_three_doubles(shape)
    each, pair, own = shape.width // shape.leaves, shape.leaves == 2, shape.own_flags
    beyond = shape.inner > 16 and shape.inner != THREADS
    wide = each == 8 and shape.leaves <= 2
    if wide or (shape.leaves, shape.width) in ((2, 12), (3, 12), (4, 16)):
        # logaddexp of (12337340, 4), float64, by segments of 30, 0.07 of copy speed in parts (H200,
        # 2026-11-29): each element twice by an operator of some 500 instructions.
        return shape.equations <= 16 and not is_heavy_double(shape)
    if (pair and each == 4) and not shape.long_steps:
        return beyond or (own and 5 <= shape.inner < 16)
    if pair and each == 2 and not shape.long_steps:
        return 5 <= shape.inner < 16 or (own and beyond)
    if shape.leaves > 1 or shape.inner < 5:
        return False
    if each == 1:
        return own and shape.inner > 12 and shape.equations <= 2
    if each == 2 and shape.long_steps:
        return own and 16 < shape.inner < THREADS
    if each == 2 and own and shape.inner > THREADS and not shape.long_steps:
        # bfloat16 minima of (1398581, 36), one segment, 0.12 of copy speed in tiles of 64 x 32, of
        # which one column is 22 ns a tile, 0.40 so; sums of (1320211, 47) by segments of 100 0.45
        # and 0.42 (H200, 2026-11-29).
        return shape.equations <= 2
    return each == 2 and shape.inner == THREADS and not own and shape.equations <= 2


def _are_three_doubles(shape: Shape) -> bool:
    """Whether there are three leaves of 64 bits beside 3 to 16 lanes.

    Tiles that look back combine totals of a window one by one, of which Welford's have a quotient
    each. Of copy speed, so and in parts (H200, 2026-11-28): Welford's of (11992158, 7), exclusive,
    0.06 and 0.13, of (6000000, 11) by segments of 100 0.08 and 0.28; sums, least and greatest of
    (6000000, 7) 0.29 and 0.59. Of 24 lanes, which a thread walks one by one, Welford's were off by
    90 units of the last place, in tiles by 14.
    """
    return shape.inner <= 16 and not shape.long_steps


def _is_one_column(shape: Shape) -> bool:
    """Whether 65 to 127 narrow lanes, of rows that are no whole sectors, are one column of parts.

    Tiles of 32 or 64 lanes share the sectors at their ends, and those of a column wait for each
    other. Of copy speed, as cut before and so (H200, 2026-11-29): int16 xor of 74 lanes 0.37 and
    0.42, bfloat16 last writes of 68 0.32 and 0.44, uint16 sums of 109 0.30 and 0.43, float16
    maxima of 89, exclusive, 0.41 and 0.43, by segments of 103 0.41 and 0.62, by flags of each row
    of 73 0.48 and 0.52; int16 recurrences of 89 0.32 and 0.41, of 109 lanes with one coefficient
    for all 0.22 and 0.42, float16 affine of 113 by flags of each row 0.39 and 0.57, complex
    products of two leaves of bfloat16 of 89 0.20 and 0.42, uint8 recurrences of 113 0.19 and 0.27.
    But of whole sectors int16 sums of 96 0.61 and 0.52, bytes of one leaf 0.38 and 0.36, logaddexp
    of 89 0.40 and 0.30, an affine operator of one's own by shared flags of 113 0.37 and 0.28.
    """
    narrow = (shape.leaves, shape.width) in ((1, 2), (2, 4), (2, 2))
    light = shape.equations <= 6 and not shape.long_steps
    measured_so_far = shape.leaves == 1 or not shape.segmented or shape.own_flags
    one_long = shape.outer == 1 and shape.n >= COLUMN and 64 < shape.inner < 128
    sectors = shape.inner * shape.each % SECTOR == 0
    return narrow and light and measured_so_far and one_long and not sectors


def _of_many(shape: Shape) -> Tuning | None:
    """The same of 64 lanes and more, by segments.

    Of copy speed, as cut before and so, with segments of how many (H100, 2026-11-28):

        complex64 recurrences of (9227, 7529)                                    10      0.55   0.89
        logaddexp of complex64, (2503, 29251), exclusive                         2       0.42   0.66
        maximum and sum of exponentials of (128256, 466), float64                        0.52   0.72
        Welford's of (50265, 1024), float64                                      10      0.72   0.89
        bfloat16 minima of (183713, 467), exclusive                              1       0.15   0.65
        bfloat16 sums of (16, 16384, 356), exclusive                             2       0.55   0.63
        bfloat16 recurrences of (100013, 671), of each lane's own                30      0.47   0.58
        the same of segments that all share                                      10000   0.35   0.45

    But by segments of 100 of each lane's own, float64 recurrences of (8192, 8192) 0.88 and 0.70; of
    100 and 10,000 float32 recurrences of whole sectors 0.79 and 0.75, 0.84 and 0.60; recurrences of
    (33, 2035, 999), bfloat16, 0.52 and 0.43.
    """
    if _is_one_column(shape):
        return _cut(shape, 128, 16 if shape.segmented or shape.leaves > 1 else 32)
    if not shape.segmented or shape.outer > 16:
        return None
    kind, shares = (shape.leaves, shape.width), shape.inner * shape.each % SECTOR != 0
    if shape.complex and shape.long_steps:
        return _cut(shape, 64, 8, shared=8) if kind == (2, 8) and shares else None
    if kind == (4, 16) and shape.complex:
        return _cut(shape, 32, 8, shared=8 * shares)
    if kind == (2, 16) and shape.long_steps:
        return _cut(shape, 32, 16, shared=4 * shares)
    if kind == (3, 24):
        return _cut(shape, 32, 8, shared=4 * shares)
    if shape.long_steps or not shares or shape.inner < 128:
        return None
    if kind == (1, 2) and shape.exclusive and shape.equations <= 2:
        return _cut(shape, 64, 16, shared=16)
    long = shape.n >= 8 * LONGER or (shape.own_flags and shape.n > 2 * LONGER)
    if kind == (2, 4) and long and shape.outer == 1 and shape.equations <= LIGHT:
        return _cut(shape, 64, 8, shared=16)
    return None


def _cut(shape: Shape, lanes: int, strip: int, shared: int = 0) -> Tuning | None:
    """As many parts as resident programs, of whole strips; None where that is one."""
    columns = shape.outer * -(-shape.inner // (lanes - shared))
    strips, parts = -(-shape.n // strip), measured.device().programs // columns
    if parts < 2:
        return None
    length = -(-strips // parts) * strip
    return Tuning(length, lanes, 1, 1, strip=strip, ahead=True, shared=shared)
