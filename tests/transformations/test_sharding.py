"""Scans of sharded arrays: explicit shardings are kept and shard_map's varying axes survive."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax.sharding import AxisType, NamedSharding
from jax.sharding import PartitionSpec as P

import jscan
from jscan import operators, primitives
from tests import reference
from tests.cases import every_form, head_flags, values


def mesh_of(count, axis_type=AxisType.Explicit):
    """A mesh of CPU devices with one axis, "rows"."""
    return jax.make_mesh(
        (count,), ("rows",), axis_types=(axis_type,), devices=jax.devices("cpu")[:count]
    )


@pytest.mark.product
@pytest.mark.parametrize("count", [1, 4])
@every_form
def test_explicit_sharding_is_kept(count, form):
    reverse, exclusive, segmented = form
    mesh = mesh_of(count)
    x = values("cumsum", (8, 30), "int32")
    flags = head_flags((8, 30)) if segmented else None
    options = {"axis": 1, "reverse": reverse, "exclusive": exclusive}
    expected = reference.scan(np.add, x, identity=0, flags=flags, **options)
    with jax.set_mesh(mesh):
        sharding = NamedSharding(mesh, P("rows", None))
        placed, heads = jax.device_put((x, flags), sharding)
        types = []

        @jax.jit
        def run(x, heads):
            y = jscan.cumsum(x, segments=heads, **options)
            types.append(jax.typeof(y))
            return y

        for y in (run(placed, heads), jscan.cumsum(placed, segments=heads, **options)):
            assert y.sharding.is_equivalent_to(sharding, 2)
            reference.assert_equal(y, expected)
        assert types[0].sharding.spec == P("rows", None)


def test_explicit_sharding_is_kept_for_a_pytree():
    mesh = mesh_of(4)
    a, b = (np.arange(24.0).reshape(4, 6) / 24 for _ in range(2))
    with jax.set_mesh(mesh):
        elems = jax.device_put((a, b), NamedSharding(mesh, P("rows", None)))
        types = jax.eval_shape(lambda e: jscan.associative_scan(operators.affine, e, axis=1), elems)
        assert [leaf.sharding.spec for leaf in types] == [P("rows", None)] * 2


def test_vmap_of_an_explicitly_sharded_batch():
    mesh = mesh_of(4)
    x = values("cumsum", (8, 30), "int32")
    with jax.set_mesh(mesh):
        sharding = NamedSharding(mesh, P("rows", None))
        y = jax.jit(jax.vmap(jscan.cumsum))(jax.device_put(x, sharding))
        assert y.sharding.is_equivalent_to(sharding, 2)
        np.testing.assert_array_equal(y, np.cumsum(x, 1, dtype=np.int32))


def test_grad_of_an_explicitly_sharded_array():
    mesh = mesh_of(4)
    with jax.set_mesh(mesh):
        sharding = NamedSharding(mesh, P("rows", None))
        x = jax.device_put(np.ones((4, 6)), sharding)
        gradient = jax.jit(jax.grad(lambda x: jnp.sum(jscan.cumsum(x, 1))))(x)
        assert gradient.sharding.is_equivalent_to(sharding, 2)
        np.testing.assert_array_equal(gradient, np.tile(np.arange(6.0, 0, -1), (4, 1)))


@every_form
def test_shard_map_over_rows(form):
    reverse, exclusive, segmented = form
    x = values("cumsum", (8, 30), "int32")
    flags = head_flags((8, 30)) if segmented else None

    def run(x, flags):
        y = jscan.cumsum(x, 1, reverse, exclusive=exclusive, segments=flags)
        assert jax.typeof(y) == jax.typeof(x)  # varying axes are part of a type
        return y

    mapped = jax.shard_map(
        run, mesh=mesh_of(4, AxisType.Auto), in_specs=P("rows"), out_specs=P("rows")
    )
    expected = reference.scan(
        np.add, x, axis=1, reverse=reverse, exclusive=exclusive, identity=0, flags=flags
    )
    reference.assert_equal(jax.jit(mapped)(x, flags), expected)


def test_shard_map_with_flags_that_every_device_shares():
    x, flags = values("cumsum", (8, 30), "int32"), head_flags((30,))
    mapped = jax.shard_map(
        lambda x, flags: jscan.cumsum(x, 1, segments=flags),
        mesh=mesh_of(4, AxisType.Auto),
        in_specs=(P("rows"), P()),
        out_specs=P("rows"),
    )
    reference.assert_equal(
        jax.jit(mapped)(x, flags), reference.scan(np.add, x, axis=1, flags=flags)
    )


def test_shard_map_with_a_leaf_that_every_device_shares():
    decay, x = np.full(30, 2), values("cumsum", (4, 30), "int64")
    mapped = jax.shard_map(
        lambda decay, x: jscan.associative_scan(operators.affine, (decay, x[0]))[1][None],
        mesh=mesh_of(4, AxisType.Auto),
        in_specs=(P(), P("rows")),
        out_specs=P("rows"),
    )
    actual = jax.jit(mapped)(decay, x)
    for got, row in zip(actual, x, strict=True):
        want = reference.scan(lambda a, b: (a[0] * b[0], b[0] * a[1] + b[1]), (decay, row))[1]
        reference.assert_equal(got, want)


def test_shard_map_of_grad():
    mapped = jax.shard_map(
        jax.grad(lambda x: jnp.sum(jscan.cumsum(x, 1, segments=np.arange(6) == 3))),
        mesh=mesh_of(4, AxisType.Auto),
        in_specs=P("rows"),
        out_specs=P("rows"),
    )
    gradient = jax.jit(mapped)(jnp.ones((4, 6)))
    np.testing.assert_array_equal(gradient, np.tile([3.0, 2, 1, 3, 2, 1], (4, 1)))


def test_a_scan_along_the_sharded_axis_is_right():
    mesh = mesh_of(4, AxisType.Auto)
    x = values("cumsum", (64,), "int32")
    placed = jax.device_put(x, NamedSharding(mesh, P("rows")))
    np.testing.assert_array_equal(jax.jit(jscan.cumsum)(placed), np.cumsum(x, dtype=np.int32))


@pytest.mark.parametrize("method", ["block", "lookback"])
def test_kernels_under_meshes_one_after_another(method):
    """What is cached of an operator must not remember the mesh that it was first traced under."""
    x = np.arange(8 * 300, dtype=np.float32).reshape(8, 300) % 7
    expected = np.cumsum(x, axis=1)

    def scan(v):
        return jscan.cumsum(v, axis=1, method=method)

    with primitives.interpreted():
        for kind in (AxisType.Auto, AxisType.Explicit):
            mesh = mesh_of(4, kind)
            rows = P("rows", None)
            sharded = jax.device_put(x, NamedSharding(mesh, rows))
            mapped = jax.jit(jax.shard_map(scan, mesh=mesh, in_specs=rows, out_specs=rows))
            np.testing.assert_array_equal(mapped(sharded), expected)
            with jax.set_mesh(mesh):
                y = jax.jit(scan)(sharded)
            np.testing.assert_array_equal(y, expected)
            if kind == AxisType.Explicit:
                assert jax.typeof(y).sharding.spec == rows
        np.testing.assert_array_equal(scan(x), expected)
