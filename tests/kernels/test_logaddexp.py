"""logaddexp as a sum of exponentials: which tiles are summed so, and what they come to.

Of complex numbers the reference is a sum of exponentials in complex128, one after the other, behind
the largest real part so far. Results are compared by their exponentials, since logarithms are known
up to multiples of 2 pi.
"""

from __future__ import annotations

import functools
import itertools

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import jscan
from jscan import primitives
from jscan.kernels import logaddexp, phasors, scanning, tuning
from jscan.kernels.description import Scan
from tests import reference
from tests.cases import head_flags
from tests.kernels.test_held import by_kernel, run
from tests.kernels.test_lowering import cuda_program


def nothing(scan, leaves):
    """Stands for the scan by the operator itself, which no tile here should need."""
    del scan
    return [jnp.full_like(x, np.nan if x.dtype.kind == "f" else 0) for x in leaves]


@pytest.mark.parametrize(
    ("method", "shape", "segmented", "exclusive"),
    [
        # By default half of the cases, which show every pair of values.
        pytest.param(
            method,
            shape,
            segmented,
            exclusive,
            marks=[pytest.mark.thorough] if (number + segmented + exclusive) % 2 else [],
        )
        for number, (method, shape) in enumerate((("block", (3, 52)), ("lookback", (2, 96))))
        for segmented in (False, True)
        for exclusive in (False, True)
    ],
)
def test_ordinary_values_are_summed_as_exponentials(
    monkeypatch, method, shape, segmented, exclusive
):
    monkeypatch.setattr(Scan, "tile_scan", nothing)
    rng = np.random.default_rng(5)
    x = rng.normal(size=shape).astype(np.float32)
    flags = rng.random(shape) < 0.1 if segmented else None
    tile = tuning.Tuning(length=64 if method == "block" else 16, lanes=1, warps=1, window=4)
    for reverse in (False, True):
        how = {"reverse": reverse, "exclusive": exclusive}
        with primitives.interpreted(), primitives.tiled(tile):
            found = jscan.cumlogsumexp(x, axis=1, segments=flags, method=method, **how)
        for row, result in enumerate(found):
            own = None if flags is None else flags[row]
            want = reference.scan(np.logaddexp, x[row], flags=own, identity=-np.inf, **how)
            np.testing.assert_allclose(result, want, rtol=2e-6, atol=2e-6)


# complex numbers


def phases(rng, shape, spread):
    """Numbers of any phase, whose exponentials are spread over so many powers of e."""
    re, im = rng.normal(size=shape) * spread, rng.uniform(-9, 9, shape)
    return (re + 1j * im).astype(np.complex64)


def signs(rng, shape, spread):
    """Logarithms of numbers of either sign, which cancel."""
    re = rng.normal(size=shape) * spread
    return (re + 1j * np.pi * (rng.random(shape) < 0.5)).astype(np.complex64)


def falling(rng, shape, spread):
    """Numbers of any phase that begin 120 below the last ones, which come in the same tile."""
    slope = np.linspace(-120, 0, shape[-1])
    return (phases(rng, shape, spread) + slope).astype(np.complex64)


def sums(x, flags, reverse, exclusive):
    """The largest real part so far, and the sum of exponentials beside it, element by element."""
    flags = np.zeros(len(x), bool) if flags is None else flags
    order = range(len(x))[::-1] if reverse else range(len(x))
    largest, total, found = -np.inf, 0j, [(0.0, 0j)] * len(x)
    for t in order:
        restarts = flags[t] and not reverse
        if restarts:
            largest, total = -np.inf, 0j
        before = (largest, total)
        element = x[t].astype(np.complex128)
        higher = max(largest, element.real)
        if higher > -np.inf:
            total = total * np.exp(largest - higher) + np.exp(element - higher)
        largest = higher
        found[t] = before if exclusive else (largest, total)
        if flags[t] and reverse:
            largest, total = -np.inf, 0j
    return map(np.array, zip(*found, strict=True))


