"""Fuzzing: vector primitives and derivatives, each with its loop."""

from __future__ import annotations

import dataclasses
import functools
import random
from collections.abc import Iterator, Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

import jscan
from jscan.combine import accumulation_dtype
from tests import chain_rule, reference, slopes
from tests.fuzz import compaction, products
from tests.fuzz.examples import Data, Form
from tests.fuzz.operators import numbers
from tests.fuzz.programs import compute, whole
from tests.fuzz.segments import IDS, draw_segments, flags_of, numbers_of, segments_of

# --- vector primitives --------------------------------------------------------------------------

VECTORS = (
    *("enumerate", "distribute", "pack", "split", "split_and_segment"),
    *compaction.NAMES,
    *products.NAMES,
)


def vector(form: Form) -> Form:
    """The form of a vector primitive: a mask, and what it is about."""
    draw = random.Random(form.number)
    function = VECTORS[form.number % len(VECTORS)]
    kinds = ("int32", "float32", "bfloat16", "int64", "bool", "complex64", "uint8")
    segments = "none" if form.segments in IDS else form.segments
    if function in ("pack", "split", *compaction.NAMES, *products.NAMES):
        segments = "none"
    elif function == "split_and_segment" and segments == "none":
        segments = "lengths"
    mapped = [draw.random() < 0.6, True, draw.random() < 0.6]
    tile = form.tile
    if tile and function in products.NAMES:  # whose entries are one row
        tile = dataclasses.replace(tile, lanes=1)
    if function in ("enumerate", *compaction.OF_MASKS):
        mapped[0] = True
    return dataclasses.replace(
        form,
        function=function,
        dtypes=(draw.choice(("bool", "uint8", "int32")), draw.choice(kinds)),
        mapped=tuple(mapped),
        segments=segments,
        tile=tile,
        source="whole" if form.source in ("aliased", "donated") else form.source,
    )


def call_vector(form: Form, leaves: Sequence[Any], array: Any) -> list[Any]:
    """The primitive under test, on a mask and an array."""
    mask, x = leaves
    if form.function in compaction.NAMES:
        return compaction.call(form, mask, x)
    if form.function in products.NAMES:
        return products.call(form, mask, x)
    segments = None if array is None else segments_of(form, array)
    if form.function == "enumerate":
        options: dict[str, Any] = {"reverse": form.reverse, "segments": segments}
        return [jscan.enumerate(mask, form.axis, **options)]
    if form.function == "distribute":
        return [jscan.distribute(x, form.axis, segments=segments, reverse=form.reverse)]
    if form.function == "pack":
        return [jscan.pack(x, mask, size=form.wanted, fill_value=1)]
    if form.function == "split":
        return [jscan.split(x, mask, form.axis)]
    parts, found = jscan.split_and_segment(x, mask, segments, form.axis)
    return [parts, found.flags]


def check_vector(form: Form, data: Data, place: str) -> None:
    """One example of a vector primitive."""
    rng = data.generator(form)
    described = draw_segments(form, data, rng)
    masks = numbers(rng, (form.batch or 1, *form.shape), form.dtypes[0], "sparse")
    # Sums of small numbers are exact.
    flavour = "small" if form.function in products.NAMES else data.flavour
    values = numbers(rng, (form.batch or 1, *form.shape), form.dtypes[1], flavour)
    if data.heads in ("none", "all"):
        masks = np.full_like(masks, data.heads == "all")
    batched = [bool(form.batch) and m for m in form.mapped]
    leaves = [x if b else x[0] for x, b in zip((masks, values), batched, strict=False)]
    actual = compute(form, place, leaves, described, call_vector)
    mask, x = whole(form, leaves) if form.batch else (leaves[0][None], leaves[1][None])
    found = None
    if described is not None:
        found = np.broadcast_to(numbers_of(form, described, shared=False), x.shape)
    marks = mask if form.function in compaction.NAMES else mask != 0
    want = _expected_vector(form, marks, x, found)
    want = want if form.batch else [w[0] for w in want]
    for got, wanted in zip(actual, want, strict=True):
        reference.assert_equal(got, wanted)


