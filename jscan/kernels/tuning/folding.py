"""The choice of a cut for rows whose neighbours threads fold (`kernels.folding`).

Rules are by classes of 221 cases of a walk, with 1469 forced cuts (H100, 2026-11-26;
benchmarks/NOTES.md, "Folded rows"). Shares of copy speed below are as cut before and folded.
"""

from __future__ import annotations

import dataclasses
from typing import TypeAlias

from jscan import extent
from jscan.kernels.tuning.cut import HEAVY, LIGHT, THREADS, Shape, Tuning
from jscan.kernels.tuning.long_steps import is_heavy_pair

FEWEST = 2**24
"""Fewer elements were not measured."""
LONG = 2**19
"""Rows of so many elements begin in so few tiles that these may be long."""
STRIP = 512
"""Positions of a strip of a tile in which a row begins, where such tiles are walked."""
SHORT = 2000
"""Shorter rows, one behind the other, begin in most tiles."""


@dataclasses.dataclass(frozen=True)
class Rows:
    """How the rows of a scan lie, and what is beside them.

    Attributes:
      row: the elements of each, where they are scanned one behind the other; else 0.
      walks: whether a tile in which one of these begins may be walked by strips.
      flags: the bytes of a head flag; 0 where there are none, or bits.
      reverse: whether they are scanned from their ends.
    """

    row: int = 0
    walks: bool = False
    flags: int = 0
    reverse: bool = False


def folded(shape: Shape, chosen: Tuning, rows: Rows) -> Tuning:
    """The tile that threads fold, where that is faster than what was ``chosen``, else that."""
    given = shape.tile is not None or chosen.rows > 1
    # How many are true before each, by segments: 16 neighbours of bytes are as many words of
    # results. `split_and_segment` of 2^26: its two scans 131 and 133 µs, folded 208 and 163 (H200,
    # 2026-11-23 and 28).
    given |= shape.wider_results and shape.segmented
    # Elements of many numbers are walked.
    steep = shape.long_steps and shape.leaves == 1
    otherwise = (steep and not shape.logaddexp) or shape.large or shape.walked
    few = shape.outer * shape.n < FEWEST
    if given or otherwise or few or shape.inner > 1 or shape.n >= extent.FAR:
        return chosen
    if (
        shape.leaves > 3 and not shape.complex
    ):  # eight leaves of bytes spill 744 bytes, four of halves 3094 (sm_90)
        return chosen
    if steep:
        cut = _of_logarithms(shape, rows)
    elif shape.segmented:
        cut = _by_segments(shape, rows)
    elif 0 < rows.row < SHORT:
        cut = _of_short_rows(shape)
    elif rows.row in (0, shape.n):
        cut = _of_one_row(shape, rows, chosen) if shape.outer == 1 else _of_rows_apart(shape)
    else:
        cut = _of_rows(shape, rows)
    if cut is None or (not rows.row and shape.n < 2 * cut[0]):
        return chosen
    length, fold, warps = cut
    strip = STRIP if rows.walks and rows.row >= 3 * length and not steep else 0
    return Tuning(length, 1, warps, window=THREADS * warps, strip=strip, fold=fold)


Folds: TypeAlias = tuple[int, int, int]
"""The length of a tile, the neighbours that are folded, and warps."""
WELFORD: Folds = (512, 4, 1)
"""Of three leaves of float32 with many equations. Welford's, of copy speed, by 256 places and so
(H100, 2026-11-28): (34, 2354859) 0.42 and 0.66, (6, 11243871), reversed, 0.58 and 0.77; by
segments (32, 256, 10559), exclusive, 0.65 and 0.68, (61863612,) 0.74 and 0.88."""


def _is_welford(shape: Shape) -> bool:
    """Whether there are three leaves of four bytes, and many equations."""
    words = (shape.leaves, shape.width) == (3, 12) and shape.even
    return words and 2 * LIGHT < shape.equations <= HEAVY and not shape.long_steps


