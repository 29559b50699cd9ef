"""logaddexp as a sum of exponentials: which tiles are summed so, and what they come to."""

from __future__ import annotations

import jax.numpy as jnp
import numpy as np
import pytest

import jscan
from jscan import primitives
from jscan.kernels import tuning
from jscan.kernels.description import Scan
from tests import reference


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
