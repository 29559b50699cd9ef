"""The vector primitives under jit, vmap, differentiation and export, and as programs for CUDA."""

from __future__ import annotations

import itertools
import re
from functools import partial

import jax
import jax.export
import jax.numpy as jnp
import numpy as np
import pytest
from jax.test_util import check_grads

import jscan
from jscan import Segments
from tests.api.test_vectors import (
    DISTRIBUTE,
    EACH,
    ENUMERATE,
    PACK,
    SPLIT,
    SPLIT_AND_SEGMENT,
    assert_same,
    masks,
    of,
    packed,
    row,
    split_rows,
)
from tests.cases import head_flags, values
from tests.engines import on_engines
from tests.kernels.test_lowering import calls, cuda_program
from tests.transformations.test_transformations import assert_compilations

pytestmark = pytest.mark.automatic
N = 20


# vmap


def one_of(operand, axis, i):
    """The operand of one element of a batch."""
    return operand if axis is None else np.take(operand, i, axis)


def check_vmap(call, axes, size=3):
    """Compares a batch, of which some operands may be shared, with one call after another."""
    shapes = [(N,) if axis is None else np.insert((N,), axis, size) for axis in axes]
    x = values("cumsum", tuple(shapes[0]), "int32")
    operands = x, masks(tuple(shapes[1])), head_flags(tuple(shapes[2]), share=0.3)
    batch = jax.jit(jax.vmap(lambda *operands: call.call(*operands, 0), axes))(*operands)
    for i in range(size):
        given = (one_of(each, axis, i) for each, axis in zip(operands, axes, strict=True))
        assert_same(jax.tree.map(lambda leaf, i=i: leaf[i], batch), call.expected(*given, 0))


@pytest.mark.product
@of([ENUMERATE[True, True], *EACH[1:]])
@pytest.mark.parametrize("axes", [(0, None, None), (None, 0, None), (None, None, 0)])
def test_vmap(call, axes):
    check_vmap(call, axes)


@of(EACH)
def test_vmap_over_the_last_axis(call):
    check_vmap(call, (1, 1, 0))


@on_engines
@of([PACK, SPLIT, SPLIT_AND_SEGMENT])
def test_vmap_of_masks_over_shared_values(call):
    check_vmap(call, (None, 0, None))


@on_engines
@of([ENUMERATE[False, True], PACK, SPLIT])
def test_vmap_of_vmap(call):
    x = values("cumsum", (2, 3, N), "int32")
    mask, flags = masks((3, N)), head_flags((2, N))

    def one(x, mask, flags):
        return call.call(x, mask, flags, 0)

    batch = jax.jit(jax.vmap(jax.vmap(one, (0, 0, None)), (0, None, 0)))(x, mask, flags)
    for i, j in itertools.product(range(2), range(3)):
        assert_same(batch[i, j], call.expected(x[i, j], mask[j], flags[i], 0))


def test_vmap_returns_segments_with_rows():
    x, mask, flags = values("cumsum", (4, N), "int32"), masks((4, N)), head_flags((4, N))
    _, parts = jax.jit(jax.vmap(jscan.split_and_segment))(x, mask, flags)
    assert isinstance(parts, Segments)
    _, heads = split_rows(x, mask, flags, 1)
    assert_same(parts.ids, np.cumsum(heads, 1, dtype="int32") - 1)


# derivatives with respect to what is moved


def of_values(call, shape=(N,)):
    """A call along the last axis as a function of its values, and the element each result is.

    Elements are counted from 1; what a call fills in is 0.
    """
    mask, flags = masks(shape), head_flags(shape, share=0.3)
    axis = len(shape) - 1

    def moved(x):
        return jax.tree.leaves(call.call(x, mask, flags, axis))[0]

    elements = np.arange(1, 1 + np.prod(shape)).reshape(shape)
    return moved, jax.tree.leaves(call.expected(elements, mask, flags, axis))[0]


@of([DISTRIBUTE[True, True], PACK, SPLIT])
def test_derivatives_of_second_order(call):
    moved, _ = of_values(call, (2, 6))
    check_grads(jax.jit(lambda x: moved(x) ** 3), (values("cumsum", (2, 6), "float64"),), order=2)


@on_engines
@of([DISTRIBUTE[True, True], PACK, SPLIT, SPLIT_AND_SEGMENT])
def test_the_gradient_goes_back_where_values_came_from(call):
    moved, source = of_values(call)
    weights = np.random.default_rng(1).normal(size=source.shape)
    gradient = jax.jit(jax.grad(lambda x: jnp.vdot(weights, moved(x))))(np.ones(N))
    expected = np.zeros(N + 1)
    np.add.at(expected, source, weights)
    np.testing.assert_allclose(gradient, expected[1:], rtol=1e-12)


