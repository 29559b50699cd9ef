"""Derivatives of any order, against differences of the sequential scan that are exact.

A scan by +, × or an affine operator is a polynomial of degree one in each element. Its partial
derivatives are therefore plain differences over a step of one, which are exact in small integers,
and so are its mixed second derivatives. Nothing below needs a step size.
"""

from __future__ import annotations

import itertools
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import jscan
from jscan import operators
from tests import reference
from tests.cases import every_form, form_name, head_flags
from tests.functions import affine, multiply_matrices

N = 7


OPERATORS: dict[str, tuple[Any, Any, tuple[int, ...]]] = {
    "add": (operators.add, lambda a, b: [a[0] + b[0]], (0,)),
    "mul": (operators.mul, lambda a, b: [a[0] * b[0]], (1,)),
    "affine": (operators.affine, affine, (1, 0)),
    "matrix": (multiply_matrices, multiply_matrices, (1, 0, 0, 1)),
}
every_operator = pytest.mark.parametrize("name", OPERATORS)


def problem(name, form, n=N):
    """A scan of one stacked (leaves, n) array by jscan and by the reference."""
    fn, combine, identity = OPERATORS[name]
    reverse, exclusive, segmented = form
    flags = np.array([0, 0, 1, 0, 0, 1, 0])[:n] if segmented else None
    options = {"reverse": reverse, "exclusive": exclusive}
    one = len(identity) == 1

    def ours(x):
        elems = x[0] if one else tuple(x)
        scalar = identity[0] if one else identity
        out = jscan.associative_scan(fn, elems, segments=flags, identity=scalar, **options)
        return jnp.stack(jax.tree.leaves(out))

    def theirs(x):
        out = reference.scan(combine, list(x), flags=flags, identity=list(identity), **options)
        return np.stack(out)

    x = np.random.default_rng(len(name)).integers(-3, 4, (len(identity), n)).astype(float)
    return ours, theirs, x


def units(x):
    """Every array of x's shape with a single one in it."""
    return np.eye(x.size).reshape(x.size, *x.shape)


def jacobian(f, x):
    """The derivative of a polynomial of degree one in each element."""
    return np.stack([f(x + unit) - f(x) for unit in units(x)], -1).reshape(*f(x).shape, *x.shape)


def hessian(f, x):
    """Its second derivative; a polynomial of degree one has none twice along one element."""
    columns = units(x)
    second = [
        np.zeros_like(f(x)) if i == j else f(x + u + v) - f(x + u) - f(x + v) + f(x)
        for (i, u), (j, v) in itertools.product(enumerate(columns), repeat=2)
    ]
    return np.stack(second, -1).reshape(*f(x).shape, *x.shape, *x.shape)


@pytest.mark.sweep
@every_operator
@every_form
@pytest.mark.parametrize("derivative", [jax.jacfwd, jax.jacrev], ids=["forward", "reverse"])
def test_first_derivative(name, form, derivative):
    ours, theirs, x = problem(name, form)
    np.testing.assert_array_equal(jax.jit(derivative(ours))(x), jacobian(theirs, x))


@pytest.mark.sweep
@every_operator
@pytest.mark.parametrize(
    "form", [(False, False, True), (True, True, True), (True, False, False)], ids=form_name
)
def test_second_derivative(name, form):
    ours, theirs, x = problem(name, form, n=4)
    expected = hessian(theirs, x)
    weights = np.arange(1.0, 1 + ours(x).size).reshape(ours(x).shape)
    expected = np.tensordot(weights, expected, weights.ndim)

    def loss(x):
        return jnp.sum(weights * ours(x))

    # jvp of grad, and grad of grad.
    np.testing.assert_array_equal(jax.jit(jax.jacfwd(jax.grad(loss)))(x), expected)
    np.testing.assert_array_equal(jax.jit(jax.jacrev(jax.grad(loss)))(x), expected)


