"""`SegmentPlan`: what it holds, and reductions by it in every dtype, layout and transformation."""

from __future__ import annotations

import pickle

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax import export

import jscan
from jscan.rules import collect
from tests import reference
from tests.segments.test_segment_reductions import (
    MAX,
    MIN,
    PROD,
    REDUCTIONS,
    SUM,
    ascending,
    every_dtype,
    every_reduction,
    exact,
    layouts,
)

COUNT = 9
IDS = np.random.default_rng(0).integers(-2, COUNT + 2, 70).astype(np.int32)
OPAQUE = jax.jit(lambda ids: jscan.SegmentPlan(ids, COUNT))
"""A plan of ids that are traced."""


def check(reduction, x, ids, num_segments, **options):
    """Asserts what a reduction by a plan is, of known ids and of traced ones."""
    expected = reduction.expected(x, ids, num_segments)
    traced = jax.jit(lambda ids: jscan.SegmentPlan(ids, num_segments))(ids)
    for plan in (jscan.SegmentPlan(ids, num_segments), traced):
        actual = reduction.function(x, plan, **options)
        assert actual.dtype == np.asarray(x).dtype
        reference.assert_equal(actual, expected)


@pytest.mark.sweep
@every_dtype
def test_every_dtype(reduction, dtype):
    check(reduction, exact(reduction, (70, 2), dtype), IDS, COUNT)


@pytest.mark.product
@every_reduction
@pytest.mark.parametrize("layout", layouts(60))
def test_every_layout(reduction, layout, engine):
    ids = layouts(60)[layout].astype("int64")
    check(reduction, exact(reduction, (60,), "int32"), ids, 60, method=engine.method)


@pytest.mark.parametrize("trailing", [(), (1,), (3,), (5, 2), (128,), (0,)])
def test_trailing_dimensions(trailing, engine):
    check(SUM, exact(SUM, (70, *trailing), "float32"), IDS, COUNT, method=engine.method)


@pytest.mark.product
@pytest.mark.parametrize("reduction", [SUM, MIN], ids=lambda r: r.name)
@pytest.mark.parametrize(
    ("rows", "trailing"), [(9, ()), (8, (3,)), (40, (2,)), (7, ()), (16, (16,)), (0, ())]
)
def test_rows_in_one_order(rows, trailing, reduction, engine, monkeypatch):
    """Many rows by one plan are read side by side."""
    monkeypatch.setattr(collect, "MANY_ELEMENTS", 0)
    x, plan = exact(reduction, (rows, 70, *trailing), "float32"), OPAQUE(IDS)
    found = jax.vmap(lambda row: reduction.function(row, plan, method=engine.method))(x)
    assert found.shape == (rows, COUNT, *trailing)
    for row, own in zip(x, found, strict=True):
        reference.assert_equal(own, reduction.expected(row, IDS, COUNT))


@pytest.mark.parametrize("n", [0, 1, 2])
def test_few_elements(n):
    for reduction in REDUCTIONS:
        check(reduction, exact(reduction, (n, 2), "float32"), IDS[:n], COUNT)
        check(reduction, exact(reduction, (n, 2), "float32"), IDS[:n], 0)


def test_one_element_goes_to_all_ids():
    plan = jscan.SegmentPlan([1, 0, 1], 2)
    np.testing.assert_array_equal(jscan.segment_sum(np.ones(1), plan), [1, 2])
    np.testing.assert_array_equal(jscan.segment_sum(3, plan), [3, 6])


def test_sums_of_halves_are_added_in_float32():
    ids = np.resize([1, 0], 600)
    for dtype in (jnp.bfloat16, jnp.float16):
        sums = jscan.segment_sum(jnp.full(600, 1.03, dtype), jscan.SegmentPlan(ids))
        exact_sum = np.float32(jnp.asarray(1.03, dtype)) * 300
        np.testing.assert_array_equal(sums, np.full(2, exact_sum).astype(dtype))


