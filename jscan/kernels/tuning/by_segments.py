"""The choice of a cut for lanes by segments: tiles held as they were read, or read twice."""

from __future__ import annotations

import dataclasses

from jscan.kernels.tuning import odd_lanes, sharing
from jscan.kernels.tuning.cut import LIGHT, LONG, SECTOR, STRIP, Shape, Tuning


def of_segments(shape: Shape, chosen: Tuning) -> Tuning:
    """The tile of lanes by segments: held, where that is faster than what was ``chosen``.

    Of copy speed, as chosen and held (H100, 2026-11-26): uint16 minima of (151936, 500), reversed,
    0.44 and 0.67; bfloat16 least sums of (1793, 51200), exclusive, 0.46 and 0.81; int32 products of
    (2048, 28996) 0.76 and 0.85; int8 recurrences of (32768, 1963) 0.24 and 0.43; float16 products
    of (100277, 256) 0.57 and 0.57, beside flags of bytes. But float16 maxima of (10601, 5119) 0.67
    and 0.65; float32 recurrences of (151936, 364) 0.57 and 0.50.
    """
    each = shape.width // shape.leaves
    if shape.inner < 64:
        return chosen
    if shape.even and shape.leaves <= 2 and (each == 8 or (each, shape.leaves) == (4, 2)):
        # Sums of int64 (13063, 3769) by flags of each row 0.74 of copy speed, 0.84 so, (13001,
        # 4679) by shared ones 0.76 and 0.83, of (32, 32768, 74) by ids 0.69 and 0.76; float64
        # products of (50257, 1280) by flags of each row 0.80 and 0.88. Recurrences of float64,
        # (8192, 8192), 0.75 and 0.88, (151936, 256) 0.71 and 0.81, uint64 (8389, 9151) 0.66 and
        # 0.81, int32 (100277, 256) 0.72 and 0.79, (132439, 383) 0.60 and 0.65, float32 (8192, 4096)
        # 0.80 and 0.88; places of the greatest of (577879, 97) 0.46 and 0.63 (H100, 2026-11-28).
        length = 64 if shape.width == 8 else 32
        affine = 2 < shape.equations <= LIGHT and not (shape.few_results or shape.selects)
        both = (each, shape.leaves) == (4, 2) and affine
        if both and shape.inner * each % SECTOR:
            # Affine ones of (22543, 3559), float32, in reverse, exclusive, 0.56 of copy speed by 64
            # x 32, 0.68 so, of (49152, 1253) by flags of each row 0.59 and 0.64; but places of the
            # greatest 0.52 and 0.43 (H200, 2026-11-28).
            return dataclasses.replace(held_strips(chosen, 64, 64), warps=2)
        return held_strips(chosen, length, 32)
    sectors = shape.inner * each % SECTOR == 0
    if (shape.leaves, each) == (1, 4) and sectors and shape.n >= 4096 and shape.equations <= 2:
        # Minima of (50257, 512), int32, 0.74 of copy speed by 64 x 64, 0.82 so, maxima of (8192,
        # 4096) 0.88 and 0.91, exclusive float32 sums of (16, 4096, 512) 0.85 and 0.88; of (64,
        # 2048, 512) 0.84 and 0.82 (H100, 2026-11-28).
        return held_strips(chosen, 128, 32)
    if (shape.leaves, each) == (1, 1) and shape.exclusive and shape.inner % 4 and shape.inner > 96:
        # int8 (1581, 50257), exclusive, 0.29 of copy speed, 0.39 so (H100, 2026-11-28).
        return dataclasses.replace(held_strips(chosen, 128, 128), warps=4)
    single = (shape.leaves, each) == (1, 4) and shape.inner % 2 == 0 and shape.equations <= 2
    pair = (shape.leaves, each) == (2, 1)
    if (shape.leaves, shape.width) == (2, 6) and shape.inner % 8 == 0 and not shape.long_steps:
        # The place of the greatest of bfloat16 by flags of each row, (8, 8192, 1024) 0.76 of copy
        # speed, 0.85 so, (65536, 1024) 0.70 and 0.78, (4, 16384, 1000) 0.66 and 0.77 (H100,
        # 2026-11-28).
        return held_strips(chosen, 64, 32)
    if pair and shape.even and shape.own_flags and shape.inner % 4 == 0 and shape.inner >= 128:
        # int8 recurrences of (8, 8192, 1024) 0.43 of copy speed by 64 x 64, 0.52 so, (64, 2048,
        # 512) 0.46 and 0.55 (H100, 2026-11-28).
        return held_strips(chosen, 64, 128, strip=8)
    if pair and shape.even and shape.inner % 4:
        # int8 recurrences of (100013, 671) by flags of each row 0.18 of copy speed by 64 x 64,
        # which spill 652 bytes, 0.47 so, by shared ones 0.29 and 0.36; of (33, 2035, 999) 0.49 and
        # 0.54, 0.45 and 0.48 (H100, 2026-11-28).
        return held_strips(chosen, 64, 32)
    if (shape.leaves, each) == (2, 2) and not shape.widened and halves_are_held(shape):
        # An affine lambda's, bfloat16, (8, 8192, 1024), by shared flags 0.57 of copy speed by 64 x
        # 64, which takes 255 registers, 0.68 so, by flags of each row 0.59 and 0.70; read twice
        # 0.82, 0.73 and 0.57 by segments of 10, 100 and 1000 (H100, 2026-11-28).
        return held_strips(chosen, 32, 64)
    held = single or pair or halves_are_held(shape) or is_odd_and_light(shape)
    return held_strips(chosen) if held else chosen


