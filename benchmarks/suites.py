"""The suites, and what each of them is about: lists of cases, and what is no such list."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping
from typing import Any

from benchmarks import (
    accuracy,
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


@dataclasses.dataclass(frozen=True)
class Study:
    """What runs on any machine and is no list of cases.

    Attributes:
      result: what is found out, by the seconds after which nothing further is begun.
      show: prints it.
      wrong: what in it should not be.
      about: a line of help.
      seconds: the most that it gets by default.
    """

    result: Callable[[float], dict[str, Any]]
    show: Callable[[Mapping[str, Any]], None]
    wrong: Callable[[Mapping[str, Any]], list[str]]
    about: str
    seconds: int


STUDIES = {
    "accuracy": Study(
        accuracy.result,
        accuracy.show,
        accuracy.beyond,
        "errors of inclusive sums over the length; up to 2^20 where there is no GPU",
        seconds=90,
    ),
}
