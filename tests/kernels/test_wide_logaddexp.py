"""logaddexp of float64, whose maximum is found by halves of numbers."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import jax
import numpy as np
import pytest

import jscan
from jscan import primitives
from jscan.kernels.description import Scan
from jscan.kernels.terms import LinearAggregates
from jscan.kernels.tuning import Tuning
from tests import reference
from tests.cases import head_flags
from tests.kernels.test_held import by_kernel, run
from tests.kernels.test_logaddexp import nothing

CUTS = {
    "as they are": ((700,), Tuning(256, 1, 1, 32)),
    "four warps": ((1100,), Tuning(512, 1, 4, 128)),
    "folded": ((1100,), Tuning(512, 1, 1, 32, fold=8)),
    "folded by two warps": ((2100,), Tuning(1024, 1, 2, 64, fold=8)),
    "lanes": ((70, 9), Tuning(32, 8, 1, 16)),
}
every_way = pytest.mark.parametrize(
    ("reverse", "exclusive"), [(False, False), (True, False), (False, True), (True, True)]
)


def check(
    strategy: Any, cut: str, x: np.ndarray, flags: np.ndarray | None, **way: bool
) -> np.ndarray:
    """Compares with a loop; errors in units of what is largest, and of its terms' count."""

    def call(x: Any) -> Any:
        return jscan.cumlogsumexp(x, axis=0, segments=flags, method="lookback", **way)

    with jax.enable_x64(True), np.errstate(invalid="ignore"):
        found = run(strategy, CUTS[cut][1], call, x)
        want = reference.scan(np.logaddexp, x, axis=0, flags=flags, identity=-np.inf, **way)
    np.testing.assert_array_equal(np.isnan(found), np.isnan(want))
    np.testing.assert_array_equal(np.isinf(found), np.isinf(want))
    finite = np.isfinite(want)
    assert (found[~finite & ~np.isnan(want)] == want[~finite & ~np.isnan(want)]).all()
    error = np.abs(found[finite] - want[finite])
    assert (error <= 64 * 2.0**-52 * (1 + np.abs(want[finite]))).all()
    return found


@pytest.mark.parametrize("middle", [0.0, 5e6, -5e6])
@pytest.mark.parametrize("segmented", [False, True])
@pytest.mark.parametrize("cut", CUTS)
@every_way
@by_kernel
def test_ordinary_values_are_summed(
    monkeypatch, strategy, cut, segmented, middle, reverse, exclusive
):
    """Where upper halves of all numbers are the same, too."""
    if not strategy.gpu:
        monkeypatch.setattr(Scan, "tile_scan", nothing)
        jax.clear_caches()
    shape, _ = CUTS[cut]
    x = np.random.default_rng(3).normal(size=shape) + middle
    flags = head_flags(shape, share=0.05) if segmented else None
    check(strategy, cut, x, flags, reverse=reverse, exclusive=exclusive)


@pytest.mark.parametrize("size", [1e8, 1e300])
@pytest.mark.parametrize("segmented", [False, True])
@pytest.mark.parametrize("cut", ["as they are", "folded", "lanes"])
@every_way
@by_kernel
def test_far_values(strategy, cut, segmented, size, reverse, exclusive):
    shape, _ = CUTS[cut]
    x = np.random.default_rng(4).normal(size=shape) * size
    x[5:9] = -np.inf
    flags = head_flags(shape, share=0.05) if segmented else None
    check(strategy, cut, x, flags, reverse=reverse, exclusive=exclusive)


@pytest.mark.parametrize("bad", [np.nan, -np.nan, np.inf])
@pytest.mark.parametrize("before", [-1.5, -np.inf])
@pytest.mark.parametrize("cut", CUTS)
@by_kernel
def test_what_is_no_finite_number(strategy, cut, before, bad):
    shape, _ = CUTS[cut]
    rng = np.random.default_rng(5)
    x = np.full(shape, before)
    x[: shape[0] // 3] = rng.normal(size=(shape[0] // 3, *shape[1:]))
    x[shape[0] // 2] = np.copysign(bad, 1 if bad == np.inf else bad)
    flags = head_flags(shape, share=0.02)
    flags[shape[0] // 2 - 1] = False
    for segments in (None, flags):
        check(strategy, cut, x, segments)
    check(strategy, cut, x, flags, reverse=True)


@pytest.mark.parametrize("reverse", [False, True])
@pytest.mark.parametrize("nan", [np.nan, -np.nan])
@pytest.mark.parametrize("cut", CUTS)
@by_kernel
def test_what_is_no_number_beside_infinity(strategy, cut, nan, reverse):
    """In one tile, whose total is no number for those behind it."""
    shape, _ = CUTS[cut]
    x = np.zeros(shape)
    middle = shape[0] // 2
    x[middle], x[middle + 1] = (nan, np.inf) if reverse else (np.inf, nan)
    found = check(strategy, cut, x, None, reverse=reverse)
    assert np.isnan(found[0 if reverse else -1]).all()


@pytest.mark.parametrize("bad", [(np.inf, np.nan), (-np.nan, np.inf), (-np.nan, -np.inf)])
def test_windows_of_totals_tell_what_is_no_number(bad):
    """Of 32 totals, which are folded by halves."""
    values = np.full(32, -1.0)
    values[[3, 7]] = bad
    scan: Any = SimpleNamespace(dtypes=(np.dtype(np.float64),), operator=None)
    rule = LinearAggregates(scan)
    with jax.enable_x64(True), primitives.interpreted():
        assert np.isnan(jax.jit(rule.fold)(values))
