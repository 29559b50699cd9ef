"""Operands that repeat their lanes: read where they lie, by every kind of tile."""

from __future__ import annotations

import itertools

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import jscan
from jscan import primitives
from jscan.kernels import launch, layout, tuning
from tests import reference
from tests.engines import by_kernel

SHAPES = {
    "neighbours": ((40, 3, 64), (40, 1, 64)),
    "neighbours, odd": ((40, 3, 97), (40, 1, 97)),
    "one for many": ((40, 3, 128), (40, 3, 1)),
    "one for many, odd": ((40, 5, 33), (40, 5, 1)),
    "one for two": ((60, 3, 2), (60, 3, 1)),
    "inside of others": ((60, 2, 3, 4, 5), (60, 1, 3, 4, 1)),
    "at all positions": ((60, 4, 64), (1, 1, 64)),
}
CUTS = {
    "at once": tuning.Tuning(16, 32, 1, 2),
    "a lane": tuning.Tuning(16, 1, 1, 2),
    "held": tuning.Tuning(16, 64, 1, 2, held=8),
    "shared": tuning.Tuning(16, 64, 1, 2, held=8, shared=16),
    "twice": tuning.Tuning(32, 64, 1, 2, strip=8),
    "parts": tuning.Tuning(32, 64, 1, 1, strip=16, ahead=True),
    "in chunks": tuning.Tuning(8, 8, 1, 16, chunk=2),
}


@pytest.fixture
def repeated(monkeypatch: pytest.MonkeyPatch) -> list[layout.View]:
    """The views of operands that are read so."""
    found, view = [], launch.view

    def recorded(*arguments, **named):
        flat, seen = view(*arguments, **named)
        found.extend([seen] if seen.lane_period is not None else [])
        return flat, seen

    monkeypatch.setattr(launch, "view", recorded)
    return found


@pytest.mark.parametrize(
    ("shape", "cut"),
    [
        *itertools.product(["neighbours, odd", "one for many"], CUTS),
        *itertools.product(SHAPES, ["at once"]),
        ("neighbours", "parts"),
        ("inside of others", "shared"),
    ],
)
@by_kernel
def test_coefficients(strategy, shape, cut, repeated):
    (full, own), cut = SHAPES[shape], CUTS[cut]
    method = "lookback" if cut.window > 1 else "reduce_then_scan"
    _compare(strategy, full, own, cut, method)
    assert repeated


@pytest.mark.parametrize("dtype", ["int8", "int16", "int64"])
@by_kernel
def test_dtypes(strategy, dtype, repeated):
    _compare(strategy, (2, 50, 5, 33), (2, 50, 5, 1), CUTS["shared"], "lookback", dtype=dtype)
    assert repeated


@pytest.mark.parametrize("starts", [False, True])
@pytest.mark.parametrize("reverse", [False, True])
@by_kernel
def test_behind_a_start(strategy, reverse, starts, repeated):
    form = {"reverse": reverse, "starts": starts, "axis": 1}
    _compare(strategy, (2, 60, 3, 40), (1, 60, 1, 40), None, "auto", **form)
    assert repeated


@by_kernel
def test_flags(strategy, repeated):
    """Flags may be of leading dimensions only."""
    rng = np.random.default_rng(3)
    x, heads = rng.integers(-9, 9, (50, 4, 70)).astype(np.int32), rng.random((50, 4)) < 0.1
    with strategy.active():
        found = jax.jit(lambda x, f: jscan.cumsum(x, axis=0, segments=f, method="lookback"))(
            x, jnp.asarray(heads)
        )
    expected = reference.scan(
        lambda a, b: a + b, x, flags=np.broadcast_to(heads[..., None], x.shape), axis=0
    )
    assert repeated
    reference.assert_equal(np.asarray(found), expected.astype(np.int32))


def _compare(strategy, full, own, cut, method, *, dtype="int32", axis=None, **form):
    """Compares a recurrence with a loop."""
    rng, starts = np.random.default_rng(5), form.pop("starts", False)
    axis = (1 if len(full) == 4 else 0) if axis is None else axis
    a, x = rng.integers(-1, 2, own).astype(dtype), rng.integers(-3, 4, full).astype(dtype)
    beside = full[:axis] + full[axis + 1 :]
    start = rng.integers(-3, 4, beside).astype(dtype) if starts else None
    with jax.enable_x64(True), strategy.active(), primitives.tiled(cut):
        found = jax.jit(
            lambda a, x: jscan.linear_recurrence(a, x, axis=axis, h0=start, method=method, **form)
        )(a, x)
    state = np.zeros(beside, dtype) if start is None else start
    every, wanted = np.moveaxis(np.broadcast_to(a, full), axis, 0), np.empty_like(x)
    order = range(full[axis])[:: -1 if form.get("reverse") else 1]
    for i in order:
        state = every[i] * state + np.moveaxis(x, axis, 0)[i]
        np.moveaxis(wanted, axis, 0)[i] = state
    reference.assert_equal(np.asarray(found), wanted)


@pytest.mark.parametrize(
    ("shape", "full", "view"),
    [
        ((4, 1, 5), (4, 3, 5), ((1, 1), (1, 5))),
        ((4, 3, 1), (4, 3, 5), ((1, 1), (5, 3))),
        ((4, 3, 5), (4, 3, 5), ((1, 1), None)),
        ((4, 1, 1), (4, 3, 5), ((1, 1), None)),
        ((4, 1, 5), (4, 1, 5), ((1, 1), None)),
        ((4, 2, 1, 5), (4, 2, 3, 5), None),
    ],
)
def test_what_collapses(shape, full, view):
    found = layout.collapse(shape, full, 0)
    assert (found and (found.row_period, found.lane_period)) == view


def test_reductions_have_it_in_memory():
    """Their kernels read lanes in ways that know of no repeated ones."""
    operand = jnp.zeros((4, 1, 5))
    flat, view = launch.view(operand, (4, 3, 5), 0)
    assert flat.shape == (60,)
    assert view.lane_period is None
