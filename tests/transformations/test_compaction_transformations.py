"""Compaction outside of jit and in its second derivatives; `tests/walk` has the rest."""

from __future__ import annotations

from functools import partial

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import jscan
from tests.transformations.test_transformations import assert_compilations

X = jnp.array([1.0, 1.0, 4.0, 5.0, 5.0, 5.0])
MARKS = jnp.array([0, 1, 1, 0, -1, 2], jnp.int8)
CALLS = {
    "histogram": partial(jscan.histogram, MARKS, 4),
    "nonzero": partial(jscan.nonzero, MARKS, size=4),
    "nonzero filled": partial(jscan.nonzero, MARKS, size=4, fill_value=7),
    "partition": partial(jscan.partition, X, MARKS),
    "run_length_decode": partial(jscan.run_length_decode, X, MARKS, size=5),
    "run_length_encode": partial(jscan.run_length_encode, X, size=5),
    "unique_sorted": partial(jscan.unique_sorted, X, size=5),
}


@pytest.mark.parametrize("call", CALLS.values(), ids=CALLS.keys())
def test_eager_calls_compile_once(call):
    jax.block_until_ready(call())
    with assert_compilations(0):
        jax.block_until_ready(call())


def test_slopes_of_slopes_pass_through():
    """The sum of cubes of what is moved has the Hessian 6 x, once for each time that it comes."""

    def total(x):
        parts = jscan.partition(x, MARKS)[0]
        written = jscan.run_length_decode(x, MARKS, size=4)
        return jnp.sum(parts**3) + jnp.sum(written**3)

    times = 1 + np.array([0.0, 1, 1, 0, 0, 2])
    np.testing.assert_allclose(jax.jit(jax.hessian(total))(X), np.diag(6 * X * times), rtol=1e-12)


def test_each_row_of_a_batch_has_its_own_runs():
    rows = jnp.stack([X, X[::-1], jnp.zeros(6)])
    values, lengths, count = jax.vmap(partial(jscan.run_length_encode, size=4))(rows)
    np.testing.assert_array_equal(count, [3, 3, 1])
    back = jax.vmap(partial(jscan.run_length_decode, size=6))(values, lengths)
    np.testing.assert_array_equal(back, rows)
