"""Functions that solve systems: a call that works, and the values that are wrong."""

from __future__ import annotations

import numpy as np

import jscan
from tests.errors import wrong_values as wrong
from tests.errors.function import Function, Misuse
from tests.errors.wrong_values import FLAGS, X, types, values

SQUARES = np.stack([X, X, X], -1)

SYSTEMS = (
    Function(
        "matrix_recurrence",
        jscan.matrix_recurrence,
        {
            "A": SQUARES,
            "b": X,
            "h0": X[0],
            "axis": 0,
            "reverse": False,
            "segments": FLAGS,
            "form": "full",
            **wrong.DEFAULTS,
        },
        {
            "A": [
                *wrong.NUMBERS,
                *types({"booleans": SQUARES > 1}),
                *values(
                    {
                        "vectors": X,
                        "not square": SQUARES[..., :2],
                        "of more states": np.ones((6, 4, 4), np.float32),
                        "five rows": SQUARES[:5],
                        "more axes": SQUARES[None],
                    }
                ),
            ],
            "b": [*wrong.NUMBERS, *wrong.BOOLEANS, *wrong.SCALAR, *values({"a vector": X[:, 0]})],
            "h0": wrong.STARTS,
            "axis": [*wrong.AXIS, *values({"the states": 1, "the states from behind": -1})],
            "reverse": wrong.SWITCH,
            "segments": wrong.SEGMENTS,
            "form": values({"a list": ["full"], "none of them": "diagonal"}),
            **wrong.HOW,
        },
        (
            Misuse(
                "rotations of three states",
                "form",
                ValueError,
                {"A": SQUARES[..., :2, 0], "form": "rotation"},
            ),
        ),
    ),
    Function(
        "tridiagonal_solve",
        jscan.tridiagonal_solve,
        {"dl": X, "d": 4 * X, "du": X, "b": X, "axis": 0, "periodic": False},
        {
            **dict.fromkeys(("dl", "d", "du"), wrong.SLOPES),
            "b": [*wrong.NUMBERS, *wrong.BOOLEANS, *wrong.SCALAR, *values({"fewer axes": X[:, 0]})],
            "axis": wrong.AXIS,
            "periodic": wrong.SWITCH,
        },
        tuple(
            Misuse("integers alone", name, TypeError, dict.fromkeys(("dl", "d", "du", "b"), FLAGS))
            for name in ("d", "b")
        ),
    ),
)
