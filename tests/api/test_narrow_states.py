"""Recurrences of bfloat16 and float16, whose states are float32 until they are written.

Against a loop in float64 on the same elements, every result is within half a unit in its last place
(one rounding) and what float32 adds up on the way, however the axis is cut: into tiles, chunks or
the parts of devices. A state of bfloat16 would be wrong by a rounding for each step that it
remembers: a hundred of them here.
"""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax.sharding import AxisType, NamedSharding
from jax.sharding import PartitionSpec as P

import jscan

N = 512
narrow = pytest.mark.parametrize("dtype", ["bfloat16", "float16"])


def operands(dtype):
    """Coefficients near one, which no step forgets, and positive terms, so that nothing cancels."""
    rng = np.random.default_rng(5)
    a, b = rng.uniform(0.97, 1.0, N), rng.uniform(0.5, 1.0, N)
    return jnp.asarray(a, dtype), jnp.asarray(b, dtype)


def loop(a, b):
    """The states in float64."""
    h, hs = 0.0, []
    for slope, term in zip(np.asarray(a, np.float64), np.asarray(b, np.float64), strict=True):
        h = slope * h + term
        hs.append(h)
    return np.array(hs)


def assert_rounded_once(found, a, b, dtype):
    assert found.dtype == jnp.dtype(dtype)
    want = loop(a, b)
    half_a_unit = float(jnp.finfo(dtype).eps) / 2
    in_float32 = 3 * N * float(jnp.finfo(jnp.float32).eps)
    error = np.abs(np.asarray(found, np.float64) / want - 1)
    assert error.max() <= half_a_unit * (1 + 1e-6) + in_float32


@narrow
def test_by_every_strategy(engine, dtype):
    a, b = operands(dtype)
    run = jax.jit(lambda a, b: jscan.linear_recurrence(a, b, method=engine.method))
    assert_rounded_once(run(a, b), a, b, dtype)


@narrow
def test_across_devices(dtype):
    a, b = operands(dtype)
    mesh = jax.make_mesh((8,), ("i",), axis_types=(AxisType.Auto,))
    placed = [jax.device_put(x, NamedSharding(mesh, P("i"))) for x in (a, b)]
    assert_rounded_once(jax.jit(jscan.linear_recurrence)(*placed), a, b, dtype)


@narrow
def test_in_chunks(dtype):
    """A state of float32 goes on in the scan of pairs; the last result of a chunk is rounded."""
    a, b = operands(dtype)
    state, found = jnp.float32(0), []
    for x, y in zip(a.reshape(8, -1), b.reshape(8, -1), strict=True):
        init = jnp.float32(1), state
        found.append(jscan.associative_scan(jscan.operators.affine, (x, y), init=init)[1])
        slopes, terms = (v.astype(jnp.float32) for v in (x, y))
        state = jscan.linear_recurrence(slopes, terms, state)[-1]
    assert_rounded_once(jnp.concatenate(found), a, b, dtype)


@narrow
def test_a_gradient_is_as_exact_as_its_results(dtype):
    a, b = operands(dtype)
    found = jax.grad(lambda b: jscan.linear_recurrence(a, b).astype(jnp.float32).sum())(b)
    # Each is the sum of the products of coefficients behind it: a recurrence from the other end.
    ones = np.ones(N)
    behind = np.append(np.asarray(a, np.float64)[:0:-1], 1.0)
    want = loop(np.append(1.0, behind[:-1]), ones)[::-1]
    error = np.abs(np.asarray(found, np.float64) / want - 1)
    assert error.max() <= float(jnp.finfo(dtype).eps) + 3 * N * float(jnp.finfo(jnp.float32).eps)
