"""Fuzzing: recurrences of numbers and of vectors, with their loops."""

from __future__ import annotations

import dataclasses
import random
from collections.abc import Sequence
from typing import Any

import jax.numpy as jnp
import numpy as np

import jscan
from tests import reference
from tests.fuzz import programs as fuzz_programs
from tests.fuzz.examples import Data, Form
from tests.fuzz.operators import BY_NAME, factors, numbers
from tests.fuzz.programs import compute, whole
from tests.fuzz.segments import IDS, draw_segments, flags_of, numbers_of, segments_of

Shape = tuple[int, ...]

BLOCKS = ((), (), (), (1, 1), (2, 2), (3, 3), (2,))
"""What an element's coefficient is: a number; a matrix; the two numbers of a rotation."""


def recurrence(form: Form) -> Form:
    """The form of a recurrence: a, b and perhaps what precedes them."""
    draw = random.Random(form.number)
    block = draw.choice(BLOCKS)
    dtype = draw.choice(("float32", "int32", "float64", "bfloat16", "uint8", "complex64"))
    count = draw.choice((2, 3))
    mapped = [draw.random() < 0.6 for _ in range(count + 1)]
    mapped[draw.randrange(count)] = True
    return dataclasses.replace(
        form,
        dtypes=(dtype,) * count,
        block=block,
        exclusive=form.exclusive and not block,
        mapped=tuple(mapped),
        segments="none" if form.segments in IDS else form.segments,
        source="whole" if form.source == "aliased" else form.source,
    )


def _operand_shapes(form: Form) -> list[tuple[Shape, Shape]]:
    """Shapes of a, which may end early and be 1 in places, of b, and of what precedes them.

    Each is of dimensions along which there are elements, and of those that one element has.
    """
    draw = random.Random(form.number + 1)
    a = tuple(1 if draw.random() < 0.2 else s for s in form.shape)
    if draw.random() < 0.3:
        a = a[: draw.randrange(0 if form.block else form.along + 1, len(a) + 1)]
    b = tuple(
        1 if d < len(a) and a[d] == s and draw.random() < 0.2 else s
        for d, s in enumerate(form.shape)
    )
    row = tuple(s for d, s in enumerate(form.shape) if d != form.along)
    row = tuple(1 if draw.random() < 0.2 else s for s in row)
    vector = form.block[-1:]
    start = draw.choice((((), ()), (row, vector)))
    return [(a, form.block), (b, vector), start][: len(form.dtypes)]


def call(form: Form, leaves: Sequence[Any], array: Any, **across: Any) -> list[Any]:
    """The recurrence under test."""
    how: dict[str, Any] = {
        "reverse": form.reverse,
        "segments": None if array is None else segments_of(form, array),
        "method": form.method,
        **across,
    }
    if not form.block:
        how |= {"axis": form.axis, "exclusive": form.exclusive}
        return [jscan.linear_recurrence(*leaves, **how)]
    axis = form.axis - (form.axis < 0)  # vectors come last
    held = "full" if len(form.block) == 2 else "rotation"
    return [jscan.matrix_recurrence(*leaves, axis=axis, form=held, **how)]


def check(form: Form, data: Data, place: str) -> None:
    """One example of a recurrence."""
    rng = data.generator(form)
    shapes = _operand_shapes(form)
    described = draw_segments(form, data, rng)
    flavour = "any" if data.flavour == "special" else data.flavour
    leaves = []
    for k, ((shape, own), name) in enumerate(zip(shapes, form.dtypes, strict=True)):
        batch = (form.batch,) if form.batch and form.mapped[k] else ()
        draw = numbers if k else factors
        leaves.append(draw(rng, (*batch, *shape, *own), name, flavour))
    if form.block and jnp.issubdtype(leaves[0].dtype, jnp.inexact):  # products do not grow
        leaves[0] = (leaves[0] / form.block[-1]).astype(leaves[0].dtype)
    actual = compute(form, place, leaves, described, call)
    a, b, *start = (
        _extended(form, x, *shape, k)
        for k, (x, shape) in enumerate(zip(whole(form, leaves), shapes, strict=True))
    )
    axis = form.along + bool(form.batch)
    flags = None
    if described is not None:
        found = numbers_of(form, described)
        flags = flags_of(found, axis if found.ndim > 1 else 0)
    if flags is not None and len(leaves) == 3 and form.n and not form.reverse:
        flags = np.array(flags)
        # What precedes the first element does so at a head, too.
        flags[(slice(None),) * (axis if flags.ndim > 1 else 0) + (0,)] = 0
    how: dict[str, Any] = {"reverse": form.reverse, "exclusive": form.exclusive, "flags": flags}

    def run(combine: Any, a: Any, b: Any, start: list[Any]) -> Any:
        one = np.eye(form.block[-1], dtype=a.dtype) if form.block else np.ones((), a.dtype)
        init = [one, start[0]] if start else None
        return reference.scan(combine, [a, b], axis=axis, init=init, identity=(1, 0), **how)[1]

    combine = BY_NAME["plane" if form.block else "affine"].in_numpy
    wide = [reference.widen(x) for x in (a, b, *start)]
    if len(form.block) == 1:
        c, s = wide[0][..., 0], wide[0][..., 1]
        wide[0] = np.stack([np.stack([c, -s], -1), np.stack([s, c], -1)], -2)
    result = run(combine, wide[0], wide[1], wide[2:])
    error = None
    if jnp.issubdtype(jnp.dtype(form.dtypes[0]), jnp.inexact):
        sizes = [np.abs(x) for x in wide]
        magnitude = run(combine, sizes[0], sizes[1], sizes[2:])
        dtype = jnp.dtype(form.dtypes[0])
        # What precedes the first element is one more.
        steps = (1 + max(form.block, default=1)) * (3 if dtype.kind == "c" else 1)
        error = reference.bound(magnitude, result, dtype, n=form.n + 1, steps=steps)
    fuzz_programs.compare(form.dtypes[:1], actual, [result], [error])


def _extended(form: Form, x: Any, shape: Shape, own: Shape, k: int) -> Any:
    """Operand k in full, with its batch."""
    full = [s for d, s in enumerate(form.shape) if not (k == 2 and d == form.along)]
    element = form.block[-1:] if k else form.block
    lead = x.shape[: x.ndim - len(shape) - len(own)]
    ones = [1] * (len(full) - len(shape))
    x = x.reshape((*lead, *shape, *ones, *(own or (1,) * len(element))))
    return np.broadcast_to(x, (*lead, *full, *element))
