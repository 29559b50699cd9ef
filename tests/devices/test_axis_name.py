"""``axis_name``: inside of shard_map, an axis goes on across a mesh axis."""

from __future__ import annotations

import functools

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax.sharding import PartitionSpec as P

import jscan
from jscan import kernels, operators, primitives
from tests.devices.layouts import COUNT, HEADS, SORTED, N, assert_close, collectives, mesh_of
from tests.functions import affine

pytestmark = pytest.mark.sweep

ROW = np.random.default_rng(0).uniform(0.5, 1.5, N)
MESHES = {
    "8": ((8,), ("a",)),
    "4 of 4 x 2": ((4, 2), ("a",)),
    "both": ((4, 2), ("a", "b")),
    "the other way": ((4, 2), ("b", "a")),
}


def matrices(row):
    """A matrix for each number of a row."""
    return row[:, None, None] * np.array([[[0.5, 0.2], [0.1, 0.9]]])


SCANS = {
    "cumsum": lambda r, _, n: jscan.cumsum(r, axis_name=n),
    "cumsum, segmented": lambda r, f, n: jscan.cumsum(r, segments=f, axis_name=n),
    "cumprod, reversed": lambda r, _, n: jscan.cumprod(r, reverse=True, axis_name=n),
    "cumprod, every form": lambda r, f, n: jscan.cumprod(
        r, reverse=True, exclusive=True, segments=f, axis_name=n
    ),
    "cummax, exclusive": lambda r, _, n: jscan.cummax(r, exclusive=True, axis_name=n),
    "cumlogsumexp": lambda r, _, n: jscan.cumlogsumexp(r, axis_name=n),
    "associative_scan": lambda r, _, n: jscan.associative_scan(affine, (r / 2, r), axis_name=n),
    "associative_scan, reversed": lambda r, f, n: jscan.associative_scan(
        affine, (r / 2, r), reverse=True, segments=f, axis_name=n
    ),
    "an identity that must not be combined": lambda r, f, n: jscan.associative_scan(
        lambda a, b: a * b, r, exclusive=True, identity=jnp.ones(()), segments=f, axis_name=n
    ),
    "whole arrays": lambda r, _, n: jscan.associative_scan(jnp.matmul, matrices(r), axis_name=n),
    "linear_recurrence": lambda r, _, n: jscan.linear_recurrence(r / 2, r, 2.0, axis_name=n),
    "linear_recurrence, reversed": lambda r, f, n: jscan.linear_recurrence(
        r / 2, r, 2.0, reverse=True, segments=f, axis_name=n
    ),
}
"""Functions of a part of a row, of flags of it, and of the names across which it goes on."""

TOTALS = {
    "reduce": lambda r, _, n: jscan.reduce(operators.logaddexp, r, axis_name=n),
    "reduce, in order": lambda r, _, n: jscan.reduce(affine, (r / 2, r), axis_name=n),
    "reduce, one operation": lambda r, _, n: jscan.reduce(operators.max, r, axis_name=n),
    "reduce, whole arrays": lambda r, _, n: jscan.reduce(jnp.matmul, matrices(r), axis_name=n),
    "reduce by segments": lambda r, f, n: jscan.reduce(
        operators.mul, r, segments=f, num_segments=COUNT, axis_name=n
    ),
    "sums of segments": lambda r, f, n: jscan.reduce(
        operators.add, r, segments=f, num_segments=COUNT, axis_name=n
    ),
}
"""The same with results that are the same everywhere."""

FUNCTIONS = {**SCANS, **TOTALS}
OF_SEGMENTS = ("reduce by segments", "sums of segments")


def _cases():
    """Meshes, in turn with shard_map's check of what varies and without; others are thorough."""
    for place, (name, mesh) in enumerate(MESHES.items()):
        for turn in range(2):
            check_vma = (place + turn) % 2 == 0
            marks = [pytest.mark.thorough] * turn
            case = f"{name}-{'vma' if check_vma else 'no vma'}"
            yield pytest.param((*mesh, check_vma), id=case, marks=marks)


every_mesh = pytest.mark.parametrize("mesh", list(_cases()))


def mapped(fn, mesh, *, total=False):
    """A function of a row, of which each device of a mesh has a part."""
    sizes, names, check_vma = mesh
    spec = P(names)

    def part(row, flags):
        return fn(row, flags, names)

    return jax.shard_map(
        part,
        mesh=mesh_of(*sizes),
        in_specs=(spec, spec),
        out_specs=P() if total else spec,
        check_vma=check_vma,
    )


def check(found, expected):
    """Whether pytrees agree."""
    for x, y in zip(jax.tree.leaves(found), jax.tree.leaves(expected), strict=True):
        assert_close(x, y)