def test_jvp_of_grad_and_vmap_of_grad():
    ours, theirs, x = problem("affine", (False, False, True))

    def loss(x):
        return jnp.sum(ours(x))

    batch = np.stack([x, x + 1, -x])
    expected = np.stack([np.sum(jacobian(theirs, row), (0, 1)) for row in batch])
    np.testing.assert_array_equal(jax.jit(jax.vmap(jax.grad(loss)))(batch), expected)
    total = jax.jit(jax.grad(lambda batch: jnp.sum(jax.vmap(loss)(batch))))(batch)
    np.testing.assert_array_equal(total, expected)
    _, tangent = jax.jvp(jax.grad(loss), (x,), (np.ones_like(x),))
    second = np.sum(hessian(theirs, x), (0, 1))
    np.testing.assert_array_equal(tangent, np.sum(second, (2, 3)))


def test_third_derivative_of_a_product():
    x = jnp.array([2.0, 3.0, 5.0, 7.0])
    third = jax.jit(jax.jacfwd(jax.jacrev(jax.grad(lambda x: jscan.cumprod(x)[-1]))))(x)
    assert third[0, 1, 2] == 7
    assert third[1, 2, 3] == 2
    assert third[0, 0, 1] == 0


@every_form
def test_maximum_passes_the_gradient_to_what_it_selects(form):
    reverse, exclusive, segmented = form
    x = np.array([3.0, 1.0, 4.0, 1.5, 5.0, 9.0, 2.0])
    flags = np.array([0, 0, 0, 1, 0, 0, 0]) if segmented else None
    weights = 2.0 ** np.arange(7)
    options = {"reverse": reverse, "exclusive": exclusive}
    selected = reference.scan(np.maximum, x, identity=-np.inf, flags=flags, **options)
    expected = [np.sum(weights[selected == value]) for value in x]

    def loss(x):
        y = jscan.cummax(x, segments=flags, **options)
        return jnp.sum(jnp.where(jnp.isfinite(y), weights * y, 0))

    np.testing.assert_array_equal(jax.jit(jax.grad(loss))(x), expected)


@pytest.mark.parametrize("name", ["cummax", "cummin"])
@pytest.mark.parametrize("reverse", [False, True])
def test_ties_follow_lax(name, reverse):
    x = jnp.array([1.0, 2.0, 2.0, 0.0, 2.0, 0.0, 3.0, 3.0])
    ours, theirs = (
        jax.jit(jax.jacrev(partial(getattr(module, name), reverse=reverse)))(x)
        for module in (jscan, jax.lax)
    )
    np.testing.assert_array_equal(ours, theirs)


@pytest.mark.parametrize("reverse", [False, True])
def test_cumlogsumexp_is_a_softmax(reverse):
    x = np.random.default_rng(0).normal(size=9)
    actual = jax.jit(jax.jacrev(partial(jscan.cumlogsumexp, reverse=reverse)))(x)
    included = np.tril(np.ones((9, 9))) if not reverse else np.triu(np.ones((9, 9)))
    expected = included * np.exp(x)
    expected /= expected.sum(1, keepdims=True)
    # Nine exponentials, nine additions and a division, each within two units of the last place.
    np.testing.assert_allclose(actual, expected, rtol=40 * np.finfo(float).eps, atol=0)


@pytest.mark.product
@pytest.mark.parametrize("zeros", [(), (2,), (1, 3), (0, 1), (0, 5), (0, 1, 2, 3, 4, 5)])
@pytest.mark.parametrize("reverse", [False, True])
def test_cumprod_with_zeros(zeros, reverse):
    x = np.array([2.0, 3.0, -1.0, 4.0, 5.0, -2.0])
    x[list(zeros)] = 0.0
    run = partial(jscan.cumprod, reverse=reverse)
    expected = jacobian(partial(reference.scan, np.multiply, reverse=reverse), x)
    np.testing.assert_array_equal(jax.jit(jax.jacrev(run))(x), expected)
    np.testing.assert_array_equal(jax.jit(jax.jacfwd(run))(x), expected)