def assert_logarithms(y, x, flags, reverse, exclusive):
    """Compares by exponentials, beside the largest one so far."""
    largest, total = sums(x, flags, reverse, exclusive)
    assert (np.isneginf(y.real) == np.isneginf(largest)).all()
    largest = np.where(np.isneginf(largest), 0, largest)
    found = np.exp(y.astype(np.complex128) - largest)
    # An exponential is off by what its logarithm is: by what 4 roundings of it are, of a few terms.
    error = 4 * np.finfo(y.real.dtype).eps * (8 + np.abs(largest)) * np.sqrt(len(x))
    assert (np.abs(found - total) <= error).all()


CUTS = {
    "one tile": tuning.Tuning(length=32, lanes=1, warps=1, window=4),
    "tiles": tuning.Tuning(length=8, lanes=1, warps=1, window=4),
}


SHOWN = (
    ("one tile", False, False, False),
    ("tiles", False, True, True),
    ("tiles", True, False, True),
    ("one tile", True, True, False),
)


def scanned(x, flags, cut, axis=1, **how):
    """The scan by kernels, interpreted."""
    with primitives.interpreted(), primitives.tiled(cut):
        return np.asarray(jscan.cumlogsumexp(x, axis=axis, segments=flags, **how))


@pytest.mark.parametrize(
    ("cut", "segmented", "reverse", "exclusive"),
    [
        # By default a quarter of the cases, in which forms meet each other and both cuts.
        pytest.param(cut, *case, marks=[] if (cut, *case) in SHOWN else [pytest.mark.thorough])
        for cut in CUTS
        for case in itertools.product((False, True), repeat=3)
    ],
)
def test_complex_exponentials_are_summed(cut, segmented, reverse, exclusive):
    rng = np.random.default_rng(7)
    x = np.concatenate([kind(rng, (1, 30), 2.0) for kind in (phases, signs, falling)])
    x[0, 5], x[1, :2], x[1, -1] = -np.inf, -np.inf, -np.inf
    flags = rng.random(x.shape) < 0.1 if segmented else None
    found = scanned(x, flags, CUTS[cut], reverse=reverse, exclusive=exclusive)
    for row, y in enumerate(found):
        own = None if flags is None else flags[row]
        assert_logarithms(y, x[row], own, reverse, exclusive)


@pytest.mark.parametrize("segmented", [False, True], ids=["whole", "segments"])
def test_ordinary_complex_values_need_no_operator(monkeypatch, segmented):
    monkeypatch.setattr(Scan, "tile_scan", nothing)
    rng = np.random.default_rng(6)
    x = np.concatenate([phases(rng, (1, 37), 1.0), signs(rng, (1, 37), 1.0)])
    flags = rng.random(x.shape) < 0.1 if segmented else None
    found = scanned(x, flags, CUTS["tiles"])
    for row, y in enumerate(found):
        own = None if flags is None else flags[row]
        assert_logarithms(y, x[row], own, False, False)


@pytest.mark.parametrize("segmented", [False, True], ids=["whole", "segments"])
def test_complex_exponentials_are_summed_beside_lanes(segmented):
    rng = np.random.default_rng(8)
    x = phases(rng, (26, 6), 2.0)
    flags = rng.random(x.shape) < 0.1 if segmented else None
    cut = tuning.Tuning(length=8, lanes=8, warps=1, window=2)
    found = scanned(x, flags, cut, axis=0)
    for lane in range(x.shape[1]):
        own = None if flags is None else flags[:, lane]
        assert_logarithms(found[:, lane], x[:, lane], own, False, False)


def test_wide_complex_exponentials_are_summed():
    with jax.enable_x64(True):
        x = phases(np.random.default_rng(9), (1, 40), 3.0).astype(np.complex128)
        [found] = scanned(x, None, CUTS["tiles"])
        assert found.dtype == np.complex128
        assert_logarithms(found, x[0], None, False, False)


@pytest.mark.sweep
@pytest.mark.parametrize("cut", CUTS)
@pytest.mark.parametrize(
    "bad", [complex(np.nan, 0), complex(0, np.nan), complex(np.inf, 1), complex(0, np.inf)]
)
def test_what_is_no_complex_number_stays_so_to_the_end_of_its_segment(bad, cut):
    x = phases(np.random.default_rng(10), (1, 30), 1.0)
    x[0, 10] = bad
    flags = np.arange(30)[None] == 19
    [found] = scanned(x, flags, CUTS[cut])
    assert np.isnan(found[11:19].real).all()
    assert np.isnan(found[11:19].imag).all()
    part = np.r_[0:10, 19:30]
    assert_logarithms(found[part], x[0, part], flags[0, part], False, False)


