"""Rows of the table: tridiagonal systems."""

from __future__ import annotations

from typing import Any

import jax.numpy as jnp
import numpy as np

import jscan
from tests import reference, tridiagonal
from tests.walk import operations
from tests.walk.row import Row, label_of, shape_of


def solved(
    form: str,
    *,
    axis: int = 1,
    shared: bool = False,
    periodic: bool = False,
    draws: operations.Draw = operations.factors,
) -> Row:
    """A row for tridiagonal_solve, with a matrix for each right-hand side or one for all."""
    label = label_of(axis)
    labels = (*["n" if shared else label] * 3, label)
    how: dict[str, Any] = {"axis": axis, "periodic": periodic}

    def draw(rng: np.random.Generator) -> list[Any]:
        dl, sign, du, b = (draws(rng, shape_of(label)) for label in labels)
        size = np.abs(dl) + np.abs(du) + rng.uniform(0.5, 1.5, dl.shape)
        return [dl, size * sign / np.abs(sign), du, b]

    def expected(*operands: Any) -> Any:
        wide = [reference.widen(x) for x in operands]
        return reference.narrow(tridiagonal.solved(*wide, **how), operands[-1].dtype)

    return Row(
        f"tridiagonal_solve {form}",
        ("tridiagonal_solve",),
        lambda *operands: jscan.tridiagonal_solve(*operands, **how),
        draw,
        labels,
        (label,),
        expected,
        lambda *operands: tridiagonal.solved(*operands, **how, xp=jnp),
        linear=((3,),),
    )


SYSTEMS = (
    solved("whole"),
    solved("along axis 0 of one matrix", axis=0, shared=True),
    solved("periodic", periodic=True),
    solved("of complex numbers", draws=operations.complex_numbers),
    solved("periodic of one matrix", axis=0, shared=True, periodic=True),
)
