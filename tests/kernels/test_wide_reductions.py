"""Segment reductions of wide rows: lanes together, results that are written once, orders."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import jscan
from jscan import primitives
from jscan.kernels import absent, tuning
from tests import reference
from tests.engines import by_kernel
from tests.kernels.test_lowering import array, calls, cuda_program

METHODS = ("lookback", "chained", "reduce_then_scan", "scan_then_propagate")
N, COUNT = 300, 90


def drawn(inner, dtype="float32", batch=()):
    """Small numbers, which add up exactly, and ids of which some are out of range."""
    rng = np.random.default_rng(0)
    x = rng.integers(-5, 6, (*batch, N, *inner)).astype(jnp.dtype(dtype))
    return x, rng.integers(-2, COUNT + 3, (*batch, N)).astype(np.int32)


def expected(x, ids):
    return reference.reduce_by_segments(np.add, x, ids, COUNT, identity=0)


@pytest.mark.sweep
@pytest.mark.parametrize("inner", [(8,), (7,), (2, 3), (9,)])
@pytest.mark.parametrize("method", METHODS)
def test_lanes_together(inner, method):
    x, ids = drawn(inner)
    tile = tuning.Tuning(16, lanes=4, warps=1, window=2, strip=4, together=2)
    plan = jscan.SegmentPlan(ids, COUNT)
    with primitives.interpreted(), primitives.tiled(tile):
        by_plan = jscan.segment_sum(x, plan, method=method)
        by_ids = jscan.segment_sum(x, np.sort(ids), COUNT, True, method=method)
    reference.assert_equal(by_plan, expected(x, ids))
    reference.assert_equal(by_ids, expected(x, np.sort(ids)))


@pytest.mark.sweep
@pytest.mark.parametrize("dtype", ["float32", "bfloat16", "int8", "complex64", "int32"])
@pytest.mark.parametrize("inner", [(), (5,), (64,)])
@pytest.mark.parametrize("method", METHODS)
def test_segments_without_elements_are_filled_apart(monkeypatch, dtype, inner, method):
    monkeypatch.setattr(absent, "LEAST", 0)
    monkeypatch.setattr(absent, "IDS", 0)
    x, ids = drawn(inner, dtype)
    ids[ids % 3 == 0] = 4
    plan = jscan.SegmentPlan(ids, COUNT)
    with primitives.interpreted():
        by_plan = jax.jit(lambda x, plan: jscan.segment_sum(x, plan, method=method))(x, plan)
    reference.assert_equal(by_plan, expected(x, ids))


@pytest.mark.parametrize("dtype", ["int8", "uint8", "uint32", "int64"])
def test_ids_of_any_width_mark_their_segments(monkeypatch, dtype):
    monkeypatch.setattr(absent, "LEAST", 0)
    monkeypatch.setattr(absent, "IDS", 0)
    x, ids = drawn((3,))
    ids = np.sort(np.maximum(ids, 0) if dtype.startswith("u") else ids)
    with primitives.interpreted(), jax.enable_x64(dtype == "int64"):
        run = jax.jit(lambda x, ids: jscan.segment_sum(x, ids, COUNT, True))
        reference.assert_equal(run(x, ids.astype(dtype)), expected(x, ids))


def test_rows_of_ids_mark_segments_of_their_own(monkeypatch):
    monkeypatch.setattr(absent, "LEAST", 0)
    monkeypatch.setattr(absent, "IDS", 0)
    x, ids = drawn((3,), batch=(2,))
    with primitives.interpreted():
        run = jax.jit(jax.vmap(lambda x, i: jscan.segment_sum(x, jscan.SegmentPlan(i, COUNT))))
        found = run(x, ids)
    for row in range(2):
        reference.assert_equal(found[row], expected(x[row], ids[row]))


def test_results_are_filled_whole_where_marks_do_not_pay():
    """The kernels of a program: marks cost two launches, and a fill of few bytes costs nothing."""
    many, few = (1 << 20, 128), (1 << 20, 2)

    def total(x, ids):
        return jscan.segment_sum(x, ids, 1 << 17, True)

    for shape, names in ((many, {"jscan_mark", "jscan_fill_absent"}), (few, set())):
        x = jax.ShapeDtypeStruct(shape, jnp.float32)
        program = cuda_program(total, x, array(shape[0], "int32"))
        found = {name for name in ("jscan_mark", "jscan_fill_absent") if name in program}
        assert found == names
        assert calls(program) == 1 + len(names)


def test_no_rows_are_moved_before_they_are_reduced():
    """Elements are read in a plan's order by the kernel that reduces them."""
    shape = (1 << 20, 128)
    x = jax.ShapeDtypeStruct(shape, jnp.float32)
    plan = jax.eval_shape(lambda ids: jscan.SegmentPlan(ids, 1000), array(shape[0], "int32"))
    assert "stablehlo.gather" not in cuda_program(jscan.segment_sum, x, plan)


