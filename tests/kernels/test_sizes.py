"""Axes and arrays beyond 32 bits, and the other ends of what a size can be.

What kernels do beyond 32 bits is seen on small arrays, where the length at which positions outgrow
32 bits is set to a small number. Arrays of 2^32 elements need a GPU: test_large_arrays.py.
"""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import jscan
from jscan import extent, primitives
from jscan.arguments.choices import METHODS
from jscan.heads import before, is_first
from jscan.kernels import tuning
from tests import reference
from tests.functions import last_write
from tests.kernels.test_lowering import calls, cuda_program

LONG = 2**32 + 17
KERNELS = [m for m in METHODS if m not in ("auto", "xla", "block")]


@pytest.fixture
def far(monkeypatch):
    """Kernels that take 40 for too many positions, in tiles of 16."""
    monkeypatch.setattr(extent, "FAR", 40)
    jax.clear_caches()
    tile = tuning.Tuning(length=16, lanes=1, warps=1, window=4, strip=8)
    with primitives.interpreted(), primitives.tiled(tile):
        yield
    jax.clear_caches()


@pytest.mark.sweep
@pytest.mark.usefixtures("far")
@pytest.mark.parametrize("form", [(r, e, s) for r in (0, 1) for e in (0, 1) for s in (0, 1)])
@pytest.mark.parametrize("method", KERNELS)
def test_scans_of_axes_that_are_far(method, form):
    reverse, exclusive, segmented = map(bool, form)
    rng = np.random.default_rng(3)
    x = rng.integers(0, 3, 75).astype(np.int32)
    heads = rng.random(75) < 0.1 if segmented else None
    args = {"reverse": reverse, "exclusive": exclusive}
    found = jscan.associative_scan(
        last_write, x, identity=np.int32(0), segments=heads, method=method, **args
    )
    want = reference.scan(lambda a, b: np.where(b == 0, a, b), x, flags=heads, identity=0, **args)
    np.testing.assert_array_equal(found, want)


@pytest.mark.product
@pytest.mark.usefixtures("far")
@pytest.mark.parametrize("method", ["block", "lookback", "reduce_then_scan"])
@pytest.mark.parametrize(("shape", "axis"), [((2, 70, 3), 1), ((20, 41), 0), ((45, 20), 1)])
def test_rows_and_lanes_that_are_far(shape, axis, method):
    """Many rows and many lanes, of which the last ones fill no tile."""
    rng = np.random.default_rng(4)
    x = rng.integers(-9, 9, shape).astype(np.int32)
    heads = rng.random(shape[axis]) < 0.1
    lanes, rows = 4 if axis + 1 < len(shape) else 1, 2 if method == "block" else 1
    tile = tuning.Tuning(length=8, lanes=lanes, warps=1, window=2, rows=rows, strip=4)
    with primitives.tiled(tile):
        found = jscan.cumsum(x, axis, segments=heads, method=method)
    np.testing.assert_array_equal(found, reference.scan(np.add, x, axis=axis, flags=heads))


@pytest.mark.sweep
@pytest.mark.usefixtures("far")
@pytest.mark.parametrize("kind", ["whole", "ids", "flags", "offsets"])
@pytest.mark.parametrize("lanes", [1, 3])
@pytest.mark.parametrize("method", KERNELS)
def test_reductions_of_axes_that_are_far(method, lanes, kind):
    rng = np.random.default_rng(5)
    heads = rng.random(75) < 0.2
    heads[0] = True
    ids = np.cumsum(heads, dtype=np.int32) - 1
    count = int(ids[-1]) + 2
    segments = {
        "whole": None,
        "ids": jscan.Segments.from_ids(ids),
        "flags": jscan.Segments.from_flags(heads),
        "offsets": jscan.Segments.from_offsets(np.flatnonzero([*heads, True]), 75),
    }[kind]
    x = rng.integers(-9, 9, (75, lanes)).astype(np.int32)
    found = jscan.reduce(
        jnp.add,
        x,
        identity=np.int32(0),
        segments=segments,
        num_segments=None if segments is None else count,
        method=method,
    )
    if segments is None:
        ids, count = np.zeros_like(ids), 1
    want = reference.reduce_by_segments(np.add, x, ids, count, identity=0)
    np.testing.assert_array_equal(found, want.reshape(found.shape))


