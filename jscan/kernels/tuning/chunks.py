"""The choice of a tile of few lanes that is cut into chunks, one a thread (`kernels.chunks`)."""

from __future__ import annotations

from jscan import extent
from jscan.kernels.tuning.cut import LIGHT, THREADS, Shape, Tuning, next_power_of_2

MANY = 16
"""Operators of more equations are not repeated for the positions of a chunk: programs would take a
minute to compile, for 32 equations and 32 positions."""


ENOUGH = 2**22
"""So many elements are in chunks."""
LONGER = 2**13
"""So many positions of an axis are in long tiles."""


def long_tiles(shape: Shape) -> Tuning | None:
    """The tile of 256 positions of a long axis beside 9 to 63 lanes; None where another is faster.

    A thread has two to four chunks of 16 positions. The shorter tiles are, the more of them are
    between a tile and the last that knows what came before. Of copy speed, as cut before and so,
    about 2^26 elements (H100, 2026-11-28):

        bfloat16 sums of 14 lanes, by flags of each lane, 16 by ids     .48 .79   .77 .79
        int32 sums of 16 lanes, bits of 13, maxima of 12, by segments   .81 .62 .68   .86 .70 .79
        float64 maxima of 11 lanes, sums of 25 and 41, by segments      .54 .73 .63   .75 .78 .68
        float64 sums of 12 and 22, int64 maxima of 14, by own flags     .70 .59 .56   .84 .73 .70
        float64 recurrences of 11, 18, 29 and 40 lanes                  .42 .28 .40 .38
                                                                        .54 .48 .51 .47
        float16 sums of 32 lanes, bfloat16 of (64, 32768, 30)           .42 .54   .75 .80
        bfloat16 maxima of 47 lanes, sums of 50                         .50 .55   .55 .66
        float32 recurrences of 22, 26 and 32 lanes                      .49 .54 .69   .63 .68 .76
        the place of the greatest of 20 lanes, float32                  .58   .68
        int32 recurrences of 32 lanes, by segments of 10,000            .52   .80
        float32 sums of 20 lanes, by segments of 10,000                 .46   .75
        int64 sums of 55 lanes, float32 of 37, bfloat16 of 28, own      .59 .62 .32   .76 .71 .56
        complex64 sums of 12, 16 and 40 lanes                           .68 .72 .66   .74 .81 .71

    But float16 minima of 19 lanes by segments 0.54 and 0.40, bfloat16 sums of 18 0.63 and 0.51,
    float32 sums of 41 0.83 and 0.74, float32 recurrences of 17 0.74 and 0.58, int64 ones of 12 0.79
    and 0.70, complex64 sums of 20 0.83 and 0.75, float64 ones of 41, of each lane's own, 0.75 and
    0.71; without segments bfloat16 recurrences of 24 lanes 0.46 and 0.42, of 12 0.52 and 0.33.
    """
    few = shape.outer * shape.n * shape.inner < ENOUGH or not LONGER <= shape.n < extent.FAR
    light = shape.equations <= MANY and not shape.long_steps
    light = light and (shape.width == 8 or not shape.complex)
    if few or not light or not shape.even or shape.leaves > 2 or not 8 < shape.inner < 64:
        return None
    if shape.inner <= 16:
        suits, lanes, warps = _suits_16(shape), 16, 4
    elif shape.inner <= THREADS:
        suits, lanes, warps = _suits_32(shape), THREADS, 4
    else:
        suits, (lanes, warps) = _suits_64(shape), _of_64(shape)
    return Tuning(256, lanes, warps, window=16, chunk=16) if suits else None


def _suits_16(shape: Shape) -> bool:
    """Whether 9 to 16 lanes are in long tiles."""
    pair = shape.leaves == 2
    if shape.complex:
        return not shape.segmented
    if not shape.segmented:
        return pair and shape.each == 8 and shape.inner > 10
    if pair or shape.each == 1:
        return False
    if shape.each == 2:
        # Of fewer, even lanes a thread takes two (`_segmented`), where that compiles soon enough.
        apart = shape.own_flags or shape.equations > 2
        return shape.inner > 13 or (shape.inner % 2 == 0 and apart)
    return shape.each == 8 or (shape.inner > 9 and shape.equations <= 2)


def _suits_32(shape: Shape) -> bool:
    """Whether 17 to 32 lanes are."""
    whole = shape.inner == THREADS
    if shape.complex or (shape.leaves == 2 and shape.each == 8):
        return not shape.segmented
    if shape.leaves == 2:
        return shape.each == 4 and (whole or not shape.segmented)
    if shape.each == 2:
        return whole or not shape.segmented or (shape.own_flags and shape.inner % 2 == 0)
    return shape.each == 8 or (shape.each == 4 and (whole or shape.segmented))


