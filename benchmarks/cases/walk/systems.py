"""Tridiagonal systems by chance."""

from __future__ import annotations

import random

from benchmarks.cases.case import Operation, call
from benchmarks.cases.walk import checks, operations, shapes
from benchmarks.cases.walk.calls import Drawn, dtype_of, leaf
from benchmarks.cases.walk.operators import NUMBERS


def draw_system(rng: random.Random, size: int) -> Drawn:
    """`jscan.tridiagonal_solve`, of a matrix for each row or one for all, perhaps periodic."""
    shape = shapes.drawn(rng, size)
    dtype = dtype_of(rng, tuple(name for name in NUMBERS if "int" not in name))
    periodic, axis = rng.random() < 0.2, shape.axis
    extents = diagonals = shape.extents
    words: tuple[str, ...] = ("periodic",) if periodic else ()
    if len(extents) > 1 and rng.random() < 0.3:
        diagonals = tuple(n if d == axis else 1 for d, n in enumerate(extents))
        words = (*words, f"diagonals of {diagonals}")
    beside, b = leaf(diagonals, dtype, "signs"), leaf(extents, dtype, "signs")
    peers: dict[str, Operation] = {}
    if dtype == "float32" and not periodic:
        peers["lax.linalg.tridiagonal_solve"] = call(operations.lax_system, axis)
    return Drawn(
        *("tridiagonal_solve", words, shape, dtype, "", "periodic" if periodic else "plain"),
        call(operations.system, axis=axis, periodic=periodic),
        leaves=(beside, leaf(diagonals, dtype, "fours"), beside, b),
        others=(),
        results=(b,),
        slopes=(0, 1, 2, "results"),
        peers=peers,
        steps=call(checks.left_over, axis, periodic),
    )
