"""Reductions under jit, vmap, eval_shape and export, and how often they are compiled."""

from __future__ import annotations

import itertools
from functools import partial

import jax
import jax.export
import jax.numpy as jnp
import numpy as np
import pytest
from jax.interpreters import partial_eval

import jscan
from jscan import Segments, operators
from tests import reference
from tests.cases import head_flags, sorted_or_not
from tests.functions import affine
from tests.reference import assert_tree_equal
from tests.transformations.test_transformations import assert_compilations, integers


def sorted_ids(*shape, seed=0):
    """Rows of sorted ids, of which some are dropped, for six segments."""
    return np.sort(np.random.default_rng([seed, *shape]).integers(-1, 7, shape, np.int32), -1)


def sums(x, ids, num_segments=6):
    """The sequential sums."""
    return reference.reduce_by_segments(np.add, x, ids, num_segments, identity=0)


def row(operand, axis, i):
    """What one call of a vmap sees of an operand."""
    return operand if axis is None else np.take(operand, i, axis)


# jit


@sorted_or_not
def test_jit_with_traced_ids(indices_are_sorted):
    run = jax.jit(jscan.segment_sum, static_argnums=(2, 3))
    x, ids = integers(30, 2), sorted_ids(30)
    reference.assert_equal(run(x, ids, 6, indices_are_sorted), sums(x, ids))


@pytest.mark.sweep
def test_jit_of_a_reduction_by_traced_flags(engine):
    elems, flags = (integers(50), integers(50, seed=1)), head_flags((50,))

    @jax.jit
    def run(elems, flags):
        return jscan.reduce(
            operators.affine, elems, segments=flags, num_segments=9, method=engine.method
        )

    expected = reference.reduce_by_segments(
        affine, elems, reference.numbers_of(flags), 9, identity=(1, 0)
    )
    assert_tree_equal(run(elems, flags), expected)


def test_equal_calls_outside_jit_compile_once():
    x, ids, flags = jnp.arange(91), jnp.arange(91) // 5, jnp.arange(91) % 4 == 0

    def call():
        for reduced in (
            jscan.segment_sum(x, ids, 20, True),
            jscan.segment_max(x, ids, 20),
            jscan.reduce(lambda a, b: a + b - 1, x, identity=1, segments=flags),
            jscan.reduce(operators.max, x, segments=Segments.from_ids(ids)),
            jscan.reduce(operators.mul, x, segments=Segments.from_lengths([90, 0, 1])),
            jscan.reduce(lambda a, b: a + b - 1, x),
            jscan.reduce(operators.add, x),
        ):
            reduced.block_until_ready()

    call()
    with assert_compilations(0):
        call()
        call()


def test_different_operators_are_not_taken_for_each_other():
    x = jnp.arange(92)

    def total_modulo(k):
        return jscan.reduce(lambda a, b: (a + b) % k, x).item()

    assert total_modulo(7) == np.sum(x) % 7
    assert total_modulo(11) == np.sum(x) % 11


def test_a_reduction_nobody_uses_disappears():
    def run(x):
        return jscan.segment_sum(x, jnp.zeros(4, int), 2, True), x + 1

    kept, _ = partial_eval.dce_jaxpr(jax.make_jaxpr(run)(np.ones(4)).jaxpr, [False, True])
    assert [e.primitive.name for e in kept.eqns] == ["add"]


# shapes and exports


@sorted_or_not
def test_eval_shape_of_segment_reductions(indices_are_sorted):
    x = jax.ShapeDtypeStruct((30, 4, 5), jnp.bfloat16)
    ids = jax.ShapeDtypeStruct((30,), jnp.uint8)
    for function in (jscan.segment_sum, jscan.segment_prod, jscan.segment_max, jscan.segment_min):
        call = partial(function, num_segments=300, indices_are_sorted=indices_are_sorted)
        out = jax.eval_shape(call, x, ids)
        assert (out.shape, out.dtype) == ((300, 4, 5), jnp.bfloat16)


