"""The suites: lists of cases by how far their sizes are shrunk, each with a line of help."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable

from benchmarks.cases import (
    bits,
    core,
    derivatives,
    functions,
    operators,
    repeatable,
    segments,
    states,
    strategies,
    tiles,
)
from benchmarks.cases.case import Case


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
    "bits": Suite(bits.cases, "segmented scans by heads of a bit each on one GPU"),
    "derivatives": Suite(derivatives.cases, "recurrences and gradients of scans on one GPU"),
    "states": Suite(
        states.cases, "complex recurrences, products of small matrices, recurrences by them"
    ),
    "strategies": Suite(
        strategies.cases, "every strategy over the length; a CPU comparison where there is no GPU"
    ),
    "repeatable": Suite(
        repeatable.cases, "scans whose groups are fixed, beside lookback and two passes, on one GPU"
    ),
    "dtypes": Suite(operators.dtypes, "sums of every dtype on one GPU"),
    "operators": Suite(operators.cases, "scans with every operator on one GPU"),
    "rows": Suite(
        strategies.rows, "many short rows to few long ones, along either axis, on one GPU"
    ),
    "skew": Suite(strategies.skew, "segmented sums over the size of segments on one GPU"),
    "tiles": Suite(tiles.cases, "forced tiles and windows on one GPU"),
    "reductions": Suite(strategies.reductions, "every strategy of reductions on one GPU"),
    "scaling": Suite(tiles.scaling, "forced numbers of programs on one GPU"),
    "functions": Suite(
        functions.cases,
        "functions that are built of scans; beside plain JAX on a CPU where there is no GPU",
    ),
}
