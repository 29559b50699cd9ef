"""Operators of two exponentials of which one is of zero, against the operators as they were."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import jscan
from jscan import primitives
from jscan.jaxprs import bound, evaluate
from jscan.kernels import tuning
from jscan.kernels.exponentials import once
from jscan.kernels.operator import trace_scalars
from tests import reference

NUMBERS = [0.0, -0.0, 1.0, -2.5, 700.0, -700.0, np.inf, -np.inf, np.nan]


def soft_maximum(m: Any, s: Any, n: Any, t: Any) -> Any:
    greatest = jnp.maximum(m, n)
    return greatest, s * jnp.exp(m - greatest) + t * jnp.exp(n - greatest)


def exponentials(x: Any, y: Any) -> Any:
    greatest = jnp.maximum(y, x)
    return jnp.exp(x - greatest), jnp.exp(y - greatest)


def traced(function: Callable[..., Any], dtype: str = "float64") -> Any:
    with jax.enable_x64(True):
        count = 2 if function is exponentials else 4
        return trace_scalars(function, [np.dtype(dtype)] * count)


def count_of(operator: Any, primitive: str = "exp") -> int:
    return sum(equation.primitive.name == primitive for equation in operator.jaxpr.eqns)


@pytest.mark.parametrize("function", [soft_maximum, exponentials])
def test_results_are_the_same(function):
    operator = traced(function)
    made = once(operator)
    assert (count_of(operator), count_of(made)) == (2, 1)
    assert count_of(made, "sub") == 2  # those of the exponentials are gone
    pairs = np.array([*itertools.product(NUMBERS, NUMBERS)]).T
    sums = np.arange(pairs[0].size) % 5 / 4
    arguments = [*pairs] if function is exponentials else [pairs[0], sums, pairs[1], 1 - sums]

    def run(jaxpr: Any) -> list[np.ndarray[Any, Any]]:
        with jax.enable_x64(True):
            call = jax.jit(lambda *x: evaluate(jaxpr.jaxpr, x, (bound,)))
            return [np.asarray(x) for x in call(*arguments)]

    for expected, found in zip(run(operator), run(made), strict=True):
        np.testing.assert_array_equal(found, expected)
        assert (np.isnan(expected) | (np.signbit(found) == np.signbit(expected))).all()


def test_differences_that_are_results_are_kept():
    def with_differences(m: Any, s: Any, n: Any, t: Any) -> Any:
        greatest = jnp.maximum(m, n)
        return m - greatest, n - greatest, *(jnp.exp(x - greatest) * y for x, y in ((m, s), (n, t)))

    operator = traced(with_differences)
    made = once(operator)
    assert count_of(made) == 1
    with jax.enable_x64(True):
        arguments = [np.float64(x) for x in (1.0, 2.0, 3.0, 4.0)]
        call = jax.jit(lambda *x: evaluate(made.jaxpr, x, (bound,)))
        found = [float(x) for x in call(*arguments)]
    np.testing.assert_allclose(found, [-2.0, 0.0, 2 * np.exp(-2.0), 4.0], rtol=1e-15)


def test_others_are_left_as_they_are():
    def of_one(x: Any, y: Any, z: Any, w: Any) -> Any:
        return jnp.exp(x - jnp.maximum(x, y)), jnp.exp(z - jnp.maximum(x, y)), w, w

    def of_the_least(m: Any, s: Any, n: Any, t: Any) -> Any:
        least = jnp.minimum(m, n)
        return jnp.exp(m - least), jnp.exp(n - least), s, t

    for operator in (traced(of_one), traced(of_the_least), traced(soft_maximum, "float32")):
        assert once(operator) is operator


@pytest.mark.parametrize("reverse", [False, True])
def test_scans(reverse):
    x = np.random.default_rng(0).normal(0, 100, 300)

    def combine(a: Any, b: Any) -> Any:
        return soft_maximum(*a, *b)

    def call(x: Any) -> Any:
        return jscan.associative_scan(combine, (x, jnp.ones_like(x)), reverse=reverse)

    tile = tuning.Tuning(64, 1, 1, 32)
    with jax.enable_x64(True), primitives.interpreted(), primitives.tiled(tile):
        greatest, sums = jax.jit(call)(x)
    order = x[::-1] if reverse else x
    m = np.maximum.accumulate(order)
    s = np.array([np.exp(order[: k + 1] - m[k]).sum() for k in range(x.size)])
    if reverse:
        m, s = m[::-1], s[::-1]
    reference.assert_equal(np.asarray(greatest), m)
    np.testing.assert_allclose(np.asarray(sums), s, rtol=1e-13)
