"""The choice of a tile of a row whose elements are neighbours in memory, where there are enough."""

from __future__ import annotations

import dataclasses

from jscan.kernels.tuning import measured
from jscan.kernels.tuning.cut import (
    HEAVY,
    LIGHT,
    THREADS,
    WIDE,
    Rule,
    Shape,
    Tuning,
    first_match,
)
from jscan.kernels.tuning.folds import FEWEST
from jscan.kernels.tuning.long_steps import (
    is_complex_logaddexp,
    is_heavy_double,
    is_heavy_half,
    is_heavy_plain,
    is_heavy_wide_pair,
    of_heavy_double,
    of_heavy_half,
    of_heavy_plain,
)
from jscan.kernels.tuning.pressure import of_steps


def cut(shape: Shape, rule: Rule) -> Tuning:
    """The tile of a row whose elements are neighbours in memory.

    Products of 2^22 matrices: 3 x 3, 151 µs with 256 positions and one warp, 149 with 512, 221 with
    128; 4 x 4, 416 with 512 and four warps, 518 with 256 and two, 615 with 128 and one (H200,
    2026-11-23). More positions a thread spill (sm_90).
    """
    length = max(rule.length // 2, 256) if shape.equations > HEAVY else rule.length
    warps = rule.warps
    if shape.large:
        length, warps = THREADS, 1
    elif shape.words > WIDE:
        length, warps = (256, 1) if shape.width <= 48 else (512 if shape.width <= 64 else 256, 4)
    return Tuning(length=length, lanes=1, warps=warps, window=32 * warps)


def full(shape: Shape) -> Rule:
    """The tile where there are elements enough; for some shapes half of the table's."""
    rule = full_rule(shape)
    # Where tiles have rows enough to begin with, the way back is short, and small tiles hold fewer
    # registers: (12288, 16384) affine 0.94 of copy speed with 1024 positions, 0.91 with 2048 (H200,
    # 2026-11-22).
    many_rows = shape.outer >= measured.device().many_rows and shape.leaves == 2
    # Masks of words take registers: int8 sums of (2560, 50257) 0.66 of copy speed with 4096 places,
    # 0.55 with 8192 (H200, 2026-11-23). Recurrences of (1280, 50257), float32, 234 µs with 2048,
    # 272 with 1024 (2026-11-24).
    by_words = shape.uneven and suits_words(shape)
    of_two_words = (shape.width, shape.leaves, shape.segmented) == (8, 2, False)
    # By segments, int8 minima of (1438, 50257) 125 µs with 1024 places, 135 with 512; uint8
    # recurrences of (31, 2257609) 177 and 190 (H100, 2026-11-25).
    of_bytes = shape.width == shape.leaves and shape.segmented
    length = rule.length
    if (many_rows or by_words) and not (by_words and (of_two_words or of_bytes)):
        length = max(length // 2, 256)
    if of_two_words and shape.selects and shape.equations <= LIGHT:
        # The place of the greatest of 50 million float32, from the other end, 235 µs, 355 with 2048
        # places (H100, 2026-11-25).
        length = min(length, 1024)
    if by_words and shape.segmented and shape.equations > LIGHT:
        # logaddexp of (1280, 50257), 247 µs with 512 places, 340 with 1024 (H200, 2026-11-23).
        length = min(length, 512)
    if is_heavy_wide_pair(shape):
        # Maximum and sum of exponentials of one row of 50 million float64, 0.09 of copy speed with
        # 1024 places and one warp, which spill 856 bytes, 0.30 with 512 and four, 0.33 so; of 76
        # million, exclusive, 0.21 and 0.27 (H100, 2026-11-27).
        return rule if shape.segmented else dataclasses.replace(rule, length=1024, warps=4)
    if (shape.width, shape.leaves) == (16, 2) and shape.outer > 1 and not shape.segmented:
        # Recurrences of (28, 2846391), float64, with one coefficient for all rows, 0.62 of copy
        # speed with 1024 places, 0.77 so; of (31, 1808426), int64, in reverse, 0.39 and 0.46; of
        # (26, 2304220) with its own 0.86 and 0.91; of (220, 280411), uint64, in reverse, 0.74 and
        # 0.69. But of one row of 50 million in reverse 0.80 and 0.77 (H100, 2026-11-27).
        length = min(length, 512)
        even = shape.n % 2 == 0 and shape.n % length and shape.outer * shape.n >= FEWEST
        if shape.integers and shape.few_results and even:
            # int64 recurrences of (39, 1877152) 0.41 of copy speed with 512 places, 0.65 so, of
            # (436, 83570), in reverse, 0.53 and 0.64; of odd rows, (959, 50257), 0.61 and 0.53
            # (H200, 2026-11-29).
            length //= 2
    one_row = shape.outer == 1 and shape.n % 2 == 0 and not shape.segmented
    pair = (shape.width, shape.leaves) == (16, 4) and shape.complex
    if pair and one_row and shape.equations <= HEAVY and not shape.long_steps:
        # complex64 recurrences of 2^26 0.79 of copy speed with 512 places, 0.87 so; of (1280,
        # 50257) 0.78 and 0.75 (H100, 2026-11-28). Of odd length, in reverse, they spill 72 bytes,
        # and what is reversed is not known here.
        length = max(length, 1024)
    if is_heavy_double(shape):
        return of_heavy_double(shape, dataclasses.replace(rule, length=length))
    if is_heavy_plain(shape):
        return of_heavy_plain(shape, dataclasses.replace(rule, length=length))
    if is_heavy_half(shape):
        return of_heavy_half(shape, dataclasses.replace(rule, length=length), by_words)
    alone = shape.outer == 1 and not shape.segmented
    if is_complex_logaddexp(shape) and alone and shape.n >= 2**24:
        # Of 50 million complex64, in reverse, 0.27 of copy speed with 1024 places and one warp,
        # 0.36 so, exclusive 0.28 and 0.38 (H200, 2026-11-28); of odd lengths 55 million 0.21 and
        # 0.38, 90 million 0.22 and 0.35, exclusive 65 million 0.28 and 0.38 (2026-11-29): 32
        # elements a thread are a program that no instruction cache holds. Half of this length is
        # taken (`cut`).
        return dataclasses.replace(rule, length=4096, warps=4)
    if shape.leaves == 1 and not shape.segmented and shape.outer > 1:
        selects = shape.width == 4 and shape.selects
        extrema = shape.width == 8 and shape.extrema and shape.integers
        if (selects or extrema) and shape.outer * shape.n >= 2**24:
            # Last writes of (21, 2274492), int32, in reverse, 0.69 of copy speed with 4096 places,
            # 0.82 so; minima of (1024, 32000), uint64, 0.78 with 2048 and 0.90 (H200, 2026-11-28).
            length = min(length, 1024)
    of_words = (shape.width, shape.leaves, shape.segmented) == (4, 1, False)
    of_words &= not (shape.uneven or shape.long_steps) and shape.outer * shape.n >= FEWEST
    if of_words and shape.exclusive and shape.outer > 1:
        # min(a + b, 100) of (512, 128256), float32, 0.84 of copy speed with 4096 places, 0.91 so,
        # maxima of (7, 10671096) in reverse 0.73 and 0.93, of (679, 128256) 0.91 and 0.91 (H200,
        # 2026-11-29).
        length = min(length, 2048)
    one_double = (shape.width, shape.leaves, shape.segmented) == (8, 1, False)
    if one_double and 2 < shape.equations <= HEAVY:
        # a + b + a b of 50520996 int64 0.73 of copy speed with 2048 places, 0.83 so (H100,
        # 2026-11-28). Many of float64 are folded.
        length = min(rule.length, 1024)
    long = shape.outer == 1 and shape.n >= 2**24 and not shape.segmented
    if one_double and shape.integers and shape.equations == 1 and long and shape.exclusive:
        # Sums of 50 million uint64, in reverse, 0.55 of copy speed with 2048 places, 0.76 so;
        # others alike (H200, 2026-11-28).
        return dataclasses.replace(rule, length=1024)
    if (shape.leaves, shape.width) == (3, 24) and long:
        # Welford's of 47501359 float64 0.49 of copy speed, 0.57 so, of 75762263, of which one
        # result is wanted, 0.34 and 0.39 (H100, 2026-11-28).
        return dataclasses.replace(rule, length=1024, warps=4) if shape.equations > LIGHT else rule
    return dataclasses.replace(rule, length=length)


def full_rule(shape: Shape) -> Rule:
    """The first rule that holds for the shape where there are elements enough."""
    rule = first_match(measured.device().full, shape)
    assert rule is not None, "the last rule holds for every shape"
    if is_heavy_wide_pair(shape) and shape.segmented:
        # The same of 76 million float64 beside int32 flags, 0.21 of copy speed folded, 0.31 with
        # 256 places, 0.42 so (H100, 2026-11-27).
        return dataclasses.replace(rule, length=128, warps=1)
    return dataclasses.replace(rule, length=of_steps(shape, rule.length))


def suits_words(shape: Shape) -> bool:
    """Whether tiles had better be cut along memory's words, where rows begin inside of them.

    Not for one unsegmented leaf of four bytes or more: then accesses of single elements, or a last
    tile that is compiled apart (`Scan.on_tile`), are no slower than what sorts out the words. Of
    (2560, 50257) on an H200, 2026-11-23, with words and without: sum 0.82 and 0.84 of copy speed,
    segmented 0.78 and 0.21, affine 0.80 and 0.65, int8 0.66 and 0.29; logaddexp 0.74 and 0.81, but
    of one odd row 0.84 and 0.66.
    """
    light = (shape.outer > 1 and not is_heavy_double(shape)) or shape.equations == 1
    plain = shape.leaves == 1 and shape.width >= 4 and not shape.segmented and light
    return shape.inner == 1 and not plain
