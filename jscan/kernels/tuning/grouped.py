"""How tiles are grouped whose groups are fixed (`kernels.repeatable`), and the windows for that."""

from __future__ import annotations

import dataclasses

from jscan.kernels.tuning.cut import THREADS, Shape, Tuning

BESIDE_LANES = 8
"""Words of a window beside lanes, each of which has words of its own: a window is dear.

(2^20, 64), sum along axis 0: 173 µs with 8 words and groups of two, 187 to 256 with 16 words and
larger groups; lookback 157 (H200, 2026-11-23).
"""

COPIES = 16
"""The most copies of the total of a group. A word that many programs look at is slow.

Sum of 2^28: 523 µs with 16 copies, 549 without; lookback 518 (H200, 2026-11-23).
"""


FEW = 2**20
"""Up to so many elements a tile's own time shows: sum of 2^20 float32, 5.6 µs with two warps, 6.0
with one, 5.9 with four; of 2^24 55, 49 and 58 (H100, 2026-11-25)."""


def in_groups(shape: Shape, chosen: Tuning) -> Tuning:
    """The tile as it was ``chosen``, with a window that holds what comes before it.

    One of few elements of four bytes has two warps.
    """
    if shape.tile is not None:
        return chosen
    if shape.inner == 1:
        one_word = (shape.width, shape.leaves, shape.segmented) == (4, 1, False)
        long = (chosen.length, chosen.strip, chosen.warps) == (4096, 0, 1)
        if one_word and long and shape.outer * shape.n <= FEW:
            return dataclasses.replace(chosen, warps=2, window=64)
        return chosen
    # Each thread looks at a word of its own, so that narrow windows are of few warps.
    warps = min(chosen.warps, max(1, BESIDE_LANES * chosen.lanes // THREADS))
    length = chosen.length * warps // chosen.warps
    return dataclasses.replace(chosen, length=length, warps=warps, window=BESIDE_LANES)


def group_sizes(window: int, inner: int) -> tuple[int, ...]:
    """The sizes of groups, of groups of groups and so on, whose words go into a window.

    Beside a prefix a window has one word less of each than its size. The chain of prefixes wants
    few links, of 256 tiles or so: beside lanes, where a window is narrow, groups are of two.
    """
    if inner > 1 or window < 4:
        return (2,) * (window - 1) or (1,)
    return window // 2, window // 2


def copies(sizes: tuple[int, ...], inner: int) -> int:
    """How many words hold the total of a group, each for the tiles of some of the groups."""
    return min(COPIES, sizes[0]) if inner == 1 else 1
