"""What only a GPU shows: many tiles in flight, and the same answer every time."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import jscan
from jscan.arguments.choices import METHODS
from tests.functions import last_write, multiply_matrices

pytestmark = pytest.mark.gpu

SIZES = [2**20, 2**22 + 1, 3_000_017]


def small_matrices(n):
    """2x2 integer matrices modulo 2^32, as four leaves."""
    rng = np.random.default_rng(n)
    return tuple(rng.integers(0, 2**32, n, dtype=np.uint32) for _ in range(4))


def in_sequence(fn, leaves, heads, reverse):
    """A loop over elements, in plain integers."""
    n = len(leaves[0])
    out = [np.empty_like(x) for x in leaves]
    columns = [x.tolist() for x in leaves]
    total = None
    for i in range(n - 1, -1, -1) if reverse else range(n):
        x = tuple(c[i] for c in columns)
        restart = heads is not None and (i + 1 < n and heads[i + 1] if reverse else heads[i])
        fresh = total is None or restart
        total = x if fresh else tuple(v & 0xFFFFFFFF for v in fn(total, x))
        for o, v in zip(out, total, strict=True):
            o[i] = v
    return out


@pytest.mark.parametrize("reverse", [False, True])
@pytest.mark.parametrize("density", [None, 1e-5, 1e-3])
@pytest.mark.parametrize("size", SIZES)
def test_matrices_over_many_tiles(size, density, reverse):
    leaves = small_matrices(size)
    heads = None
    if density is not None:
        heads = np.random.default_rng(1).random(size) < density
    found = jscan.associative_scan(
        multiply_matrices, leaves, reverse=reverse, segments=heads, method="lookback"
    )
    for got, want in zip(
        found, in_sequence(multiply_matrices, leaves, heads, reverse), strict=True
    ):
        np.testing.assert_array_equal(got, want)


@pytest.mark.parametrize("reverse", [False, True])
@pytest.mark.parametrize("exclusive", [False, True])
@pytest.mark.parametrize("shape", [(2**22 + 1,), (3, 700_001), (5, 3, 100_003)])
def test_last_write_over_many_tiles(shape, exclusive, reverse):
    rng = np.random.default_rng(0)
    # Writes are so rare that a search must pass many windows of tiles that hold none.
    x = (rng.integers(1, 2**31, shape) * (rng.random(shape) < 1e-5)).astype(np.int32)
    found = jscan.associative_scan(
        last_write,
        x,
        axis=-1,
        reverse=reverse,
        exclusive=exclusive,
        identity=np.int32(0),
        method="lookback",
    )
    y = np.flip(x, -1) if reverse else x
    place = np.maximum.accumulate(np.where(y != 0, np.arange(shape[-1]), 0), axis=-1)
    want = np.take_along_axis(y, place, -1)
    if exclusive:
        want = np.concatenate([np.zeros_like(want[..., :1]), want[..., :-1]], axis=-1)
    np.testing.assert_array_equal(found, np.flip(want, -1) if reverse else want)


@pytest.mark.parametrize("shape", [(200_003, 33), (2**20, 3), (4099, 2, 257), (70_000, 64)])
@pytest.mark.parametrize("reverse", [False, True])
@pytest.mark.parametrize("segmented", [False, True])
def test_the_first_axis_over_many_tiles(shape, reverse, segmented):
    rng = np.random.default_rng(2)
    x = rng.integers(-100, 100, shape).astype(np.int32)
    heads = rng.random(shape) < 1e-4 if segmented else None
    found = jscan.cumsum(x, reverse=reverse, segments=heads, method="lookback")
    want = np.empty_like(x)
    total = np.zeros(shape[1:], np.int32)
    n = shape[0]
    for i in range(n - 1, -1, -1) if reverse else range(n):
        if heads is not None and not (reverse and i + 1 == n):
            total = np.where(heads[i + 1 if reverse else i], 0, total)
        total = total + x[i]
        want[i] = total
    np.testing.assert_array_equal(found, want)


@pytest.mark.xdist_group("large")  # a gigabyte
def test_two_hundred_large_scans():
    n = 2**26
    x = jax.random.randint(jax.random.key(0), (n,), -1000, 1000, jnp.int32)
    want = jnp.asarray(np.cumsum(np.asarray(x), dtype=np.int32))
    scan = jax.jit(lambda x, want: jnp.sum(jscan.cumsum(x, method="lookback") != want))
    wrong = [scan(x, want) for _ in range(200)]
    assert [int(w) for w in wrong] == [0] * 200


def test_two_hundred_segmented_scans():
    n = 2**24 + 7
    x = jax.random.randint(jax.random.key(0), (n,), -1000, 1000, jnp.int32)
    heads = jax.random.uniform(jax.random.key(1), (n,), jnp.float32) < 1e-5
    sums = np.cumsum(np.asarray(x), dtype=np.int32)
    start = np.maximum.accumulate(np.where(np.asarray(heads), np.arange(n), 0))
    want = jnp.asarray(sums - np.where(start > 0, sums[np.maximum(start - 1, 0)], 0))
    scan = jax.jit(
        lambda x, f, want: jnp.sum(jscan.cumsum(x, segments=f, method="lookback") != want)
    )
    wrong = [scan(x, heads, want) for _ in range(200)]
    assert [int(w) for w in wrong] == [0] * 200


@pytest.mark.parametrize("method", [m for m in METHODS if m not in ("block", "xla")])
def test_sums_of_negative_zeros_keep_their_sign(method):
    """What fills a window before the last prefix must be -0.0 then."""
    x = jnp.full(2**20 + 1, -0.0, jnp.float32)
    assert np.signbit(jscan.cumsum(x, method=method)).all()
    assert np.signbit(jscan.cumsum(x.at[2**19].set(0.0), method=method)).sum() == 2**19
    if method != "auto":  # which leaves whole sums to XLA, and that begins with 0.0
        assert np.signbit(jscan.reduce(jnp.add, x, method=method))


@pytest.mark.parametrize("offset", [1, 2, 3])
def test_nothing_is_written_past_the_end(offset):
    """The result of an odd length lies between sentinels of the array that it is written into."""
    n = 100_000 + offset

    @jax.jit
    def scan(x):
        return jnp.pad(jscan.cumsum(x[offset:]), (offset, offset), constant_values=-7)

    y = np.asarray(scan(jnp.ones(n + offset, jnp.int32)))
    np.testing.assert_array_equal(y[offset:-offset], np.arange(1, n + 1))
    assert (y[:offset] == -7).all()
    assert (y[-offset:] == -7).all()


@pytest.mark.parametrize("builder", ["pallas", "jax-triton"])
@pytest.mark.parametrize("share", [0, 1e-4, 0.5, 1])
@pytest.mark.parametrize("shape", [(2**20,), (2**22 + 1,), (3_000_017,), (5, 700_001), (500, 5000)])
def test_elements_move_over_many_tiles(shape, share, builder):
    rng = np.random.default_rng(4)
    x, marks = rng.integers(0, 2**31, shape).astype(np.int32), rng.random(shape) < share
    narrow = x.astype(np.int8)
    with jscan.engine(builder):
        found = jscan.split((x, narrow), marks, -1)
        [places] = jscan.nonzero(marks.reshape(-1), size=x.size // 2)
        few, more = (
            jscan.pack((x, narrow), marks, size=size, fill_value=7)
            for size in (x.size // 3, x.size + 9)
        )
    order = np.argsort(marks, axis=-1, kind="stable")
    indices = np.concatenate([np.flatnonzero(marks), np.zeros(x.size, int)])
    np.testing.assert_array_equal(places, indices[: x.size // 2])
    for k, whole in enumerate((x, narrow)):
        np.testing.assert_array_equal(found[k], np.take_along_axis(whole, order, -1))
        want = np.concatenate([whole[marks], np.full(x.size + 9, 7, whole.dtype)])
        np.testing.assert_array_equal(few[k], want[: x.size // 3])
        np.testing.assert_array_equal(more[k], want[: x.size + 9])


@pytest.mark.parametrize("size", [2, 3, 4])
def test_blocks_and_vectors_over_many_tiles(size):
    """Products of matrices, and recurrences by them, modulo 2^32."""
    rng = np.random.default_rng(size)
    n = 300_001
    matrices = rng.integers(0, 2**32, (n, size, size), dtype=np.uint32)
    terms = rng.integers(0, 2**32, (n, size), dtype=np.uint32)
    products, states = np.empty_like(matrices), np.empty_like(terms)
    product, state = np.eye(size, dtype=np.uint32), np.zeros(size, np.uint32)
    for t in range(n):
        product, state = matrices[t] @ product, matrices[t] @ state + terms[t]
        products[t], states[t] = product, state
    found = jscan.associative_scan(lambda a, b: b @ a, matrices, method="lookback")
    np.testing.assert_array_equal(found, products)
    np.testing.assert_array_equal(
        jscan.matrix_recurrence(matrices, terms, method="lookback"), states
    )


@pytest.mark.parametrize("size", SIZES)
@pytest.mark.parametrize("method", ["lookback", "repeatable"])
def test_sums_in_pairs_over_many_tiles(method, size):
    """What is lost of elements is one zero in memory, and not what lies behind it."""
    x = np.random.default_rng(0).integers(-3, 4, size).astype(np.float32)
    ids = np.sort(np.random.default_rng(1).integers(0, 99, size))
    found = jscan.cumsum(x, method=method, precise=True)
    np.testing.assert_array_equal(found, np.cumsum(x.astype(np.int64)))
    totals = jscan.segment_sum(x, ids, 99, True, method=method, precise=True)
    np.testing.assert_array_equal(totals, np.bincount(ids, x, 99))
