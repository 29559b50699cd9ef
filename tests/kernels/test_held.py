"""Tiles that are held as they were read, against a sequential loop."""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import jscan
from jscan import extent, primitives
from jscan.kernels import language, tuning
from tests import reference
from tests.cases import head_flags
from tests.engines import Engine
from tests.functions import affine
from tests.kernels.test_start import AFFINE, Call, integers

by_kernel = pytest.mark.parametrize(
    "strategy",
    [
        Engine("lookback-interpreted", "lookback", (), interpreted=True),
        pytest.param(Engine("lookback-gpu", "lookback", (), gpu=True), marks=pytest.mark.gpu),
    ],
    ids=lambda e: e.name,
)
# A last tile with whole strips behind the axis's end, one that ends inside of a strip, and none.
every_shape = pytest.mark.parametrize("shape", [(200, 40), (131, 67), (128, 64), (70, 130)])
TILES = (
    tuning.Tuning(64, 64, warps=1, window=2, held=16),
    tuning.Tuning(96, 32, warps=1, window=4, held=16),
    tuning.Tuning(32, 128, warps=4, window=4, held=8),
)
every_tile = pytest.mark.parametrize("tile", TILES, ids=lambda t: f"{t.length}x{t.lanes}")
ROW = tuning.Tuning(64, 1, 1, 4, strip=16, held=16)


def run(strategy: Engine, tile: tuning.Tuning | None, call: Any, *operands: Any) -> Any:
    """The results of a call."""
    with strategy.active(), primitives.tiled(tile):
        return jax.tree.map(np.asarray, jax.jit(lambda *x: call(*x))(*operands))


def check_sums(
    strategy: Engine,
    tile: tuning.Tuning,
    shape: tuple[int, ...],
    dtype: str,
    segmented: str | None,
    method: str = "auto",
    **form: Any,
) -> None:
    """Sums along the first axis, by flags of each lane's own, by shared ones, or by none."""
    x = np.random.default_rng(shape[0]).integers(0, 3, shape).astype(dtype)
    flags, form = None, {"axis": 0, **form}
    if segmented:
        flags = head_flags(shape if segmented == "own" else shape[:1], share=0.05)
        if segmented == "wide":  # shared ones, of which a byte is zero
            flags = flags.astype(np.int32) * 256

    def call(x: Any) -> Any:
        return jscan.cumsum(x, segments=flags, method=method, **form)

    with jax.enable_x64(dtype == "int64"):
        found = run(strategy, tile, call, x)
    expected = reference.scan(np.add, x, identity=np.zeros((), dtype), flags=flags, **form)
    reference.assert_equal(found, expected.astype(dtype))


def check_leaves(
    strategy: Engine, tile: tuning.Tuning, shape: tuple[int, ...], *, axis: int, exclusive: bool
) -> None:
    """Booleans, bytes, complex numbers and words; an identity that is kept apart."""
    leaves = [integers(shape, seed) for seed in range(3)]
    leaves = [leaves[0] > 5, leaves[1].astype(np.int8), (leaves[2] * (1 - 1j)).astype("complex64")]

    def combine(a: Any, b: Any) -> Any:
        least = jnp.minimum if isinstance(a[1], jax.Array) else np.minimum
        return a[0] | b[0], least(a[1], b[1]), a[2] + b[2]

    identity = (False, np.int8(100), np.complex64(0))

    def call(*leaves: Any) -> Any:
        form: dict[str, Any] = {"identity": identity} if exclusive else {}
        return jscan.associative_scan(combine, leaves, axis=axis, exclusive=exclusive, **form)

    found = run(strategy, tile, call, *leaves)
    expected = reference.scan(
        combine, tuple(leaves), axis=axis, exclusive=exclusive, identity=identity
    )
    for actual, wanted, leaf in zip(found, expected, leaves, strict=True):
        reference.assert_equal(actual, wanted.astype(leaf.dtype))


