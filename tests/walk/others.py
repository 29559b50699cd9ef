"""Rows of the table: reductions, vector primitives and segments."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

import jscan
from jscan import Segments, operators
from tests import reference
from tests.walk import cuts, operations, sequential
from tests.walk.cuts import COUNT, Cut
from tests.walk.operations import Operation
from tests.walk.row import LENGTH, ROWS, Row
from tests.walk.scans import INTEGERS, label_of, lying, shape_of


def reduced(form: str, operation: Operation, *, axis: int = 1, cut: Cut | None = None) -> Row:
    """A row for reduce, whole or by segments."""
    label, count = label_of(axis), len(operation.leaves)
    named = isinstance(operation.operator, operators.Operator)

    def elements(operands: Any) -> Any:
        return tuple(operands[:count]) if count > 1 else operands[0]

    def draw(rng: np.random.Generator) -> list[Any]:
        shape = (*shape_of(label), *operation.trailing)
        leaves = [leaf(rng, shape) for leaf in operation.leaves]
        if cut is None:
            return leaves
        descriptor = cut.draw(rng)
        return [*leaves, lying(label, descriptor) if cut.label == "rn" else descriptor]

    def function(*operands: Any) -> Any:
        options: dict[str, Any] = {} if named or cut is None else {"identity": operation.identity}
        if cut is not None:
            options["segments"] = cut.given(operands[count])
            # Lengths and offsets say how many there are.
            options["num_segments"] = None if cut.label == "s" else COUNT
        return jscan.reduce(operation.operator, elements(operands), axis, **options)

    def places(operands: Any) -> Any:
        if cut is None:
            return jnp.zeros(LENGTH, int)
        found = cuts.numbers_in_order(cut, jnp.asarray(lying(label, operands[count])))
        return lying(label, found)

    def expected(*operands: Any) -> Any:
        elems = elements(operands)
        ys = reference.reduce_by_segments(
            operation.in_numpy,
            elems,
            places(operands),
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
            operation.in_jax, elements(operands), places(operands), size, operation.identity, axis
        )
        return ys if cut is not None else jax.tree.map(lambda y: jnp.take(y, 0, axis), ys)

    def numbers(*operands: Any) -> Any:
        return np.broadcast_to(np.asarray(lying(label, places(operands))), (ROWS, LENGTH))

    trailing = "." * len(operation.trailing)
    labels = (label + trailing,) * count
    if cut is not None:
        labels += (label if cut.label == "rn" else cut.label,)
    result = label.replace("n", "" if cut is None else "s") + trailing
    return Row(
        f"reduce {form}",
        ("reduce", *operation.covers, *(() if cut is None else cut.covers)),
        function,
        draw,
        labels,
        (result,) * count,
        expected,
        loop,
        linear=operation.linear,
        undecided=operation.undecided,
        numbers=None if cut is None else numbers,
    )


def by_ids(name: str, operation: Operation, *, indices_are_sorted: bool, form: str = "") -> Row:
    """A row for segment_sum and its like, of data (n, rows); two elements are dropped."""

    def draw(rng: np.random.Generator) -> list[Any]:
        drawn = np.concatenate([[-1, COUNT], rng.integers(0, COUNT, LENGTH - 2)])
        ids = np.sort(drawn) if indices_are_sorted else rng.permutation(drawn)
        return [operation.leaves[0](rng, (LENGTH, ROWS)), ids.astype(np.int32)]

    def function(data: Any, ids: Any) -> Any:
        return getattr(jscan, name)(data, ids, COUNT, indices_are_sorted)

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
        " ".join(filter(None, (name, order, form))),
        (name,),
        function,
        draw,
        ("nr", "n"),
        ("sr",),
        expected,
        loop,
        linear=operation.linear,
        numbers=numbers,
    )


def _mask(rng: np.random.Generator, shape: tuple[int, ...]) -> Any:
    return rng.random(shape) < 0.5


def ranks(form: str, *, reverse: bool = False, cut: Cut | None = None) -> Row:
    """A row for enumerate."""
    options: dict[str, Any] = {"axis": 1, "reverse": reverse}

    def draw(rng: np.random.Generator) -> list[Any]:
        mask = _mask(rng, (ROWS, LENGTH))
        return [mask] if cut is None else [mask, cut.draw(rng)]

    def function(mask: Any, *rest: Any) -> Any:
        segments = None if cut is None else cut.given(rest[0])
        return jscan.enumerate(mask, segments=segments, **options)

    def expected(mask: Any, *rest: Any) -> Any:
        flags = None if cut is None else cut.flags(np, rest[0])
        counts = reference.scan(
            np.add, mask.astype(int), exclusive=True, identity=0, flags=flags, **options
        )
        return counts.astype(np.int32)

    labels = ("rn",) if cut is None else ("rn", cut.label)
    name, covers = f"enumerate {form}", ("enumerate",)
    return Row(name, covers, function, draw, labels, ("rn",), expected)


def distributed(form: str, *, axis: int = 1, reverse: bool = False, cut: Cut | None = None) -> Row:
    """A row for distribute: a scan that keeps its first argument."""
    label = label_of(axis)
    form_of_scan: dict[str, Any] = {"axis": axis, "reverse": reverse}

    def draw(rng: np.random.Generator) -> list[Any]:
        x = rng.normal(size=shape_of(label))
        return [x] if cut is None else [x, lying(label, cut.draw(rng))]

    def function(x: Any, *rest: Any) -> Any:
        segments = None if cut is None else cut.given(rest[0])
        return jscan.distribute(x, segments=segments, **form_of_scan)

    def by(loop: Callable[..., Any], xp: Any) -> Callable[..., Any]:
        def run(x: Any, *rest: Any) -> Any:
            flags = None
            if cut is not None:
                flags = rest[0] if cut.label == "rn" else cut.flags(xp, rest[0])
            return loop(lambda a, _: a, x, flags=flags, **form_of_scan)

        return run

    def numbers(_: Any, descriptor: Any) -> Any:
        assert cut is not None
        return cut.numbers(lying(label, descriptor))

    labels: tuple[str, ...] = (label,)
    if cut is not None:
        labels += (label if cut.label == "rn" else cut.label,)
    return Row(
        f"distribute {form}",
        ("distribute",),
        function,
        draw,
        labels,
        (label,),
        by(reference.scan, np),
        by(sequential.scan, jnp),
        linear=((0,),),
        numbers=None if cut is None else numbers,
    )


def order_of(keys: Any, xp: Any) -> Any:
    """The places of elements sorted by key, in their order where keys are equal."""
    return xp.argsort(keys, axis=-1, stable=True)


PACKED = 5


def packed(form: str, *, fill: float = 0.0) -> Row:
    """A row for pack of rows by one mask, to a size that is too small for some masks."""

    def by(xp: Any) -> Callable[..., Any]:
        def run(x: Any, mask: Any) -> Any:
            order = order_of(~mask, xp)[:PACKED]
            there = (xp.arange(PACKED) < xp.sum(mask))[:, None]
            taken = xp.take(x, order, axis=0)
            return xp.where(xp.broadcast_to(there, taken.shape), taken, xp.full_like(taken, fill))

        return run

    return Row(
        f"pack {form}",
        ("pack",),
        lambda x, mask: jscan.pack(x, mask, size=PACKED, fill_value=fill),
        lambda rng: [rng.normal(size=(LENGTH, ROWS)), _mask(rng, (LENGTH,))],
        ("nr", "n"),
        (".r",),
        by(np),
        by(jnp),
        linear=((0,),) if fill == 0 else (),
        undecided=() if fill == 0 else (0,),
    )


def split(form: str, *, full: bool) -> Row:
    """A row for split along the last axis."""

    def by(xp: Any) -> Callable[..., Any]:
        def run(x: Any, mask: Any) -> Any:
            order = order_of(mask, xp)
            return xp.take_along_axis(x, order, axis=1) if full else xp.take(x, order, axis=1)

        return run

    shape = (ROWS, LENGTH) if full else (LENGTH,)
    return Row(
        f"split {form}",
        ("split",),
        partial(jscan.split, axis=1),
        lambda rng: [rng.normal(size=(ROWS, LENGTH)), _mask(rng, shape)],
        ("rn", "rn" if full else "n"),
        ("rn",),
        by(np),
        by(jnp),
        linear=((0,),),
    )


def split_by_segments(form: str, *, cut: Cut) -> Row:
    """A row for split_and_segment along the last axis, with a mask for each row."""

    def by(xp: Any) -> Callable[..., Any]:
        def run(x: Any, mask: Any, descriptor: Any) -> Any:
            heads = cut.flags(xp, descriptor).astype(int)
            numbers = xp.broadcast_to(xp.cumsum(heads, axis=-1) - heads[..., :1], x.shape)
            keys = 2 * numbers + mask.astype(int)
            y = xp.take_along_axis(x, order_of(keys, xp), axis=1)
            ordered = xp.sort(keys, axis=-1)
            first = xp.ones((ROWS, 1), bool)
            return y, xp.concatenate([first, ordered[:, 1:] != ordered[:, :-1]], axis=1)

        return run

    def function(x: Any, mask: Any, descriptor: Any) -> Any:
        y, parts = jscan.split_and_segment(x, mask, cut.given(descriptor), 1)
        return y, parts.flags

    return Row(
        f"split_and_segment {form}",
        ("split_and_segment",),
        function,
        lambda rng: [
            rng.normal(size=(ROWS, LENGTH)),
            _mask(rng, (ROWS, LENGTH)),
            cut.draw(rng),
        ],
        ("rn", "rn", cut.label),
        ("rn", "rn"),
        by(np),
        by(jnp),
        linear=((0,),),
        numbers=lambda _x, _mask, descriptor: cut.numbers(descriptor),
    )


def described(cut: Cut) -> Row:
    """A row for a constructor of Segments: every form in which it gives segments back."""

    def function(descriptor: Any) -> Any:
        segments = cut.given(descriptor)
        return segments.flags, segments.ids, segments.lengths(COUNT), segments.offsets(COUNT)

    def expected(descriptor: Any) -> Any:
        flags = np.array(cut.flags(np, descriptor))
        flags[..., 0] = True
        ids = np.asarray(cuts.numbers_in_order(cut, jnp.asarray(descriptor)))
        lengths = (ids[..., None] == np.arange(COUNT)).sum(-2)
        ends = np.cumsum(lengths, axis=-1)
        offsets = np.concatenate([np.zeros_like(ends[..., :1]), ends], axis=-1)
        return flags, ids.astype(np.int32), lengths.astype(np.int32), offsets.astype(np.int32)

    rows, n = cut.label.startswith("r"), "rn" if cut.label == "rn" else "n"
    results = (n, n, "rs", "rs") if rows else (n, n, "s", "s")
    covers = cut.covers or ("Segments.from_flags",)
    name = f"Segments from {cut.name.removeprefix('Segments of ')}"
    if cut is cuts.ROWS_OF_FLAGS:
        cut = replace(cut, given=Segments.from_flags)
    return Row(name, covers, function, lambda rng: [cut.draw(rng)], (cut.label,), results, expected)


REDUCTIONS = (
    reduced("whole", operations.SUM),
    reduced("of integers", INTEGERS, axis=0),
    reduced("of a function of two leaves", operations.OWN_AFFINE),
    reduced("of matrices", operations.MATRICES),
    reduced("of max along axis 0 by flags", operations.MAXIMUM, axis=0, cut=cuts.FLAGS),
    reduced("of add by rows of flags", operations.SUM, cut=cuts.ROWS_OF_FLAGS),
    reduced("of affine by lengths", operations.AFFINE, cut=cuts.LENGTHS),
    reduced("of a function of two leaves by ids", operations.OWN_AFFINE, cut=cuts.IDS),
    reduced("of matrices by flags", operations.MATRICES, cut=cuts.FLAGS),
    reduced("of moments by offsets", operations.WELFORD, cut=cuts.OFFSETS),
    reduced("of a function that keeps the last by flags", operations.LAST, cut=cuts.FLAGS),
    *(
        by_ids(name, operation, indices_are_sorted=indices_are_sorted)
        for name, operation in (
            ("segment_sum", operations.SUM),
            ("segment_prod", operations.PRODUCT),
            ("segment_max", operations.MAXIMUM),
            ("segment_min", operations.MINIMUM),
        )
        for indices_are_sorted in (True, False)
    ),
    by_ids("segment_sum", INTEGERS, indices_are_sorted=True, form="and integers"),
)
VECTORS = (
    ranks("whole"),
    ranks("reversed by flags", reverse=True, cut=cuts.FLAGS),
    distributed("whole"),
    distributed("by flags", cut=cuts.FLAGS),
    distributed(
        "reversed along axis 0 by rows of flags", axis=0, reverse=True, cut=cuts.ROWS_OF_FLAGS
    ),
    packed("of rows"),
    packed("with something behind", fill=7.0),
    split("of rows by one mask", full=False),
    split("of rows by a mask each", full=True),
    split_by_segments("by flags", cut=cuts.FLAGS),
    split_by_segments("by rows of flags", cut=cuts.ROWS_OF_FLAGS),
)
SEGMENTS = tuple(
    described(cut)
    for cut in (cuts.OF_FLAGS, cuts.ROWS_OF_FLAGS, cuts.IDS, cuts.LENGTHS, cuts.OFFSETS)
)
