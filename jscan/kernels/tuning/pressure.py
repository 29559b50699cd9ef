"""What fits the registers of a thread, which are 255; the rest is spilled to memory.

Checked by the compiler (benchmarks/results/static-sm-90.json), not by time.
"""

from __future__ import annotations

import dataclasses

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
