"""logaddexp summed as exponentials by threads: of neighbours in a row, and of strips of lanes.

Where values are ordinary no tile needs the operator itself; steep ones are in `test_logaddexp`.
"""

from __future__ import annotations

import dataclasses
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import jscan
from jscan import primitives
from jscan.kernels import forms, logaddexp_strips
from jscan.kernels.description import Scan
from jscan.kernels.tuning import (
    Rows,
    Shape,
    Tuning,
    by_one_warp,
    down_lanes,
    folded,
    sums_walks,
)
from tests import reference
from tests.cases import head_flags
from tests.kernels.test_held import by_kernel, run
from tests.kernels.test_logaddexp import nothing

FOLDED = {
    "by 4": Tuning(256, 1, 1, 32, fold=4),
    "by 8": Tuning(512, 1, 1, 32, fold=8),
    "by 16, two warps": Tuning(1024, 1, 2, 64, fold=16),
}
every_way = pytest.mark.parametrize(
    ("reverse", "exclusive"), [(False, False), (True, False), (False, True), (True, True)]
)


def check(found: Any, x: np.ndarray, flags: np.ndarray | None, axis: int, **way: bool) -> None:
    """Compares with a loop, each rounding of whose results is one of the result's dtype."""
    wide = x.astype(np.float64)
    heads = flags
    if flags is not None and flags.ndim < x.ndim:
        tall = flags[:, None] if axis == 0 else flags
        heads = np.broadcast_to(tall, x.shape)
    want = reference.scan(np.logaddexp, wide, axis=axis, flags=heads, identity=-np.inf, **way)
    eps = float(jnp.finfo(found.dtype).eps)
    assert (np.isneginf(found.astype(np.float64)) == np.isneginf(want)).all()
    finite = ~np.isneginf(want)
    error = np.abs(found.astype(np.float64)[finite] - want[finite])
    assert (error <= 8 * max(eps, 2.0**-22) * (1 + np.abs(want[finite]))).all()


@pytest.mark.parametrize("segmented", [None, "own", "shared", "bits"])
@pytest.mark.parametrize(("shape", "dtype"), [((1, 2048), "bfloat16"), ((3, 701), "float32")])
@pytest.mark.parametrize("cut", FOLDED)
@every_way
@by_kernel
def test_neighbours_are_summed(
    monkeypatch, strategy, cut, shape, dtype, segmented, reverse, exclusive
):
    if not strategy.gpu:
        monkeypatch.setattr(Scan, "tile_scan", nothing)
        jax.clear_caches()
    x = np.random.default_rng(shape[1]).normal(size=shape).astype(jnp.dtype(dtype))
    flags: Any = None
    heads: Any = None
    if segmented:
        flags = heads = head_flags(shape if segmented == "own" else shape[1:], share=0.05)
    if segmented == "bits":
        heads = jscan.Segments.from_packed(np.packbits(flags, bitorder="little"), shape[1])

    def call(x: Any) -> Any:
        way = {"reverse": reverse, "exclusive": exclusive}
        return jscan.cumlogsumexp(x, axis=1, segments=heads, method="lookback", **way)

    found = run(strategy, FOLDED[cut], call, x)
    check(found, x, flags, 1, reverse=reverse, exclusive=exclusive)


# The axis in a part that threads walk, or in tiles of strips that are read twice.
STRIPS = {
    "walked": Tuning(72, 64, 1, 1, strip=8),
    "walked, read ahead": Tuning(80, 64, 1, 1, strip=16, ahead=True),
    "read twice": Tuning(32, 64, 1, 2, strip=8),
}


@pytest.mark.parametrize("segmented", [None, "own", "shared"])
@pytest.mark.parametrize("dtype", ["float16", "float32"])
@pytest.mark.parametrize("cut", STRIPS)
@every_way
@by_kernel
def test_strips_are_summed(monkeypatch, strategy, cut, dtype, segmented, reverse, exclusive):
    made = []
    scan_part = logaddexp_strips.scan_part

    def noted(*told: Any, **how: Any) -> None:
        made.append(told)
        scan_part(*told, **how)

    monkeypatch.setattr(logaddexp_strips, "scan_part", noted)
    jax.clear_caches()
    shape = (70, 128)
    x = np.random.default_rng(5).normal(size=shape).astype(dtype)
    flags = None
    if segmented:
        flags = head_flags(shape if segmented == "own" else shape[:1], share=0.1)

    def call(x: Any) -> Any:
        way = {"reverse": reverse, "exclusive": exclusive}
        return jscan.cumlogsumexp(x, axis=0, segments=flags, **way)

    found = run(strategy, STRIPS[cut], call, x)
    assert bool(made) == (cut == "read twice" or not segmented)
    check(found, x, flags, 0, reverse=reverse, exclusive=exclusive)


def test_steep_strips_are_scanned_with_the_operator():
    x = np.random.default_rng(6).normal(size=(70, 128)).astype(np.float32) * 90
    x[:5, 3] = -np.inf
    for cut in STRIPS.values():
        with primitives.interpreted(), primitives.tiled(cut):
            found = np.asarray(jscan.cumlogsumexp(x, axis=0))
        check(found, x, None, 0)


