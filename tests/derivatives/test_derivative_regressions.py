"""Mistakes that were made once in derivatives."""

from __future__ import annotations

import contextlib

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax import lax

import jscan
from jscan import primitives
from jscan.kernels import tuning


def halves(x, y):
    """Adds real parts and takes the greater imaginary part: no derivative of a complex function."""
    return lax.complex(x.real + y.real, jnp.maximum(x.imag, y.imag))


@jax.custom_vjp
def halves_with_a_rule(x, y):
    return halves(x, y)


halves_with_a_rule.defvjp(
    lambda x, y: (halves(x, y), (x, y)), lambda kept, g: jax.vjp(halves, *kept)[1](g)
)


@pytest.mark.parametrize("fn", [halves, halves_with_a_rule])
def test_what_is_real_linear_only_is_no_complex_slope(fn):
    z = np.array([1 + 2j, 0.5 + 1j, -1 + 3j, 2 + 0.1j], np.complex64)

    def gradient(scan):
        def loss(z):
            y = scan(fn, z)
            return jnp.sum(y.real * jnp.arange(4, dtype=jnp.float32) + jnp.cos(y.imag))

        return jax.jit(jax.grad(loss))(z)

    np.testing.assert_allclose(
        gradient(jscan.associative_scan), gradient(lax.associative_scan), rtol=1e-5, atol=1e-6
    )


def test_axes_beyond_32_bits_have_gradients():
    """Positions were counted in 32 bits, and the sizes did not fit."""
    x = jax.ShapeDtypeStruct((2**31 + 5,), jnp.float32)
    run = jax.jit(jax.grad(lambda x: jscan.cumprod(x)[-1]))
    assert run.lower(x).out_info.shape == x.shape


def test_leaves_that_do_not_recur_of_an_empty_axis():
    def fn(left, right):
        return left[0] + right[0], right[1] * jnp.exp(left[0])

    def loss(x, y):
        return jscan.associative_scan(fn, (x, y))[1].sum()

    x = np.ones(0)
    assert [g.shape for g in jax.jit(jax.grad(loss, (0, 1)))(x, x)] == [(0,), (0,)]


def test_a_batch_of_no_rows_that_are_long():
    x = np.ones((100, 0))
    assert jax.jit(jax.grad(lambda x: jscan.cumprod(x, reverse=True).sum()))(x).shape == x.shape


def test_rows_that_fit_a_tile_only_without_their_derivative():
    """The derivative's leaves are twice as wide; `block` was refused for them."""
    x = jnp.ones(8192, jnp.float32)
    with primitives.interpreted():
        gradient = jax.jit(jax.grad(lambda x: jscan.cumprod(x, method="block").sum()))(x)
    np.testing.assert_array_equal(gradient, np.arange(8192, 0, -1))


def test_python_scalars_do_not_widen_a_recurrence():
    b = jnp.full(2, 2.0, jnp.bfloat16)
    assert jscan.linear_recurrence(b, b, h0=8.0).dtype == jnp.bfloat16
    assert jscan.linear_recurrence(jnp.ones(4, jnp.int8), jnp.ones(4, jnp.int8), h0=1).dtype == "i1"


def test_dtypes_that_do_not_promote_are_named():
    with pytest.raises(ValueError, match=r"jscan\.linear_recurrence: a and b do .*float32, int32"):
        jscan.linear_recurrence(jnp.ones(3, jnp.float32), jnp.ones(3, jnp.int32))


def test_the_start_of_a_recurrence_does_not_overflow():
    a, b = jnp.full(2, 300, jnp.float16), jnp.full(2, -60000, jnp.float16)
    h = jscan.linear_recurrence(a, b, h0=jnp.asarray(300, jnp.float16))
    assert h[0] == 30000


def test_the_shape_of_h0_matters_without_elements():
    with pytest.raises(ValueError, match="h0 must be a scalar"):
        jscan.linear_recurrence(np.ones((0, 3)), np.ones((0, 3)), h0=np.ones(7))


def test_an_identity_is_placed_and_not_combined():
    """Infinity is the identity of x y / (x + y), but inf / inf is no number."""

    def fn(left, right):
        return left * right / (left + right)

    def scan(x):
        return jscan.associative_scan(fn, x, exclusive=True, identity=np.inf)

    x = np.linspace(0.5, 1.5, 2000)
    values, _ = jax.vjp(scan, x)
    np.testing.assert_allclose(values, scan(x), rtol=1e-12)


