"""Leaves under operators of long steps, such as exponentials: kinds of them, and their tiles."""

from __future__ import annotations

import dataclasses

from jscan.kernels.tuning.cut import Rule, Shape, Tuning


def is_heavy_double(shape: Shape) -> bool:
    """Whether there is one leaf of eight bytes, under functions of many instructions."""
    return shape.long_steps and (shape.width, shape.leaves) == (8, 1)


def is_heavy_half(shape: Shape) -> bool:
    """Whether there is one leaf of two bytes, under functions of many instructions."""
    return shape.long_steps and (shape.width, shape.leaves) == (2, 1)


def is_heavy_pair(shape: Shape) -> bool:
    """Whether there are two leaves of four bytes under exponentials, without segments."""
    return shape.long_steps and (shape.width, shape.leaves) == (8, 2) and not shape.segmented


def is_heavy_wide_pair(shape: Shape) -> bool:
    """Whether there are two leaves of eight bytes under exponentials."""
    return shape.long_steps and (shape.width, shape.leaves) == (16, 2)


def is_complex_logaddexp(shape: Shape) -> bool:
    """Whether complex64 is summed as exponentials."""
    pair = (shape.width, shape.leaves) == (8, 2) and shape.complex
    return pair and shape.equations > 64


def of_heavy_double(shape: Shape, rule: Rule) -> Rule:
    """The tile of one leaf of eight bytes, under functions of many instructions.

    A thread of few elements has a short program, and a tile of one row enough of them for the way
    back. logaddexp, float64, of copy speed: one row with 1024 places by one warp 0.28, by four 0.37
    (H100, 2026-11-26); by four, and with 2048, (66072620,) 0.37 and 0.45, exclusive (93971089,)
    0.36 and 0.45, in reverse (48108751,) 0.36 and 0.46, but (80140317,) 0.37 and 0.35 (H200,
    2026-11-29). Rows with 256 places and 512: (1766, 51200) 0.57 and 0.59, (2504, 32000), in
    reverse, exclusive, 0.51 and 0.53, (1024, 28996) 0.50 and 0.50; by segments (3631, 13859),
    exclusive, 0.32 and 0.28, (2022, 30522), in reverse, 0.38 and 0.30.
    """
    if shape.outer > 1:
        return dataclasses.replace(rule, length=256 if shape.segmented else 512, warps=1)
    return rule if shape.segmented else dataclasses.replace(rule, length=2048, warps=4)


def of_heavy_half(shape: Shape, rule: Rule, by_words: bool) -> Rule:
    """The tile of one leaf of two bytes, under functions of many instructions.

    logaddexp of bfloat16 by segments, of copy speed with 2048 places by two warps, and 1024 by one
    (H100, 2026-11-28): (2048, 30522) 0.76 and 0.89, (512, 100277) 0.51 and 0.63, (1815, 50265) 0.50
    and 0.54, but exclusive, (8, 2048, 5754), float16, 0.44 and 0.41. Without segments, exclusive,
    (572, 151936), 0.61 with 4096 places and 0.89 so.
    """
    if by_words and shape.exclusive:
        return dataclasses.replace(rule, length=2048, warps=2)
    shorter = by_words or (shape.exclusive and shape.outer > 1 and not shape.segmented)
    return dataclasses.replace(rule, length=1024) if shorter else rule


def is_heavy_plain(shape: Shape) -> bool:
    """Whether there is one leaf of four bytes at most, under exponentials, without segments.

    There are many elements, in several rows; or in one, of four bytes, that ends inside of a word.
    Two or three rows were not measured.
    """
    narrow = shape.leaves == 1 and shape.width in (2, 4) and not shape.segmented
    alone = shape.outer == 1 and (shape.width == 2 or not shape.uneven)
    enough = shape.outer * shape.n >= 2**24 and shape.outer not in (2, 3)
    return narrow and shape.long_steps and enough and not alone


def of_heavy_plain(shape: Shape, rule: Rule) -> Rule:
    """The tile of one leaf of four bytes at most, under exponentials, without segments.

    logaddexp, of copy speed with 4096 places and so (H200, 2026-11-28): float16 (256, 151936) 0.62
    and 0.85, (538, 151936) 0.63 and 0.88, bfloat16 (467, 151936) 0.64 and 0.87, in reverse (2048,
    32000) 0.60 and 0.85; float32 (256, 128256) 0.87 and 0.91, exclusive (4, 13781508) 0.55 and
    0.77, (610, 128256), in reverse, 0.53 and 0.88. One row, with 2048 places by one warp and 4096
    by four: (88119863,) 0.67 and 0.82, (49980223,) 0.70 and 0.76, but (61615951,) 0.84 and 0.81; of
    whole words (66309628,) 0.92, so 0.81.
    """
    if shape.outer == 1:
        return dataclasses.replace(rule, length=4096, warps=4)
    return dataclasses.replace(rule, length=1024, warps=1)


def by_one_warp(shape: Shape, chosen: Tuning) -> Tuning:
    """The tile of whole rows of halves under logaddexp by one warp, else what was ``chosen``.

    Of copy speed, by two warps and so (H200, 2026-11-29): rows of 1180 0.63 and 0.80, of 1500 0.76
    and 0.85, of 2048 0.92 and 0.98. From their ends and exclusive they were not timed.
    """
    of_halves = shape.logaddexp and shape.width == 2 and shape.inner == 1
    of_rows = chosen.rows == 1 and chosen.length == 2048 and shape.outer * shape.n >= 2**24
    if not (of_halves and of_rows) or shape.segmented or shape.exclusive or shape.tile is not None:
        return chosen
    return dataclasses.replace(chosen, warps=1)


def sums_walks(n: int, inner: int, each: int) -> bool:
    """Whether threads that walk down lanes under logaddexp, whole, sum strips of ``each`` bytes.

    Of copy speed, one element after another and so (H200, 2026-11-29): float32 (512, 100277) 0.62
    and 0.78, (32, 256, 4096), reversed, 0.74 and 0.90, (128, 524288) 0.87 and 0.90; float16 (256,
    311537) 0.54 and 0.61, (2, 256, 107891) 0.51 and 0.60, bfloat16 (4, 512, 25035), reversed, 0.47
    and 0.59. But float32 of odd lanes (167, 293431), exclusive, 0.86 and 0.77, (53, 1463987) 0.78
    and 0.71; float64 (16, 256, 18563) 0.63 and 0.56; by segments float16 (76, 896833) 0.57 and
    0.44, bfloat16 (16, 256, 11905) 0.53 and 0.42.
    """
    whole = inner * each % 32 == 0
    return each == 2 or (each == 4 and (whole or n >= 256))
