"""The tile of many lanes of rows that are no whole sectors, where it looks back.

Sectors at both ends of a tile's rows are another program's too, so that tiles are wide.
"""

from __future__ import annotations

from jscan.kernels.tuning import slow_doubles
from jscan.kernels.tuning.cut import LIGHT, SECTOR, Shape
from jscan.kernels.tuning.long_steps import is_complex_logaddexp

FEWEST = 900
"""Rows of fewer lanes are cut as others are."""
Cut = tuple[int, int, int]
"""Positions, lanes, and warps."""


def are_odd(shape: Shape) -> bool:
    """Whether a row of many lanes is no whole number of sectors, of the narrowest leaf.

    (2048, 16384) of float64, int32 and int8 0.74 of copy speed by 128 lanes, 0.81 by 32 (H200,
    2026-11-29).
    """
    each = shape.narrowest or shape.width // shape.leaves
    return shape.inner >= FEWEST and shape.inner * each % SECTOR > 0


def cut(shape: Shape, length: int, *, light: bool) -> Cut:
    """The cut of odd lanes, where one of 32 lanes and a warp would have so many positions.

    By 128 lanes and four warps, and that one (H200, 2026-11-23): (30522, 2549), bfloat16
    recurrences by segments, 616 µs and 1061 with 64 lanes; (1259, 26647), int8 recurrences, 68 and
    126; (30000, 999), logaddexp, 88 and 167.
    """
    narrower = _by_segments(shape, light=light) if shape.segmented else _whole(shape, light=light)
    if narrower is not None:
        return narrower
    if (shape.words, shape.leaves) == (1, 1) and light and not shape.segmented:
        # Sums of (33, 2048, 999), 181 µs, 201 with 128 lanes; but recurrences of (17299, 3967),
        # bfloat16, 225 and 195 (2026-11-24).
        return min(length, 64), 256, 8
    if shape.segmented and not light:
        if shape.leaves == 1:
            # logaddexp of (541, 149953), float32, 394 µs, 593 with 32 positions; but maximum and
            # sum of exponentials of (32003, 2942) 657, 748 with 16 (H100, 2026-11-25).
            return 16, 128, 4
        if (shape.width, shape.leaves) == (8, 2):
            return 32, 128, 4
    return length, 128, 4


def _are_products(shape: Shape) -> bool:
    """Whether two leaves of halves have as many steps as a complex product, and no long ones."""
    pair = (shape.leaves, shape.width) == (2, 4) and shape.even and not shape.long_steps
    return pair and LIGHT < shape.equations <= 2 * LIGHT


def _whole(shape: Shape, *, light: bool) -> Cut | None:
    """Fewer lanes where that is faster, of copy speed by 128 lanes and so (H200, 2026-11-29).

    Complex products of two leaves of halves, (11551, 4111), 0.41 and 0.56, (22409, 3319), in
    reverse, 0.45 and 0.55, but of an even number of lanes, (32, 1024, 1506), 0.48 and 0.41.
    Recurrences of complex64, (7946, 4501, 2), 0.68 and 0.77, (50257, 1023) 0.54 and 0.61, affine
    ones of (50265, 1105) 0.60 and 0.66. Places of the greatest of float64, (8929, 7993), 0.64 and
    0.82. As they were: maximum and sum of exponentials of float32 0.65 and 0.55, 0.57 and 0.64,
    Welford's 0.59 and 0.56, complex products of float32 0.66 and 0.55.
    """
    kind = (shape.leaves, shape.width)
    if _are_products(shape) and shape.inner % 2:
        return 64, 32, 1
    if kind == (4, 16) and shape.complex and light:
        return 32, 32, 1
    return (64, 32, 1) if kind == (2, 12) and light else None


def _by_segments(shape: Shape, *, light: bool) -> Cut | None:
    """The same by segments.

    Complex products of two leaves of halves, (2, 8192, 5378), 0.37 and 0.49, (78367, 1069) 0.37 and
    0.43, by flags of each row (4, 4096, 3665) 0.44 and 0.49. Three leaves that differ in width,
    (51200, 1255), 0.38 and 0.49, of bfloat16 (51200, 1755) 0.40 and 0.44, but (1024, 28996) 0.55
    and 0.47.

    logaddexp of float32: (1, 16384, 3286), in reverse, 0.48 and 0.61, (9859, 8389) 0.52 and 0.60,
    (4703, 14683) 0.59 and 0.62, but (1024, 50265) 0.66 and 0.55; exclusive (4211, 21871) 0.58 and
    by 64 lanes 0.65, (21283, 4297) 0.49 and 0.59, (32000, 1679) 0.45 and 0.50. Exclusive of halves
    (512, 50265) 0.43 and 0.46, (530, 100277) 0.41 and 0.46, (16273, 2939) 0.35 and 0.36. Of
    complex64 (7451, 11863), exclusive, in reverse, 0.55 and 0.57, (199, 273149) 0.57 and 0.62; in
    reverse (2341, 35083) 0.54 by 32 x 128, 0.62 by 16 x 128 (2026-11-28). Welford's of float64, (8,
    1024, 10281), 0.54 and 0.65.
    """
    kind = (shape.leaves, shape.width)
    mixed = shape.leaves == 3 and not (shape.even or shape.complex) and shape.width <= 9
    if mixed and light and shape.n > 2048:
        return 32, 64, 2
    if light:
        return None
    if _are_products(shape):
        return 32, 32, 1
    if shape.logaddexp and kind == (1, 4) and shape.n >= 4096:
        return (32, 64, 2) if shape.exclusive else (32, 32, 1)
    halves = shape.logaddexp and kind == (1, 2) and shape.exclusive
    doubles = slow_doubles.are_three(shape)
    return (16, 32, 1) if halves or doubles or is_complex_logaddexp(shape) else None
