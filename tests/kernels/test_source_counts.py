"""Counts of marks, signs, runs and keys as text in Triton's language, by Triton's interpreter."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax import lax

import jscan
from jscan import primitives
from jscan.kernels import language, tuning
from tests.kernels import triton_interpreter
from tests.kernels.test_source import written
from tests.kernels.test_source_values import interpreter as interpreter


@pytest.mark.parametrize("negative", [False, True])
def test_bytes_are_counted_four_at_once(negative):
    """Every byte beside others, of which none may carry into the next."""
    rng = np.random.default_rng(8)
    marks = np.concatenate([np.arange(256), np.zeros(256), rng.integers(0, 256, 512)])
    marks = marks.astype(np.uint8)

    def counted(program, refs):
        del program
        place = lax.iota(jnp.int32, 1024)
        counts = language.count_bytes(language.load(refs[0], [(place, 1)]), negative=negative)
        language.store(refs[1], [(lax.iota(jnp.int32, 256), 1)], counts)

    result = np.zeros(1024, np.int32)
    triton_interpreter.run(written(counted, ["uint8", "int32"], 1024), [marks, result])
    found = marks > 127 if negative else marks != 0
    np.testing.assert_array_equal(result[:256], found.reshape(-1, 4).sum(1))


@pytest.mark.usefixtures("interpreter")
@pytest.mark.parametrize("n", [1024, 1101])
def test_marks_and_signs_that_are_counted_in_bytes(n):
    rng = np.random.default_rng(n)
    x, signs = rng.normal(size=n).astype(np.float32), rng.integers(-1, 2, n, np.int8)
    mask = signs != 0
    tile = tuning.Tuning(length=256, lanes=1, warps=1, window=2, strip=128)
    with primitives.tiled(tile):
        packed = jscan.pack(x, mask, size=n, fill_value=7)
        parted, lengths = jscan.partition(x, signs)
        wide, _ = jscan.partition(x, signs.astype(np.int32))
    filled = np.concatenate([x[mask], np.full(n - mask.sum(), 7, np.float32)])
    np.testing.assert_array_equal(packed, filled)
    expected = np.concatenate([x[signs < 0], x[signs == 0], x[signs > 0]])
    np.testing.assert_array_equal(parted, expected)
    np.testing.assert_array_equal(wide, expected)
    np.testing.assert_array_equal(lengths, [(signs == s).sum() for s in (-1, 0, 1)])


@pytest.mark.usefixtures("interpreter")
def test_runs_of_floats_are_found_by_their_bits():
    few = np.array([np.nan, -np.nan, 0.0, -0.0, 1e-40, 2e-40, np.inf, -np.inf], np.float32)
    x = np.tile(np.repeat(few, 3), 5)
    tile = tuning.Tuning(length=32, lanes=1, warps=1, window=2, strip=16)
    with primitives.tiled(tile):
        values, count = jscan.unique_sorted(x, size=40)
    begins = few[[0, 2, 4, 5, 6, 7]]
    assert count == 30
    np.testing.assert_array_equal(values[:30], np.tile(begins, 5))
    np.testing.assert_array_equal(values[30:], 0)


@pytest.mark.usefixtures("interpreter")
@pytest.mark.parametrize("dtype", ["uint8", "int16", "int64", "uint32"])
def test_keys_are_counted(dtype):
    keys = np.random.default_rng(9).integers(0, 120, 3000).astype(dtype)
    with jax.enable_x64(dtype == "int64"):
        found = jscan.histogram(keys, 100)
    np.testing.assert_array_equal(found, np.bincount(keys, minlength=120)[:100])
