"""Tiles of a few lanes that are worked through in chunks, against a sequential loop."""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import jscan
from jscan import extent
from jscan.kernels import tuning
from tests import reference
from tests.cases import head_flags
from tests.functions import affine
from tests.kernels.test_held import by_kernel, check_sums, run
from tests.kernels.test_start import AFFINE, Call, integers

TILES = (
    tuning.Tuning(32, 8, warps=1, window=8, chunk=8),
    tuning.Tuning(64, 8, warps=2, window=8, chunk=4, together=2),
    tuning.Tuning(64, 16, warps=4, window=8, chunk=8),
    tuning.Tuning(4, 32, warps=1, window=4, chunk=4),
)
every_tile = pytest.mark.parametrize(
    "tile", TILES, ids=lambda t: f"{t.length}x{t.lanes} by {t.chunk}"
)
# A last tile that ends inside of a chunk, one of which whole chunks are missing, and a full one.
every_shape = pytest.mark.parametrize("shape", [(131, 8), (200, 5), (70, 31), (128, 16)])
every_way = pytest.mark.parametrize(
    ("reverse", "exclusive"), [(False, False), (True, False), (False, True), (True, True)]
)


@pytest.mark.sweep
@every_shape
@every_tile
@pytest.mark.parametrize("dtype", ["int8", "float16", "int64"])
@pytest.mark.parametrize("segmented", [None, "own", "shared"])
@every_way
@by_kernel
def test_sums(strategy, reverse, exclusive, segmented, dtype, tile, shape):
    form: dict[str, Any] = {"reverse": reverse, "exclusive": exclusive}
    form["method"] = "repeatable" if exclusive else "lookback"
    check_sums(strategy, tile, shape, dtype, segmented, **form)


@every_tile
@pytest.mark.parametrize("reverse", [False, True])
@pytest.mark.parametrize("segmented", [False, True])
@pytest.mark.parametrize("dtype", ["float32", "complex64"])
@by_kernel
def test_what_does_not_commute(strategy, dtype, segmented, reverse, tile):
    rng = np.random.default_rng(1)
    a, b = (rng.integers(-1, 2, (3, 150, 7)).astype(dtype) for _ in range(2))
    if dtype == "complex64":
        a, b = a * np.complex64(1j), b * np.complex64(1 + 1j)
    flags = head_flags((150,), share=0.05) if segmented else np.zeros(150, bool)
    h, expected = np.zeros((3, 7), dtype), np.empty_like(b)
    for t in range(149, -1, -1) if reverse else range(150):
        begins = flags[(t + 1) % 150] if reverse else flags[t]
        h = (a[:, t] * h if not begins else 0) + b[:, t]
        expected[:, t] = h

    def call(a: Any, b: Any) -> Any:
        how: dict[str, Any] = {"reverse": reverse, "method": "lookback"}
        how["segments"] = flags if segmented else None
        return jscan.linear_recurrence(a, b, axis=1, **how)

    reference.assert_equal(run(strategy, tile, call, a, b), expected)


@pytest.mark.parametrize("reverse", [False, True])
@by_kernel
def test_leaves_of_several_dtypes(strategy, reverse):
    check_leaves_of_several_dtypes(strategy, TILES[0], (131, 7), reverse=reverse)


def check_leaves_of_several_dtypes(strategy, tile, shape, *, reverse):
    """Booleans, bytes, floats and complex numbers, each held in registers of its own."""
    leaves = [integers(shape, seed) for seed in range(4)]
    leaves = [leaves[0] > 5, leaves[1].astype(np.int8), leaves[2].astype(np.float32), leaves[3]]
    leaves[3] = (leaves[3] - 1j * leaves[2]).astype(np.complex64)

    def combine(a: Any, b: Any) -> Any:
        most = jnp.maximum if isinstance(a[1], jax.Array) else np.maximum
        return a[0] ^ b[0], most(a[1], b[1]), a[2] + b[2], a[3] + b[3]

    def call(*leaves: Any) -> Any:
        form: dict[str, Any] = {"axis": 0, "reverse": reverse, "method": "lookback"}
        return jscan.associative_scan(combine, leaves, **form)

    found = run(strategy, tile, call, *leaves)
    expected = reference.scan(combine, tuple(leaves), axis=0, reverse=reverse)
    for actual, wanted, leaf in zip(found, expected, leaves, strict=True):
        reference.assert_equal(actual, wanted.astype(leaf.dtype))