@of([*DISTRIBUTE.values(), PACK, SPLIT, SPLIT_AND_SEGMENT])
def test_tangents_move_as_values_do(call):
    moved, source = of_values(call)
    x, slope = (values("cumsum", (N,), "float64", seed) for seed in (1, 2))
    y, tangent = jax.jit(lambda *given: jax.jvp(moved, given[:1], given[1:]))(x, slope)
    filled = source == 0
    assert_same(y, np.where(filled, 0, x[source - 1]))
    assert_same(tangent, np.where(filled, 0, slope[source - 1]))


def test_what_pack_fills_with_has_no_gradient():
    def packed_sum(x):
        y = jscan.pack(x, x > 0, size=6, fill_value=np.nan)
        return jnp.sum(jnp.where(jnp.isnan(y), 0, y * y))

    np.testing.assert_array_equal(jax.grad(packed_sum)(np.array([3.0, -1, 5, -2])), [6, 0, 10, 0])


def test_vmap_of_grad():
    x, mask, weights = np.ones((3, N)), masks((3, N)), values("cumsum", (3, N), "float64")
    gradient = jax.vmap(jax.grad(lambda x, mask, w: jnp.vdot(w, jscan.split(x, mask))))
    expected = np.empty((3, N))
    np.put_along_axis(expected, np.argsort(mask, axis=1, stable=True), weights, axis=1)
    np.testing.assert_array_equal(gradient(x, mask, weights), expected)


def test_gradient_through_a_loop_of_splits():
    keys, weights = values("cumsum", (N,), "uint8"), values("cumsum", (N,), "float64")

    def sorted_by_key(x):
        def step(pair, bit):
            return jscan.split(pair, pair[1] >> bit & 1), None

        return jax.lax.scan(step, (x, keys), np.arange(8, dtype="uint8"))[0][0]

    expected = np.empty(N)
    expected[np.argsort(keys, stable=True)] = weights
    gradient = jax.grad(lambda x: jnp.vdot(weights, sorted_by_key(x)))(np.ones(N))
    np.testing.assert_array_equal(gradient, expected)


@of([*ENUMERATE.values(), PACK, SPLIT, SPLIT_AND_SEGMENT])
def test_masks_and_flags_have_no_tangent(call):
    x, mask, flags = (
        values("cumsum", (N,), "float64"),
        masks((N,), "int32"),
        head_flags((N,), "int32"),
    )
    none = np.zeros((N,), jax.dtypes.float0)
    y, tangent = jax.jvp(
        lambda *operands: call.call(*operands, 0), (x, mask, flags), (x, none, none)
    )
    assert_same(y, call.expected(x, mask, flags, 0))
    if jax.tree.leaves(y)[0].dtype == x.dtype:
        assert_same(jax.tree.leaves(tangent)[0], np.asarray(jax.tree.leaves(y)[0]))


# shapes, exports, compilations


def test_eval_shape():
    mask = jax.ShapeDtypeStruct((3, 4, 5), jnp.uint8)
    x = jax.ShapeDtypeStruct((3, 4, 5), jnp.bfloat16)
    rows = jax.ShapeDtypeStruct((3, 4, 5, 2), jnp.complex64)

    def shape_of(function, *operands):
        return [
            (leaf.shape, leaf.dtype)
            for leaf in jax.tree.leaves(jax.eval_shape(function, *operands))
        ]

    assert shape_of(partial(jscan.enumerate, axis=-1), mask) == [((3, 4, 5), jnp.int32)]
    assert shape_of(jscan.distribute, x) == [((3, 4, 5), jnp.bfloat16)]
    assert shape_of(partial(jscan.pack, size=7), rows, mask) == [((7, 2), jnp.complex64)]
    assert shape_of(partial(jscan.split, axis=1), x, mask) == [((3, 4, 5), jnp.bfloat16)]
    assert shape_of(partial(jscan.split_and_segment, axis=2), x, mask, mask) == [
        ((3, 4, 5), jnp.bfloat16),
        ((3, 4, 5), jnp.bool_),
    ]


@of(EACH)
def test_export_and_call(call):
    operands = row(N)
    exported = jax.export.export(jax.jit(lambda *operands: call.call(*operands, 0)))(*operands)
    assert_same(exported.call(*operands), call.expected(*operands, 0))