def halves_are_held(shape: Shape) -> bool:
    """Whether elements of two bytes, of rows of whole words, are held 64 x 64 by segments.

    Others are read twice, from their end only to the last restart: where segments are short that is
    no slower. Of copy speed, so and held (H100, 2026-11-28): bfloat16 recurrences by flags of each
    row (8, 8192, 1024) 0.52 and 0.79, (2^20, 64) 0.56 and 0.69; by shared ones (8, 8192, 1024) 0.72
    and 0.77, (52, 2500, 512), segments of 1000, 0.52 and 0.79, but (24695, 2304), segments of two,
    0.82 and 0.69; exclusive affine ones 0.69 and 0.68. Exclusive maxima of float16 by flags of each
    row (65536, 1024) 0.55 and 0.72; the greatest by size of bfloat16, the same, (8, 8192, 1024),
    inclusive, 0.55 and 0.71, by shared ones 0.65 and 0.60. Last writes of float16 by shared flags
    (50257, 512) 0.67 and 0.79, by those of each row 0.61 and 0.45.
    """
    even = shape.even and shape.width == 2 * shape.leaves and shape.inner * 2 % 8 == 0
    if not even or shape.leaves > 2 or shape.equations > LIGHT or shape.long_steps:
        return False
    if shape.leaves == 2:
        return not (shape.exclusive or shape.selects)
    if shape.equations > 2:
        return shape.own_flags and shape.selects and not shape.exclusive
    if shape.exclusive:
        return shape.own_flags and not shape.selects
    return not (shape.own_flags and shape.selects)


def twice(shape: Shape) -> Tuning | None:
    """The tile of segmented lanes in strips that are read twice; None where that is not faster.

    As cut before and so, of copy speed (H100, 2026-11-26): int8 sums of (81840, 1024) 0.39 and
    0.83; float16 sqrt(a² + b²) of (128256, 256) 0.38 and 0.47, logaddexp of (49152, 1024) 0.52 and
    0.70; the last of (1183, 51200), exclusive, 0.61 and 0.78, uint16 products of (30522, 1024) 0.49
    and 0.79, float16 minima of (32000, 1024) 0.52 and 0.76 (2026-11-27). But float32 logaddexp of
    (151936, 256) 0.71 and 0.62.
    """
    each = shape.width // shape.leaves
    if not shape.segmented or shape.leaves > 2 or shape.inner < 64 or each > 2:
        return None
    whole = shape.inner * each % 8 == 0
    if sharing.suits_halves(shape):
        suits = False
    elif (shape.leaves, each) == (1, 1):
        if whole:
            return _bytes_twice(shape)
        # min(a + b, 100) of (28996, 2595), uint8, 0.17 and 0.34 (2026-11-28).
        suits = shape.equations > LIGHT
    elif each == 2 and whole:
        suits = not halves_are_held(shape)
    else:
        # Recurrences of two bytes, by flags that lanes share: of (128256, 418) 0.45 and 0.59,
        # (133967, 523) 0.35 and 0.50, (32000, 1933) 0.32 and 0.39, (50257, 971) 0.40 and 0.42; by
        # flags of each row of (5237, 11969) 0.61 and 0.42; uint8 ones of (50257, 1280) 0.43 and
        # 0.47 (2026-11-28).
        # Exclusive sqrt(a² + b²) of (51200, 1143), by flags of each row, 0.48 and 0.64.
        light = shape.equations <= LIGHT and not shape.long_steps
        pairs = shape.leaves == 2 and shape.even and (each == 2 or whole) and shape.n > 4096
        steep = (shape.leaves, each) == (1, 2) and shape.exclusive and shape.equations > 2
        steep = steep and shape.own_flags and shape.n > 4096
        suits = light and (steep or (pairs and not shape.own_flags))
    return Tuning(256, 64, warps=1, window=2, strip=STRIP) if suits else None


def _bytes_twice(shape: Shape) -> Tuning:
    """The same of one byte.

    int8 minima of (32003, 1024), by flags that lanes share, 0.34 of copy speed by tiles of 256 and
    strips of 8, 0.51 by 128 and 16, maxima of (50257, 1280) 0.65 and 0.71; by flags of each row
    sums of these 0.50 and less than 0.42 (H100, 2026-11-28).
    """
    if shape.own_flags or shape.inner < 128:
        return Tuning(256, 128, warps=1, window=4, strip=8)
    return Tuning(128, 128, warps=1, window=2, strip=STRIP)


