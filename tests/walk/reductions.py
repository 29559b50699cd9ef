"""Rows of the table: reductions of whole axes and of segments."""

from __future__ import annotations

import functools
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

import jscan
from jscan import operators
from tests import reference
from tests.walk import cuts, operations, sequential
from tests.walk.cuts import COUNT, Cut, Segmented, lying
from tests.walk.operations import Operation
from tests.walk.row import LENGTH, ROWS, Row, label_of, shape_of
from tests.walk.scans import INTEGERS


def reduced(form: str, operation: Operation, *, axis: int = 1, cut: Cut | None = None) -> Row:
    """A row for reduce, whole or by segments."""
    label, count = label_of(axis), len(operation.leaves)
    segmented = Segmented(cut, label)
    named = isinstance(operation.operator, operators.Operator)

    def elements(operands: Any) -> Any:
        return tuple(operands[:count]) if count > 1 else operands[0]

    def draw(rng: np.random.Generator) -> list[Any]:
        shape = (*shape_of(label), *operation.trailing)
        return [leaf(rng, shape) for leaf in operation.leaves] + segmented.draw(rng)

    def function(*operands: Any, **given: Any) -> Any:
        options: dict[str, Any] = dict(given)
        if not named and cut is not None:
            options["identity"] = operation.identity
        if cut is not None:
            options["segments"] = segmented.given(operands)
            # Lengths and offsets say how many there are.
            says = cut in (cuts.LENGTHS, cuts.OFFSETS)
            options["num_segments"] = None if says else COUNT
        return jscan.reduce(operation.operator, elements(operands), axis, **options)

    def places(xp: Any, operands: Any) -> Any:
        if cut is None:
            return xp.zeros(LENGTH, int)
        found = cuts.numbers_in_order(xp, cut, xp.asarray(lying(label, operands[count])))
        return lying(label, found)

    def expected(*operands: Any) -> Any:
        elems = elements(operands)
        ys = reference.reduce_by_segments(
            operation.in_numpy,
            elems,
            places(np, operands),
            1 if cut is None else COUNT,
            identity=operation.identity,
            axis=axis,
        )
        if cut is None:
            ys = jax.tree.map(lambda y: np.take(y, 0, axis), ys)
        return jax.tree.map(lambda x, y: reference.narrow(y, x.dtype), elems, ys)

    def loop(*operands: Any) -> Any:
        size = 1 if cut is None else COUNT
        ys = sequential.reduce(
            operation.in_jax,
            elements(operands),
            places(jnp, operands),
            size,
            operation.identity,
            axis,
        )
        return ys if cut is not None else jax.tree.map(lambda y: jnp.take(y, 0, axis), ys)

    def numbers(*operands: Any) -> Any:
        return np.broadcast_to(lying(label, places(np, operands)), (ROWS, LENGTH))

    trailing = "." * len(operation.trailing)
    result = label.replace("n", "" if cut is None else "s") + trailing
    return Row(
        f"reduce {form}",
        ("reduce", *operation.covers, *segmented.covers),
        function,
        draw,
        (label + trailing,) * count + segmented.labels,
        (result,) * count,
        expected,
        loop,
        linear=operation.linear,
        undecided=operation.undecided,
        numbers=None if cut is None else numbers,
        # Across devices an identity is combined with elements, and what keeps the last has none.
        across=segmented.divisible(operation.trailing) and operation is not operations.LAST,
    )


def ids_of(rng: np.random.Generator) -> Any:
    """Ids in any order, of which two are dropped."""
    drawn = np.concatenate([[-1, COUNT], rng.integers(0, COUNT, LENGTH - 2)])
    return rng.permutation(drawn).astype(np.int32)


