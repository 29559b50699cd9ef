"""Derivatives of reductions: sums against jax.ops and by hand, others against differences."""

from __future__ import annotations

from functools import partial

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax.test_util import check_grads

import jscan
from jscan import Segments, operators
from tests import reference
from tests.cases import head_flags, sorted_or_not

# Two elements are dropped, and the segments 1 and 4 are empty.
IDS = np.array([-1, 0, 0, 0, 2, 2, 3, 5, 5, 7])
COUNT = 6
DATA = np.array([4.0, 1.5, -2.25, 3.0, 0.5, -1.25, 2.0, -3.5, 1.0, 6.0])
WEIGHTS = np.array([1.0, -2.0, 3.0, 5.0, -7.0, 11.0])


def weigh(function, indices_are_sorted=True, ids=IDS):
    """A number that depends on every segment's result in another way, and not linearly."""

    def loss(x):
        y = function(x, ids, COUNT, indices_are_sorted)
        return jnp.tensordot(jnp.asarray(WEIGHTS), jnp.where(jnp.isfinite(y), y**2 + y, 0.0), 1)

    return loss


# segment_sum


@sorted_or_not
def test_the_gradient_of_a_sum_is_that_of_jax(indices_are_sorted):
    ours = weigh(jscan.segment_sum, indices_are_sorted)
    theirs = weigh(jax.ops.segment_sum, indices_are_sorted)
    np.testing.assert_array_equal(jax.jit(jax.grad(ours))(DATA), jax.jit(jax.grad(theirs))(DATA))
    rows = np.stack([DATA, DATA**2, -DATA], 1)
    ours_of_rows, theirs_of_rows = (
        jax.grad(lambda x, f=f: jnp.sum(f(x) * np.array([1.0, 2.0, 3.0]))) for f in (ours, theirs)
    )
    np.testing.assert_array_equal(ours_of_rows(rows), theirs_of_rows(rows))


@sorted_or_not
def test_the_tangent_of_a_sum_is_that_of_jax(indices_are_sorted):
    slopes = np.arange(10.0)
    ours, theirs = (
        jax.jvp(lambda x, f=f: f(x, IDS, COUNT, indices_are_sorted), (DATA,), (slopes,))
        for f in (jscan.segment_sum, jax.ops.segment_sum)
    )
    np.testing.assert_array_equal(ours, theirs)


@sorted_or_not
def test_second_derivatives_of_a_sum_are_those_of_jax(indices_are_sorted):
    ours = weigh(jscan.segment_sum, indices_are_sorted)
    expected = jax.jit(jax.hessian(weigh(jax.ops.segment_sum, indices_are_sorted)))(DATA)
    assert np.any(expected)
    for derivative in (jax.jacfwd, jax.jacrev):
        np.testing.assert_array_equal(jax.jit(derivative(jax.grad(ours)))(DATA), expected)
        np.testing.assert_array_equal(jax.jit(derivative(jax.jacfwd(ours)))(DATA), expected)


def test_the_transpose_of_a_sum_gathers():
    def run(x):
        return jscan.segment_sum(x, jnp.asarray(IDS), COUNT, True)

    transpose = jax.linear_transpose(run, DATA)
    [spread] = transpose(WEIGHTS)
    np.testing.assert_array_equal(spread, [0, 1, 1, 1, 3, 3, 5, 11, 11, 0])
    text = jax.jit(transpose).lower(WEIGHTS).as_text()
    assert "gather" in text
    assert "scatter" not in text


@sorted_or_not
def test_the_gradient_reaches_the_highest_id_of_a_narrow_dtype(indices_are_sorted):
    ids = np.array([0, 254, 255, 255], np.uint8)
    weights = np.arange(300.0)
    gradient = jax.jit(
        jax.grad(lambda x: jnp.dot(jscan.segment_sum(x, ids, 300, indices_are_sorted), weights))
    )(np.ones(4))
    np.testing.assert_array_equal(gradient, [0, 254, 255, 255])


@pytest.mark.sweep
@pytest.mark.parametrize("trailing", [(), (3,)])
def test_tangents_and_gradients_of_a_sum_on_every_engine(trailing, engine):
    x = np.random.default_rng(0).integers(-9, 10, (200, *trailing)).astype("float32")
    ids = np.sort(np.random.default_rng(1).integers(-1, 21, 200))

    def run(x):
        return jscan.segment_sum(x, ids, 20, True, method=engine.method)

    slopes = np.ascontiguousarray(x[::-1])
    sums, tangents = jax.jvp(run, (x,), (slopes,))
    for actual, given in ((sums, x), (tangents, slopes)):
        expected = reference.reduce_by_segments(np.add, given, ids, 20, identity=0)
        reference.assert_equal(actual, expected)
    inside = (ids >= 0) & (ids < 20)
    [gradient] = jax.vjp(run, x)[1](sums)
    kept = inside.reshape(-1, *(1 for _ in trailing))
    np.testing.assert_array_equal(gradient, np.where(kept, np.asarray(sums)[ids % 20], 0))