def is_odd_and_light(shape: Shape) -> bool:
    """Whether narrow elements, of rows that begin inside of words, are held 64 x 64.

    Of copy speed, as cut before and so (H100, 2026-11-27): uint16 maxima of (32, 8192, 213) 0.41
    and 0.51; bfloat16 sums of (4, 32768, 655) 0.50 and 0.60; uint8 xor of (49152, 1119) 0.39 and
    0.45; by segments, bfloat16 last writes of (4, 32768, 366) 0.48 and 0.63, int8 sums of (61381,
    1187) 0.36 and 0.44, uint8 products of (16, 1024, 3862) 0.37 and 0.48, but int8 maxima of (17,
    751, 5005) 0.52 and 0.45. Left as they were: uint8 sums of (16141, 3089) 0.51 and 0.47, bfloat16
    a + b + a b / 2 of (3, 112895, 257) 0.58 and 0.49, exclusive uint8 xor of (175141, 331) 0.44 and
    0.28, bfloat16 maxima of (10799, 5987) by segments 0.61 and 0.60.
    """
    narrow = shape.leaves == 1 and shape.width <= 2 and shape.inner >= 64
    if not narrow or shape.exclusive or shape.long_steps:
        return False
    row = shape.inner * shape.width
    if shape.segmented:
        few = shape.width == 1 or shape.inner < 900
        return row % 8 != 0 and few and shape.equations <= 3
    few = shape.inner < (2048 if shape.width == 1 else 900)
    return row % 4 != 0 and few and shape.equations <= 2


def are_sums_of_halves(shape: Shape) -> bool:
    """Whether sums of halves by segments are in wide tiles, of rows that are no whole sectors.

    By shared flags of fewer positions they are slower: bfloat16 (1024, 50265) 0.64 of copy speed
    and 0.59, (2048, 30522) 0.64 and 0.61 (H200, 2026-11-29).
    """
    many = shape.own_flags or shape.n >= 4096
    summed = shape.widened_sums and shape.segmented and not (shape.exclusive or shape.integers)
    return summed and many and odd_lanes.are_odd(shape)


def halves_beside_flags(shape: Shape, chosen: Tuning) -> Tuning:
    """The tile of sums of halves by segments, of many lanes of rows that are no whole sectors.

    Of copy speed, by 64 lanes, by 128 and two warps, and by 32 and a warp (H200, 2026-11-29):
    float16 (2474, 30522) by flags of each row 0.54, 0.65 and 0.40, (16384, 4531) 0.46, 0.54 and
    0.51, (29641, 1733) 0.39, 0.47 and 0.52; bfloat16 (5449, 10607) 0.51, 0.58 and 0.48.
    """
    if shape.inner < 2048:
        return held_strips(chosen, 64, 32)
    return dataclasses.replace(held_strips(chosen, 64, 128), warps=2)


def are_few_columns(shape: Shape) -> bool:
    """Whether tiles of 64 odd lanes are so few side by side that twice as long ones wait less.

    Narrow elements, whole, of copy speed by 64 positions and a warp, and by 128 and two warps
    (H200, 2026-11-29): bfloat16 sums of (293659, 223) 0.43 and 0.45, float16 ones of (421123, 167)
    0.40 and 0.45, of (267419, 251) 0.39 and 0.48, maxima of (262144, 303) 0.40 and 0.49, uint16
    `and` of (589903, 157) 0.39 and 0.43, int8 `or` of (375169, 163) 0.23 and 0.31, uint8 maxima of
    (366347, 257) 0.24 and 0.28; but of (152377, 359) 0.46 and 0.47, by segments of (237361, 367)
    0.50 and 0.49.
    """
    few = shape.outer == 1 and 128 < shape.inner <= 320
    return few and shape.n >= 2**18 and not shape.segmented


def of_complex(shape: Shape, chosen: Tuning) -> Tuning:
    """The tile of complex64 lanes by segments, under an operator of few equations.

    Of copy speed, as cut before and held (H100, 2026-11-28): sums of (4759, 12569) by flags of each
    row 0.74 and 0.81, last writes of (345773, 173) by shared ones 0.72 and 0.76. By 32 x 64 and 64
    x 32, sums of (65536, 1024) by flags of each row, in reverse, 0.79 and 0.89, of (8, 8192, 1024)
    0.85 and 0.91; products of these by shared ones 0.84 and 0.90, 0.85 and 0.92.
    """
    measured = (shape.leaves, shape.width) == (2, 8) and shape.segmented and shape.inner >= 64
    light = shape.equations <= 6 and not shape.long_steps
    if not (measured and light) or shape.n <= 32:
        return chosen
    whole = shape.inner * 8 % SECTOR == 0 and shape.n > 64
    return held_strips(chosen, *((64, 32) if whole else (32, 64)))


def held_strips(
    chosen: Tuning, length: int = 64, lanes: int = 64, *, shared: int = 0, strip: int = STRIP
) -> Tuning:
    """The tile of so many positions and lanes by one warp, held in strips."""
    cut = dataclasses.replace(chosen, length=length, lanes=lanes, shared=shared)
    return dataclasses.replace(cut, warps=1, window=2, held=strip)


def is_one_chain(shape: Shape) -> bool:
    """Whether tiles of 64 lanes wait for nearly all others: in one column, or two."""
    return shape.outer * shape.inner <= 128 and shape.n >= LONG
