"""Operators that close over traced scalars: they run in kernels, and have derivatives by those."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax import lax

import jscan
from tests import reference
from tests.cases import FULL, PLAIN, every_form, form_name, head_flags
from tests.kernels.test_lowering import calls, cuda_program

X = np.random.default_rng(0).integers(-9, 10, (3, 150), dtype=np.int32)


def join(k):
    """1 + k a is multiplied up: associative in integers that wrap, and exact."""
    return lambda a, b: a + b + k * a * b


def scan(k, x, **options):
    return jscan.associative_scan(join(k), x, axis=1, **options)


@pytest.mark.product
@every_form
def test_scans(form, engine):
    reverse, exclusive, segmented = form
    flags = head_flags(X.shape) if segmented else None
    form = {"reverse": reverse, "exclusive": exclusive, "identity": 0}
    expected = reference.scan(join(np.int32(3)), X, axis=1, flags=flags, **form)

    def run(k, x):
        return scan(k, x, segments=flags, method=engine.method, **form)

    reference.assert_equal(jax.jit(run)(jnp.int32(3), X), expected)


def test_reductions(engine):
    expected = reference.scan(join(np.int32(3)), X, axis=1)[:, -1]

    def run(k, x):
        return jscan.reduce(join(k), x, axis=1, method=engine.method)

    if engine.method in ("auto", "xla", "reduce_then_scan", "scan_then_propagate"):
        reference.assert_equal(jax.jit(run)(jnp.int32(3), X), expected)


def test_reductions_of_segments():
    flags = head_flags(X.shape[1:])
    ends = np.flatnonzero(np.append(flags[1:], True))
    expected = reference.scan(join(np.int32(3)), X, axis=1, flags=np.stack([flags] * 3))[:, ends]

    def run(k, x):
        segments = jscan.Segments.from_flags(flags)
        return jscan.reduce(join(k), x, axis=1, identity=0, segments=segments)

    reference.assert_equal(jax.jit(run)(jnp.int32(3), X), expected)


def test_vmap_over_the_scalar_and_over_both():
    scalars = jnp.arange(3, dtype=jnp.int32)
    each = [scan(int(k), jnp.asarray(X)) for k in scalars]
    reference.assert_equal(jax.jit(jax.vmap(lambda k: scan(k, X)))(scalars), np.stack(each))
    one = jax.jit(jax.vmap(lambda k, row: jscan.associative_scan(join(k), row)))(
        scalars, jnp.asarray(X)
    )
    reference.assert_equal(one, np.stack([each[i][i] for i in range(3)]))


@pytest.mark.parametrize("form", [PLAIN, FULL], ids=form_name)
def test_derivatives(form):
    reverse, exclusive, segmented = form
    x, k = jnp.asarray(X / 30.0), 0.7
    flags = head_flags(X.shape) if segmented else np.zeros(X.shape, bool)
    options = {"reverse": reverse, "exclusive": exclusive, "identity": 0.0, "segments": flags}

    def by_loop(k, x):
        """The scan as a loop, which jax differentiates."""
        restart = flags if not reverse else np.append(flags[:, 1:], np.ones((3, 1), bool), axis=1)

        def step(before, at):
            value, restarts = at
            before = jnp.where(restarts, 0.0, before)
            after = join(k)(before, value)
            return after, before if exclusive else after

        start = jnp.zeros(3)
        _, y = lax.scan(step, start, (x.T, restart.T), reverse=reverse)
        return y.T

    def loss(run):
        return lambda k, x: jnp.sum(jnp.sin(run(k, x)))

    both = [
        jax.jit(jax.value_and_grad(loss(run), (0, 1)))(k, x)
        for run in (by_loop, lambda k, x: scan(k, x, **options))
    ]
    for expected, found in zip(*map(jax.tree.leaves, both), strict=True):
        np.testing.assert_allclose(found, expected, rtol=1e-9, atol=1e-12)
    second = [
        jax.jit(lambda k, x, run=run: jax.jvp(jax.grad(loss(run)), (k, x), (1.0, x))[1])(k, x)
        for run in (by_loop, lambda k, x: scan(k, x, **options))
    ]
    np.testing.assert_allclose(second[1], second[0], rtol=1e-8)


@pytest.mark.parametrize("shape", [(3, 150), (1, 1 << 20)])
def test_kernels_run(shape):
    """As many as of an operator on two leaves."""
    x = jax.ShapeDtypeStruct(shape, jnp.float32)
    program = cuda_program(lambda k, x: scan(k, x), jax.ShapeDtypeStruct((), jnp.float32), x)
    pairs = cuda_program(lambda x: jscan.linear_recurrence(x, x, axis=1), x)
    assert calls(program) == calls(pairs) > 0
    assert "stablehlo.while" not in program


def test_a_scalar_of_another_dtype():
    expected = np.cumsum(X, axis=1, dtype=np.int32) * 0

    def run(k, x):
        return jscan.associative_scan(lambda a, b: jnp.where(k, a + b, 0), x, axis=1)

    reference.assert_equal(jax.jit(run)(False, jnp.asarray(X))[:, 1:], expected[:, 1:])
    reference.assert_equal(jax.jit(run)(True, jnp.asarray(X)), np.cumsum(X, axis=1))


def test_arrays_still_run_in_plain_jax():
    program = cuda_program(
        lambda k, x: jscan.associative_scan(lambda a, b: a + b + k * 0, x, axis=1),
        *[jax.ShapeDtypeStruct(shape, jnp.float32) for shape in ((3, 1), (3, 150))],
    )
    assert calls(program) == 0
