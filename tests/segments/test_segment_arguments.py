"""The arguments of jax.ops, in segment_sum and its like: their places and their meanings."""

from __future__ import annotations

import inspect
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax.lax import GatherScatterMode

import jscan
from tests import reference
from tests.cases import sorted_or_not
from tests.segments.test_segment_reductions import REDUCTIONS, SUM, every_reduction, exact

UNSORTED = np.array([2, -1, 0, 0, 3, 9, 2, 4, 0, -7, 4], np.int32)
CLIPPED = np.clip(UNSORTED, 0, 4)
NUM_SEGMENTS = 5

every_mode = pytest.mark.parametrize("mode", ["fill", "drop", "clip", "promise_in_bounds", None])
every_dtype = pytest.mark.parametrize("dtype", ["int8", "uint16", "float32", "bfloat16"])


def ids_for(is_sorted):
    """Ids of which some are out of range at both ends."""
    return np.sort(UNSORTED) if is_sorted else UNSORTED


@every_reduction
def test_positions_are_those_of_jax(reduction):
    ours, theirs = (
        list(inspect.signature(f).parameters.values())[:7]
        for f in (reduction.function, reduction.model)
    )
    assert [(p.name, p.default) for p in ours] == [(p.name, p.default) for p in theirs]
    x, ids = exact(reduction, (3,), "float32"), np.array([2, 0, 1])
    arguments: tuple[Any, ...] = 3, False, True, 2, "clip"
    np.testing.assert_array_equal(
        reduction.function(x, ids, *arguments), reduction.model(x, ids, *arguments)
    )


@pytest.mark.product
@every_reduction
@sorted_or_not
@every_mode
def test_modes_mean_what_they_mean_in_jax(reduction, indices_are_sorted, mode):
    x, ids = exact(reduction, (11, 2), "float32"), ids_for(indices_are_sorted)
    kept = np.clip(ids, 0, NUM_SEGMENTS - 1) if mode == "clip" else ids
    expected = reduction.expected(x, kept, NUM_SEGMENTS)
    for each in (mode, None if mode is None else GatherScatterMode.from_any(mode)):
        y = reduction.function(x, ids, NUM_SEGMENTS, indices_are_sorted, mode=each)
        reference.assert_equal(y, expected)
    if mode != "promise_in_bounds":  # which jax.ops does not keep
        np.testing.assert_array_equal(
            reduction.function(x, ids, NUM_SEGMENTS, indices_are_sorted, mode=mode),
            reduction.model(x, ids, NUM_SEGMENTS, mode=mode),
        )


@pytest.mark.sweep
@sorted_or_not
@pytest.mark.parametrize("dtype", ["int8", "uint8", "uint32", "int64"])
@pytest.mark.parametrize("num_segments", [0, 1, 3, 300])
def test_clipped_ids_of_any_dtype(indices_are_sorted, dtype, num_segments):
    info = np.iinfo(dtype)
    ids = np.array(sorted({info.min, 0, 1, 2, 100, min(info.max, 2**33)}), dtype)
    x = np.arange(1.0, 1 + len(ids))
    clipped = np.clip(ids.astype(object), 0, max(num_segments - 1, 0)).astype(int)
    expected = np.bincount(clipped, x, num_segments)[:num_segments]
    for x64 in (True, False):
        with jax.enable_x64(x64):
            y = jscan.segment_sum(x, ids, num_segments, indices_are_sorted, mode="clip")
        np.testing.assert_array_equal(y, expected)


@pytest.mark.sweep
@every_reduction
@sorted_or_not
@every_dtype
@pytest.mark.parametrize("bucket_size", [1, 3, 11, 50])
def test_buckets(reduction, indices_are_sorted, dtype, bucket_size):
    x, ids = exact(reduction, (11, 2), dtype), ids_for(indices_are_sorted)
    reduction.check(x, ids, NUM_SEGMENTS, indices_are_sorted, bucket_size=bucket_size)
    total = jax.jit(lambda x: reduction.function(x, CLIPPED, 5, bucket_size=bucket_size))(x)
    np.testing.assert_array_equal(total, reduction.model(x, CLIPPED, 5, bucket_size=bucket_size))