def test_cumprod_with_aligned_zeros():
    x = np.array([[2.0, 0.0, 3.0], [4.0, 0.0, 5.0], [6.0, 0.0, 7.0]])
    expected = jacobian(partial(reference.scan, np.multiply), x)
    np.testing.assert_array_equal(jax.jit(jax.jacrev(jscan.cumprod))(x), expected)


@pytest.mark.parametrize("dtype", ["float16", "bfloat16", "float32", "complex64"])
def test_gradients_keep_the_dtype(dtype):
    x = jnp.arange(1, 6).astype(dtype)
    _, pullback = jax.vjp(jscan.cumsum, x)
    (gradient,) = pullback(jnp.ones_like(x))
    assert gradient.dtype == jnp.dtype(dtype)
    np.testing.assert_array_equal(gradient, np.arange(5, 0, -1).astype(jnp.dtype(dtype)))


def test_leaves_without_a_derivative():
    written = np.array([True, False, True, False])

    def last(values):
        def fn(a, b):
            return a[0] | b[0], jnp.where(b[0], b[1], a[1])

        return jnp.sum(jscan.associative_scan(fn, (written, values))[1])

    np.testing.assert_array_equal(jax.jit(jax.grad(last))(jnp.arange(4.0)), [2.0, 0.0, 2.0, 0.0])


def test_integers_have_zero_tangents():
    x = np.arange(4)
    tangent_in = np.zeros(4, jax.dtypes.float0)
    primal, tangent = jax.jvp(jscan.cumsum, (x,), (tangent_in,))
    np.testing.assert_array_equal(primal, [0, 1, 3, 6])
    assert tangent.dtype == jax.dtypes.float0


def test_traced_flags_have_no_derivative():
    @jax.grad
    def gradient(x):
        return jnp.sum(jscan.cumsum(x, segments=x > 3))

    np.testing.assert_array_equal(gradient(jnp.array([1.0, 5.0, 2.0, 7.0])), [1.0, 2.0, 1.0, 1.0])


def test_derivatives_of_an_operator_that_falls_back():
    elems = np.random.default_rng(1).integers(-2, 3, (5, 2, 2)).astype(float)
    flags = np.array([0, 0, 1, 0, 0])
    run = partial(jscan.associative_scan, jnp.matmul, segments=flags)
    expected = jacobian(partial(reference.scan, np.matmul, flags=flags), elems)
    np.testing.assert_array_equal(jax.jit(jax.jacrev(run))(elems), expected)
    np.testing.assert_array_equal(jax.jit(jax.jacfwd(run))(elems), expected)


def test_checkpoint_and_linearize():
    ours, theirs, x = problem("affine", (True, False, False))
    np.testing.assert_array_equal(jax.jit(jax.jacrev(jax.checkpoint(ours)))(x), jacobian(theirs, x))
    _, linear = jax.linearize(ours, x)
    np.testing.assert_array_equal(linear(np.ones_like(x)), np.sum(jacobian(theirs, x), (2, 3)))


def test_gradient_along_each_axis():
    x = np.random.default_rng(2).integers(-3, 4, (2, 3, 2)).astype(float)
    for axis in range(3):
        actual = jax.jit(jax.jacrev(partial(jscan.cumprod, axis=axis)))(x)
        expected = jacobian(partial(reference.scan, np.multiply, axis=axis), x)
        np.testing.assert_array_equal(actual, expected)


def test_head_flags_stop_the_gradient():
    x = np.ones(50)
    flags = head_flags((50,))
    gradient = jax.jit(jax.grad(lambda x: jscan.cumsum(x, segments=flags)[-1]))(x)
    last = np.flatnonzero(flags).max()
    np.testing.assert_array_equal(gradient, np.arange(50) >= last)
