"""The choice of a cut for tiles that are held as they were read (`kernels.held`)."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable

from jscan import extent
from jscan.kernels.tuning import by_segments, chunks, sharing, weaving
from jscan.kernels.tuning.cut import (
    LIGHT,
    LONG,
    SECTOR,
    STRIP,
    THREADS,
    Shape,
    Tuning,
    next_power_of_2,
)


def suits_mirrored(shape: Shape) -> bool:
    """Whether tiles of a reversed logaddexp are held in scan order, as those of all others are.

    Beside many lanes Triton else scans in a layout that suits flags, which lanes share: of (32,
    1024, 2048), bfloat16, 14,284 instructions and 2830 (sm_90). Of copy speed (H100, 2026-11-28):
    bfloat16 (2, 1024, 32768) 0.17 and 0.82, (2, 43807173) 0.22 and 0.78, float32 (1696, 32000) 0.49
    and 0.91, float64 (128, 262144) 0.27 and 0.61, complex64 (2939, 12, 2278) 0.39 and 0.96, float16
    (64, 8192, 94) 0.19 and 0.49; without segments bfloat16 (16, 2995683) 0.72 and 0.79. But float32
    (8, 450847, 16) by segments 0.60 and 0.46, and few of 17 to 63 lanes were timed; and rows,
    float32 (81346884,) 0.93 and 0.54, float16 (256, 128256) 0.77 and 0.52.
    """
    return shape.inner > 16


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
        if woven is not None and woven.length < shape.n:
            if may_weave(woven):
                return woven
            if weaving.suits_unwoven(shape):
                return dataclasses.replace(woven, woven=0)
    if given or shape.n >= extent.FAR:
        return chosen
    of_kinds = (chunks.long_tiles, by_segments.twice, _of_some_lanes, chunks.wide, _of_logarithms)
    for of_any_operator in of_kinds:
        found = of_any_operator(shape)
        if found is not None and found.length < shape.n:
            return found
    found = _of_some_kinds(shape, chosen)
    if found is not None and found.length < shape.n:
        return found
    if shape.complex:
        return by_segments.of_complex(shape, chosen)
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


def _of_some_kinds(shape: Shape, chosen: Tuning) -> Tuning | None:
    """The held tile of many lanes of some kinds, whose operators may have more equations.

    Of copy speed, as cut before and held (H100, 2026-11-28). By segments the greatest by size of
    float32, (4, 16384, 1000), 0.71 and 0.82, (262000, 256) 0.83 and 0.89; but exclusive a + b + a b
    of uint32 (287449, 317) 0.67 and 0.60. Complex products of two leaves of bfloat16, (50257, 512),
    0.49 and 0.65, (8, 8192, 1024) 0.65 and 0.75; by segments these are as they were.
    """
    few = shape.outer * shape.n * shape.inner < weaving.ENOUGH
    measured = 2 < shape.equations <= chunks.MANY and not shape.long_steps
    if few or shape.inner < 64 or shape.complex or not measured:
        return None
    sectors = shape.inner * shape.each % SECTOR == 0
    found = _of_three(shape, sectors=sectors) if shape.leaves == 3 else None
    if found is not None:
        return by_segments.held_strips(chosen, *found)
    if (shape.leaves, shape.width) == (1, 4) and shape.segmented:
        # The greatest by size of (87323, 757), float32, 0.52 and 0.65, of (10363, 12, 327), int32,
        # in reverse, 0.62 and 0.70 (H200, 2026-11-28).
        light = shape.selects and not shape.exclusive and shape.inner > 256
        return by_segments.held_strips(chosen, 64, 32) if sectors or light else None
    products = (shape.leaves, shape.width) == (2, 4) and shape.equations > LIGHT
    whole = products and shape.even and sectors and not shape.segmented
    return by_segments.held_strips(chosen) if whole else None


def _of_three(shape: Shape, *, sectors: bool) -> tuple[int, int] | None:
    """Positions and lanes of the tile of three leaves.

    Of copy speed, as cut before and so (H100, 2026-11-28): Welford's of float32 (2^20, 64) 0.64 and
    0.77, (8, 8192, 1024) 0.81 and 0.86, but (100277, 935) 0.67 and 0.61; by shared flags (8, 8192,
    1024) 0.70 and 0.81, (33, 2048, 999) 0.50 and 0.56, by those of each row (50257, 512) 0.63 and
    0.76. Sums, least and greatest of float32 (50257, 512) 0.77 and 0.87, by flags of each row 0.63
    and 0.85, (33, 2048, 999) 0.52 and 0.61. Leaves of bfloat16 and float32 (8, 8192, 1024) 0.70 and
    0.80, by shared flags 0.59 and 0.81; (33, 2048, 999) as it was.
    """
    if shape.width == 12 and shape.even:
        if shape.equations <= LIGHT:
            suits = not (shape.segmented and shape.exclusive)
            return (64, 32) if sectors else (32, 64) if suits else None
        if shape.segmented and sectors:
            return 32, 32
        # Exclusive ones of (75181, 709), by segments, 0.43 and 0.27.
        suits = not shape.exclusive if shape.segmented else sectors or shape.inner < 900
        return (64, 32) if suits else None
    return (64, 32) if shape.width == 7 and shape.inner % 16 == 0 else None


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
    if of_one and shape.width == 2 and not exclusive:
        # Sums of 2^27, bfloat16, 0.86 of copy speed, 0.90 so, 0.79 folded; products of 50 million
        # 0.81, folded 0.78, maxima of float16 0.82 and 0.81; minima in reverse, float16, 0.74 and
        # so 0.80. Of rows, and of operators of more equations, nothing is gained (H200,
        # 2026-11-28). Fewer were not measured.
        alone = shape.outer == 1 and shape.equations == 1 and shape.n >= 2**24
        if shape.integers or alone:
            held = 1024 if shape.integers else 512
            return dataclasses.replace(chosen, length=4096, held=held)
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
        if by_segments.are_sums_of_halves(shape):
            return by_segments.halves_beside_flags(shape, chosen)
        odd = shape.segmented and shape.leaves == 1 and shape.inner % 2 == 1
        if odd and shape.own_flags:
            return by_segments.held_strips(chosen)
        half = shape.leaves == 2 or (shape.segmented and (shape.exclusive or odd))
        return by_segments.held_strips(chosen, 32 if half else 64, shared=16)
    length = sharing.length_of_words(shape)
    if length:
        return by_segments.held_strips(chosen, length, shared=8)
    if _are_three_halves(shape):
        return by_segments.held_strips(chosen)
    if _are_three_bytes(shape):
        return by_segments.held_strips(chosen, *((32, 64) if shape.segmented else (64, 64)))
    if shape.segmented:
        return by_segments.of_segments(shape, chosen)
    if shape.inner < 33:
        return chosen
    of_64 = 64 <= shape.inner < 128 and shape.inner % 4 == 0 and shape.each == 1
    pair_in_a_chain = shape.leaves == 2 and shape.even and by_segments.is_one_chain(shape)
    if of_64 and (pair_in_a_chain or (shape.leaves == 1 and shape.equations > 2)):
        # a + b + a b of (2^20, 64), int8, 0.25 of copy speed held, which takes 255 registers, 0.46
        # in strips that are read twice, uint8 in reverse 0.19 and 0.46, int8 recurrences 0.19 and
        # 0.46 (H100, 2026-11-28).
        return Tuning(256, 64, warps=1, window=2, strip=STRIP)
    if by_segments.is_odd_and_light(shape):
        held = by_segments.held_strips(chosen)
        if by_segments.are_few_columns(shape):
            return dataclasses.replace(held, length=128, warps=2, window=4)
        return held
    if (shape.width, shape.leaves) == (16, 2) and shape.inner >= 900 and shape.inner % 4:
        # uint64 recurrences of (16633, 3191) 0.71 of copy speed, 0.76 so (H100, 2026-11-28).
        return by_segments.held_strips(chosen, 32, 32)
    if (shape.leaves, shape.width) == (2, 3) and shape.inner >= 64 and shape.inner % 4 == 0:
        # Flags and numbers by an operator of one's own, bfloat16 (8, 2048, 4096), exclusive, 0.63
        # of copy speed by 64 x 128, 0.79 so, (2^20, 64) 0.27 and 0.53; float16 (30522, 1024) 0.47
        # and 0.70 (H100, 2026-11-28).
        return by_segments.held_strips(chosen, strip=8)
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


def _are_three_halves(shape: Shape) -> bool:
    """Whether there are three leaves of two bytes, and an even number of lanes.

    Sums, least and greatest, of copy speed, as cut before and held 64 x 64 (H100, 2026-11-28):
    bfloat16 (2, 16384, 2048) by offsets 0.49 and 0.74, (16, 1024, 2048), exclusive, 0.69 and 0.81;
    float16 (51200, 1024) by flags of each row 0.54 and 0.71.
    """
    halves = (shape.leaves, shape.width) == (3, 6) and shape.even and not shape.long_steps
    return halves and shape.inner >= 64 and shape.inner % 2 == 0


def _are_three_bytes(shape: Shape) -> bool:
    """Whether there are three leaves of a byte, of rows of whole words.

    Sums, least and greatest of int8, of copy speed, as cut before and held (H100, 2026-11-28): (8,
    8192, 1024) 0.45 and 0.53, (65536, 1024) 0.34 and 0.50; by flags of each row 0.34 and 0.46, 0.25
    and 0.43.
    """
    return (shape.leaves, shape.width) == (3, 3) and shape.inner >= 64 and shape.inner % 4 == 0


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
    float32 sums of 41 0.66 and 0.61, of 28 0.87 and 0.62. Of these, sums of bfloat16 and maxima of
    float64 without segments are in `chunks.long_tiles` since, which are faster still.
    """
    each = shape.width // shape.leaves
    waits = shape.n >= LONG and (shape.outer <= (32 if each <= 2 else 8) or shape.long_steps)
    # As before for shorter axes, which were not measured.
    waits |= shape.long_steps and shape.segmented and shape.inner > THREADS
    one_or_two_alike = shape.leaves <= 2 and shape.even
    # Sums, least and greatest of (2590589, 19), bfloat16, 0.14, and 0.40 (H200, 2026-11-29).
    three = (shape.leaves, shape.width) == (3, 6) and shape.even and shape.inner < THREADS
    three &= not shape.segmented
    alike = one_or_two_alike or three
    if not 16 < shape.inner < 64 or shape.inner == THREADS or not (waits and alike):
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

    Without segments, of copy speed, as cut before and so (H100, 2026-11-28): bfloat16 (50257, 1280)
    0.64 and 0.71, (64, 8192, 94) 0.52 and 0.64, (16, 8192, 712) 0.60 and 0.69; but (33, 2048, 999)
    0.65 and 0.50. Of those whose tiles all wait for each other (2^20, 64) 0.32 and 0.48, (570233,
    89) 0.40 and 0.51, float16 (698368, 96) in reverse 0.29, exclusive, and 0.45.
    """
    halves = (shape.leaves, shape.width) == (1, 2) and shape.long_steps
    halves = halves and shape.equations > LIGHT  # others are held
    if not halves or shape.inner < 64:
        return None
    if shape.segmented:
        return _of_logarithms_by_segments(shape)
    if by_segments.is_one_chain(shape):
        if shape.inner == 64:
            return Tuning(256, 64, warps=4, window=16)
        return Tuning(128, 32, warps=1, window=2)
    return Tuning(64, 64, warps=1, window=2) if shape.inner % 2 == 0 else None


def _of_logarithms_by_segments(shape: Shape) -> Tuning | None:
    """The same by segments, of many lanes, an even number, of rows that are no whole words.

    By 128 lanes and four warps two threads take a lane, whose positions are scanned in shared
    memory. Of copy speed, so, by two warps, and as here (H100, 2026-11-28): by flags of each row
    bfloat16 (2048, 30522) 0.41, 0.59 and 0.70, float16 (28996, 2254) 0.25, 0.36 and 0.54; by shared
    ones 0.47, 0.53 and 0.58, 0.31, 0.38 and 0.50. An odd number of lanes is left as it was.
    """
    if shape.inner < 900 or shape.inner % 2:
        return None
    if shape.own_flags:
        return Tuning(32, 64, warps=1, window=2)
    return Tuning(256, 64, warps=1, window=2, strip=8)


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
        length = 128 if by_segments.is_one_chain(shape) else 64
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
