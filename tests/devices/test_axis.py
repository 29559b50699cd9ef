"""An axis that is scanned and sharded over devices: only totals move."""

from __future__ import annotations

import functools

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax.sharding import AxisType, NamedSharding
from jax.sharding import PartitionSpec as P

import jscan
from jscan import operators
from jscan.plain import tails
from tests import reference
from tests.cases import FORMS, head_flags
from tests.devices.layouts import (
    COUNT,
    FUNCTIONS,
    MOVES_DATA,
    ROWS,
    TOTALS_OF_SEGMENTS,
    WITHOUT_GRADIENT,
    Layout,
    N,
    assert_close,
    check,
    collectives,
    every_layout,
    mesh_of,
    placed,
)
from tests.functions import affine

LAYOUTS = {
    "8": Layout((8,), (None, "a")),
    "4 beside rows": Layout((4, 2), ("b", "a")),
    "two, the other way": Layout((4, 2), (None, ("b", "a"))),
    "two of 2 x 2 x 2": Layout((2, 2, 2), ("b", ("a", "c"))),
}


def check_totals(name, layout, *, gradient=False, interpreted=False):
    """Check values, and that each device gives a total for each row, or for each of its segments.

    A gradient's total may be a matrix.
    """
    compiled, _ = check(name, layout, gradient=gradient, interpreted=interpreted)
    if name not in MOVES_DATA:
        state = COUNT if name in TOTALS_OF_SEGMENTS else 4 if gradient else 1
        assert all(c.elements <= 8 * len(ROWS) * state for c in collectives(compiled))


@pytest.mark.sweep
@every_layout(**LAYOUTS)
@pytest.mark.parametrize("name", FUNCTIONS)
def test_values(name, layout):
    check_totals(name, layout)


@pytest.mark.sweep
@every_layout(**LAYOUTS)
@pytest.mark.parametrize("name", [name for name in FUNCTIONS if name not in WITHOUT_GRADIENT])
def test_gradients(name, layout):
    check_totals(name, layout, gradient=True)


LONG = 512  # of which a device holds more than its totals
HEADS_OF_LONG = np.isin(np.arange(LONG), [3, 250, 256, 400, 511])
DIFFERENTIATED = {
    "cumprod": lambda x: jscan.cumprod(x),
    "cumlogsumexp": lambda x: jscan.cumlogsumexp(x, reverse=True),
    "affine": lambda x: jscan.associative_scan(affine, (x, x), segments=HEADS_OF_LONG)[1],
    "linear_recurrence": lambda x: jscan.linear_recurrence(x, x, 2.0),
    "segment_prod": lambda x: jscan.segment_prod(x, np.cumsum(HEADS_OF_LONG), COUNT, True),
    **{
        f"{operator.name} of sharded flags": functools.partial(
            lambda operator, x: jscan.reduce(operator, x, segments=x > 0.985, num_segments=COUNT),
            operator,
        )
        for operator in (operators.add, operators.mul, operators.max)
    },
}


@pytest.mark.sweep
@pytest.mark.parametrize(
    "kind", [AxisType.Auto, pytest.param(AxisType.Explicit, marks=pytest.mark.thorough)]
)
@pytest.mark.parametrize("function", DIFFERENTIATED.values(), ids=DIFFERENTIATED.keys())
def test_second_derivatives_move_totals(function, kind):
    def first(x):
        return jax.grad(lambda x: jnp.sum(jnp.sin(function(x))))(x)

    def second(x):
        slopes, pull = jax.vjp(first, x)
        return slopes, *pull(jnp.cos(slopes))

    x = np.random.default_rng(6).uniform(0.8, 0.99, LONG)
    mesh = mesh_of(8, kind=kind)
    with jax.set_mesh(mesh):
        operand = placed(x, mesh, "a")
        compiled = jax.jit(second).lower(operand).compile()
        found = compiled(operand)
    for y, values in zip(found, jax.jit(second)(x), strict=True):
        np.testing.assert_allclose(y, values, rtol=1e-9, atol=1e-9)
    assert max(c.elements for c in collectives(compiled)) <= 8 * COUNT


