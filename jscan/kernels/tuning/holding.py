"""The choice of a cut for tiles that are held as they were read (`kernels.held`)."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable

from jscan import extent
from jscan.kernels.tuning import chunks, sharing, weaving
from jscan.kernels.tuning.cut import LIGHT, LONG, SECTOR, THREADS, Shape, Tuning, next_power_of_2

STRIP = 16
"""Positions of a strip of lanes."""


def as_read(
    shape: Shape,
    chosen: Tuning,
    *,
    reverse: bool,
    exclusive: bool,
    may_weave: Callable[[Tuning], bool] | None = None,
) -> Tuning:
    """The tile that is woven, or held, where that is faster than what was ``chosen``, else that.

    Few lanes are woven where a cut ``may_weave``. Tiles of an axis that is far cannot be held
    (`held.may_hold`), and would spill.
    """
    given = shape.tile is not None or chosen.rows > 1
    few_lanes = 1 < shape.inner < 32
    if few_lanes and may_weave is not None and not given:
        woven = weaving.of_few_lanes(shape)
        if woven is not None and woven.length < shape.n and may_weave(woven):
            return woven
    if given or shape.n >= extent.FAR:
        return chosen
    for of_any_operator in (_twice, _of_some_lanes, chunks.wide, _of_logarithms):
        found = of_any_operator(shape)
        if found is not None and found.length < shape.n:
            return found
    if shape.complex:
        return _of_complex_lanes(shape, chosen)
    most = LIGHT
    if few_lanes and shape.width == 8:
        most = chunks.MANY if shape.segmented else chunks.MANY // 2 if shape.leaves == 2 else LIGHT
    if shape.equations > most:
        return chosen
    if few_lanes:
        held = chunks.few_lanes(shape) or chosen
    elif shape.inner > 1:
        held = sharing.words(shape, _of_lanes(shape, chosen))
    else:
        held = _of_neighbours(shape, chosen, forward=not reverse, exclusive=exclusive)
    return held if held.length < shape.n else chosen


def _of_complex_lanes(shape: Shape, chosen: Tuning) -> Tuning:
    """The tile of complex64 lanes by segments, under an operator of few equations.

    Of copy speed, as cut before and held (H100, 2026-11-28): sums of (4759, 12569) by flags of each
    row 0.74 and 0.81, last writes of (345773, 173) by shared ones 0.72 and 0.76.
    """
    measured = (shape.leaves, shape.width) == (2, 8) and shape.segmented and shape.inner >= 64
    light = shape.equations <= 5 and not shape.long_steps  # a product has six
    return _held(chosen, 32) if measured and light and shape.n > 32 else chosen


def _of_neighbours(shape: Shape, chosen: Tuning, *, forward: bool, exclusive: bool) -> Tuning:
    """The tile of a row whose elements are neighbours in memory.

    Of copy speed, as chosen and held (H200, 2026-11-23): uint8, 2^28, sum 0.67 and 0.82, reversed
    0.62 and 0.73, maximum 0.59 and 0.68, reversed 0.58 and 0.77; int8 product 0.53 and 0.81,
    exclusive sum 0.53 and 0.68; int16 sum 0.75 and 0.85, float16 sum 0.83 and 0.84, exclusive
    bfloat16 0.78 and 0.76; float32 recurrence 0.79 and 0.91, reversed 1.01 and 0.94, bfloat16 0.68
    and 0.76. Segmented tiles are slower held: uint8 0.52 and 0.46, float16 0.78 and 0.70.
    """
    few = shape.outer * shape.n < 2**22
    # Tiles with places in front of a row are not held.
    leads = shape.outer > 1 and shape.uneven
    if few or leads or shape.segmented or chosen.warps > 1:
        return chosen
    of_one = shape.leaves == 1
    if of_one and shape.width == 1:
        # Exclusive xor takes 255 registers with 8192 places, 127 with 4096, and in reverse 199 and
        # 142; sums take 96 (sm_90).
        length = 4096 if exclusive and not shape.widened_sums else 8192
        return dataclasses.replace(chosen, length=length, held=512)
    if of_one and shape.width == 2 and shape.integers and not exclusive:
        return dataclasses.replace(chosen, length=4096, held=1024)
    if (shape.width, shape.leaves) == (4, 2):
        return dataclasses.replace(chosen, length=2048, held=512)
    if (shape.width, shape.leaves) == (8, 2) and forward:
        return dataclasses.replace(chosen, length=2048, held=1024)
    return chosen


def _of_lanes(shape: Shape, chosen: Tuning) -> Tuning:
    """The tile of a row whose elements have other rows' between them in memory.

    Of copy speed, as chosen and held (H200, 2026-11-23), the first axis of (100003, 1280) and
    (2^21, 64): float16 sums 0.59 and 0.71, 0.39 and 0.51; int8 sums 0.33 and 0.49, 0.23 and 0.46,
    but segmented 0.39 and 0.09. Of odd extents: float16 sums of (8197, 16381) 0.53 and 0.65, int8
    0.33 and 0.54; float32 sums of (100001, 671) 0.58 and 0.64, recurrences 0.80 and 0.82, of (2001,
    257, 257) 0.74 and 0.82, of (2^20, 64) 0.67 and 0.89.
    """
    if sharing.suits_halves(shape):
        # Of (33, 2048, 999), int16 maxima, exclusive, by segments, 0.55 of copy speed with 64
        # positions, 0.64 so; bfloat16 sums by shared flags 0.49 and 0.56, by flags of each row 0.33
        # and 0.51, sharing no lanes 0.61 (H100, 2026-11-28).
        odd = shape.segmented and shape.leaves == 1 and shape.inner % 2 == 1
        if odd and shape.own_flags:
            return _held(chosen)
        half = shape.leaves == 2 or (shape.segmented and (shape.exclusive or odd))
        return _held(chosen, 32 if half else 64, shared=16)
    length = sharing.length_of_words(shape)
    if length:
        return _held(chosen, length, shared=8)
    if _are_three_halves(shape):
        return _held(chosen)
    if shape.segmented:
        return _of_segmented_lanes(shape, chosen)
    if shape.inner < 33:
        return chosen
    of_64 = 64 <= shape.inner < 128 and shape.inner % 4 == 0 and shape.each == 1
    pair_in_a_chain = shape.leaves == 2 and shape.even and _is_one_chain(shape)
    if of_64 and (pair_in_a_chain or (shape.leaves == 1 and shape.equations > 2)):
        # a + b + a b of (2^20, 64), int8, 0.25 of copy speed held, which takes 255 registers, 0.46
        # in strips that are read twice, uint8 in reverse 0.19 and 0.46, int8 recurrences 0.19 and
        # 0.46 (H100, 2026-11-28).
        return Tuning(256, 64, warps=1, window=2, strip=STRIP)
    if _is_odd_and_light(shape):
        return _held(chosen)
    if (shape.width, shape.leaves) == (16, 2) and shape.inner >= 900 and shape.inner % 4:
        # uint64 recurrences of (16633, 3191) 0.71 of copy speed, 0.76 so (H100, 2026-11-28).
        return _held(chosen, 32, 32)
    pair = shape.leaves == 2 and shape.width <= 4
    cuts = _narrow_pair if pair else _narrow if shape.width < 4 else _wide
    cut = cuts(shape)
    if cut is None:
        return chosen
    length, lanes, warps = cut
    # Of whole sectors, 64 lanes, bfloat16 last writes of (30522, 2048) 0.82 of copy speed by four
    # tiles a window, 0.86 by two, uint16 a + b + a b of (2^20, 64) 0.53 and 0.70, uint8 sums 0.47
    # and 0.52; but float16 minima of (2, 32768, 1228) 0.67 and 0.63 (H100, 2026-11-28).
    near = pair or (lanes == 64 and shape.inner * shape.width % SECTOR == 0)
    window, strip = 2 if near else 4, 8 if cut == (64, 128, 1) else STRIP
    return dataclasses.replace(
        chosen, length=length, lanes=lanes, warps=warps, window=window, held=strip
    )


def _held(chosen: Tuning, length: int = 64, lanes: int = 64, shared: int = 0) -> Tuning:
    """The tile of so many positions and lanes by one warp, held in strips."""
    cut = dataclasses.replace(chosen, length=length, lanes=lanes, shared=shared)
    return dataclasses.replace(cut, warps=1, window=2, held=STRIP)


def _are_three_halves(shape: Shape) -> bool:
    """Whether there are three leaves of two bytes, and an even number of lanes.

    Sums, least and greatest, of copy speed, as cut before and held 64 x 64 (H100, 2026-11-28):
    bfloat16 (2, 16384, 2048) by offsets 0.49 and 0.74, (16, 1024, 2048), exclusive, 0.69 and 0.81;
    float16 (51200, 1024) by flags of each row 0.54 and 0.71.
    """
    halves = (shape.leaves, shape.width) == (3, 6) and shape.even and not shape.long_steps
    return halves and shape.inner >= 64 and shape.inner % 2 == 0


def _is_odd_and_light(shape: Shape) -> bool:
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


def _of_segmented_lanes(shape: Shape, chosen: Tuning) -> Tuning:
    """The same by segments.

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
        return _held(chosen, length, 32)
    sectors = shape.inner * each % SECTOR == 0
    if (shape.leaves, each) == (1, 4) and sectors and shape.n >= 4096 and shape.equations <= 2:
        # Minima of (50257, 512), int32, 0.74 of copy speed by 64 x 64, 0.82 so, maxima of (8192,
        # 4096) 0.88 and 0.91, exclusive float32 sums of (16, 4096, 512) 0.85 and 0.88; of (64,
        # 2048, 512) 0.84 and 0.82 (H100, 2026-11-28).
        return _held(chosen, 128, 32)
    if (shape.leaves, each) == (1, 1) and shape.exclusive and shape.inner % 4 and shape.inner > 96:
        # int8 (1581, 50257), exclusive, 0.29 of copy speed, 0.39 so (H100, 2026-11-28).
        return dataclasses.replace(_held(chosen, 128, 128), warps=4)
    by_words = shape.inner * each % 8 == 0 and shape.equations <= 2
    single = shape.leaves == 1 and each in (2, 4) and by_words
    pair = (shape.leaves, each) == (2, 1)
    odd = _is_odd_and_light(shape)
    if pair and shape.even and shape.inner % 4:
        # int8 recurrences of (100013, 671) by flags of each row 0.18 of copy speed by 64 x 64,
        # which spill 652 bytes, 0.47 so, by shared ones 0.29 and 0.36; of (33, 2035, 999) 0.49 and
        # 0.54, 0.45 and 0.48 (H100, 2026-11-28).
        return _held(chosen, 64, 32)
    if not (single or pair or odd):
        return chosen
    return _held(chosen)


