"""Names of partitioned programs: caches take none for another, and processes agree on them."""

from __future__ import annotations

import gc
import os
import re
import subprocess
import sys
from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import jscan
from tests.devices.layouts import mesh_of, placed
from tests.functions import affine

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
    gc.freeze()  # or what the tests before have left is walked through each time
    for number in range(8):
        function, expected = PAIRS[number % len(PAIRS)]
        found = jax.jit(lambda x, function=function: function(x, 1))(operand)
        np.testing.assert_allclose(found, expected(ROWS, axis=1))
        gc.collect()


@pytest.mark.skipif(
    not hasattr(jax.config, "jax_remove_custom_partitioning_ptr_from_cache_key"),
    reason="this jax keeps callbacks' addresses in its keys",
)
def test_a_program_that_is_compiled_again_is_found(cache):
    name = "jax_remove_custom_partitioning_ptr_from_cache_key"
    before = getattr(jax.config, name)
    jax.config.update(name, True)
    try:
        operand = placed(ROWS, mesh_of(8), None, "a")
        counts = []
        for _ in range(3):
            jax.clear_caches()
            jax.jit(lambda x: jscan.cumsum(x, 1))(operand)
            counts.append(len(list(cache.glob("*-cache"))))
    finally:
        jax.config.update(name, before)
    assert counts[0] > 0
    assert counts == counts[:1] * 3


def text_of(function):
    """What a function of an array is lowered to, without addresses."""
    operand = placed(ROWS, mesh_of(8), None, "a")
    return re.sub(r'backend_config = "\d+"', "", jax.jit(function).lower(operand).as_text())


def names_in(text):
    return re.findall(r'jscan_program = "(\w+)"', text)


def scan(operator, **options):
    return lambda x: jscan.associative_scan(operator, x, axis=1, **options)


def gradient(function):
    return jax.grad(lambda x: jnp.sum(jnp.sin(function(x))))


def with_loop(step):
    """A product whose derivative rule runs a loop."""

    @jax.custom_jvp
    def product(a, b):
        return a * b

    @product.defjvp
    def product_jvp(primals, tangents):
        (a, b), (da, db) = primals, tangents
        slope = jax.lax.fori_loop(0, 2, lambda _, c: step(c, a), b)
        return a * b, slope * da + a * db

    return product


FUNCTIONS = {
    "sum": scan(lambda a, b: a + b),
    "product": scan(lambda a, b: a * b),
    "another constant": scan(lambda a, b: a + b + 1.0),
    "a further constant": scan(lambda a, b: a + b + 2.0),
    "a sum, reversed": scan(lambda a, b: a + b, reverse=True),
    "an identity": scan(lambda a, b: a + b, exclusive=True, identity=0.0),
    "another identity": scan(lambda a, b: a + b, exclusive=True, identity=-0.0),
    "two leaves": lambda x: jscan.associative_scan(affine, (x, x), axis=1),
    "a reduction": lambda x: jscan.reduce(affine, (x, x), axis=1),
    "a derivative": gradient(scan(lambda a, b: a * b)),
    "a rule with a loop": gradient(scan(with_loop(jnp.add))),
    "a rule with another loop": gradient(scan(with_loop(jnp.maximum))),
}


def test_programs_that_differ_have_other_names():
    names = {name: tuple(names_in(text_of(function))) for name, function in FUNCTIONS.items()}
    assert all(names.values())
    assert len(set(names.values())) == len(FUNCTIONS)
    halves = text_of(lambda x: jscan.cumsum(x.astype(jnp.float32), 1))
    assert names_in(halves) != list(names["sum"])


def test_programs_that_are_the_same_have_one_name():
    same = [text_of(scan(lambda a, b: a * b)), text_of(scan(lambda c, d: c * d))]
    assert same[0] == same[1]


def test_processes_lower_to_one_text():
    """Processes that compile a program together compare its text."""
    program = (
        "import jax; jax.config.update('jax_num_cpu_devices', 8);"
        "from tests.devices.test_compilation_cache import FUNCTIONS, text_of;"
        "[print(text_of(function)) for function in FUNCTIONS.values()]"
    )
    root = Path(__file__).parents[2]
    started = [
        subprocess.Popen(
            [sys.executable, "-c", program],
            env={**os.environ, "PYTHONHASHSEED": seed, "JAX_PLATFORMS": "cpu"},
            cwd=root,
            stdout=subprocess.PIPE,
            text=True,
        )
        for seed in ("1", "2")
    ]
    texts = [process.communicate(timeout=600)[0] for process in started]
    assert len(names_in(texts[0])) >= len(FUNCTIONS)
    assert texts[0] == texts[1]