@of([*ENUMERATE.values(), *DISTRIBUTE.values(), PACK, SPLIT, SPLIT_AND_SEGMENT])
def test_eager_calls_compile_once(call):
    operands = [jnp.asarray(each) for each in row(N)]
    jax.block_until_ready(call.call(*operands, 0))
    with assert_compilations(0):
        jax.block_until_ready(call.call(*operands, 0))


def test_pack_may_be_left_to_count_a_mask_that_a_traced_call_closes_over():
    x, mask, _ = row(N)
    expected = packed(x, mask, np.count_nonzero(mask))
    assert_same(jax.jit(lambda x: jscan.pack(x, mask))(x), expected)
    assert_same(jax.vmap(lambda x: jscan.pack(x, mask))(x[None])[0], expected)


# programs for CUDA


def program_of(call, shape, axis=0):
    """What a call becomes for one H200."""
    x, mask, flags = (jax.ShapeDtypeStruct(shape, dtype) for dtype in ("float32", "bool", "bool"))
    program = cuda_program(lambda *operands: call.call(*operands, axis), x, mask, flags)
    assert not re.search(r"stablehlo\.(sort|while)", program)
    return program


KERNELS = [
    *((call, 1) for call in ENUMERATE.values()),
    *((DISTRIBUTE[reverse, segmented], int(segmented)) for reverse, segmented in DISTRIBUTE),
    (PACK, 1),
    (SPLIT, 1),
    (SPLIT_AND_SEGMENT, 2),
]


@pytest.mark.product
@pytest.mark.parametrize("n", [100, 1 << 20])
@pytest.mark.parametrize(("call", "kernels"), KERNELS, ids=lambda value: getattr(value, "name", ""))
def test_how_many_kernels_run(call, kernels, n):
    assert calls(program_of(call, (n,))) == kernels


@pytest.mark.product
@pytest.mark.parametrize("shape", [(64, 5000), (5000, 64)])
@pytest.mark.parametrize("axis", [0, 1])
@pytest.mark.parametrize(
    ("call", "kernels"), KERNELS[-2:], ids=lambda value: getattr(value, "name", "")
)
def test_how_many_kernels_split_rows(call, kernels, axis, shape):
    assert calls(program_of(call, shape, axis)) == kernels


@of([PACK, SPLIT])
def test_elements_move_while_they_are_counted(call):
    assert program_of(call, (5000,)).count('"stablehlo.gather"(') == 0


def test_few_of_many_elements_move_so_too():
    x, mask = (jax.ShapeDtypeStruct((5000,), dtype) for dtype in ("float32", "bool"))
    program = cuda_program(partial(jscan.pack, size=50), x, mask)
    assert (calls(program), program.count('"stablehlo.gather"(')) == (1, 0)


@pytest.mark.parametrize(("shape", "of_mask"), [((8, 2**15), (None,)), ((8, 2**15 + 1), (0,))])
def test_few_of_rows_whose_marks_are_walked_are_gathered(shape, of_mask):
    call = jax.vmap(partial(jscan.pack, size=50), in_axes=(0, *of_mask))
    mask = shape[1:] if of_mask == (None,) else shape
    program = cuda_program(
        call, jax.ShapeDtypeStruct(shape, "float32"), jax.ShapeDtypeStruct(mask, "bool")
    )
    assert program.count('"stablehlo.gather"(') == 1


def test_rows_are_gathered_once():
    rows, mask = (jax.ShapeDtypeStruct(shape, "float32") for shape in ((5000, 3), (5000,)))
    for call in (partial(jscan.pack, size=70), jscan.split):
        program = cuda_program(lambda x, y, call=call: call(x, y > 0), rows, mask)
        assert program.count('"stablehlo.gather"(') == 1


@pytest.mark.parametrize("size", [3, 5000, 6000])
def test_one_kernel_packs_to_any_size(size):
    x, mask = (jax.ShapeDtypeStruct((5000,), dtype) for dtype in ("float32", "int32"))
    assert calls(cuda_program(partial(jscan.pack, size=size), x, mask)) == 1


def test_a_batch_is_split_by_one_kernel():
    x = jax.ShapeDtypeStruct((64, 5000), jnp.float32)
    # Many marks of 32 bits become bytes by a kernel of their own.
    for dtype, kernels in (("bool", 1), ("int8", 1), ("int32", 2)):
        mask = jax.ShapeDtypeStruct(x.shape, dtype)
        assert calls(cuda_program(jax.vmap(jscan.split), x, mask)) == kernels
        assert calls(cuda_program(jax.vmap(partial(jscan.pack, size=9)), x, mask)) == kernels
