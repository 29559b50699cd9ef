"""Tiles of few lanes of which a thread has all, against a sequential loop."""

from __future__ import annotations

import dataclasses
import re
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import jscan
from jscan import primitives
from jscan.kernels import tuning
from jscan.kernels.tuning.weaving import of_few_lanes
from jscan.kernels.weaving import may_weave
from tests import reference
from tests.cases import head_flags
from tests.functions import affine
from tests.kernels.test_chunks import check_leaves_of_several_dtypes
from tests.kernels.test_held import by_kernel, run
from tests.kernels.test_lowering import cuda_program
from tests.kernels.test_start import AFFINE, Call, integers

TILES = (
    tuning.Tuning(64, 8, warps=1, window=8, woven=2),
    tuning.Tuning(256, 8, warps=2, window=8, woven=4),
    tuning.Tuning(256, 8, warps=1, window=8, strip=64, woven=2),  # read twice
)
OTHERS = ("chained", "repeatable", "reduce_then_scan", "scan_then_propagate")
every_tile = pytest.mark.parametrize(
    "tile", TILES, ids=lambda t: f"{t.length}x{t.lanes} by {t.woven}, strips of {t.strip}"
)
# Rows that begin with words and that do not, and several, of which the second begins with a word;
# last tiles of one position and of all but one, and lanes that fill a tile.
every_shape = pytest.mark.parametrize(
    "shape", [(512, 7), (777, 5), (530, 3), (3, 528, 7), (513, 4), (575, 2)]
)
every_way = pytest.mark.parametrize(
    ("reverse", "exclusive"), [(False, False), (True, False), (False, True), (True, True)]
)


@pytest.mark.sweep
@every_shape
@every_tile
@pytest.mark.parametrize("dtype", ["uint8", "float16", "int64", "float32"])
@pytest.mark.parametrize("segmented", [None, "own", "shared"])
@every_way
@by_kernel
def test_sums(strategy, reverse, exclusive, segmented, dtype, tile, shape):
    x = np.random.default_rng(shape[0]).integers(0, 3, shape).astype(dtype)
    form: dict[str, Any] = {"axis": -2, "reverse": reverse, "exclusive": exclusive}
    flags = None
    if segmented:
        flags = head_flags(shape if segmented == "own" else shape[:-1], share=0.05)

    def call(x: Any) -> Any:
        return jscan.cumsum(x, segments=flags, method="lookback", **form)

    with jax.enable_x64(True):
        found = run(strategy, tile, call, x)
    form["axis"] = x.ndim - 2
    expected = reference.scan(np.add, x, identity=np.zeros((), dtype), flags=flags, **form)
    reference.assert_equal(found, expected.astype(dtype))


@every_tile
@pytest.mark.parametrize("shared", [False, True])
@pytest.mark.parametrize("reverse", [False, True])
@by_kernel
def test_what_does_not_commute(strategy, reverse, shared, tile):
    rng, shape = np.random.default_rng(1), (3, 592, 7)
    a = rng.integers(-1, 2, (3, 592, 1) if shared else shape).astype(np.float32)
    b = rng.integers(-1, 2, shape).astype(np.float32)
    h, expected = np.zeros((3, 7), np.float32), np.empty_like(b)
    for t in range(591, -1, -1) if reverse else range(592):
        h = a[:, t] * h + b[:, t]
        expected[:, t] = h

    def call(a: Any, b: Any) -> Any:
        return jscan.linear_recurrence(a, b, axis=1, reverse=reverse, method="lookback")

    reference.assert_equal(run(strategy, tile, call, a, b), expected)


@every_tile
@pytest.mark.parametrize("reverse", [False, True])
@by_kernel
def test_leaves_of_several_dtypes(strategy, reverse, tile):
    check_leaves_of_several_dtypes(strategy, tile, (531, 5), reverse=reverse)


@every_tile
@every_way
@pytest.mark.parametrize("n", [528, 531])
@by_kernel
def test_starts(strategy, n, reverse, exclusive, tile):
    shape, one = (n, 7), (1, 7)
    how: dict[str, Any] = {"axis": 0, "reverse": reverse, "exclusive": exclusive}
    start, is_open = integers(one, 1) * 1000, integers(one, 2) > -5
    flags = head_flags(shape, share=0.05)
    a, b = integers(shape, 1) % 2, integers(shape, 2)
    Call(jnp.add, [b], [start], (0,), flags, is_open, **how).check(strategy, tile)
    Call(jnp.add, [b], [start], (0,), None, None, **how).check(strategy, tile)
    if not exclusive:
        Call(affine, [a, b], [start, start + 1], AFFINE, **how).check(strategy, tile)


@every_tile
@pytest.mark.parametrize("reverse", [False, True])
@by_kernel
def test_logaddexp(strategy, reverse, tile):
    x = np.random.default_rng(3).normal(size=(777, 6)).astype(np.float32)

    def call(x: Any) -> Any:
        return jscan.cumlogsumexp(x, axis=0, reverse=reverse, method="lookback")

    order = slice(None, None, -1 if reverse else 1)
    wanted = np.logaddexp.accumulate(x.astype(np.float64)[order])[order]
    np.testing.assert_allclose(run(strategy, tile, call, x), wanted, rtol=1e-5, atol=1e-5)