def _twice(shape: Shape) -> Tuning | None:
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
        suits = shape.equations > 2 or shape.selects or shape.exclusive
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


def _of_some_lanes(shape: Shape) -> Tuning | None:
    """The tile of a long axis of 17 to 63 lanes, in strips that are read twice.

    Of shorter tiles there are so many that what came before takes longer to reach the last than all
    memory to be read: 18 ns a tile. Of copy speed, as cut before and so, 2^26 elements (H100,
    2026-11-27): int8 products of 28 lanes 0.24 and 0.31, by shared flags 0.22 and 0.45, of 41 0.26
    and 0.33, by shared flags 0.16 and 0.38; bfloat16 sums of 28 0.38 and 0.50, of 50 0.44 and 0.55,
    by shared flags 0.31 and 0.55; bfloat16 recurrences of 28 0.21 and 0.48, of 41 by shared flags
    0.19 and 0.45; uint8 recurrences of 19 by shared flags 0.09 and 0.36; bfloat16 logaddexp of 19
    0.20 and 0.28, by shared flags 0.10 and 0.30; float64 maxima of 41 0.32 and 0.58.

    But by flags of their own: bfloat16 sums of 41 0.59 and 0.46, float64 maxima 0.63 and 0.54. And
    float32 sums of 41 0.66 and 0.61, of 28 0.87 and 0.62.
    """
    each = shape.width // shape.leaves
    waits = shape.n >= LONG and (shape.outer <= (32 if each <= 2 else 8) or shape.long_steps)
    # As before for shorter axes, which were not measured.
    waits |= shape.long_steps and shape.segmented and shape.inner > THREADS
    one_or_two_alike = shape.leaves <= 2 and shape.even
    if not 16 < shape.inner < 64 or shape.inner == THREADS or not (waits and one_or_two_alike):
        return None
    lanes = THREADS if shape.inner < THREADS else 2 * THREADS
    if each > 2:
        shared = shape.segmented and not shape.own_flags
        beyond = shape.inner > THREADS and (shared or (each == 8 and not shape.segmented))
        suits = shape.leaves == 1 and beyond and not shape.long_steps
    elif shape.segmented and lanes > THREADS and shape.leaves == 1:
        suits = shape.long_steps or not shape.own_flags
    else:
        even = shape.segmented and each == 2 and shape.inner % 2 == 0
        suits = not (even and shape.leaves == 1 and shape.equations <= LIGHT)
    return Tuning(256, lanes, warps=1, window=2, strip=STRIP) if suits else None


