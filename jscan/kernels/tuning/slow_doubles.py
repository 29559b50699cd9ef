"""float64 under functions that take many instructions: roots, exponentials, quotients.

A thread that folds its neighbours calls the operator once for each, and scans two places for eight:
what threads exchange calls it five times a place. Figures are of copy speed (H200, 2026-11-29).
"""

from __future__ import annotations

import dataclasses

from jscan.kernels.tuning.cut import HEAVY, LIGHT, Shape, Tuning
from jscan.kernels.tuning.long_steps import is_heavy_double, is_heavy_wide_pair

LONG = 2**17
"""Rows of so many elements of three numbers are folded."""
WHOLE = 32
"""So many positions under logaddexp, beside lanes, are one tile."""
WIDE = 32
"""Of fewer lanes tiles were not measured."""


def are_folded(shape: Shape) -> bool:
    """Whether threads fold neighbours as `folds` says."""
    return _has_roots(shape) or _is_pair(shape) or are_three(shape)


def _has_roots(shape: Shape) -> bool:
    return (shape.width, shape.leaves) == (8, 1) and shape.roots and not shape.segmented


def _is_pair(shape: Shape) -> bool:
    return is_heavy_wide_pair(shape) and not shape.complex


def are_three(shape: Shape) -> bool:
    """Whether there are three float64 under as many steps as Welford's."""
    doubles = (shape.leaves, shape.width) == (3, 24) and shape.even
    doubles &= not (shape.integers or shape.complex or shape.long_steps)
    return doubles and 2 * LIGHT < shape.equations <= HEAVY


def folds(shape: Shape, row: int) -> tuple[int, int, int] | None:
    """The length of a tile, the neighbours that are folded, and warps, for rows of so many.

    Roots, of which sqrt(a² + b²) was timed, by two neighbours and so: of 86 million 0.26 and 0.39,
    exclusive of 48 million 0.25 and 0.35; scanned as it is, in reverse (53, 1007651) 0.18 and 0.33;
    exclusive (1560, 49152) 0.38, 0.47 and by 512 places 0.58.

    Maximum and sum of exponentials, scanned and so: (91833701,) 0.23 and 0.28, in reverse 0.13 and
    0.27, exclusive 0.19 and 0.28, (27, 2520876) 0.22 and 0.36, (2576, 30522) 0.28 and 0.45. By
    segments, by two neighbours, four, and eight of 512 places: of 2 0.50, 0.53 and 0.44, of 10
    0.32, 0.42 and 0.43, one 0.25, 0.25 and 0.29.

    Welford's, scanned and so: one row 0.37 and 0.40, in reverse, exclusive, 0.33 and 0.42, (53,
    994879) 0.32 and 0.40, rows of 149629, exclusive, 0.37 and 0.43, but of 30522 0.51 and 0.44. By
    segments of 10 0.54 and 0.62, of 100,000 0.56 and 0.64, one 0.24 and 0.27.
    """
    if _has_roots(shape):
        return (1024, 8, 1) if row >= 2**19 else (512, 4, 1)
    if shape.segmented:
        return 256, 4, 1
    return (512, 8, 1) if _is_pair(shape) or row >= LONG else None


def narrowed(shape: Shape, rows: Tuning) -> Tuning:
    """The tile of whole axes beside lanes under logaddexp, of fewer lanes than ``rows`` has.

    A thread holds fewer elements: by segments of each lane's own (171, 2, 180888) 0.19 by 512
    lanes, 0.49 by 128, 0.61 so, (2, 302790, 144) 0.33, 0.63 and 0.58; (32, 256, 11311) 0.26 by 64
    lanes, 0.56 so, (31, 2451985) 0.13 and 0.35. Whole, (32, 512, 3667) 0.57 by 64 and 0.76, (16,
    2097152, 2) 0.78 and 0.84; of 64 positions, and of less than 16, nothing is gained.
    """
    if not is_heavy_double(shape) or shape.inner < WIDE or rows.rows > 1 or shape.tile is not None:
        return rows
    if shape.segmented:
        lanes = 64 if rows.length <= 4 else 32
    else:
        lanes = 32 if 16 <= rows.length <= WHOLE else rows.lanes
    return dataclasses.replace(rows, lanes=lanes, warps=1) if lanes < rows.lanes else rows


def takes_several_tiles(shape: Shape) -> bool:
    """Whether whole axes beside lanes that fit one tile had better be several.

    By segments of 10 logaddexp of (64, 4096, 128) in one tile of 64 positions 0.26, 0.49 by 16.
    """
    beside = is_heavy_double(shape) and shape.segmented and shape.inner >= WIDE
    return beside and shape.n > WHOLE and shape.tile is None