def test_rules_of_a_function_that_adds():
    """A sum with a derivative rule of its own once had a sum's derivative."""

    @jax.custom_jvp
    def fn(p, q):
        return p + q

    fn.defjvp(lambda x, t: (fn(*x), 0.5 * t[0] + 2 * t[1]))
    slopes = jax.jit(jax.jacfwd(lambda x: jscan.associative_scan(fn, x)))(np.arange(1.0, 5.0))
    expected = np.array([[1, 0, 0, 0], [0.5, 2, 0, 0], [0.25, 1, 2, 0], [0.125, 0.5, 1, 2]])
    np.testing.assert_allclose(slopes, expected)


def test_slopes_that_are_negated_numbers():
    with primitives.interpreted():
        gradient = jax.jit(
            jax.grad(
                lambda x: jscan.associative_scan(lambda a, b: a - (-b), x, method="block").sum()
            )
        )(jnp.ones(40))
    np.testing.assert_array_equal(gradient, np.arange(40, 0, -1))


@pytest.mark.parametrize("n", [2, 3, 16])
def test_two_passes_over_less_than_a_strip(n):
    b = np.linspace(0.8, 1.1, n)
    want = jscan.linear_recurrence(b, b)
    with primitives.interpreted(), primitives.tiled(tuning.Tuning(64, 1, 1, 4, strip=32)):
        found = jscan.linear_recurrence(b, b, method="reduce_then_scan")
    np.testing.assert_allclose(found, want, rtol=1e-12)


@pytest.mark.parametrize("method", ["xla", "block", "scan_then_propagate"])
def test_what_stops_a_gradient_stays_in_the_kernel(method):
    """Once an operator that holds `lax.stop_gradient` ran in plain JAX, whatever the method."""

    def held(p, q):
        return p[0] * q[0], lax.stop_gradient(q[0]) * p[1] + q[1]

    def last(a, b):
        return jscan.associative_scan(held, (a, b), method=method)[1][-1]

    a, b = np.linspace(0.5, 0.9, 7), np.linspace(1.0, 2.0, 7)
    assert "jscan_scan" in str(jax.make_jaxpr(last)(a, b))
    with primitives.interpreted():
        by_a, by_b = jax.jit(jax.grad(last, (0, 1)))(a, b)
    np.testing.assert_array_equal(by_a, 0)
    np.testing.assert_allclose(by_b, [np.prod(a[i + 1 :]) for i in range(7)])


def viterbi(p, q):
    """A decay, the best score, and the payload of its path."""
    moved = p[1] + q[0]
    best = jnp.maximum(moved, q[1])
    return p[0] + q[0], best, jnp.where(best == moved, p[2], q[2])


def best_by_difference(p, q):
    moved = p[1] + q[0]
    best = jnp.maximum(moved, q[1])
    return p[0] + q[0], best, jnp.where(best - moved > 0, q[2], p[2])


@pytest.mark.parametrize("fn", [viterbi, best_by_difference])
@pytest.mark.parametrize("reverse", [False, True])
def test_a_result_is_compared_with_what_it_was_computed_from(fn, reverse):
    """A stored result is rounded in another order, and equals nothing that is computed anew."""
    a = np.arange(1, 9) / 10
    b, v = np.where(np.arange(8) == (7 if reverse else 0), 0.7, 0.0), np.arange(8.0)

    def payload(scan, v):
        return scan(fn, (a, b, v), reverse)[2]

    ours, lax_own = (
        jax.jit(jax.jacobian(lambda v, scan=scan: payload(scan, v)))(v)
        for scan in (jscan.associative_scan, jax.lax.associative_scan)
    )
    np.testing.assert_array_equal(ours, lax_own)


def test_operators_that_hold_a_python_bool():
    x = jnp.arange(1.0, 5.0)

    def either(a, b):
        return jnp.where(True, a + b, b)

    np.testing.assert_array_equal(jscan.associative_scan(either, x), [1, 3, 6, 10])
    gradient = jax.jit(jax.grad(lambda x: jscan.associative_scan(either, x).sum()))(x)
    np.testing.assert_array_equal(gradient, [4, 3, 2, 1])
    marks = jscan.associative_scan(lambda a, b: (a | b) & True, x > 2)
    np.testing.assert_array_equal(marks, [False, False, True, True])


