"""JAX's persistent compilation cache takes no partitioned program for another."""

from __future__ import annotations

import gc

import jax
import numpy as np
import pytest

import jscan
from tests.devices.layouts import mesh_of, placed

PAIRS = (
    (jscan.cumsum, np.cumsum),
    (jscan.cumprod, np.cumprod),
    (jscan.cummax, np.maximum.accumulate),
    (jscan.cummin, np.minimum.accumulate),
)


@pytest.fixture
def cache(tmp_path):
    """An empty cache of compiled programs, for the length of a test."""
    names = (
        "jax_compilation_cache_dir",
        "jax_persistent_cache_min_compile_time_secs",
        "jax_persistent_cache_min_entry_size_bytes",
    )
    before = {name: getattr(jax.config, name) for name in names}
    reset = jax.experimental.compilation_cache.compilation_cache.reset_cache
    for name, value in zip(names, (str(tmp_path), 0, -1), strict=True):
        jax.config.update(name, value)
    reset()
    yield tmp_path
    for name, value in before.items():
        jax.config.update(name, value)
    reset()


@pytest.mark.usefixtures("cache")
@pytest.mark.parametrize("entries", [("a",), (None, "a")], ids=["rows", "axis"])
def test_each_operator_has_its_own_program(entries):
    """What a program says of a callback is an address, which a later one may have."""
    x = np.random.default_rng(0).uniform(0.5, 1.5, (8, 16))
    operand = placed(x, mesh_of(8), *entries)
    for number in range(40):
        function, expected = PAIRS[number % len(PAIRS)]
        found = jax.jit(lambda x, function=function: function(x, 1))(operand)
        np.testing.assert_allclose(found, expected(x, 1) if number % 4 < 2 else expected(x, axis=1))
        gc.collect()