@every_way
@by_kernel
def test_starts(strategy, reverse, exclusive):
    shape, one = (131, 7), (1, 7)
    how: dict[str, Any] = {"axis": 0, "reverse": reverse, "exclusive": exclusive}
    start, is_open = integers(one, 1) * 1000, integers(one, 2) > -5
    flags = head_flags(shape, share=0.05)
    a, b = integers(shape, 1) % 2, integers(shape, 2)
    Call(jnp.add, [b], [start], (0,), flags, is_open, **how).check(strategy, TILES[0])
    how["used"] = (False, True)
    Call(affine, [a, b], [start, start + 1], AFFINE, **how).check(strategy, TILES[0])


@pytest.mark.parametrize("reverse", [False, True])
@by_kernel
def test_axes_of_many_positions_are_not_cut_so(strategy, reverse, monkeypatch):
    """A tile that may not be cut into chunks is scanned as one."""
    monkeypatch.setattr(extent, "FAR", 100)
    jax.clear_caches()
    a, b = (integers((131, 7), seed) for seed in range(2))

    def call(a: Any, b: Any) -> Any:
        return jscan.associative_scan(affine, (a, b), axis=0, reverse=reverse, method="lookback")

    found = run(strategy, TILES[0], call, a, b)
    jax.clear_caches()
    expected = reference.scan(affine, (a, b), axis=0, reverse=reverse)
    for actual, wanted in zip(found, expected, strict=True):
        reference.assert_equal(actual, wanted)


@pytest.mark.parametrize(
    ("segmented", "width", "leaves", "inner", "chunk", "together"),
    [
        *[(False, 4, 1, 16, 64, 1), (False, 2, 1, 14, 32, 2), (False, 2, 1, 15, 64, 1)],
        *[(False, 8, 2, 11, 32, 1), (False, 16, 2, 14, 16, 1)],
        *[(False, 16, 4, 9, 16, 1), (False, 9, 2, 12, 32, 1)],
        *[(True, 2, 1, 8, 32, 2), (True, 2, 1, 28, 32, 2), (True, 4, 1, 28, 16, 1)],
        *[(True, 8, 1, 19, 16, 1), (True, 16, 2, 6, 16, 1), (True, 16, 4, 11, 16, 1)],
        (True, 16, 2, 15, 16, 1),
    ],
)
def test_cuts_of_a_few_lanes(segmented, width, leaves, inner, chunk, together):
    shape = tuning.Shape(1, 2**22, inner, width, leaves, segmented, equations=3)
    cut = tuning.as_read(shape, tuning.lookback(shape), reverse=False, exclusive=False)
    assert (cut.chunk, cut.together) == (chunk, together)
    # A thread has chunks of one lane, or of those that it takes together.
    each, rest = divmod(cut.length // chunk * cut.lanes, 32 * cut.warps * together)
    assert (each > 0, rest) == (True, 0)
    assert cut.window * cut.lanes >= 32 * cut.warps


@pytest.mark.parametrize("width", [2, 4])
def test_pairs_of_bytes_and_halves_compile_in_seconds(width):
    """In chunks of 64 positions they took minutes."""
    shape = tuning.Shape(1, 2**22, 11, width, 2, segmented=False, equations=3)
    cut = tuning.as_read(shape, tuning.lookback(shape), reverse=False, exclusive=False)
    assert cut.chunk == 0


@pytest.mark.parametrize(
    ("n", "inner", "width", "segmented", "equations"),
    [
        *[(2**24, 3, 4, False, 1), (2**10, 16, 4, False, 1), (2**22, 64, 4, False, 1)],
        *[(2**22, 8, 16, False, 1), (2**22, 7, 8, False, 32), (2**22, 10, 16, False, 32)],
        (2**22, 7, 8, True, 32),
    ],
)
def test_other_cuts_are_as_they_were(n, inner, width, segmented, equations):
    leaves = 2 if width == 8 else max(1, width // 8)
    shape = tuning.Shape(1, n, inner, width, leaves, segmented, equations)
    cut = tuning.as_read(shape, tuning.lookback(shape), reverse=False, exclusive=False)
    assert cut.chunk == 0
