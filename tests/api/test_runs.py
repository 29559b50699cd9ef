"""Runs of equal elements against loops in NumPy, on every engine."""

from __future__ import annotations

import itertools
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import jscan
from tests import reference
from tests.cases import NUMBERS
from tests.engines import on_engines

pytestmark = pytest.mark.automatic

NARROW = ("int2", "uint4", "float8_e4m3fn", "float4_e2m1fn")
every_dtype = pytest.mark.parametrize("dtype", ["bool", *NUMBERS, *NARROW])


def equal(a, b):
    """Whether two elements are of one run."""
    return bool(a == b) or bool(a != a and b != b)


def runs_of(x):
    """The first element of each run, and how long it is."""
    begins = [t for t in range(len(x)) if t == 0 or not equal(x[t - 1], x[t])]
    return [x[t] for t in begins], list(np.diff([*begins, len(x)]))


def padded(values: list[Any], size: int, fill: Any, dtype: Any) -> Any:
    """Values, cut or filled to a size."""
    row = np.full(size, fill, dtype)
    row[: len(values)] = values[:size]
    return row


def assert_same(actual, expected):
    """Asserts values and a dtype, where NumPy compares the dtype and where it does not."""
    assert actual.dtype == expected.dtype
    reference.assert_equal(actual, expected)


def assert_encoded(x, size):
    """Asserts what the encoding of an array is."""
    values, lengths, count = jscan.run_length_encode(x, size=size)
    wanted, long = runs_of(x)
    assert_same(values, padded(wanted, size, 0, x.dtype))
    assert_same(lengths, padded(long, size, 0, np.int32))
    assert_same(count, np.int32(len(wanted)))


def assert_unique(x, size, fill):
    """Asserts what the different elements of an array are."""
    values, count = jscan.unique_sorted(x, size=size, fill_value=fill)
    wanted, _ = runs_of(x)
    assert_same(values, padded(wanted, size, fill, x.dtype))
    assert_same(count, np.int32(len(wanted)))


def drawn(n, period, dtype="int32", seed=0):
    """Runs of such a length on average; small numbers, which every dtype holds."""
    rng = np.random.default_rng([n, period, seed])
    number = np.cumsum(rng.random(n) < 1 / period)
    return (rng.integers(0, 2, n + 1)[number]).astype(jnp.dtype(dtype))


@pytest.mark.sweep
@on_engines
@pytest.mark.parametrize("n", [0, 1, 33, 4097, 12_289])
@pytest.mark.parametrize("period", [1, 3, 1000])
def test_runs_around_tiles(n, period):
    x = drawn(n, period)
    count = len(runs_of(x)[0])
    for size in {0, max(count - 1, 0), count, count + 1, n + 3}:
        assert_encoded(x, size)
        assert_unique(x, size, -1)


@pytest.mark.sweep
@on_engines
@every_dtype
def test_runs_of_every_dtype(dtype):
    x = drawn(60, 2, dtype)
    for size in (3, 70):
        assert_encoded(x, size)
        assert_unique(x, size, 1)


@pytest.mark.sweep
@on_engines
@pytest.mark.parametrize("dtype", ["float16", "bfloat16", "float32", "float64", "complex64"])
def test_nan_equals_nan_and_zeros_equal_each_other(dtype):
    x = np.array([np.nan, np.nan, 0.0, -0.0, np.inf, np.inf, -np.inf, np.nan, 1.0, np.nan])
    x = x.astype(jnp.dtype(dtype))
    for size in (2, 20):
        assert_encoded(x, size)
        assert_unique(x, size, -1)


@pytest.mark.parametrize("dtype", ["float16", "float32", "float64"])
def test_subnormal_numbers_differ(dtype):
    """A processor may take them for zeros."""
    tiny = np.finfo(dtype).smallest_subnormal
    x = np.array([0, tiny, tiny, 2 * tiny, -tiny], dtype)
    values, count = jscan.unique_sorted(x, size=5, fill_value=1)
    np.testing.assert_array_equal(
        np.asarray(values), np.array([0, tiny, 2 * tiny, -tiny, 1], dtype)
    )
    assert count == 4
    _, lengths, _ = jscan.run_length_encode(x, size=4)
    np.testing.assert_array_equal(lengths, [1, 2, 1, 1])


