"""What is linear in an operand transposes as its derivative does, and what is not raises."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax.scipy.sparse.linalg import bicgstab, cg, gmres

import jscan
from jscan import operators, primitives

A = np.array([0.5, -1.5, 2.0, 0.25])
X = np.array([1.0, 2.0, 3.0, 4.0])
HEADS = np.array([1, 0, 1, 0])
IDS = np.array([0, 0, 2, 2])
WHOLE_MATRIX = np.array([[1.0, 0.5], [0.25, 2.0]])


def first(a, _):
    return a


def latest(a, b):
    return a[0] | b[0], jnp.where(b[0], b[1], a[1])


LINEAR = {
    "recurrence": lambda b: jscan.linear_recurrence(A, b),
    "recurrence-reversed": lambda b: jscan.linear_recurrence(A, b, reverse=True),
    "recurrence-segmented": lambda b: jscan.linear_recurrence(A, b, segments=HEADS),
    "recurrence-in-h0": lambda h: jscan.linear_recurrence(A, X * 0, h[0]),
    "affine-exclusive": lambda b: jscan.associative_scan(operators.affine, (A, b), exclusive=True)[
        1
    ],
    "affine-exclusive-segmented-reversed": lambda b: jscan.associative_scan(
        operators.affine, (A, b), reverse=True, exclusive=True, segments=HEADS
    )[1],
    "cumsum": lambda x: jscan.cumsum(x, reverse=True, exclusive=True, segments=HEADS),
    "cumsum-precise": lambda x: jscan.cumsum(x, precise=True),
    "cumsum-precise-segmented": lambda x: jscan.cumsum(
        x, reverse=True, exclusive=True, segments=HEADS, precise=True
    ),
    "cumsum-precise-from-init": lambda x: jscan.cumsum(
        x[1:], segments=HEADS[1:], init=x[0], precise=True
    ),
    "cumsum-precise-in-init": lambda x: jscan.cumsum(X * 0, init=x[0], precise=True),
    "masked": lambda x: jscan.associative_scan(latest, (HEADS != 0, x))[1],
    "distribute": lambda x: jscan.distribute(x),
    "distribute-segmented": lambda x: jscan.distribute(x, segments=HEADS),
    "distribute-reversed": lambda x: jscan.distribute(x, segments=HEADS, reverse=True),
    "reduce-sum": lambda x: jscan.reduce(operators.add, x),
    "reduce-affine": lambda b: jscan.reduce(operators.affine, (A, b))[1],
    "reduce-affine-segmented": lambda b: jscan.reduce(
        operators.affine, (A, b), segments=HEADS, num_segments=3
    )[1],
    "reduce-first": lambda x: jscan.reduce(first, x),
    "segment_sum-sorted": lambda x: jscan.segment_sum(x, IDS, 3, True),
    "segment_sum-unsorted": lambda x: jscan.segment_sum(x, IDS, 3),
    "segment_sum-planned": lambda x: jscan.segment_sum(x, jscan.SegmentPlan(IDS[::-1], 3)),
    "segment_sum-precise": lambda x: jscan.segment_sum(x, IDS, 3, True, precise=True),
    "segment_sum-precise-unsorted": lambda x: jscan.segment_sum(x, IDS, 3, precise=True),
    "gather": lambda x: jscan.SegmentPlan([3, -1, 0, 3, 1, 4], 4).gather(x),
    "pack": lambda x: jscan.pack(x, HEADS, size=3, fill_value=0),
    "split": lambda x: jscan.split(x, HEADS),
    "partition": lambda x: jscan.partition(x, HEADS - IDS)[0],
    "run_length_decode": lambda x: jscan.run_length_decode(x, IDS, size=3),
    "split_and_segment": lambda x: jscan.split_and_segment(x, HEADS, HEADS)[0],
    "slope-of-the-coefficients": lambda b: jax.grad(lambda a: jscan.linear_recurrence(a, b).sum())(
        A
    ),
    "whole-arrays": lambda x: jscan.associative_scan(
        lambda a, b: a @ WHOLE_MATRIX * 0 + a + b, x.reshape(2, 2)
    ),
}

NOT_LINEAR = {
    "recurrence-in-a": lambda a: jscan.linear_recurrence(a, X),
    "recurrence-in-both": lambda x: jscan.linear_recurrence(x, x),
    "cumprod": jscan.cumprod,
    "cummax": jscan.cummax,
    "cumlogsumexp": jscan.cumlogsumexp,
    "reduce-product-segmented": lambda x: jscan.reduce(
        operators.mul, x, segments=HEADS, num_segments=3
    ),
    "segment_prod": lambda x: jscan.segment_prod(x, IDS, 3, True),
    "segment_max": lambda x: jscan.segment_max(x, IDS, 3, True),
    "segment_min": lambda x: jscan.segment_min(x, IDS, 3, True),
    "a-constant-added": lambda x: jscan.associative_scan(lambda a, b: a + b + 1, x),
    "a-leaf-beside": lambda x: jscan.associative_scan(
        lambda a, b: (a[0] + b[0], a[1] + b[1] + a[0] * 0.5), (x, X)
    )[1],
    "a-rule-of-its-own": lambda x: jscan.associative_scan(operators.logaddexp, x),
}


def cotangent_of(f):
    shape = jax.eval_shape(f, X)
    return jnp.arange(1.0, 1.0 + shape.size, dtype=shape.dtype).reshape(shape.shape)


@pytest.mark.parametrize("name", LINEAR)
def test_what_is_linear_transposes_as_its_derivative(name):
    f = LINEAR[name]
    given = cotangent_of(f)
    (expected,), (compiled,) = jax.jit(
        lambda c: (jax.vjp(f, X)[1](c), jax.linear_transpose(f, X)(c))
    )(given)
    assert np.any(expected)
    (actual,) = jax.linear_transpose(f, X)(given)
    for found in (actual, compiled):
        np.testing.assert_allclose(found, expected, rtol=1e-12)


@pytest.mark.parametrize("name", NOT_LINEAR)
def test_what_is_not_linear_has_no_transpose(name):
    f = NOT_LINEAR[name]
    with pytest.raises(TypeError, match=r"^jscan: .* is not linear in"):
        jax.linear_transpose(f, X)(cotangent_of(f))


def test_segment_maxima_of_unsorted_ids_have_no_transpose():
    with pytest.raises(NotImplementedError, match="Transpose rule"):
        jax.linear_transpose(lambda x: jscan.segment_max(x, IDS, 3), X)(jnp.ones(3))


@jax.custom_jvp
def ruled(a, b):
    return (a + b) * 1.0


ruled.defjvp(lambda primals, t: (ruled(*primals), 10.0 * (t[0] + t[1])))


@pytest.mark.parametrize("ruled_first", [False, True])
def test_an_operator_that_differs_by_its_rule_alone_is_another(ruled_first):
    def plain(a, b):
        return (a + b) * 1.0

    for fn in (ruled, plain) if ruled_first else (plain, ruled):
        backwards = jax.linear_transpose(lambda x, fn=fn: jscan.associative_scan(fn, x), X)
        if fn is plain:
            np.testing.assert_array_equal(backwards(X)[0], [10, 9, 7, 4])
        else:
            with pytest.raises(TypeError, match="rule of its own"):
                backwards(X)


def test_a_segmented_operator_on_whole_arrays_transposes():
    def op(p, q):
        return jnp.einsum("nij,njk->nik", q[0], p[0]), jnp.einsum("nij,nj->ni", q[0], p[1]) + q[1]

    matrices = jnp.stack([WHOLE_MATRIX * (i + 1) for i in range(4)])
    b = jnp.arange(8.0).reshape(4, 2)

    def f(b):
        return jscan.associative_scan(op, (matrices, b), segments=HEADS)[1]

    given = jnp.cos(b)
    (expected,) = jax.vjp(f, b)[1](given)
    (actual,) = jax.linear_transpose(f, b)(given)
    np.testing.assert_allclose(actual, expected, rtol=1e-12)


@pytest.mark.parametrize("x64", [False, True])
def test_small_integers_that_a_batch_shares_stay_small(x64):
    with jax.enable_x64(x64):
        x, heads = jnp.arange(3, dtype=jnp.uint8), jnp.zeros((3, 3), jnp.int32)

        def f(x):
            return jax.vmap(lambda h: jscan.cumsum(x, segments=h))(heads)

        (back,) = jax.linear_transpose(f, x)(jnp.full((3, 3), 100, jnp.uint8))
        assert back.dtype == jnp.uint8
        np.testing.assert_array_equal(back, [132, 88, 44])


def test_a_recurrence_transposes_from_the_other_end():
    a, x = jnp.full(4, 0.5), jnp.arange(1.0, 5.0)
    (back,) = jax.linear_transpose(lambda b: jscan.linear_recurrence(a, b), x)(x)
    np.testing.assert_allclose(back, [3.25, 4.5, 5, 4])


@pytest.mark.parametrize("segmented", [False, True])
def test_integers_transpose_too(segmented):
    a, x = np.array([2, 1, 3, 1]), np.arange(1, 5)
    heads = HEADS if segmented else None

    def recurrence(b):
        return jscan.linear_recurrence(a, b, segments=heads)

    matrix = jax.vmap(recurrence)(np.eye(4, dtype=np.int64))
    (back,) = jax.jit(jax.linear_transpose(recurrence, x))(x)
    np.testing.assert_array_equal(back, matrix @ x)
    assert back.dtype == x.dtype

    def total(b):
        return jscan.reduce(operators.affine, (a, b), segments=HEADS, num_segments=2)[1]

    (back,) = jax.jit(jax.linear_transpose(total, x))(np.array([1, 2]))
    np.testing.assert_array_equal(back, [1, 1, 2, 2])


def test_complex_recurrences_transpose_without_conjugation():
    a = A + 1j * X
    (back,) = jax.linear_transpose(lambda b: jscan.linear_recurrence(a, b), a)(a)
    (expected,) = jax.linear_transpose(
        lambda b: jax.lax.associative_scan(operators.affine, (a, b))[1], a
    )(a)
    np.testing.assert_allclose(back, expected, rtol=1e-12)


def test_a_batch_that_shares_an_operand_gets_the_sum():
    rows = np.arange(12.0).reshape(3, 4)

    def f(b):
        return jax.vmap(lambda a: jscan.linear_recurrence(a, b))(rows)

    given = np.cos(rows)
    (back,) = jax.linear_transpose(f, X)(given)
    (expected,) = jax.vjp(f, X)[1](given)
    np.testing.assert_allclose(back, expected, rtol=1e-12)


@pytest.mark.parametrize("solver", [bicgstab, gmres])
def test_gradients_go_through_iterative_solvers(solver):
    a, x = jnp.full(4, 0.5), jnp.arange(1.0, 5.0)

    def loss(b):
        return (solver(lambda v: jscan.linear_recurrence(a, v), b, tol=1e-12)[0] ** 2).sum()

    np.testing.assert_allclose(jax.jit(jax.grad(loss))(x), [0.5, 1, 1.5, 5], rtol=1e-6)


def test_gradients_go_through_conjugate_gradients():
    """L Lᵀ of a recurrence L, whose transpose is asked for explicitly."""
    x = jnp.arange(1.0, 5.0)
    matrix = jnp.stack([jscan.linear_recurrence(A, row) for row in jnp.eye(4)], 1)

    def symmetric(v):
        def recurrence(b):
            return jscan.linear_recurrence(A, b)

        return recurrence(jax.linear_transpose(recurrence, v)(v)[0])

    def loss(b):
        return (cg(symmetric, b, tol=1e-14)[0] ** 2).sum()

    def dense(b):
        return (jnp.linalg.solve(matrix @ matrix.T, b) ** 2).sum()

    np.testing.assert_allclose(jax.jit(jax.grad(loss))(x), jax.jit(jax.grad(dense))(x), rtol=1e-6)


def test_custom_linear_solve_transposes_its_operator():
    a = jnp.asarray(A)

    def matvec(v):
        return jscan.linear_recurrence(a, v)

    def solve(_, b):
        return b - a * jnp.concatenate([jnp.zeros(1), b[:-1]])

    def transposed(_, b):
        return b - jnp.concatenate([a[1:] * b[1:], jnp.zeros(1)])

    def loss(b):
        return jnp.sin(jax.lax.custom_linear_solve(matvec, b, solve, transposed)).sum()

    def direct(b):
        return jnp.sin(solve(matvec, b)).sum()

    np.testing.assert_allclose(jax.jit(jax.grad(loss))(X), jax.jit(jax.grad(direct))(X), rtol=1e-12)


@pytest.mark.parametrize("name", ["recurrence-segmented", "distribute-segmented", "masked"])
def test_transposes_run_in_kernels(name):
    f = LINEAR[name]
    given = cotangent_of(f)
    (expected,) = jax.vjp(f, X)[1](given)
    with primitives.interpreted():
        (actual,) = jax.linear_transpose(f, X)(given)
    np.testing.assert_allclose(actual, expected, rtol=1e-12)
