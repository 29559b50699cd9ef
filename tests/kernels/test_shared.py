"""Leaves that have one element for all of the axis: kernels read it in place, whoever spread it."""

from __future__ import annotations

import re

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import jscan
from benchmarks.measuring import machine
from jscan import primitives
from jscan.kernels import tuning
from tests import reference

F32 = jnp.float32
LONG = jax.ShapeDtypeStruct((2**16,), F32)
ROWS = jax.ShapeDtypeStruct((32, 4096), jnp.bool_)
CHANNELS = jax.ShapeDtypeStruct((4, 4096, 64), F32)


def _positions(flags):
    return jscan.cumsum(jnp.ones(flags.shape, jnp.int32), segments=flags)


def _by_ids(ids):
    return jscan.cumsum(jnp.ones(ids.shape, F32), segments=jscan.Segments.from_ids(ids))


def _closing(k, x):
    return jscan.associative_scan(lambda a, b: a + b + k * a * b, x)


def _spread(a, b):
    return jscan.linear_recurrence(jnp.broadcast_to(a, b.shape), b, axis=1)


def _gradient(b):
    return jax.grad(lambda b: jnp.sin(jscan.linear_recurrence(0.9, b)).sum())(b)


READS = {
    "positions in rows, by vmap": (jax.vmap(_positions), [ROWS], 1),
    "positions in rows": (_positions, [ROWS], 1),
    "ones by runs of ids": (_by_ids, [jax.ShapeDtypeStruct((4096,), jnp.int32)], 1),
    "a number": (lambda b: jscan.linear_recurrence(0.9, b), [LONG], 1),
    "a full array": (lambda b: jscan.linear_recurrence(jnp.full(b.shape, 0.9), b), [LONG], 1),
    "an array of another dtype": (
        lambda b: jscan.linear_recurrence(jnp.full(b.shape, 2, jnp.int8).astype(F32), b),
        [LONG],
        1,
    ),
    "a number that is traced": (_closing, [jax.ShapeDtypeStruct((), F32), LONG], 1),
    "channels": (_spread, [jax.ShapeDtypeStruct((64,), F32), CHANNELS], 64),
    "a gradient": (_gradient, [LONG], 1),
}


@pytest.mark.parametrize("name", READS)
def test_nothing_is_written_out(name):
    function, operands, size = READS[name]
    text = machine.lower_for_cuda(function, operands).as_text()
    calls = [re.findall(r"tensor<(\d+)x[a-z]\w*>", line) for line in _calls(text)]
    assert calls
    whole = max(np.prod(x.shape, dtype=int) for x in operands)
    for sizes in calls:
        assert sorted(map(int, sizes)) == [size, whole]


def _calls(text: str) -> list[str]:
    """What the kernels of a program take, in its text."""
    return re.findall(r"custom_call @__gpu\$xla\.gpu\.triton.* : \((.*)\) ->", text)


def test_a_leaf_that_alone_has_the_axis_stays_whole():
    text = machine.lower_for_cuda(lambda: jscan.cumsum(jnp.ones(4096, F32)), []).as_text()
    assert "tensor<4096xf32>" in _calls(text)[0]


SMALL = {
    "one row": ((1, 101), tuning.Tuning(16, 1, warps=1, window=4, strip=8)),
    "rows in a tile": ((5, 12), tuning.Tuning(16, 1, rows=4, warps=1, window=4, strip=8)),
    "lanes": ((2, 37, 5), tuning.Tuning(8, 4, warps=1, window=4, strip=4)),
    "a lane at a time": ((2, 37, 3), tuning.Tuning(16, 1, warps=1, window=4, strip=8)),
}


@pytest.mark.sweep
@pytest.mark.parametrize("every_form", [False, True])
@pytest.mark.parametrize(
    ("name", "shared"),
    [
        ("one row", "all"),
        ("rows in a tile", "all"),
        ("rows in a tile", "rows"),
        ("lanes", "all"),
        ("lanes", "channels"),
        ("a lane at a time", "rows"),
        ("a lane at a time", "channels"),
    ],
)
def test_values_and_gradients(name, shared, every_form):
    shape, tile = SMALL[name]
    exclusive, reverse, segmented = [every_form] * 3
    of_a = {"all": (), "rows": shape[:1] + (1,) * (len(shape) - 1), "channels": (1, 1, *shape[2:])}
    own = of_a[shared][: len(shape)]
    rng = np.random.default_rng(len(shape) + segmented)
    a, b = rng.uniform(0.5, 1, own).astype(F32), rng.normal(size=shape).astype(F32)
    flags = rng.random(shape[:2]) < 0.2 if segmented else None
    weights = rng.normal(size=shape).astype(F32)

    def run(a, b):
        h = jscan.linear_recurrence(
            a, b, axis=1, reverse=reverse, exclusive=exclusive, segments=flags
        )
        return (h * weights).sum(), h

    with primitives.interpreted(), primitives.tiled(tile):
        back, states = jax.jit(jax.grad(run, (0, 1), has_aux=True))(a, b)
    whole = np.broadcast_to(a.reshape(own + (1,) * (len(shape) - len(own))), shape)
    wide = None if flags is None else flags.reshape(*flags.shape, *(1,) * (len(shape) - 2))
    every = None if wide is None else np.broadcast_to(wide, shape)
    [_, expected] = reference.scan(
        lambda x, y: [x[0] * y[0], x[1] * y[0] + y[1]],
        [whole.astype(np.float64), b.astype(np.float64)],
        axis=1,
        reverse=reverse,
        exclusive=exclusive,
        identity=[np.float64(1), np.float64(0)],
        flags=every,
    )
    np.testing.assert_allclose(states, expected, rtol=1e-4, atol=1e-4)
    plain = jax.grad(lambda a, b: run(jnp.broadcast_to(a, shape), b)[0], (0, 1))(whole, b)
    summed = tuple(d for d, s in enumerate(shape) if d >= len(own) or (own[d] == 1 and s > 1))
    of_a_alone = np.asarray(plain[0]).sum(summed, keepdims=True).reshape(own)
    np.testing.assert_allclose(back[0], of_a_alone, rtol=1e-3, atol=1e-3)
    np.testing.assert_allclose(back[1], plain[1], rtol=1e-3, atol=1e-3)


