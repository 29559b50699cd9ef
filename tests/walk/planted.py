"""NaN and infinity in one segment, which no other segment may see."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from tests.walk.programs import pushed
from tests.walk.row import LENGTH, ROWS, Array, Row
from tests.walk.transformations import Transformation, places, total_of, twice

ROW = 1  # where something is planted
VALUES = (np.nan, np.inf, -np.inf)


def segmented(row: Row) -> bool:
    """What has segments and could hold a NaN."""
    inexact = any(jnp.issubdtype(x.dtype, jnp.inexact) for x in row.operands())
    return row.numbers is not None and inexact


def differentiable_and_segmented(row: Row) -> bool:
    """What has derivatives too."""
    return segmented(row) and bool(row.inexact)


def twice_and_segmented(row: Row) -> bool:
    """What has second derivatives too."""
    return segmented(row) and twice(row)


class Cells:
    """Which elements of operands and results belong to a segment of a row."""

    def __init__(self, row: Row) -> None:
        assert row.numbers is not None
        self.row = row
        self.numbers = np.asarray(row.numbers(*row.operands()))

    def touched(self, label: str, place: tuple[int, ...]) -> Array:
        """The (row, segment) pairs that an element of an operand or a result is part of."""
        pairs = np.zeros((ROWS, LENGTH + 1), bool)
        at = dict(zip(label, place, strict=True))
        for r in [at["r"]] if "r" in at else range(ROWS):
            if "s" in at:
                pairs[r, at["s"]] = True
            else:
                pairs[r, self.numbers[r, at.get("n", self.row.entrance)]] = True
        return pairs

    def clean(self, label: str, shape: tuple[int, ...], planted: Array) -> Array:
        """Which elements of an array are part of no pair that something was planted in."""
        found = np.empty(shape, bool)
        for place in np.ndindex(shape):
            found[place] = not (self.touched(label, place) & planted).any()
        return found

    def plantings(
        self, arrays: Sequence[Any], labels: Sequence[str], values: Sequence[float]
    ) -> Iterator[tuple[list[Any], Array]]:
        """Each of the values at each place of one row of each array, and the pairs it is in."""
        for i, (x, label) in enumerate(zip(arrays, labels, strict=True)):
            if not jnp.issubdtype(x.dtype, jnp.inexact):
                continue
            for t in range(x.shape[label.index("n")] if "n" in label else 1):
                at = {"r": ROW, "n": t, "s": 0, ".": 0}
                place = tuple(at[letter] for letter in label)
                for value in values:
                    changed = list(arrays)
                    changed[i] = x.copy()
                    changed[i][place] = value
                    yield changed, self.touched(label, place)


def check(
    row: Row,
    run: Any,
    arrays: Sequence[Any],
    labels: Sequence[str],
    made: Sequence[str],
    values: Sequence[float] = VALUES,
    *,
    exact: bool = False,
) -> None:
    """Compares what comes out of planted arrays with what comes out of clean ones."""
    cells = Cells(row)
    program = jax.jit(run)
    clean = [np.asarray(y) for y in program(*arrays)]
    for changed, planted in cells.plantings(arrays, labels, values):
        results = [np.asarray(y) for y in program(*changed)]
        for got, want, label in zip(results, clean, made, strict=True):
            kept = cells.clean(label, want.shape, planted)
            if exact:
                np.testing.assert_array_equal(got[kept], want[kept])
            else:
                np.testing.assert_allclose(
                    got[kept], want[kept], rtol=1e-9, atol=1e-12, equal_nan=False
                )


def in_values(row: Row) -> None:
    """Values of other segments are the same, to the bit."""
    check(row, row.call, row.operands(), row.labels, row.results, exact=True)


def in_gradients(row: Row) -> None:
    """Gradients, with something planted in operands and in cotangents."""

    def run(*given: Any) -> list[Any]:
        operands, cotangents = given[: len(row.labels)], given[len(row.labels) :]
        _, pull = jax.vjp(row.closed(row.call, operands), *row.chosen(operands))
        return list(pull(list(cotangents)))

    arrays = [*row.operands(), *row.weights()]
    labels = [*row.labels, *(row.results[k] for k in row.smooth)]
    check(row, run, arrays, labels, row.chosen(row.labels))


def in_tangents(row: Row) -> None:
    """Tangents, with something planted in operands and in their tangents."""
    arrays = [*row.operands(), *row.tangents()]
    labels = [*row.labels, *row.chosen(row.labels)]
    made = [row.results[k] for k in row.smooth] * 2
    check(row, pushed(row, row.call), arrays, labels, made)


def in_hessians(row: Row) -> None:
    """Each second derivative of which both elements belong to other segments."""
    cells = Cells(row)
    given = row.operands()
    inexact = row.inexact

    def run(*operands: Any) -> Any:
        return jax.hessian(total_of(row, operands), places(row))(*row.chosen(operands))

    program = jax.jit(run)
    clean = program(*given)
    for changed, planted in cells.plantings(given, row.labels, (np.nan,)):
        found = program(*changed)
        kept = [cells.clean(row.labels[i], given[i].shape, planted).reshape(-1) for i in inexact]
        for i, line in enumerate(found):
            for j, entry in enumerate(line):
                both = np.ix_(kept[i], kept[j])
                got, want = (
                    np.asarray(x).reshape(kept[i].size, kept[j].size)[both]
                    for x in (entry, clean[i][j])
                )
                np.testing.assert_allclose(got, want, rtol=1e-9, atol=1e-12, equal_nan=False)


PLANTED = (
    Transformation("planted in values", in_values, segmented),
    Transformation("planted in gradients", in_gradients, differentiable_and_segmented),
    Transformation("planted in tangents", in_tangents, differentiable_and_segmented),
    Transformation("planted in hessians", in_hessians, twice_and_segmented),
)
