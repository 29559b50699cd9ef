"""``axis_name`` with segments of every kind, whole-array operators, and identities of any kind."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax.sharding import PartitionSpec as P

import jscan
from jscan import operators
from jscan.plain.across import of_this_part
from tests.devices.layouts import COUNT, HEADS, SORTED, N, assert_close, collectives, mesh_of
from tests.functions import affine

pytestmark = pytest.mark.sweep

ROW = np.random.default_rng(0).uniform(0.5, 1.5, N)
LENGTHS = [3, 1, 0, 23, 34, 3]
MESHES = {"8": ((8,), "a"), "4 of 4 x 2": ((4, 2), "a"), "the other way": ((4, 2), ("b", "a"))}

DIVISIONS = {
    "flags": lambda part: jscan.Segments.from_flags(part[0]),
    "packed flags": lambda part: jscan.Segments.from_packed(
        jnp.packbits(part[0], bitorder="little"), part[0].shape[0]
    ),
    "ids": lambda part: jscan.Segments.from_ids(part[1]),
    "lengths": lambda _: jscan.Segments.from_lengths(LENGTHS),
    "offsets": lambda _: jscan.Segments.from_offsets(np.cumsum([0, *LENGTHS])),
}
"""Segments of a part of a row, from flags and ids of the part, or of the whole row."""


def of_matrices(row):
    """A matrix and a vector for each number of a row."""
    matrix = row[:, None, None] * np.array([[[0.5, 0.2], [0.1, 0.9]]])
    return matrix, row[:, None] * np.array([[1.0, -1.0]])


def compose(p, q):
    """The composition of maps x -> A x + b, the first operand first."""
    return q[0] @ p[0], (q[0] @ p[1][..., None])[..., 0] + q[1]


def scans(**forms):
    """An operator on whole arrays with forms of a scan."""
    return lambda r, s, n: jscan.associative_scan(
        compose, of_matrices(r), segments=s, axis_name=n, **forms
    )


def neutral():
    """The identity of ``compose``."""
    return np.eye(2), np.zeros(2)


SCANS = {
    "cumsum": lambda r, s, n: jscan.cumsum(r, segments=s, axis_name=n),
    "cumprod, every form": lambda r, s, n: jscan.cumprod(
        r, reverse=True, exclusive=True, segments=s, axis_name=n
    ),
    "a traced identity": lambda r, s, n: jscan.associative_scan(
        lambda a, b: a * b, r, exclusive=True, identity=jnp.ones(()), segments=s, axis_name=n
    ),
    "linear_recurrence": lambda r, s, n: jscan.linear_recurrence(
        r / 2, r, 2.0, reverse=True, segments=s, axis_name=n
    ),
    "whole arrays": scans(),
    "whole arrays, reversed": scans(reverse=True),
    "whole arrays, every form": lambda r, s, n: scans(
        reverse=True, exclusive=True, identity=neutral()
    )(r, s, n),
    "whole arrays without segments": lambda r, _, n: scans()(r, None, n),
}


def totals(fn, elems, identity=None):
    """A reduction by segments."""
    return lambda r, s, n: jscan.reduce(
        fn, elems(r), identity=identity, segments=s, num_segments=COUNT, axis_name=n
    )


TOTALS = {
    "sums": totals(operators.add, lambda r: r),
    "totals in order": totals(affine, lambda r: (r, r), (1.0, 0.0)),
    "totals by a traced identity": lambda r, s, n: totals(
        lambda a, b: a * b, lambda r: r, 2 * jnp.ones(())
    )(r, s, n),
    "totals by an identity that is none": totals(jnp.minimum, lambda r: r + 1, 1.0),
    "totals of whole arrays": lambda r, s, n: totals(compose, of_matrices, neutral())(r, s, n),
    "totals of halves": lambda r, s, n: totals(
        jnp.maximum, lambda r: r.astype("float16"), jnp.ones((), "float16") * 9
    )(r, s, n),
    "totals of truths": lambda r, s, n: totals(
        jnp.logical_and, lambda r: r > 1, jnp.zeros((), bool)
    )(r, s, n),
}

EVERY = {**SCANS, **TOTALS}
every_mesh = pytest.mark.parametrize("mesh", MESHES.values(), ids=MESHES.keys())
every_vma = pytest.mark.parametrize("check_vma", [True, False], ids=["vma", "no vma"])


def mapped(name, division, mesh, *, check_vma):
    """A function of a row, of which each device of a mesh has a part."""
    sizes, names = mesh
    spec = P(names)

    def part(row, flags, ids):
        return EVERY[name](row, DIVISIONS[division]((flags, ids)), names)

    return jax.shard_map(
        part,
        mesh=mesh_of(*sizes),
        in_specs=(spec, spec, spec),
        out_specs=P() if name in TOTALS else spec,
        check_vma=check_vma,
    )


def alone(name, division):
    """The same on one device."""
    return lambda row, flags, ids: EVERY[name](row, DIVISIONS[division]((flags, ids)), None)


def check(found, expected):
    """Whether pytrees agree."""
    for x, y in zip(jax.tree.leaves(found), jax.tree.leaves(expected), strict=True):
        assert_close(x, y)


@pytest.mark.sweep
@every_vma
@every_mesh
@pytest.mark.parametrize("division", DIVISIONS)
@pytest.mark.parametrize("name", EVERY)
def test_values(name, division, mesh, check_vma):
    run = jax.jit(mapped(name, division, mesh, check_vma=check_vma))
    operands = ROW, HEADS, SORTED
    check(run(*operands), jax.jit(alone(name, division))(*operands))
    sizes = [c.elements for c in collectives(run.lower(*operands).compile())]
    # The largest state is a matrix, for each device or segment.
    assert max(sizes) <= 8 * 4 * COUNT


@pytest.mark.sweep
@every_vma
@pytest.mark.parametrize("division", DIVISIONS)
@pytest.mark.parametrize(
    "name", [name for name in EVERY if name not in ("totals of halves", "totals of truths")]
)
def test_gradients(name, division, check_vma):
    def gradient(fn):
        def total(row):
            return sum(jnp.sum(jnp.sin(x)) for x in jax.tree.leaves(fn(row, HEADS, SORTED)))

        return jax.jit(jax.grad(total))

    whole = mapped(name, division, MESHES["the other way"], check_vma=check_vma)
    check(gradient(whole)(ROW), gradient(alone(name, division))(ROW))


@every_vma
def test_rows_in_vmap(check_vma):
    """Of rows each has offsets of its own."""
    offsets = np.array([[0, 3, 40, 64], [0, 8, 8, 61], [0, 32, 48, 64]])
    rows = np.stack([ROW, 2 * ROW, ROW + 1])

    def scan(row, offsets, axis_name):
        segments = jscan.Segments.from_offsets(offsets, total=N)
        return jscan.cumsum(row, segments=segments, axis_name=axis_name)

    run = jax.shard_map(
        jax.vmap(lambda row, offsets: scan(row, offsets, "a")),
        mesh=mesh_of(8),
        in_specs=(P(None, "a"), P()),
        out_specs=P(None, "a"),
        check_vma=check_vma,
    )
    expected = jax.vmap(lambda row, offsets: scan(row, offsets, None))(rows, offsets)
    check(run(rows, offsets), expected)


def test_segments_that_are_passed_in():
    segments = jscan.Segments.from_lengths(LENGTHS)
    run = jax.shard_map(
        lambda row, segments: jscan.cumsum(row, segments=segments, axis_name="a"),
        mesh=mesh_of(8),
        in_specs=(P("a"), P()),
        out_specs=P("a"),
    )
    check(jax.jit(run)(ROW, segments), jscan.cumsum(ROW, segments=segments))


def test_no_elements():
    run = jax.shard_map(
        lambda x: jscan.reduce(
            lambda a, b: a * b,
            x,
            identity=jnp.ones(()),
            segments=jscan.Segments.from_lengths([0, 0]),
            axis_name="a",
        ),
        mesh=mesh_of(8),
        in_specs=P("a"),
        out_specs=P(),
        check_vma=False,
    )
    np.testing.assert_array_equal(run(np.zeros(0)), [1, 1])


def test_bounds_of_parts_that_begin_beyond_32_bits():
    """Parts of 2^30 elements, of which the third one begins at 2^31."""
    n, last = 2**30, 2**31 - 1

    def part(offsets):
        return of_this_part(offsets, "offsets", ("a",), axis=0, n=n)[1][None]

    run = jax.shard_map(part, mesh=mesh_of(8), in_specs=P(), out_specs=P("a"))
    found = run(np.array([0, 5, n + 7, last], np.int32))
    rest = [[0, 0, 0, 0]] * 6
    np.testing.assert_array_equal(found, [[0, 5, n, n], [0, 0, 7, n - 1], *rest])
