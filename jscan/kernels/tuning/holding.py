"""The choice of a cut for tiles that are held as they were read (`kernels.held`)."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable

from jscan import extent
from jscan.kernels.tuning import sharing, weaving
from jscan.kernels.tuning.cut import LONG, THREADS, Shape, Tuning, next_power_of_2

STRIP = 16
"""Positions of a strip of lanes."""
MANY = 16
"""Operators of more equations are not repeated for the positions of a chunk: programs would take a
minute to compile, for 32 equations and 32 positions."""
LIGHT = 4
"""Operators of more equations are not held: an element is combined once more than otherwise."""


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
    for of_any_operator in (_twice, _of_some_lanes, _in_wide_chunks):
        found = of_any_operator(shape)
        if found is not None and found.length < shape.n:
            return found
    if shape.complex:
        return chosen
    most = LIGHT
    if few_lanes and shape.width == 8:
        most = MANY if shape.segmented else MANY // 2 if shape.leaves == 2 else LIGHT
    if shape.equations > most:
        return chosen
    if few_lanes:
        held = _in_chunks(shape) or chosen
    elif shape.inner > 1:
        held = sharing.words(shape, _of_lanes(shape, chosen))
    else:
        held = _of_neighbours(shape, chosen, forward=not reverse, exclusive=exclusive)
    return held if held.length < shape.n else chosen


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
        length = 64 // shape.leaves
        return dataclasses.replace(_held_in_squares(chosen), length=length, shared=16)
    if shape.segmented:
        return _of_segmented_lanes(shape, chosen)
    if shape.inner < 33:
        return chosen
    if _is_odd_and_light(shape):
        return _held_in_squares(chosen)
    pair = shape.leaves == 2 and shape.width <= 4
    cuts = _narrow_pair if pair else _narrow if shape.width < 4 else _wide
    cut = cuts(shape)
    if cut is None:
        return chosen
    length, lanes, warps = cut
    window, strip = 2 if pair else 4, 8 if cut == (64, 128, 1) else STRIP
    return dataclasses.replace(
        chosen, length=length, lanes=lanes, warps=warps, window=window, held=strip
    )


def _held_in_squares(chosen: Tuning) -> Tuning:
    """The tile of as many positions as lanes, held in strips."""
    return dataclasses.replace(chosen, length=64, lanes=64, warps=1, window=2, held=STRIP)


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
    by_words = shape.inner * each % 8 == 0 and shape.equations <= 2
    single = shape.leaves == 1 and each in (2, 4) and by_words
    pair = (shape.leaves, each) == (2, 1)
    odd = _is_odd_and_light(shape)
    if shape.inner < 64 or not (single or pair or odd):
        return chosen
    return _held_in_squares(chosen)


def _twice(shape: Shape) -> Tuning | None:
    """The tile of segmented lanes in strips that are read twice; None where that is not faster.

    As cut before and so, of copy speed (H100, 2026-11-26): int8 sums of (81840, 1024) 0.39 and
    0.83; float16 sqrt(a² + b²) of (128256, 256) 0.38 and 0.47, logaddexp of (49152, 1024) 0.52 and
    0.70; the last of (1183, 51200), exclusive, 0.61 and 0.78, uint16 products of (30522, 1024) 0.49
    and 0.79, float16 minima of (32000, 1024) 0.52 and 0.76 (2026-11-27). But float32 logaddexp of
    (151936, 256) 0.71 and 0.62.
    """
    each = shape.width // shape.leaves
    if not shape.segmented or shape.leaves > 2:
        return None
    if shape.inner < 64 or shape.inner * each % 8:
        return None
    if (shape.leaves, each) == (1, 1):
        length, lanes, strip, window = 256, 128, 8, 4
    elif each == 2 and (shape.equations > 2 or shape.selects or shape.exclusive):
        length, lanes, strip, window = 256, 64, 16, 2
    else:
        return None
    return Tuning(length, lanes, warps=1, window=window, strip=strip)


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


def _in_chunks(shape: Shape) -> Tuning | None:
    """The tile of a row of 5 to 31 lanes, in chunks; None where it is not faster so.

    Not in chunks and in chunks (H200, 2026-11-24): float32 sums of (2^22, 16) 206 µs and 177, of
    (3300001, 20) 305 and 197, of (5000003, 6) reversed 121 and 104; recurrences of (4933986, 11)
    490 and 370, of (2^22, 16) 492 and 383; int64 sums of (16010212, 5) 576 and 516. Halves: maxima
    of (2^22, 16) 245 and 112, sums of (3657793, 15) 163 and 136, recurrences of (2^22, 16) 350 and
    245. int8 recurrences of (4387311, 11) 297 and 253, but maxima of (2^22, 12) 104 and 144. Of 3
    lanes all are slower so, by segments (2^24, 3) too. Maximum and sum of exponentials of
    (11631161, 7), float32, 0.30 and 0.61 of copy speed (H100, 2026-11-27).
    """
    few = shape.outer * shape.n * shape.inner < 2**22
    if few or shape.inner < 5 or shape.width > 8 or shape.leaves > 2:
        return None
    lanes = max(8, next_power_of_2(shape.inner))
    if shape.segmented:
        return _in_segmented_chunks(shape, lanes)
    if shape.leaves == 2:
        if lanes == 32 or (shape.inner < 7 and shape.words == 1):
            return None
        if shape.words == 1:
            chunk, warps, window = 64, 4, 128 // lanes
        else:
            chunk, warps, window = 32, 8 if lanes == 16 else 4, 256 // lanes
    elif shape.width == 1:
        return None
    elif shape.width == 2 and shape.inner % 2 == 0 and lanes < 32:
        # A thread takes two lanes in a register.
        return _chunked(lanes=lanes, chunk=32, warps=4, window=512 // lanes, together=2)
    else:
        chunk, warps, window = 64 // shape.words, 4, 256 // lanes
    return _chunked(lanes=lanes, chunk=chunk, warps=warps, window=window)


def _in_wide_chunks(shape: Shape) -> Tuning | None:
    """The same for 5 to 15 lanes of elements of more than 8 bytes; None where chunks do not suit.

    Of copy speed, not in chunks and in chunks (H100, 2026-11-27): int64 recurrences of (8625808,
    10) 0.23 and 0.41, of (3658540, 14) 0.36 and 0.42, uint64 of (7082043, 13) 0.45 and 0.56,
    complex64 of (5495058, 9) 0.27 and 0.36, of (6472445, 11) 0.43 and 0.46; Welford's of
    (10683315, 5) 0.27 and 0.42; float64 sums of (7080098, 12) beside flags of an operator of two
    leaves 0.39 and 0.60. But complex64 recurrences of 8 lanes 0.62 and 0.60. By segments, of 10,000
    and of 30: int64 recurrences of 6 lanes 0.32 and 0.61, 0.39 and 0.73, of 15 0.37 and 0.56, 0.41
    and 0.62; float64 of 11 0.28 and 0.51, 0.46 and 0.58; complex64 of 11 0.37 and 0.51, 0.45 and
    0.58.

    A tile that is not in chunks has 64 totals of its warps' rounds, which each thread combines one
    after another.
    """
    few = shape.outer * shape.n * shape.inner < 2**22
    quads = shape.width == 16
    light = shape.equations <= MANY and not shape.long_steps
    if few or not light or not 8 < shape.width <= 16 or (shape.segmented and not quads):
        return None
    fewest = 9 if quads and not shape.segmented else 5
    if not fewest <= shape.inner < 16 or shape.leaves > 4:
        return None
    lanes = 4 if quads and shape.inner <= 12 and not shape.segmented else 8
    # 32 positions of four words would spill.
    chunk = 16 if quads or shape.equations > LIGHT else 32
    return _chunked(lanes=lanes, chunk=chunk, warps=4, window=128 // lanes)


def _in_segmented_chunks(shape: Shape, lanes: int) -> Tuning | None:
    """The same by segments, of 5 to 31 lanes.

    Not in chunks and in chunks (H100, 2026-11-25): float64 minima of (5373325, 15) 1259 µs and 530,
    uint8 products of (5499276, 16) 364 and 209, recurrences of (7139141, 7), uint8, 328 and 211, of
    (8388608, 7), bfloat16, 385 and 271, maximum and sum of exponentials of (3271067, 15) 959 and
    704; but bytes of 11 lanes with flags of their own 658 and 752. Of copy speed, of 2^26 elements
    by segments of 10,000 and of 30 (H100, 2026-11-27): bfloat16 sums of 8 lanes 0.63 and 0.71, 0.46
    and 0.79, of 16 0.67 and 0.72, 0.57 and 0.83, of 28 0.33 and 0.49, 0.27 and 0.76; float32 sums
    of 28 0.53 and 0.59, 0.54 and 0.82; float64 maxima of 28 0.26 and 0.56, 0.39 and 0.78.
    """
    if (shape.leaves, shape.width) == (1, 2):
        if shape.inner % 2:
            return None
        # A thread takes two lanes in a register.
        window = max(2, 128 // lanes)
        return _chunked(lanes=lanes, chunk=32, warps=1, window=window, together=2)
    narrow_pair = shape.leaves == 2 and shape.words == 1
    several = shape.leaves == 2 or shape.width == 1
    # logaddexp is summed in a way of its own; others of one leaf were not measured in chunks.
    logarithms = shape.leaves == 1 and shape.long_steps
    if (lanes == 32 and several) or (narrow_pair and lanes == 16) or logarithms:
        return None
    # 32 positions of words would spill.
    wide = shape.width == 8 or (shape.leaves, shape.width) == (1, 4)
    return _chunked(lanes=lanes, chunk=16 if wide else 32, warps=4, window=128 // lanes)


def _chunked(*, lanes: int, chunk: int, warps: int, window: int, together: int = 1) -> Tuning:
    """A tile of a chunk a thread."""
    length = 32 * warps * together // lanes * chunk
    return Tuning(length, lanes, warps, window, together=together, chunk=chunk)


def _narrow(shape: Shape) -> tuple[int, int, int] | None:
    """Length, lanes and warps for elements of one or two bytes."""
    if shape.leaves > 1 or shape.inner < 64:
        return None
    if shape.inner % (4 // shape.width) == 0:
        if shape.width == 2:
            return 128, 64, 1
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
        return (64, 64, 1) if shape.inner % 2 == 0 else None
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
