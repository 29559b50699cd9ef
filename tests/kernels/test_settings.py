"""The settings that are read when a primitive is bound: where kernels run, and their tiles."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np
from jax.extend import core

import jscan
from jscan import operators, primitives
from jscan.kernels import tuning
from tests.kernels.test_lowering import cuda_program

SMALL = tuning.Tuning(length=64, lanes=1, warps=1, window=4, strip=16)
X = jax.ShapeDtypeStruct((2**16,), jnp.float32)


def settings(jaxpr):
    """The tile of every primitive of this package in a jaxpr, and whether it is interpreted."""
    return {
        (e.params["tile"], e.params["interpret"])
        for e in jaxpr.eqns
        if e.primitive.name.startswith("jscan_")
    }


def total(x):
    """A scan whose derivatives of any order are recurrences."""
    return jnp.sum(jscan.associative_scan(lambda a, b: jnp.sin(a) + b, x))


def test_a_function_is_traced_anew_with_other_settings():
    function = jax.jit(lambda x: jscan.cumsum(x, method="lookback"))
    plain = cuda_program(function, X)
    with primitives.tiled(SMALL):
        small = cuda_program(function, X)
    assert f"grid_x = {2**16 // 64} " in small
    assert f"grid_x = {2**16 // 64} " not in plain
    assert cuda_program(function, X) == plain


def test_calls_outside_jit_are_compiled_anew_with_other_settings():
    x = np.arange(300, dtype=np.int32)
    want = np.cumsum(x)
    np.testing.assert_array_equal(jscan.cumsum(x), want)
    with primitives.interpreted(), primitives.tiled(SMALL):
        np.testing.assert_array_equal(jscan.cumsum(x, method="lookback"), want)
    np.testing.assert_array_equal(jscan.cumsum(x), want)


def test_derivatives_have_the_settings_of_their_scan():
    with primitives.interpreted(), primitives.tiled(SMALL):
        scanned = jax.make_jaxpr(total)(X)
    assert settings(scanned.jaxpr) == {(SMALL, True)}
    function = core.jaxpr_as_fun(scanned)

    def slope(x):
        return jax.grad(lambda x: function(x)[0])(x)

    assert settings(jax.make_jaxpr(slope)(X).jaxpr) == {(SMALL, True)}
    twice = jax.make_jaxpr(lambda x: jax.jvp(slope, (x,), (x,)))(X)
    assert settings(twice.jaxpr) == {(SMALL, True)}


def test_derivatives_that_are_scans_in_plain_jax_have_the_settings_too():
    def product(x, ids):
        return jnp.sum(jscan.segment_prod(x, ids, 5, True))

    ids = jax.ShapeDtypeStruct(X.shape, jnp.int32)
    with primitives.tiled(SMALL):
        reduced = jax.make_jaxpr(product)(X, ids)
    function = core.jaxpr_as_fun(reduced)
    moved = jax.make_jaxpr(lambda x, ids: jax.jvp(lambda x: function(x, ids)[0], (x,), (x,)))
    found = settings(moved(X, ids).jaxpr)
    assert found == {(SMALL, False)}


def test_affine_scans_take_their_tile():
    with primitives.tiled(SMALL):
        program = cuda_program(
            lambda a, b: jscan.associative_scan(operators.affine, (a, b), method="lookback"), X, X
        )
    assert f"grid_x = {2**16 // 64} " in program