def _expected_vector(form: Form, mask: Any, x: Any, found: Any) -> list[Any]:
    """The result by loops, with a batch in front."""
    axis = form.along + 1
    flags = None if found is None else flags_of(found, axis)
    options: dict[str, Any] = {"axis": axis, "reverse": form.reverse, "flags": flags}
    if form.function == "enumerate":
        counts = mask.astype(np.int32)
        return [reference.scan(np.add, counts, exclusive=True, identity=0, **options)]
    if form.function == "distribute":
        return [reference.scan(lambda a, _: a, x, **options)]
    if form.function == "pack":
        return [np.stack([_padded(row[m], form.wanted) for row, m in zip(x, mask, strict=True)])]
    if form.function in (*compaction.NAMES, *products.NAMES):
        by_loop = compaction if form.function in compaction.NAMES else products
        rows = [by_loop.expected(form, *row) for row in zip(mask, x, strict=True)]
        return [np.stack(each) for each in zip(*rows, strict=True)]
    ids = np.zeros(x.shape, int) if found is None else found
    parts, begins = np.empty_like(x), np.zeros(x.shape, bool)
    for row in _rows(x.shape, axis):
        keys = list(zip(ids[row], mask[row], strict=True))
        order = sorted(range(form.n), key=keys.__getitem__)
        parts[row] = x[row][order]
        begins[row] = [t == 0 or keys[order[t]] != keys[order[t - 1]] for t in range(form.n)]
    heads = np.moveaxis(begins, axis, -1)
    return [parts] if form.function == "split" else [parts, heads]


def _padded(x: Any, size: int) -> Any:
    fill = np.ones(max(size - len(x), 0), x.dtype)
    return np.concatenate([x[:size], fill])


def _rows(shape: tuple[int, ...], axis: int) -> Iterator[Any]:
    """Indices of all rows along an axis."""
    for place in np.ndindex(*shape[:axis], *shape[axis + 1 :]):
        yield (*place[:axis], slice(None), *place[axis:])


# --- derivatives --------------------------------------------------------------------------------

RULES = (
    *("cumsum", "cummax", "affine", "cumprod", "cumlogsumexp", "either"),
    *("cummin", "custom_jvp", "custom_vjp", "rotation", "welford", "matrices"),
)


