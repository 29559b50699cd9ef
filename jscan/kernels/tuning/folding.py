"""The choice of a cut for rows whose neighbours threads fold (`kernels.folding`).

Rules are by classes of 221 cases of a walk, with 1469 forced cuts (H100, 2026-11-26;
benchmarks/NOTES.md, "Folded rows"). Shares of copy speed below are as cut before and folded.
"""

from __future__ import annotations

from jscan import extent
from jscan.kernels.tuning import folds_by_segments, slow_doubles
from jscan.kernels.tuning.cut import HEAVY, LIGHT, THREADS, Shape, Tuning
from jscan.kernels.tuning.folds import (
    FEWEST,
    LONG,
    SHORT,
    STRIP,
    WELFORD,
    Folds,
    Rows,
    is_welford,
)
from jscan.kernels.tuning.long_steps import is_heavy_pair


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
    elif slow_doubles.are_folded(shape) and not 0 < rows.row < SHORT:
        cut = slow_doubles.folds(shape, rows.row or shape.n)
    elif shape.segmented:
        cut = folds_by_segments.by_segments(shape, rows)
    elif 0 < rows.row < SHORT:
        cut = _of_short_rows(shape)
    elif rows.row in (0, shape.n):
        cut = _of_one_row(shape, rows, chosen) if shape.outer == 1 else _of_rows_apart(shape, rows)
    else:
        cut = _of_rows(shape, rows)
    if cut is None:
        return chosen
    length, fold, warps = cut
    # Rows of halves under roots fill a tile and a bit (`choose.suits_no_block`).
    halves = shape.roots and shape.each == 2
    if not rows.row and shape.n < (length if halves else 2 * length):
        return chosen
    strip = STRIP if rows.walks and rows.row >= 3 * length and not steep else 0
    return Tuning(length, 1, warps, window=THREADS * warps, strip=strip, fold=fold)


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
    if is_welford(shape):
        return WELFORD
    if shape.complex or each > 4 or (shape.leaves > 2 and each > 1):
        return None
    if each == 1:
        return _of_bytes(shape, rows.row, shifted=rows.reverse or shape.exclusive)
    if simple and rows.row >= LONG and (rows.reverse or shape.exclusive):
        return None
    if each == 2:
        return _of_halves(shape, rows.row), 8, 1
    if shape.leaves == 2 and not shape.long_steps:
        if rows.row >= LONG:
            return 2048, 4, 1
        if rows.reverse and not rows.walks:
            return 512, 4, 1
    return 1024, 4, 2 if is_heavy_pair(shape) else 1


def _of_halves(shape: Shape, row: int) -> int:
    """The length of a tile of halves, of rows one behind the other of which each is so long.

    With 1024 places and 2048 (H200, 2026-11-29): products of (1283, 45853), float16, 0.84 and 0.87,
    `and` of (941, 55511), int16, in reverse 0.76 and 0.87; but uint16 recurrences of (2048, 26977)
    in reverse 0.82 and 0.79. Shifted, under several steps: min(a + b, 100) of (861, 100277),
    bfloat16, 0.56 and 0.48, a + b + a b of (1796, 50257), int16, 0.55 and 0.49; but an affine one
    of one's own, (512, 100277), 0.70 and 0.80. sqrt(a² + b²) in reverse of (3109, 28729), bfloat16,
    0.46 and 0.32, exclusive of (1024, 32000) 0.71 and 0.53, of (27, 2998439) 0.35 and 0.38.
    """
    light = shape.equations <= LIGHT
    if shape.exclusive:
        several = light and shape.leaves == 1 and shape.equations > 1 and not shape.selects
        return 1024 if several and row < LONG else 2048
    if shape.long_steps or shape.roots:
        return 1024
    return 2048 if row >= (2**14 if light and shape.leaves == 1 else LONG) else 1024


def _of_rows_apart(shape: Shape, rows: Rows) -> Folds | None:
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
    one = (each, shape.leaves) == (8, 1) and shape.equations == 1
    if one and shape.integers and not shape.extrema:
        # Sums of (43, 2, 909920), uint64, 0.55 and 0.87, of (1024, 30522), int64, 0.51 and 0.66, of
        # (512, 151936) 0.67 and 0.90; `and` of (1024, 83780) 0.89 and 0.89. Of rows of a power of
        # two, and of float64, nothing is gained (2026-11-29).
        ragged = shape.n % 2048 and not (shape.uneven or shape.exclusive or rows.reverse)
        return (1024, 2, 1) if ragged else None
    light = shape.equations <= LIGHT and not shape.long_steps
    if each == 2 and shape.leaves <= 2 and light and not shape.uneven:
        # sqrt(a² + b²) with 2048 places and so: of (512, 151936), float16, 0.71 and 0.83.
        return (2048 if shape.leaves == 1 and not shape.roots else 1024), 8, 1
    if (shape.leaves, each) == (1, 2) and shape.roots:
        return 1024, 8, 1
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
        # Of float64 a + b + a b / 2, reversed, 0.72 and 0.80, the greatest by size 0.74 and 0.86
        # (H100, 2026-11-28).
        return 1024, 2, 1
    if each in (2, 8) or chosen.held:
        return None
    if shape.leaves == 1:
        # min(a + b, 100) of 48 million float32, in reverse, 0.73 and 0.83 (H200, 2026-11-29).
        return (2048, 4, 1) if shape.equations > 1 else None
    if shape.leaves > 2:
        # Welford's 0.64 and 0.66, 0.68 and 0.70 (H200, 2026-11-29).
        return (1024, 4, 1) if shape.exclusive or is_welford(shape) else None
    if is_heavy_pair(shape):
        # Maximum and sum of exponentials 0.70 and 0.77, by one warp 0.74.
        return 1024, 4, 2
    # Complex products of two leaves, 91 million, with 1024 places and so, 0.80 and 0.84, of 88
    # million in reverse 0.78 and 0.84, exclusive of 50 million 0.78 and 0.80 (H200, 2026-11-29).
    product = LIGHT < shape.equations <= 2 * LIGHT
    return (2048 if (light or product) and not shape.selects else 1024), 4, 1


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