@pytest.mark.usefixtures("far")
@pytest.mark.parametrize("n", [39, 40, 48, 64])
def test_the_first_length_that_is_far_and_whole_tiles(n):
    x = np.random.default_rng(n).integers(-9, 9, n).astype(np.int32)
    for method in ("lookback", "reduce_then_scan"):
        for args in ({}, {"reverse": True}, {"exclusive": True}):
            found = jscan.cumsum(x, segments=x == 3, method=method, **args)
            want = reference.scan(np.add, x, flags=x == 3, identity=0, **args)
            np.testing.assert_array_equal(found, want)


@pytest.mark.usefixtures("far")
def test_sums_of_exponentials_in_tiles_that_are_far():
    x = np.random.default_rng(7).integers(-9, 9, 150).astype(np.float32)
    with primitives.tiled(tuning.Tuning(length=64, lanes=1, warps=1, window=4)):
        found = jscan.cumlogsumexp(x, method="lookback")
    want = reference.scan(np.logaddexp, x)
    np.testing.assert_allclose(found, want, rtol=1e-5, atol=1e-6)


@pytest.mark.usefixtures("far")
@pytest.mark.parametrize("shape", [(70, 2), (3, 39)])
def test_places_in_rows_and_lanes_that_are_far(shape):
    mask = np.random.default_rng(8).random(shape) < 0.5
    with primitives.tiled(tuning.Tuning(length=8, lanes=1, warps=1, window=4)):
        found = jscan.enumerate(mask, 1)
    np.testing.assert_array_equal(found, np.cumsum(mask, 1) - mask)


@pytest.mark.usefixtures("far")
@pytest.mark.parametrize("reverse", [False, True])
def test_derivatives_of_axes_that_are_far(reverse):
    x = np.random.default_rng(6).uniform(0.5, 1.5, 75).astype(np.float32)
    heads = np.arange(75) % 30 == 0

    def total(x, method):
        return jnp.sum(jscan.cumprod(x, 0, reverse, segments=heads, method=method))

    found = jax.grad(total)(x, "lookback")
    np.testing.assert_allclose(found, jax.grad(total)(x, "xla"), rtol=1e-4)


def test_the_first_of_more_elements_than_32_bits_count():
    """An index in 32 bits would be 0 again at the element 2^32."""
    x = jax.ShapeDtypeStruct((LONG,), jnp.int8)
    text = jax.jit(lambda x: is_first(x, axis=0)).lower(x).as_text()
    assert "iota" not in text
    short = jnp.zeros((3, 5), jnp.int8)
    want = is_first(short, axis=1)
    np.testing.assert_array_equal(want, before(jnp.ones_like(short), axis=1) == 0)


@pytest.mark.sweep
@pytest.mark.parametrize("segmented", [False, True])
@pytest.mark.parametrize("reverse", [False, True])
@pytest.mark.parametrize("method", ["auto", *KERNELS])
def test_kernels_of_more_than_32_bits_lower(method, reverse, segmented):
    """With 64-bit types off, as they are by default; what they address, a GPU shows below."""
    x = jax.ShapeDtypeStruct((LONG,), jnp.int8)
    heads = jax.ShapeDtypeStruct((LONG,), jnp.bool_)

    def scan(x, heads):
        return jscan.cumsum(x, 0, reverse, segments=heads if segmented else None, method=method)

    with jax.enable_x64(False):
        assert calls(cuda_program(scan, x, heads)) > 0


