"""Axes of 2^31 elements or more over all devices, of which there are programs alone."""

from __future__ import annotations

import jax
import numpy as np
import pytest
from jax.sharding import NamedSharding
from jax.sharding import PartitionSpec as P

import jscan
from jscan import operators
from tests.devices.layouts import COUNT, collectives, mesh_of

PARTS = 8
FAR = 2**33
"""So many that a part of them is counted in 32 bits, and all of them are not."""


def sharded(dtype, n=FAR):
    """An array over eight devices, of which there is nothing but its type."""
    layout = NamedSharding(mesh_of(PARTS), P("a"))
    return jax.ShapeDtypeStruct((n,), dtype, sharding=layout)


COUNTING = {
    "jscan.enumerate: .* got mask": lambda m: jscan.enumerate(m),
    "jscan.pack: .* got mask": lambda m: jscan.pack(m, m, size=9),
    "jscan.nonzero: .* got mask": lambda m: jscan.nonzero(m, size=9),
    "jscan.partition: .* got x": lambda m: jscan.partition(m, m)[0],
    "jscan.split: .* got x": lambda m: jscan.split(m, m),
    "jscan.split_and_segment: .* got x": lambda m: jscan.split_and_segment(m, m, m)[0],
    "jscan.Segments.ids: .* got flags": lambda m: jscan.Segments.from_flags(m).ids,
    "jscan.Segments.lengths: .* got ids": lambda m: jscan.Segments.from_ids(m).lengths(3),
}


@pytest.mark.parametrize("message", COUNTING)
def test_what_counts_places_names_the_axis_that_is_too_long(message):
    assert jax.eval_shape(COUNTING[message], sharded(bool, 2**31 - 8)) is not None
    with pytest.raises(ValueError, match=rf"{message} of shape \({2**31},\) along axis=0"):
        jax.jit(COUNTING[message]).lower(sharded(bool, 2**31))


@pytest.mark.parametrize("describe", ["from_lengths", "from_offsets"])
def test_bounds_do_not_reach_so_far(describe):
    bounds = jax.ShapeDtypeStruct((4,), np.int64)

    def run(x, bounds):
        segments = getattr(jscan.Segments, describe)(bounds, total=FAR)
        return jscan.cumsum(x, segments=segments)

    with pytest.raises(ValueError, match=rf"{describe}: total must be in .*; got {FAR}"):
        jax.eval_shape(run, sharded(np.uint8), bounds)


REACHING = {
    "cumsum": lambda x, _, n: jscan.cumsum(x, reverse=True, axis_name=n),
    "reduce": lambda x, _, n: jscan.reduce(operators.bitwise_xor, x, axis_name=n),
    "reduce by flags": lambda x, f, n: jscan.reduce(
        operators.max, x, segments=f, num_segments=COUNT, axis_name=n
    ),
    "segment_sum": lambda x, _, n: jscan.segment_sum(x, x, COUNT, True, axis_name=n),
}


@pytest.mark.parametrize("manner", ["Auto", "shard_map"])
@pytest.mark.parametrize("name", REACHING)
def test_what_counts_no_places_goes_as_far_as_devices_hold(name, manner):
    function = REACHING[name]

    def run(x, flags):
        return function(x, flags, ("a",) if manner == "shard_map" else None)

    if manner == "shard_map":
        made = P("a") if name == "cumsum" else P()
        run = jax.shard_map(run, mesh=mesh_of(PARTS), in_specs=(P("a"), P("a")), out_specs=made)
    lowered = jax.jit(run).lower(sharded(np.uint8), sharded(bool))
    if manner == "Auto" and jax.__version_info__ < (0, 11):
        # It reads the sizes in a sharding rule, which it writes itself, in 32 bits.
        with pytest.raises(jax.errors.JaxRuntimeError, match="integer value too large"):
            lowered.compile()
        return
    assert all(c.elements <= PARTS * COUNT for c in collectives(lowered.compile()))