def test_buckets_combine_what_they_combine_without_a_plan():
    x = np.full(16, 2.0**24, np.float32)
    x[1::2] = 1
    ids = np.resize([0, 0, 1, 1], 16)
    for size in (1, 3, 8):
        np.testing.assert_array_equal(
            jscan.segment_sum(x, jscan.SegmentPlan(ids, 2), bucket_size=size),
            jscan.segment_sum(x, ids, 2, bucket_size=size),
        )


# what a plan holds


def test_ids_that_ascend_have_no_order():
    for ids in (ascending(50, 9), np.zeros(4, int), [], [3]):
        assert len(jax.tree.leaves(jscan.SegmentPlan(ids, COUNT))) == 1
    for ids in (IDS, [1, 0], [2**40, 0]):
        assert len(jax.tree.leaves(jscan.SegmentPlan(ids, COUNT))) == 3
    assert len(jax.tree.leaves(OPAQUE(np.zeros(4, int)))) == 3


def test_known_and_traced_ids_make_the_same_plan():
    for ids in (IDS, IDS.astype("int8"), IDS.astype("uint8"), jnp.asarray(IDS), list(IDS)):
        known = jscan.SegmentPlan(ids, COUNT)
        traced = OPAQUE(jnp.asarray(ids))
        for x, y in zip(*map(jax.tree.leaves, (known, traced)), strict=True):
            assert x.dtype == y.dtype == np.int32
            np.testing.assert_array_equal(x, y)


def test_the_order_keeps_that_of_equal_ids():
    numbers, order, in_order = jax.tree.leaves(jscan.SegmentPlan(IDS, COUNT))
    expected = np.where((IDS < 0) | (IDS >= COUNT), COUNT, IDS)
    np.testing.assert_array_equal(numbers, expected)
    np.testing.assert_array_equal(order, np.argsort(expected, kind="stable"))
    np.testing.assert_array_equal(in_order, np.sort(expected))


def test_what_it_says_of_itself():
    plan = jscan.SegmentPlan([2, 0, 7])
    assert plan.num_segments == 8
    assert repr(plan) == "SegmentPlan(num_segments=8, n=3)"
    np.testing.assert_array_equal(plan.ids, [2, 0, 7])
    np.testing.assert_array_equal(jscan.SegmentPlan([-1, 4, 1], 4).ids, [4, 4, 1])
    assert repr(jax.tree.map(lambda _: "leaf", plan)) == "SegmentPlan(num_segments=8, n=leaf)"


def test_the_number_of_segments_may_be_repeated():
    plan = jscan.SegmentPlan([1, 0, 1], 2)
    np.testing.assert_array_equal(jscan.segment_sum(np.ones(3), plan, 2), [1, 2])


def test_ids_wider_than_jax_holds_are_dropped():
    plan = jscan.SegmentPlan(np.array([2**32, 1, -(2**40), 0]), 2)
    np.testing.assert_array_equal(plan.ids, [2, 1, 2, 0])


# transformations


@every_reduction
def test_a_plan_is_an_argument_a_closure_and_a_carry(reduction):
    x, plan = exact(reduction, (70, 2), "float32"), jscan.SegmentPlan(IDS, COUNT)
    expected = reduction.expected(x, IDS, COUNT)
    f = reduction.function
    reference.assert_equal(jax.jit(f)(x, plan), expected)
    reference.assert_equal(jax.jit(lambda x: f(x, plan))(x), expected)
    reference.assert_equal(jax.jit(lambda x: f(x, jscan.SegmentPlan(IDS, COUNT)))(x), expected)
    carried = jax.lax.scan(lambda p, row: (p, f(row, p)), plan, np.stack([x, x]))[1]
    reference.assert_equal(carried[1], expected)
    kept = jax.eval_shape(lambda p: p, plan)
    assert isinstance(kept, jscan.SegmentPlan)