@pytest.mark.product
@sorted_or_not
@pytest.mark.parametrize("axes", [(0, 0), (0, None), (None, 0), (1, None)])
def test_gradients_under_vmap(axes, indices_are_sorted):
    batch = np.stack([DATA, -DATA, DATA**2], axes[0] or 0)
    x = DATA if axes[0] is None else batch
    ids = IDS if axes[1] is None else np.stack([IDS, np.sort(IDS % 5), np.zeros(10, int)])

    def loss(function, x, ids):
        return weigh(function, indices_are_sorted, ids)(x)

    ours, theirs = (
        jax.jit(jax.vmap(jax.grad(partial(loss, f)), axes))(x, ids)
        for f in (jscan.segment_sum, jax.ops.segment_sum)
    )
    np.testing.assert_array_equal(ours, theirs)


@sorted_or_not
def test_gradients_through_vmap_add_up_over_what_is_shared(indices_are_sorted):
    many = np.stack([IDS, np.sort(IDS % 5), np.zeros(10, int)])

    def total(function, x):
        def one(ids):
            return weigh(function, indices_are_sorted, ids)(x)

        return jnp.sum(jax.vmap(one)(many))

    ours, theirs = (
        jax.jit(jax.grad(partial(total, f)))(DATA) for f in (jscan.segment_sum, jax.ops.segment_sum)
    )
    np.testing.assert_allclose(ours, theirs, rtol=1e-14)


@pytest.mark.parametrize(("n", "num_segments"), [(0, 3), (4, 0), (0, 0)])
def test_gradients_of_nothing(n, num_segments):
    def loss(x):
        ids = jnp.zeros(n, int)
        return jnp.sum(jscan.segment_sum(x, ids, num_segments, True)) + jnp.sum(
            jscan.reduce(operators.add, x, segments=ids, num_segments=num_segments)
        )

    np.testing.assert_array_equal(jax.jit(jax.grad(loss))(np.ones(n)), np.zeros(n))


def test_integers_have_no_tangent():
    def run(x, k):
        return jscan.segment_sum(x, IDS, COUNT, True), jscan.segment_sum(k, IDS, COUNT, True)

    (_, counts), (slopes, none) = jax.jvp(
        run, (DATA, IDS), (np.ones(10), np.zeros(10, jax.dtypes.float0))
    )
    np.testing.assert_array_equal(slopes, [3, 0, 2, 1, 0, 2])
    np.testing.assert_array_equal(counts, [0, 0, 4, 3, 0, 10])
    assert none.dtype == jax.dtypes.float0


# the other segment reductions


@pytest.mark.product
@sorted_or_not
@pytest.mark.parametrize("name", ["segment_max", "segment_min"])
def test_extrema(name, indices_are_sorted):
    function = getattr(jscan, name)
    check_grads(jax.jit(weigh(function, indices_are_sorted)), (DATA,), order=1)
    ties = np.array([4.0, 2.0, 2.0, 1.0, 3.0, 3.0, 2.0, -1.0, -1.0, 6.0])
    theirs = weigh(getattr(jax.ops, name), indices_are_sorted)
    ours = weigh(function, indices_are_sorted)
    np.testing.assert_array_equal(jax.jit(jax.grad(ours))(ties), jax.jit(jax.grad(theirs))(ties))


def test_products():
    check_grads(jax.jit(weigh(jscan.segment_prod)), (DATA / 2,), order=1)


def test_products_with_a_zero():
    x = np.array([4.0, 1.5, 0.0, 3.0, 0.0, 0.0, 0.0, -3.5, 1.0, 6.0])
    gradient = jax.jit(jax.grad(lambda x: jnp.sum(jscan.segment_prod(x, IDS, COUNT, True))))(x)
    np.testing.assert_array_equal(gradient, [0, 0, 4.5, 0, 0, 0, 1, 1, -3.5, 0])


# reduce


def joined(a, b):
    """Associative, and a polynomial: (1 + a)(1 + b) - 1."""
    return a + b + a * b


def matrix(a, b):
    """Products of 2x2 matrices."""
    return jnp.matmul(a, b)