@pytest.mark.sweep
@every_shape
@every_tile
@pytest.mark.parametrize("dtype", ["int8", "uint16", "float16", "float32"])
@pytest.mark.parametrize("segmented", [None, "own", "shared"])
@pytest.mark.parametrize(("reverse", "exclusive"), [(False, False), (True, False), (True, True)])
@by_kernel
def test_sums(strategy, reverse, exclusive, segmented, dtype, tile, shape):
    form: dict[str, Any] = {"reverse": reverse, "exclusive": exclusive, "method": "lookback"}
    check_sums(strategy, tile, shape, dtype, segmented, **form)


@pytest.mark.parametrize("shape", [(1, 4096), (1, 3001), (3, 1500), (9, 777), (2, 2051)])
@pytest.mark.parametrize("dtype", ["int8", "uint16", "bfloat16", "float32"])
@pytest.mark.parametrize(("reverse", "exclusive"), [(False, False), (True, False), (True, True)])
@by_kernel
def test_sums_of_rows(strategy, reverse, exclusive, dtype, shape):
    x = np.asarray(jnp.asarray(np.random.default_rng(0).integers(0, 2, shape)).astype(dtype))
    form: dict[str, Any] = {"axis": 1, "reverse": reverse, "exclusive": exclusive}

    def call(x: Any) -> Any:
        maxima = jscan.cummax(x, axis=1, reverse=reverse, method="lookback")
        return maxima, jscan.cumsum(x % 7 if dtype == "int8" else x / 64, method="lookback", **form)

    maxima, sums = run(strategy, tuning.Tuning(512, 1, 1, 32, strip=128, held=128), call, x)
    wide = (x % 7 if dtype == "int8" else x / 64).astype(np.float64)
    expected = reference.scan(np.add, wide, identity=0.0, **form)
    if dtype == "int8":
        reference.assert_equal(sums, expected.astype(np.int64).astype(np.int8))
    else:
        rounded = "float32" if dtype == "uint16" else dtype
        error = np.abs(expected) * float(jnp.finfo(rounded).eps)
        reference.assert_within(sums.astype(np.float64), expected, error)
    flipped = np.flip(x, 1) if reverse else x
    found = np.maximum.accumulate(flipped, axis=1)
    reference.assert_equal(maxima, np.flip(found, 1) if reverse else found)


@every_tile
@pytest.mark.parametrize("reverse", [False, True])
@by_kernel
def test_what_does_not_commute(strategy, reverse, tile):
    rng = np.random.default_rng(1)
    a, b = (rng.integers(-1, 2, (3, 150, 37)).astype(np.float32) for _ in range(2))
    h, expected = np.zeros((3, 37), np.float32), np.empty_like(b)
    for t in range(149, -1, -1) if reverse else range(150):
        h = a[:, t] * h + b[:, t]
        expected[:, t] = h

    def call(a: Any, b: Any) -> Any:
        return jscan.linear_recurrence(a, b, axis=1, reverse=reverse, method="lookback")

    reference.assert_equal(run(strategy, tile, call, a, b), expected)


@pytest.mark.parametrize("shape", [(200,), (5, 77), (131, 33)])
@pytest.mark.parametrize("reverse", [False, True])
@by_kernel
def test_leaves_of_several_dtypes(strategy, reverse, shape):
    """Booleans, bytes, floats, complex numbers and words, each held in registers of its own."""
    axis = 0 if shape[-1] == 33 else len(shape) - 1
    leaves = [integers(shape, seed) for seed in range(4)]
    leaves = [leaves[0] > 5, leaves[1].astype(np.int8), leaves[2].astype(np.float32), leaves[3]]
    leaves[3] = (leaves[3] - 1j * leaves[2]).astype(np.complex64)
    leaves.append(integers(shape, 4).astype(np.uint64))

    def combine(a: Any, b: Any) -> Any:
        most = jnp.maximum if isinstance(a[1], jax.Array) else np.maximum
        return a[0] ^ b[0], most(a[1], b[1]), a[2] + b[2], a[3] + b[3], a[4] + b[4]

    def call(*leaves: Any) -> Any:
        form: dict[str, Any] = {"axis": axis, "reverse": reverse, "method": "lookback"}
        return jscan.associative_scan(combine, leaves, **form)

    found = run(strategy, TILES[0] if axis == 0 and len(shape) > 1 else ROW, call, *leaves)
    expected = reference.scan(combine, tuple(leaves), axis=axis, reverse=reverse)
    for actual, wanted, leaf in zip(found, expected, leaves, strict=True):
        reference.assert_equal(actual, wanted.astype(leaf.dtype))


