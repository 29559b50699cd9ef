"""The choice of a cut for tiles of lanes that are worked through in strips (`kernels.columns`)."""

from __future__ import annotations

import dataclasses

from jscan.kernels.tuning.cut import Shape, Tuning, next_power_of_2

STRIP = 16


def columns(shape: Shape, chosen: Tuning) -> Tuning:
    """The tile in strips where that is faster than what was ``chosen``, else that.

    Of copy speed, as chosen and in strips (H200, 2026-11-23), the first axis of (100003, 1280) and
    (2^21, 64): float16 sums 0.59 and 0.71, 0.39 and 0.51, segmented 0.41 and 0.62, 0.59 and 0.75;
    int8 sums 0.33 and 0.49, 0.23 and 0.46, but segmented 0.39 and 0.09. Of odd extents: float16
    sums of (8197, 16381) 0.53 and 0.65, int8 0.33 and 0.54; float32 sums of (100001, 671) 0.58 and
    0.64, recurrences 0.80 and 0.82, of (2001, 257, 257) 0.74 and 0.82, of (2^20, 64) 0.67 and 0.89.
    """
    if shape.tile is not None or shape.inner < 33 or shape.equations > 4 or chosen.rows > 1:
        return chosen
    cut = _narrow(shape) if shape.width < 4 else _wide(shape)
    if cut is None:
        return chosen
    length, lanes, warps = cut
    return dataclasses.replace(
        chosen, length=length, lanes=lanes, warps=warps, window=4, strip=STRIP
    )


def _narrow(shape: Shape) -> tuple[int, int, int] | None:
    """Length, lanes and warps for elements of one or two bytes."""
    if shape.leaves > 1 or shape.inner < 64 or (shape.width == 1 and shape.segmented):
        return None
    if shape.inner % (4 // shape.width) == 0:
        if shape.width == 2:
            return 128, 64, 1
        lanes = min(256, next_power_of_2(shape.inner + 1) // 2)
        return (256, 64, 1) if lanes == 64 else (128, lanes, lanes // 128)
    if shape.inner < 1024 or shape.segmented:
        return None
    return (128, 128, 4) if shape.width == 2 else (128, 256, 4)


def _wide(shape: Shape) -> tuple[int, int, int] | None:
    """The same for elements of four bytes and more, on axes with few lanes."""
    if shape.segmented or shape.inner >= 900:
        return None
    if (shape.width, shape.leaves) == (8, 2):
        return 96, 32, 1
    sectors = shape.inner * shape.width % 32 != 0
    return (128, 64, 2) if (shape.width, shape.leaves) == (4, 1) and sectors else None
