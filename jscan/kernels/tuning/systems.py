"""The cut of tridiagonal systems that are solved whole."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence

from jscan.kernels.layout import outer_n_inner
from jscan.kernels.tuning.cut import SECTOR, Tuning, next_power_of_2

A_THREAD = 8
"""The elements that a thread has of each array: three scans hold a dozen numbers an element."""

MOST = 2**13
"""The most elements of a tile, of 4 bytes; half as many of 8."""


def systems(
    full: Sequence[int], axis: int, width: int, tile: Tuning | None = None
) -> Tuning | None:
    """The tile of whole systems of numbers of so many bytes; None where one does not fit."""
    outer, n, inner = outer_n_inner(full, axis)
    length = max(2, next_power_of_2(n))
    most, each = MOST * 4 // width, A_THREAD * 4 // width
    if tile is not None:
        fits = length * tile.lanes * tile.rows <= most
        return dataclasses.replace(tile, length=length, strip=0) if fits else None
    lanes = 1 if inner == 1 else min(next_power_of_2(inner), max(SECTOR // width, 512 // length))
    if length * lanes > most:
        return None
    rows = 1
    if lanes >= inner:
        while rows * length * lanes < 32 * each and rows < outer:
            rows *= 2
    warps = min(32, max(1, rows * length * lanes // (32 * each)))
    return Tuning(length=length, lanes=lanes, warps=warps, window=1, rows=rows)