def by_ids(
    name: str,
    operation: Operation,
    *,
    indices_are_sorted: bool = False,
    planned: bool = False,
    form: str = "",
    **how: Any,
) -> Row:
    """A row for segment_sum and its like, of data (n, rows)."""

    def draw(rng: np.random.Generator) -> list[Any]:
        ids = ids_of(rng)
        ids = np.sort(ids) if indices_are_sorted else ids
        return [operation.leaves[0](rng, (LENGTH, ROWS)), ids]

    def function(data: Any, ids: Any, **given: Any) -> Any:
        given |= how
        if planned:
            return getattr(jscan, name)(data, jscan.SegmentPlan(ids, COUNT), **given)
        return getattr(jscan, name)(data, ids, COUNT, indices_are_sorted, **given)

    def expected(data: Any, ids: Any) -> Any:
        ys = reference.reduce_by_segments(
            operation.in_numpy, data, ids, COUNT, identity=operation.identity
        )
        return reference.narrow(ys, data.dtype)

    def loop(data: Any, ids: Any) -> Any:
        return sequential.reduce(operation.in_jax, data, ids, COUNT, operation.identity, 0)

    def numbers(_: Any, ids: Any) -> Any:
        return np.broadcast_to(np.where(ids < 0, COUNT, ids), (ROWS, LENGTH))

    order = "of sorted ids" if indices_are_sorted else "of ids in any order"
    return Row(
        " ".join(filter(None, (name, "by a plan" if planned else order, form))),
        (name, "SegmentPlan") if planned else (name,),
        function,
        draw,
        ("nr", "n"),
        ("sr",),
        expected,
        loop,
        linear=operation.linear,
        numbers=numbers,
        across=indices_are_sorted,
    )


def gathered() -> Row:
    """A row for the value of its segment of each element."""

    def by(xp: Any, values: Any, ids: Any) -> Any:
        places = xp.where((ids < 0) | (ids >= COUNT), COUNT, ids)
        return xp.concatenate([values, xp.zeros_like(values[:1])])[places]

    return Row(
        "SegmentPlan.gather",
        ("SegmentPlan",),
        lambda values, ids: jscan.SegmentPlan(ids, COUNT).gather(values),
        lambda rng: [rng.normal(size=(COUNT, ROWS)), ids_of(rng)],
        ("sr", "n"),
        ("nr",),
        functools.partial(by, np),
        functools.partial(by, jnp),
        linear=((0,),),
    )


REDUCTIONS = (
    reduced("whole", operations.SUM),
    reduced("of integers", INTEGERS, axis=0),
    reduced("of a function of two leaves", operations.OWN_AFFINE),
    reduced("of matrices", operations.MATRICES),
    reduced("of max along axis 0 by flags", operations.MAXIMUM, axis=0, cut=cuts.FLAGS),
    reduced("of add by rows of flags", operations.SUM, cut=cuts.ROWS_OF_FLAGS),
    reduced("of add by packed flags", operations.SUM, cut=cuts.PACKED),
    reduced("of affine by lengths", operations.AFFINE, cut=cuts.LENGTHS),
    reduced("of a function of two leaves by ids", operations.OWN_AFFINE, cut=cuts.IDS),
    reduced("of matrices by flags", operations.MATRICES, cut=cuts.FLAGS),
    reduced("of moments by offsets", operations.WELFORD, cut=cuts.OFFSETS),
    reduced("of a function that keeps the last by flags", operations.LAST, cut=cuts.FLAGS),
    *(
        by_ids(name, operation, indices_are_sorted=form == "sorted", planned=form == "planned")
        for name, operation in (
            ("segment_sum", operations.SUM),
            ("segment_prod", operations.PRODUCT),
            ("segment_max", operations.MAXIMUM),
            ("segment_min", operations.MINIMUM),
        )
        for form in ("sorted", "any", "planned")
    ),
    gathered(),
    by_ids("segment_sum", INTEGERS, indices_are_sorted=True, form="and integers"),
    by_ids("segment_sum", operations.SUM, indices_are_sorted=True, form="in pairs", precise=True),
    by_ids("segment_sum", operations.SUM, form="in pairs", precise=True),
    by_ids("segment_sum", operations.SUM, planned=True, form="in pairs", precise=True),
)
