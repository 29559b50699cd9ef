"""The strategies that "auto" stands for, and the cut that a strategy takes of what was chosen."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable

from jscan.kernels import tuning

LOOKING = ("auto", "lookback", "repeatable")
"""Methods by which a tile looks at a window of those before it."""

BY_DEFAULT = "lookback"
"""What "auto" takes of them where the last bits may depend on it. As "repeatable" here, the same
shape, device kind and version give the same bits always; it is to be so once all shapes are within
3 % of lookback. Of sums 2^28 elements are 1 % behind, 2^24 4 %, (2^20, 64) along axis 0 10 % (H200,
2026-11-23; benchmarks/NOTES.md, "Groups that are fixed")."""


def single_pass(method: str, shape: tuning.Shape) -> str:
    """The strategy in one pass, where "auto" leaves it open. Integers are exact in any groups."""
    if method != "auto":
        return method
    return "lookback" if shape.integers else BY_DEFAULT


def settled(
    shape: tuning.Shape,
    tuned: tuning.Tuning,
    method: str,
    *,
    reverse: bool,
    exclusive: bool,
    may_hold: bool = True,
    may_weave: Callable[[tuning.Tuning], bool] | None = None,
    rows: tuning.Rows | None = None,
) -> tuning.Tuning:
    """The tile that was chosen, as the method takes it.

    It may be held, woven or folded, where a scan can be worked through so and that is faster.
    Without ``rows``, which say how those lie, none are folded.
    """
    whole = method == "auto" and tuned.length >= shape.n
    if rows is not None and whole and tuning.suits_no_block(shape):
        tuned = tuning.lookback(shape)
    several = tuning.several_of_a_block(shape, reverse=reverse) if whole else 0
    if several:
        tuned = dataclasses.replace(tuning.lookback(shape), length=several, warps=1, window=32)
    if method in LOOKING and tuned.length < shape.n:
        tuned = tuning.moved(shape, tuned, reverse + exclusive)
        if reverse and not (several or exclusive):
            tuned = tuning.backwards(shape, tuned)
        elif not (reverse or (rows is not None and rows.row)):
            tuned = tuning.forwards(shape, tuned)
        if may_hold:
            weaves = may_weave if single_pass(method, shape) == "lookback" else None
            way = {"reverse": reverse, "exclusive": exclusive}
            tuned = tuning.as_read(shape, tuned, **way, may_weave=weaves)
        if rows is not None and single_pass(method, shape) == "lookback":
            tuned = tuning.folded(shape, tuned, rows)
        if single_pass(method, shape) == "repeatable":
            tuned = tuning.in_groups(shape, tuned)
    elif tuned.held:
        # One tile is not held, and is scanned at once: by as many places as a power of two.
        tuned = dataclasses.replace(tuned, length=tuning.next_power_of_2(tuned.length))
    elif whole:
        tuned = (tuning.of_rows_backwards if reverse else tuning.by_one_warp)(shape, tuned)
    return tuned