def test_a_decay_for_each_of_a_batch():
    a, b = jnp.array([0.5, 0.25, 1.0], F32), jnp.ones(20, F32)
    with primitives.interpreted():
        found = jax.jit(jax.vmap(jscan.linear_recurrence, in_axes=(0, None)))(a, b)
    alone = [jscan.linear_recurrence(x, b, method="xla") for x in a]
    np.testing.assert_allclose(found, np.stack(alone), rtol=1e-6)


def test_a_start_beside_what_is_shared():
    flags = jnp.array([0, 0, 1, 0, 0, 1, 0], jnp.bool_)
    with primitives.interpreted():
        found = jax.jit(
            lambda init: jscan.cumsum(jnp.ones(7, jnp.int32), segments=flags, init=init)
        )(jnp.int32(10))
    assert found.tolist() == [11, 12, 1, 2, 3, 1, 2]


def _two_sums(v, offsets):
    """Of one number for all four elements, and of 0 to 3."""
    segments = jscan.Segments.from_offsets(offsets, total=4)
    return jscan.associative_scan(
        lambda a, b: (a[0] + b[0], a[1] + b[1]),
        (jnp.full(4, v), jnp.arange(4, dtype=F32)),
        segments=segments,
    )


def test_as_many_offsets_as_elements():
    """They are no axis of the elements, whose only leaf of full length goes unused here."""
    offsets = jnp.array([0, 2, 2, 4], jnp.int32)
    first = jax.jit(lambda v, offsets: _two_sums(v, offsets)[0])(2.0, offsets)
    assert first.tolist() == [2, 4, 2, 4]
    run = jax.jit(lambda v: _two_sums(v, offsets))
    _, slopes = jax.jvp(run, (2.0,), (1.0,))
    assert slopes[0].tolist() == [1, 2, 1, 2]


@pytest.mark.parametrize("method", ["auto", "xla"])
def test_a_tangent_of_one_coefficient(method):
    b = jnp.arange(1, 7, dtype=F32)
    run = jax.jit(lambda a: jscan.linear_recurrence(a, b, method=method))
    states, slopes = jax.jvp(run, (0.5,), (1.0,))
    h, d = 0.0, 0.0
    for t in range(6):
        h, d = 0.5 * h + (t + 1), h + 0.5 * d
        np.testing.assert_allclose([states[t], slopes[t]], [h, d], rtol=1e-6)
    second = jax.hessian(lambda a: run(a)[3])(0.5)
    np.testing.assert_allclose(second, 4 + 6 * 0.5, rtol=1e-6)


@pytest.mark.parametrize("trailing", [(), (1,)])
def test_a_batch_of_offsets_alone(trailing):
    """The batch has no leaf of its own, and the offsets no axis of the leaves."""
    x = jnp.arange(40, dtype=F32).reshape(40, *trailing)
    offsets = jnp.array([[0, 3, 40], [0, 20, 40], [0, 7, 40]], jnp.int32)

    def run(offsets):
        return jscan.cumsum(x, segments=jscan.Segments.from_offsets(offsets, total=40))

    with primitives.interpreted():
        found = jax.jit(jax.vmap(run))(offsets)
    for row, middle in zip(found, (3, 20, 7), strict=True):
        expected = np.concatenate([np.cumsum(x[:middle], 0), np.cumsum(x[middle:], 0)])
        np.testing.assert_array_equal(row, expected)


@pytest.mark.parametrize("segmented", [False, True])
def test_a_number_in_reductions(segmented):
    x = jnp.linspace(0, 0.1, 50, dtype=F32)
    segments = jscan.Segments.from_lengths([20, 0, 30]) if segmented else None

    def run(k):
        return jscan.reduce(lambda a, b: a + b + k * a * b, x, identity=0.0, segments=segments)

    with primitives.interpreted(), primitives.tiled(SMALL["one row"][1]):
        found = jax.jit(run)(F32(0.5))
    parts = [x[:20], x[20:20], x[20:]] if segmented else [x]
    expected = [(np.prod(1 + 0.5 * part) - 1) / 0.5 for part in parts]
    np.testing.assert_allclose(np.ravel(found), expected, rtol=1e-5)
