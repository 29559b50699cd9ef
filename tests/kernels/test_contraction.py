"""Products that are added up in one instruction: where they are, and what comes out."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import jscan
from jscan import combine, operators, primitives
from jscan.kernels import operator, tuning
from tests.kernels.test_lowering import cuda_program

TILE = tuning.Tuning(length=16, lanes=1, warps=1, window=4)
OPERATORS: dict[str, tuple[Callable[[Any, Any], Any], int]] = {
    "a + b + a b": (lambda a, b: a + b + a * b, 1),
    "a + b - a b": (lambda a, b: a + b - a * b, 1),
    "a b - a - b": (lambda a, b: a * b - a - b, 0),
    "a / 2 + b": (lambda a, b: a * 0.5 + b, 1),
    "1 - a b": (lambda a, b: 1 - a * b, 1),
    "a b + b a": (lambda a, b: a * b + b * a, 0),
    "a² + b²": (lambda a, b: a * a + b * b, 0),
    "a product that is used twice": (lambda a, b: jnp.maximum(a * b, a + a * b), 1),
    "a sum": (lambda a, b: a + b, 0),
}
"""Operators, and how many products each adds up so. They need not associate."""


def prepared(fn: Callable[..., Any], *dtypes: str) -> jax.extend.core.ClosedJaxpr:
    """The operator as kernels have it."""
    elems = [jax.ShapeDtypeStruct((2,), jnp.dtype(d)) for d in dtypes]
    tree = jax.tree.structure(0 if len(elems) == 1 else elems)
    traced = combine.trace(fn, elems, tree, 0, None)
    assert traced is not None
    return operator.prepare(traced)


def names(jaxpr: jax.extend.core.ClosedJaxpr) -> list[str]:
    """The primitives of an operator."""
    return [e.primitive.name for e in jaxpr.jaxpr.eqns]


@pytest.mark.parametrize("name", OPERATORS)
def test_a_product_that_is_used_once_is_added_in_one_instruction(name):
    fn, count = OPERATORS[name]
    assert names(prepared(fn, "float32")).count("jscan_fma") == count


def test_integers_are_left_alone():
    assert names(prepared(OPERATORS["a + b + a b"][0], "int32")) == ["add", "mul", "add"]


@pytest.mark.parametrize("name", OPERATORS)
def test_numbers_are_those_of_the_function(name):
    fn, _ = OPERATORS[name]
    rng = np.random.default_rng(0)
    a, b = rng.normal(size=(2, 1000))
    with jax.enable_x64(True):
        run = jax.extend.core.jaxpr_as_fun(prepared(fn, "float64"))
        [found] = jax.jit(jax.vmap(lambda *x: run(*x)))(a, b)
        np.testing.assert_allclose(found, fn(a, b), rtol=1e-12, atol=1e-12)


def test_a_recurrence_takes_two_instructions():
    run = prepared(operators.affine, "float32", "float32")
    assert sorted(names(run)) == ["jscan_fma", "mul"]
    # What stands in front of rows is known still: a slope of one, and nothing to add.
    assert operator.front(run, (False, True)) == ((1.0, True), (-0.0, False))


@pytest.mark.parametrize("reverse", [False, True])
@pytest.mark.parametrize("dtype", ["float32", "complex64"])
def test_scans_are_those_of_a_loop(dtype, reverse):
    rng = np.random.default_rng(1)
    a, b = rng.normal(size=(2, 150, 2)).astype(np.float32).view(np.complex64)[..., 0]
    if dtype == "float32":
        a, b = a.real.copy(), b.real.copy()
    a /= np.abs(a).max()
    with primitives.interpreted(), primitives.tiled(TILE):
        found = jscan.linear_recurrence(a, b, reverse=reverse, method="lookback")
    wanted, state = np.zeros(150, np.complex128), 0j
    for i in range(150)[:: -1 if reverse else 1]:
        wanted[i] = state = complex(a[i]) * state + complex(b[i])
    np.testing.assert_allclose(found, wanted, rtol=1e-5, atol=1e-5)


def test_an_operator_of_one_instruction_may_hold_a_constant():
    x = np.arange(50, dtype=np.float32)
    with primitives.interpreted(), primitives.tiled(TILE):
        found = jscan.associative_scan(lambda a, b: a + b * 1.0, x, method="lookback")
    np.testing.assert_array_equal(found, x.cumsum())


def test_a_negated_product_is_compiled_by_every_triton():
    # Triton's own compiler legalises `math.fma`, and no `arith.negf`, which XLA's does.
    slopes = jax.ShapeDtypeStruct((3, 1 << 12), jnp.complex64)
    program = cuda_program(lambda a, b: jscan.linear_recurrence(a, b, axis=1), slopes, slopes)
    assert "fma" in program
    assert "negf" not in program
