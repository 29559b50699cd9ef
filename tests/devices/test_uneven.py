"""A scanned axis that its devices do not divide evenly: what lies behind its end does not count."""

from __future__ import annotations

from math import prod
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax.sharding import NamedSharding, PartitionSpec

import jscan
from jscan import operators, primitives
from tests import reference
from tests.cases import every_form, every_two, head_flags
from tests.devices.layouts import assert_close, collectives, mesh_of, placed
from tests.functions import affine, multiply_matrices
from tests.walk import sequential

pytestmark = pytest.mark.sweep

ROWS = 3
LENGTHS = (1, 7, 9, 13, 31)
LAYOUTS = {
    "8": ((8,), None, ("a",)),
    "4 beside rows": ((4, 2), "b", ("a",)),
    "two, the other way": ((4, 2), None, ("b", "a")),
    "two of 2 x 2 x 2": ((2, 2, 2), "b", ("a", "c")),
}
COUNT = 256

every_layout = pytest.mark.parametrize("layout", LAYOUTS.values(), ids=LAYOUTS.keys())
some_layouts = pytest.mark.parametrize(
    "layout", [LAYOUTS["4 beside rows"], LAYOUTS["two, the other way"]], ids=["4", "8"]
)
every_length = pytest.mark.parametrize("n", LENGTHS)


def divided(fn, rows, layout):
    """A program of rows that devices share, and its operand.

    The devices hold NaN behind the end of the rows.
    """
    sizes, by_row, names = layout
    mesh = mesh_of(*sizes)
    count = prod(mesh.shape[name] for name in names)
    n = rows.shape[1]
    behind = np.full((len(rows), -n % count), np.nan)
    held = placed(np.concatenate([rows, behind], axis=1), mesh, None, names)

    def run(x):
        part = NamedSharding(mesh, PartitionSpec(by_row, names))
        return fn(jax.lax.with_sharding_constraint(x[:, :n], part))

    return jax.jit(run), held


def check(fn, expected, rows, layout):
    """A function has on devices the values that are expected."""
    run, held = divided(fn, rows, layout)
    found, values = jax.tree.leaves(run(held)), jax.tree.leaves(expected)
    for y, value in zip(found, values, strict=True):
        assert_close(y, np.asarray(value))


def data(n):
    """Rows of numbers around 1, and head flags of each."""
    rows = np.random.default_rng(n).uniform(0.5, 1.5, (ROWS, n))
    return rows, head_flags((ROWS, n), share=0.3)


@pytest.mark.sweep
@every_form
@every_layout
@every_length
def test_scans(n, layout, form):
    reverse, exclusive, segmented = form
    rows, flags = data(n)
    told = {"axis": 1, "reverse": reverse, "exclusive": exclusive}
    flags = flags if segmented else None

    def fn(x):
        return (
            jscan.associative_scan(affine, (x, x + 1), identity=(1.0, 0.0), segments=flags, **told),
            jscan.cumsum(x, segments=flags, **told),
            jscan.enumerate(x > 1, 1, reverse=reverse),
        )

    marked = rows > 1
    expected = (
        reference.scan(affine, (rows, rows + 1), identity=(1.0, 0.0), flags=flags, **told),
        reference.scan(np.add, rows, identity=0.0, flags=flags, **told),
        reference.scan(
            np.add, marked.astype(int), axis=1, reverse=reverse, exclusive=True, identity=0
        ),
    )
    check(fn, expected, rows, layout)


@pytest.mark.sweep
@every_layout
@every_length
@pytest.mark.parametrize("reverse", [False, True])
def test_operators_without_an_identity(n, layout, reverse):
    rows, flags = data(n)

    def matrices(x):
        return x, x / 2, x / 3, x - 1

    def fn(x):
        return (
            jscan.associative_scan(multiply_matrices, matrices(x), reverse, 1),
            jscan.associative_scan(affine, (x, x), reverse, 1, segments=flags),
            jscan.reduce(multiply_matrices, matrices(x), 1),
        )

    told = {"axis": 1, "reverse": reverse}
    forwards = reference.scan(multiply_matrices, matrices(rows), axis=1)
    expected = (
        reference.scan(multiply_matrices, matrices(rows), **told),
        reference.scan(affine, (rows, rows), flags=flags, **told),
        [x[:, -1] for x in forwards],
    )
    check(fn, expected, rows, layout)