def logarithms(outer: int, n: int, inner: int, width: int, *, segmented: bool = False) -> Shape:
    """A shape under logaddexp."""
    how: dict[str, Any] = {"segmented": segmented, "equations": 12, "long_steps": True}
    return Shape(outer, n, inner, width=width, leaves=1, logaddexp=True, **how)


@pytest.mark.parametrize(
    ("shape", "rows", "expected"),
    [
        (logarithms(1, 64102400, 1, 2), Rows(50257, reverse=True), (1024, 8)),
        (logarithms(1, 64102400, 1, 2), Rows(50257), (1024, 16)),
        (logarithms(1024, 51200, 1, 2), Rows(), None),
        (logarithms(1, 69322400, 1, 2), Rows(), None),
        (logarithms(1, 69322400, 1, 2, segmented=True), Rows(flags=1), (1024, 8)),
        (logarithms(1024, 36620, 1, 2, segmented=True), Rows(flags=1), None),
        (logarithms(1, 64102400, 1, 4, segmented=True), Rows(3277, flags=1), (512, 8)),
        (logarithms(1, 64102400, 1, 4), Rows(6081, reverse=True), (1024, 8)),
        (logarithms(1, 64102400, 1, 8), Rows(6081, reverse=True), None),
        (logarithms(1, 64102400, 1, 8, segmented=True), Rows(6081, flags=1), (512, 8)),
        (logarithms(1, 64102400, 1, 8, segmented=True), Rows(flags=1), (1024, 8)),
    ],
)
def test_rows_are_folded_where_that_is_faster(shape, rows, expected):
    chosen = Tuning(2048, 1, 1, 32)
    cut = folded(shape, chosen, rows)
    assert (cut.length, cut.fold) == (expected or (2048, 0))
    other = dataclasses.replace(shape, logaddexp=False)
    assert folded(other, chosen, rows) == chosen  # under another operator of long steps


def test_whole_rows_of_halves_take_one_warp():
    chosen = Tuning(2048, 1, 2, 1)
    assert by_one_warp(logarithms(49152, 1180, 1, 2), chosen) == Tuning(2048, 1, 1, 1)
    for other in (logarithms(49152, 1180, 1, 4), logarithms(100, 1180, 1, 2)):
        assert by_one_warp(other, chosen) is chosen


BEGINNINGS = {
    "walked": Tuning(72, 64, 1, 1, strip=8),
    "read twice": Tuning(32, 64, 1, 2, strip=8),
    "tiles": Tuning(8, 64, 1, 2),
    "folded": Tuning(256, 1, 1, 32, fold=4),
    "a row": Tuning(256, 1, 1, 32),
}


@pytest.mark.parametrize("reverse", [False, True])
@pytest.mark.parametrize("cut", BEGINNINGS)
@by_kernel
def test_what_begins_with_nothing_is_behind_what_came_before(strategy, cut, reverse):
    """Of an exclusive scan, whose first place in a tile has what came before it alone."""
    lanes = cut not in ("folded", "a row")
    n, first = (70, 7) if lanes else (600, 255)
    x = np.full((n, 64) if lanes else (n,), 50, np.float32)
    x[:first], x[first] = -100, -np.inf
    x = x[::-1].copy() if reverse else x
    how = {"exclusive": True, "reverse": reverse}
    found = run(strategy, BEGINNINGS[cut], lambda x: jscan.cumlogsumexp(x, axis=0, **how), x)
    check(found, x, None, 0, **how)


def test_lanes_that_are_walked_are_summed_in_strips():
    words = down_lanes(logarithms(1, 512, 2**18, 4))
    assert words is not None
    assert (words.lanes, words.strip) == (64, 8)
    halves = down_lanes(logarithms(1, 256, 2**19, 2))
    assert halves is not None
    assert halves.strip == 16
    assert sums_walks(512, 100277, 4)
    assert not sums_walks(167, 293431, 4)
    by_segments = down_lanes(logarithms(1, 256, 2**19, 2, segmented=True))
    assert by_segments is not None
    assert by_segments.strip == 8


FEW = [
    ((2, 70), None),
    ((2, 70), "own"),
    ((3, 70), "shared"),
    ((8, 33), "own"),
    ((60, 2), "own"),
    ((40, 5), "shared"),
]


@pytest.mark.parametrize("dtype", ["bfloat16", "float32"])
@pytest.mark.parametrize(("shape", "segmented"), FEW)
@every_way
@by_kernel
def test_few_positions_are_combined_one_by_one(
    monkeypatch, strategy, shape, dtype, segmented, reverse, exclusive
):
    if not strategy.gpu:
        for name in ("LinearTile", "SegmentedLinearTile"):
            monkeypatch.delattr(forms, name)
        jax.clear_caches()
    axis = int(shape[0] > shape[1])
    x = np.random.default_rng(6).normal(size=shape).astype(jnp.dtype(dtype))
    x[0, 0] = -np.inf
    flags: Any = None
    if segmented:
        own = segmented == "own"
        flags = head_flags(shape if own else shape[axis : axis + 1], share=0.3)

    def call(x: Any) -> Any:
        way = {"reverse": reverse, "exclusive": exclusive, "method": "block"}
        return jscan.cumlogsumexp(x, axis=axis, segments=flags, **way)

    found = run(strategy, None, call, x)
    check(found, x, flags, axis, reverse=reverse, exclusive=exclusive)
