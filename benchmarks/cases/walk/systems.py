"""Tridiagonal systems and recurrences of vectors by chance."""

from __future__ import annotations

import random

from benchmarks.cases.case import Operation, call
from benchmarks.cases.walk import checks, operations, shapes
from benchmarks.cases.walk.calls import Drawn, Operand, dtype_of, leaf, way_of
from benchmarks.cases.walk.operators import NUMBERS


def draw_matrices(rng: random.Random, size: int) -> Drawn:
    """`jscan.matrix_recurrence`, of a matrix for each element or one for all, perhaps rotations."""
    k, held = rng.choice([(2, "full"), (3, "full"), (4, "full"), (6, "full"), (2, "rotation")])
    dtype, shape = dtype_of(rng, NUMBERS), shapes.drawn(rng, max(size // (k * k), 64))
    way = way_of(rng, shape, exclusive=0.0)
    entries, make = ((k, k), "turns") if held == "full" else ((2,), "quarters")
    leading = () if rng.random() < 0.2 else shape.extents
    words = (*way.words, f"{k} x {k}" if held == "full" else "rotations")
    if not leading:
        words = (*words, "of one matrix")
    a, b = leaf((*leading, *entries), dtype, make), leaf((*shape.extents, k), dtype, "signs")
    start: tuple[Operand, ...] = ()
    if rng.random() < 0.2:
        row = shape.extents[: shape.axis] + shape.extents[shape.axis + 1 :]
        start, words = (leaf((*row, k), dtype, "signs"),), (*words, "h0")
    told = way.division.form, held, bool(start)
    run = call(*(operations.matrices, *told), axis=shape.axis, **way.how)
    return Drawn(
        *("matrix_recurrence", words, shape, dtype, "", way.direction, run),
        leaves=(a, b, *start),
        others=way.division.operands,
        results=(b,),
        slopes=(0, "results"),
        peers={},
        reference=call(run, method="xla"),
    )


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