def test_a_plan_that_is_built_inside_of_jit_outlives_it():
    kept = []

    @jax.jit
    def total(x):
        kept.append(jscan.SegmentPlan(IDS, COUNT))
        return jscan.segment_sum(x, kept[0])

    x = exact(SUM, (70,), "int32")
    for sums in (total(x), jscan.segment_sum(x, kept[0]), jax.jit(jscan.segment_sum)(x, kept[0])):
        reference.assert_equal(sums, SUM.expected(x, IDS, COUNT))


@pytest.mark.parametrize("mapped", ["data", "ids", "both"])
@every_reduction
def test_vmap(reduction, mapped):
    x, ids = exact(reduction, (3, 70, 2), "int32"), np.stack([IDS, IDS[::-1], np.sort(IDS)])
    axes = (0 if mapped != "ids" else None, 0 if mapped != "data" else None)
    given = (x if axes[0] == 0 else x[0], ids if axes[1] == 0 else ids[0])
    plans = jax.jit(jax.vmap(OPAQUE))(given[1]) if axes[1] == 0 else OPAQUE(given[1])
    found = jax.jit(jax.vmap(reduction.function, axes))(given[0], plans)
    for row in range(3):
        own = [a[row] if axis == 0 else a for a, axis in zip(given, axes, strict=True)]
        reference.assert_equal(found[row], reduction.expected(*own, COUNT))


def test_export():
    x, plan = exact(SUM, (70,), "int32"), jscan.SegmentPlan(IDS, COUNT)
    exported = export.export(jax.jit(jscan.segment_sum))(x, plan)
    restored = export.deserialize(exported.serialize())
    reference.assert_equal(restored.call(x, plan), SUM.expected(x, IDS, COUNT))


def test_pickle():
    plan = jscan.SegmentPlan(IDS, COUNT)
    x = exact(SUM, (70,), "int32")
    jscan.segment_sum(x, plan)
    restored = pickle.loads(pickle.dumps(plan))
    reference.assert_equal(jscan.segment_sum(x, restored), SUM.expected(x, IDS, COUNT))


def test_nothing_is_traced_for_another_plan():
    traced = []

    @jax.jit
    def total(x, plan):
        traced.append(plan)
        return jscan.segment_sum(x, plan)

    for seed in range(3):
        ids = np.random.default_rng(seed).integers(0, COUNT, 70)
        total(exact(SUM, (70,), "int32"), jscan.SegmentPlan(ids, COUNT))
    assert len(traced) == 1


# derivatives


@pytest.mark.parametrize("reduction", [SUM, MAX, MIN, PROD], ids=lambda r: r.name)
def test_derivatives_are_those_without_a_plan(reduction):
    rng = np.random.default_rng(1)
    x, tangent = rng.normal(size=(2, 70, 2))
    x[::7] = x[0]  # ties
    weights = rng.normal(size=(COUNT, 2))
    plan = jscan.SegmentPlan(IDS, COUNT)

    def weigh(*ids):
        return lambda x: jnp.vdot(weights, jnp.where(filled, reduction.function(x, *ids), 0) ** 2)

    filled = (np.bincount(IDS[(IDS >= 0) & (IDS < COUNT)], minlength=COUNT) > 0)[:, None]
    for derive in (jax.grad, lambda f: lambda x: jax.jvp(f, (x,), (tangent,))[1]):
        ours, theirs = (jax.jit(derive(weigh(*ids)))(x) for ids in ((plan,), (IDS, COUNT)))
        np.testing.assert_allclose(ours, theirs, rtol=1e-5, atol=1e-5)
    # reverse over reverse
    ours, theirs = (
        jax.jit(jax.grad(lambda x, f=f: jnp.vdot(tangent, jax.grad(f)(x))))(x)
        for f in (weigh(plan), weigh(IDS, COUNT))
    )
    np.testing.assert_allclose(ours, theirs, rtol=1e-4, atol=1e-4)


