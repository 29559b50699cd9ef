"""The evaluator of jaxprs: what it inlines, how it reads, and what it asks of its rules."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax import lax
from jax.extend import core

from jscan.jaxprs import CALLS, bound, evaluate

X = np.linspace(0.5, 2.0, 4, dtype=np.float32)


@jax.custom_jvp
def _with_jvp(x: jax.Array) -> jax.Array:
    return jnp.sin(x) * 2


_with_jvp.defjvp(lambda primals, tangents: (_with_jvp(*primals), tangents[0]))


@jax.custom_vjp
def _with_vjp(x: jax.Array) -> jax.Array:
    return jnp.sin(x) * 2


_with_vjp.defvjp(lambda x: (_with_vjp(x), None), lambda _, g: (g,))


def _plain(x: jax.Array) -> jax.Array:
    return jnp.sin(x) * 2


FUNCTIONS: dict[str, Callable[..., Any]] = {
    "jit": jax.jit(_plain),
    "custom_jvp": _with_jvp,
    "custom_vjp": _with_vjp,
    "checkpoint": jax.checkpoint(_plain),
    "jit of checkpoint": jax.jit(jax.checkpoint(_plain)),
    "custom_jvp in jit in checkpoint": jax.checkpoint(jax.jit(_with_jvp)),
}


def _traced(function: Callable[..., Any], *operands: Any) -> core.ClosedJaxpr:
    return jax.make_jaxpr(function)(*operands)


def _asked(jaxpr: core.Jaxpr, operands: Sequence[Any]) -> tuple[list[str], list[Any]]:
    """The primitives that a rule is asked for, and the results."""
    names = []

    def rule(equation: core.JaxprEqn, operands: Sequence[Any]) -> list[Any]:
        names.append(equation.primitive.name)
        return bound(equation, operands)

    return names, evaluate(jaxpr, operands, [rule])


@pytest.mark.parametrize("kind", FUNCTIONS)
def test_calls_are_inlined(kind):
    closed = _traced(FUNCTIONS[kind], jnp.float32(0))
    assert {e.primitive.name for e in closed.jaxpr.eqns} <= CALLS
    names, [result] = _asked(closed.jaxpr, [np.float32(0.5)])
    assert names == ["sin", "mul"]
    np.testing.assert_allclose(result, 2 * np.sin(0.5), rtol=1e-6)


def test_constants_are_the_first_operands():
    table = jnp.arange(4, dtype=np.float32)
    closed = _traced(lambda x, y: (table - x) * y, X, X)
    assert len(closed.consts) == 1
    [result] = evaluate(closed.jaxpr, [X, X, X])
    np.testing.assert_array_equal(result, np.zeros(4))
    [result] = evaluate(closed.jaxpr, [*closed.consts, X, X])
    np.testing.assert_allclose(result, (np.arange(4) - X) * X)


def test_constants_of_calls_are_read_as_literals_are():
    three = jnp.float32(3)
    closed = _traced(jax.jit(lambda x: x * three), three)
    assert len(closed.jaxpr.eqns[0].params["jaxpr"].consts) == 1
    read = []

    def number(scalar: Any) -> Any:
        read.append(scalar)
        return scalar

    [result] = evaluate(closed.jaxpr, [np.float32(2)], number=number)
    assert result == 6
    assert read == [3]
    assert isinstance(read[0], np.float32)


@pytest.mark.parametrize(
    ("function", "dtype"),
    [
        (lambda x: x * 2, np.float32),
        (lambda x: x + 1, np.int8),
        (lambda x: x | 200, np.uint8),
        (lambda x: x * (1 + 2j), np.complex64),
        (lambda x: x & True, np.bool_),
        (lambda x: x * jnp.bfloat16(3), jnp.bfloat16),
    ],
)
def test_literals_keep_their_dtype(function, dtype):
    dtype = np.dtype(dtype)
    x = np.ones((), dtype)[()]
    closed = _traced(function, x)
    read = []

    def number(scalar: Any) -> Any:
        read.append(scalar)
        return scalar

    constants = [np.asarray(c)[()] for c in closed.consts]
    [result] = evaluate(closed.jaxpr, [*constants, x], number=number)
    assert result.dtype == dtype
    assert result == function(x)
    assert read
    assert all(isinstance(scalar, np.generic) and scalar.dtype == dtype for scalar in read)


def test_a_literal_may_be_a_result():
    closed = _traced(lambda x: (np.float32(3), x), jnp.float32(0))
    results = evaluate(closed.jaxpr, ["x"], [], number=lambda scalar: f"number {scalar}")
    assert results == ["number 3.0", "x"]


def test_a_rule_may_decline_and_the_next_is_asked():
    closed = _traced(lambda x: jnp.cos(jnp.sin(x)), jnp.float32(0))

    def sine(equation: core.JaxprEqn, operands: Sequence[str]) -> list[str] | None:
        return [f"sin({operands[0]})"] if equation.primitive.name == "sin" else None

    def anything(equation: core.JaxprEqn, operands: Sequence[str]) -> list[str]:
        return [f"{equation.primitive.name} of {operands[0]}"]

    assert evaluate(closed.jaxpr, ["x"], [sine, anything]) == ["cos of sin(x)"]
    assert evaluate(closed.jaxpr, ["x"], [anything, sine]) == ["cos of sin of x"]
    with pytest.raises(NotImplementedError, match="cos"):
        evaluate(closed.jaxpr, ["x"], [sine])


def test_rules_reach_into_calls():
    closed = _traced(jax.jit(lambda x: jnp.sin(x)), jnp.float32(0))
    with pytest.raises(NotImplementedError, match="sin"):
        evaluate(closed.jaxpr, [0], [lambda *_: None])


def test_several_results_of_an_equation():
    closed = _traced(lambda x: lax.sort((x, -x), num_keys=1), X)
    results = evaluate(closed.jaxpr, [X[::-1]], [bound])
    np.testing.assert_array_equal(results, [X, -X])


def test_scalars_are_traced_and_arrays_computed():
    closed = _traced(lambda x, y: jnp.where(x > 1, x * y + 1, jnp.float32(7)), X[0], X[0])
    operands: list[Any] = [X, np.float32(3)]
    [result] = evaluate(closed.jaxpr, operands)
    np.testing.assert_allclose(result, np.where(X > 1, X * 3 + 1, 7))


def test_arrays_are_traced_and_scalars_computed():
    closed = _traced(lambda x, y: jnp.where(x > 1, x * y + 1, jnp.full_like(x, 7)), X, X)
    for x in X:
        [result] = evaluate(closed.jaxpr, [x, np.float32(3)])
        assert np.shape(result) == ()
        np.testing.assert_allclose(result, np.where(x > 1, x * 3 + 1, 7))


def test_a_loop_of_scalars_is_mapped_over_arrays():
    closed = _traced(lambda x: lax.while_loop(lambda c: c < 10, lambda c: c * 2, x), X[0])
    expected = [np.float32(x * 2 ** np.ceil(np.log2(10 / x))) for x in X]
    for x, value in zip(X, expected, strict=True):
        assert evaluate(closed.jaxpr, [x]) == [value]
    [result] = evaluate(closed.jaxpr, [np.stack([X, X])])
    np.testing.assert_array_equal(result, [expected, expected])
