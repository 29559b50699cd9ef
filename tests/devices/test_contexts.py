"""Programs that XLA divides, in other contexts than the one in which they were lowered."""

from __future__ import annotations

import contextlib

import jax
import numpy as np
import pytest
from jax.experimental import serialize_executable
from jax.sharding import AxisType, NamedSharding, PartitionSpec

import jscan
from jscan import primitives
from tests.devices.layouts import collectives, mesh_of, placed
from tests.functions import affine

X = np.random.default_rng(0).uniform(0.5, 1.5, (8, 64))
ENTRIES = pytest.mark.parametrize("entries", [("a",), (None, "a")], ids=["rows", "axis"])


def scan(x):
    return jscan.cumsum(x, 1, True)


def check(compiled, entries):
    """It is divided, and right."""
    found = compiled(placed(X, mesh_of(8), *entries))
    np.testing.assert_allclose(found, X[:, ::-1].cumsum(1)[:, ::-1], rtol=1e-12)
    sizes = [c.elements for c in collectives(compiled)]
    assert sizes == [] if entries[0] else max(sizes) <= 64


@ENTRIES
def test_a_compiled_program_is_stored_and_loaded(entries):
    operand = placed(X, mesh_of(8), *entries)
    compiled = jax.jit(scan).lower(operand).compile()
    check(compiled, entries)
    stored = serialize_executable.serialize(compiled)
    loaded = serialize_executable.deserialize_and_load(*stored)
    np.testing.assert_array_equal(loaded(operand), compiled(operand))


MESHES = {
    "none": contextlib.nullcontext,
    "Auto": lambda: jax.set_mesh(mesh_of(2, 4)),
    "Explicit": lambda: jax.set_mesh(mesh_of(4, 2, kind=AxisType.Explicit)),
    "Explicit, of as many": lambda: jax.set_mesh(mesh_of(8, kind=AxisType.Explicit)),
}
every_mesh = pytest.mark.parametrize("entered", MESHES.values(), ids=MESHES.keys())


@ENTRIES
@every_mesh
def test_a_program_is_compiled_in_the_context_of_another_mesh(entries, entered):
    lowered = jax.jit(scan).lower(placed(X, mesh_of(8), *entries))
    with entered():
        compiled = lowered.compile()
    check(compiled, entries)


@ENTRIES
@every_mesh
def test_a_program_is_lowered_in_the_context_of_another_mesh(entries, entered):
    """What lies in a mesh of Auto axes is divided, whatever mesh has been entered."""
    operand = placed(X, mesh_of(8), *entries)
    with entered():
        compiled = jax.jit(scan).lower(operand).compile()
    check(compiled, entries)


@ENTRIES
def test_a_mesh_of_other_devices_than_the_default_ones(entries, monkeypatch):
    """As on a machine with eight CPU devices and one GPU."""
    operand = placed(X, mesh_of(8), *entries)
    devices = jax.devices
    monkeypatch.setattr(jax, "devices", lambda kind=None: devices(kind) if kind else devices()[:1])
    compiled = jax.jit(scan).lower(operand).compile()
    monkeypatch.undo()
    check(compiled, entries)


@pytest.fixture
def older_partitioner():
    """XLA's GSPMD, which asks a callback for layouts of results, and not Shardy."""
    jax.config.update("jax_use_shardy_partitioner", False)
    jax.clear_caches()
    yield
    jax.config.update("jax_use_shardy_partitioner", True)
    jax.clear_caches()


@pytest.mark.usefixtures("older_partitioner")
@pytest.mark.filterwarnings("ignore::DeprecationWarning")
@ENTRIES
def test_the_older_partitioner(entries):
    operand = placed(X, mesh_of(8), *entries)
    check(jax.jit(scan).lower(operand).compile(), entries)
    totals = jax.jit(lambda x: jscan.reduce(affine, (x, x), axis=1)).lower(operand).compile()
    for found, scanned in zip(
        totals(operand), jscan.associative_scan(affine, (X, X), axis=1), strict=True
    ):
        np.testing.assert_allclose(found, scanned[:, -1], rtol=1e-12)


FITS = 4096
"""Elements that fit a tile, of which eight times as many do not."""


def by_block(x):
    return jscan.cumsum(x, method="block")


@pytest.mark.parametrize("kind", [AxisType.Auto, AxisType.Explicit], ids=lambda kind: kind.name)
def test_a_method_is_checked_for_what_a_device_holds(kind):
    mesh = mesh_of(8, kind=kind)
    x = np.arange(8 * FITS, dtype=np.int32)
    with jax.set_mesh(mesh), primitives.interpreted():
        np.testing.assert_array_equal(jax.jit(by_block)(placed(x, mesh, "a")), x.cumsum())
        whole = placed(x, mesh)
        # In an Auto mesh it is XLA that calls back, and that says so.
        error = jax.errors.JaxRuntimeError if kind == AxisType.Auto else ValueError
        with pytest.raises(error, match="method='block' cannot run this scan: rows of 32768"):
            jax.jit(by_block).lower(whole).compile()


def test_a_method_that_can_run_on_no_part_is_refused_when_the_program_is_lowered():
    x = jax.ShapeDtypeStruct((64 * FITS,), np.float32)
    layout = NamedSharding(mesh_of(8), PartitionSpec("a"))
    run = jax.jit(by_block, in_shardings=layout)
    with primitives.interpreted(), pytest.raises(ValueError, match="method='block' cannot run"):
        run.lower(x)
