"""The scan in two passes: what is its own, besides what every engine is tested for."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import jscan
from jscan import operators, primitives
from jscan.kernels import tuning
from tests.kernels.test_lowering import TRITON, cuda_program

SMALL = tuning.Tuning(length=64, lanes=1, warps=1, window=4, strip=16)


@pytest.fixture
def small_parts():
    """Parts of 64 positions in strips of 16, interpreted."""
    with primitives.interpreted(), primitives.tiled(SMALL):
        yield


@pytest.mark.usefixtures("small_parts")
def test_totals_of_boolean_leaves():
    """A total that is read back is a byte."""
    x = np.random.default_rng(0).integers(0, 2, 300).astype(bool)

    def latest(a, b):
        return a[0] | b[0], jnp.where(b[0], b[1], a[1])

    seen, place = jscan.associative_scan(latest, (x, np.arange(300)), method="reduce_then_scan")
    np.testing.assert_array_equal(seen, np.logical_or.accumulate(x))
    np.testing.assert_array_equal(place, np.maximum.accumulate(np.where(x, np.arange(300), 0)))


@pytest.mark.usefixtures("small_parts")
@pytest.mark.parametrize("reverse", [False, True])
def test_parts_of_lanes_rows_and_segments(reverse):
    rng = np.random.default_rng(1)
    x, flags = rng.integers(-9, 9, (2, 200, 3)), rng.random(200) < 0.05
    sums = np.asarray(jscan.cumsum(x, 1, reverse, segments=flags, method="reduce_then_scan"))
    starts = np.flatnonzero(flags | (np.arange(200) == 0))
    for rows in np.split(np.arange(200), starts[1:]):
        part = x[:, rows]
        want = part[:, ::-1].cumsum(1)[:, ::-1] if reverse else part.cumsum(1)
        np.testing.assert_array_equal(sums[:, rows], want)


@pytest.mark.usefixtures("small_parts")
def test_a_reduction_by_resident_programs():
    ids = np.sort(np.random.default_rng(2).integers(0, 9, 300))
    sums = jscan.segment_sum(np.arange(300), ids, 9, True, method="reduce_then_scan")
    np.testing.assert_array_equal(sums, np.bincount(ids, np.arange(300), 9))


def test_the_program_reads_twice_and_has_no_state():
    """Totals of parts, a scan of the totals, and the scan: no words to fill."""
    x = jax.ShapeDtypeStruct((2**20,), jnp.float32)
    program = cuda_program(lambda x: jscan.cumsum(x, method="reduce_then_scan"), x)
    assert len([line for line in program.splitlines() if TRITON in line]) == 3
    assert "jscan_lookback" not in program


@pytest.mark.gpu
def test_twenty_runs_give_the_same_bits():
    n = 2**24
    x = jax.random.normal(jax.random.key(0), (n,))
    flags = jax.random.uniform(jax.random.key(1), (n,)) < 0.01
    a = jnp.cos(x)

    @jax.jit
    def run(x, a, flags):
        method = "reduce_then_scan"
        affine = jscan.associative_scan(operators.affine, (a, x), method=method)
        sums = jscan.cumsum(x, method=method), jscan.cumsum(x, segments=flags, method=method)
        return *affine, *sums

    first = run(x, a, flags)
    for _ in range(20):
        for one, other in zip(first, run(x, a, flags), strict=True):
            assert one.tobytes() == other.tobytes()