@pytest.mark.sweep
@every_layout
@every_length
def test_what_all_positions_have_in_common(n, layout):
    rows, flags = data(n)
    heads = jnp.asarray(flags[0])

    def fn(x):
        def states(a):
            return jscan.linear_recurrence(a, x, axis=1)

        return (
            states(0.5),
            states(jnp.full(x.shape, 0.5)),
            jax.grad(lambda a: states(a).sum())(0.5),
            jscan.cumsum(jnp.ones_like(x), 1, segments=heads),
        )

    zeros, ones = np.zeros(ROWS), np.ones(ROWS)
    h, slope, place, total, found = zeros, zeros, zeros, 0.0, []
    for t in range(n):
        slope = h + 0.5 * slope
        h, place = 0.5 * h + rows[:, t], ones if flags[0, t] else place + 1
        total += slope.sum()
        found.append((h, place))
    states, places = (np.stack(x, 1) for x in zip(*found, strict=True))
    check(fn, (states, states, total, places), rows, layout)


@pytest.mark.sweep
@every_layout
@every_length
def test_a_reduction_by_an_operator_that_reads_a_number(n, layout):
    rows, _ = data(n)
    rows = rows / 30

    def fn(x):
        k = 0.5 + 0 * x[0, 0]
        return jscan.reduce(lambda a, b: a + b + k * a * b, x, 1)

    check(fn, (np.prod(1 + 0.5 * rows, axis=1) - 1) / 0.5, rows, layout)


@pytest.mark.sweep
@every_layout
@every_length
def test_reductions(n, layout):
    rows, flags = data(n)
    flags = flags[0]
    numbers = np.cumsum(flags) - flags[0]
    lengths = np.bincount(numbers)

    def fn(x):
        told: dict[str, Any] = {"axis": 1, "num_segments": COUNT}
        ids = jnp.asarray(numbers, jnp.uint8)
        return (
            jscan.reduce(operators.logaddexp, x, 1),
            jscan.reduce(affine, (x, x), identity=(1.0, 0.0), segments=flags, **told),
            jax.vmap(lambda r: jscan.segment_sum(r, ids, COUNT, True))(x),
            jax.vmap(lambda r: jscan.segment_min(r, ids, COUNT, True))(x),
            jscan.reduce(operators.add, x, segments=jscan.Segments.from_ids(ids), **told),
            jscan.reduce(operators.mul, x, segments=jscan.Segments.from_lengths(lengths), axis=1),
        )

    def by_segments(fn, elems, identity, count=COUNT):
        return reference.reduce_by_segments(fn, elems, numbers, count, identity=identity, axis=1)

    sums = by_segments(np.add, rows, 0.0)
    expected = (
        np.log(np.exp(rows).sum(1)),
        by_segments(affine, (rows, rows), (1.0, 0.0)),
        sums,
        by_segments(np.minimum, rows, np.inf),
        sums,
        by_segments(np.multiply, rows, 1.0, len(lengths)),
    )
    check(fn, expected, rows, layout)


def gradients(fn):
    """The gradient of a sum of what a function of rows returns, and that of its square."""

    def total(x):
        return sum(jnp.sum(jnp.sin(y)) for y in jax.tree.leaves(fn(x)))

    def both(x):
        slopes, pull = jax.vjp(jax.grad(total), x)
        return slopes, *pull(2 * slopes)

    return both


