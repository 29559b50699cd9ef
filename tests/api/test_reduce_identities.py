"""jscan.reduce where there is nothing to reduce: identities, empty axes, segments left out.

And by operators on whole arrays, which combine slices that are arrays themselves.
"""

from __future__ import annotations

from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import jscan
from jscan import Segments, operators
from tests import reference
from tests.api.test_reductions import DESCRIPTORS, numbers_of
from tests.cases import head_flags
from tests.reference import assert_tree_equal

X = np.arange(1, 13)
LENGTHS = np.array([0, 4, 0, 8, 0])


def largest(a, b):
    """The maximum, an operator that is not one of jscan's own."""
    return jnp.maximum(a, b)


def maxima(identity):
    """Those of X by LENGTHS, and what is given where there are none."""
    return np.array([identity, 4, identity, 12, identity])


@pytest.mark.sweep
@pytest.mark.parametrize("identity", [-7, np.int8(-7), jnp.array(-7), np.array([-7])[0]], ids=type)
def test_an_identity_that_is_a_scalar(identity, engine):
    by_segments = jscan.reduce(
        largest,
        X,
        identity=identity,
        segments=Segments.from_lengths(LENGTHS, total=12),
        method=engine.method,
    )
    np.testing.assert_array_equal(by_segments, maxima(-7))
    assert jscan.reduce(largest, X, identity=identity, method=engine.method) == 12


@pytest.mark.sweep
def test_an_identity_that_is_traced(engine):
    @jax.jit
    def run(x, identity):
        return jscan.reduce(
            largest,
            x,
            identity=identity,
            segments=Segments.from_lengths(LENGTHS, total=12),
            num_segments=4,
            method=engine.method,
        )

    np.testing.assert_array_equal(run(X, -7), maxima(-7)[:4])


@pytest.mark.sweep
@pytest.mark.parametrize("description", ["flags", "ids", "lengths"])
def test_a_traced_identity_by_every_kind_of_descriptor(description, engine):
    numbers, count = numbers_of(description, 30)
    x, segments = np.arange(60).reshape(2, 30), DESCRIPTORS[description](30)

    @jax.jit
    def run(identity):
        return jscan.reduce(
            jnp.maximum,
            x,
            1,
            identity=identity,
            segments=segments,
            num_segments=count + 1,
            method=engine.method,
        )

    expected = reference.reduce_by_segments(np.maximum, x, numbers, count + 1, identity=-5, axis=1)
    reference.assert_equal(run(-5), expected)


@pytest.mark.sweep
@pytest.mark.parametrize("axis", [0, 1])
def test_an_identity_that_is_an_array(axis, engine):
    x = np.moveaxis(np.stack([X, X, X]), 0, 1 - axis)
    identity = np.array([-5, -6, -7])
    actual = jscan.reduce(
        largest,
        x,
        axis,
        identity=identity,
        segments=Segments.from_lengths(LENGTHS, total=12),
        method=engine.method,
    )
    expected = np.stack([maxima(-5), maxima(-6), maxima(-7)])
    np.testing.assert_array_equal(actual, np.moveaxis(expected, 0, 1 - axis))


def test_the_gradient_of_an_identity_counts_the_empty_segments():
    def total(identity):
        return jnp.sum(
            jscan.reduce(
                largest,
                X.astype(float),
                identity=identity,
                segments=Segments.from_lengths(LENGTHS, total=12),
                method="auto",
            )
        )

    assert jax.jit(jax.grad(total))(-1.0) == 3


@pytest.mark.parametrize(("shape", "axis"), [((0,), 0), ((3, 0, 2), 1), ((0, 0), 1)])
def test_an_empty_axis_has_the_identity(shape, axis):
    x = np.zeros(shape, "float32")
    rest = shape[:axis] + shape[axis + 1 :]
    for fn, options in (
        (largest, {"identity": -1.5}),
        (largest, {"identity": np.full(rest, -1.5)}),
        (jnp.maximum, {"identity": jnp.array(-1.5)}),
    ):
        y = jscan.reduce(fn, x, axis, **options)
        assert y.dtype == x.dtype
        np.testing.assert_array_equal(y, np.full(rest, -1.5))
        traced = jax.jit(lambda i, fn=fn: jscan.reduce(fn, x, axis, identity=i))
        np.testing.assert_array_equal(traced(2.5), np.full(rest, 2.5))
    np.testing.assert_array_equal(jscan.reduce(operators.min, x, axis), np.full(rest, np.inf))


@pytest.mark.sweep
@pytest.mark.parametrize("num_segments", [0, 3, None])
@pytest.mark.parametrize(("shape", "axis"), [((0,), 0), ((2, 0, 3), 1), ((0, 4), 1)])
def test_segments_of_an_empty_axis(shape, axis, num_segments, engine):
    n = shape[axis]
    for segments, known in (
        (np.zeros(n, bool), min(n, 1)),
        (np.zeros(shape, "int32"), min(n, 1) if 0 not in shape else 0),
        (Segments.from_ids(np.zeros(n, "int32")), min(n, 1)),
        (Segments.from_lengths([n, 0]), 2),
    ):
        y = jscan.reduce(
            operators.add,
            np.zeros(shape),
            axis,
            segments=segments,
            num_segments=num_segments,
            method=engine.method,
        )
        count = known if num_segments is None else num_segments
        np.testing.assert_array_equal(y, np.zeros((*shape[:axis], count, *shape[axis + 1 :])))


# traced descriptors