@pytest.mark.parametrize(("shape", "axis"), [((3, 77), 1), ((131, 40), 0)])
@pytest.mark.parametrize(("reverse", "exclusive"), [(False, False), (True, False), (True, True)])
@by_kernel
def test_starts(strategy, reverse, exclusive, shape, axis):
    one = tuple(1 if d == axis else size for d, size in enumerate(shape))
    tile = TILES[0] if axis == 0 else ROW
    how: dict[str, Any] = {"axis": axis, "reverse": reverse, "exclusive": exclusive}
    start, is_open = integers(one, 1) * 1000, integers(one, 2) > -5
    Call(jnp.add, [integers(shape)], [start], (0,), None, is_open, **how).check(strategy, tile)
    a, b = integers(shape, 1) % 2, integers(shape, 2)
    how["used"] = (False, True)
    Call(affine, [a, b], [start, start + 1], AFFINE, **how).check(strategy, tile)


@pytest.mark.parametrize("held", [16, 8])
@pytest.mark.parametrize("reverse", [False, True])
@by_kernel
def test_words(strategy, reverse, held):
    """Strips of whole words, and shorter ones, of which no tile is held."""
    x = integers((501,), dtype=np.int8)
    flags = head_flags((501,), share=0.01)

    def call(x: Any) -> Any:
        return jscan.cumsum(x, reverse=reverse, segments=flags, method="lookback")

    tile = tuning.Tuning(64, 1, 1, 4, held=held)
    expected = reference.scan(np.add, x, flags=flags, reverse=reverse)
    reference.assert_equal(run(strategy, tile, call, x), expected.astype(np.int8))


@pytest.mark.parametrize(("reverse", "exclusive"), [(False, False), (True, False), (True, True)])
def test_an_axis_that_is_far_is_not_held(reverse, exclusive, monkeypatch):
    monkeypatch.setattr(extent, "FAR", 40)
    jax.clear_caches()
    x = integers((201,))
    form: dict[str, Any] = {"reverse": reverse, "exclusive": exclusive}
    with primitives.interpreted(), primitives.tiled(ROW):
        found = jscan.cumsum(x, method="lookback", **form)
    jax.clear_caches()
    expected = reference.scan(np.add, x, identity=np.int32(0), **form)
    reference.assert_equal(np.asarray(found), expected.astype(np.int32))


@pytest.mark.parametrize("shape", [(2**23 + 5,), (2**22,), (100, 50257), (9, 2**20 + 1)])
@pytest.mark.parametrize("dtype", ["int8", "uint8", "int16", "float16"])
@pytest.mark.parametrize("reverse", [False, True])
@pytest.mark.gpu
def test_cuts_that_are_chosen_of_rows(reverse, dtype, shape):
    x = np.random.default_rng(0).integers(0, 100, shape).astype(dtype)
    marks = (x == 7).astype(dtype)
    form: dict[str, Any] = {"axis": -1, "reverse": reverse}
    found = jax.jit(lambda x: jscan.cummax(x, **form))(x)
    counted = jax.jit(lambda x: jscan.cumsum(x, **form))(marks if dtype != "float16" else marks / 8)
    there = np.flip(x, -1) if reverse else x
    expected = np.maximum.accumulate(there, axis=-1)
    reference.assert_equal(np.asarray(found), np.flip(expected, -1) if reverse else expected)
    there = np.flip(marks, -1) if reverse else marks
    counts = np.cumsum(there.astype(np.int64), axis=-1)
    counts = np.flip(counts, -1) if reverse else counts
    if dtype == "float16":
        reference.assert_within(np.asarray(counted).astype(np.float64), counts / 8, counts / 8192)
    else:
        reference.assert_equal(np.asarray(counted), counts.astype(dtype))