def _suits_64(shape: Shape) -> bool:
    """Whether 33 to 63 lanes are."""
    if shape.segmented:
        return shape.leaves == 1 and shape.each == 8 and not shape.own_flags
    if shape.each == 8:
        return True
    if shape.leaves == 2 or shape.each == 1:
        return False
    if shape.each == 4:
        return shape.outer <= 8
    return shape.inner % 2 == 1 or shape.inner >= 48


def _of_64(shape: Shape) -> tuple[int, int]:
    """Lanes and warps of the tile of 33 to 63 lanes."""
    all_lanes = shape.each == 4 or (shape.each == 2 and shape.inner % 2 == 0)
    return (64, 8) if all_lanes else (THREADS, 4)


def few_lanes(shape: Shape) -> Tuning | None:
    """The tile of a row of 5 to 31 lanes, in chunks; None where it is not faster so.

    Not in chunks and in chunks (H200, 2026-11-24): float32 sums of (2^22, 16) 206 µs and 177, of
    (3300001, 20) 305 and 197, of (5000003, 6) reversed 121 and 104; recurrences of (4933986, 11)
    490 and 370, of (2^22, 16) 492 and 383; int64 sums of (16010212, 5) 576 and 516. Halves: maxima
    of (2^22, 16) 245 and 112, sums of (3657793, 15) 163 and 136. But int8 maxima of (2^22, 12) 104
    and 144. Of 3 lanes all are slower so, by segments (2^24, 3) too. Maximum and sum of
    exponentials of (11631161, 7), float32, 0.30 and 0.61 of copy speed (H100, 2026-11-27).

    Pairs of bytes would take chunks of 64 positions: recurrences of (4387311, 11), int8, 297 µs and
    253, but Triton takes two minutes to compile them; of halves see `walked_parts`.
    """
    few = shape.outer * shape.n * shape.inner < ENOUGH
    if few or shape.inner < 5 or shape.width > 8 or shape.leaves > 2:
        return None
    lanes = max(8, next_power_of_2(shape.inner))
    if shape.segmented:
        return _segmented(shape, lanes)
    if shape.leaves == 2:
        if lanes == 32 or shape.words == 1:
            return None
        chunk, warps, window = 32, 8 if lanes == 16 else 4, 256 // lanes
    elif shape.width == 1:
        return None
    elif shape.width == 2 and shape.inner % 2 == 0 and lanes < 32:
        # A thread takes two lanes in a register.
        return _tile(lanes=lanes, chunk=32, warps=4, window=512 // lanes, together=2)
    else:
        chunk, warps, window = 64 // shape.words, 4, 256 // lanes
    return _tile(lanes=lanes, chunk=chunk, warps=warps, window=window)


def wide(shape: Shape) -> Tuning | None:
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
    few = shape.outer * shape.n * shape.inner < ENOUGH
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
    return _tile(lanes=lanes, chunk=chunk, warps=4, window=128 // lanes)


def _segmented(shape: Shape, lanes: int) -> Tuning | None:
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
        return _tile(lanes=lanes, chunk=32, warps=1, window=window, together=2)
    narrow_pair = shape.leaves == 2 and shape.words == 1
    several = shape.leaves == 2 or shape.width == 1
    # logaddexp is summed in a way of its own; others of one leaf were not measured in chunks.
    logarithms = shape.leaves == 1 and shape.long_steps
    if (lanes == 32 and several) or (narrow_pair and lanes == 16) or logarithms:
        return None
    # 32 positions of words would spill.
    wide = shape.width == 8 or (shape.leaves, shape.width) == (1, 4)
    if (shape.leaves, shape.width) == (1, 4) and lanes == 16 and shape.equations <= 2:
        # Where no `long_tiles` are. Of one chain that nothing cuts short, four warps and eight:
        # float32 sums of (10192817, 9) 0.28 and 0.44, int32 of (4580844, 12) by segments of 10,000
        # 0.42 and 0.65, products of (4245928, 14) by segments of 100 0.78 and 0.71; but a + b +
        # a b / 2 of (6462132, 11) by segments of 30 0.73 and 0.48 (H100, 2026-11-28).
        return _tile(lanes=lanes, chunk=16, warps=8, window=32)
    return _tile(lanes=lanes, chunk=16 if wide else 32, warps=4, window=128 // lanes)


def _tile(*, lanes: int, chunk: int, warps: int, window: int, together: int = 1) -> Tuning:
    """A tile of a chunk a thread."""
    length = 32 * warps * together // lanes * chunk
    return Tuning(length, lanes, warps, window, together=together, chunk=chunk)
