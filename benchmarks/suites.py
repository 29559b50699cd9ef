"""The suites that are lists of cases, and what each of them is about."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable

from benchmarks import (
    core,
    derivatives,
    dtypes,
    operators,
    reductions,
    rows,
    scaling,
    segments,
    skew,
    strategies,
    tiles,
)
from benchmarks.case import Case


@dataclasses.dataclass(frozen=True)
class Suite:
    """Cases by how far their sizes are shrunk, and a line of help."""

    cases: Callable[[int], list[Case]]
    about: str


SUITES = {
    "core": Suite(
        core.cases, "the cases of the core on one GPU; the CPU comparison where there is none"
    ),
    "segments": Suite(segments.cases, "reductions, conversions, pack and split on one GPU"),
    "derivatives": Suite(derivatives.cases, "recurrences and gradients of scans on one GPU"),
    "strategies": Suite(
        strategies.cases, "every strategy over the length; a CPU comparison where there is no GPU"
    ),
    "dtypes": Suite(dtypes.cases, "sums of every dtype on one GPU"),
    "operators": Suite(operators.cases, "scans with every operator on one GPU"),
    "rows": Suite(rows.cases, "many short rows to few long ones, along either axis, on one GPU"),
    "skew": Suite(skew.cases, "segmented sums over the size of segments on one GPU"),
    "tiles": Suite(tiles.cases, "forced tiles and windows on one GPU"),
    "reductions": Suite(reductions.cases, "every strategy of reductions on one GPU"),
    "scaling": Suite(scaling.cases, "forced numbers of programs on one GPU"),
}