@pytest.mark.sweep
@every_two
@some_layouts
@pytest.mark.parametrize("n", [7, 13])
def test_gradients_of_scans(n, layout, form):
    reverse, exclusive, segmented = form
    rows, flags = data(n)
    told = {"axis": 1, "reverse": reverse}
    flags = flags if segmented else None
    scans = {"exclusive": exclusive, "identity": (1.0, 0.0), **told}

    def fn(x):
        return (
            jscan.associative_scan(affine, (x, x + 1), segments=flags, **scans),
            jscan.linear_recurrence(x, x, 2.0, exclusive=exclusive, segments=flags, **told),
            jscan.cumsum(x, init=x[:, 0], exclusive=exclusive, segments=flags, **told),
        )

    def loops(x):
        return (
            sequential.scan(affine, (x, x + 1), flags=flags, **scans),
            sequential.recurrence(x, x, 2.0, exclusive=exclusive, flags=flags, **told),
            sequential.scan(jnp.add, x, init=x[:, 0], flags=flags, **{**scans, "identity": 0.0}),
        )

    check(gradients(fn), jax.jit(gradients(loops))(rows), rows, layout)


@pytest.mark.sweep
@some_layouts
@pytest.mark.parametrize("n", [7, 13])
def test_gradients_of_reductions(n, layout):
    rows, flags = data(n)
    flags = flags[0]
    numbers = np.cumsum(flags) - flags[0]
    told = {"axis": 1, "segments": flags, "num_segments": n}

    def fn(x):
        return (
            jscan.reduce(affine, (x, x), 1),
            jscan.reduce(operators.add, x * x, **told),
            jscan.reduce(operators.mul, x, **told),
            filled(jscan.reduce(operators.max, x, **told)),
            filled(jscan.reduce(operators.logaddexp, x, **told)),
        )

    def loops(x):
        def by_segments(fn, x, identity):
            return sequential.reduce(fn, x, numbers, n, identity, axis=1)

        return (
            [y[:, -1] for y in sequential.scan(affine, (x, x), axis=1)],
            by_segments(jnp.add, x * x, 0.0),
            by_segments(jnp.multiply, x, 1.0),
            filled(by_segments(jnp.maximum, x, -np.inf)),
            filled(by_segments(jnp.logaddexp, x, -np.inf)),
        )

    def filled(x):
        return jnp.where(x == -np.inf, 0.0, x)

    check(gradients(fn), jax.jit(gradients(loops))(rows), rows, layout)


@pytest.mark.sweep
@every_two
@some_layouts
def test_totals_alone_move(layout, form):
    """A total of each row and leaf for each device."""
    reverse, exclusive, segmented = form
    rows, flags = data(515)
    flags = flags if segmented else None
    told = {"axis": 1, "reverse": reverse, "segments": flags}

    def scans(x):
        scanned = jscan.associative_scan(
            affine, (x, x), exclusive=exclusive, identity=(1.0, 0.0), **told
        )
        return sum(jnp.sum(y) for y in (*scanned, jscan.linear_recurrence(x, x, **told)))

    def fn(x):
        marked = jscan.enumerate(x > 1, 1, reverse=reverse).astype(x.dtype)
        totals = jscan.reduce(affine, (x, x), 1)
        slopes = jax.grad(scans)(x)
        return sum(jnp.sum(y) for y in (scans(x), slopes, marked, *totals))

    run, held = divided(fn, rows, layout)
    moved = collectives(run.lower(held).compile())
    assert 0 < max(c.elements for c in moved) <= 8 * ROWS * 2


@pytest.mark.sweep
@pytest.mark.parametrize("reverse", [False, True])
def test_interpreted_kernels(reverse):
    rows, flags = data(13)
    told = {"axis": 1, "reverse": reverse}

    def fn(x):
        return (
            jscan.associative_scan(affine, (x, x), **told),
            jscan.linear_recurrence(x, x, segments=flags, **told),
            jscan.reduce(affine, (x, x), 1),
            jscan.enumerate(x > 1, 1, reverse=reverse),
        )

    expected = jax.jit(fn)(rows)
    with primitives.interpreted():
        check(fn, expected, rows, LAYOUTS["4 beside rows"])