def test_segments_are_a_pytree_of_jit():
    @jax.jit
    def run(segments):
        return jscan.reduce(largest, X, identity=-1, segments=segments)

    np.testing.assert_array_equal(run(Segments.from_lengths(LENGTHS)), maxima(-1))
    np.testing.assert_array_equal(run(Segments.from_offsets([0, 0, 4, 4, 12, 12])), maxima(-1))


def check_traced(make, engine, cases):
    """Sums of X by traced segments that may not cover it; all of one shape, so of one program."""

    @jax.jit
    def run(descriptor):
        segments = make(descriptor, total=12)
        return jscan.reduce(operators.add, X, segments=segments, method=engine.method)

    for descriptor, expected in cases:
        np.testing.assert_array_equal(run(np.array(descriptor)), expected)


@pytest.mark.sweep
def test_traced_lengths_that_do_not_add_up(engine):
    cases = (
        ([3, 2, 0], [6, 9, 0]),  # the rest of the axis belongs to no segment
        ([3, 100, 5], [6, 72, 0]),
        ([-2, 12, 0], [0, 78, 0]),
        ([5, -1, 7], [15, 0, 63]),
        ([0, 0, 0], [0, 0, 0]),
    )
    check_traced(Segments.from_lengths, engine, cases)


def test_traced_offsets_that_do_not_cover_the_axis(engine):
    cases = (
        ([0, 5, 5, 12], [15, 0, 63]),
        ([0, 5, 6, 6], [15, 6, 0]),  # the rest of the axis belongs to no segment
        ([3, 5, 8, 12], [15, 21, 42]),  # what comes before the first offset belongs to it
        ([0, 12, 12, 12], [78, 0, 0]),
        ([0, 9, 4, 12], [10, 0, 68]),  # an offset that exceeds a later one counts as that
        ([0, 4, 5, 90], [10, 5, 63]),
        ([0, -1, 5, 12], [15, 0, 63]),  # a negative one counts as the end of the axis
        ([0, 0, 0, 0], [0, 0, 0]),
    )
    check_traced(Segments.from_offsets, engine, cases)


@pytest.mark.parametrize(
    "run",
    [
        lambda x: jscan.reduce(operators.add, x, segments=Segments.from_lengths(LENGTHS)),
        lambda x: jscan.reduce(
            operators.add, x, segments=Segments.from_offsets(np.cumsum([0, *LENGTHS]))
        ),
        lambda x: jscan.reduce(operators.add, x, segments=np.arange(12) % 5 == 0),
        lambda x: jscan.reduce(operators.add, x, segments=Segments.from_ids(np.arange(12) // 5)),
        lambda x: jscan.segment_sum(x, np.arange(12) // 5),
    ],
    ids=["lengths", "offsets", "flags", "ids", "segment_sum"],
)
def test_what_is_concrete_stays_concrete_inside_jit(run):
    np.testing.assert_array_equal(jax.jit(run)(X), run(X))


# operators on whole arrays

MATRICES = np.random.default_rng(0).integers(-2, 3, (40, 2, 2))


@pytest.mark.parametrize("description", ["flags", "lengths"])
def test_products_of_matrices_by_segments(description):
    numbers, count = numbers_of(description, 10)
    for more in (3, -1):
        products = partial(
            jscan.reduce,
            jnp.matmul,
            identity=np.eye(2, dtype=int),
            segments=DESCRIPTORS[description](10),
            num_segments=count + more,
        )
        actual = jax.jit(products)(MATRICES[:10])
        expected = reference.reduce_by_segments(
            np.matmul, MATRICES[:10], numbers, count + more, identity=np.eye(2)
        )
        reference.assert_equal(actual, expected)


@pytest.mark.parametrize("n", [1, 2, 7, 40])
def test_the_product_of_all_matrices(n):
    expected = np.linalg.multi_dot([np.eye(2, dtype=int), *MATRICES[:n], np.eye(2, dtype=int)])
    reference.assert_equal(jscan.reduce(jnp.matmul, MATRICES[:n]), expected)
    reference.assert_equal(jscan.reduce(jnp.matmul, MATRICES[:n], method="xla"), expected)


def test_products_of_matrices_along_another_axis_by_flags_of_every_row():
    x, flags = MATRICES[:18].reshape(3, 6, 2, 2), head_flags((3, 6), share=0.4)
    options: dict[str, Any] = {"axis": 1, "identity": np.eye(2, dtype=int)}
    expected = reference.reduce_by_segments(
        np.matmul, x, reference.numbers_of(flags, axis=1), 7, **options
    )
    products = partial(jscan.reduce, jnp.matmul, segments=flags, num_segments=7, **options)
    actual = jax.jit(products)(x)
    reference.assert_equal(actual, expected)


def test_leaves_of_unequal_shapes():
    def weighted(a, b):
        # Of pairs: a count, and a vector that the counts weigh.
        xp = np if isinstance(b[0], np.ndarray | np.generic) else jnp
        return a[0] + b[0], a[1] + b[1] + xp.expand_dims(a[0] * b[0], -1)

    elems = np.arange(7), np.arange(21).reshape(7, 3)
    flags = head_flags((7,), share=0.4)
    identity = (0, np.zeros(3, int))
    totals = partial(jscan.reduce, weighted, identity=identity, segments=flags, num_segments=9)
    actual = jax.jit(totals)(elems)
    expected = reference.reduce_by_segments(
        weighted, elems, reference.numbers_of(flags), 9, identity=identity
    )
    assert_tree_equal(actual, expected)