def _of_logarithms(shape: Shape) -> Tuning | None:
    """The tile of one leaf of two bytes under logaddexp; None where that is not faster.

    Where rows are whole sectors, and there are no segments.

    Of copy speed, as cut before and so (H100, 2026-11-28): bfloat16 logaddexp of (50257, 1280) 0.64
    and 0.71, of (2^20, 64), whose tiles all wait for each other, 0.32 and 0.48.
    """
    halves = (shape.leaves, shape.width) == (1, 2) and shape.long_steps
    halves = halves and shape.equations > LIGHT  # others are held
    whole = shape.inner >= 64 and shape.inner * shape.width % SECTOR == 0
    if not (halves and whole) or shape.segmented:
        return None
    if _is_one_chain(shape):
        return Tuning(256, 64, warps=4, window=16)
    return Tuning(64, 64, warps=1, window=2)


def _is_one_chain(shape: Shape) -> bool:
    """Whether tiles of 64 lanes wait for nearly all others: in one column, or two."""
    return shape.outer * shape.inner <= 128 and shape.n >= LONG


def _narrow(shape: Shape) -> tuple[int, int, int] | None:
    """Length, lanes and warps for elements of one or two bytes."""
    if shape.leaves > 1 or shape.inner < 64:
        return None
    if shape.inner % (4 // shape.width) == 0:
        if shape.width == 2:
            # sqrt(a² + b²) of (100277, 512), float16, 0.43 of copy speed with 128 positions, 0.63
            # so, of (50257, 1024), bfloat16, 0.41 and 0.62 (H100, 2026-11-28).
            return 64 if shape.equations > 3 and shape.inner % 16 == 0 else 128, 64, 1
        lanes = min(256, next_power_of_2(shape.inner + 1) // 2)
        # With a warp for 128 lanes minima spill: (49152, 1024), 98 µs and 77 (H200, 2026-11-24).
        return (256, 64, 1) if lanes == 64 else (128, lanes, lanes // 64)
    if shape.inner < 1024:
        return None
    return (128, 128, 4) if shape.width == 2 else (128, 256, 4)


def _narrow_pair(shape: Shape) -> tuple[int, int, int] | None:
    """The same for two leaves of one or two bytes.

    Not held and held (H200, 2026-11-24), recurrences along the first axis: bfloat16 (100000, 512)
    206 µs and 165, (16, 4096, 1024) along the second 167 and 149; uint8 (28996, 2048) 178 and 163;
    int8 (1024, 50265) 144 and 101.
    """
    if shape.width == 4:
        # bfloat16 recurrences of (2^20, 64) 0.49 of copy speed with 64 positions, 0.62 so; of
        # (50257, 1280) 0.71 and 0.68 (H100, 2026-11-28).
        length = 128 if _is_one_chain(shape) else 64
        return (length, 64, 1) if shape.inner % 2 == 0 else None
    if shape.inner % 4 == 0:
        # Recurrences of (50257, 1024), uint8, 0.33 of copy speed by 32 x 128 in strips of 16, 0.49
        # so; of (32003, 2048), int8, 0.39 and 0.51 (H100, 2026-11-27).
        return (64, 128, 1) if shape.inner >= 128 else None
    return (64, 128, 4) if shape.inner >= 900 else None


def _wide(shape: Shape) -> tuple[int, int, int] | None:
    """The same for elements of four bytes and more, on axes with few lanes."""
    if shape.inner >= 900:
        return None
    if (shape.width, shape.leaves) == (8, 2):
        return 96, 32, 1
    sectors = shape.inner * shape.width % 32 != 0
    return (128, 64, 2) if (shape.width, shape.leaves) == (4, 1) and sectors else None
