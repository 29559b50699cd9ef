"""Rows of the table: recurrences of vectors."""

from __future__ import annotations

from typing import Any

import jax.numpy as jnp
import numpy as np

import jscan
from tests import reference
from tests.walk import cuts, operations, sequential
from tests.walk.cuts import Cut, Segmented
from tests.walk.row import LENGTH, ROWS, Row, label_of, shape_of


def _whole(xp: Any, held: Any, form: str) -> Any:
    """All entries of matrices."""
    if form == "full":
        return held
    c, s = held[..., 0], held[..., 1]
    return xp.stack([xp.stack([c, -s], -1), xp.stack([s, c], -1)], -2)


def moved(
    name: str,
    *,
    size: int = 2,
    form: str = "full",
    axis: int = 1,
    reverse: bool = False,
    of_one: bool = False,
    start: bool = False,
    cut: Cut | None = None,
    draws: operations.Draw = operations.normal,
) -> Row:
    """A row for matrix_recurrence, with a matrix for each element or one for all."""
    label = label_of(axis)
    segmented = Segmented(cut, label)
    entries = (size, size) if form == "full" else (2,)
    of_matrices = ("" if of_one else label) + "." * len(entries)
    labels = (of_matrices, f"{label}.", *(("r.",) if start else ()), *segmented.labels)

    def draw(rng: np.random.Generator) -> list[Any]:
        leading = () if of_one else shape_of(label)
        drawn = [draws(rng, (*leading, *entries)) * 0.6, draws(rng, (*shape_of(label), size))]
        if start:
            drawn.append(draws(rng, (ROWS, size)))
        return drawn + segmented.draw(rng)

    def function(a: Any, b: Any, *rest: Any, **given: Any) -> Any:
        h0 = rest[0] if start else None
        options: dict[str, Any] = {"axis": axis, "reverse": reverse, "form": form, **given}
        return jscan.matrix_recurrence(a, b, h0, segments=segmented.given(rest), **options)

    def by(xp: Any, widen: Any, a: Any, b: Any, *rest: Any) -> Any:
        matrices = xp.broadcast_to(_whole(xp, widen(a), form), (*b.shape[:2], size, size))
        matrices, terms = xp.moveaxis(matrices, axis, 0), xp.moveaxis(widen(b), axis, 0)
        flags = segmented.flags(xp, rest)
        fresh = sequential.heads(flags, LENGTH, axis=axis, reverse=reverse, xp=xp)
        h = widen(rest[0]) if start else xp.zeros_like(terms[0])
        found: dict[int, Any] = {}
        for position, t in enumerate(reversed(range(LENGTH)) if reverse else range(LENGTH)):
            inside = xp.sum(matrices[t] * h[:, None, :], -1) + terms[t]
            begun = xp.broadcast_to(fresh[t] if position else False, (ROWS,))[:, None]
            found[t] = h = xp.where(begun, terms[t], inside)
        return xp.moveaxis(xp.stack([found[t] for t in range(LENGTH)]), 0, axis)

    def expected(*operands: Any) -> Any:
        return reference.narrow(by(np, reference.widen, *operands), operands[1].dtype)

    return Row(
        f"matrix_recurrence {name}",
        ("matrix_recurrence", *segmented.covers),
        function,
        draw,
        labels,
        (f"{label}.",),
        expected,
        lambda *operands: by(jnp, jnp.asarray, *operands),
        linear=((1, 2),) if start else ((1,),),
        undecided=(1, 2) if start else (),
        numbers=segmented.numbers,
        entrance=LENGTH - 1 if reverse else 0,
        across=segmented.divisible(),
    )


MATRICES = (
    moved("whole"),
    moved("of one matrix, from a start, reversed", of_one=True, start=True, reverse=True),
    moved("of five states by segments", size=5, axis=0, cut=cuts.FLAGS),
    moved("of three states by segments of ids, reversed", size=3, reverse=True, cut=cuts.IDS),
    moved("of rotations by segments", form="rotation", cut=cuts.ROWS_OF_FLAGS),
    moved("of one complex matrix", of_one=True, draws=operations.complex_numbers),
)
