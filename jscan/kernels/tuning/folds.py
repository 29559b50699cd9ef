"""What rules for folds have in common: how rows lie, and what a cut says."""

from __future__ import annotations

import dataclasses
from typing import TypeAlias

from jscan.kernels.tuning.cut import HEAVY, LIGHT, Shape

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


Folds: TypeAlias = tuple[int, int, int]
"""The length of a tile, the neighbours that are folded, and warps."""
WELFORD: Folds = (512, 4, 1)
"""Of three leaves of float32 with many equations. Welford's, of copy speed, by 256 places and so
(H100, 2026-11-28): (34, 2354859) 0.42 and 0.66, (6, 11243871), reversed, 0.58 and 0.77; by
segments (32, 256, 10559), exclusive, 0.65 and 0.68, (61863612,) 0.74 and 0.88."""


def is_welford(shape: Shape) -> bool:
    """Whether there are three leaves of four bytes, and many equations."""
    words = (shape.leaves, shape.width) == (3, 12) and shape.even
    return words and 2 * LIGHT < shape.equations <= HEAVY and not shape.long_steps
