"""JAX's persistent compilation cache takes no partitioned program for another."""

from __future__ import annotations

import gc
import re

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


every_layout = pytest.mark.parametrize("entries", [("a",), (None, "a")], ids=["rows", "axis"])
ROWS = np.random.default_rng(0).uniform(0.5, 1.5, (8, 16))


@every_layout
def test_programs_of_two_operators_differ_in_more_than_an_address(entries):
    """What a program says of a callback is an address, which a later one may have."""
    operand = placed(ROWS, mesh_of(8), *entries)
    texts = set()
    for function, _ in PAIRS:
        text = jax.jit(lambda x, function=function: function(x, 1)).lower(operand).as_text()
        without, count = re.subn(r'backend_config = "\d+"', "", text)
        assert count == 1
        texts.add(without)
    assert len(texts) == len(PAIRS)


@pytest.mark.usefixtures("cache")
def test_each_operator_has_its_own_program():
    operand = placed(ROWS, mesh_of(8), None, "a")
    for number in range(8):
        function, expected = PAIRS[number % len(PAIRS)]
        found = jax.jit(lambda x, function=function: function(x, 1))(operand)
        np.testing.assert_allclose(found, expected(ROWS, axis=1))
        gc.collect()
