"""What a typed program outside of the package writes: checked and run against the wheel."""

from __future__ import annotations

from typing import assert_type

import jax
import jax.numpy as jnp

import jscan
from jscan import SegmentPlan, Segments, networks, operators

x: jax.Array = jnp.arange(6.0)
ids: jax.Array = jnp.zeros(6, jnp.int32)
rows: Segments = Segments.from_lengths([2, 0, 4])

assert_type(jscan.cumsum(x), jax.Array)
assert_type(jscan.cumsum(x, 0, reverse=True, exclusive=True, segments=rows), jax.Array)
assert_type(jscan.enumerate(x > 2), jax.Array)
assert_type(jscan.linear_recurrence(x, x, h0=1.0), jax.Array)
assert_type(jscan.segment_sum(x, ids, 1), jax.Array)
assert_type(jscan.segment_sum(x, SegmentPlan(ids, 1)), jax.Array)
assert_type(jscan.segment_softmax(x, rows), jax.Array)
assert_type(jscan.tridiagonal_solve(-1.0, 2.0, -1.0, x), jax.Array)
assert_type(jscan.histogram(ids, 6), jax.Array)
assert_type(jscan.csr_matvec(x, ids, jnp.array([0, 3, 6]), x), jax.Array)


def latest(
    a: tuple[jax.Array, jax.Array], b: tuple[jax.Array, jax.Array]
) -> tuple[jax.Array, jax.Array]:
    return a[0] | b[0], jnp.where(b[0], b[1], a[1])


filled = jscan.associative_scan(latest, (x > 2, x))[1]
total = jscan.reduce(operators.add, x, segments=rows)
_, halves = jscan.split_and_segment(x, x > 2, rows)
assert_type(halves, Segments)
assert_type(rows.num_segments, int | None)
assert_type(jscan.engine().name, str | None)
assert_type(networks.depth(networks.sklansky, 8), int)
with jscan.engine("pallas"):
    assert_type(jscan.cumsum(x).shape, tuple[int, ...])