def test_more_programs_than_a_grid_has():
    x = jax.ShapeDtypeStruct((2**31 + 5, 2), jnp.int8)
    with pytest.raises(ValueError, match="2147483653 programs"):
        cuda_program(lambda x: jscan.cumsum(x, 1, method="lookback"), x)
    assert calls(cuda_program(lambda x: jscan.cumsum(x, 1), x)) == 1


def test_places_that_outgrow_32_bits_are_refused():
    mask = jax.ShapeDtypeStruct((2**31,), jnp.bool_)
    for function in (
        jscan.enumerate,
        lambda m: jscan.enumerate(m, segments=m),
        lambda m: jscan.pack(m, m, size=3),
        lambda m: jscan.nonzero(m, size=3),
        lambda m: jscan.histogram(m.astype(int), 3),
        lambda m: jscan.partition(m, m),
        lambda m: jscan.run_length_encode(m, size=3),
        lambda m: jscan.unique_sorted(m, size=3),
        lambda m: jscan.split(m, m),
        lambda m: jscan.split_and_segment(m, m, m),
        lambda m: jscan.Segments.from_flags(m).ids,
    ):
        with pytest.raises(ValueError, match="at most 2147483647 elements"):
            jax.eval_shape(function, mask)
    with pytest.raises(ValueError, match=r"total.*2147483648"):
        jscan.Segments.from_lengths(np.array([5]), total=2**31)


def _tiny(x: Any, bounds: Any, ids: Any) -> list[Any]:
    return [
        jscan.cummax(x, reverse=True),
        jscan.cumsum(x, exclusive=True, reverse=True),
        jscan.cummax(x, segments=x == 1, reverse=True),
        jscan.cummax(x, segments=jscan.Segments.from_offsets(bounds, total=x.size)),
        jscan.segment_sum(x, ids, 3, indices_are_sorted=True),
    ]


@pytest.mark.sweep
@pytest.mark.parametrize("dtype", ["int8", "float16", "int32", "float32", "int64"])
@pytest.mark.parametrize("n", [2, 3, 4, 8, 16])
def test_a_word_of_elements(n, dtype):
    """Taken apart by its places a tile of one word has no dimension, and a compiler crashed."""
    with jax.enable_x64(True):
        x = np.random.default_rng(n).integers(-3, 4, n).astype(dtype)
        ids = np.sort(np.random.default_rng(n).integers(0, 3, n)).astype(np.int32)
        bounds = np.searchsorted(ids, np.arange(4)).astype(np.int32)
        heads = np.diff(ids, prepend=-1) != 0
        expected = [
            reference.scan(np.maximum, x, reverse=True),
            reference.scan(np.add, x, identity=0, exclusive=True, reverse=True),
            reference.scan(np.maximum, x, flags=x == 1, reverse=True),
            reference.scan(np.maximum, x, flags=heads),
            reference.reduce_by_segments(np.add, x, ids, 3, identity=0),
        ]
        with primitives.interpreted():
            found = jax.jit(_tiny)(x, bounds, ids)
        for actual, wanted in zip(found, expected, strict=True):
            np.testing.assert_array_equal(actual, wanted)
        assert calls(cuda_program(_tiny, x, bounds, ids)) >= len(found)


@pytest.mark.parametrize("shape", [(0,), (0, 5), (5, 0), (0, 0, 3), (1,), (7, 1), (1, 7)])
@pytest.mark.parametrize("axis", [0, -1])
def test_empty_axes_and_batches_and_rows_of_one(shape, axis):
    x = np.arange(np.prod(shape), dtype=np.int32).reshape(shape)
    for method in ("auto", "xla"):
        for reverse in (False, True):
            found = jscan.cumsum(x, axis, reverse, method=method)
            np.testing.assert_array_equal(
                found, reference.scan(np.add, x, axis=axis, reverse=reverse)
            )
            found = jscan.cumsum(x, axis, reverse, exclusive=True, method=method)
            want = reference.scan(np.add, x, axis=axis, reverse=reverse, exclusive=True, identity=0)
            np.testing.assert_array_equal(found, want)
