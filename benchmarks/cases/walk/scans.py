"""Scans by chance: cumulative operations, other operators, recurrences."""

from __future__ import annotations

import random

from benchmarks.cases.case import Operation, call
from benchmarks.cases.walk import checks, operations, shapes
from benchmarks.cases.walk.calls import (
    Drawn,
    Operand,
    Way,
    dtype_of,
    leaf,
    way_of,
)
from benchmarks.cases.walk.operators import (
    ADD,
    AFFINE,
    AND,
    CUMULATIVE,
    FLOATS,
    LAMBDAS,
    LOGADDEXP,
    MAX,
    NUMBERS,
    OR,
    XOR,
    Drawable,
)
from benchmarks.cases.walk.shapes import Shape


def draw_cumulative(rng: random.Random, size: int) -> Drawn:
    """`jscan.cumsum` and the like."""
    names = list(CUMULATIVE)
    (name,) = rng.choices(names, [weight for _, weight in CUMULATIVE.values()])
    operator, _ = CUMULATIVE[name]
    dtype, shape = dtype_of(rng, operator.dtypes), shapes.drawn(rng, size)
    return cumulative(name, dtype, shape, way_of(rng, shape))


def draw_precise(rng: random.Random, size: int) -> Drawn:
    """`jscan.cumsum` in pairs."""
    dtype, shape = dtype_of(rng, (*FLOATS, "complex64")), shapes.drawn(rng, size)
    return cumulative("cumsum", dtype, shape, way_of(rng, shape), precise=True)


def cumulative(name: str, dtype: str, shape: Shape, way: Way, *, precise: bool = False) -> Drawn:
    """A cumulative operation of such an array."""
    operator, _ = CUMULATIVE[name]
    x = leaf(shape.extents, dtype, operator.values[0])
    how = way.how | ({"precise": True} if precise else {})
    words = (*way.words, "precise") if precise else way.words
    run = call(operations.cumulative, name, way.division.form, axis=shape.axis, **how)
    peers: dict[str, Operation] = {}
    if not way.division.form:
        before = operator.identities(dtype)[0] if way.exclusive else None
        peers[f"lax.{name}"] = call(
            operations.lax_cumulative, name, before, shape.axis, way.reverse
        )
    elif way.has_tree:
        peers["lax.associative_scan"] = call(
            operations.lax_scan, operator.combine, 1, shape.axis, way.reverse
        )
    return Drawn(
        *(name, words, shape, dtype, operator.name, way.direction, run),
        leaves=(x,),
        others=way.division.operands,
        results=(x,),
        slopes=operator.slopes,
        peers=peers,
        reference=call(run, method="xla"),
        steps=_steps(operator, dtype, shape.axis, way),
    )


def draw_started(rng: random.Random, size: int) -> Drawn:
    """`jscan.cumsum` and the like, from an initial value for each row."""
    name = rng.choice([*CUMULATIVE])
    operator, _ = CUMULATIVE[name]
    dtype, shape = dtype_of(rng, operator.dtypes), shapes.drawn(rng, size)
    way = way_of(rng, shape)
    x = leaf(shape.extents, dtype, operator.values[0])
    row = shape.extents[: shape.axis] + shape.extents[shape.axis + 1 :]
    start = leaf(row, dtype, operator.values[0])
    run = call(operations.started, name, way.division.form, axis=shape.axis, **way.how)
    return Drawn(
        *(name, (*way.words, "init"), shape, dtype, operator.name, way.direction, run),
        leaves=(x, start),
        others=way.division.operands,
        results=(x,),
        slopes=operator.slopes,
        reference=call(run, method="xla"),
    )


def _steps(operator: Drawable, dtype: str, axis: int, way: Way) -> Operation:
    """The check of a scan by its definition."""
    before = operator.identities(dtype) if way.exclusive else None
    told = before, len(operator.values), way.division.form, axis, way.reverse
    return call(checks.from_step_to_step, operator.combine, *told)


