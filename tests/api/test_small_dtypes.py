"""Types of few bits, of which some have no infinity, no zero or no sign, in every function."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import ml_dtypes
import numpy as np
import pytest

import jscan
from jscan import Segments, operators

WITH_INFINITY = ("float8_e3m4", "float8_e4m3", "float8_e5m2")
ENDING_IN_A_NUMBER = (
    *("float4_e2m1fn", "float8_e4m3b11fnuz", "float8_e4m3fn", "float8_e4m3fnuz"),
    "float8_e5m2fnuz",
)
INTEGERS = ("int2", "uint2", "int4", "uint4")
WITHOUT_ZERO = "float8_e8m0fnu"
FLOATS = (*WITH_INFINITY, *ENDING_IN_A_NUMBER)

every_dtype = pytest.mark.parametrize("dtype", [*FLOATS, *INTEGERS])
every_float = pytest.mark.parametrize("dtype", FLOATS)

X = [1, 0, 1, 1, 0]
IDS = np.array([0, 0, 2, 2, 4], np.int32)


def elements(dtype):
    """Zeros and ones, which all of these types have."""
    return np.array(X, getattr(ml_dtypes, dtype))


def ends(dtype):
    """The least and the greatest number of a type."""
    if dtype in WITH_INFINITY:
        return -np.inf, np.inf
    info = (ml_dtypes.iinfo if dtype in INTEGERS else ml_dtypes.finfo)(dtype)
    return float(info.min), float(info.max)


def numbers(result, dtype):
    """A result as float64, after a look at its dtype."""
    assert result.dtype == dtype
    return np.asarray(result).astype(np.float64).tolist()


def test_all_types_of_few_bits_are_tested_here():
    known = {
        name
        for name in dir(jnp)
        if name.startswith(("float4", "float8", "int2", "int4", "uint2", "uint4"))
    }
    assert known == {*FLOATS, *INTEGERS, WITHOUT_ZERO}


@pytest.mark.sweep
@every_dtype
@pytest.mark.parametrize("is_sorted", [True, False])
def test_reductions_by_segments(dtype, is_sorted):
    x, (least, greatest) = elements(dtype), ends(dtype)
    arguments = x, IDS, 5, is_sorted
    assert numbers(jscan.segment_max(*arguments), dtype) == [1, least, 1, least, 0]
    assert numbers(jscan.segment_min(*arguments), dtype) == [0, greatest, 1, greatest, 0]
    total = -2 if dtype == "int2" else 2  # where integers wrap
    assert numbers(jscan.segment_sum(*arguments), dtype) == [1, 0, total, 0, 0]
    assert numbers(jscan.segment_prod(*arguments), dtype) == [0, 1, 1, 1, 0]
    buckets = jscan.segment_max(x, IDS, 5, is_sorted, bucket_size=3)
    assert numbers(buckets, dtype) == [1, least, 1, least, 0]


@every_dtype
def test_reductions(dtype):
    x, (least, greatest) = elements(dtype), ends(dtype)
    assert numbers(jscan.reduce(jnp.maximum, x), dtype) == 1
    assert numbers(jscan.reduce(operators.max, x[:0]), dtype) == least
    by_segments = jscan.reduce(operators.min, x, segments=Segments.from_lengths([2, 0, 3]))
    assert numbers(by_segments, dtype) == [0, greatest, 0]


@every_dtype
def test_scans(dtype):
    x, (least, greatest) = elements(dtype), ends(dtype)
    assert numbers(jscan.cummax(x, exclusive=True), dtype) == [least, 1, 1, 1, 1]
    assert numbers(jscan.cummin(x, exclusive=True), dtype) == [greatest, 1, 0, 0, 0]
    assert numbers(jscan.cumsum(x[:3], exclusive=True), dtype) == [0, 1, 1]
    assert numbers(jscan.cumprod(x), dtype) == [1, 0, 0, 0, 0]


@every_float
def test_logarithms_of_sums_need_infinity(dtype):
    x = elements(dtype)
    if dtype in WITH_INFINITY:
        assert numbers(jscan.cumlogsumexp(x, exclusive=True), dtype)[:2] == [-np.inf, 1]
        return
    with pytest.raises(TypeError, match=rf"jscan\.cumlogsumexp: x has dtype {dtype}"):
        jscan.cumlogsumexp(x)
    with pytest.raises(TypeError, match=rf"logaddexp does not take .* {dtype}"):
        operators.logaddexp.identity(dtype)


@pytest.mark.parametrize(
    "name",
    [
        *("segment_sum", "segment_prod", "segment_max", "segment_min"),
        *("cumsum", "cumprod", "cummax", "cummin", "cumlogsumexp"),
    ],
)
def test_a_type_without_zero_is_named(name):
    x = np.ones(5, getattr(ml_dtypes, WITHOUT_ZERO))
    ids = (IDS, 5) if name.startswith("segment") else ()
    with pytest.raises(TypeError, match=rf"jscan\.{name}: .*{WITHOUT_ZERO}"):
        getattr(jscan, name)(x, *ids)


@pytest.mark.parametrize("dtype", INTEGERS)
def test_identities_of_bits(dtype):
    ones = operators.bitwise_and.identity(dtype)
    x = np.array([0, 1], dtype)
    np.testing.assert_array_equal(operators.bitwise_and(jnp.asarray(ones), jnp.asarray(x)), x)
    assert operators.bitwise_or.identity(dtype) == 0


@pytest.mark.product
@pytest.mark.parametrize("dtype", INTEGERS)
@pytest.mark.parametrize("make", [np.asarray, jnp.asarray], ids=["NumPy", "JAX"])
def test_segments_described_by_few_bits(dtype, make):
    ones = make(np.array([1, 1, 1], dtype))
    heads = make(np.array([1, 0, 1], dtype))
    assert Segments.from_lengths(ones) == Segments.from_flags(ones)
    assert Segments.from_flags(heads) == Segments.from_lengths([2, 1])
    assert Segments.from_ids(heads) == Segments.from_lengths([1, 1, 1])
    assert Segments.from_offsets(make(np.array([0, 1, 1], dtype))) == Segments.from_lengths([1, 0])
    np.testing.assert_array_equal(jax.jit(lambda f: Segments.from_ids(f).ids)(heads), [0, 1, 2])
    np.testing.assert_array_equal(jscan.segment_sum(np.arange(3), heads), [1, 2])
    np.testing.assert_array_equal(jscan.segment_sum(np.arange(3), heads, 9)[:3], [1, 2, 0])
