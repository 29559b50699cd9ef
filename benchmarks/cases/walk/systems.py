"""Tridiagonal systems, recurrences of vectors and scans of small matrices by chance."""

from __future__ import annotations

import random
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

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


def _moved(a: tuple[Any, Any], b: tuple[Any, Any]) -> tuple[Any, Any]:
    """The map x -> a0 x + a1, then b."""
    return b[0] @ a[0], jnp.einsum("...ij,...j->...i", b[0], a[1]) + b[1]


def _of_blocks(operator: Operation, leaves: int, form: str, *arrays: jax.Array, **how: Any) -> Any:
    """`jscan.associative_scan` of so many leaves, of which the identity begins with that matrix."""
    k, dtype = arrays[0].shape[-1], arrays[0].dtype
    one, zero = np.eye(k, dtype=dtype), np.zeros(k, dtype)
    identity = one if leaves == 1 else (one, zero)
    return operations.scan(operator, leaves, form, *arrays, identity=identity, **how)


def draw_blocks(rng: random.Random, size: int) -> Drawn:
    """`jscan.associative_scan` of matrices, or of affine maps of vectors."""
    k, maps = rng.choice([2, 3, 4, 5, 7, 8]), rng.random() < 0.4
    dtype = dtype_of(rng, NUMBERS)
    shape = shapes.drawn(rng, max(size // (k * k), 64), ("one row",))
    way = way_of(rng, shape)
    leaves: tuple[Operand, ...] = (leaf((*shape.extents, k, k), dtype, "turns"),)
    if maps:
        leaves += (leaf((*shape.extents, k), dtype, "signs"),)
    operator, name = (_moved, "affine maps") if maps else (jnp.matmul, "matmul")
    told = operator, len(leaves)
    run = call(_of_blocks, *told, way.division.form, axis=shape.axis, **way.how)
    peers: dict[str, Operation] = {}
    if way.has_tree and not way.division.form:
        peers["lax.associative_scan"] = call(operations.lax_scan, *told, shape.axis, way.reverse)
    words = (f"{name} {k} x {k}", *way.words)
    return Drawn(
        *("associative_scan", words, shape, dtype, name, way.direction, run),
        leaves=leaves,
        others=way.division.operands,
        results=leaves,
        slopes=(*range(len(leaves)), "results"),
        peers=peers,
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
