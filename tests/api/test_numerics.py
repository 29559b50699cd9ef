"""Numbers at their edges: what the suites of CUB, Thrust, PyTorch and NumPy pin down."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import jscan
from tests import reference
from tests.cases import BY_NAME, COMPLEX, FLOATS, INTEGERS, values

HALVES = ("float16", "bfloat16")


def exact_sums(x):
    """Prefix sums of floats in exact rational arithmetic, rounded once to float64."""
    total, sums = 0, []
    for value in np.asarray(x, float):
        numerator, denominator = float(value).as_integer_ratio()
        total += numerator * (2**1100 // denominator)
        sums.append(total / 2**1100)
    return np.array(sums)


# NaN and infinity


def check_nan(name, dtype, engine):
    """A NaN stays in a running extreme, from either side."""
    x = np.array([1, 3, np.nan, 9, -9, 2, np.inf], jnp.dtype(dtype))
    y = getattr(jscan, name)(x, method=engine.method)
    running = {"cummax": [1, 3], "cummin": [1, 1]}[name]
    np.testing.assert_array_equal(reference.widen(y), [*running, *[np.nan] * 5])
    y = getattr(jscan, name)(x, reverse=True, method=engine.method)
    np.testing.assert_array_equal(np.isnan(reference.widen(y)), [1, 1, 1, 0, 0, 0, 0])


def test_maximum_propagates_nan(engine):
    check_nan("cummax", "float32", engine)


@pytest.mark.sweep
@pytest.mark.parametrize("name", ["cummax", "cummin"])
@pytest.mark.parametrize("dtype", FLOATS)
def test_extremes_propagate_nan(name, dtype, engine):
    check_nan(name, dtype, engine)


def test_infinity_in_a_sum_does_not_become_nan(engine):
    x = np.array([1, 2, np.inf, 4, 5, 6], "float32")
    y = jscan.cumsum(x, method=engine.method)
    np.testing.assert_array_equal(y, [1, 3, np.inf, np.inf, np.inf, np.inf])
    y = jscan.cumsum(x, exclusive=True, method=engine.method)
    np.testing.assert_array_equal(y, [0, 1, 3, np.inf, np.inf, np.inf])
    y = jscan.cumsum(x, reverse=True, exclusive=True, method=engine.method)
    np.testing.assert_array_equal(y, [np.inf, np.inf, 15, 11, 6, 0])


def test_opposite_infinities_are_nan_from_where_they_meet(engine):
    x = np.array([1, np.inf, 2, -np.inf, 3], "float32")
    y = jscan.cumsum(x, method=engine.method)
    np.testing.assert_array_equal(y, [1, np.inf, np.inf, np.nan, np.nan])


@pytest.mark.parametrize("bad", [np.nan, np.inf])
def test_what_is_bad_stays_in_its_segment_and_its_row(bad, engine):
    x = np.ones((2, 40), "float32")
    x[0, 15] = bad
    flags = np.isin(np.arange(40), [10, 20])
    for reverse in (False, True):
        y = np.asarray(
            jscan.cumsum(x, 1, reverse, exclusive=reverse, segments=flags, method=engine.method)
        )
        assert np.isfinite(y[1]).all()
        assert np.isfinite(y[0, :10]).all()
        assert np.isfinite(y[0, 20:]).all()
        assert not np.isfinite(y[0, 10:20]).all()


@pytest.mark.sweep
def test_nan_and_negative_zero_pass_through_a_scan_of_one(engine):
    x = np.array([np.nan, -0.0, -np.inf], "float32")[:, None]
    for name in ("cumsum", "cumprod", "cummax", "cummin"):
        y = getattr(jscan, name)(x, 1, method=engine.method)
        np.testing.assert_array_equal(y, x)
        np.testing.assert_array_equal(np.signbit(y), np.signbit(x))


# products


@pytest.mark.sweep
@pytest.mark.parametrize("zeros", [[3], [2, 5], [0], [7], [0, 7], list(range(8))])
def test_product_with_zeros(zeros, engine):
    x = np.arange(1.0, 9.0, dtype="float32")
    x[zeros] = 0
    y = jscan.cumprod(x, method=engine.method)
    np.testing.assert_array_equal(y, np.multiply.accumulate(x))


def test_product_with_aligned_zeros(engine):
    x = np.arange(1.0, 13.0, dtype="float32").reshape(3, 4)
    x[1] = 0
    x[:, 2] = 0
    for axis in (0, 1):
        y = jscan.cumprod(x, axis, method=engine.method)
        np.testing.assert_array_equal(y, np.multiply.accumulate(x, axis))


# logarithms of sums


@pytest.mark.sweep
@pytest.mark.parametrize("dtype", FLOATS)
def test_logsumexp_of_ten_thousands(dtype, engine):
    x = np.full(10, 10_000, jnp.dtype(dtype))
    y = reference.widen(jscan.cumlogsumexp(x, method=engine.method))
    expected = float(x[0]) + np.log(np.arange(1, 11))
    # Every step rounds numbers near 10 000 in the accumulation type; the result is rounded once.
    error = reference.bound(10_010, expected, jnp.dtype(dtype), n=10, steps=2)
    reference.assert_within(y, expected, error)


def test_logsumexp_of_infinities(engine):
    inf, nan = np.inf, np.nan
    x = np.array([-inf, -inf, 0, -inf, inf, 1, nan, 1], "float32")
    y = jscan.cumlogsumexp(x, method=engine.method)
    np.testing.assert_array_equal(y, [-inf, -inf, 0, 0, inf, inf, nan, nan])


def test_logsumexp_of_extremes_neither_overflows_nor_vanishes(engine):
    x = np.array([-1000, 1000, -1000, 1000], "float32")
    y = jscan.cumlogsumexp(x, method=engine.method)
    expected = np.array([-1000, 1000, 1000, 1000 + np.log(2)])
    reference.assert_within(y, expected, 4 * 2 * np.finfo("float32").eps * 1001)


@pytest.mark.sweep
@pytest.mark.parametrize("dtype", COMPLEX)
def test_logsumexp_of_complex_numbers(dtype, engine):
    x = values("cumlogsumexp", (30,), dtype)
    y = jscan.cumlogsumexp(x, method=engine.method)
    assert y.dtype == jnp.dtype(dtype)
    sums = np.cumsum(np.exp(reference.widen(x)))
    # The branch of the logarithm is free, so exponentials are compared; each is wrong by the
    # logarithm's error, at most 8 roundings a step of numbers below 10.
    sizes = np.cumsum(np.abs(np.exp(reference.widen(x))))
    error = 30 * 8 * 10 * float(np.finfo(dtype).eps) * sizes
    reference.assert_within(np.exp(reference.widen(y)), sums, error)


# integers


@pytest.mark.sweep
@pytest.mark.parametrize("dtype", INTEGERS)
def test_integers_wrap(dtype, engine):
    top = np.iinfo(dtype).max
    x = np.full(5, top, dtype)
    wide = [k * int(top) % 2 ** (8 * x.itemsize) for k in range(1, 6)]
    expected = np.array(wide, "uint64").astype(dtype)
    np.testing.assert_array_equal(jscan.cumsum(x, method=engine.method), expected)


@pytest.mark.sweep
@pytest.mark.parametrize("dtype", ["int8", "uint8", "int16"])
@pytest.mark.parametrize("name", ["cumsum", "cumprod"])
def test_small_integers_over_long_rows(dtype, name, engine):
    x = values(name, (min(engine.longest, 3000),), dtype) | np.array(1, dtype)
    y = getattr(jscan, name)(x, method=engine.method)
    BY_NAME[name].check(y, x)


@pytest.mark.parametrize("dtype", ["int64", "uint64"])
def test_extremes_of_64_bit_integers_keep_every_bit(dtype, engine):
    info = np.iinfo(dtype)
    x = np.array([info.max - 1, info.max, info.min, info.min + 1, 2**62 + 1], dtype)
    np.testing.assert_array_equal(jscan.cummax(x, method=engine.method), np.maximum.accumulate(x))
    np.testing.assert_array_equal(jscan.cummin(x, method=engine.method), np.minimum.accumulate(x))


# accumulation


@pytest.mark.sweep
@pytest.mark.parametrize("dtype", HALVES)
@pytest.mark.parametrize("reverse", [False, True])
def test_halves_accumulate_in_float32_and_round_once(dtype, reverse, engine):
    # Adding ones to the first integer whose successor is missing would never leave it.
    stuck = {"float16": 2048, "bfloat16": 256}[dtype]
    n = min(engine.longest, 3000)
    x = np.ones(n, jnp.dtype(dtype))
    x[-1 if reverse else 0] = stuck
    y = jscan.cumsum(x, reverse=reverse, method=engine.method)
    expected = np.arange(stuck, stuck + n, dtype="float32")
    expected = expected[::-1] if reverse else expected
    np.testing.assert_array_equal(y, expected.astype(jnp.dtype(dtype)))


@pytest.mark.product
@pytest.mark.parametrize("dtype", HALVES)
def test_halves_round_once_for_any_values(dtype, engine):
    # Multiples of 1/8 below 16: every partial sum is exact in float32, so one rounding is all.
    n = min(engine.longest, 2000)
    x = (np.random.default_rng(0).integers(-127, 128, n) / 8).astype(jnp.dtype(dtype))
    y = jscan.cumsum(x, exclusive=True, method=engine.method)
    sums = np.cumsum(reference.widen(x))
    expected = np.concatenate([[0.0], sums[:-1]])[:n].astype("float32").astype(jnp.dtype(dtype))
    np.testing.assert_array_equal(y, expected)


@pytest.mark.parametrize("dtype", HALVES)
def test_halves_overflow_only_when_they_are_stored(dtype, engine):
    top = float(jnp.finfo(jnp.dtype(dtype)).max)
    x = np.array([top, top, -top, -top], jnp.dtype(dtype))
    y = reference.widen(jscan.cumsum(x, method=engine.method))
    # The running sum 2·max is infinite in float16's output, and comes back when it shrinks.
    # bfloat16 has float32's range, so there the accumulator itself overflows.
    back = 0.0 if dtype == "float16" else np.nan
    np.testing.assert_array_equal(y[:2], [top, np.inf])
    if dtype == "float16":
        np.testing.assert_array_equal(y[2:], [top, back])
    else:  # (max + max) - max or max + (max - max): the order of combination decides
        assert y[2] == top or not np.isfinite(y[2])


@pytest.mark.product
@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("scale", [1.0, 1e8])
def test_sums_of_mixed_magnitudes(dtype, scale, engine):
    rng = np.random.default_rng(1)
    n = min(engine.longest, 5000)
    x = (rng.normal(size=n) * rng.choice([1, scale], n)).astype(dtype)
    y = jscan.cumsum(x, method=engine.method)
    expected = exact_sums(x)
    error = reference.bound(
        np.cumsum(np.abs(x.astype(float))), expected, np.dtype(dtype), n=n, steps=1
    )
    reference.assert_within(y, expected, error)


def test_outputs_keep_the_dtype_without_64_bit_types():
    with jax.enable_x64(False):
        assert jscan.cumsum(np.arange(4)).dtype == np.int32
        assert jscan.cumsum(np.arange(4.0)).dtype == np.float32


# closed forms at sizes where a loop would take long


def test_large_sum_of_ones(engine, large_size):
    y = jscan.cumsum(jnp.ones(large_size, "int32"), method=engine.method)
    assert bool(jnp.all(y == jnp.arange(1, large_size + 1, dtype="int32")))


@pytest.mark.product
@pytest.mark.parametrize("reverse", [False, True])
def test_large_intervals_join_in_order(engine, large_size, reverse):
    start = jnp.arange(large_size, dtype="int32")

    def join(a, b):
        step = -1 if reverse else 1
        return a[0], b[1], a[2] & b[2] & (a[1] + step == b[0])

    first, last, adjacent = jscan.associative_scan(
        join, (start, start, jnp.ones(large_size, bool)), reverse, method=engine.method
    )
    assert bool(jnp.all(first == (large_size - 1 if reverse else 0)))
    assert bool(jnp.all(last == start))
    assert bool(jnp.all(adjacent))


def test_large_segments_of_varied_length(engine, large_size):
    position = jnp.arange(large_size, dtype="int32")
    flags = position % 977 == 0
    y = jscan.cumsum(jnp.ones_like(position), segments=flags, method=engine.method)
    assert bool(jnp.all(y == position % 977 + 1))
