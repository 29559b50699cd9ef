"""The choice of a tile of few lanes that is cut into chunks, one a thread (`kernels.chunks`)."""

from __future__ import annotations

from jscan.kernels.tuning.cut import LIGHT, Shape, Tuning, next_power_of_2

MANY = 16
"""Operators of more equations are not repeated for the positions of a chunk: programs would take a
minute to compile, for 32 equations and 32 positions."""


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
    few = shape.outer * shape.n * shape.inner < 2**22
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
        # Of one chain that nothing cuts short, four warps and eight, which look at more at once:
        # float32 sums of (10192817, 9) 0.28 and 0.44, int32 of (4580844, 12) by segments of 10,000
        # 0.42 and 0.65, products of (4245928, 14) by segments of 100 0.78 and 0.71; but a + b +
        # a b / 2 of (6462132, 11) by segments of 30 0.73 and 0.48 (H100, 2026-11-28).
        return _tile(lanes=lanes, chunk=16, warps=8, window=32)
    return _tile(lanes=lanes, chunk=16 if wide else 32, warps=4, window=128 // lanes)


def _tile(*, lanes: int, chunk: int, warps: int, window: int, together: int = 1) -> Tuning:
    """A tile of a chunk a thread."""
    length = 32 * warps * together // lanes * chunk
    return Tuning(length, lanes, warps, window, together=together, chunk=chunk)
