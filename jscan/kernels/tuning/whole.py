"""The cut of tridiagonal systems that are solved whole."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence

from jscan.kernels.layout import outer_n_inner
from jscan.kernels.tuning.cut import Tuning, next_power_of_2

MOST = 2**13
"""The most elements of a tile, of 4 bytes; half as many of 8, and half of either where rows end in
it: (2048, 8001), float32, 1490 µs, 731 by three scans; (4096, 3229), float64, 2594 and 1870, but
(8192, 2047) 1223 and 2508, and (4096, 3229), float32, 562 and 630 (H100, 2026-11-28)."""

LONGEST_BESIDE_LANES = 2**9
"""The most unknowns beside lanes. A thread has every eighth place or so of a lane there, and scans
cost more: (512, 32768) along the first axis 594 µs, 706 by three scans; 2048 of 8192 1471 to 2155,
832; (64, 1000, 30) 117, 96 (H100, 2026-11-28)."""

MANY_LANES = 2**14
"""So many lanes are divided by eights, whole sectors of memory; fewer by fours: (512, 512) 12.2 and
17.5 µs, (128, 128) 3.9 and 5.2 (H100, 2026-11-28)."""


def systems(
    full: Sequence[int], axis: int, width: int, tile: Tuning | None = None
) -> Tuning | None:
    """The tile of whole systems of numbers of so many bytes; None where one does not fit."""
    outer, n, inner = outer_n_inner(full, axis)
    length = max(2, next_power_of_2(n))
    most = MOST * 4 // width // (1 if n == length or inner > 1 else 2)
    if tile is not None:
        fits = length * tile.lanes * tile.rows <= most
        return dataclasses.replace(tile, length=length, strip=0) if fits else None
    lanes, rows = 1, 1
    if inner > 1:
        many = outer * inner >= MANY_LANES
        lanes, each = (max(8, 512 // length), 16) if many else (max(4, 128 // length), 4)
        if length > LONGEST_BESIDE_LANES:
            return None
    else:
        # A thread holds a dozen numbers an element. Rows that end in a tile are accessed singly.
        each = 4 if n < length and n > 256 else 8
    lanes, each = min(lanes, next_power_of_2(inner)), each if width == 4 else 4
    while lanes >= inner and rows * length * lanes < 32 * each and rows < outer:
        rows *= 2
    if rows * length * lanes > most:
        return None
    warps = min(16, max(1, rows * length * lanes // (32 * each)))
    return Tuning(length=length, lanes=lanes, warps=warps, window=1, rows=rows)
