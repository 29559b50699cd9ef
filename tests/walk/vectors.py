"""Rows of the table: vector primitives, and the forms of segments."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import partial
from typing import Any

import jax.numpy as jnp
import numpy as np

import jscan
from jscan import Segments
from tests import reference
from tests.walk import cuts, sequential
from tests.walk.cuts import COUNT, Cut, Segmented
from tests.walk.row import LENGTH, ROWS, Row, label_of, shape_of


def _mask(rng: np.random.Generator, shape: tuple[int, ...]) -> Any:
    return rng.random(shape) < 0.5


def ranks(form: str, *, reverse: bool = False, cut: Cut | None = None) -> Row:
    """A row for enumerate."""
    options: dict[str, Any] = {"axis": 1, "reverse": reverse}
    segmented = Segmented(cut)

    def draw(rng: np.random.Generator) -> list[Any]:
        return [_mask(rng, (ROWS, LENGTH)), *segmented.draw(rng)]

    def function(mask: Any, *rest: Any) -> Any:
        return jscan.enumerate(mask, segments=segmented.given(rest), **options)

    def expected(mask: Any, *rest: Any) -> Any:
        flags = segmented.flags(np, rest)
        counts = reference.scan(
            np.add, mask.astype(int), exclusive=True, identity=0, flags=flags, **options
        )
        return counts.astype(np.int32)

    labels = ("rn", *segmented.labels)
    name, covers = f"enumerate {form}", ("enumerate",)
    return Row(name, covers, function, draw, labels, ("rn",), expected)


def distributed(form: str, *, axis: int = 1, reverse: bool = False, cut: Cut | None = None) -> Row:
    """A row for distribute: a scan that keeps its first argument."""
    label = label_of(axis)
    segmented = Segmented(cut, label)
    form_of_scan: dict[str, Any] = {"axis": axis, "reverse": reverse}

    def function(x: Any, *rest: Any) -> Any:
        return jscan.distribute(x, segments=segmented.given(rest), **form_of_scan)

    def by(loop: Callable[..., Any], xp: Any) -> Callable[..., Any]:
        def run(x: Any, *rest: Any) -> Any:
            return loop(lambda a, _: a, x, flags=segmented.flags(xp, rest), **form_of_scan)

        return run

    return Row(
        f"distribute {form}",
        ("distribute",),
        function,
        lambda rng: [rng.normal(size=shape_of(label)), *segmented.draw(rng)],
        (label, *segmented.labels),
        (label,),
        by(reference.scan, np),
        by(sequential.scan, jnp),
        linear=((0,),),
        numbers=segmented.numbers,
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
        ids = cuts.numbers_in_order(np, cut, descriptor)
        lengths = (ids[..., None] == np.arange(COUNT)).sum(-2)
        ends = np.cumsum(lengths, axis=-1)
        offsets = np.concatenate([np.zeros_like(ends[..., :1]), ends], axis=-1)
        return flags, ids.astype(np.int32), lengths.astype(np.int32), offsets.astype(np.int32)

    rows, n = cut.label.startswith("r"), "rn" if cut.label.startswith("r") else "n"
    results = (n, n, "rs", "rs") if rows else (n, n, "s", "s")
    covers = cut.covers or ("Segments.from_flags",)
    name = f"Segments from {cut.name.removeprefix('Segments of ')}"
    if cut is cuts.ROWS_OF_FLAGS:
        cut = replace(cut, given=Segments.from_flags)
    return Row(name, covers, function, lambda rng: [cut.draw(rng)], (cut.label,), results, expected)


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
    for cut in (
        *(cuts.OF_FLAGS, cuts.ROWS_OF_FLAGS, cuts.PACKED, cuts.ROWS_OF_PACKED),
        *(cuts.IDS, cuts.LENGTHS, cuts.OFFSETS),
    )
)
