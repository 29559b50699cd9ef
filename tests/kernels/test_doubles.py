"""exp and log of float64 without branches, against the library's in more digits."""

from __future__ import annotations

import jax
import numpy as np
import pytest

from jscan.kernels import doubles

LARGEST = 2 * 2.0**-52
"""Errors in units of results, or of 1 beside logarithms that are smaller: two bits at most."""

wide = pytest.mark.skipif(
    np.finfo(np.longdouble).nmant < 60, reason="longdouble has no more digits here"
)


def run(function, x):
    with jax.enable_x64(True):
        return jax.tree.map(np.asarray, jax.jit(function)(x))


@wide
def test_exponentials():
    rng = np.random.default_rng(0)
    x = -np.concatenate([rng.random(20000) * 708, 10.0 ** rng.uniform(-18, 2, 20000), [0, 708]])
    expected = np.exp(x.astype(np.longdouble))
    assert np.max(np.abs(run(doubles.exp, x) - expected) / expected) < LARGEST


def test_exponentials_at_the_ends():
    x = np.array([0.0, -0.0, -5e-324, -708.5, -1e300, -np.inf, np.nan])
    np.testing.assert_array_equal(run(doubles.exp, x), [1, 1, 1, 0, 0, 0, np.nan])


@wide
def test_logarithms():
    rng = np.random.default_rng(1)
    x = np.concatenate(
        [
            10.0 ** rng.uniform(-307, 308, 20000),
            rng.uniform(0.5, 2, 20000),
            1 + 10.0 ** rng.uniform(-16, 0, 10000),
            2.0 ** np.arange(-1022, 1024),
        ]
    )
    expected = np.log(x.astype(np.longdouble))
    error = np.abs(run(doubles.log, x) - expected)
    assert np.max(error / np.maximum(np.abs(expected), 1)) < LARGEST
    near = (x > 0.75) & (x < 1.4) & (x != 1)
    assert np.max(error[near] / np.abs(expected[near])) < LARGEST


def test_logarithms_at_the_ends():
    x = np.array([0.0, 1.0, np.inf, np.nan])
    np.testing.assert_array_equal(run(doubles.log, x), [-np.inf, 0, np.inf, np.nan])


def test_halves_order_as_numbers_do():
    rng = np.random.default_rng(2)
    some = 10.0 ** rng.uniform(-320, 308, 2000) * rng.choice([-1, 1], 2000)
    near = [some, np.nextafter(some, np.inf), [0.0, np.inf, -np.inf, 5e-324, -5e-324]]
    x = np.unique(np.concatenate(near))
    high, low = run(doubles.halves, x)
    assert (high[:-1] <= high[1:]).all()
    assert ((high[:-1] < high[1:]) | (low[:-1] < low[1:])).all()
    np.testing.assert_array_equal(run(lambda x: doubles.joined(*doubles.halves(x)), x), x)


def test_halves_tell_what_is_no_number():
    """With a sign or without."""
    bits = [0x7FF8000000000000, 0xFFF8000000000000, 0x7FFFFFFFFFFFFFFF, 0xFFFFFFFFFFFFFFFF]
    none = np.array(bits, np.uint64).view(np.float64)
    words, _ = run(doubles.halves, none)
    infinite, _ = run(doubles.halves, np.array([np.inf]))
    assert (words > infinite).all()
    assert np.isnan(run(lambda x: doubles.joined(*doubles.halves(x)), none)).all()