def test_eval_shape_of_reductions():
    x = jax.ShapeDtypeStruct((3, 4, 5), jnp.float16)
    flags = jax.ShapeDtypeStruct((4,), bool)

    def run(a, b, flags):
        whole = jscan.reduce(operators.affine, (a, b), -1)
        return whole, jscan.reduce(operators.affine, (a, b), 1, segments=flags, num_segments=7)

    whole, by_segments = jax.eval_shape(run, x, x, flags)
    assert [(leaf.shape, leaf.dtype) for leaf in whole] == [((3, 4), jnp.float16)] * 2
    assert [(leaf.shape, leaf.dtype) for leaf in by_segments] == [((3, 7, 5), jnp.float16)] * 2


def test_export_and_call():
    x, ids, flags = integers(40), sorted_ids(40), head_flags((40,))

    def run(x, ids, flags):
        options = {"identity": 1, "segments": flags, "num_segments": 9}
        return (
            jscan.segment_sum(x, ids, 6, True),
            jscan.segment_sum(x, ids, 6),
            jscan.reduce(lambda a, b: a * b, x, **options),
            jscan.reduce(operators.affine, (x, x)),
        )

    exported = jax.export.export(jax.jit(run))(x, ids, flags)
    for got, want in zip(
        jax.tree.leaves(exported.call(x, ids, flags)),
        jax.tree.leaves(run(x, ids, flags)),
        strict=True,
    ):
        np.testing.assert_array_equal(got, want)


@pytest.mark.parametrize("indices_are_sorted", [True, False])
def test_the_jaxpr_does_not_grow_with_the_axis(indices_are_sorted):
    def equations(n):
        jaxpr = jax.make_jaxpr(
            lambda x, ids: (
                jscan.segment_sum(x, ids, n, indices_are_sorted),
                jscan.reduce(operators.affine, (x, x), segments=ids, num_segments=n),
            )
        )(jnp.zeros(n), jnp.zeros(n, int))
        return [e.primitive.name for e in jaxpr.jaxpr.eqns]

    assert equations(1 << 16) == equations(8)


# vmap


def check_vmap(axes, shapes, *, method="auto", indices_are_sorted=True):
    """A batch of sums, of which either operand may be shared."""
    x, ids = integers(*shapes[0]), sorted_ids(*shapes[1])
    # What is sorted is the last axis, which is the batch's where the rows are mapped by it.
    ids = ids.T if axes[1] == 1 else ids
    run = partial(
        jscan.segment_sum,
        num_segments=6,
        indices_are_sorted=indices_are_sorted,
        method=method,
    )
    expected = [sums(row(x, axes[0], i), row(ids, axes[1], i)) for i in range(3)]
    reference.assert_equal(jax.jit(jax.vmap(run, axes))(x, ids), np.stack(expected))


def test_vmap_with_shared_ids(engine):
    check_vmap((0, None), ((3, 50), (50,)), method=engine.method)


@pytest.mark.sweep
@pytest.mark.parametrize(
    ("axes", "shapes"),
    [
        ((0, 0), ((3, 50), (3, 50))),
        ((None, 0), ((50,), (3, 50))),
        ((1, 1), ((50, 3), (3, 50))),
        ((0, 0), ((3, 50, 2), (3, 50))),
        ((1, None), ((50, 3, 2), (50,))),
        ((2, 0), ((50, 2, 3), (3, 50))),
        ((None, 1), ((50, 2), (3, 50))),
    ],
)
def test_vmap_of_data_and_ids(axes, shapes, engine):
    check_vmap(axes, shapes, method=engine.method)
    check_vmap(axes, shapes, indices_are_sorted=False)


@pytest.mark.product
@sorted_or_not
@pytest.mark.parametrize("inner", [(0, None), (None, 0), (0, 0)])
@pytest.mark.parametrize("outer", [(0, None), (None, 0), (0, 0)])
def test_vmap_of_vmap(inner, outer, indices_are_sorted):
    def depth(position):
        return sum(axes[position] is not None for axes in (inner, outer))

    x, ids = integers(*(3,) * depth(0), 12), sorted_ids(*(3,) * depth(1), 12)

    def run(x, ids):
        return jscan.segment_sum(x, ids, 6, indices_are_sorted)

    actual = jax.jit(jax.vmap(jax.vmap(run, inner), outer))(x, ids)
    for i, j in itertools.product(range(3), repeat=2):
        own = [
            v[tuple(k for k, axes in ((i, outer), (j, inner)) if axes[position] is not None)]
            for position, v in enumerate((x, ids))
        ]
        reference.assert_equal(actual[i, j], sums(*own))


