"""Rows that are sharded over devices: nothing moves, and results stay where their rows are."""

from __future__ import annotations

import jax
import numpy as np
import pytest
from jax import export
from jax.sharding import AbstractMesh, NamedSharding
from jax.sharding import PartitionSpec as P

import jscan
from jscan.rules.grids import factored
from tests.devices.layouts import (
    FUNCTIONS,
    ROWS,
    WITHOUT_GRADIENT,
    Layout,
    N,
    assert_close,
    check,
    collectives,
    every_layout,
    expected,
    function_of,
    mesh_of,
    placed,
)

LAYOUTS = {
    "8": Layout((8,), ("a",)),
    "4 of 4 x 2": Layout((4, 2), ("a",)),
    "both of 4 x 2, the other way": Layout((4, 2), (("b", "a"),)),
    "two of 2 x 2 x 2": Layout((2, 2, 2), (("a", "c"),)),
}
every_function = pytest.mark.parametrize("name", FUNCTIONS)


def check_kept(name, layout, *, gradient=False, interpreted=False):
    """Check values, and that nothing moves: results lie as their rows do."""
    compiled, found = check(name, layout, gradient=gradient, interpreted=interpreted)
    assert not collectives(compiled)
    mesh = mesh_of(*layout.sizes, kind=layout.kind)
    for y in found:
        assert y.sharding.is_equivalent_to(NamedSharding(mesh, P(*layout.entries)), y.ndim)


@pytest.mark.sweep
@every_layout(**LAYOUTS)
@every_function
def test_values_stay_on_their_devices(name, layout):
    check_kept(name, layout)


@pytest.mark.sweep
@every_layout(**LAYOUTS)
@pytest.mark.parametrize("name", [name for name in FUNCTIONS if name not in WITHOUT_GRADIENT])
def test_gradients_stay_on_their_devices(name, layout):
    check_kept(name, layout, gradient=True)


@pytest.mark.sweep
@every_function
def test_shard_map_runs_what_each_device_holds(name):
    mesh, rows = mesh_of(4, 2), P(("a", "b"))
    mapped = jax.shard_map(function_of(name), mesh=mesh, in_specs=rows, out_specs=rows)
    x = placed(ROWS, mesh, ("a", "b"))
    compiled = jax.jit(mapped).lower(x).compile()
    assert not collectives(compiled)
    for y, values in zip(jax.tree.leaves(compiled(x)), expected(name), strict=True):
        assert_close(y, values)


@pytest.mark.parametrize("name", ["cumsum", "reduce by segments", "pack"])
def test_interpreted_kernels_run_on_what_a_device_holds(name):
    check_kept(name, LAYOUTS["both of 4 x 2, the other way"], interpreted=True)


def test_flags_that_are_replicated_beside_rows_that_are_not():
    mesh = mesh_of(8)
    flags = np.random.default_rng(1).random(ROWS.shape) < 0.2
    expected = jax.jit(lambda x, f: jscan.cumsum(x, 1, segments=f))(ROWS, flags)
    run = jax.jit(lambda x, f: jscan.cumsum(x, 1, segments=f))
    operands = placed(ROWS, mesh, "a"), placed(flags, mesh)
    assert not collectives(run.lower(*operands).compile())
    np.testing.assert_allclose(run(*operands), expected)


def test_lanes_are_divided_too():
    mesh = mesh_of(4, 2)
    x = np.random.default_rng(2).normal(size=(4, 16, 6))
    operand = placed(x, mesh, "a", None, "b")
    run = jax.jit(lambda x: jscan.cumprod(x, 1, reverse=True))
    compiled = run.lower(operand).compile()
    assert not collectives(compiled)
    found = compiled(operand)
    assert found.sharding.is_equivalent_to(operand.sharding, 3)
    np.testing.assert_allclose(found, np.cumprod(x[:, ::-1], 1)[:, ::-1], rtol=1e-12)


def test_rows_that_do_not_divide_evenly():
    mesh = mesh_of(8)

    @jax.jit
    def run(x):
        uneven = jax.lax.with_sharding_constraint(x[:13], NamedSharding(mesh, P("a")))
        return jscan.cumsum(uneven, 1).sum(1)

    x = np.random.default_rng(3).normal(size=(16, N))
    np.testing.assert_allclose(run(placed(x, mesh, "a")), x[:13].cumsum(1).sum(1), rtol=1e-12)


def test_outside_of_jit_results_stay_too():
    mesh = mesh_of(8)
    y = jscan.cumsum(placed(ROWS, mesh, "a"), 1)
    assert y.sharding.is_equivalent_to(NamedSharding(mesh, P("a")), 2)


def test_a_program_for_several_devices_is_exported():
    mesh = mesh_of(8)
    layout = NamedSharding(mesh, P("a"))
    run = jax.jit(lambda x: jscan.cumsum(x, 1), in_shardings=layout, out_shardings=layout)
    exported = export.export(run)(jax.ShapeDtypeStruct(ROWS.shape, ROWS.dtype))
    again = export.deserialize(exported.serialize())
    np.testing.assert_allclose(again.call(placed(ROWS, mesh, "a")), ROWS.cumsum(1))


@pytest.mark.parametrize("count", [8, 4096])
def test_a_program_is_lowered_for_a_mesh_without_devices(count):
    layout = NamedSharding(AbstractMesh((count,), ("a",)), P("a"))
    x = jax.ShapeDtypeStruct((count, N), np.float32, sharding=layout)
    run = jax.jit(lambda x: jscan.cumsum(x, 1))
    assert run.trace(x).lower(lowering_platforms=("cpu",)).as_text()


@pytest.mark.parametrize("method", ["block", "lookback"])
def test_a_method_that_cannot_run_is_named_when_the_program_is_lowered(method):
    x = placed(ROWS, mesh_of(8), "a")
    with pytest.raises(ValueError, match=f"method='{method}' needs a CUDA GPU"):
        jax.jit(lambda x: jscan.cumsum(x, 1, method=method)).lower(x)


@pytest.mark.parametrize(
    ("places", "expected"),
    [
        (np.arange(8).reshape(4, 2), ((4, 2), [(0,), (1,)])),
        (np.arange(8).reshape(4, 2).T, ((4, 2), [(1,), (0,)])),
        (np.arange(8).reshape(4, 2).T.reshape(8, 1), ((4, 2), [(1, 0), ()])),
        (np.arange(8).reshape(2, 2, 2).transpose(0, 2, 1).reshape(4, 2), None),
        (np.array([[0, 1], [3, 2]]), None),
    ],
)
def test_grids_of_devices_are_products_of_mesh_axes(places, expected):
    if expected is None and places.shape == (4, 2):
        expected = ((2, 2, 2), [(0, 2), (1,)])
    assert factored(places) == expected
