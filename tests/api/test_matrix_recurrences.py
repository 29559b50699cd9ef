"""Recurrences of vectors: kernels, plain JAX and loops give what a loop in NumPy gives."""

from __future__ import annotations

from functools import partial

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import jscan
from jscan import primitives
from tests import reference


def states(matrices, terms, h0, heads, *, reverse):
    """The states along the first axis, in float64, with a matrix for each element."""
    h, found = h0, np.zeros(terms.shape)
    order = range(len(terms))
    for position, t in enumerate(reversed(order) if reverse else order):
        begins = position > 0 and heads[t + 1 if reverse else t]
        h = (0 if begins else (matrices[t] * h[..., None, :]).sum(-1)) + terms[t]
        found[t] = h
    return found


def drawn(size, *leading):
    rng = np.random.default_rng(size)
    matrices = rng.normal(size=(*leading, size, size)) * 0.6 / np.sqrt(size)
    return matrices, rng.normal(size=(*leading, size)), rng.normal(size=(*leading[1:], size))


@pytest.mark.product
@pytest.mark.parametrize("reverse", [False, True])
@pytest.mark.parametrize(("size", "how"), [(1, "kernels"), (3, "kernels"), (4, "auto"), (9, "xla")])
def test_states_are_those_of_a_loop(size, how, reverse):
    matrices, terms, h0 = drawn(size, 37)
    heads = np.random.default_rng(1).random(37) < 0.2
    want = states(matrices, terms, h0, heads, reverse=reverse)

    def run(*operands):
        method = "xla" if how == "xla" else "auto"
        return jscan.matrix_recurrence(*operands, segments=heads, reverse=reverse, method=method)

    operands = [np.asarray(x, np.float32) for x in (matrices, terms, h0)]
    if how == "kernels":
        with primitives.interpreted():
            found = jax.jit(run)(*operands)
    else:
        found = run(*operands)
    np.testing.assert_allclose(found, want, rtol=1e-5, atol=1e-5)


def test_blocks_lie_side_by_side_and_are_shared():
    matrices, terms, h0 = drawn(2, 11, 3)
    want = states(matrices, terms, h0, np.zeros(11, bool), reverse=False)
    found = jscan.matrix_recurrence(*[np.asarray(x, np.float32) for x in (matrices, terms, h0)])
    np.testing.assert_allclose(found, want, rtol=1e-5, atol=1e-5)
    one = jscan.matrix_recurrence(matrices[:1, :1], terms)
    whole = jscan.matrix_recurrence(np.broadcast_to(matrices[:1, :1], matrices.shape), terms)
    np.testing.assert_allclose(one, whole, rtol=1e-6)


def test_a_rotation_is_a_product_of_complex_numbers():
    rng = np.random.default_rng(2)
    turns, terms = (rng.normal(size=(50, 4, 2)).astype(np.float32) * 0.7 for _ in range(2))
    a, b = (x[..., 0] + 1j * x[..., 1] for x in (turns, terms))
    want = jscan.linear_recurrence(a, b)
    run = partial(jscan.matrix_recurrence, form="rotation")
    with primitives.interpreted():
        by_kernels = jax.jit(run)(turns, terms)
    for found in (by_kernels, run(turns, terms)):
        np.testing.assert_allclose(found[..., 0], want.real, rtol=1e-4, atol=1e-5)
        np.testing.assert_allclose(found[..., 1], want.imag, rtol=1e-4, atol=1e-5)


def test_a_gradient_makes_no_matrix_but_those_of_its_result():
    """Nothing of k x k is kept from the first pass: residuals are the operands and the states."""
    matrices, terms, _ = drawn(3, 64)
    _, back = jax.vjp(jscan.matrix_recurrence, jnp.asarray(matrices), jnp.asarray(terms))
    kept = sum(x.size for x in jax.tree.leaves(back) if x.size > 1)
    assert kept <= matrices.size + 2 * terms.size


@pytest.mark.parametrize("dtype", ["float16", "bfloat16"])
def test_narrow_floats_are_rounded_once(dtype):
    matrices, terms, _ = (np.asarray(x, dtype) for x in drawn(2, 200))
    wide = reference.widen(matrices), reference.widen(terms)
    want = states(*wide, np.zeros(2), np.zeros(200, bool), reverse=False)
    found = jscan.matrix_recurrence(matrices, terms)
    assert found.dtype == dtype
    error = np.abs(reference.widen(np.asarray(found)) - want)
    assert np.all(error <= float(jnp.finfo(dtype).eps) * (np.abs(want) + 0.05))


def test_what_precedes_a_head_is_dropped_even_if_it_is_no_number():
    matrices, terms, _ = drawn(2, 6)
    terms[1] = np.nan
    matrices[3] = np.inf
    found = jscan.matrix_recurrence(matrices, terms, segments=np.array([1, 0, 0, 1, 0, 0]))
    assert np.isnan(found[1]).all()
    assert np.isfinite(found[3:]).all()


def test_matrices_too_large_for_a_named_method_say_how_large_they_may_be():
    matrices, terms, _ = drawn(8, 9)
    with (
        primitives.interpreted(),
        pytest.raises(ValueError, match=r"8 x 8 do not fit .* those of 7 x 7 do"),
    ):
        jscan.matrix_recurrence(matrices.astype("f4"), terms.astype("f4"), method="lookback")


def test_no_elements_have_no_states():
    assert jscan.matrix_recurrence(jnp.zeros((0, 2, 2)), jnp.zeros((0, 2))).shape == (0, 2)
    assert jscan.matrix_recurrence(jnp.zeros((2, 2)), jnp.zeros((0, 2)), 1.0).shape == (0, 2)
