"""What fits the registers of a thread, which are 255; the rest is spilled to memory.

Checked by the compiler (benchmarks/results/static-sm-90.json), not by time.
"""

from __future__ import annotations

import dataclasses

from jscan.kernels.tuning import slow_doubles
from jscan.kernels.tuning.cut import Shape, Tuning, next_power_of_2

HELD = 384
"""The registers of a thread that elements of several arrays may take; it has 255, and most of these
elements are not needed at one time."""


def beside(shape: Shape, chosen: Tuning, arrays: int) -> Tuning:
    """The tile of a scan that reads and writes so many arrays, of which it scans few.

    A thread holds its elements of several of them at once: of eleven, 128 of each spill 12 kB and
    32 none; of five, 128 of each spill 1.1 kB and 64 none (benchmarks/NOTES.md, "Spills"). A tile
    of whole rows gets more warps instead. Where a lane is several threads', more is under way.
    """
    if shape.tile is not None:
        return chosen
    elements = chosen.rows * chosen.length * chosen.lanes // (32 * chosen.warps)
    held = elements * arrays * -(-shape.words // next_power_of_2(shape.leaves))
    limit = HELD // 2 if shape.inner > 1 and chosen.lanes < 32 else HELD
    while held > limit and elements > 8:
        if chosen.length >= shape.n:
            chosen = dataclasses.replace(chosen, warps=2 * chosen.warps)
        else:
            chosen = dataclasses.replace(chosen, length=chosen.length // 2)
        elements, held = elements // 2, held // 2
    return chosen


STEPS = 4
"""Operators of one wide leaf with so many equations need temporaries, for many elements at once."""
MANY_STEPS = 20
"""Of more, such as logaddexp, arithmetic decides, whatever the registers."""


def of_steps(shape: Shape, length: int) -> int:
    """The length of a tile whose operator may need temporaries.

    sqrt(a² + b²) of one row, 2^26 float32: 174 registers with 4096 positions, so that an SM held
    eight warps, issued in 28 % of cycles and waited for memory that was busy in 62 % (H100,
    2026-11-25). Of float64 by flags 218 with 1024, 126 with 512; of float16 172 with 4096, 80 with
    2048 (sm_90). But logaddexp, whose steps are long ones: 65 million float64 1289 µs, 1681 with
    half the tile (H100, 2026-11-25).
    """
    several = STEPS <= shape.equations < MANY_STEPS and not shape.long_steps
    half = shape.width == 2 and not shape.integers
    one = shape.leaves == 1 and (shape.width >= 4 or half)
    return max(length // 2, 256) if one and several else length


def of_restarts(shape: Shape, length: int) -> int:
    """The length of a tile in which rows begin: flags beside elements of eight bytes and more.

    Sums of int64 rows of 17: 254 registers with 1024 positions, 124 with 512 (sm_90); an H100 ran
    the first at 0.63 of copy speed, memory busy in 57 % of cycles.
    """
    return min(length, 512) if shape.width >= 8 and shape.leaves == 1 else length


def with_flags_in_front(shape: Shape, chosen: Tuning) -> Tuning:
    """The tile of an exclusive scan whose first tile has flags, of three words an element and more.

    Welford of one row, 1024 places: 168 registers without, 255 with them (sm_90). An H100 took as
    long with 512 places as with 1024, 1723 and 1705 µs with the passes behind it, which are gone.
    """
    given = shape.tile is not None or shape.segmented or shape.inner > 1
    given |= chosen.fold > 0 and slow_doubles.are_folded(shape)
    if given or shape.words < 4 or chosen.length >= shape.n:
        return chosen
    return dataclasses.replace(chosen, length=max(chosen.length // 2, 256))


def of_a_warp(shape: Shape) -> int:
    """The elements of a tile of whole rows that a warp can hold while it combines them.

    Rows of 4000, two leaves: affine 255 registers and none spilled (benchmarks/NOTES.md, "Spills").
    """
    if shape.long_steps and shape.leaves > 1:
        # Maximum and sum of exponentials, rows of 2649, float32, 1023 µs by four warps, 1800 by
        # two; of 1002, float64, by segments, 526 by four and 1100 by one (H100, 2026-11-26).
        return max(256, 4096 // shape.registers**2)
    if shape.selects and shape.leaves == 2 and not shape.even:
        # The place of the greatest of rows of 1753, float16, from the other end, of copy speed by
        # one, two, four and eight warps 0.24, 0.40, 0.60 and 0.51 (H100, 2026-11-27).
        return 512
    flags_of_wide = shape.segmented and shape.words > shape.leaves
    pressure = shape.registers * (2 if shape.equations > 4 or flags_of_wide else 1)
    return 4096 * 2 // max(2, pressure)


def more_warps(shape: Shape) -> int:
    """How many times as many warps rows of over a thousand elements take as would hold them.

    Of copy speed, by as many warps as hold a row and by four times as many (H100, 2026-11-28). By
    segments, recurrences of rows of 4096, float32, in reverse, 0.52 and 0.96, float16 0.77 and
    0.97, an affine lambda's of 4096, float32, 0.71 and 0.97, of 1500, float16, 0.66 and 0.88; sums
    of 3000, float32, 0.46 and 0.93; maxima of 2500, float32, 0.47 and 0.83; logaddexp of 4096,
    float16, 0.43 and 0.67. Whole, the greatest by size of 5000, int32, 0.51 and 0.85, of 6000,
    bfloat16, 0.59 and 0.93. But by segments maxima of 1500, bfloat16, 0.87 and 0.81, affine ones of
    1500, int8, whose rows begin inside of words, 0.78 and 0.51; sums of 2048, float32, exclusive,
    0.97 and 0.91. Of 64 bits, by segments, twice: sums of 3000, int64, 0.43 and 0.66, of 2500 0.81
    and 0.88, by four times 0.72 and 0.76; products of 2500, float64, 0.89 and by four times 0.73.
    Of two bytes, by segments, by one warp, two and four, of which rows of up to 2048 get two: sums
    of 3000, float16, 0.48, 0.75 and 0.92, of 4096 0.73, 0.79 and 0.94, in reverse 0.63, 0.80 and
    0.92, of 2048 0.88, 0.95 and 0.99, of 1536, bfloat16, 0.87, 1.00 and 0.87; maxima of 3000 0.60,
    0.70 and 0.87.
    """
    if shape.inner > 1:
        return 1
    several = shape.leaves > 1 or shape.equations > 2
    if shape.each == 1:
        return 4 if several and shape.n % 16 == 0 else 1
    if shape.each == 8 and shape.segmented:
        return 2
    beside = shape.segmented and shape.exclusive and shape.uneven
    if shape.each == 2 and shape.segmented and not several:
        return 2 if shape.uneven and not beside else 4
    long = shape.each > 2 and shape.segmented and shape.n > 2048
    return 4 if several or beside or long else 1