@functools.cache
def values(name):
    """What one device makes of the row."""
    return jax.jit(lambda r, f: FUNCTIONS[name](r, f, None))(ROW, HEADS)


@pytest.mark.sweep
@every_mesh
@pytest.mark.parametrize("name", FUNCTIONS)
def test_values(name, mesh):
    run = jax.jit(mapped(FUNCTIONS[name], mesh, total=name in TOTALS))
    compiled = run.lower(ROW, HEADS).compile()
    check(compiled(ROW, HEADS), values(name))
    # Each device has a total, which may be a matrix, or one for each segment.
    state = COUNT if name in OF_SEGMENTS else 4 if "whole arrays" in name else 1
    assert all(c.elements <= 8 * state for c in collectives(compiled))


def gradients(fn, *, orders=2):
    """The gradient of a sum of what a function of a row returns, and that of its square."""

    def total(row):
        return sum(jnp.sum(jnp.sin(x)) for x in jax.tree.leaves(fn(row, HEADS)))

    def both(row):
        slopes, pull = jax.vjp(jax.grad(total), row)
        return slopes, *pull(2 * slopes)

    return both if orders == 2 else lambda row: (jax.grad(total)(row),)


@functools.cache
def slopes(name):
    """The gradients of one device."""
    return jax.jit(gradients(lambda r, f: FUNCTIONS[name](r, f, None)))(ROW)


@pytest.mark.sweep
@every_mesh
@pytest.mark.parametrize("name", FUNCTIONS)
def test_gradients(name, mesh):
    whole = mapped(FUNCTIONS[name], mesh, total=name in TOTALS)
    # jax (0.10 to 0.12) loses what a scalar between two orders of derivatives varies over.
    orders = 1 if mesh[-1] and name == "cumlogsumexp" else 2
    check(jax.jit(gradients(whole, orders=orders))(ROW), slopes(name)[:orders])


@pytest.mark.parametrize("name", ["cumsum", "cumprod, every form", "linear_recurrence"])
def test_interpreted_kernels(name):
    with primitives.interpreted():
        found = jax.jit(mapped(SCANS[name], (*MESHES["both"], False)))(ROW, HEADS)
    check(found, values(name))