def primitives_of(function, *arguments):
    """The names of the primitives that a function binds."""
    found = []

    def walk(jaxpr):
        for equation in jaxpr.eqns:
            found.append(equation.primitive.name)
            for value in equation.params.values():
                if hasattr(value, "jaxpr"):
                    walk(value.jaxpr)
                elif hasattr(value, "eqns"):
                    walk(value)

    walk(jax.make_jaxpr(function)(*arguments).jaxpr)
    return found


def test_no_derivative_of_a_sum_scatters():
    plan, x, values = OPAQUE(IDS), np.ones((70, 2)), np.ones((COUNT, 2))

    def total(x):
        return jnp.sum(jscan.segment_sum(x, plan) ** 3)

    def spread(values):
        return jnp.sum(plan.gather(values) ** 3)

    second = jax.grad(lambda x: jnp.sum(jax.grad(total)(x) ** 2))
    for function, operand in ((jax.grad(total), x), (second, x), (jax.grad(spread), values)):
        names = primitives_of(function, operand)
        assert "jscan_collect" in names
        assert not [name for name in names if "scatter" in name or "sort" in name]


# gather


@pytest.mark.parametrize("dtype", ["float32", "bfloat16", "int8", "bool", "complex64"])
def test_gather(dtype):
    values = (np.arange(2 * COUNT).reshape(COUNT, 2) % 5).astype(jnp.dtype(dtype))
    inside = (IDS >= 0) & (IDS < COUNT)
    expected = np.where(inside[:, None], values[np.where(inside, IDS, 0)], 0).astype(dtype)
    for plan in (jscan.SegmentPlan(IDS, COUNT), OPAQUE(IDS)):
        found = plan.gather(values)
        assert found.dtype == values.dtype
        np.testing.assert_array_equal(found, expected)
    ordered = jscan.SegmentPlan(np.sort(IDS), COUNT).gather(values)
    np.testing.assert_array_equal(ordered, expected[np.argsort(IDS, kind="stable")])


def test_gather_of_no_segments():
    assert jscan.SegmentPlan(IDS, 0).gather(np.ones((0, 3))).tolist() == [[0] * 3] * 70


@pytest.mark.product
@pytest.mark.parametrize("dtype", ["float32", "uint8"])
@pytest.mark.parametrize("where", [0, 1, 2])
@every_reduction
def test_rows_of_ids_beside_lanes_that_share_them(reduction, where, dtype):
    """Data of which a dimension has ids of its own, before or behind the lanes."""
    rng = np.random.default_rng(1)
    rows = np.stack([IDS, IDS[::-1], np.roll(IDS, 7)])
    x = rng.integers(0, 3, (3, 70, 4)).astype(dtype)
    plans = jax.jit(jax.vmap(OPAQUE))(rows)
    run = jax.vmap(reduction.function, (where, 0))
    found = jax.jit(run)(jnp.moveaxis(jnp.asarray(x), 0, where), plans)
    expected = [reduction.expected(part, ids, COUNT) for part, ids in zip(x, rows, strict=True)]
    reference.assert_equal(found, np.stack(expected))


@pytest.mark.parametrize("shape", [(3, 0, 4), (3, 7, 0), (0, 7, 4), (0, 0, 0)])
def test_rows_of_ids_without_elements(shape):
    plans = jax.jit(jax.vmap(OPAQUE))(jnp.zeros(shape[:2], jnp.int32))
    totals = jax.jit(jax.vmap(jscan.segment_sum))(jnp.ones(shape, jnp.float32), plans)
    reference.assert_equal(totals, np.zeros((shape[0], COUNT, shape[2]), np.float32))


def test_plans_of_several_rows_gather_in_vmap_alone():
    plans = jax.jit(jax.vmap(OPAQUE))(np.stack([IDS, IDS[::-1]]))
    values = np.arange(COUNT)
    rows = jax.jit(jax.vmap(lambda plan: plan.gather(values)))(plans)
    np.testing.assert_array_equal(rows[1], rows[0][::-1])
    with pytest.raises(ValueError, match=r"SegmentPlan\.gather: the plan's ids .* \(2, 70\)"):
        plans.gather(values)
