"""The choice for axes of few positions with few lanes: lanes of all rows, or no kernel.

    memory    │ a0 b0 c0 a1 b1 c1 │ d0 e0 f0 d1 e1 f1 │ ...    rows of two positions, three lanes
    tiles of rows        a0 b0 c0 --                           several rows: lanes are filled up to
                         a1 b1 c1 --                           a power of two, and handed around
    lanes of all rows    a0 b0 c0 d0 e0 f0 ...                 a thread has all positions of a lane
                         a1 b1 c1 d1 e1 f1 ...

So nothing is exchanged between threads, and no operator is called on what is filled up. The price
is that accesses are apart, by as many elements as a row has: where a combination is cheap, and an
element is wide, tiles of rows are faster.
"""

from __future__ import annotations

import dataclasses

from jscan import extent
from jscan.kernels.tuning.choose import block
from jscan.kernels.tuning.cut import HEAVY, THREADS, Shape, Tuning

FEW = 16
"""Positions of an axis; of more nothing was measured."""


def suits_lanes_of_rows(shape: Shape) -> bool:
    """Whether lanes of all rows are scanned side by side.

    290 calls of 2^25 and 2^26 elements, of copy speed, as tiles of rows and so (H200, 2026-11-29);
    shapes are positions and lanes, `own` segments those of each element's flags:

        logaddexp, float64       (3, 3) .09 .58, own .05 .62   (8, 6) .33 .52   (12, 3) own .03 .39
        logaddexp, bfloat16      (3, 2) .17 .59   (8, 2) .18 .71, own .22 .76   (16, 2) own .06 .54
        logaddexp, float32       (2, 5) .48 .66   (4, 2) .23 .42   (3, 2) own .33 .71
        logaddexp, complex64     (3, 2) .45 .71   (4, 2) .39 .60   (5, 3) .30 .58
        int8 maxima, own         (2, 7) .23 .58   (3, 4) .33 .88   (4, 4) .36 .87   (16, 12) .51 .81
        int8 sums                (2, 7) .37 .56   (5, 2) .31 .42   exclusive, shared (3, 4) .44 .60
        int8 recurrences         (3, 5) .26 .43   (16, 12) .41 .62
        float16 maxima, own      (2, 4) .50 .77   (3, 4) .47 .99   (5, 4) .38 .75
        float16 recurrences      (9, 16) .45 .78   (12, 24) .45 .81

    But logaddexp of float32 (8, 3) 0.62 and 0.35, of float64 (16, 20) 0.56 and 0.20; int8 sums of
    (2, 4) 1.00 and 0.79, of (6, 3) 0.35 and 0.25; float16 maxima, own, of (6, 3) 0.51 and 0.31;
    float32 sums of (3, 2) 0.99 and 0.54, own of (4, 2) 0.53 and 0.45.
    """
    n, lanes = shape.n, shape.inner
    few = 1 < n <= FEW and lanes < THREADS and shape.tile is None
    # Places of lanes are counted in 32 bits (`repeating.lanes_of_rows`).
    if not few or shape.outer == 1 or shape.outer * n * lanes >= extent.FAR:
        return False
    if shape.logaddexp:
        return (_suits_logaddexp if lanes > 1 else _suits_logaddexp_alone)(shape)
    if lanes == 1:
        return False
    heavy = shape.long_steps or shape.roots or shape.equations > HEAVY
    if heavy or shape.complex or shape.leaves > 2 or not shape.even:
        return False
    if shape.each == 1:
        return _suits_bytes(shape)
    return shape.each == 2 and _suits_halves(shape)


def _suits_bytes(shape: Shape) -> bool:
    """The same of bytes."""
    n, lanes = shape.n, shape.inner
    if shape.own_flags or shape.leaves == 2:
        return n <= 6 or lanes % 4 == 0 or (n <= 8 and lanes == 2 and shape.own_flags)
    narrow = lanes < FEW if shape.segmented else lanes == 2 or (lanes < 8 and lanes % 2 == 1)
    return n <= 5 and narrow


def _suits_halves(shape: Shape) -> bool:
    """The same of elements of two bytes."""
    n, lanes = shape.n, shape.inner
    if shape.leaves == 2:
        return lanes >= 12
    if not shape.own_flags or shape.exclusive or n > 5:
        return False
    least = 2 if n <= 3 else 3
    return n == 2 or lanes % 4 == 0 or (n <= 4 and least <= lanes <= 5)


def _suits_logaddexp(shape: Shape) -> bool:
    """The same under logaddexp; of complex64 segments were not measured."""
    n, lanes = shape.n, shape.inner
    if shape.complex:
        return shape.width == 8 and n <= 6 and n * lanes <= FEW and not shape.segmented
    if shape.width == 8:
        return (n <= 12 and n * lanes <= 100) or (shape.segmented and lanes == 2)
    if shape.width == 2:
        few = lanes <= FEW and n <= (8 if lanes % 2 == 0 else 6)
        return (shape.segmented and lanes <= 20) or few or lanes == 2
    return lanes < FEW if shape.segmented else n <= 5