def _by_a_solve(_, t):
    return lax.custom_linear_solve(lambda t: 2 * t, 2 * t, lambda _, t: t / 2, symmetric=True)


def _by_a_loop(_, t):
    return lax.fori_loop(0, 3, lambda _, s: s + t, -2 * t)


def _by_a_branch(x, t):
    return lax.cond(x > 1, lambda t: 2 * t - t, lambda t: t, t)


@pytest.mark.sweep
@pytest.mark.parametrize(
    ("same", "shape"), [(_by_a_solve, (5,)), (_by_a_loop, (3, 5)), (_by_a_branch, (3, 5))]
)
def test_a_derivative_rule_that_holds_jaxprs(same, shape):
    """They are of scalars, and work on each element on its own."""

    @jax.custom_jvp
    def product(x, y):
        return x * y

    @product.defjvp
    def _(primals, tangents):
        x, y = primals
        return x * y, same(x, y * tangents[0] + x * tangents[1])

    x = jnp.linspace(0.5, 1.5, np.prod(shape), dtype=jnp.float32).reshape(shape)
    flags = jnp.array([0, 0, 1, 0, 0], bool)

    def gradients(fn):
        def total(x):
            y = jscan.associative_scan(fn, x, axis=-1, segments=flags)
            z = jscan.reduce(fn, x, axis=-1, identity=np.float32(1), segments=flags, num_segments=2)
            return jnp.sum(jnp.sin(y)) + jnp.sum(jnp.cos(z))

        once = jax.grad(total)

        def every(x):
            found = [once(x), jax.vmap(once)(jnp.stack([x, 2 * x]))]
            if same is _by_a_branch:
                found.append(jax.grad(lambda x: jnp.sum(once(x) ** 2))(x))
            return found

        return jax.jit(every)(x)

    for found, expected in zip(gradients(product), gradients(jscan.operators.mul), strict=True):
        np.testing.assert_allclose(found, expected, rtol=1e-5, atol=1e-6)


def _triangular(x, y):
    return jnp.tril(x @ y)


def _beside_a_number(x, y):
    return (x[0] * y[0], jnp.zeros_like(x[1]))


@pytest.mark.sweep
@pytest.mark.parametrize(
    ("fn", "given"),
    [
        (_triangular, jnp.tril(jnp.arange(1.0, 13).reshape(3, 2, 2) / 6)),
        (_beside_a_number, (jnp.arange(1.0, 5), jnp.ones(4))),
    ],
    ids=["of a block", "of a leaf"],
)
def test_results_that_are_known_numbers(fn, given):
    """A number that the operator writes is no result that a slope could be read from."""

    def gradient(scan):
        def loss(x):
            return sum(jnp.sum(jnp.sin(y)) for y in jax.tree.leaves(scan(fn, x)))

        return jax.jit(jax.grad(loss))(given)

    found, expected = map(gradient, (jscan.associative_scan, lax.associative_scan))
    for x, y in zip(jax.tree.leaves(found), jax.tree.leaves(expected), strict=True):
        np.testing.assert_allclose(x, y, rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("marks", ["bool", "int8", "int32"])
@pytest.mark.parametrize("kernels", [False, True])
def test_complex_numbers_beside_marks(marks, kernels):
    """The last product since a mark: what is no number with a derivative has no tangent."""
    b = np.array([1, 0, 0, 1, 0, 0]).astype(marks)
    x = np.exp(1j * np.arange(6)).astype(np.complex64)

    def since(p, q):
        return p[0] | q[0], jnp.where(q[0].astype(bool), q[1], p[1] * q[1])

    def scan(x):
        return jscan.associative_scan(since, (b, x))[1]

    def both(x):
        return jax.jvp(scan, (x,), (x,))[1], jax.vjp(scan, x)[1](x)[0]

    with primitives.interpreted() if kernels else contextlib.nullcontext():
        tangent, cotangent = jax.jit(both)(x)

    def loop(x):
        found = [x[0]]
        for i in range(1, 6):
            found.append(x[i] if b[i] else found[-1] * x[i])
        return jnp.stack(found)

    np.testing.assert_allclose(tangent, jax.jvp(loop, (x,), (x,))[1], rtol=1e-5)
    np.testing.assert_allclose(cotangent, jax.vjp(loop, x)[1](x)[0], rtol=1e-5, atol=1e-5)