def _scan(rng: random.Random, size: int, drawable: tuple[Drawable, ...]) -> Drawn:
    operator = rng.choice(drawable)
    dtype, shape = dtype_of(rng, operator.dtypes), shapes.drawn(rng, size)
    way = way_of(rng, shape)
    dtypes = operator.leaf_dtypes(dtype)
    leaves = tuple(
        leaf(shape.extents, own, kind) for own, kind in zip(dtypes, operator.values, strict=True)
    )
    how = way.how | ({"identity": operator.neutral(dtype)} if way.exclusive else {})
    told = operator.combine, len(leaves), way.division.form
    run = call(operations.scan, *told, axis=shape.axis, **how)
    peers: dict[str, Operation] = {}
    if way.has_tree:
        peers["lax.associative_scan"] = call(
            operations.lax_scan, operator.combine, len(leaves), shape.axis, way.reverse
        )
    words, results = (operator.name, *way.words), leaves
    if len(leaves) > 1 and rng.random() < 0.3:
        words, results = (*words, "last result alone"), leaves[-1:]
        run = call(operations.last, run)
        peers = {peer: call(operations.last, other) for peer, other in peers.items()}
    steps = None if results is not leaves else _steps(operator, dtype, shape.axis, way)
    return Drawn(
        *("associative_scan", words, shape, dtype, operator.name, way.direction, run),
        leaves=leaves,
        others=way.division.operands,
        results=results,
        slopes=operator.slopes,
        peers=peers,
        reference=call(run, method="xla"),
        steps=steps,
    )


def draw_operator(rng: random.Random, size: int) -> Drawn:
    """`jscan.associative_scan` with an operator of jscan."""
    return _scan(rng, size, (AND, OR, XOR, AFFINE, AFFINE, ADD, MAX, LOGADDEXP))


def draw_lambda(rng: random.Random, size: int) -> Drawn:
    """`jscan.associative_scan` with a function as users write it."""
    return _scan(rng, size, LAMBDAS)


def draw_recurrence(rng: random.Random, size: int) -> Drawn:
    """`jscan.linear_recurrence`, perhaps with shared coefficients or a start."""
    dtype, shape = dtype_of(rng, NUMBERS), shapes.drawn(rng, size)
    way = way_of(rng, shape, exclusive=0.0)
    extents = slopes = shape.extents
    if len(extents) > 1 and rng.random() < 0.3:
        shared = rng.choice([d for d in range(len(extents)) if d != shape.axis])
        slopes = (*extents[:shared], 1, *extents[shared + 1 :])
        if shared == len(extents) - 1 and rng.random() < 0.5:
            slopes = slopes[:-1]
    return recurrence(dtype, shape, way, slopes, started=rng.random() < 0.2)


def recurrence(
    dtype: str,
    shape: Shape,
    way: Way,
    slopes: tuple[int, ...] | None = None,
    *,
    started: bool = False,
) -> Drawn:
    """A recurrence of such an array, perhaps with shared coefficients or a start."""
    extents, words = shape.extents, way.words
    if slopes is not None and slopes != extents:
        words = (*words, f"a of {slopes}")
    a, b = leaf(slopes or extents, dtype, "factors"), leaf(extents, dtype, "signs")
    start: tuple[Operand, ...] = ()
    if started:
        row = extents[: shape.axis] + extents[shape.axis + 1 :]
        start, words = (leaf(row, dtype, "signs"),), (*words, "h0")
    run = call(*(operations.recurrence, way.division.form, bool(start)), axis=shape.axis, **way.how)
    peers = {}
    if not way.division.form and not start:
        told = shape.axis, way.reverse
        peers["lax.associative_scan"] = call(operations.lax_recurrence, *told)
    steps = None
    if not start:
        how = None, 2, way.division.form, shape.axis, way.reverse
        steps = call(checks.from_step_to_step, checks.recur, *how)
    return Drawn(
        *("linear_recurrence", words, shape, dtype, "affine", way.direction, run),
        leaves=(a, b, *start),
        others=way.division.operands,
        results=(b,),
        slopes=(0, "results"),
        peers=peers,
        reference=call(run, method="xla"),
        steps=steps,
    )