def test_gradients_of_complex_numbers_are_those_of_the_sum():
    x = phases(np.random.default_rng(11), (1, 40), 1.0)

    def real_part(scan):
        return jax.grad(lambda x: jnp.sum(jnp.real(scan(x))))(x)

    with primitives.interpreted(), primitives.tiled(CUTS["tiles"]):
        found = real_part(functools.partial(jscan.cumlogsumexp, axis=1))
    want = real_part(lambda x: jnp.log(jnp.cumsum(jnp.exp(x), 1)))
    np.testing.assert_allclose(found, want, rtol=1e-4, atol=1e-4)


INF, NAN = np.inf, np.nan
SPECIAL = [-INF, 1 + 7j, complex(1, -np.pi), INF, complex(INF, 1), NAN, 5, complex(0, NAN)]
SPECIAL += [complex(0, INF), complex(-INF, NAN)]


def test_the_operator_of_complex_numbers_is_logaddexp():
    """But that nothing and nothing is nothing, where ``jnp.logaddexp`` has NaN."""
    x, y = (a.ravel() for a in np.meshgrid(*[np.array(SPECIAL, np.complex64)] * 2))
    re, im = jax.jit(jax.vmap(phasors.combined))(x.real, x.imag, y.real, y.imag)
    want = np.where((x == -np.inf) & (y == -np.inf), -np.inf, jnp.logaddexp(x, y))
    bad = np.isnan(want)
    assert np.isnan(re[bad]).all()
    assert np.isnan(im[bad]).all()
    np.testing.assert_allclose(re[~bad], want.real[~bad], rtol=1e-6, atol=1e-6)
    np.testing.assert_allclose(im[~bad], want.imag[~bad], rtol=1e-6, atol=1e-6)


def test_the_operator_of_complex_numbers_is_exact():
    rng = np.random.default_rng(12)
    x, y = (phases(rng, (4096,), 3.0) for _ in "xy")
    x.imag *= 100
    x, y = np.r_[x, x], np.r_[y, x.conj() + 1j * np.float32(np.pi)]
    re, im = jax.jit(jax.vmap(phasors.combined))(x.real, x.imag, y.real, y.imag)
    wide, other = x.astype(np.complex128), y.astype(np.complex128)
    largest = np.maximum(wide.real, other.real)
    found = np.exp(np.float64(re) + 1j * np.float64(im) - largest)
    want = np.exp(wide - largest) + np.exp(other - largest)
    # Beside the larger one, whose logarithm is below 16 and whose phase is off by two roundings.
    assert np.abs(found - want).max() < 16 * np.finfo(np.float32).eps
    assert (np.abs(im) <= np.float32(np.pi)).all()


# Tiles that are too steep for a sum of exponentials.

STEEP = {
    "one row": ((600,), "float32", tuning.Tuning(256, 1, 1, 32)),
    "rows inside of words": ((2, 601), "float16", tuning.Tuning(256, 1, 1, 32)),
    "few lanes": ((150, 5), "float64", tuning.Tuning(64, 8, 4, 16)),
    "lanes": ((70, 33), "bfloat16", tuning.Tuning(16, 32, 1, 2)),
    "a few lanes": ((70, 16), "float32", tuning.Tuning(16, 16, 1, 2)),
    "complex": ((600,), "complex64", tuning.Tuning(256, 1, 1, 32)),
    "folded": ((1100,), "float32", tuning.Tuning(512, 1, 1, 32, fold=4)),
    "folded inside of words": ((2, 701), "float16", tuning.Tuning(512, 1, 1, 32, fold=8)),
    "read twice": ((70, 64), "bfloat16", tuning.Tuning(32, 64, 1, 2, strip=8)),
}


