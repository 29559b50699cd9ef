"""Compaction against NumPy, on every engine."""

from __future__ import annotations

from functools import partial

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import jscan
from jscan.plain.counts import histogram_on_gpu
from tests import reference
from tests.cases import FLAG_DTYPES, INTEGERS, NUMBERS
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


@pytest.mark.product
@on_engines
@pytest.mark.parametrize("shape", SHAPES, ids=str)
@pytest.mark.parametrize("asked", [0, 5, 200])
def test_nonzero_of_any_rank(shape, asked):
    mask = np.random.default_rng(1).random(shape) < 0.4
    fills = tuple(range(-1, len(shape) - 1))
    assert_same(jscan.nonzero(mask, size=asked, fill_value=fills), found(mask, asked, fills))
    same = [7] * len(shape)
    assert_same(jscan.nonzero(mask, size=asked, fill_value=7), found(mask, asked, same))


@pytest.mark.product
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


# histogram


def counted(keys, length):
    """`np.bincount` of the keys in range."""
    keys = keys.astype(np.int64).ravel()
    inside = keys[(keys >= 0) & (keys < length)]
    return np.bincount(inside, minlength=length).astype(np.int32)


@pytest.mark.product
@pytest.mark.parametrize("dtype", INTEGERS)
@pytest.mark.parametrize("shape", SHAPES, ids=str)
def test_histogram_of_every_dtype_and_rank(dtype, shape):
    low = 0 if dtype.startswith("u") else -5
    keys = np.random.default_rng(4).integers(low, 30, shape).astype(dtype)
    for length in (0, 1, 17, 300):
        assert_same([jscan.histogram(keys, length)], [counted(keys, length)])


@pytest.mark.parametrize("x64", [False, True], ids=["32 bits", "64 bits"])
def test_keys_wider_than_32_bits_are_out_of_range(x64):
    keys = [2**32, 1, -(2**32) + 1, 2**40, 1]
    with jax.enable_x64(x64):
        for given in (keys, np.array(keys)):
            counts = partial(jscan.histogram, given, 3)
            for run in (counts, jax.jit(counts)):
                np.testing.assert_array_equal(run(), [0, 2, 0])


def test_many_keys_of_few_numbers():
    keys = np.random.default_rng(5).integers(0, 256, 100_003).astype(np.uint8)
    assert_same([jscan.histogram(keys, 256)], [np.bincount(keys, minlength=256).astype(np.int32)])


@pytest.mark.product
@pytest.mark.parametrize("length", [0, 1, 3, 256, 70_000])
@pytest.mark.parametrize("n", [0, 1, 1000, 100_003])
def test_histogram_with_many_places_for_each_number(n, length):
    """The form of GPUs is right on any platform."""
    keys = np.random.default_rng(6).integers(-2, length + 2, n).astype(np.int32)
    given = np.stack([keys, keys[::-1], np.zeros_like(keys)], 1)
    counts = jax.jit(partial(histogram_on_gpu, axis=0, num_keys=length))
    [found] = counts(given)
    assert_same([found[:, 0]], [counted(keys, length)])
    assert_same([found[:, 1]], [counted(keys, length)])
    assert_same([found[:, 2]], [counted(np.zeros_like(keys), length)])
    [alone] = counts(given[:, 0])
    assert_same([alone], [counted(keys, length)])


# partition


def parted(x, signs, axis):
    """A stable sort by sign, and how many elements have each."""
    one = signs.ndim == 1
    sign = np.sign(signs.astype(np.int64))
    along = 0 if one else axis
    lengths = np.stack([(sign == wanted).sum(along) for wanted in (-1, 0, 1)], along)
    order = np.argsort(sign, axis=along, kind="stable")
    y = np.take(x, order, axis) if one else np.take_along_axis(x, order, axis)
    return y, lengths.astype(np.int32)


@pytest.mark.product
@on_engines
@pytest.mark.parametrize("dtype", ["bool", *INTEGERS, "int4"])
@pytest.mark.parametrize("n", [33, 4097])
def test_partition_by_signs_of_every_dtype(dtype, n):
    rng = np.random.default_rng(n)
    signs = rng.integers(-2 if dtype.startswith("i") else 0, 3, n).astype(jnp.dtype(dtype))
    x = rng.permutation(n).astype(np.int32)
    assert_same(jscan.partition(x, signs), parted(x, signs, 0))


@pytest.mark.product
@on_engines
@pytest.mark.parametrize("shape", [(5, 6), (0, 4), (4, 0), (3, 40, 2)], ids=str)
@pytest.mark.parametrize("axis", [0, 1, -1])
def test_partition_along_every_axis(shape, axis):
    rng = np.random.default_rng(6)
    x = rng.normal(size=shape)
    for of in (shape, shape[axis]):
        signs = rng.integers(-1, 2, of, np.int32)
        assert_same(jscan.partition(x, signs, axis), parted(x, signs, axis % len(shape)))


@on_engines
@pytest.mark.parametrize("only", [[-1], [0], [1], [-1, 1]], ids=str)
def test_partition_where_parts_are_empty(only):
    signs = np.random.default_rng(7).choice(only, 100).astype(np.int32)
    x = np.arange(100)
    assert_same(jscan.partition(x, signs), parted(x, signs, 0))


@pytest.mark.parametrize("dtype", ["bool", *NUMBERS])
def test_partition_moves_every_dtype(dtype):
    rng = np.random.default_rng(8)
    x = {"row": rng.integers(0, 2, 30).astype(dtype), "rows": np.ones((30, 2), dtype)}
    signs = rng.integers(-1, 2, 30, np.int32)
    y, _ = jscan.partition(x, signs)
    for name, leaf in x.items():
        assert_same([y[name]], parted(leaf, signs, 0)[:1])


def test_partition_by_a_mask_is_split():
    x, mask = np.arange(50), np.random.default_rng(9).random(50) < 0.3
    y, lengths = jscan.partition(x, mask)
    np.testing.assert_array_equal(y, jscan.split(x, mask))
    np.testing.assert_array_equal(lengths, [0, (~mask).sum(), mask.sum()])


@pytest.mark.parametrize("x64", [False, True], ids=["32 bits", "64 bits"])
def test_signs_wider_than_32_bits_keep_their_sign(x64):
    x, signs = np.arange(5), [2**32, -(2**32), 0, 2**63, -(2**70)]
    with jax.enable_x64(x64):
        parts = partial(jscan.partition, x, signs)
        for run in (parts, jax.jit(parts)):
            y, lengths = run()
            np.testing.assert_array_equal(y, [1, 4, 2, 0, 3])
            np.testing.assert_array_equal(lengths, [2, 1, 2])