@pytest.mark.sweep
@pytest.mark.parametrize(
    ("kind", "axes"),
    [
        ("flags", (0, 0, None)),
        ("flags", (0, None, 0)),
        ("flags", (None, 0, None)),
        ("ids", (None, None, 0)),
        ("ids", (0, 0, 0)),
    ],
)
def test_vmap_of_leaves_and_descriptors(kind, axes, engine):
    shapes = [(20,) if i is None else (3, 20) for i in axes]
    a, x, given = integers(*shapes[0]), integers(*shapes[1], seed=1), head_flags(shapes[2])

    def run(a, x, given):
        return jscan.reduce(
            operators.affine,
            (a, x),
            segments=given if kind == "flags" else Segments.from_ids(given),
            num_segments=8,
            method=engine.method,
        )

    actual = jax.jit(jax.vmap(run, axes))(a, x, given)
    for i in range(3):
        a_row, x_row, own = (row(v, d, i) for v, d in zip((a, x, given), axes, strict=True))
        heads = own if kind == "flags" else np.diff(own, prepend=own[:1])
        expected = reference.reduce_by_segments(
            affine, (a_row, x_row), reference.numbers_of(heads), 8, identity=(1, 0)
        )
        assert_tree_equal([leaf[i] for leaf in actual], list(expected))


@pytest.mark.sweep
@pytest.mark.parametrize("in_axis", [0, 1, 2])
@pytest.mark.parametrize("axis", [0, 1])
def test_vmap_of_whole_reductions(in_axis, axis, engine):
    elems = integers(3, 4, 5), integers(3, 4, 5, seed=1)
    run = partial(jscan.reduce, operators.affine, axis=axis, method=engine.method)
    actual = jax.jit(jax.vmap(run, in_axis, 1))(elems)
    for i in range(elems[0].shape[in_axis]):
        own = [np.take(leaf, i, in_axis) for leaf in elems]
        numbers = np.zeros(own[0].shape[axis], int)
        expected = reference.reduce_by_segments(affine, own, numbers, 1, identity=[1, 0], axis=axis)
        for leaf, want in zip(actual, expected, strict=True):
            reference.assert_equal(leaf[:, i], np.squeeze(want, axis))


@pytest.mark.sweep
@pytest.mark.parametrize("axes", [(0, 0), (None, 0), (0, None), (2, 1)])
@pytest.mark.parametrize("trailing", [(), (2,)])
def test_vmap_of_segments(axes, trailing, engine):
    x = integers(10, *trailing, 3)[..., 0] if axes[0] is None else integers(10, *trailing, 3)
    x = np.moveaxis(x, -1, 0) if axes[0] == 0 else x
    lengths = np.array([[4, 6, 0], [0, 1, 9], [0, 0, 10]])
    lengths = lengths[0] if axes[1] is None else np.moveaxis(lengths, 0, axes[1])
    axes = (x.ndim - 1, axes[1]) if axes[0] == 2 else axes

    def run(x, lengths):
        segments = Segments.from_lengths(lengths, total=10)
        return jscan.reduce(operators.add, x, segments=segments, method=engine.method)

    actual = jax.jit(jax.vmap(run, axes))(x, lengths)
    for i in range(3):
        numbers = np.repeat(np.arange(3), row(lengths, axes[1], i))
        reference.assert_equal(actual[i], sums(row(x, axes[0], i), numbers, 3))


def test_vmap_of_an_operator_on_whole_arrays():
    elems = np.random.default_rng(0).integers(-2, 3, (3, 6, 2, 2))
    flags = head_flags((3, 6), share=0.4)

    def run(elems, flags):
        return jscan.reduce(
            jnp.matmul, elems, identity=jnp.eye(2, dtype=int), segments=flags, num_segments=4
        )

    actual = jax.jit(jax.vmap(run))(elems, flags)
    for i in range(3):
        expected = reference.reduce_by_segments(
            np.matmul, elems[i], reference.numbers_of(flags[i]), 4, identity=np.eye(2)
        )
        reference.assert_equal(actual[i], expected)
