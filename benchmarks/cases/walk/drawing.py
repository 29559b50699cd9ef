"""A walk over the public API: the case of each number, which a seed and the number decide."""

from __future__ import annotations

import dataclasses
import random
from typing import Any

from benchmarks.cases.case import Operation, call
from benchmarks.cases.walk import checks, operations, values
from benchmarks.cases.walk.calls import Drawn, Operand, total
from benchmarks.cases.walk.families import FAMILIES
from benchmarks.cases.walk.shapes import elements
from benchmarks.cases.walk.steps import Step, step_of

LARGEST = 2**28
"""The most elements of a leaf."""
MEMORY = 12 * 2**30
"""The most bytes of operands and results together."""
TRANSFORMATIONS = {"": 64, "vmap": 12, "gradient": 11, "tangent": 6, "vmap of gradient": 7}
"""How often a call is transformed."""


SCANS = ("cumulative", "operators", "lambdas", "linear_recurrence")
"""The families of a walk over scans alone."""


def scan(seed: int, number: int, largest: int = LARGEST) -> Step:
    """A scan of 2^26 elements or so, as it is called: what a walk over scans takes."""
    rng = random.Random(f"scans {seed}/{number}")
    (name,) = rng.choices(SCANS, [FAMILIES[name][0] for name in SCANS])
    size = min(largest, int(2 ** rng.uniform(25.5, 26.5)))
    return step_of(number, FAMILIES[name][1](rng, size))


def step(seed: int, number: int, largest: int = LARGEST, families: tuple[str, ...] = ()) -> Step:
    """The case of a number. Where it would need too much memory, a smaller one is drawn."""
    names = families or tuple(FAMILIES)
    attempt = 0
    while True:
        rng = random.Random(f"{seed}/{number}/{attempt}")
        (name,) = rng.choices(names, [FAMILIES[name][0] for name in names])
        drawn = _transformed(rng, FAMILIES[name][1], elements(rng, largest >> attempt))
        if total((*drawn.operands, *drawn.results)) <= MEMORY:
            return step_of(number, drawn)
        attempt += 1


# --- transformations ----------------------------------------------------------------------------


def _transformed(rng: random.Random, draw: Any, size: int) -> Drawn:
    """A call, or one that is mapped over rows, or its derivative."""
    (name,) = rng.choices(list(TRANSFORMATIONS), list(TRANSFORMATIONS.values()))
    rows = 1
    if "vmap" in name:
        rows = min(rng.choice([2, 3, 8, 32, 100, 1000, 1024, 4097]), max(size // 64, 1))
    drawn: Drawn = draw(rng, max(size // rows, 64))
    if "gradient" in name or name == "tangent":
        if not _has_derivative(drawn):
            return drawn
        drawn = (_with_gradient if "gradient" in name else _with_tangent)(drawn)
    return _mapped(rng, drawn, rows) if "vmap" in name else drawn


def _has_derivative(drawn: Drawn) -> bool:
    floats = [x for x in drawn.leaves if x.is_floating]
    has_results = any(x.is_floating for x in drawn.results)
    return bool(floats) and has_results and drawn.function not in ("enumerate", "Segments")


def _float_leaves(drawn: Drawn) -> tuple[int, ...]:
    return tuple(place for place, x in enumerate(drawn.leaves) if x.is_floating)


def _with_gradient(drawn: Drawn) -> Drawn:
    """The results and the gradient: two passes, of which the second reads what its slopes need."""
    leaves = _float_leaves(drawn)
    results = tuple(x for x in drawn.results if x.is_floating)
    cotangents = tuple(dataclasses.replace(x, make=values.signs) for x in results)
    gradients = tuple(drawn.leaves[place] for place in leaves)
    needed = tuple(drawn.leaves[place] for place in drawn.slopes if isinstance(place, int))
    needed += results * ("results" in drawn.slopes)
    kept = dataclasses.replace(drawn, results=results)
    again = drawn.others if drawn.again is None else drawn.again
    second = (*needed, *again, *cotangents, *gradients)
    return _derived(kept, "gradient", operations.gradient, leaves, cotangents, gradients, second)


def _with_tangent(drawn: Drawn) -> Drawn:
    """The results and their tangents, which come with them in one pass."""
    leaves = _float_leaves(drawn)
    results = tuple(x for x in drawn.results if x.is_floating)
    moved = tuple(drawn.leaves[place] for place in leaves)
    tangents = tuple(dataclasses.replace(x, make=values.signs) for x in moved)
    kept = dataclasses.replace(drawn, results=results)
    extra = (*tangents, *results)
    return _derived(kept, "tangent", operations.tangent, leaves, tangents, results, extra)


def _derived(
    drawn: Drawn,
    name: str,
    by: Operation,
    leaves: tuple[int, ...],
    more: tuple[Operand, ...],
    results: tuple[Operand, ...],
    moved: tuple[Operand, ...],
) -> Drawn:
    """The derivative of a call and of its peers, which moves these arrays beside the call's."""
    count = len(drawn.operands)

    def derivative(run: Operation) -> Operation:
        return call(by, run, leaves, count)

    # JAX knows no derivative of jax.ops.segment_prod, nor of lax.reduce with any operator.
    known = drawn.function != "reduce" and "segment_prod" not in (drawn.function, *drawn.words)
    return dataclasses.replace(
        drawn,
        run=derivative(drawn.run),
        others=(*drawn.others, *more),
        results=(*drawn.results, *results),
        peers={peer: derivative(run) for peer, run in drawn.peers.items() if known},
        steps=None,
        reference=derivative(drawn.reference) if drawn.reference and known else None,
        moved=(*drawn.moves, *moved),
        transformation=name,
    )


def _mapped(rng: random.Random, drawn: Drawn, rows: int) -> Drawn:
    """The call for each of so many rows or lanes; what describes segments may be shared."""
    own, rank = len(drawn.leaves), len(drawn.shape.extents)
    place = rng.choice([0, 0, rank]) if own else 0
    shared: set[int] = set()
    if rng.random() < 0.5:
        shared = {number for number, x in enumerate(drawn.others, own) if not x.is_floating}
    if len(shared) == len(drawn.operands):
        shared = set()

    def axis_of(x: Operand) -> int:
        return 0 if x.rows or len(x.shape) != rank else place

    def batched(x: Operand) -> Operand:
        axis = axis_of(x)
        return dataclasses.replace(x, shape=(*x.shape[:axis], rows, *x.shape[axis:]))

    numbered = list(enumerate(drawn.operands))
    operands = tuple(x if number in shared else batched(x) for number, x in numbered)
    in_axes = tuple(None if number in shared else axis_of(x) for number, x in numbered)
    out_axes = tuple(axis_of(x) for x in drawn.results)
    alike = [drawn.operands[number] for number in shared]
    moved = tuple(x if x in alike else batched(x) for x in drawn.moves)

    def of_rows(run: Operation) -> Operation:
        return call(operations.mapped, run, in_axes, out_axes)

    said = f"{rows} {'lanes' if place else 'rows'}" + (", segments shared" if shared else "")
    return dataclasses.replace(
        drawn,
        words=(*drawn.words, said),
        run=of_rows(drawn.run),
        leaves=operands[:own],
        others=operands[own:],
        results=tuple(batched(x) for x in drawn.results),
        peers={peer: of_rows(run) for peer, run in drawn.peers.items()},
        steps=call(checks.worst_row, drawn.steps, in_axes, out_axes) if drawn.steps else None,
        reference=of_rows(drawn.reference) if drawn.reference else None,
        moved=moved,
        transformation=f"vmap of {drawn.transformation}" if drawn.transformation else "vmap",
    )