@every_reduction
def test_buckets_of_nothing(reduction):
    for n, num_segments in ((0, 3), (3, 0), (0, 0)):
        reduction.check(np.ones((n, 2)), np.zeros(n, int), num_segments, bucket_size=2)


def test_buckets_round_less():
    x = np.array([2**24, *[0] * 7, *[1] * 8], np.float32)  # of which no 1 is added by itself
    assert jscan.segment_sum(x, np.zeros(16, int), 1, bucket_size=8) == 2**24 + 8


def test_buckets_of_half_precision_are_added_in_float32():
    x = np.full(600, 1.0)
    SUM.check(x.astype("float16") * 7, np.zeros(600, int), 1, bucket_size=100)
    total = jscan.segment_sum(x.astype(jnp.bfloat16), np.zeros(600, int), 1, bucket_size=7)
    assert total == 600


@pytest.mark.sweep
@every_reduction
@sorted_or_not
def test_derivatives_by_buckets(reduction, indices_are_sorted):
    x, ids = np.arange(1.0, 12), ids_for(indices_are_sorted)

    def loss(x, **options):
        total = reduction.function(x, ids, NUM_SEGMENTS, indices_are_sorted, **options)
        return jnp.sum(jnp.where(jnp.isfinite(total), total, 0) ** 2)

    by_buckets = jax.jit(jax.grad(lambda x: loss(x, bucket_size=4)))(x)
    np.testing.assert_allclose(by_buckets, jax.jit(jax.grad(loss))(x))


@every_reduction
@sorted_or_not
@pytest.mark.parametrize("bucket_size", [None, 2])
def test_unique_ids(reduction, indices_are_sorted, bucket_size):
    ids = np.array([-1, 0, 2, 3, 7]) if indices_are_sorted else np.array([3, 7, 0, -1, 2])
    x = exact(reduction, (5, 2), "float32")
    reduction.check(x, ids, 5, indices_are_sorted, True, bucket_size)
    program = str(jax.make_jaxpr(lambda x: reduction.function(x, ids, 5, False, True))(x))
    assert "unique_indices=True" in program


@every_reduction
@sorted_or_not
def test_one_element_for_all_ids(reduction, indices_are_sorted):
    ids = ids_for(indices_are_sorted)
    for x in (2.0, np.float32(3), np.array([2]), np.array([[2.0, 3.0]]), jnp.array(2.0)):
        ours = reduction.function(x, ids, NUM_SEGMENTS, indices_are_sorted)
        theirs = reduction.model(x, ids, NUM_SEGMENTS)
        assert (ours.dtype, ours.shape) == (theirs.dtype, theirs.shape)
        np.testing.assert_array_equal(ours, theirs)


def test_sums_of_bools_are_refused_as_jax_refuses_them():
    x, ids = np.ones(2, bool), np.array([0, 1])
    for reduction in REDUCTIONS[:2]:
        with pytest.raises(TypeError, match="bool"):
            reduction.model(x, ids, 2)
        with pytest.raises(TypeError, match=rf"jscan\.{reduction.name}: data has dtype bool"):
            reduction.function(x, ids, 2)


@every_reduction
def test_arguments_under_vmap_and_jit(reduction):
    x = exact(reduction, (3, 11), "float32")
    ids = np.stack([UNSORTED, UNSORTED[::-1], CLIPPED])
    program = jax.jit(
        jax.vmap(lambda x, ids: reduction.function(x, ids, 5, bucket_size=4, mode="clip"))
    )
    for row, x_row, ids_row in zip(program(x, ids), x, ids, strict=True):
        np.testing.assert_array_equal(row, reduction.model(x_row, ids_row, 5, mode="clip"))
