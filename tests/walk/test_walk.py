"""Every public function under every transformation in every layout; the table is in tests/walk."""

from __future__ import annotations

import jax
import numpy as np
import pytest

from tests.walk.cases import CASES, COLUMNS, sample
from tests.walk.layouts import LAYOUTS
from tests.walk.row import widened
from tests.walk.table import NOT_TRANSFORMED, TABLE, public_callables

SAMPLE = frozenset(map(id, sample()))


@pytest.mark.parametrize(
    "case",
    [
        pytest.param(case, id=str(case), marks=() if id(case) in SAMPLE else pytest.mark.thorough)
        for case in CASES
    ],
)
def test_what_comes_out_is_right(case):
    case.check()


def test_every_public_callable_is_in_the_table():
    covered = {name for row in TABLE for name in row.covers}
    assert covered.isdisjoint(NOT_TRANSFORMED)
    assert covered | set(NOT_TRANSFORMED) == public_callables()


def test_every_row_transformation_and_layout_is_in_the_sample():
    chosen = sample()
    assert {case.row for case in chosen} == set(TABLE)
    assert {case.column for case in chosen} == set(COLUMNS)
    assert {case.column.layout for case in chosen} == set(LAYOUTS)


def test_names_of_cases_are_different():
    assert len({str(case) for case in CASES}) == len(CASES)


@pytest.mark.thorough
@pytest.mark.parametrize("row", [row for row in TABLE if row.sequential], ids=lambda row: row.name)
def test_the_loop_to_differentiate_is_the_loop_in_numpy(row):
    found = jax.jit(row.wide)(*widened(row.operands()))
    for got, want in zip(found, row.values(), strict=True):
        rounding = 1e-12 if want.dtype.itemsize > 2 else 1e-2
        np.testing.assert_allclose(got, want.astype(got.dtype), rtol=rounding)
