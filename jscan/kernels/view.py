"""How an operand of any shape is seen as (outer, n, inner), broadcast dimensions in place."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Sequence


@dataclasses.dataclass(frozen=True)
class View:
    """Where an operand's (row, position, lane) lies in its memory."""

    shape: tuple[int, int, int]  # the operand's own (outer, n, inner), with 1 for broadcast ones
    row_period: tuple[int, int]  # its row is (row // repeat) % count, given as (repeat, count)

    @property
    def strides(self) -> tuple[int, int, int]:
        """From one row, position and lane to the next, in elements."""
        _, n, inner = self.shape
        return (n * inner, inner, 0 if inner == 1 else 1)


def collapse(shape: Sequence[int], full: Sequence[int], axis: int) -> View | None:
    """How an operand of ``shape`` (a dimension is full or 1) is seen inside (outer, n, inner).

    None when its broadcast dimensions do not collapse to one row period: such an operand must be
    materialised.
    """
    inner, inner_full = math.prod(shape[axis + 1 :]), math.prod(full[axis + 1 :])
    if inner not in (1, inner_full):
        return None
    own = [(s, f) for s, f in zip(shape[:axis], full[:axis], strict=True) if f > 1]
    kept = [i for i, (s, _) in enumerate(own) if s > 1]
    if not kept:
        return View((1, shape[axis], inner), (1, 1))
    first, last = kept[0], kept[-1]
    if kept != list(range(first, last + 1)):
        return None
    repeat = math.prod(f for _, f in own[last + 1 :])
    count = math.prod(f for _, f in own[first : last + 1])
    return View((count, shape[axis], inner), (repeat, count))