def _of_uneven(shape: Shape) -> Folds | None:
    """The cut of rows of leaves that differ in width, such as flags and numbers, whole.

    By an operator of one's own that restarts at flags, of copy speed, as cut before and folded
    (H100, 2026-11-28): int32 (19, 4743883) 0.52 and 0.85, float32 (6, 14614665), reversed, 0.51 and
    0.79, (8, 7452894), reversed, exclusive, 0.37 and 0.71, (1091, 50257) 0.75 and 0.90, (1024,
    50265), reversed, 0.68 and 0.87; float64 (7, 13477987) 0.47 and 0.76, uint64 (33, 1694802) 0.47
    and 0.69, complex64 (73060439,), reversed, 0.53 and 0.83. The place of the greatest of (34,
    1620733), float16, 0.72 and 0.82, of (2, 23283901), int8, exclusive, 0.39 and 0.71.
    """
    if shape.long_steps or shape.equations > 2 * LIGHT:
        return None
    if shape.complex:
        return (1024, 2, 1) if (shape.leaves, shape.width) == (3, 9) else None
    if shape.leaves > 2:
        return None
    return (1024, 8, 1) if shape.width <= 7 else (1024, 2, 1)


def _of_logarithms(shape: Shape, rows: Rows) -> Folds | None:
    """The cut of rows under logaddexp (`kernels.folded_logaddexp`).

    Of copy speed, as cut before and so (H200, 2026-11-29). Halves from their ends: rows of 50257
    0.44 and 0.61, of 19157 0.47 and 0.68, exclusive 0.33 and 0.48, of 51200 0.73 and 0.89. Others
    where rows begin inside of words: of 188351 0.39 and 0.46, of 16066 0.55 and 0.65, of 156 0.67
    and 0.72; but of 32768 0.89 and 0.84, exclusive of 128256 0.80 and 0.72, of 14194469 0.56 and
    0.45, one of 91 million 0.66 and 0.55. Words: rows of 6081 from their ends 0.79 and 0.88, but of
    50291 0.85 and 0.78; exclusive of 149161 0.71 and 0.77.

    By segments, halves: one row 0.66 and 0.82, 0.48 and 0.60, exclusive 0.38 and 0.45, from its end
    0.52 and 0.57; rows of 30522 from their ends 0.58 and 0.79, of 50257 0.42 and 0.48; but of
    12261167 0.35 and 0.33, of 36619 from their starts 0.50 and 0.46. Words: one row 0.42 and 0.67,
    0.67 and 0.76, from its end 0.53 and 0.70; rows of 2113 0.49 and 0.56, of 3277 0.73 and 0.81.
    float64: one row 0.30 and 0.35, 0.42 and 0.44, exclusive 0.40 and 0.46, from its end 0.43 and
    0.44, but by segments of one 0.48 and 0.46; rows of 30522 0.43 and 0.48, from their ends 0.38
    and 0.40, of 50257 0.37 and 0.41, of 13859, exclusive, 0.32 and 0.33.
    """
    row = rows.row or shape.n
    one_row, long = shape.outer == 1 and row == shape.n, row >= LONG
    if shape.width == 2:
        if shape.segmented:
            return (1024, 8, 1) if one_row or rows.reverse != long else None
        if long or not (rows.reverse or (rows.row and not shape.exclusive)):
            return None
        return 1024, 8 if rows.reverse or row < SHORT else 16, 1
    if shape.width == 4:
        if shape.segmented:
            return 1024 if long else 512, 8, 1
        if one_row and shape.exclusive and not rows.reverse:
            # One row of 50 million float32, exclusive, 0.61 and 0.76.
            return 2048, 4, 1
        suits = not long if not rows.reverse else row < 2**14
        return (1024, 8, 1) if suits and shape.exclusive != rows.reverse else None
    if shape.segmented:
        return (1024, 8, 2) if one_row else (512, 8, 1)
    return None