@pytest.mark.sweep
@pytest.mark.parametrize(
    ("form", "share"),
    [(form, share) for form in FORMS for share in ((0.0, 0.02, 0.5) if form[2] else (0.0,))],
)
def test_every_form_with_segments_that_straddle_devices(form, share):
    """An operator that does not commute, and segments that span no, some and many devices."""
    reverse, exclusive, segmented = form
    rng = np.random.default_rng(7)
    elems = tuple(rng.integers(-2, 3, (3, 64)).astype(np.int32) for _ in range(2))
    flags = head_flags((3, 64), share=share) if segmented else None
    options = {"axis": 1, "reverse": reverse, "exclusive": exclusive, "identity": (1, 0)}
    mesh = mesh_of(8)
    operands = [None if x is None else placed(x, mesh, None, "a") for x in (*elems, flags)]
    run = jax.jit(lambda a, b, f: jscan.associative_scan(affine, (a, b), segments=f, **options))
    found = run(*operands)
    expected = reference.scan(affine, elems, flags=flags, **options)
    for y, values in zip(found, expected, strict=True):
        assert y.sharding.is_equivalent_to(NamedSharding(mesh, P(None, "a")), 2)
        np.testing.assert_array_equal(y, values)
    largest = max(c.elements for c in collectives(run.lower(*operands).compile()))
    assert largest <= 8 * 3


@pytest.mark.sweep
@pytest.mark.parametrize("at_once", [1, 3, 7, 40])
@pytest.mark.parametrize("reverse", [False, True])
@pytest.mark.parametrize("share", [0.0, 0.01, 0.3])
def test_restarts_are_looked_for_at_the_end_of_a_part(monkeypatch, at_once, reverse, share):
    monkeypatch.setattr(tails, "AT_ONCE", at_once)
    rng = np.random.default_rng(9)
    x, flags = rng.integers(-9, 9, (2, 88)).astype(np.int32), rng.random((2, 88)) < share
    mesh = mesh_of(8)
    operands = [placed(a, mesh, None, "a") for a in (x, flags)]
    run = jax.jit(lambda x, f: jscan.cumsum(x, 1, reverse, segments=f))
    expected = reference.scan(np.add, x, axis=1, reverse=reverse, flags=flags)
    np.testing.assert_array_equal(run(*operands), expected)


@pytest.mark.parametrize(
    ("fn", "identity"),
    [(jnp.minimum, 1.0), (lambda _, y: y, 0.0), (lambda x, _: x, 0.0)],
    ids=["on no side", "on the left", "on the right"],
)
def test_an_identity_that_is_none_stands_in_empty_segments_alone(fn, identity):
    mesh = mesh_of(8)
    x = placed(np.random.default_rng(4).uniform(2, 3, (2, 64)), mesh, None, "a")
    heads = placed(np.isin(np.arange(64), [5, 20, 33]), mesh, "a")

    def run(x, heads):
        along = {"axis": 1, "segments": heads, "num_segments": 6}
        return jscan.reduce(fn, x, identity=identity, **along)

    expected = jax.jit(run)(np.asarray(x), np.asarray(heads))
    np.testing.assert_array_equal(jax.jit(run)(x, heads), expected)
    assert np.asarray(expected)[:, :4].min() > 1


@pytest.mark.parametrize("name", ["bitwise_and", "bitwise_or", "bitwise_xor"])
def test_bits_of_all_devices(name):
    """XLA has no collective that combines them."""
    x = np.random.default_rng(6).integers(0, 256, (2, 64)).astype(np.uint8)
    found = jax.jit(lambda x: jscan.reduce(getattr(operators, name), x, axis=1))(
        placed(x, mesh_of(8), None, "a")
    )
    np.testing.assert_array_equal(found, getattr(np, name).reduce(x, axis=1))


def test_eager_vmap_over_a_sharded_dimension_beside_a_sharded_axis():
    mesh = mesh_of(4, 2, kind=AxisType.Explicit)
    found = jax.vmap(jscan.cumsum)(placed(ROWS, mesh, "b", "a"))
    np.testing.assert_allclose(found, ROWS.cumsum(1), rtol=1e-12)


@pytest.mark.parametrize("name", ["cumsum", "cumprod, every form", "linear_recurrence, reversed"])
def test_axes_that_are_left_to_an_inner_program(name):
    """Explicit axes inside of a shard_map over others."""
    mesh = mesh_of(4, 2, kind=AxisType.Explicit)
    fn = jax.vmap(FUNCTIONS[name])
    part = jax.shard_map(fn, mesh=mesh, axis_names={"a"}, in_specs=P("a"), out_specs=P("a"))
    with jax.set_mesh(mesh):
        found = jax.jit(part)(placed(ROWS, mesh, "a", "b"))
    assert_close(found, jax.jit(fn)(ROWS))


def test_an_exclusive_scan_by_a_traced_identity_moves_edges():
    mesh = mesh_of(8)
    flags = placed(np.arange(512) % 50 == 3, mesh, "a")

    @jax.jit
    def run(x, flags, one):
        options = {"exclusive": True, "identity": one, "segments": flags, "reverse": True}
        return jscan.associative_scan(lambda a, b: a * b, x, **options)

    x = np.random.default_rng(5).uniform(0.9, 1.1, 512)
    operands = placed(x, mesh, "a"), flags, 1.0
    compiled = run.lower(*operands).compile()
    assert max(c.elements for c in collectives(compiled)) <= 8
    expected = reference.scan(
        np.multiply, x, reverse=True, exclusive=True, identity=1.0, flags=np.asarray(flags)
    )
    np.testing.assert_allclose(compiled(*operands), expected, rtol=1e-10)