@pytest.mark.parametrize("segmented", [None, "own", "shared"])
@pytest.mark.parametrize("reverse", [False, True])
@pytest.mark.parametrize("exclusive", [False, True])
@pytest.mark.parametrize("kind", STEEP)
@by_kernel
def test_steep_tiles_are_scanned_by_strips(
    monkeypatch, strategy, kind, segmented, reverse, exclusive
):
    made = []
    strips = logaddexp._strips

    def noted(*told):
        made.append(strips(*told))
        return made[-1]

    monkeypatch.setattr(logaddexp, "_strips", noted)
    jax.clear_caches()
    shape, dtype, cut = STEEP[kind]
    axis, rng = 0 if shape[0] > 2 else 1, np.random.default_rng(3)
    x = rng.normal(size=shape) * 60
    x[rng.random(shape) < 0.05] = -np.inf
    wide = x + 1j * rng.uniform(-3, 3, shape) if dtype == "complex64" else x
    x = wide.astype(jnp.dtype(dtype))
    wide = x.astype(wide.dtype)
    flags = None
    if segmented:
        flags = head_flags(shape if segmented == "own" else shape[axis : axis + 1], share=0.05)

    def call(x):
        how = {"reverse": reverse, "exclusive": exclusive, "method": "lookback"}
        return jscan.cumlogsumexp(x, axis=axis, segments=flags, **how)

    with jax.enable_x64(dtype == "float64"):
        found = run(strategy, cut, call, x)
    assert made
    assert None not in made

    def by_lines(values):
        """Each line along the axis."""
        return np.moveaxis(values, axis, 0).reshape(shape[axis], -1).T

    lines, results = by_lines(wide), by_lines(found.astype(wide.dtype))
    heads = by_lines(flags) if segmented == "own" else [flags] * len(lines)
    eps = float(jnp.finfo(found.dtype).eps)
    for line, result, own in zip(lines, results, heads, strict=True):
        largest, expected = sums(line, own, reverse, exclusive)
        below = np.where(np.isneginf(largest), 0.0, largest)
        bound = 8 * eps * (8 + np.abs(below)) * np.maximum(1, np.abs(expected))
        actual = np.exp(result.astype(np.complex128) - below)
        reference.assert_within(actual, expected, bound)


@pytest.mark.parametrize("n", [7, 13])
def test_a_start_reaches_behind_the_first_strip(n):
    """The first strip has all places that a start reaches, however few positions a tile has."""
    x = np.full((n, 200), -200.0, np.float32)
    x[-1], x[3] = 0, 300
    flags = np.arange(n) == 0

    def call(x):
        heads, start = jnp.asarray(flags), np.float32(5)
        return jscan.cumlogsumexp(
            x, axis=0, segments=heads, init=start, reverse=True, exclusive=True
        )

    with primitives.interpreted():
        found = np.asarray(jax.jit(call)(x))
    expected = [300.0] * 3 + [np.logaddexp(5, 0)] * (n - 4) + [5.0]
    np.testing.assert_allclose(found, np.broadcast_to(np.c_[expected], x.shape), rtol=1e-6)


@pytest.mark.parametrize("lanes", [5, 16, 17, 1000])
def test_reversed_tiles_of_many_lanes_are_held_in_scan_order(monkeypatch, lanes):
    geometries = []
    run_scan = scanning.run

    def noted(scan, *told):
        geometries.append(scan.geometry)
        return run_scan(scan, *told)

    monkeypatch.setattr(scanning, "run", noted)
    jax.clear_caches()
    x = jax.ShapeDtypeStruct((5000, lanes), jnp.float32)
    cuda_program(lambda x: jscan.cumlogsumexp(x, axis=0, reverse=True, method="lookback"), x)
    [geometry] = geometries
    assert geometry.reverse
    assert geometry.mirrored == (lanes > 16)


def test_a_result_has_the_rounding_of_the_largest_of_its_tile():
    x = np.full((512,), -50, np.float32)
    x[[0, 20]] = 0.1, 60.0
    with primitives.interpreted(), primitives.tiled(tuning.Tuning(256, 1, 1, 32)):
        found = jscan.cumlogsumexp(x, method="lookback")
    assert abs(float(found[0]) - 0.0999986) < 2e-7  # as the documentation says
    assert float(found[20]) == 60.0
