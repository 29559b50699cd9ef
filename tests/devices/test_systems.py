"""Tridiagonal systems on several devices: by rows, and along an axis that is divided."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import nullcontext
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax.sharding import AxisType, NamedSharding
from jax.sharding import PartitionSpec as P

import jscan
from jscan import primitives
from tests import tridiagonal
from tests.devices.layouts import collectives, mesh_of, placed

ROWS = 8

ways = pytest.mark.parametrize("gradient", [False, True], ids=["solution", "gradient"])
by_kernels = pytest.mark.parametrize("interpreted", [False, True], ids=["plain", "interpreted"])
periods = pytest.mark.parametrize("periodic", [False, True], ids=["open", "periodic"])


def system(n: int) -> list[np.ndarray]:
    """Rows that the diagonal dominates, in float64."""
    rng = np.random.default_rng(n)
    dl, du, b = rng.uniform(-1, 1, (3, ROWS, n))
    return [dl, np.abs(dl) + np.abs(du) + 0.1, du, b]


def function_of(solve: Callable[..., Any], *, gradient: bool, **how: Any) -> Callable[..., Any]:
    """The solution along rows, or the gradients of a number that it makes."""

    def solved(*given: Any) -> Any:
        return solve(*given, axis=1, **how)

    def number(*given: Any) -> Any:
        return jnp.sum(jnp.sin(solved(*given)))

    return jax.grad(number, (0, 1, 2, 3)) if gradient else solved


def compiled_for(function: Any, given: Any, *, interpreted: bool) -> jax.stages.Compiled:
    with primitives.interpreted() if interpreted else nullcontext():
        return jax.jit(function).lower(*given).compile()


def check(found: Any, n: int, *, gradient: bool, periodic: bool) -> None:
    """Compare with full matrices."""
    given = [jnp.asarray(x) for x in system(n)]
    solve = function_of(
        lambda *x, **how: tridiagonal.solved(*x, xp=jnp, **how),
        gradient=gradient,
        periodic=periodic,
    )
    pairs = zip(jax.tree.leaves(found), jax.tree.leaves(solve(*given)), strict=True)
    for x, expected in pairs:
        np.testing.assert_allclose(x, expected, rtol=1e-9, atol=1e-11)


@by_kernels
@periods
@ways
@pytest.mark.parametrize("entries", [("a", None), (None, "a")], ids=["rows", "unknowns"])
@pytest.mark.parametrize("kind", [AxisType.Auto, AxisType.Explicit], ids=lambda kind: kind.name)
def test_no_device_gathers_a_system(kind, entries, gradient, periodic, interpreted):
    """What moves is a number or three of each."""
    mesh = mesh_of(8, kind=kind)
    laid = [placed(x, mesh, *entries) for x in system(32)]
    function = function_of(jscan.tridiagonal_solve, gradient=gradient, periodic=periodic)
    with jax.set_mesh(mesh):
        compiled = compiled_for(function, laid, interpreted=interpreted)
        found = compiled(*laid)
    check(found, 32, gradient=gradient, periodic=periodic)
    assert all(c.elements <= 8 * ROWS * 3 for c in collectives(compiled))


@by_kernels
@periods
@ways
@pytest.mark.parametrize("n", [13, 37])
def test_unknowns_that_do_not_divide_evenly(n, gradient, periodic, interpreted):
    """Some devices have fewer of them, or none, and what lies behind them counts nowhere."""
    mesh = mesh_of(8)
    function = function_of(jscan.tridiagonal_solve, gradient=gradient, periodic=periodic)

    def divided(*given: Any) -> Any:
        spec = NamedSharding(mesh, P(None, "a"))
        laid = [jax.lax.with_sharding_constraint(x, spec) for x in given]
        return jax.tree.map(lambda x: jax.lax.with_sharding_constraint(x, spec), function(*laid))

    given = [jnp.asarray(x) for x in system(n)]
    found = compiled_for(divided, given, interpreted=interpreted)(*given)
    check(found, n, gradient=gradient, periodic=periodic)
