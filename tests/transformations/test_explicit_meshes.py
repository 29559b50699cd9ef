"""Meshes of Explicit axes: right values, and results that are laid out as their operands."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax.sharding import AxisType, NamedSharding
from jax.sharding import PartitionSpec as P

import jscan
from jscan import operators
from tests.functions import affine

RNG = np.random.default_rng(0)
X = RNG.uniform(0.5, 1.5, (8, 16))
HEADS = np.array([0, 0, 1, 0] * 4)
SORTED = np.repeat([0, 1, 2, 4], 4)
UNSORTED = np.repeat([0, 4, 1, 2], 4)


ALONG = {
    "linear_recurrence": lambda r: jscan.linear_recurrence(r, r),
    "linear_recurrence-h0": lambda r: jscan.linear_recurrence(r, r, 2.0),
    "linear_recurrence-reversed": lambda r: jscan.linear_recurrence(
        r, r, reverse=True, segments=HEADS
    ),
    "cumprod": jscan.cumprod,
    "cummax": jscan.cummax,
    "cumlogsumexp": jscan.cumlogsumexp,
    "cumprod-segmented": lambda r: jscan.cumprod(r, segments=HEADS),
    "cummax-reversed-exclusive": lambda r: jscan.cummax(r, reverse=True, exclusive=True),
    "two-leaves": lambda r: jscan.associative_scan(affine, (r, r))[1],
    "distribute": lambda r: jscan.distribute(r, segments=HEADS),
    "split": lambda r: jscan.split(r, r > 1),
    "split_and_segment": lambda r: jscan.split_and_segment(r, r > 1, HEADS)[0],
}
"""Functions of a row whose results are laid out as the row."""

OTHERS = {
    "pack": lambda r: jscan.pack(r, r > 1, size=9),
    "segment_sum": lambda r: jscan.segment_sum(r, SORTED, 5, True),
    "segment_max": lambda r: jscan.segment_max(r, SORTED, 5, True),
    "segment_sum-unsorted": lambda r: jscan.segment_sum(r, UNSORTED, 5),
    "segment_sum-planned": lambda r: jscan.segment_sum(r, jscan.SegmentPlan(UNSORTED, 5)),
    "segment_prod-unsorted": lambda r: jscan.segment_prod(r, UNSORTED, 5),
    "reduce": lambda r: jscan.reduce(operators.logaddexp, r),
    "reduce-segments": lambda r: jscan.reduce(operators.mul, r, segments=HEADS, num_segments=5),
    "reduce-two-leaves": lambda r: jscan.reduce(
        affine, (r, r), identity=(1.0, 0.0), segments=HEADS, num_segments=5
    )[1],
    "whole-arrays": lambda r: jscan.associative_scan(
        jnp.matmul, jax.vmap(lambda v: v * jnp.ones((2, 2)) / 2)(r)
    )[:, 0, 0],
}
"""Functions of a row whose results have another shape, or no layout that they must have."""


def mesh_of(*shape):
    names = ("rows", "columns")[: len(shape)]
    kinds = (AxisType.Explicit,) * len(shape)
    return jax.make_mesh(shape, names, kinds, devices=jax.devices("cpu")[:4])


def gradient(f):
    return jax.grad(lambda r: (f(r) ** 2).sum())


def is_right(f, arrays, mesh, specs, *, eager=False, expected=None):
    """Whether a function of arrays that lie in a mesh gives what it gives without one."""
    wanted = jax.jit(f)(*arrays)
    with jax.set_mesh(mesh):
        placed = [
            jax.device_put(x, NamedSharding(mesh, spec))
            for x, spec in zip(arrays, specs, strict=True)
        ]
        found = f(*placed) if eager else jax.jit(f)(*placed)
        np.testing.assert_allclose(found, wanted, rtol=1e-10)
        if expected is not None:
            assert jax.typeof(found).sharding.spec == expected


@pytest.mark.parametrize("name", [*ALONG, *OTHERS])
def test_a_sharded_batch_of_gradients(name):
    f = (ALONG | OTHERS)[name]
    rows = P("rows", None)
    is_right(jax.vmap(gradient(f)), [X], mesh_of(4), [rows], expected=rows)


def all_but(kept, table):
    """The names of a table as cases; those that are not kept are left to the thorough."""
    assert set(kept) <= set(table)
    return [
        pytest.param(name, marks=[] if name in kept else [pytest.mark.thorough]) for name in table
    ]


@pytest.mark.parametrize(
    "name",
    all_but(
        ("linear_recurrence-h0", "cumprod-segmented", "split", "pack", "segment_sum-unsorted"),
        ALONG | OTHERS,
    ),
)
def test_a_gradient_along_a_sharded_axis(name):
    f = (ALONG | OTHERS)[name]
    is_right(gradient(f), [X[0]], mesh_of(4), [P("rows")], expected=P("rows"))


@pytest.mark.parametrize("name", all_but(("two-leaves", "cummax", "distribute"), ALONG))
def test_results_keep_both_dimensions_of_a_mesh(name):
    both = P("rows", "columns")
    is_right(jax.vmap(ALONG[name]), [X], mesh_of(2, 2), [both], expected=both)


@pytest.mark.parametrize("name", ["linear_recurrence", "cumprod", "pack", "segment_sum-unsorted"])
def test_a_call_outside_jit(name):
    f = (ALONG | OTHERS)[name]
    is_right(f, [X[0]], mesh_of(4), [P("rows")], eager=True)
    is_right(gradient(f), [X[0]], mesh_of(4), [P("rows")], eager=True)


def test_a_mesh_that_only_the_operand_knows():
    mesh, rows = mesh_of(4), P("rows", None)
    placed = jax.device_put(X, NamedSharding(mesh, rows))
    for f in (jax.vmap(jscan.cumprod), jax.jit(jax.vmap(gradient(jscan.cumprod)))):
        found = f(placed)
        np.testing.assert_allclose(found, f(X), rtol=1e-12)
        assert jax.typeof(found).sharding.spec == rows


def test_gradients_outside_jit_with_replicated_flags():
    def f(x, heads):
        return jax.grad(lambda x: (jscan.cumprod(x, 1, segments=heads) ** 2).sum())(x)

    rows = P("rows", None)
    is_right(f, [X, HEADS], mesh_of(4), [rows, P()], eager=True, expected=rows)


@pytest.mark.parametrize("axis", [0, 1])
def test_a_start_along_the_sharded_axis(axis):
    def f(x, h0):
        return jscan.linear_recurrence(x, x, h0, axis=axis)

    rows = P("rows", None)
    starts = X[0] if axis == 0 else X[:, 0]
    is_right(f, [X, starts], mesh_of(4), [rows, P()], expected=rows)


@pytest.mark.parametrize(
    ("axis", "segmented", "expected"),
    [(0, False, P(None)), (1, False, P("rows")), (1, True, P("rows", None))],
)
def test_reductions_keep_what_is_not_reduced(axis, segmented, expected):
    heads, count = (HEADS, 5) if segmented else (None, None)

    def f(x):
        return jscan.reduce(
            affine, (x, x), axis, identity=(1.0, 0.0), segments=heads, num_segments=count
        )[1]

    is_right(f, [X], mesh_of(4), [P("rows", None)], expected=expected)


def test_trailing_dimensions_of_segment_sums_stay_where_they_are():
    ids = np.array([0, 0, 1, 3, 3, 3, 3, 3])

    def f(x):
        return jscan.segment_sum(x, ids, 4, True)

    is_right(f, [X], mesh_of(4), [P(None, "rows")], expected=P(None, "rows"))


SEGMENTS = {
    "from_lengths": lambda n: jscan.Segments.from_lengths(n, 16).flags,
    "from_lengths-lengths": lambda n: jscan.Segments.from_lengths(n, 16).lengths(8),
    "from_lengths-used": lambda n: jscan.cumsum(
        jnp.ones(16), segments=jscan.Segments.from_lengths(n, 16)
    ),
    "from_offsets": lambda n: jscan.Segments.from_offsets(n * 2, 16).ids,
    "from_ids": lambda n: jscan.Segments.from_ids(n).flags,
    "from_ids-ids": lambda n: jscan.Segments.from_ids(n).ids,
    "from_flags-offsets": lambda n: jscan.Segments.from_flags(n > 2).offsets(4),
}


@pytest.mark.parametrize("name", SEGMENTS)
def test_segments_of_sharded_arrays(name):
    lengths = np.array([0, 2, 2, 2, 3, 3, 2, 2])
    is_right(jax.jit(SEGMENTS[name]), [lengths], mesh_of(4), [P("rows")])


def test_batches_of_segments_from_sharded_lengths():
    lengths = np.array([[3, 5], [8, 0], [1, 7], [4, 4]])

    def f(x, lengths):
        return jax.vmap(lambda x, n: jscan.cumsum(x, segments=jscan.Segments.from_lengths(n, 8)))(
            x, lengths
        )

    rows = P("rows", None)
    is_right(f, [X[:4, :8], lengths], mesh_of(4), [rows, rows], expected=rows)


def test_an_operator_that_closes_over_an_array_of_the_mesh():
    def f(x, scale):
        return jscan.associative_scan(lambda a, b: a + scale * b, x, axis=1)

    rows = P("rows", None)
    is_right(f, [X, np.float64(1.0)], mesh_of(4), [rows, P()], expected=rows)
