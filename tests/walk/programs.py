"""Transformations that run in every layout: programs from arrays to arrays."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import jax
import numpy as np

from tests.walk import derivatives
from tests.walk.close import assert_all_close, assert_results
from tests.walk.layouts import Function, Layout
from tests.walk.row import Row, loss

BATCH = 2
Labelled = tuple[Sequence[Any], Sequence[str]]


@dataclass(frozen=True)
class Program:
    """What is made of a function, what it is given, and what should come out.

    `build` takes a row and a function to the program; `given` a row and a seed to its operands and
    their labels; `expected` a row and a seed to the results and their labels.
    """

    name: str
    build: Callable[[Row, Function], Function]
    given: Callable[[Row, int], Labelled]
    expected: Callable[[Row, int], Labelled]
    differentiates: bool = False
    batched: bool = False
    compiled: bool = True

    def applies(self, row: Row, layout: Layout) -> bool:
        """Whether the row has something to differentiate and the layout something to divide."""
        labels = [*row.labels, "b"] if self.batched else row.labels
        if layout.across and not row.across:
            return False
        return layout.divides(labels) and not (self.differentiates and not row.inexact)

    def check(self, row: Row, layout: Layout) -> None:
        """Runs the program in the layout."""
        (arrays, labels), (wanted, made) = (
            _batch([of(row, seed) for seed in range(BATCH)]) if self.batched else of(row, 0)
            for of in (self.given, self.expected)
        )
        results = layout.run(
            lambda function: self._mapped(row, function),
            row.call,
            arrays,
            labels=(labels, made),
            own=(row.labels, row.results),
            compiled=self.compiled,
        )
        assert_all_close(results, wanted)
        if not self.differentiates:
            assert [y.dtype for y in results] == [y.dtype for y in row.shapes]
        if not self.batched and not self.differentiates:
            assert_results(results, row.shapes)
        for y, label in zip(results, made, strict=True):
            layout.assert_kept(y, label)

    def _mapped(self, row: Row, function: Function) -> Function:
        program = self.build(row, function)
        return jax.vmap(program) if self.batched else program


def _batch(parts: Sequence[Labelled]) -> Labelled:
    arrays = [np.stack(each) for each in zip(*(arrays for arrays, _ in parts), strict=True)]
    return arrays, ["b" + label for label in parts[0][1]]


def gradient(row: Row, function: Function) -> Function:
    """Operands and weights to the gradient of `loss`."""

    def run(*given: Any) -> list[Any]:
        operands, weights = given[: len(row.labels)], given[len(row.labels) :]
        inner = row.closed(function, operands)
        chosen = row.chosen(operands)

        def total(*chosen: Any) -> Any:
            return loss(inner(*chosen), weights)

        return list(jax.grad(total, tuple(range(len(chosen))))(*chosen))

    return run


def pushed(row: Row, function: Function) -> Function:
    """Operands and tangents to the results and their tangents."""

    def run(*given: Any) -> list[Any]:
        operands, tangents = given[: len(row.labels)], given[len(row.labels) :]
        inner = row.closed(function, operands)
        ys, dys = jax.jvp(inner, tuple(row.chosen(operands)), tangents)
        return [*ys, *dys]

    return run


def _operands(row: Row, seed: int) -> Labelled:
    return row.operands(seed), row.labels


def _values(row: Row, seed: int) -> Labelled:
    return row.values(seed), row.results


def _smooth_labels(row: Row) -> list[str]:
    return [row.results[k] for k in row.smooth]


def _with_weights(row: Row, seed: int) -> Labelled:
    return [*row.operands(seed), *row.weights(seed)], [*row.labels, *_smooth_labels(row)]


def _gradients(row: Row, seed: int) -> Labelled:
    return derivatives.gradient(row, seed), row.chosen(row.labels)


def _with_tangents(row: Row, seed: int) -> Labelled:
    return [*row.operands(seed), *row.tangents(seed)], [*row.labels, *row.chosen(row.labels)]


def _tangents(row: Row, seed: int) -> Labelled:
    ys = [row.values(seed)[k] for k in row.smooth]
    dys = derivatives.pushed_forward(row, row.tangents(seed), seed)
    return [*ys, *dys], _smooth_labels(row) * 2


def _itself(_: Row, function: Function) -> Function:
    return function


PROGRAMS = (
    Program("value", _itself, _operands, _values, compiled=False),
    Program("jit", _itself, _operands, _values),
    Program("vmap", _itself, _operands, _values, batched=True),
    Program("grad", gradient, _with_weights, _gradients, differentiates=True),
    Program("jvp", pushed, _with_tangents, _tangents, differentiates=True),
    Program("vmap of grad", gradient, _with_weights, _gradients, differentiates=True, batched=True),
)