def test_flags_that_lie_otherwise_than_the_data():
    mesh = mesh_of(4, 2, kind=AxisType.Explicit)
    with jax.set_mesh(mesh):
        x = placed(ROWS, mesh, None, ("b", "a"))
        flags = placed(np.zeros(ROWS.shape, bool), mesh, "a")
        y = jax.jit(lambda x, f: jscan.cumsum(x, 1, segments=f))(x, flags)
    assert y.sharding.is_equivalent_to(x.sharding, 2)
    np.testing.assert_allclose(y, ROWS.cumsum(1), rtol=1e-12)


def slopes_before_heads(x, flags):
    return jax.grad(lambda x: jnp.sum(jnp.sin(EXCLUSIVE(x, segments=flags))))(x)


EXCLUSIVE = functools.partial(jscan.cumprod, reverse=True, exclusive=True)


@pytest.mark.product
@pytest.mark.parametrize("kind", [AxisType.Auto, AxisType.Explicit], ids=lambda kind: kind.name)
@pytest.mark.parametrize(
    "function",
    [
        lambda x, flags: jscan.cumsum(x, segments=jscan.Segments.from_ids(flags)),
        lambda x, flags: jscan.linear_recurrence(x, x, reverse=True, segments=flags),
        slopes_before_heads,
    ],
    ids=["ids", "flags", "gradient"],
)
def test_segments_that_all_devices_know(function, kind):
    """XLA moves nothing by a pad that cuts what all devices have."""
    mesh = mesh_of(8, kind=kind)
    x, flags = ROWS[0], np.isin(np.arange(N), [3, 4, 8, 21, 31])
    with jax.set_mesh(mesh):
        found = jax.jit(function)(placed(x, mesh, "a"), placed(flags, mesh))
    assert_close(found, jax.jit(function)(x, flags))


@pytest.mark.parametrize("name", ["cumsum", "cumprod, every form", "linear_recurrence, reversed"])
def test_meshes_of_axes_of_both_kinds(name):
    mesh = jax.make_mesh(
        (4, 2), ("a", "b"), axis_types=(AxisType.Auto, AxisType.Explicit), devices=jax.devices()
    )
    fn = jax.vmap(FUNCTIONS[name])
    with jax.set_mesh(mesh):
        found = jax.jit(fn)(placed(ROWS, mesh, "b", "a"))
    assert_close(found, jax.jit(fn)(ROWS))


@pytest.mark.parametrize("name", ["cumsum", "cumprod, every form", "reduce, in order"])
def test_interpreted_kernels(name):
    check_totals(name, LAYOUTS["4 beside rows"], interpreted=True)


def test_totals_of_halves_are_not_rounded():
    """2048 + 1 is 2048 in float16, and the sums are exact in float32."""
    mesh = mesh_of(8)
    x = np.full(4096, 0.5, np.float16)
    found = jax.jit(jscan.cumsum)(placed(x, mesh, "a"))
    np.testing.assert_array_equal(found, np.cumsum(x, dtype=np.float32).astype(np.float16))


def test_an_axis_without_elements():
    mesh = mesh_of(8)
    x = placed(np.zeros((8, 0)), mesh, "a")
    assert jax.jit(lambda x: jscan.cumsum(x, 1))(x).shape == (8, 0)
    none = placed(np.zeros(0), mesh, "a")
    run = jax.jit(lambda x: jscan.reduce(operators.add, x, segments=x > 0, num_segments=2))
    np.testing.assert_array_equal(run(none), [0, 0])


@pytest.mark.sweep
@pytest.mark.parametrize("dtype", ["int2", "int4", "int8", "bfloat16", "bool"])
@pytest.mark.parametrize("reverse", [False, True])
def test_segments_of_narrow_leaves(dtype, reverse):
    mesh = mesh_of(8)
    x = np.arange(64) % 2 == 1
    flags = np.isin(np.arange(64), [8, 16, 17, 40])
    leaf = jnp.asarray(x).astype(dtype)

    def run(x, flags):
        return jscan.associative_scan(jnp.maximum, x, reverse, segments=flags)

    found = jax.jit(run)(placed(leaf, mesh, "a"), placed(flags, mesh, "a"))
    expected = reference.scan(np.maximum, x.astype(np.int32), reverse=reverse, flags=flags)
    np.testing.assert_array_equal(np.asarray(found.astype(jnp.int32)), expected)