FIVE = np.array([0.5, -0.25, 1.5, 0.75, -0.5])
HEADS = np.array([False, False, False, True, False])
SEGMENTS = {
    "whole": None,
    "flags": HEADS,
    "ids": Segments.from_ids(np.array([7, 7, 7, 3, 3])),
    "lengths": Segments.from_lengths([0, 3, 0, 2, 0]),
}
NUMBERS = {
    "whole": np.zeros(5, int),
    "flags": np.array([0, 0, 0, 1, 1]),
    "ids": np.array([0, 0, 0, 1, 1]),
    "lengths": np.array([1, 1, 1, 3, 3]),
}
every_kind = pytest.mark.parametrize("kind", SEGMENTS)


def reduce(kind, fn, elems, axis=0, identity=None):
    """A reduction by a kind of segments, more of them than there are."""
    count = None if kind == "whole" else 5
    return jscan.reduce(
        fn, elems, axis, identity=identity, segments=SEGMENTS[kind], num_segments=count
    )


@pytest.mark.product
@every_kind
@pytest.mark.parametrize(
    ("fn", "identity"),
    [(joined, 0.0), (operators.logaddexp, None), (operators.mul, None)],
    ids=["polynomial", "logaddexp", "mul"],
)
def test_one_leaf(fn, identity, kind):
    def run(x):
        y = reduce(kind, fn, x, identity=identity)
        # Segments without elements hold an infinite identity under some operators.
        return jnp.where(jnp.isfinite(y), y, 0.0)

    check_grads(jax.jit(run), (FIVE,), order=1)


@pytest.mark.product
@pytest.mark.parametrize("kind", ["whole", "lengths"])
@pytest.mark.parametrize("fn", [joined, operators.mul], ids=["polynomial", "mul"])
def test_second_derivatives(fn, kind):
    check_grads(
        jax.jit(partial(reduce, kind, fn, identity=1.0 * (fn is not joined))), (FIVE,), order=2
    )


@every_kind
def test_affine_maps(kind):
    def run(a, b):
        return reduce(kind, operators.affine, (a, b))

    check_grads(jax.jit(run), (FIVE, FIVE[::-1].copy()), order=1)


@pytest.mark.parametrize("kind", ["whole", "flags", "lengths"])
def test_products_of_matrices(kind):
    x = np.random.default_rng(0).normal(size=(5, 2, 2))

    def run(x):
        return reduce(kind, matrix, x, identity=np.eye(2))

    check_grads(jax.jit(run), (x,), order=1)


@every_kind
@pytest.mark.parametrize("axis", [0, 1])
def test_sums_along_an_axis(kind, axis):
    x = np.stack([FIVE, -FIVE, FIVE**2], 1 - axis)

    def run(x):
        return reduce(kind, operators.add, x, axis)

    sums, transpose = jax.vjp(run, x)
    cotangent = np.arange(1.0, 1 + sums.size).reshape(sums.shape)
    [spread] = transpose(cotangent)
    full = cotangent if kind != "whole" else np.expand_dims(cotangent, axis)
    np.testing.assert_array_equal(spread, np.take(full, NUMBERS[kind], axis))


def test_sums_by_flags_of_every_row():
    x, flags = np.arange(24.0).reshape(2, 4, 3), head_flags((2, 4, 3), share=0.5)
    numbers = reference.numbers_of(flags, axis=1)

    def run(x):
        return jscan.reduce(operators.add, x, 1, segments=flags, num_segments=2)

    _, transpose = jax.vjp(run, x)
    cotangent = np.arange(1.0, 13.0).reshape(2, 2, 3)
    padded = np.concatenate([cotangent, np.zeros((2, 2, 3))], 1)
    [spread] = transpose(cotangent)
    np.testing.assert_array_equal(spread, np.take_along_axis(padded, numbers, 1))


def test_a_leaf_of_integers_beside_one_of_floats():
    counts = np.arange(5)

    def loss(x):
        number, total = reduce("flags", operators.add, (counts, x))
        return jnp.dot(total, number.astype(float))

    np.testing.assert_array_equal(jax.jit(jax.grad(loss))(FIVE), [3, 3, 3, 7, 7])
    _, tangents = jax.jvp(jax.grad(loss), (FIVE,), (FIVE,))
    np.testing.assert_array_equal(tangents, np.zeros(5))


def test_gradients_under_vmap_of_a_custom_operator():
    flags = np.stack([HEADS, ~HEADS])

    @jax.grad
    def slope(x, flags):
        y = jscan.reduce(joined, x, identity=0.0, segments=flags, num_segments=4)
        return jnp.sum(y**2)

    actual = jax.jit(jax.vmap(slope, (None, 0)))(FIVE, flags)
    np.testing.assert_allclose(actual, np.stack([slope(FIVE, f) for f in flags]), rtol=1e-14)