def test_a_complex_number_is_none_where_a_part_is_none():
    x = np.array([complex(np.nan, 1), complex(2, np.nan), complex(2, 1)])
    values, lengths, count = jscan.run_length_encode(x, size=2)
    np.testing.assert_array_equal(values, [x[0], x[2]])
    np.testing.assert_array_equal(lengths, [2, 1])
    assert count == 2


@on_engines
@pytest.mark.parametrize("dtype", ["int8", "uint16", "int64", "float32", "float64"])
def test_what_is_sorted_is_made_unique_as_by_numpy(dtype):
    x = np.sort(np.random.default_rng(3).integers(0, 50, 300)).astype(dtype)
    if x.dtype.kind == "f":
        x[-7:] = np.nan
    expected = np.unique(x)
    for row, wanted in ((x, expected), (x[::-1], expected[::-1])):
        values, count = jscan.unique_sorted(row, size=60, fill_value=9)
        assert_same(values, padded(list(wanted), 60, 9, x.dtype))
        assert count == len(wanted)


# decode


def repeated(values, lengths, size, fill):
    """`np.repeat`, cut or filled to a size."""
    row = np.full((size, *values.shape[1:]), fill, values.dtype)
    every = np.repeat(values, np.maximum(lengths, 0), axis=0)[:size]
    row[: len(every)] = every
    return row


@pytest.mark.product
@on_engines
@pytest.mark.parametrize("asked", [0, 1, 57, 5000])
@pytest.mark.parametrize("runs", [0, 1, 40, 900])
@pytest.mark.parametrize("trailing", [(), (3,), (2, 0)], ids=str)
def test_runs_are_written_out(asked, runs, trailing):
    rng = np.random.default_rng([asked, runs])
    values = rng.normal(size=(runs, *trailing))
    every = rng.integers(-3, 9, runs, np.int32), np.zeros(runs, np.int32), np.ones(runs, np.uint8)
    for lengths in every:
        actual = jscan.run_length_decode(values, lengths, size=asked, fill_value=-1)
        assert_same(actual, repeated(values, lengths, asked, -1))


@every_dtype
def test_decode_undoes_encode(dtype):
    x = drawn(100, 4, dtype)
    values, lengths, _ = jscan.run_length_encode(x, size=110)
    assert_same(jscan.run_length_decode(values, lengths, size=100), x)


@pytest.mark.parametrize("x64", [False, True], ids=["32 bits", "64 bits"])
@pytest.mark.parametrize("dtype", ["int64", "uint64", object])
def test_lengths_wider_than_32_bits_are_cut_down_to_the_size(x64, dtype):
    values, lengths = np.array([1, 2, 3], np.int32), np.array([1, 2**32, 2**33]).astype(dtype)
    given = list(lengths) if dtype is object else lengths

    def decode():
        return jscan.run_length_decode(values, given, size=4)

    with jax.enable_x64(x64):
        for run in (decode, jax.jit(decode)):
            np.testing.assert_array_equal(run(), [1, 2, 2, 2])


def test_lengths_whose_sum_does_not_fit_32_bits_drop_what_is_behind():
    lengths = np.full(8, 2**31 - 1, np.int32)
    found = jscan.run_length_decode(np.arange(8), lengths, size=5, fill_value=-1)
    np.testing.assert_array_equal(found, [0] * 5)


def test_the_gradient_of_what_is_written_out_is_the_sum_of_each_run():
    weights = np.random.default_rng(4).normal(size=20)
    lengths = np.array([3, 0, 9, 2, 40, 1])

    def total(values):
        y = jscan.run_length_decode(values, lengths, size=20, fill_value=3)
        return jnp.vdot(weights, y)

    ends = np.minimum(np.cumsum(lengths), 20)
    wanted = [weights[a:b].sum() for a, b in itertools.pairwise([0, *ends])]
    np.testing.assert_allclose(jax.grad(total)(np.ones(6)), wanted, rtol=1e-12, atol=1e-12)
