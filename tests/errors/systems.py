"""Functions that solve systems: a call that works, and the values that are wrong."""

from __future__ import annotations

import jscan
from tests.errors import wrong_values as wrong
from tests.errors.function import Function, Misuse
from tests.errors.wrong_values import FLAGS, X, values

SYSTEMS = (
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