@every_tile
@pytest.mark.parametrize("reverse", [False, True])
@by_kernel
def test_batches_with_segments_of_their_own(strategy, reverse, tile):
    x, flags = integers((3, 592, 5), 4), head_flags((3, 592), share=0.05)

    def call(x: Any, flags: Any) -> Any:
        way: dict[str, Any] = {"axis": 0, "reverse": reverse, "method": "lookback"}
        return jax.vmap(lambda x, flags: jscan.cummax(x, segments=flags, **way))(x, flags)

    wanted = reference.scan(np.maximum, x, flags=flags, axis=1, reverse=reverse)
    reference.assert_equal(run(strategy, tile, call, x, flags), wanted)


@every_tile
@pytest.mark.parametrize("reverse", [False, True])
@by_kernel
def test_gradients(strategy, reverse, tile):
    a, b = (integers((577, 5), seed).astype(np.float32) / 16 for seed in (5, 6))

    def gradient(method: str) -> Any:
        def value(a: Any, b: Any) -> Any:
            found = jscan.linear_recurrence(a, b, axis=0, reverse=reverse, method=method)
            return jnp.sin(found).sum()

        return jax.grad(value, (0, 1))

    found, wanted = run(strategy, tile, gradient("lookback"), a, b), gradient("xla")(a, b)
    for x, y in zip(found, wanted, strict=True):
        np.testing.assert_allclose(x, y, rtol=1e-4, atol=1e-5)


@every_tile
@every_way
@pytest.mark.parametrize("n", [193, 194, 513])
@by_kernel
def test_an_identity_that_is_kept_apart(strategy, n, reverse, exclusive, tile):
    """A wrong one is the result where the axis begins, and changes no other."""
    x = np.random.default_rng(n).integers(1, 3, (n, 5)).astype(np.int32)
    way: dict[str, Any] = {"axis": 0, "reverse": reverse, "exclusive": exclusive}
    way["identity"] = 0 if exclusive else None

    def call(x: Any, method: str = "lookback") -> Any:
        return jscan.associative_scan(lambda a, b: jnp.minimum(a, b), x, method=method, **way)

    wanted = jax.jit(lambda x: call(x, "xla"))(x)
    np.testing.assert_array_equal(run(strategy, tile, call, x), wanted)


@pytest.mark.parametrize(
    ("method", "tile", "reverse"),
    [
        # By default half of the cases, which show every pair of values.
        pytest.param(
            method,
            TILES[2 * twice],
            reverse,
            id=f"{method}-{'read twice' if twice else 'at once'}-{reverse}",
            marks=[pytest.mark.thorough] * ((number + twice + reverse) % 2),
        )
        for number, method in enumerate(OTHERS)
        for twice in (False, True)
        for reverse in (False, True)
    ],
)
def test_other_methods_take_a_woven_cut(method, tile, reverse):
    x = integers((777, 5), 3)
    with primitives.interpreted(), primitives.tiled(tile):
        found = jax.jit(lambda x: jscan.cumsum(x, axis=0, reverse=reverse, method=method))(x)
    reference.assert_equal(found, reference.scan(np.add, x, axis=0, reverse=reverse))


@pytest.mark.parametrize(
    ("shape", "dtype", "length"),
    [
        ((1500001, 3), "float32", 1024),
        ((2**21, 11), "bfloat16", 1024),
        ((2**20, 10), "int8", 2048),
    ],
    ids=str,
)
def test_scans_are_woven(shape, dtype, length):
    def call(x: Any) -> Any:
        return jscan.cumsum(x, axis=0)

    program = cuda_program(call, jax.ShapeDtypeStruct(shape, dtype))
    assert re.findall(r"grid_x = (\d+)", program) == [str(-(-shape[0] // length))]


def test_what_may_be_woven():
    def may(reverse: bool = False, may_lead: bool = True, tile: Any = TILES[0], **how: Any) -> bool:
        shape = dataclasses.replace(_shape(7, 4), **how)
        return may_weave(tile, shape, reverse=reverse, may_lead=may_lead)

    assert may()
    assert may(n=777, reverse=True)
    assert may(n=777, may_lead=False)
    assert may(outer=3)
    assert not may(outer=3, n=777)
    assert not may(n=777, reverse=True, may_lead=False)
    assert not may(n=2**29)
    assert not may(inner=9)
    assert not may(tile=dataclasses.replace(TILES[0], woven=8))  # 8 places a comb are no word


def _shape(inner: int, width: int, leaves: int = 1, **how: Any) -> tuning.Shape:
    how = {"segmented": False, "equations": 1, **how}
    return tuning.Shape(1, 2**22, inner, width=width, leaves=leaves, **how)


def test_choice():
    assert of_few_lanes(_shape(3, 4)) == tuning.Tuning(1024, 4, 4, 32, woven=8)
    assert of_few_lanes(_shape(2, 2)) == tuning.Tuning(2048, 2, 4, 64, woven=16)
    assert of_few_lanes(_shape(11, 2)) == tuning.Tuning(1024, 16, 4, 32, woven=8)
    twice = tuning.Tuning(2048, 8, 1, 16, strip=128, woven=4)
    assert of_few_lanes(_shape(7, 2, 2, segmented=True, equations=3)) == twice
    others = [_shape(4, 4), _shape(16, 2), _shape(15, 8), _shape(33, 2), _shape(7, 4, 2)]
    assert [of_few_lanes(each) for each in others] == [None] * len(others)
    assert of_few_lanes(tuning.Shape(1, 999, 7, 1, 1, segmented=False, equations=1)) is None
