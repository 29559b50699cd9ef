"""Calls outside of ``jit``: compiled once, with the errors and results of any other."""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import jscan
from jscan import dispatch, operators, primitives

X = jnp.arange(6.0)
CALLS = {
    "cumsum": lambda x: jscan.cumsum(x, reverse=True),
    "segments": lambda x: jscan.cummax(x, segments=x % 2 == 0),
    "associative_scan": lambda x: jscan.associative_scan(operators.mul, x, exclusive=True),
    "linear_recurrence": lambda x: jscan.linear_recurrence(x, x, x[-1]),
    "reduce": lambda x: jscan.reduce(operators.logaddexp, x),
}


@pytest.fixture
def traced(monkeypatch):
    """The number of times that a call is resolved."""
    counts = {"calls": 0}

    def counting(function):
        def counted(*args, **kwargs):
            counts["calls"] += 1
            return function(*args, **kwargs)

        return counted

    for name in ("scan", "reduce", "combine_once"):
        monkeypatch.setattr(dispatch, name, counting(getattr(dispatch, name)))
    return counts


@pytest.mark.parametrize("name", CALLS)
def test_a_second_call_traces_nothing(name, traced):
    expected = jax.jit(CALLS[name])(X)
    x = jnp.arange(6.0)
    CALLS[name](x)
    traced["calls"] = 0
    np.testing.assert_array_equal(CALLS[name](x), expected)
    assert traced["calls"] == 0
    CALLS[name](jnp.arange(7.0))
    assert traced["calls"] > 0


def test_one_is_not_true():
    """They are equal, so that one could be taken for the other's call."""
    expected = jscan.cumsum(X.reshape(2, 3), axis=1)
    axis: Any = True
    for _ in range(2):
        np.testing.assert_array_equal(jscan.cumsum(X.reshape(2, 3), axis=1), expected)
        with pytest.raises(TypeError, match="cumsum: axis"):
            jscan.cumsum(X.reshape(2, 3), axis=axis)


def test_errors_name_the_argument():
    for _ in range(2):
        with pytest.raises(TypeError, match="cumsum: x has dtype bool"):
            jscan.cumsum(X > 1)
        with pytest.raises(ValueError, match="cumsum: axis"):
            jscan.cumsum(X, axis=1)
        with pytest.raises(ValueError, match="linear_recurrence: a must have"):
            jscan.linear_recurrence(X[1:], X)


def test_numpy_and_lists_of_arrays_go_another_way():
    expected = np.cumsum(np.arange(6.0))
    np.testing.assert_array_equal(jscan.cumsum(np.arange(6.0)), expected)
    axis: Any = np.int64(0)
    np.testing.assert_array_equal(jscan.cumsum(X, axis=axis), expected)
    left, right = jscan.associative_scan(operators.add, (X, X))
    np.testing.assert_array_equal(left, expected)
    np.testing.assert_array_equal(right, expected)


def test_settings_are_part_of_the_key():
    with pytest.raises(ValueError, match="needs a CUDA GPU"):
        jscan.cumsum(X, method="block")
    with primitives.interpreted():
        np.testing.assert_array_equal(jscan.cumsum(X, method="block"), np.cumsum(X))
    with pytest.raises(ValueError, match="needs a CUDA GPU"):
        jscan.cumsum(X, method="block")


def test_under_transformations_and_without_jit():
    gradient = jax.grad(lambda x: jscan.cumsum(x * X).sum())(X)
    np.testing.assert_array_equal(gradient, X * np.arange(6.0, 0, -1))
    with jax.disable_jit():
        np.testing.assert_array_equal(jscan.cumsum(X), np.cumsum(X))
        rows = jscan.Segments.from_lengths([2, 0, X.size - 2])
        totals = jscan.reduce(operators.add, X, segments=rows)
        np.testing.assert_array_equal(totals, [X[:2].sum(), 0, X[2:].sum()])
    text = str(jax.make_jaxpr(lambda: jscan.cumsum(X))())
    assert text.count("jscan_scan") == 1


@pytest.mark.parametrize("call", [jscan.cumsum, lambda x: jscan.associative_scan(jnp.add, x)])
def test_nans_and_infinities_are_found(call):
    x = jnp.array([1.0, jnp.nan, jnp.inf])
    with jax.debug_nans(True):
        np.testing.assert_array_equal(call(X), np.cumsum(X))
        with pytest.raises(FloatingPointError, match="nan"):
            call(x)
        with pytest.raises(FloatingPointError, match="nan"):
            jax.jit(call)(x)
    with jax.debug_infs(True), pytest.raises(FloatingPointError, match="inf"):
        call(x[2:])
