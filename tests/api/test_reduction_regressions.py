"""Mistakes that were made once: blocks of rows, shared operands, promises that are not kept."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import jscan
from jscan import Segments, operators, primitives
from jscan.kernels import tuning
from tests.kernels.test_lowering import TRITON, cuda_program


def test_offsets_per_row_of_short_rows():
    """A block of rows once read the offsets of its first row only."""
    x = np.ones((4, 16), np.int32)
    offsets = np.stack([[0, i + 1, 16] for i in range(4)])

    def of_row(x, offsets):
        segments = Segments.from_offsets(offsets, total=16)
        return jscan.reduce(operators.add, x, segments=segments)

    expected = [[i + 1, 15 - i] for i in range(4)]
    np.testing.assert_array_equal(jax.jit(jax.vmap(of_row))(x, offsets), expected)
    with primitives.interpreted():
        np.testing.assert_array_equal(jax.jit(jax.vmap(of_row))(x, offsets), expected)


@pytest.mark.parametrize("kind", ["flags", "ids", "lengths"])
def test_blocks_of_rows_and_lanes(kind):
    """A column that lanes share once had no place for rows."""
    x = np.arange(4 * 9 * 2).reshape(4, 9, 2)
    given = {"flags": [1, 0, 0, 1, 0, 1, 0, 0, 0], "ids": [5] * 3 + [1] * 2 + [5] * 4}
    segments = getattr(Segments, f"from_{kind}")(np.array(given.get(kind, [3, 2, 4])))
    with primitives.interpreted():
        sums = jscan.reduce(operators.add, x, axis=1, segments=segments)
    np.testing.assert_array_equal(sums, np.add.reduceat(x, [0, 3, 5], axis=1))


def test_offsets_of_rows_of_lanes_that_no_kernel_takes():
    """Plain JAX once read the offsets as ids, which the kernel would have been given instead."""
    x = np.array([[0, 3], [2, 1], [1, 1], [4, 0], [3, 2], [0, 2]]).astype(jnp.float8_e5m2)
    segments = Segments.from_lengths(np.array([2, 0, 4]))
    with primitives.interpreted():
        largest = jscan.reduce(operators.max, x, segments=segments)
    expected = [[2, 3], [-np.inf, -np.inf], [4, 2]]
    np.testing.assert_array_equal(np.asarray(largest).astype(np.float32), expected)


def add_pairs(a, b):
    return a[0] + b[0], a[1] + b[1]


def test_gradient_of_a_leaf_that_a_batch_shares():
    """The batch's size is that of an integer leaf, which has no tangent."""
    counts, shared = np.arange(12).reshape(3, 4), np.arange(1.0, 5.0)

    def total(x):
        def of_row(counts):
            segments = Segments.from_lengths([2, 2])
            return jscan.reduce(add_pairs, (counts, x), identity=(0, 0.0), segments=segments)[1]

        return jnp.sum(jax.vmap(of_row)(counts))

    np.testing.assert_array_equal(jax.jit(jax.grad(total))(shared), np.full(4, 3.0))
    value, slope = jax.jvp(total, (shared,), (np.ones(4),))
    assert (value, slope) == (3 * shared.sum(), 12)


@pytest.mark.parametrize("planned", [False, True])
@pytest.mark.parametrize("dtype", [jnp.float16, jnp.bfloat16])
def test_the_gradient_of_a_narrow_extremum_is_as_narrow(dtype, planned):
    """Its sums are exact, and were handed on as wide as they are made."""

    def largest(x):
        ids = jnp.array([0, 0, 0, 1])
        if planned:
            return jscan.segment_max(x, jscan.SegmentPlan(ids, 2))
        return jscan.segment_max(x, ids, 2, indices_are_sorted=True)

    result, back = jax.vjp(largest, jnp.array([3, 1, 3, 2], dtype))
    (slopes,) = back(jnp.full_like(result, 3))
    assert slopes.dtype == dtype
    np.testing.assert_array_equal(slopes.astype(jnp.float32), [1.5, 0, 1.5, 3])


@pytest.mark.parametrize("value", [0.3, 1e-3])
def test_ids_that_are_not_sorted_as_promised_give_totals_of_some_elements(value):
    """The bits of two totals were once added."""
    ids = np.zeros(128, np.int32)
    ids[66] = ids[68] = 1
    ids[70:] = 2
    x = np.full(128, value, np.float32)
    tile = tuning.Tuning(length=64, lanes=1, warps=1, window=4, strip=16)
    with primitives.interpreted(), primitives.tiled(tile):
        sums = np.asarray(jscan.segment_sum(x, ids, 3, True, method="lookback"))
    assert (sums > 0).all()
    assert (sums <= 1.001 * 128 * value).all()


def test_packed_ids_are_unpacked_before_a_kernel_reads_them():
    def run(x, ids):
        return jscan.segment_sum(x, ids, 5, True)

    x = jax.ShapeDtypeStruct((5000,), jnp.float32)
    program = cuda_program(run, x, jax.ShapeDtypeStruct((5000,), jnp.int4))
    [call] = [line for line in program.splitlines() if TRITON in line and "jscan_reduce" in line]
    assert "xi4>" not in call


def test_negative_ids_of_four_bits_are_dropped():
    """Kernels once took -1 for 255, which is an id where there are as many segments."""
    ids = np.repeat([-3, -1, 0, 5, 7], 40)
    with primitives.interpreted():
        sums = jscan.segment_sum(jnp.ones(200), jnp.asarray(ids).astype(jnp.int4), 300, True)
    np.testing.assert_array_equal(sums, 40 * np.isin(np.arange(300), ids))


def test_rows_of_lengths_outside_vmap():
    """A mapped constructor leaves offsets with rows behind."""
    lengths, x = np.array([[2, 3], [4, 1], [0, 5]]), np.arange(15).reshape(3, 5)
    rows = jax.jit(jax.vmap(lambda row: Segments.from_lengths(row, total=5)))(lengths)
    assert rows.num_segments == 2
    np.testing.assert_array_equal(rows.lengths(2), lengths)
    expected = [[row[:k].sum(), row[k:].sum()] for row, (k, _) in zip(x, lengths, strict=True)]
    np.testing.assert_array_equal(jscan.reduce(operators.add, x, axis=1, segments=rows), expected)


@pytest.mark.parametrize("count", [-1, 1.5, "two"])
@pytest.mark.parametrize("kind", ["flags", "lengths"])
@pytest.mark.parametrize("form", ["lengths", "offsets"])
def test_bad_numbers_of_segments_are_named(form, kind, count):
    segments = getattr(Segments, f"from_{kind}")(np.array([1, 0, 2]))
    with pytest.raises((TypeError, ValueError), match=rf"jscan\.Segments\.{form}: num_segments"):
        getattr(segments, form)(count)


@pytest.mark.parametrize("method", ["block", "lookback"])
def test_a_batch_that_only_the_descriptor_has(method):
    """Leaves that all rows share once lost their rows on the way to a kernel."""
    x, ids = np.arange(20), np.stack([np.arange(20) // k for k in (3, 7, 20)])

    def run(ids):
        segments = Segments.from_ids(ids)
        return jscan.reduce(operators.add, x, segments=segments, num_segments=7, method=method)

    with primitives.interpreted():
        sums = jax.jit(jax.vmap(run))(ids)
    expected = [np.bincount(row, weights=x, minlength=7) for row in ids]
    np.testing.assert_array_equal(sums, expected)
