"""Mesh axes that a ``shard_map`` over others leaves to XLA: rows do not move along them."""

from __future__ import annotations

import contextlib

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax.sharding import AbstractMesh, AxisType
from jax.sharding import PartitionSpec as P

import jscan
from jscan import primitives
from tests.devices.layouts import (
    FUNCTIONS,
    MOVES_DATA,
    WITHOUT_GRADIENT,
    N,
    assert_close,
    collectives,
    gradient_of,
    mesh_of,
    placed,
)

ROWS = np.random.default_rng(0).uniform(0.5, 1.5, (8, N))

with_kernels = pytest.mark.parametrize("kernels", [False, True], ids=["plain", "kernels"])
every_vma = pytest.mark.parametrize("check_vma", [True, False], ids=["vma", "no vma"])


def left(fn, *, check_vma=True, dimension=0, mesh=None):
    """A function inside of a shard_map over the mesh axis "a"."""
    spec = P(*[None] * dimension, "a")
    how = {"in_specs": spec, "out_specs": spec, "axis_names": {"a"}, "check_vma": check_vma}
    return jax.jit(jax.shard_map(fn, mesh=mesh or mesh_of(4, 2), **how))


def running(kernels):
    """A context in which kernels run, interpreted, or plain JAX."""
    return primitives.interpreted() if kernels else contextlib.nullcontext()


@pytest.mark.sweep
@with_kernels
@every_vma
@pytest.mark.parametrize("name", FUNCTIONS)
def test_rows(name, kernels, check_vma):
    fn = jax.vmap(FUNCTIONS[name])
    x = placed(ROWS, mesh_of(4, 2), ("a", "b"))
    with running(kernels):
        compiled = left(fn, check_vma=check_vma).lower(x).compile()
    if name not in MOVES_DATA:
        assert not collectives(compiled)
    expected = jax.jit(fn)(ROWS)
    for y, values in zip(jax.tree.leaves(compiled(x)), jax.tree.leaves(expected), strict=True):
        assert_close(y, values)


@pytest.mark.sweep
@with_kernels
@pytest.mark.parametrize("name", [name for name in FUNCTIONS if name not in WITHOUT_GRADIENT])
def test_gradients_of_rows(name, kernels):
    fn = jax.vmap(gradient_of(FUNCTIONS[name]))
    x = placed(ROWS, mesh_of(4, 2), ("a", "b"))
    with running(kernels):
        found = left(fn)(x)
    assert_close(found, jax.jit(fn)(ROWS))


@pytest.mark.product
@with_kernels
@pytest.mark.parametrize("name", ["cumprod, every form", "reduce by segments"])
def test_a_scanned_axis_is_gathered(name, kernels):
    fn = jax.vmap(FUNCTIONS[name])
    x = placed(ROWS, mesh_of(4, 2), "a", "b")
    with running(kernels):
        found = left(fn)(x)
    for y, values in zip(jax.tree.leaves(found), jax.tree.leaves(jax.jit(fn)(ROWS)), strict=True):
        assert_close(y, values)


@with_kernels
def test_rows_beside_an_axis_that_goes_on_across_the_others(kernels):
    def fn(x, axis_name=None):
        return jscan.linear_recurrence(x / 2, x, axis=1, reverse=True, axis_name=axis_name)

    x = placed(ROWS, mesh_of(4, 2), "b", "a")
    with running(kernels):
        run = left(lambda x: fn(x, "a"), dimension=1)
        compiled = run.lower(x).compile()
    assert max(c.elements for c in collectives(compiled)) <= 4 * len(ROWS)
    assert_close(compiled(x), jax.jit(fn)(ROWS))


def test_a_mesh_without_devices():
    mesh = AbstractMesh((4, 2), ("a", "b"), axis_types=(AxisType.Auto,) * 2)
    run = left(lambda x: jscan.cumsum(x, 1), mesh=mesh)
    found = run.trace(jax.ShapeDtypeStruct(ROWS.shape, jnp.float32)).lower(
        lowering_platforms=("cpu",)
    )
    assert "manual_computation" in found.as_text()