def _suits_logaddexp_alone(shape: Shape) -> bool:
    """The same of a lane alone, whose positions are neighbours; flags are each element's, or none.

    Of copy speed, as tiles of rows and so (H200, 2026-11-29): whole float64 of 3 and 5 positions
    0.05 and 0.54, 0.06 and 0.30, of 8 0.25 and 0.29; bfloat16 of 3 and 5 0.16 and 0.51, 0.15 and
    0.39; complex64 of 3 0.11 and 0.62. By segments float64 of 3, 8 and 12 0.06 and 0.51, 0.06 and
    0.30, 0.06 and 0.27; bfloat16 of 3 0.18 and 0.66; float32 of 3 and 6 0.29 and 0.56, 0.31 and
    0.45. But bfloat16 of 4 0.47 and 0.40, of 8 0.79 and 0.21; complex64 of 4 0.65 and 0.41; float32
    of 4 1.00 and 0.40, by flags that rows share 1.00 and 0.43. Nothing else is faster so: int8
    maxima of 3 0.50 and 0.41, bfloat16 sums of 3 0.70 and 0.49.
    """
    n = shape.n
    if shape.segmented and not shape.own_flags:
        return False
    if shape.width == 8 and not shape.complex:
        return 2 < n <= (12 if shape.segmented else 8)
    if shape.exclusive:
        # float16 of 5, exclusive, by flags of each element, 0.41 as tiles of rows.
        return False
    if shape.complex:
        return shape.width == 8 and n in (3, 5) and not shape.segmented
    if shape.width == 2:
        return n <= 6 and (shape.segmented or n != 4)
    return shape.segmented and 3 <= n <= 6


def lanes_of_rows(shape: Shape) -> Tuning:
    """The tile of such lanes.

    With 1024 elements and 512: logaddexp of (4, 2), bfloat16, 0.44 and 0.79, of (4, 3), float64,
    0.28 and 0.62; int8 sums of (2, 2) 0.68 and 0.41, halves alike, by as many warps (H200,
    2026-11-29).
    """
    tile = block(shape)
    assert tile is not None, "so few positions fit a tile"
    if not shape.logaddexp:
        return tile
    return dataclasses.replace(tile, lanes=max(tile.lanes // 2, THREADS))


def suits_no_kernel(shape: Shape) -> bool:
    """Whether two positions of at most two lanes are better left to XLA.

    Segments have flags of each element's, or there are none. XLA takes one loop over all elements.
    Of copy speed, by kernels and so (H200, 2026-11-29): alone int64 sums 0.77 and 1.00, exclusive
    0.72 and 1.00, complex64 recurrences 0.69 and 1.00, logaddexp of float32 0.31 and 0.87, of
    float64 0.06 and 0.85; beside another lane sums of float16 0.60 and 0.92, of float32 0.60 and
    1.01, of complex64 0.79 and 0.93, logaddexp of float64 0.10 and 0.89. Without segments logaddexp
    of float64 alone 0.38 and 0.85, of two lanes 0.16 and 0.93, of float32 0.51 and 1.00.
    But alone float32 sums of an odd number of rows 0.89 and 0.87, float16 0.89 and 0.49; exclusive
    sums of two lanes, int64, 0.98 and 0.66; bytes 0.79 by lanes of all rows, and 0.60.
    """
    leaves = shape.leaves // (2 if shape.complex else 1)
    each = shape.width // leaves
    if shape.n != 2 or shape.inner > 2 or leaves > 2 or each > 8:
        return False
    # XLA's threads take four elements where the number of all is a multiple of four.
    fours = shape.outer * shape.inner % 2 == 0
    if not shape.even:
        # Flags and float16 by an operator of one's own 108 µs and 93.
        alone = shape.inner == 1 and shape.width == 3 and shape.equations <= HEAVY and fours
        return alone and not (shape.segmented or shape.exclusive or shape.long_steps)
    own = shape.segmented and shape.own_flags
    if shape.logaddexp and not shape.complex and not shape.exclusive:
        whole = shape.width == 8 or (shape.width == 4 and shape.inner == 2)
        return whole if not shape.segmented else own and shape.width >= 4
    if not own or shape.long_steps or shape.roots or shape.equations > HEAVY:
        return False
    if shape.inner == 1:
        # Sums of int32 (4913107, 8, 2) in reverse 182 µs and 164.
        return each == 8 or (each == 4 and fours and not shape.exclusive)
    return each > 1 and not shape.exclusive
