"""Recurrences that start from ``h0``, by segments of bounds that are traced."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax.sharding import AbstractDevice, AbstractMesh, AxisType

import jscan
from jscan import Segments
from tests.kernels.test_lowering import array, readable

N = 1 << 26


@pytest.mark.sweep
@pytest.mark.parametrize("reverse", [False, True])
@pytest.mark.parametrize("form", ["lengths", "offsets"])
@pytest.mark.parametrize("lengths", [(4, 0, 11, 1, 14), (0, 0, 30), (30,), (29, 1, 0)])
def test_a_start_before_the_first_element(lengths, form, reverse, engine):
    """There a segment begins all the same, and others may be empty."""
    offsets = np.cumsum([0, *lengths]).astype(np.int32)
    given = np.asarray(lengths, np.int32) if form == "lengths" else offsets
    rng = np.random.default_rng(len(lengths))
    a, b = rng.normal(size=(2, 30, 2)).astype(np.float32)
    h0 = np.asarray([1.5, -2], np.float32)

    def call(given, flags):
        make = Segments.from_lengths if form == "lengths" else Segments.from_offsets
        segments = make(given, total=30) if flags is None else flags
        how = {"reverse": reverse, "method": engine.method}
        return jscan.linear_recurrence(a, b, h0, segments=segments, **how)

    flags = np.zeros(30, bool)
    flags[[start for start in offsets if 0 < start < 30]] = True
    found, by_flags = jax.jit(call)(given, None), jax.jit(call)(given, flags)
    np.testing.assert_allclose(found, by_flags, rtol=1e-6, atol=1e-6)
    want, h = np.zeros_like(b), h0.astype(np.float64)
    for i in range(30)[:: -1 if reverse else 1]:
        begins = flags[i + 1] if reverse and i < 29 else flags[i] and not reverse
        h = b[i] if begins else a[i] * h + b[i]
        want[i] = h
    np.testing.assert_allclose(found, want, rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("form", ["lengths", "offsets"])
def test_batches_and_gradients(form):
    """Of bounds and starts that differ in a batch, as by flags."""
    lengths = np.array([[4, 0, 11, 15], [0, 0, 29, 1], [30, 0, 0, 0]], np.int32)
    offsets = np.pad(np.cumsum(lengths, -1), ((0, 0), (1, 0))).astype(np.int32)
    flags = np.zeros((3, 31), bool)
    for row, starts in zip(flags, offsets[:, 1:], strict=True):
        row[starts[starts > 0]] = True
    rng = np.random.default_rng(3)
    a, b = rng.normal(size=(2, 3, 30)).astype(np.float32)
    h0 = rng.normal(size=3).astype(np.float32)
    make = Segments.from_lengths if form == "lengths" else Segments.from_offsets

    def by_bounds(a, b, h0, given):
        return jscan.linear_recurrence(a, b, h0, segments=make(given, total=30))

    def by_flags(a, b, h0, given):
        return jscan.linear_recurrence(a, b, h0, segments=given)

    def results(function, given):
        def loss(a, b, h0):
            return jnp.sum(jnp.sin(jax.vmap(function)(a, b, h0, given)))

        return jax.jit(jax.value_and_grad(loss, (0, 1, 2)))(a, b, h0)

    found = results(by_bounds, lengths if form == "lengths" else offsets)
    wanted = results(by_flags, flags[:, :30])
    jax.tree.map(lambda x, y: np.testing.assert_allclose(x, y, rtol=1e-5, atol=1e-5), found, wanted)


def test_what_a_start_reaches_is_told_by_bounds():
    """Flags of bytes are left to kernels: XLA takes bits apart by a shift for each element."""
    device = AbstractDevice(device_kind="NVIDIA H200", num_cores=None, platform="gpu")
    types = (AxisType.Auto,)
    mesh = AbstractMesh((1,), ("x",), axis_types=types, abstract_device=device)

    def run(a, b, offsets):
        segments = Segments.from_offsets(offsets, total=N)
        return jscan.linear_recurrence(a, b, jnp.float32(1.0), segments=segments)

    with jax.sharding.use_abstract_mesh(mesh):
        traced = jax.jit(run).trace(array(N), array(N), array(1 << 20, "int32"))
        program = readable(traced.lower(lowering_platforms=("cuda",)).as_text())
    assert "jscan_lookback" in program
    assert "stablehlo.shift_right" not in program


def test_no_flags_are_found_for_the_sake_of_meshes():
    """Whoever asks in which mesh arguments lie leaves segments as they are."""

    def run(a, b, offsets):
        segments = Segments.from_offsets(offsets, total=N)
        return jscan.linear_recurrence(a, b, segments=segments)

    program = jax.make_jaxpr(run)(array(N), array(N), array(1 << 20, "int32"))
    assert "locate" not in str(program)