def derivative(form: Form) -> Form:
    """The form of a derivative: leaves, and as many tangents or cotangents."""
    draw = random.Random(form.number)
    rule = slopes.BY_NAME[RULES[form.number % len(RULES)]]
    leaves = len(rule.draw(np.random.default_rng(0), (1,)))
    return dataclasses.replace(
        form,
        subject=rule.name,
        shape=tuple(max(s, 1) for s in form.shape),
        function=("vjp", "jvp")[(form.number + form.number // len(RULES)) % 2],
        dtypes=(draw.choice(("float64", "float32")),) * 2 * leaves,
        mapped=(*(True,) * 2 * leaves, form.mapped[-1]),
        segments="none" if form.segments in IDS else form.segments,
        source="whole" if form.source == "aliased" else form.source,
    )


def call_derivative(form: Form, leaves: Sequence[Any], array: Any, **across: Any) -> list[Any]:
    """The tangents of a scan, or its gradient."""
    rule, half = slopes.BY_NAME[form.subject], len(leaves) // 2
    xs, given = tuple(leaves[:half]), tuple(leaves[half:])

    def scan(*xs: Any) -> Any:
        segments = None if array is None else segments_of(form, array)
        return rule.scan(
            xs,
            axis=form.axis,
            reverse=form.reverse,
            exclusive=form.exclusive,
            segments=segments,
            method=form.method,
            **across,
        )

    if form.function == "jvp":
        return list(jax.jvp(scan, xs, given)[1])
    return list(jax.vjp(scan, *xs)[1](given))


def check_derivative(form: Form, data: Data, place: str) -> None:
    """One example of a derivative."""
    rng = data.generator(form)
    described = draw_segments(form, data, rng)
    rule = slopes.BY_NAME[form.subject]
    batch = (form.batch,) if form.batch else ()
    xs, dxs, gs = rule.data((*batch, *form.shape), form.dtypes[0], data.seed)
    if data.flavour == "small" and form.subject in ("cummax", "cummin"):
        xs = tuple(np.round(x).astype(x.dtype) for x in xs)  # ties
    given = dxs if form.function == "jvp" else gs
    actual = compute(form, place, [*xs, *given], described, call_derivative)
    axis = form.along + len(batch)
    flags = None
    if described is not None:
        found = numbers_of(form, described)
        flags = flags_of(found, axis if found.ndim > 1 else 0)
    options: dict[str, Any] = {"axis": axis, "reverse": form.reverse, "exclusive": form.exclusive}
    loop = chain_rule.Recurrence(rule, xs, flags=flags, **options)
    walk = loop.tangents if form.function == "jvp" else loop.cotangents
    chain_rule.assert_within(
        actual, walk(given), walk(given, sized=True), axis=axis, steps=rule.steps
    )


# --- zeros and numbers below the normal ones ----------------------------------------------------

LAX = {"add": lax.add, "mul": lax.mul, "max": lax.max, "min": lax.min}


def zeros(form: Form) -> Form:
    """The form of a cumulative function of floats."""
    draw = random.Random(form.number)
    return dataclasses.replace(
        form,
        subject=tuple(LAX)[form.number % len(LAX)],
        function="cumulative",
        dtypes=(draw.choice(("float32", "float64", "float16", "bfloat16")),),
        mapped=(True, False),
        segments="none",
        exclusive=False,
    )


def check_zeros(form: Form, data: Data, place: str) -> None:
    """One example of the signs of zeros, and of numbers too small to be normal, bit by bit.

    What IEEE 754 says of both does not depend on the order of combination, but for the maximum and
    the minimum of zeros of unequal signs. Kernels on a GPU do as it says. Plain JAX does what
    `lax.associative_scan` does: that adds zero to every result, which makes -0 to 0; or what
    `lax.scan` does. On a CPU XLA takes what is too small to be normal for zero.
    """
    rng = data.generator(form)
    dtype = jnp.dtype(form.dtypes[0])
    least = float(jnp.finfo(dtype).smallest_subnormal)
    small = 1.0 if data.flavour == "small" or form.subject == "mul" else least
    choices = [0.0, -0.0, small, -small]
    if form.subject in ("max", "min"):
        del choices[rng.integers(2)]
    shape = ((form.batch,) if form.batch else ()) + form.shape
    x = rng.choice(choices, shape).astype(dtype)
    [actual] = compute(form, place, [x], None)
    axis = form.along + bool(form.batch)
    if place == "gpu" and form.method != "xla":
        wanted = reference.scan(form.operator.in_numpy, [x], axis=axis, reverse=form.reverse)
    else:
        how = (form.subject, axis, form.reverse, x)
        wanted = [_plain(*how), _in_sequence(*how)]
    found = [np.ascontiguousarray(reference.narrow(w, dtype)).tobytes() for w in wanted]
    assert actual.tobytes() in found


@functools.partial(jax.jit, static_argnums=(0, 1, 2))
def _plain(name: str, axis: int, reverse: bool, x: Any) -> Any:
    """The scan of jax, in the dtype that jscan accumulates in."""
    wide = x.astype(accumulation_dtype(x.dtype))
    return lax.associative_scan(LAX[name], wide, reverse=reverse, axis=axis).astype(x.dtype)


@functools.partial(jax.jit, static_argnums=(0, 1, 2))
def _in_sequence(name: str, axis: int, reverse: bool, x: Any) -> Any:
    """The same, one element after another."""
    wide = jnp.moveaxis(x.astype(accumulation_dtype(x.dtype)), axis, 0)
    first, rest = (wide[-1], wide[:-1]) if reverse else (wide[0], wide[1:])

    def step(total: Any, element: Any) -> tuple[Any, Any]:
        both = LAX[name](total, element)
        return both, both

    _, others = lax.scan(step, first, rest, reverse=reverse)
    ends = (others, first[None]) if reverse else (first[None], others)
    return jnp.moveaxis(jnp.concatenate(ends), 0, axis).astype(x.dtype)
