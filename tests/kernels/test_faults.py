"""Scans where things go on around them: control flow, threads, little memory, a busy GPU."""

from __future__ import annotations

import concurrent.futures
import functools
import os
import subprocess
import sys

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax import lax
from jax.sharding import AxisType
from jax.sharding import PartitionSpec as P

import jscan
from jscan import operators
from jscan.arguments.choices import METHODS
from tests import reference

STRATEGIES = [m for m in METHODS if m not in ("auto", "xla", "block")]


def integers(n, seed=0):
    """What sums to no overflow worth a thought, and if it does, wraps."""
    return np.random.default_rng(seed).integers(-1000, 1000, n).astype(np.int32)


def sums(x, heads=None):
    """The sums by NumPy, which is a loop along the axis."""
    total = np.cumsum(x, dtype=np.int32)
    if heads is None:
        return total
    start = np.maximum.accumulate(np.where(heads, np.arange(len(x)), 0))
    return total - np.where(start > 0, total[np.maximum(start - 1, 0)], 0)


# --- inside other control flow ------------------------------------------------------------------


def scan_of_scans(cumsum, x):
    """Each row behind the last element of the row before."""

    def step(carry, row):
        y = cumsum(row) + carry
        return y[-1], y

    return lax.scan(step, x[0, 0] - x[0, 0], x)[1]  # varies over a mesh as the rows do


def while_of_scans(cumsum, x):
    """Sums of sums, until there are three of them."""
    return lax.while_loop(lambda c: c[1] < 3, lambda c: (cumsum(c[0]), c[1] + 1), (x, 0))[0]


def cond_of_scans(cumsum, x):
    """One branch scans and one does not."""
    return lax.map(lambda row: lax.cond(row[0] > 0, cumsum, lambda r: r, row), x)


def remade(cumsum, x):
    """A scan that is computed anew for its derivative."""
    return jax.grad(lambda x: jnp.sum(jax.checkpoint(cumsum)(x) ** 2))(x)


def test_inside_lax_scan(engine):
    x = integers((4, 65))
    found = jax.jit(lambda x: scan_of_scans(lambda r: jscan.cumsum(r, method=engine.method), x))(x)
    np.testing.assert_array_equal(found.reshape(-1), sums(x.reshape(-1)))


def test_inside_while_loop(engine):
    x = integers(65)
    found = jax.jit(lambda x: while_of_scans(lambda r: jscan.cumsum(r, method=engine.method), x))(x)
    np.testing.assert_array_equal(found, sums(sums(sums(x))))


def test_inside_cond(engine):
    x = integers((6, 65))
    found = jax.jit(lambda x: cond_of_scans(lambda r: jscan.cumsum(r, method=engine.method), x))(x)
    np.testing.assert_array_equal(found, [sums(row) if row[0] > 0 else row for row in x])


def test_computed_anew_for_a_derivative(engine):
    x = integers(65).astype(np.float64)
    found = jax.jit(lambda x: remade(lambda r: jscan.cumsum(r, method=engine.method), x))(x)
    y = np.cumsum(x)
    np.testing.assert_allclose(found, 2 * np.cumsum(y[::-1])[::-1], rtol=1e-12)


def test_inside_shard_map(engine):
    """Every device scans the rows that it has, in a loop."""
    devices = jax.devices()
    mesh = jax.make_mesh((len(devices),), ("rows",), axis_types=(AxisType.Auto,))
    x = integers((2 * len(devices), 3, 65))

    def local(x):
        return lax.map(
            lambda r: scan_of_scans(lambda s: jscan.cumsum(s, method=engine.method), r), x
        )

    found = jax.jit(jax.shard_map(local, mesh=mesh, in_specs=P("rows"), out_specs=P("rows")))(x)
    for got, row in zip(np.asarray(found), x, strict=True):
        np.testing.assert_array_equal(got.reshape(-1), sums(row.reshape(-1)))


def test_many_scans_in_one_program(engine):
    """Nothing orders them, so that a GPU may run several at once."""
    x = integers((8, 65))

    @jax.jit
    def run(rows):
        return [jscan.cumsum(r + i, method=engine.method) for i, r in enumerate(rows)]

    for i, (got, row) in enumerate(zip(run(list(x)), x, strict=True)):
        np.testing.assert_array_equal(got, sums(row + np.int32(i)))


# --- threads and launches -----------------------------------------------------------------------