@pytest.mark.parametrize(
    ("shape", "dtype"),
    [
        ((1100, 1280), "float16"),
        ((1100, 192), "int8"),
        ((1100, 64), "int8"),
        ((700, 1027), "int8"),
        ((700, 1027), "bfloat16"),
        ((1100, 333), "float32"),
    ],
)
@pytest.mark.gpu
def test_cuts_that_are_chosen(shape, dtype):
    x = jnp.asarray(np.random.default_rng(0).integers(0, 2, shape)).astype(dtype)
    found = np.asarray(jax.jit(lambda x: jscan.cummax(x, axis=0, method="lookback"))(x))
    reference.assert_equal(found, np.maximum.accumulate(np.asarray(x), axis=0))
    small = x % 2 if dtype == "int8" else x / 1024  # sums that the dtype holds exactly
    found = np.asarray(jax.jit(lambda x: jscan.cumsum(x, axis=0, method="lookback"))(small))
    wide = np.cumsum(np.asarray(small).astype(np.float64), axis=0)
    narrow = wide.astype(np.int64).astype(np.int8) if dtype == "int8" else wide
    error = 0 if dtype == "int8" else np.abs(wide) * float(jnp.finfo(dtype).eps)
    reference.assert_within(found, narrow, error)


def test_cuts_fit_what_they_are_cut_for():
    for width, leaves, segmented in (
        (1, 1, False),
        (1, 1, True),
        (2, 1, False),
        (2, 1, True),
        (8, 2, False),
    ):
        for inner in (33, 63, 64, 65, 127, 128, 200, 256, 671, 899, 1023, 1024, 1280, 16381):
            shape = tuning.Shape(1, 2**20, inner, width, leaves, segmented, equations=1)
            cut = tuning.as_read(shape, tuning.lookback(shape), reverse=False, exclusive=False)
            if cut.held:
                assert cut.length % cut.held == 0
                assert cut.lanes <= 2 * inner
                assert cut.window * cut.lanes >= 32 * cut.warps


@pytest.mark.parametrize("width", [1, 2])
def test_no_cut_is_held_that_tiles_cannot_be(width):
    """Of an axis that is far, and of rows that begin inside of words."""
    integers: dict[str, Any] = {"segmented": False, "equations": 1, "integers": True}
    for outer, n, inner in ((1, 2**31, 1), (1, 2**31, 128), (3000, 1000003, 1)):
        shape = tuning.Shape(outer, n, inner, width, 1, **integers)
        chosen = tuning.lookback(shape)
        assert tuning.as_read(shape, chosen, reverse=False, exclusive=False) == chosen
    shape = tuning.Shape(3000, 2**20, 1, width, 1, **integers)
    assert tuning.as_read(shape, tuning.lookback(shape), reverse=False, exclusive=False).held


@pytest.mark.parametrize(
    ("shape", "tile", "axis"),
    [
        ((211, 43), TILES[0], 0),
        ((211, 43), tuning.Tuning(16, 4, 1, 8), 0),
        ((3, 1511), tuning.Tuning(512, 1, 1, 32), 1),
    ],
)
def test_a_reversed_tile_is_scanned_forwards(shape, tile, axis, monkeypatch):
    scanned, directions = language.tile_scan, []

    def noted(*operands: Any, reverse: bool) -> Any:
        directions.append(reverse)
        return scanned(*operands, reverse=reverse)

    monkeypatch.setattr(language, "tile_scan", noted)
    x = integers(shape, seed=5)
    with primitives.interpreted(), primitives.tiled(tile):
        found = jax.jit(lambda x: jscan.cumsum(x, axis, reverse=True, method="lookback"))(x)
    np.testing.assert_array_equal(found, np.flip(np.cumsum(np.flip(x, axis), axis), axis))
    assert directions
    assert not any(directions)