@pytest.mark.parametrize("own", [False, True], ids=["of all devices", "of each device"])
def test_flags_that_narrow_rows_share_in_kernels(own):
    rng = np.random.default_rng(3)
    x, flags = rng.integers(0, 3, (24, 33)).astype(np.int16), rng.random((8, 33)) < 0.2
    flags = flags if own else flags[:1]

    def part(x, flags):
        segments = jscan.Segments.from_flags(flags[0])
        return jscan.cumsum(x, axis=1, segments=segments, reverse=True)

    specs = P("a"), P("a") if own else P()
    run = jax.shard_map(part, mesh=mesh_of(8), in_specs=specs, out_specs=P("a"))
    with primitives.interpreted():
        found = jax.jit(run)(x, flags)
    wide = np.repeat(flags, len(x) // len(flags), axis=0)
    np.testing.assert_array_equal(found, jscan.cumsum(x, axis=1, segments=wide, reverse=True))


@pytest.mark.parametrize("dtype", ["int2", "uint4", "int8", "uint16"])
def test_narrow_integers_in_kernels_and_sums(dtype):
    ones = (HEADS > 0).astype(dtype) if dtype == "int2" else jnp.ones(N, dtype)

    def part(x, flags):
        scanned = jscan.cummax(x, segments=flags, axis_name="a")
        return scanned, jscan.reduce(operators.add, x, axis_name="a")

    outputs = (P("a"), P())
    run = jax.shard_map(part, mesh=mesh_of(8), in_specs=P("a"), out_specs=outputs, check_vma=False)
    with primitives.interpreted():
        scanned, total = jax.jit(run)(ones, HEADS)
    check(scanned, jax.jit(jscan.cummax)(ones, segments=HEADS))
    check(total, jax.jit(lambda x: jscan.reduce(operators.add, x))(ones))


def test_kernels_write_no_leaf_that_nobody_wants(monkeypatch):
    written = []

    def scan(leaves, flags, *, used, **how):
        written.append(used)
        return run_kernels(leaves, flags, used=used, **how)

    run_kernels = kernels.scan
    monkeypatch.setattr(kernels, "scan", scan)
    run = jax.shard_map(
        lambda x: jscan.linear_recurrence(x / 2, x, axis_name="a"),
        mesh=mesh_of(8),
        in_specs=P("a"),
        out_specs=P("a"),
        check_vma=False,
    )
    with primitives.interpreted():
        jax.jit(run).lower(ROW)
    assert written == [(False, True)]


def test_sorted_ids_whose_segments_straddle_devices():
    def part(data, ids):
        return jscan.segment_sum(data, ids, COUNT, True, axis_name="a")

    run = jax.shard_map(part, mesh=mesh_of(8), in_specs=P("a"), out_specs=P())
    expected = jax.ops.segment_sum(jnp.asarray(ROW), SORTED, COUNT)
    assert_close(run(ROW, SORTED), expected)
    gradient = jax.grad(lambda row: jnp.sum(run(row, SORTED) ** 2))(ROW)
    assert_close(gradient, 2 * expected[SORTED])


def test_rows_in_vmap_beside_a_divided_axis():
    rows = np.stack([ROW, 2 * ROW, -ROW])
    part = jax.vmap(lambda row: jscan.cumsum(row, axis_name="a"))
    run = jax.shard_map(part, mesh=mesh_of(8), in_specs=P(None, "a"), out_specs=P(None, "a"))
    assert_close(run(rows), rows.cumsum(1))


def test_integers_have_no_transpose_across_devices():
    def part(a, b):
        return jscan.linear_recurrence(a, b, axis_name="a")

    run = jax.shard_map(part, mesh=mesh_of(8), in_specs=P("a"), out_specs=P("a"))
    x = np.arange(8)
    with pytest.raises(TypeError, match="integers have no transpose across axis_name"):
        jax.linear_transpose(lambda b: run(x, b), x)(x)


def test_a_start_precedes_the_first_part_alone():
    """NaN in the coefficients of other segments, with which parts begin, reaches no slope in it."""

    def part(a, b, h0, flags):
        return jscan.linear_recurrence(a, b, h0, segments=flags, axis_name="a")

    specs = P("a"), P("a"), P(), P("a")
    run = jax.shard_map(part, mesh=mesh_of(8), in_specs=specs, out_specs=P("a"))
    flags = np.arange(N) == 4
    a = np.where(flags, np.nan, 0.5)
    slope = jax.jit(jax.grad(lambda h0: run(a, ROW, h0, flags)[0]))(2.0)
    np.testing.assert_array_equal(slope, 0.5)


def across(axis_name, **options):
    return lambda row: jscan.cumsum(row, axis_name=axis_name, **options)


def test_outside_of_shard_map():
    with pytest.raises(ValueError, match=r"cumsum: axis_name='a' needs jax\.shard_map"):
        across("a")(ROW)


@pytest.mark.parametrize(
    ("axis_name", "error", "message"),
    [
        ("z", ValueError, "axis_name='z' names no axis of the mesh .*'a', 'b'"),
        (("a", "a"), ValueError, "names 'a' twice"),
        (3, TypeError, "axis_name must be the name of a mesh axis"),
        ((), ValueError, r"axis_name=\(\) names no axis of a mesh"),
        ([], ValueError, r"axis_name=\[\] names no axis of a mesh"),
    ],
)
@pytest.mark.parametrize(
    "call",
    [
        lambda row, name: jscan.cumsum(row, axis_name=name),
        lambda row, name: jscan.associative_scan(jnp.add, row, axis_name=name),
        lambda row, name: jscan.linear_recurrence(row, row, axis_name=name),
        lambda row, name: jscan.reduce(jnp.add, row, axis_name=name)[None],
        lambda row, name: jscan.segment_max(row, jnp.int32(row), 2, True, axis_name=name),
    ],
)
def test_wrong_names(call, axis_name, error, message):
    run = jax.shard_map(
        lambda row: call(row, axis_name), mesh=mesh_of(4, 2), in_specs=P("a"), out_specs=P("a")
    )
    with pytest.raises(error, match=message):
        run(ROW)


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (
            across("a", segments=jscan.Segments.from_lengths([4])),
            "those of the whole axis, which has 64 elements; got segments of 4",
        ),
        (
            lambda r: jscan.linear_recurrence(
                r, r, segments=jscan.Segments.from_lengths([4]), axis_name="a"
            ),
            "those of the whole axis, which has 64 elements; got segments of 4",
        ),
        (
            lambda r: jscan.reduce(operators.add, r, segments=np.ones(4, bool), axis_name="a"),
            "num_segments is required with axis_name='a'",
        ),
        (
            lambda r: jscan.segment_sum(r, jnp.int32(r), 2, axis_name="a"),
            "needs indices_are_sorted",
        ),
    ],
)
def test_what_does_not_go_across(call, message):
    run = jax.shard_map(call, mesh=mesh_of(8), in_specs=P("a"), out_specs=P("a"))
    with pytest.raises((TypeError, ValueError), match=message):
        run(ROW)
