"""Rows of the table: scans and recurrences."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

import jscan
from jscan import networks, operators
from tests import reference
from tests.walk import cuts, operations, sequential
from tests.walk.cuts import Cut, Segmented
from tests.walk.operations import Operation
from tests.walk.row import LENGTH, ROWS, Row, label_of, shape_of


def scanned(
    name: str,
    call: Callable[..., Any],
    operation: Operation,
    *,
    covers: tuple[str, ...] = (),
    axis: int = 1,
    reverse: bool = False,
    exclusive: bool = False,
    init: bool = False,
    cut: Cut | None = None,
) -> Row:
    """A row for a scan; `call` takes elements and options. An `init` is drawn for each row."""
    label = label_of(axis)
    count, segmented = len(operation.leaves), Segmented(cut, label)
    form = {"axis": axis, "reverse": reverse}
    ends = {**form, "exclusive": exclusive, "identity": operation.identity}

    def elements(operands: Any) -> Any:
        return tuple(operands[:count]) if count > 1 else operands[0]

    def begin(operands: Any) -> dict[str, Any]:
        return {"init": elements(operands[count:])} if init else {}

    def draw(rng: np.random.Generator) -> list[Any]:
        shape = (*shape_of(label), *operation.trailing)
        drawn = [leaf(rng, shape) for leaf in operation.leaves]
        if init:
            drawn += [leaf(rng, (ROWS, *operation.trailing)) for leaf in operation.leaves]
        return drawn + segmented.draw(rng)

    def function(*operands: Any, **given: Any) -> Any:
        options: dict[str, Any] = {**form, **begin(operands), **given}
        if exclusive:
            options["exclusive"] = True
        if cut is not None:
            options["segments"] = segmented.given(operands)
        return call(elements(operands), **options)

    def expected(*operands: Any) -> Any:
        elems = elements(operands)
        how = {**ends, **begin(operands), "flags": segmented.flags(np, operands)}
        ys = reference.scan(operation.in_numpy, elems, **how)
        return jax.tree.map(lambda x, y: reference.narrow(y, x.dtype), elems, ys)

    def loop(*operands: Any) -> Any:
        flags = segmented.flags(jnp, operands)
        how = {**ends, **begin(operands), "flags": flags}
        return sequential.scan(operation.in_jax, elements(operands), **how)

    trailing = "." * len(operation.trailing)
    whole, starts = label + trailing, ("r" + trailing,) * (count if init else 0)
    linear, undecided = operation.linear, operation.undecided
    if init:
        undecided = tuple(range(2 * count)) if linear or undecided else ()
        linear = tuple((*group, *(count + i for i in group)) for group in linear)
    return Row(
        name,
        (*covers, *operation.covers, *segmented.covers),
        function,
        draw,
        (whole,) * count + starts + segmented.labels,
        (whole,) * count,
        expected,
        loop,
        linear=linear,
        undecided=undecided,
        numbers=segmented.numbers,
        entrance=LENGTH - 1 if reverse else 0,
        across=segmented.divisible(operation.trailing),
    )


def cumulative(name: str, form: str, operation: Operation, **options: Any) -> Row:
    """A row for a cumulative function, which knows its operator."""
    own = replace(operation, covers=())
    return scanned(f"{name} {form}", getattr(jscan, name), own, covers=(name,), **options)


def associative(form: str, operation: Operation, **options: Any) -> Row:
    """A row for associative_scan."""
    given = {}
    if options.get("exclusive") and not isinstance(operation.operator, operators.Operator):
        given["identity"] = operation.identity
    call = partial(jscan.associative_scan, operation.operator, **given)
    covers = ("associative_scan",)
    return scanned(f"associative_scan {form}", call, operation, covers=covers, **options)


def network(name: str, form: str, operation: Operation, **options: Any) -> Row:
    """A row for a network; one that has slack gets some."""
    slack = {"slack": 1} if name == "ladner_fischer" else {}
    call = partial(getattr(networks, name), operation.operator, **slack)
    own = replace(operation, covers=())
    row = scanned(f"{name} {form}", call, own, covers=(f"networks.{name}",), **options)
    return replace(row, across=False)


def recurrence(
    form: str,
    *,
    label_of_a: str | None = None,
    start: bool = False,
    axis: int = 1,
    reverse: bool = False,
    exclusive: bool = False,
    cut: Cut | None = None,
    draws: tuple[operations.Draw, operations.Draw] = (operations.factors, operations.normal),
) -> Row:
    """A row for linear_recurrence, with a coefficient for each element, or those of its label."""
    label = label_of(axis)
    segmented = Segmented(cut, label)
    of_a = label if label_of_a is None else label_of_a
    labels = (of_a, label, *("r" if start else ()), *segmented.labels)

    def draw(rng: np.random.Generator) -> list[Any]:
        drawn = [draws[0](rng, shape_of(labels[0])), draws[1](rng, shape_of(label))]
        if start:
            drawn.append(draws[1](rng, (ROWS,)))
        return drawn + segmented.draw(rng)

    def function(a: Any, b: Any, *rest: Any, **given: Any) -> Any:
        h0 = rest[0] if start else None
        options = {"axis": axis, "reverse": reverse, "segments": segmented.given(rest), **given}
        if exclusive:
            options["exclusive"] = True
        return jscan.linear_recurrence(a, b, h0, **options)

    def expected(a: Any, b: Any, *rest: Any) -> Any:
        wide_a, wide_b = np.moveaxis(reference.widen(b) * 0, axis, 0), reference.widen(b)
        coefficients = reference.widen(a)
        coefficients = coefficients.reshape(coefficients.shape + (1,) * (b.ndim - a.ndim))
        wide_a = np.moveaxis(np.broadcast_to(coefficients, b.shape), axis, 0)
        wide_b = np.moveaxis(wide_b, axis, 0)
        fresh = reference.restarts(segmented.flags(np, rest), LENGTH, axis, reverse)
        h = reference.widen(rest[0]) if start else np.zeros_like(wide_b[0])
        hs = np.empty_like(wide_b)
        for position, t in enumerate(reversed(range(LENGTH)) if reverse else range(LENGTH)):
            inside = wide_a[t] * h + wide_b[t]
            begun = np.asarray((position > 0) & fresh[t])
            before = reference.choose(
                begun, np.zeros_like(wide_b[t]), np.broadcast_to(h, wide_b[t].shape)
            )
            h = reference.choose(begun, wide_b[t], inside)
            hs[t] = before if exclusive else h
        return reference.narrow(np.moveaxis(hs, 0, axis), b.dtype)

    def loop(a: Any, b: Any, *rest: Any) -> Any:
        h0 = rest[0] if start else None
        flags = segmented.flags(jnp, rest)
        how = {"axis": axis, "reverse": reverse, "exclusive": exclusive, "flags": flags}
        return sequential.recurrence(a, b, h0, **how)

    return Row(
        f"linear_recurrence {form}",
        ("linear_recurrence", *segmented.covers),
        function,
        draw,
        labels,
        (label,),
        expected,
        loop,
        # With a start it is linear in terms and start together.
        linear=((1, 2),) if start else ((1,),),
        undecided=(1, 2) if start else (),
        numbers=segmented.numbers,
        entrance=LENGTH - 1 if reverse else 0,
        across=segmented.divisible(),
    )


def batched_with_shared_flags() -> Row:
    """A scan of rows by vmap, which all have the same flags."""
    row = cumulative("cumsum", "by vmap", operations.SUM, cut=cuts.FLAGS)

    def scan(x: Any, flags: Any, **given: Any) -> Any:
        of_a_row = jax.vmap(lambda x: jscan.cumsum(x, segments=flags, **given))
        return of_a_row(x)

    return replace(row, name="cumsum by vmap with flags that rows share", function=scan)


INTEGERS = replace(operations.SUM, leaves=[operations.integers])
COMPLEX = replace(operations.SUM, leaves=[operations.complex_numbers])
HALVES = replace(operations.SUM, leaves=[operations.halves])
WITH_A_ZERO = replace(operations.PRODUCT, leaves=[operations.with_a_zero])
EXCLUSIVE: dict[str, Any] = {"exclusive": True}
REVERSE: dict[str, Any] = {"reverse": True}
BOTH = {"exclusive": True, "reverse": True}

SCANS = (
    cumulative("cumsum", "whole", operations.SUM),
    cumulative("cumsum", "along axis 0", operations.SUM, axis=0),
    cumulative("cumsum", "reversed exclusive", operations.SUM, **BOTH),
    cumulative("cumsum", "by Segments of flags", operations.SUM, cut=cuts.OF_FLAGS, **REVERSE),
    cumulative("cumsum", "by rows of flags", operations.SUM, cut=cuts.ROWS_OF_FLAGS, **BOTH),
    cumulative("cumsum", "by packed flags", operations.SUM, cut=cuts.PACKED, **BOTH),
    cumulative("cumsum", "by ids along axis 0", operations.SUM, axis=0, cut=cuts.IDS),
    cumulative("cumsum", "by lengths", operations.SUM, cut=cuts.LENGTHS, **EXCLUSIVE),
    cumulative("cumsum", "by offsets", operations.SUM, cut=cuts.OFFSETS, **BOTH),
    scanned(
        "cumsum in pairs",
        partial(jscan.cumsum, precise=True),
        replace(operations.SUM, covers=()),
        covers=("cumsum",),
        cut=cuts.FLAGS,
    ),
    cumulative("cumsum", "of integers", INTEGERS),
    cumulative("cumsum", "of integers by flags", INTEGERS, cut=cuts.FLAGS, **REVERSE),
    cumulative("cumsum", "of complex numbers", COMPLEX, cut=cuts.FLAGS),
    cumulative("cumsum", "of bfloat16", HALVES, cut=cuts.FLAGS),
    cumulative("cumsum", "from an init", operations.SUM, init=True),
    cumulative(
        "cumsum",
        "from an init by rows of flags",
        operations.SUM,
        init=True,
        cut=cuts.ROWS_OF_FLAGS,
        **BOTH,
    ),
    cumulative(
        "cumsum",
        "of integers from an init by flags",
        INTEGERS,
        init=True,
        cut=cuts.FLAGS,
        **EXCLUSIVE,
    ),
    cumulative("cumsum", "of bfloat16 from an init", HALVES, init=True, axis=0, **REVERSE),
    cumulative(
        "cumprod",
        "of complex numbers from an init",
        replace(operations.PRODUCT, leaves=[operations.complex_numbers]),
        init=True,
        **EXCLUSIVE,
    ),
    cumulative("cumprod", "from an init by flags", operations.PRODUCT, init=True, cut=cuts.FLAGS),
    cumulative(
        "cummax",
        "from an init by rows of flags",
        operations.MAXIMUM,
        init=True,
        cut=cuts.ROWS_OF_FLAGS,
        **REVERSE,
    ),
    cumulative("cummin", "from an init", operations.MINIMUM, init=True, axis=0),
    cumulative(
        "cumlogsumexp",
        "from an init by flags",
        operations.LOGADDEXP,
        init=True,
        cut=cuts.FLAGS,
        **BOTH,
    ),
    associative(
        "of a function of two leaves from an init", operations.OWN_AFFINE, init=True, cut=cuts.FLAGS
    ),
    associative("of affine from an init", operations.AFFINE, init=True, **BOTH),
    associative(
        "of matrices from an init", operations.MATRICES, init=True, cut=cuts.FLAGS, **REVERSE
    ),
    associative(
        "of matrices from an init exclusively", operations.MATRICES, init=True, **EXCLUSIVE
    ),
    associative(
        "of moments from an init",
        operations.WELFORD,
        init=True,
        cut=cuts.ROWS_OF_FLAGS,
        **EXCLUSIVE,
    ),
    associative("of the latest value from an init", operations.LATEST, init=True, cut=cuts.FLAGS),
    associative("of a function with its own rule from an init", operations.OWN_RULE, init=True),
    recurrence("from a start exclusively", start=True, exclusive=True),
    recurrence(
        "from a start exclusively by flags", start=True, exclusive=True, cut=cuts.FLAGS, **REVERSE
    ),
    batched_with_shared_flags(),
    cumulative(
        "cumsum",
        "by rows of flags that channels share",
        replace(operations.SUM, trailing=(2,)),
        cut=cuts.ROWS_OF_FLAGS,
        **BOTH,
    ),
    cumulative(
        "cumsum",
        "from an init of channels that share rows of flags",
        replace(operations.SUM, trailing=(2,)),
        init=True,
        cut=cuts.ROWS_OF_FLAGS,
    ),
    cumulative("cumprod", "reversed", operations.PRODUCT, **REVERSE),
    cumulative("cumprod", "through a zero", WITH_A_ZERO),
    cumulative("cumprod", "by flags", operations.PRODUCT, cut=cuts.FLAGS, **EXCLUSIVE),
    cumulative("cummax", "whole", operations.MAXIMUM, axis=0),
    cumulative("cummax", "by flags", operations.MAXIMUM, cut=cuts.FLAGS),
    cumulative("cummax", "by rows of flags", operations.MAXIMUM, cut=cuts.ROWS_OF_FLAGS, **BOTH),
    cumulative("cummax", "by rows of packed flags", operations.MAXIMUM, cut=cuts.ROWS_OF_PACKED),
    cumulative("cummin", "along axis 0 by flags", operations.MINIMUM, axis=0, cut=cuts.FLAGS),
    cumulative("cumlogsumexp", "whole", operations.LOGADDEXP),
    cumulative("cumlogsumexp", "by rows of flags", operations.LOGADDEXP, cut=cuts.ROWS_OF_FLAGS),
    cumulative("cumlogsumexp", "reversed exclusive", operations.LOGADDEXP, cut=cuts.FLAGS, **BOTH),
    recurrence("whole"),
    recurrence("along axis 0 with shared coefficients", label_of_a="n", axis=0),
    recurrence("with one coefficient", label_of_a=""),
    recurrence("with a coefficient a row", label_of_a="r", exclusive=True, reverse=True),
    recurrence("from a start", start=True, reverse=True),
    recurrence("by flags", cut=cuts.FLAGS),
    recurrence("by rows of flags from a start", start=True, cut=cuts.ROWS_OF_FLAGS),
    recurrence("reversed by flags from a start", start=True, reverse=True, cut=cuts.FLAGS),
    recurrence("reversed by packed flags", reverse=True, cut=cuts.PACKED),
    recurrence("of integers", draws=(operations.integers, operations.integers)),
    recurrence(
        "of complex numbers", draws=(operations.complex_numbers, operations.complex_numbers)
    ),
    associative("of a function of one leaf", operations.OWN_SUM, **REVERSE),
    associative("of a function of two leaves", operations.OWN_AFFINE),
    associative(
        "of a function of two leaves by flags", operations.OWN_AFFINE, cut=cuts.FLAGS, **EXCLUSIVE
    ),
    associative("of add on two leaves", operations.TWO_SUMS, cut=cuts.ROWS_OF_FLAGS),
    associative("of mul", operations.PRODUCT, **EXCLUSIVE),
    associative("of max", operations.MAXIMUM, **REVERSE),
    associative("of min", operations.MINIMUM, cut=cuts.OFFSETS),
    associative("of logaddexp", operations.LOGADDEXP, cut=cuts.IDS),
    associative("of affine", operations.AFFINE, axis=0),
    associative("of affine by flags", operations.AFFINE, cut=cuts.FLAGS, **BOTH),
    associative("of matrices", operations.MATRICES),
    associative("of matrices by flags", operations.MATRICES, cut=cuts.FLAGS, **REVERSE),
    associative(
        "of matrices by rows of flags", operations.MATRICES, cut=cuts.ROWS_OF_FLAGS, **BOTH
    ),
    associative("of 5 x 5 matrices", operations.LARGER_MATRICES),
    associative("of 5 x 5 matrices by flags", operations.LARGER_MATRICES, cut=cuts.FLAGS, **BOTH),
    associative("of a function with an array in it", operations.ABOUT_THE_MIDDLE, cut=cuts.FLAGS),
    associative("of moments", operations.WELFORD),
    associative("of moments by rows of flags", operations.WELFORD, cut=cuts.ROWS_OF_FLAGS),
    associative("of the latest value", operations.LATEST),
    associative("of the latest value by flags", operations.LATEST, cut=cuts.FLAGS, **REVERSE),
    associative("of a function with its own rule", operations.OWN_RULE, cut=cuts.FLAGS),
    associative("of bitwise_and", operations.AND, cut=cuts.FLAGS, **EXCLUSIVE),
    associative("of bitwise_or", operations.OR, **REVERSE),
    associative("of bitwise_xor", operations.XOR, cut=cuts.ROWS_OF_FLAGS),
    network("kogge_stone", "of a sum", operations.OWN_SUM),
    network("hockney_jesshope", "reversed", operations.OWN_AFFINE, **REVERSE),
    network("sklansky", "along axis 0", operations.PRODUCT, axis=0),
    network("ladner_fischer", "with slack", operations.OWN_AFFINE),
    network("brent_kung", "of max", operations.MAXIMUM),
    network("han_carlson", "of matrices", operations.MATRICES),
)