def by_threads(method, calls, lengths):
    """Eight threads that trace, compile and run, of which several want the same program."""
    by_segment = jax.jit(lambda x, heads: jscan.cumsum(x, segments=heads, method=method))

    def work(number):
        wrong = 0
        for call in range(calls):
            n = lengths[(number + call) % len(lengths)]
            x, heads = integers(n, number), np.arange(n) % (7 + number) == 0
            plain = jscan.cumsum(x, method=method)
            segmented = by_segment(x, heads)
            a = (x | 1).astype(np.int32)
            _, last = jscan.associative_scan(operators.affine, (a[:50], x[:50]), method=method)
            wrong += not np.array_equal(plain, sums(x))
            wrong += not np.array_equal(segmented, sums(x, heads))
            want = reference.scan(lambda p, q: (p[0] * q[0], p[1] * q[0] + q[1]), (a[:50], x[:50]))
            wrong += not np.array_equal(last, want[1].astype(np.int32))
        return wrong

    with concurrent.futures.ThreadPoolExecutor(8) as pool:
        return list(pool.map(work, range(8)))


def test_eight_threads():
    assert by_threads("auto", 3, (50, 300)) == [0] * 8


@pytest.mark.gpu
@pytest.mark.parametrize("method", STRATEGIES)
def test_eight_threads_of_every_strategy(method):
    assert by_threads(method, 25, (100, 1001, 5000, 33_000, 2**20 + 1)) == [0] * 8


@pytest.mark.gpu
@pytest.mark.parametrize("segmented", [False, True])
@pytest.mark.parametrize("method", STRATEGIES)
def test_ten_thousand_launches(method, segmented):
    n = 2**20 + 1
    given = integers(n)
    marks = np.random.default_rng(1).random(n) < 1e-5 if segmented else None
    want = jnp.asarray(sums(given, marks))

    @jax.jit
    def launch(wrong, x, want, heads):
        different = jscan.cumsum(x, segments=heads, method=method) != want
        return wrong + jnp.any(different).astype(jnp.int32)

    wrong, x = jnp.zeros((), jnp.int32), jnp.asarray(given)
    heads = None if marks is None else jnp.asarray(marks)
    for _ in range(10_000):
        wrong = launch(wrong, x, want, heads)
    assert wrong == 0


BUSY = """
import jax, jax.numpy as jnp, sys
import jscan
x = jax.random.normal(jax.random.key(0), (4096, 4096))
y = jnp.ones(2**24, jnp.int32)
work = jax.jit(lambda x, y: ((x @ x) / 100, jscan.cumsum(y)[::-1] // 2**20 + 1))
work(x, y)[0].block_until_ready()
print("busy", flush=True)
while True:
    for _ in range(50):
        x, y = work(x, y)
    x.block_until_ready()
"""


@pytest.mark.gpu
def test_a_gpu_that_is_busy_with_another_process():
    """Its programs take turns with ours, so that tiles wait for tiles that do not run just then."""
    environment = {**os.environ, "XLA_PYTHON_CLIENT_PREALLOCATE": "false"}
    with subprocess.Popen(
        [sys.executable, "-c", BUSY], env=environment, stdout=subprocess.PIPE, text=True
    ) as other:
        try:
            assert other.stdout is not None
            assert other.stdout.readline().strip() == "busy"
            x = integers(2**22 + 1)
            want = jnp.asarray(sums(x))

            @functools.partial(jax.jit, static_argnums=2)
            def wrong(x, want, method):
                return jnp.sum(jscan.cumsum(x, method=method) != want)

            for method in STRATEGIES:
                assert [int(wrong(x, want, method)) for _ in range(50)] == [0] * 50
            assert other.poll() is None, "the other process ended early"
        finally:
            other.kill()


FULL = """
import jax, jax.numpy as jnp
import jscan
x = jnp.ones(2**27, jnp.int32)
held = []
for method in METHODS:
    try:
        while True:
            held.append(jscan.cumsum(x, method=method).block_until_ready())
    except jax.errors.JaxRuntimeError as error:
        assert "RESOURCE_EXHAUSTED" in str(error), error
    assert held
    held.clear()
    for n in (2**27, 1000):
        y = jscan.cumsum(x[:n], method=method)
        assert jnp.all(y == jnp.arange(1, n + 1, dtype=jnp.int32)), (method, n)
        del y
print("went on")
"""


@pytest.mark.gpu
def test_when_memory_runs_out_the_next_call_works():
    """JAX's own error comes up, from strategies of one kernel and of several."""
    memory = {"XLA_PYTHON_CLIENT_PREALLOCATE": "true", "XLA_PYTHON_CLIENT_MEM_FRACTION": "0.06"}
    # JAX waits ten seconds for memory before it gives up.
    program = FULL.replace("METHODS", repr(["auto", "chained", "scan_then_propagate"]))
    done = subprocess.run(
        [sys.executable, "-c", program],
        env={**os.environ, **memory},
        capture_output=True,
        text=True,
        timeout=600,
        check=False,
    )
    assert done.stdout.strip() == "went on", done.stderr[-2000:]
