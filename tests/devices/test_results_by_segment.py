"""Totals of segments whose elements several devices hold: whole on each, or a part where asked."""

from __future__ import annotations

import jax
import numpy as np
import pytest
from jax.sharding import AxisType, NamedSharding
from jax.sharding import PartitionSpec as P

import jscan
from tests import reference
from tests.devices.layouts import assert_close, collectives, mesh_of, placed

COUNT = 64
IDS = np.sort(np.random.default_rng(1).integers(0, COUNT, 256))
DATA = np.random.default_rng(2).uniform(0.5, 1.5, (256, 4))
FUNCTIONS = {
    "sum": (jscan.segment_sum, np.add, 0.0, 1),
    "max": (jscan.segment_max, np.maximum, -np.inf, 4),
    "prod": (jscan.segment_prod, np.multiply, 1.0, 4),
}
"""A function, its operator and identity, and the devices whose totals a collective puts together.

Sums are added up on the way, and what else is combined is gathered.
"""

every_function = pytest.mark.parametrize("function", FUNCTIONS.values(), ids=FUNCTIONS.keys())


def check(run, mesh, layout, function, spec):
    """A program has the totals, laid out as the spec says, and moves no more than totals."""
    _, combine, identity, gathered = function
    operands = placed(DATA, mesh, *layout), placed(IDS, mesh, layout[0])
    compiled = run.lower(*operands).compile()
    found = compiled(*operands)
    expected = reference.reduce_by_segments(combine, DATA, IDS, COUNT, identity=identity)
    assert_close(found, expected)
    assert found.sharding.is_equivalent_to(NamedSharding(mesh, spec), 2)
    lanes = DATA.shape[1] // (2 if layout[1:] and spec[1:] else 1)
    assert max(c.elements for c in collectives(compiled)) <= gathered * COUNT * lanes


@pytest.mark.product
@every_function
@pytest.mark.parametrize("spec", [P(), P("a"), P("a", "b"), P(("a", "b"))], ids=str)
@pytest.mark.parametrize("layout", [("a",), ("a", "b")], ids=str)
def test_under_jit(layout, spec, function):
    mesh = mesh_of(4, 2)

    @jax.jit
    def run(data, ids):
        totals = function[0](data, ids, COUNT, True)
        return jax.lax.with_sharding_constraint(totals, NamedSharding(mesh, spec))

    check(run, mesh, layout, function, spec)


@every_function
@pytest.mark.parametrize(
    ("out_sharding", "spec"),
    [(None, P(None, "b")), (P("a"), P("a")), (P("a", "b"), P("a", "b"))],
    ids=str,
)
def test_out_sharding(out_sharding, spec, function):
    mesh = mesh_of(4, 2, kind=AxisType.Explicit)
    with jax.set_mesh(mesh):
        run = jax.jit(
            lambda data, ids: function[0](data, ids, COUNT, True, out_sharding=out_sharding)
        )
        check(run, mesh, ("a", "b"), function, spec)


@every_function
def test_parts_that_are_taken_in_shard_map(function):
    """Each device takes its segments from the totals that all of them have."""
    mesh = mesh_of(8)

    def part(data, ids):
        totals = function[0](data, ids, COUNT, True, axis_name="a")
        size = COUNT // 8
        return jax.lax.dynamic_slice_in_dim(totals, jax.lax.axis_index("a") * size, size)

    run = jax.shard_map(part, mesh=mesh, in_specs=P("a"), out_specs=P("a"), check_vma=False)
    found = jax.jit(run)(placed(DATA, mesh, "a"), placed(IDS, mesh, "a"))
    _, combine, identity, _ = function
    expected = reference.reduce_by_segments(combine, DATA, IDS, COUNT, identity=identity)
    assert_close(found, expected)
