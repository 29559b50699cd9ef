"""All cases of the walk, and a fair sample of them."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cache, partial
from typing import Any

from tests.walk.layouts import ACROSS, LAYOUTS, ONE_DEVICE, Layout
from tests.walk.loops import LOOPS
from tests.walk.planted import PLANTED
from tests.walk.programs import PROGRAMS
from tests.walk.row import Row
from tests.walk.table import TABLE
from tests.walk.transformations import TRANSFORMATIONS, Transformation


@dataclass(frozen=True)
class Column:
    """A transformation in a layout."""

    transformation: str
    layout: Layout
    applies: Callable[[Row], bool]
    check: Callable[[Row], None]


@dataclass(frozen=True)
class Case:
    """A row in a column."""

    row: Row
    column: Column

    def check(self) -> None:
        """Runs it."""
        self.column.check(self.row)

    def __str__(self) -> str:
        return f"{self.row.name}, {self.column.transformation}, {self.column.layout.name}"


@cache
def _divided(row: Row) -> Row:
    """The row on operands whose axis goes on across devices."""

    def function(*operands: Any) -> Any:
        labels = row.labels, row.results
        return ACROSS.mapped_over(ACROSS.mesh(), ACROSS.told(row.call), labels)(*operands)

    return replace(row, function=function)


# What is done to functions that go across devices, and rows for which JAX cannot do it.
_DONE_ACROSS: dict[str, tuple[str, ...]] = {
    "vmap of each operand": (),
    "linearize": (),
    "hessian": (),
    # jax (0.10 to 0.12) loses what a scalar between two orders of derivatives varies over.
    "reverse over reverse": ("cumlogsumexp",),
    # It transposes no collective of integers.
    "linear_transpose": ("linear_recurrence of integers",),
    "checkpoint": (),
    "in lax.scan": (),
    "planted in gradients": (),
}


def _across(transformation: Transformation) -> Column:
    """The column of a transformation of what goes across devices."""
    but_for = _DONE_ACROSS[transformation.name]

    def applies(row: Row) -> bool:
        if not row.across or row.name.startswith(but_for):
            return False
        return ACROSS.divides(row.labels) and transformation.applies(row)

    def check(row: Row) -> None:
        transformation.check(_divided(row))

    return Column(transformation.name, ACROSS, applies, check)


_ALONE = (*TRANSFORMATIONS, *LOOPS, *PLANTED)
_ALL = (
    *(
        Column(
            program.name,
            layout,
            partial(program.applies, layout=layout),
            partial(program.check, layout=layout),
        )
        for program in PROGRAMS
        for layout in LAYOUTS
    ),
    *(Column(each.name, ONE_DEVICE, each.applies, each.check) for each in _ALONE),
    *(_across(each) for each in _ALONE if each.name in _DONE_ACROSS),
)

CASES = tuple(Case(row, column) for row in TABLE for column in _ALL if column.applies(row))
# Some layouts divide what only some programs have.
COLUMNS = tuple(column for column in _ALL if any(column.applies(row) for row in TABLE))


def sample() -> list[Case]:
    """A case of each column and of each row at least, chosen by their places in the tables.

    Each column takes the row that has been taken least, looking from its own place on, so that
    neighbours take different rows; then each row that is left takes a column in the same way.
    """
    chosen: list[Case] = []
    rows = dict.fromkeys(TABLE, 0)
    columns = dict.fromkeys(COLUMNS, 0)

    def take(cases: list[Case], place: int) -> None:
        turned = cases[place % len(cases) :] + cases[: place % len(cases)]
        case = min(turned, key=lambda case: (rows[case.row], columns[case.column]))
        rows[case.row] += 1
        columns[case.column] += 1
        chosen.append(case)

    for place, column in enumerate(COLUMNS):
        take([case for case in CASES if case.column is column], 7 * place)
    for place, row in enumerate(TABLE):
        if not rows[row]:
            take([case for case in CASES if case.row is row], 7 * place)
    return chosen
