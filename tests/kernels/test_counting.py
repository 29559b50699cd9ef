"""Keys that programs count by themselves, against NumPy."""

from __future__ import annotations

import functools

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import jscan
from jscan import primitives
from jscan.kernels import language, tuning
from tests.engines import by_kernel
from tests.kernels.test_lowering import calls, cuda_program

PARTS = tuning.Tuning(length=4096, lanes=1, warps=4, window=32, strip=1024)


def counted(keys, length):
    """How often each number below a length is in each row of keys."""
    rows = keys.reshape(-1, keys.shape[-1])
    numbers = np.arange(length)
    found = [(row[:, None] == numbers).sum(0) for row in rows]
    return np.asarray(found, np.int32).reshape(*keys.shape[:-1], length)


@by_kernel
@pytest.mark.parametrize(
    ("n", "length", "dtype"),
    [
        (1024, 1, "int32"),
        (4097, 9, "int8"),
        (9001, 32, "uint16"),
        (13_337, 256, "uint8"),
        (5000, 300, "int64"),
        (5000, 100, "uint64"),
        (5000, 31, "uint32"),
        (5000, 8, "int4"),
        (5000, 300, "int4"),
    ],
)
def test_keys_out_of_range_count_nowhere(n, length, dtype, strategy):
    with jax.enable_x64(True), strategy.active(), primitives.tiled(PARTS):
        wide = np.random.default_rng(n).integers(-length // 2, 2 * length, n)
        keys = jnp.asarray(wide).astype(dtype)
        found = jscan.histogram(keys, length)
        np.testing.assert_array_equal(found, counted(np.asarray(keys).astype(object), length))
    assert found.dtype == np.int32


@by_kernel
@pytest.mark.parametrize(("low", "high"), [(0, 1), (5, 6), (-3, 0), (0, 40)])
def test_keys_that_are_all_one_or_in_no_place(low, high, strategy):
    keys = np.random.default_rng(4).integers(low, high, 5000).astype(np.int32)
    with strategy.active():
        np.testing.assert_array_equal(jscan.histogram(keys, 12), counted(keys, 12))


@by_kernel
def test_rows_of_keys(strategy):
    keys = np.random.default_rng(5).integers(-1, 20, (3, 2, 2500)).astype(np.int16)
    of_rows = functools.partial(jscan.histogram, length=17)
    for tile in (None, PARTS):
        with strategy.active(), primitives.tiled(tile):
            np.testing.assert_array_equal(jax.vmap(jax.vmap(of_rows))(keys), counted(keys, 17))
            behind = np.moveaxis(keys, -1, 0)
            found = jax.vmap(jax.vmap(of_rows, 1), 1)(behind)
            np.testing.assert_array_equal(found, counted(keys, 17))


@pytest.mark.parametrize(
    ("shape", "length", "kernels"),
    [((5000,), 256, 1), ((5000,), 2000, 0), ((6, 5000), 9, 1), ((5000, 6), 9, 1), ((900,), 9, 0)],
)
def test_few_numbers_of_many_keys_are_counted_by_a_kernel(shape, length, kernels):
    keys = jax.ShapeDtypeStruct(shape, "int32")
    program = cuda_program(functools.partial(jscan.histogram, length=length), keys)
    assert calls(program) == kernels
    assert ("stablehlo.scatter" in program) == (not kernels)


def test_parts_are_no_more_than_keep_a_device_busy():
    assert tuning.counts(1, 2**26, None).length == 16384
    assert tuning.counts(1, 5000, None).length == 4096
    assert tuning.counts(10**6, 1024, None).length == 1024


def test_a_tile_is_counted_in_plain_jax():
    keys = jnp.array([0, 3, 3, 1, 2, 99], jnp.int32)
    mask = jnp.array([1, 1, 1, 0, 1, 0], bool)
    counts = jax.jit(functools.partial(language.tile_histogram, bins=4))(keys, mask)
    np.testing.assert_array_equal(counts, [1, 0, 1, 2])
