"""Fuzzing: the operands of a form, its program, and what the program should give."""

from __future__ import annotations

import contextlib
import functools
from collections.abc import Callable, Iterator, Sequence
from typing import Any
from unittest import mock

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

import jscan
from jscan import primitives
from jscan.kernels import language
from tests import reference
from tests.fuzz import lying
from tests.fuzz import operators as fuzz_operators
from tests.fuzz.examples import METHODS, Data, Form
from tests.fuzz.segments import (
    COUNTED,
    Described,
    draw_segments,
    flags_of,
    numbers_of,
    segments_of,
)
from tests.fuzz.trees import listed, operator_of, tree_of

Run = Callable[[Sequence[Any], Any], list[Any]]

# --- operands -----------------------------------------------------------------------------------


def draw_leaves(form: Form, data: Data, rng: np.random.Generator) -> list[Any]:
    """A value for each leaf; of those that are mapped a batch."""
    batch = (form.batch,) if form.batch else ()
    leaves = form.operator.draw(rng, (*batch, *form.shape), form.dtypes, data.flavour)
    if batch:
        leaves = [x if m else x[0] for x, m in zip(leaves, form.mapped[:-1], strict=True)]
    if form.source == "aliased":
        first = leaves[0]
        same = [x.dtype == first.dtype and x.shape == first.shape for x in leaves]
        leaves = [first if is_same else x for x, is_same in zip(leaves, same, strict=True)]
    if form.source == "spread":
        leaves = [np.broadcast_to(_one(form, x, k), x.shape) for k, x in enumerate(leaves)]
    return leaves


def _one(form: Form, x: Any, leaf: int) -> Any:
    """One element of a leaf along those dimensions along which the program broadcasts it."""
    batch = bool(form.batch and form.mapped[leaf])
    places = {d + batch for d in form.spread(leaf)}
    return x[tuple(slice(1 if d in places else None) for d in range(x.ndim))]


def packed(form: Form, x: Any, leaf: int | None = None) -> Any:
    """The array to pass for ``x``."""
    if x.ndim == 0:
        return x
    if leaf is not None and form.spread(leaf):
        return np.array(_one(form, x, leaf))
    if form.source == "slice":
        longer = np.ones((*x.shape[:-1], x.shape[-1] + 4), x.dtype)
        longer[..., 1:-3] = x
        return longer
    if form.source == "transposed":
        return np.ascontiguousarray(x.T)
    if form.source == "misaligned":
        memory = np.empty(x.nbytes + 1, np.uint8)
        odd = memory[1:].view(x.dtype).reshape(x.shape)
        odd[...] = x
        return odd
    return x


def unpacked(form: Form, x: Any, leaf: int | None = None) -> Any:
    """What `packed` was given, inside the program."""
    if leaf is not None and form.spread(leaf):
        batch = x.shape[:1] if form.batch and form.mapped[leaf] else ()
        return jnp.broadcast_to(x, (*batch, *form.shape, *x.shape[len(batch) + len(form.shape) :]))
    if form.source == "slice" and x.ndim:
        return lax.slice_in_dim(x, 1, x.shape[-1] - 3, axis=-1)
    return jnp.transpose(x) if form.source == "transposed" else x


# --- programs -----------------------------------------------------------------------------------


