"""The table of times until calls are compiled."""

from __future__ import annotations

import time

import jax
import jax.numpy as jnp
import pytest

import jscan
from benchmarks.measuring import machine, overhead
from benchmarks.tools import compile_times


@pytest.mark.skipif(not compile_times.engines_here(), reason="no engine is installed")
def test_a_process_tells_its_times():
    engine = compile_times.engines_here()[0]
    found = compile_times.measured(engine)
    states = ("cold", "warm", "stored") if machine.has_gpu() else ("cold", "warm")
    calls = [f"{pair.name}/{state}" for pair in overhead.COMPILED for state in states]
    assert set(found) == {"import jscan", "first", *calls}
    assert min(found.values()) > 0


def test_medians_and_lines():
    runs = [{"first": took, "sum/cold": 10 * took, "sum/warm": took} for took in (3.0, 1.0, 2.0)]
    assert compile_times.medians(runs) == {"first": 2.0, "sum/cold": 20.0, "sum/warm": 2.0}
    lines = [*compile_times.rows({"a": runs[0], "b": runs[1]})]
    assert lines == [["first", "3", "1"], ["sum", "30, 3", "10, 1"]]


@pytest.mark.parametrize(("side", "scan", "gradient"), [(3, 5.0, 15.0), (4, 15.0, 60.0)])
def test_scans_of_small_products_compile_in_seconds(side, scan, gradient):
    """A tree of unrolled products would take minutes on a CPU. Other processes do not count."""
    x = jax.ShapeDtypeStruct((2**20, side, side), jnp.float32)

    def products(x):
        return jscan.associative_scan(jnp.matmul, x)

    def pulled_back(x, cotangent):
        return jax.vjp(products, x)[1](cotangent)

    for call, operands, allowed in ((products, [x], scan), (pulled_back, [x, x], gradient)):
        start = time.process_time()
        jax.jit(call).lower(*operands).compile()
        assert time.process_time() - start < allowed