def test_an_order_out_of_bounds_reads_no_other_memory():
    x, ids = drawn((4,))
    plan = jscan.SegmentPlan(ids, COUNT)
    broken = jax.tree.map(lambda part: part + 10**6, plan)
    with primitives.interpreted():
        found = jscan.segment_sum(x, broken)
    np.testing.assert_array_equal(found, np.zeros((COUNT, 4)))


@pytest.mark.parametrize(
    ("dtype", "inner", "lanes", "together"),
    [
        ("float32", 128, 128, 4),
        ("float32", 1000, 128, 4),
        ("float32", 100, 128, 4),
        ("float32", 67, 64, 1),
        ("float32", 66, 64, 2),
        ("float32", 64, 64, 2),
        ("float32", 32, 32, 1),
        ("float32", 3, 4, 1),
        ("float16", 128, 128, 4),
        ("bfloat16", 512, 256, 8),
        ("float64", 128, 64, 2),
        ("int8", 1024, 256, 8),
    ],
)
def test_a_thread_takes_up_to_16_bytes_of_lanes(dtype, inner, lanes, together):
    with jax.enable_x64(dtype == "float64"):
        leaf = jax.ShapeDtypeStruct((10**6, inner), jnp.dtype(dtype))
        operator = jax.make_jaxpr(jnp.add)(*[jnp.zeros((), leaf.dtype)] * 2)
    shape = tuning.Shape.of([leaf], 0, operator, segmented=True, tile=None)
    chosen = tuning.strips(shape)
    assert (chosen.lanes, chosen.together) == (lanes, together)
    assert together * leaf.dtype.itemsize <= 16


@pytest.mark.parametrize(("n", "inner", "length"), [(12123, 1024, 64), (2077, 100, 32)])
def test_tiles_are_short_where_there_are_few(n, inner, length):
    leaf = jax.ShapeDtypeStruct((n, inner), jnp.float32)
    operator = jax.make_jaxpr(jnp.add)(*[jnp.zeros((), leaf.dtype)] * 2)
    shape = tuning.Shape.of([leaf], 0, operator, segmented=True, tile=None)
    assert tuning.strips(shape).length == length


@pytest.mark.parametrize("dtype", ["int8", "float16", "float32"])
@pytest.mark.parametrize("leaves", [1, 2, 3, 5, 6])
@pytest.mark.parametrize("segmented", [False, True])
def test_tiles_are_whole_strips(dtype, leaves, segmented):
    for n, inner in ((12123, 256), (192, 6400), (2077, 100), (40000, 1024), (10**6, 33)):
        each = [jax.ShapeDtypeStruct((n, inner), dtype)] * leaves
        scalars = [jnp.zeros((), dtype)] * (2 * leaves)
        operator = jax.make_jaxpr(lambda *x: list(map(jnp.add, x[:leaves], x[leaves:])))(*scalars)
        shape = tuning.Shape.of(each, 0, operator, segmented=segmented, tile=None)
        chosen = tuning.strips(shape)
        assert chosen.length % chosen.strip == 0


@by_kernel
@pytest.mark.parametrize(
    ("shape", "dtype"),
    [
        ((2, 256, 130), "int16"),
        ((2, 200, 65), "uint8"),
        ((1, 500, 130), "int8"),  # of more than a warp holds
        ((64, 40, 128), "uint8"),  # of so many lanes that programs take 128
        ((1, 600, 8192), "uint8"),
    ],
)
def test_narrow_rows_beside_lanes(shape, dtype, strategy):
    x = np.random.default_rng(shape).integers(0, 3, shape).astype(dtype)
    with strategy.active():
        found = jax.jit(lambda x: jscan.reduce(lambda a, b: a + b + a * b, x, axis=1))(x)
    expected = np.prod(x.astype(np.int64) + 1, axis=1) - 1  # which wraps around as numbers do
    np.testing.assert_array_equal(found, expected.astype(dtype))


def test_what_is_reduced_by_one_warp():
    def chosen(shape, dtype, segmented=False):
        leaf = jax.ShapeDtypeStruct(shape, jnp.dtype(dtype))
        operator = jax.make_jaxpr(jnp.add)(*[jnp.zeros((), leaf.dtype)] * 2)
        whole = tuning.Shape.of([leaf], 1, operator, segmented=segmented, tile=None)
        cut = tuning.chosen(whole, "auto", tuning.REDUCTION)
        return cut.lanes, cut.warps

    assert chosen((8, 256, 32768), "int16") == (64, 1)
    assert chosen((8, 256, 32768), "int16", segmented=True) != (64, 1)
    assert chosen((100, 500, 1000), "uint8")[1] > 1  # 32,768 elements of a warp spill
    assert chosen((8, 4096, 2048), "uint8") == (128, 1)
    assert chosen((1, 2**20, 64), "int8") == (32, 1)