def _by_segments(shape: Shape, rows: Rows) -> Folds | None:
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
    if shape.leaves > 2:
        return WELFORD if _is_welford(shape) and not 0 < rows.row < SHORT else None
    if each <= 2 and shape.width < 8:
        # Affine ones of (3003, 28996), bfloat16, exclusive, 0.61 and 0.72 (H100, 2026-11-28).
        apart = shape.outer > 1 and shape.exclusive and (shape.leaves, each) == (2, 2)
        return (512 if apart else 1024), 8, 1
    if each == 8 and shape.long_steps:
        # Maximum and sum of exponentials of float64, one row, in tiles of 128 0.27 and 0.44, folded
        # by eight 0.21, so 0.41 and 0.59 (H100, 2026-11-28).
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


def _of_short_rows(shape: Shape) -> Folds | None:
    """The cut of rows one behind the other of which one begins in most tiles.

    Maxima of (203670, 294), float16, 0.67 and 0.87, with 2048 places 0.82; sums of int16 rows of 7
    0.68 and 0.85; int64 rows of 17 0.72 and 0.88, by two neighbours 0.70; uint8 recurrences of 47
    0.47 and 0.65, by 16 neighbours 0.53; complex products of 7, float32, 0.84 and 0.92, with 1024
    places 0.79.
    """
    each = shape.width // shape.leaves
    if shape.complex or shape.leaves > 2:
        return None
    if not shape.even:
        return (1024, 8, 1) if shape.width <= 6 else None
    if each == 1:
        # a + b + a b of rows of 34, int8, exclusive, 0.51 and 0.63 (H100, 2026-11-28).
        several = shape.exclusive and 2 < shape.equations <= LIGHT
        return (2048, 16, 1) if shape.leaves == 1 and not several else (1024, 8, 1)
    if each == 2:
        return 1024, 8, 1
    return (1024 if (each, shape.leaves) == (4, 1) else 512), 4, 1


def _of_rows(shape: Shape, rows: Rows) -> Folds | None:
    """The cut of longer rows, one behind the other.

    Sums of (2048, 30522), int32, 0.82 and 0.95; affine, float32, 0.81 and 0.88; maximum and sum of
    exponentials 0.53 and 0.68 by two warps; the greatest by size of (17, 5014076), bfloat16,
    exclusive, 0.37 and 0.80, of (702, 100277), int16, 0.64 and 0.74. With 1024 places and as here
    (H200, 2026-11-28): of very long rows float16 sums of (20, 4698735) 0.63 and 0.84, bfloat16
    maxima of (16, 4767809) 0.64 and 0.85, float16 affine ones, in reverse, of (5, 11425111) 0.58
    and 0.63, float32 recurrences of (17, 3225671) 0.75 and 0.79, in reverse of (31, 1963254) 0.77
    and 0.81; of others float32 affine ones of (1024, 50257), in reverse, 0.67 and 0.81, exclusive
    complex products of (5573, 8867) 0.68 and 0.77. Of very long rows sums of (26, 2454274),
    bfloat16, reversed, 0.90 and 0.82, maxima of (6, 9743263), float32, exclusive, 0.96 and 0.94.
    """
    each = shape.width // shape.leaves
    simple = shape.leaves == 1 and shape.equations == 1
    if not shape.even:
        return _of_uneven(shape)
    if _is_welford(shape):
        return WELFORD
    if shape.complex or each > 4 or (shape.leaves > 2 and each > 1):
        return None
    if each == 1:
        return _of_bytes(shape, rows.row, shifted=rows.reverse or shape.exclusive)
    if simple and rows.row >= LONG and (rows.reverse or shape.exclusive):
        return None
    if each == 2:
        # With 1024 places and so (H200, 2026-11-29): products of (1283, 45853), float16, 0.84 and
        # 0.87, `and` of (941, 55511), int16, in reverse 0.76 and 0.87; but uint16 recurrences of
        # (2048, 26977) in reverse 0.82 and 0.79.
        light = shape.leaves == 1 and shape.equations <= LIGHT
        long = rows.row >= (2**14 if light else LONG) and not shape.long_steps
        return (2048 if shape.exclusive or long else 1024), 8, 1
    if shape.leaves == 2 and not shape.long_steps:
        if rows.row >= LONG:
            return 2048, 4, 1
        if rows.reverse and not rows.walks:
            return 512, 4, 1
    return 1024, 4, 2 if is_heavy_pair(shape) else 1


