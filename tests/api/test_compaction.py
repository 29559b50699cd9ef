"""Compaction against NumPy, on every engine."""

from __future__ import annotations

from functools import partial

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import jscan
from tests import reference
from tests.cases import FLAG_DTYPES
from tests.engines import on_engines

pytestmark = pytest.mark.automatic

SHAPES = ((0,), (1,), (77,), (3, 4), (0, 3), (3, 0), (5, 1, 7), (2, 3, 4, 5))


def assert_same(actual, expected):
    """Asserts the values and dtypes of several arrays."""
    for got, want in zip(actual, expected, strict=True):
        assert got.dtype == np.asarray(want).dtype
        reference.assert_equal(got, np.asarray(want))


# nonzero


def found(mask, size, fills):
    """`np.nonzero`, cut or filled to a size."""
    rows = []
    for place, fill in zip(np.nonzero(mask), fills, strict=True):
        row = np.full(size, fill, np.int32)
        row[: len(place)] = place[:size]
        rows.append(row)
    return rows


@on_engines
@pytest.mark.parametrize("shape", SHAPES, ids=str)
@pytest.mark.parametrize("asked", [0, 5, 200])
def test_nonzero_of_any_rank(shape, asked):
    mask = np.random.default_rng(1).random(shape) < 0.4
    fills = tuple(range(-1, len(shape) - 1))
    assert_same(jscan.nonzero(mask, size=asked, fill_value=fills), found(mask, asked, fills))
    same = [7] * len(shape)
    assert_same(jscan.nonzero(mask, size=asked, fill_value=7), found(mask, asked, same))


@on_engines
@pytest.mark.parametrize("n", [31, 4097, 12_289])
@pytest.mark.parametrize("density", [0.0, 0.01, 0.5, 1.0])
def test_nonzero_around_tiles(n, density):
    mask = np.random.default_rng(n).random(n) < density
    for size in (n // 3, n, n + 5):
        assert_same(jscan.nonzero(mask, size=size, fill_value=n), found(mask, size, [n]))


@pytest.mark.parametrize("dtype", [*FLAG_DTYPES, "int8", "uint64"])
def test_nonzero_of_every_dtype_is_that_of_jax(dtype):
    mask = np.random.default_rng(2).integers(0, 3, (6, 7)).astype(dtype)
    for fill in (0, -1, (3, 4)):
        run = jax.jit(partial(jscan.nonzero, size=30, fill_value=fill))
        theirs = jnp.nonzero(mask, size=30, fill_value=fill)
        assert_same(run(mask), [np.asarray(x, np.int32) for x in theirs])


def test_a_fill_value_may_be_traced():
    mask = np.array([[0, 1], [1, 0]])

    def run(fill):
        return jscan.nonzero(mask, size=3, fill_value=(fill, -fill))

    assert_same(jax.jit(run)(np.int32(9)), found(mask, 3, [9, -9]))


def test_indices_take_what_is_marked():
    x = np.random.default_rng(3).normal(size=(4, 5, 6))
    indices = jscan.nonzero(x > 0, size=int(np.count_nonzero(x > 0)))
    np.testing.assert_array_equal(x[tuple(map(np.asarray, indices))], x[x > 0])
