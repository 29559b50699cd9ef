"""What derivatives do not pay for: leaves, results and slopes that play no part."""

from __future__ import annotations

from functools import partial

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax import lax

import jscan
from jscan import operators
from tests.cases import CUMULATIVES, head_flags


def equations(jaxpr, name):
    """How often a primitive occurs at the top of a jaxpr."""
    return sum(equation.primitive.name == name for equation in jaxpr.eqns)


@pytest.mark.parametrize("dtype", ["int32", "bool"])
def test_leaves_without_tangents_get_float0(dtype):
    marks = np.arange(4).astype(dtype)

    def fn(a, b):
        return jnp.maximum(a[0], b[0]), a[1] * b[1]

    def scan(marks, x):
        return jscan.associative_scan(fn, (marks, x))

    x = np.arange(1.0, 5.0)
    none = np.zeros(4, jax.dtypes.float0)
    _, (first, second) = jax.jvp(scan, (marks, x), (none, np.ones(4)))
    assert first.dtype == jax.dtypes.float0
    np.testing.assert_array_equal(second, [1.0, 3.0, 11.0, 50.0])
    (values, _), pullback = jax.vjp(scan, marks, x)
    back, gradient = pullback((np.zeros(values.shape, jax.dtypes.float0), np.ones(4)))
    assert back.dtype == jax.dtypes.float0
    np.testing.assert_array_equal(gradient, [33.0, 16.0, 10.0, 6.0])


def test_leaves_that_do_not_move_have_no_recurrence():
    def offsets(a, b):
        return jscan.associative_scan(operators.affine, (a, b))

    def count(moving):
        def along(a, b, t):
            move = {0: lambda a: offsets(a, b), 1: lambda b: offsets(a, b)}[moving]
            return jax.jvp(move, ((a, b)[moving],), (t,))

        return equations(jax.make_jaxpr(along)(x, x, x).jaxpr, "jscan_tangent")

    x = jnp.ones(5)
    # The slopes move what they are themselves and the offsets; the offsets only what they are.
    assert (count(0), count(1)) == (2, 1)


def test_a_result_that_nobody_uses_has_no_recurrence():
    def last(a, b):
        return jnp.sum(jscan.associative_scan(operators.affine, (a, b))[0])

    x = jnp.ones(5)
    assert equations(jax.make_jaxpr(jax.grad(last))(x, x).jaxpr, "jscan_tangent") == 1
    stopped = jax.make_jaxpr(jax.grad(lambda a, b: last(lax.stop_gradient(a), b)))(x, x)
    assert equations(stopped.jaxpr, "jscan_tangent") == 0


def better_of(p, q):
    """The value with the greatest key, the earliest of equal ones, and that key."""
    better = q[0] > p[0]
    return jnp.where(better, q[0], p[0]), jnp.where(better, q[1], p[1])


def recurrences(function, *operands):
    """How many states each recurrence of a traced function has."""
    traced = jax.make_jaxpr(function)(*operands).jaxpr
    parts = [e.params["component"] for e in traced.eqns if e.primitive.name == "jscan_tangent"]
    return [part.size for part in parts]


def test_keys_that_are_only_compared_have_no_recurrence():
    def loss(keys, values, weights):
        return jnp.sum(weights * jscan.associative_scan(better_of, (keys, values))[1])

    keys, values = np.array([1.0, 3.0, 2.0, 3.0, 5.0, 4.0]), np.arange(6.0)
    weights = 2.0 ** np.arange(6)
    gradient = jax.grad(loss, (0, 1))
    expected = np.zeros(6)
    best = 0
    for t in range(6):
        best = t if keys[t] > keys[best] else best
        expected[best] += weights[t]
    of_keys, of_values = gradient(keys, values, weights)
    np.testing.assert_array_equal(of_keys, np.zeros(6))
    np.testing.assert_array_equal(of_values, expected)
    assert recurrences(gradient, keys, values, weights) == [1]


def test_leaves_that_choose_between_each_other_are_solved_apart():
    def smaller_sums(p, q):
        chosen = p[0] + p[1] > q[0] + q[1]
        return jnp.where(chosen, q[0], p[0]), jnp.where(chosen, q[1], p[1])

    def loss(x, y):
        found = jscan.associative_scan(smaller_sums, (x, y))
        return jnp.sum(found[0] * found[1])

    x, y = np.array([4.0, 2.0, 3.0, 0.0]), np.array([3.0, 4.0, 3.0, 5.0])
    for found, expected in zip(
        jax.grad(loss, (0, 1))(x, y), ([3.0, 8.0, 0.0, 5.0], [4.0, 4.0, 0.0, 0.0]), strict=True
    ):
        np.testing.assert_array_equal(found, expected)
    assert recurrences(jax.grad(loss, (0, 1)), x, y) == [1, 1]


def test_a_comparison_with_a_rule_has_the_slope_of_the_rule():
    @jax.custom_jvp
    def either(p, q):
        return jnp.where(p + q > 0, 1.0, 0.0)

    either.defjvp(lambda x, t: (either(*x), t[0] + t[1]))
    gradient = jax.grad(lambda x: jnp.sum(jscan.associative_scan(either, x)))
    np.testing.assert_array_equal(gradient(np.array([0.0, 1.0, 0.0, 0.0])), [4.0, 3.0, 2.0, 1.0])


@pytest.mark.parametrize("reverse", [False, True])
@pytest.mark.parametrize("segmented", [False, True])
def test_a_sum_is_transposed_into_one_sum_from_the_other_end(reverse, segmented):
    flags = jnp.array(head_flags((100,))) if segmented else None

    def pull(g):
        scan = partial(jscan.cumsum, reverse=reverse, segments=flags)
        return jax.linear_transpose(scan, g)(g)

    traced = jax.make_jaxpr(pull)(jnp.ones(100)).jaxpr
    [scan] = [e for e in traced.eqns if e.primitive.name == "jscan_scan"]
    assert scan.params["reverse"] != reverse
    assert [e.primitive.name for e in traced.eqns if e is not scan] == []


@pytest.mark.parametrize("cumulative", CUMULATIVES, ids=lambda c: c.name)
def test_a_gradient_is_one_scan_and_one_recurrence(cumulative):
    x = jnp.linspace(0.5, 1.5, 100)

    def pull(x, g):
        return jax.vjp(cumulative.function, x)[1](g)

    traced = jax.make_jaxpr(pull)(x, x).jaxpr
    count = equations(traced, "jscan_scan"), equations(traced, "jscan_tangent")
    assert count == ((2, 0) if cumulative.name == "cumsum" else (1, 1))