def _of_rows_apart(shape: Shape) -> Folds | None:
    """The cut of rows that begin with words, or inside of them beside operands of their own.

    Halves that begin with words, as cut before and so, of copy speed (H200, 2026-11-29): sqrt(a² +
    b²) of (533, 128256), bfloat16, 0.52 and 0.74, in reverse of (2048, 32768), float16, 0.74 and
    0.88; maxima of (389, 128256), int16, 0.79 and 0.91, sums of (1856, 28592), bfloat16, 0.89 and
    0.92; recurrences of (512, 128256), float16, in reverse 0.83 and 0.93, of (34, 2364208),
    bfloat16, 0.81 and 0.86, but with a start of (1493, 49152) 0.92 and 0.90.
    """
    if is_heavy_pair(shape) and shape.even and not shape.complex:
        return (1024, 4, 2) if shape.uneven else None
    each = shape.width // shape.leaves
    if not shape.even:
        return _of_uneven(shape)
    light = shape.equations <= LIGHT and not shape.long_steps
    if each == 2 and shape.leaves <= 2 and light and not shape.uneven:
        return (2048 if shape.leaves == 1 else 1024), 8, 1
    return _of_bytes(shape, 0) if each == 1 else None


def _of_one_row(shape: Shape, rows: Rows, chosen: Tuning) -> Folds | None:
    """The cut of one row.

    Of halves sqrt(a² + b²), float16, 0.51 and 0.79, bfloat16, 0.51 and 0.72 by two warps (0.60 by
    one and half the places); sums 0.87 and 0.94, but in reverse, bfloat16, 0.94 and 0.88;
    recurrences 0.81 and 0.88; complex products 0.75 and 0.89. Of words a + b + a b 0.85 and 0.94,
    but sums are at 0.95 and more as they are; Welford, exclusive, 0.74 and 0.82; recurrences that
    are held 0.92 and 0.87. Own flags and int32 0.61 and 0.86; the place of the greatest, bfloat16,
    0.76 and 0.87, float32 and 1024 places 0.81 and 0.86, float64 0.84 and 0.90.

    On an H200 sums of halves of whole words are faster held (`holding`), of others by one warp than
    by two: minima of 62188062, float16, 0.81 and 0.86, exclusive ones of 73364439 0.80 and 0.81
    (2026-11-28). Held and folded, others of whole words: minima of 50 million, bfloat16, 0.82 and
    0.86, maxima of float16 in reverse 0.79 and 0.87, sums of int16 in reverse 0.81 and 0.86, of
    bfloat16 0.76 and 0.78, exclusive products of bfloat16 in reverse 1.08 times as fast, sums of
    float16 1.09 times (2026-11-29).
    """
    each, light = shape.width // shape.leaves, shape.equations <= LIGHT
    if not shape.even:
        if shape.width <= 7:
            # Own flags and bfloat16, exclusive, 0.53 and 0.61 by two warps (H100, 2026-11-28).
            return 2048, 8, 2 if shape.exclusive and shape.width < 4 else 1
        if shape.leaves == 2 and shape.width > 9:
            return 1024, 2, 1
        if shape.words_and_byte and not shape.long_steps:
            # Sums, least and greatest of int32, float32 and int8, 0.56 and 0.77 (H200, 2026-11-28).
            return 1024, 4, 1
        return _of_uneven(shape)
    pair = (shape.leaves, shape.width) == (2, 16) and not (shape.complex or shape.long_steps)
    if pair and light and shape.exclusive:
        # Affine uint64, in reverse, 0.58 and 0.81 (H100, 2026-11-28).
        return 1024, 2, 1
    if shape.complex:
        # The same of complex64, by a lambda, 0.70 and 0.79 (H100, 2026-11-28).
        pair = (shape.leaves, shape.width) == (4, 16) and LIGHT < shape.equations <= HEAVY
        return (512, 2, 1) if pair and shape.exclusive else None
    if each == 1:
        if shape.equations > LIGHT * shape.leaves and not shape.exclusive:
            # min(a + b, 100) of 56 million uint8 0.45 with 4096 places and 0.54, the greatest by
            # size of 66 million int8 0.38 and 0.43 (H200, 2026-11-28).
            return 8192, 16, 2
        plain = shape.equations == 1 and not shape.extrema
        if plain and not (shape.uneven or shape.exclusive or rows.reverse):
            # Sums of 2^29 int8 0.82 and held 0.87, of 2^27 0.81 and 0.83; of 80000007 0.80 and
            # 0.73 (H200, 2026-11-29).
            return None
        return _of_bytes(shape, LONG)
    if each == 2 and shape.leaves == 1:
        if shape.selects and not shape.exclusive:
            # The greatest by size of 62603339 float16 0.63 and 0.87, of 69367500 bfloat16 in
            # reverse 0.36 and 0.79 (H100, 2026-11-28).
            return 2048, 8, 1
        if shape.equations == 1:
            held = shape.widened_sums and not (shape.uneven or shape.exclusive)
            as_they_lie = shape.uneven if rows.reverse else held
            return None if as_they_lie else (4096, 8, 1)
        return 4096, 8, 2
    if each == 2 and shape.leaves == 2:
        return None if shape.exclusive else ((4096 if light else 2048), 8, 1)
    if (shape.leaves, each) == (1, 8) and not shape.integers and 2 < shape.equations <= HEAVY:
        # Of float64 sqrt(a² + b²) 0.41 and 0.46, a + b + a b / 2, reversed, 0.72 and 0.80, the
        # greatest by size 0.74 and 0.86 (H100, 2026-11-28).
        return 1024, 2, 1
    if each in (2, 8) or chosen.held:
        return None
    if shape.leaves == 1:
        # min(a + b, 100) of 48 million float32, in reverse, 0.73 and 0.83 (H200, 2026-11-29).
        return (2048, 4, 1) if shape.equations > 1 else None
    if shape.leaves > 2:
        # Welford's 0.64 and 0.66, 0.68 and 0.70 (H200, 2026-11-29).
        return (1024, 4, 1) if shape.exclusive or _is_welford(shape) else None
    if is_heavy_pair(shape):
        # Maximum and sum of exponentials 0.70 and 0.77, by one warp 0.74.
        return 1024, 4, 2
    return (2048 if light and not shape.selects else 1024), 4, 1


def _of_bytes(shape: Shape, row: int, *, shifted: bool = False) -> Folds:
    """The cut of bytes.

    Recurrences of int8, one row, 0.42 and 0.71; the greatest by size 0.30 and 0.50, by two warps;
    sums of (31, 1618853) 0.69 and 0.82, with 2048 places 0.71; or of (512, 24842) 0.70 and 0.84,
    with 4096 places 0.72. Where words are turned, or read beside, a + b + a b of (6521, 11801),
    int8, reversed, 0.50 with 2048 places, 0.68 with 1024; min(a + b, 100) of (8951, 8623), uint8,
    reversed, 0.39 by two warps, 0.44 by one (H100, 2026-11-28).
    """
    alone = shifted and shape.leaves == 1 and shape.equations > 2 and 0 < row < LONG
    if shape.equations > LIGHT * shape.leaves:
        return (2048, 16, 1) if alone else (4096, 16, 2)
    if alone:
        return 1024, 16, 1
    return (4096 if row >= LONG and shape.leaves < 3 else 2048), 16, 1
