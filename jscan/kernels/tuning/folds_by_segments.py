"""The choice of folds by segments (`kernels.folding`): rules by kinds of elements.

Shares of copy speed are as cut before and folded.
"""

from __future__ import annotations

from jscan.kernels.tuning.cut import LIGHT, Shape
from jscan.kernels.tuning.folds import LONG, SHORT, WELFORD, Folds, Rows, is_welford


def by_segments(shape: Shape, rows: Rows) -> Folds | None:
    """The cut by segments.

    int8 recurrences, one row, 0.38 and 0.64; bytes of odd rows 0.28 to 0.43, and 0.49 to 0.66;
    bfloat16 and bits 0.76 and 0.90; float32 recurrences by ids 0.44 and 0.67; maximum and sum of
    exponentials 0.71 and 0.90 (512 places; 1024 0.80). A thread has eight neighbours of elements
    that are wider than their flags.
    """
    if shape.complex:
        # Sums of complex64 0.65 and 0.92 by two neighbours, 0.84 by eight.
        return (512, 2, 1) if shape.equations == 2 and shape.width == 8 else None
    each = shape.width // shape.leaves
    if each == 1 and shape.even:
        return 2048, 16 if rows.flags < 2 else 8, 1
    if shape.words_and_byte and not shape.long_steps:
        # Sums, least and greatest of int32, float32 and int8, of copy speed, with 256 places and so
        # (H200, 2026-11-28): (50000000,) 0.46 and 0.70, (62522237,) 0.71 and 0.80, (3559, 26249)
        # 0.70 and 0.80. Of bfloat16 for float32 0.69 and 0.57.
        return 1024, 4, 1
    if shape.leaves > 2 and 0 < rows.row < SHORT:
        return None
    halves = shape.width == (6 if shape.even else 7) and not shape.long_steps
    if shape.leaves == 3 and halves and shape.equations <= LIGHT:
        # Sums, least and greatest of 73 million uint16, with 512 places and so, 0.67 and 0.78, of
        # (2, 4096, 8192), bfloat16, 0.74 and 0.83; of bfloat16, float32 and int8, 93 million in
        # reverse, 0.69 and 0.78, (2048, 30522) 0.71 and 0.72 (H200, 2026-11-29).
        return 1024, 8, 1
    if shape.leaves > 2:
        return WELFORD if is_welford(shape) else None
    if each <= 2 and shape.width < 8:
        # Affine ones of (3003, 28996), bfloat16, exclusive, 0.61 and 0.72 (H100, 2026-11-28).
        apart = shape.outer > 1 and shape.exclusive and (shape.leaves, each) == (2, 2)
        return (512 if apart else 1024), 8, 1
    if each == 8 and shape.long_steps:
        # Maximum and sum of exponentials of float64, short rows.
        return 256, 2, 1
    alone = shape.leaves == 1 and not shape.long_steps
    few_rows = (rows.row or shape.n) >= LONG
    if each == 4 and shape.even and rows.flags and (shape.equations <= 2 or shape.integers):
        # Beside bits xor of int32 0.86 and 0.92; beside flags two leaves are left as they were:
        # int32 recurrences with a start 0.91 and, by eight neighbours, 0.82.
        both = few_rows and rows.reverse and shape.exclusive
        begin_whole = shape.outer > 1 and not (shape.uneven or few_rows)
        suits = alone and shape.equations <= LIGHT and not (both or begin_whole)
        return _beside_flags(shape, rows, few_rows=few_rows) if suits else None
    if each == 8 and alone and shape.equations <= LIGHT:
        # By eight neighbours and four, in reverse (H200, 2026-11-29): maxima of (1160, 49152),
        # int64, 0.75 and 0.89, `or` of (4957, 11657) 0.69 and 0.82, exclusive sums of 68 million
        # 0.65 and 0.80; but exclusive products of float64 0.73 and 0.63. Not in reverse integers
        # are alike, 43 calls of both 1.02 times as fast; float64 sums of 84 million 0.69, so 0.77.
        if rows.reverse and (shape.integers or not shape.exclusive):
            return 512, 4, 1
        if few_rows and not (rows.reverse or shape.exclusive or shape.integers):
            return 1024, 4, 1
    of_short = 0 < rows.row < SHORT and shape.exclusive and shape.leaves == 2
    half = shape.width > 8 or each > 4 or shape.long_steps or of_short
    return (512 if half else 1024), 8, 1


def _beside_flags(shape: Shape, rows: Rows, *, few_rows: bool) -> Folds:
    """The cut of a leaf of four bytes beside flags of a byte or more, under few steps.

    As they lie and so, of copy speed (H200, 2026-11-29): sums of 50 million int32 0.87 and 0.95,
    exclusive ones of float32 0.74 and 0.82, products of int32 0.73 and 0.79, minima of float32 in
    reverse 0.87 and 0.92, of int32 0.76 and 0.81; sums of (1024, 52118) 0.87 and 0.93, `or` of (18,
    4194304), exclusive, 0.83 and 0.87. Shifted, rows take half the places: `and` of (1201, 40639),
    exclusive, 0.75 and 0.84, a + b + a b of rows of 89 in reverse 0.76 and 0.85; but sums of (709,
    114451) in reverse 0.92 and 0.91. 55 calls were 1.03 times as fast, and one row from its end,
    exclusive, 0.90 times: of 50 million float32 0.62 and 0.47. That is left, and so are rows that
    begin with words: sums of (4096, 32768), float32, 313 µs and 320.
    """
    half = not few_rows and (rows.reverse or shape.exclusive)
    return (512 if half else 1024), 4, 1