def call(form: Form, leaves: Sequence[Any], array: Any, **across: Any) -> list[Any]:
    """The call under test, on leaves in the operator's order; its axis may go `across` devices."""
    subject, function = form.operator, form.function
    segments = None if array is None else segments_of(form, array)
    if function == "segment":
        reduction = getattr(jscan, SEGMENT_FUNCTIONS[form.subject])
        how: dict[str, Any] = {"method": form.method, **across}
        if form.precise:
            how["precise"] = True
        if form.segments == "planned":
            return [reduction(leaves[0], jscan.SegmentPlan(array, form.wanted), **how)]
        is_sorted = form.segments != "unsorted"
        return [reduction(leaves[0], array, form.wanted, indices_are_sorted=is_sorted, **how)]
    scan: dict[str, Any] = {"reverse": form.reverse, "exclusive": form.exclusive}
    options: dict[str, Any] = {"segments": segments, "method": form.method, **across}
    if form.continues:
        element = [lax.index_in_dim(x, form.n // 2, form.along, keepdims=False) for x in leaves]
        scan["init"] = element[0] if function == "cumulative" else tree_of(form, element)
    if form.precise:
        scan["precise"] = True
    if function == "cumulative":
        return [getattr(jscan, subject.cumulative)(leaves[0], form.axis, **scan, **options)]
    fn: Any = subject.operator or operator_of(form, jnp)
    elems = tree_of(form, list(leaves))
    if subject.operator is None:
        options["identity"] = _identity(form)
    if function == "reduce":
        if segments is not None and not (form.segments in COUNTED and form.wanted == 4):
            options["num_segments"] = form.wanted
        out = jscan.reduce(fn, elems, form.axis, **options)
    else:
        out = jscan.associative_scan(fn, elems, axis=form.axis, **scan, **options)
    structures: list[Any] = [jax.tree.structure(x) for x in (out, elems)]
    assert structures[0] == structures[1]
    return listed(form, out)


SEGMENT_FUNCTIONS = {
    "add": "segment_sum",
    "mul": "segment_prod",
    "max": "segment_max",
    "min": "segment_min",
}


def _identity(form: Form) -> Any:
    """The identity as scalars, or as arrays of the shape of one element."""
    values = form.operator.identity(form.dtypes)
    if form.identity == "arrays" and not form.operator.trailing:
        row = tuple(s for d, s in enumerate(form.shape) if d != form.along)
        values = [np.full(row, value) for value in values]
    return tree_of(form, values)


@functools.lru_cache(maxsize=64)
def program(form: Form, body: Callable[..., list[Any]] = call) -> Run:
    """The form's program: compiled once, then run on leaves and what describes the segments."""
    segmented = form.segments != "none"

    body = lying.divided(form, body)

    def inner(leaves: Sequence[Any], array: Any) -> list[Any]:
        return body(form, leaves, array)

    def outer(first: Any, rest: Sequence[Any], array: Any) -> list[Any]:
        leaves = [unpacked(form, x, k) for k, x in enumerate((first, *rest))]
        array = None if array is None else unpacked(form, array)
        if form.wrapper == "cond":
            return lax.cond(jnp.ravel(leaves[0]).size >= 0, inner, _nothing(inner), leaves, array)
        if not form.batch:
            return inner(leaves, array)
        mapped = form.mapped[:-1]
        by_row = segmented and form.mapped[-1]
        if form.wrapper == "vmap":
            leaves = [
                jnp.moveaxis(x, 0, form.batch_at) if m and x.ndim > 1 else x
                for x, m in zip(leaves, mapped, strict=True)
            ]
            axes = [
                (form.batch_at if x.ndim > 1 else 0) if m else None
                for x, m in zip(leaves, mapped, strict=True)
            ]
            return jax.vmap(inner, in_axes=(axes, 0 if by_row else None))(leaves, array)
        return _loop(inner, leaves, mapped, array, by_row)

    run = outer
    if form.wrapper != "call":
        run = jax.jit(outer, donate_argnums=0 if form.source == "donated" else ())
    return lambda leaves, array: run(leaves[0], leaves[1:], array)


def _nothing(f: Callable[..., list[Any]]) -> Callable[..., list[Any]]:
    """Zeros in the shapes of f's results."""

    def zeros(*args: Any) -> list[Any]:
        return [jnp.zeros(s.shape, s.dtype) for s in jax.eval_shape(f, *args)]

    return zeros


def _loop(
    f: Callable[..., list[Any]],
    leaves: Sequence[Any],
    mapped: Sequence[bool],
    array: Any,
    by_row: Any,
) -> list[Any]:
    """The results of f on one element of the batch after the other."""
    batch = ([x for x, m in zip(leaves, mapped, strict=True) if m], array if by_row else None)

    def step(count: Any, row: Any) -> Any:
        some = iter(row[0])
        own = [next(some) if m else x for x, m in zip(leaves, mapped, strict=True)]
        return count + 1, f(own, row[1] if by_row else array)

    return lax.scan(step, 0, batch)[1]


@contextlib.contextmanager
def surroundings(form: Form, place: str) -> Iterator[None]:
    """Where a program is traced and compiled: its tiles, and whether kernels are interpreted.

    Interpreted kernels find garbage where they load what does not exist: a head flag for one form,
    and none for another.
    """
    with contextlib.ExitStack() as stack:
        if form.lying is not None:
            stack.enter_context(jax.set_mesh(lying.mesh_of(form.lying)))
        if form.tile is not None:
            stack.enter_context(primitives.tiled(form.tile))
        if place == "interpreted":
            stack.enter_context(primitives.interpreted())
            flag = 0x5A if form.number // len(METHODS) % 2 == 0 else 0
            poisoned = functools.partial(_load_with_garbage, language.load, flag)
            stack.enter_context(mock.patch.object(language, "load", poisoned))
        yield


def _load_with_garbage(
    load: Callable[..., Any], flag: int, ref: Any, terms: Any, *, mask: Any = None
) -> Any:
    """What `load` reads, and bits that are no element's in the lanes that it does not read."""
    value = load(ref, terms, mask=mask)
    if mask is None:
        return value
    dtype = value.dtype
    if jnp.issubdtype(dtype, jnp.floating):
        garbage = np.asarray(np.nan, dtype)
    else:
        byte = flag if dtype.itemsize == 1 else 0x5A
        garbage = np.frombuffer(bytes([byte]) * dtype.itemsize, dtype)[0]
    return jnp.where(mask, value, jnp.full_like(value, garbage))


def compute(
    form: Form,
    place: str,
    leaves: list[Any],
    described: Described | None,
    body: Callable[..., list[Any]] = call,
) -> list[Any]:
    """Runs the form's program, and asserts that it changes no operand that it was not given."""
    originals = [np.array(packed(form, x, k)) for k, x in enumerate(leaves)]
    arrays = [jnp.asarray(packed(form, x, k)) for k, x in enumerate(leaves)]
    if form.source == "aliased":
        arrays = [next(a for a, y in zip(arrays, leaves, strict=True) if y is x) for x in leaves]
    array = None if described is None else jnp.asarray(packed(form, described.array))
    if form.lying is not None:
        arrays, array = lying.placed(form, form.lying, arrays, array)
    with surroundings(form, place):
        results = [np.asarray(x) for x in program(form, body)(arrays, array)]
    given = 1 if form.source == "donated" and form.wrapper != "call" else 0
    for before, after in zip(originals[given:], arrays[given:], strict=True):
        assert before.tobytes() == np.asarray(after).tobytes()
    return results


# --- expectations -------------------------------------------------------------------------------


def whole(form: Form, leaves: list[Any]) -> list[Any]:
    """The leaves with their batch, which is repeated where a leaf is not mapped."""
    if not form.batch:
        return leaves
    full = [x if m else x[None] for x, m in zip(leaves, form.mapped[:-1], strict=True)]
    return [np.broadcast_to(x, (form.batch, *x.shape[1:])) for x in full]


def expected(form: Form, leaves: list[Any], described: Described | None) -> Any:
    """The sequential result, and how wrong each leaf may be, as a function of the flavour."""
    axis = form.along + bool(form.batch)
    subject, full = form.operator, whole(form, leaves)
    identity = subject.identity(form.dtypes)
    numbers = None if described is None else numbers_of(form, described)

    def run(elems: list[Any], identity: list[Any]) -> list[Any]:
        combine = subject.in_numpy
        if form.function not in ("reduce", "segment"):
            flags = None
            if numbers is not None:
                flags = flags_of(numbers, axis if numbers.ndim > 1 else 0)
            options: dict[str, Any] = {
                "reverse": form.reverse,
                "exclusive": form.exclusive,
                "flags": flags,
            }
            if form.continues:
                options["init"] = [np.take(x, form.n // 2, axis) for x in elems]
            return reference.scan(combine, elems, axis=axis, identity=identity, **options)
        if numbers is None:
            if form.n == 0:
                rows = [np.delete(x.shape, axis) for x in elems]
                return [np.full(tuple(r), v) for r, v in zip(rows, identity, strict=True)]
            scanned = reference.scan(combine, elems, axis=axis)
            return [np.take(x, -1, axis) for x in scanned]
        count = form.wanted
        if form.function == "reduce" and form.segments in COUNTED and form.wanted == 4:
            count = form.count
        return reference.reduce_by_segments(
            combine, elems, numbers, count, identity=identity, axis=axis
        )

    result = run(full, identity)

    def errors(flavour: str) -> list[Any]:
        def magnitudes(elems: list[Any]) -> list[Any]:
            return run(elems, [np.abs(value) for value in identity])

        precise = form.precise
        return fuzz_operators.errors(subject, full, flavour, result, axis, magnitudes, precise)

    return result, errors


def compare(dtypes: Sequence[str], actual: list[Any], result: list[Any], errors: list[Any]) -> None:
    """Asserts dtypes, shapes and values."""
    for got, want, error, dtype in zip(actual, result, errors, dtypes, strict=True):
        assert got.dtype == jnp.dtype(dtype)
        if error is None:
            reference.assert_equal(got, want)
        else:
            reference.assert_within(got, want, error)


def check(form: Form, data: Data, place: str) -> None:
    """One example: draws, runs and compares."""
    rng = data.generator(form)
    described = draw_segments(form, data, rng)
    leaves = draw_leaves(form, data, rng)
    actual = compute(form, place, leaves, described)
    result, errors = expected(form, leaves, described)
    compare(form.dtypes, actual, result, errors(data.flavour))
