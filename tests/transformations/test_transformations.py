"""jit, vmap, eval_shape, dead code and compilation counts."""

from __future__ import annotations

import contextlib
import itertools
from collections.abc import Iterator
from functools import partial

import jax
import jax.export
import jax.monitoring
import jax.numpy as jnp
import numpy as np
import pytest
from jax.interpreters import partial_eval

import jscan
from jscan import operators
from tests import reference
from tests.cases import CUMULATIVES, FULL, PLAIN, every_form, form_name, head_flags, values
from tests.functions import affine

COMPILATION = "/jax/core/compile/backend_compile_duration"
compilations: list[str] = []


def count_compilation(event: str, duration_secs: float, **_: str | int) -> None:
    """Listens to JAX's own measurements."""
    del duration_secs
    if event == COMPILATION:
        compilations.append(event)


jax.monitoring.register_event_duration_secs_listener(count_compilation)


@contextlib.contextmanager
def assert_compilations(expected: int) -> Iterator[None]:
    """Asserts how many programs are compiled in a block."""
    before = len(compilations)
    yield
    assert len(compilations) - before == expected


def integers(*shape, seed=0):
    """Small random integers: products and sums of them are exact, wrapped or not."""
    return np.random.default_rng([seed, *shape]).integers(-9, 10, shape, dtype=np.int32)


def rows(a, x, flags, axes, size, **options):
    """The affine scan of every row of a vmap, one at a time, in NumPy."""

    def row(operand, axis, i):
        return operand if axis is None else np.take(operand, i, axis)

    scans = [
        reference.scan(
            affine,
            (row(a, axes[0], i), row(x, axes[1], i)),
            flags=None if flags is None else row(flags, axes[2], i),
            **options,
        )
        for i in range(size)
    ]
    return [np.stack(leaves) for leaves in zip(*scans, strict=True)]


# jit


@pytest.mark.parametrize("cumulative", CUMULATIVES, ids=lambda c: c.name)
def test_jit_of_every_cumulative(cumulative):
    x = values(cumulative.name, (4, 25), "float32")
    run = jax.jit(cumulative.function, static_argnames=("axis", "reverse", "exclusive"))
    cumulative.check(
        run(x, axis=1, reverse=True, exclusive=True), x, axis=1, reverse=True, exclusive=True
    )


def test_jit_with_segments(engine):
    x, flags = integers(90), head_flags((90,))

    @jax.jit
    def run(x, flags):
        return jscan.cumsum(x, segments=flags, method=engine.method)

    reference.assert_equal(run(x, flags), reference.scan(np.add, x, flags=flags))


def test_eval_shape():
    x = jax.ShapeDtypeStruct((3, 4, 5), jnp.bfloat16)
    out = jax.eval_shape(partial(jscan.cumsum, axis=-1, exclusive=True), x)
    assert (out.shape, out.dtype) == ((3, 4, 5), jnp.bfloat16)
    pair = (x, jax.ShapeDtypeStruct((3, 4, 5), jnp.bfloat16))
    shapes = jax.eval_shape(partial(jscan.associative_scan, operators.affine), pair)
    assert [leaf.shape for leaf in shapes] == [(3, 4, 5)] * 2


# vmap


@pytest.mark.product
@pytest.mark.parametrize("axes", set(itertools.product((0, 1, None), repeat=2)) - {(None, None)})
@pytest.mark.parametrize("reverse", [False, True])
def test_vmap_of_two_leaves(axes, reverse):
    a, x = (integers(*(() if i is None else (3,)), 8) for i in axes)
    a, x = (np.swapaxes(v, 0, 1) if i == 1 else v for v, i in zip((a, x), axes, strict=True))
    scan = partial(jscan.associative_scan, affine, reverse=reverse)
    actual = jax.vmap(lambda a, x: scan((a, x)), axes)(a, x)
    for got, want in zip(actual, rows(a, x, None, axes, 3, reverse=reverse), strict=True):
        reference.assert_equal(got, want)


def check_vmap(axes, engine):
    """A batch of segmented affine scans, of which some operands may be shared."""
    shapes = [(40,) if i is None else (4, 40) for i in axes]
    a, x, flags = integers(*shapes[0]), integers(*shapes[1], seed=1), head_flags(shapes[2])

    def scan(a, x, flags):
        return jscan.associative_scan(affine, (a, x), segments=flags, method=engine.method)

    actual = jax.vmap(scan, axes)(a, x, flags)
    for got, want in zip(actual, rows(a, x, flags, axes, 4), strict=True):
        reference.assert_equal(got, want)


@pytest.mark.product
@pytest.mark.parametrize("axes", [(0, 0, 0), (0, None, 0), (None, 0, None)])
def test_vmap_of_leaves_and_flags(axes, engine):
    check_vmap(axes, engine)


@pytest.mark.sweep
@pytest.mark.parametrize("axes", [(0, 0, None), (0, None, None), (None, 0, 0), (None, None, 0)])
def test_vmap_of_leaves_and_flags_in_other_ways(axes, engine):
    check_vmap(axes, engine)


@every_form
@pytest.mark.sweep
def test_vmap_in_every_form(form, engine):
    reverse, exclusive, segmented = form
    a, x = integers(5, 60), integers(5, 60, seed=1)
    flags = head_flags((5, 60)) if segmented else None
    options = {"reverse": reverse, "exclusive": exclusive, "identity": (1, 0)}

    def scan(a, x, flags):
        return jscan.associative_scan(
            affine, (a, x), segments=flags, method=engine.method, **options
        )

    actual = jax.vmap(scan)(a, x, flags)
    for got, want in zip(actual, rows(a, x, flags, (0, 0, 0), 5, **options), strict=True):
        reference.assert_equal(got, want)


@pytest.mark.parametrize("in_axis", [0, 1, 2, -1])
@pytest.mark.parametrize("out_axis", [0, 2])
@pytest.mark.parametrize("axis", [0, 1])
def test_vmap_moves_no_wrong_axis(in_axis, out_axis, axis):
    x = integers(3, 4, 5)
    actual = jax.vmap(partial(jscan.cumsum, axis=axis), in_axis, out_axis)(x)
    want = np.moveaxis(np.cumsum(np.moveaxis(x, in_axis, 0), axis + 1), 0, out_axis)
    reference.assert_equal(actual, want)


@pytest.mark.parametrize("inner", [(0, None), (None, 0), (0, 0)])
@pytest.mark.parametrize("outer", [(0, None), (None, 0), (0, 0)])
def test_vmap_of_vmap(inner, outer):
    def depth(position):
        return sum(axes[position] is not None for axes in (inner, outer))

    x = integers(*(3,) * depth(0), 12)
    flags = head_flags((*(3,) * depth(1), 12), share=0.3)
    run = jax.vmap(jax.vmap(lambda x, f: jscan.cumsum(x, segments=f), inner), outer)
    actual = run(x, flags)
    for i, j in itertools.product(range(actual.shape[0]), range(actual.shape[1])):
        row, row_flags = (
            v[tuple(k for k, axes in ((i, outer), (j, inner)) if axes[position] is not None)]
            for position, v in enumerate((x, flags))
        )
        reference.assert_equal(actual[i, j], reference.scan(np.add, row, flags=row_flags))


def test_vmap_of_a_segmented_matrix_of_rows(engine):
    x, flags = integers(2, 3, 50), head_flags((3, 50))
    run = jax.vmap(lambda x: jscan.cumsum(x, 1, segments=flags, reverse=True, method=engine.method))
    expected = [reference.scan(np.add, row, axis=1, reverse=True, flags=flags) for row in x]
    reference.assert_equal(run(x), np.stack(expected))


def test_vmap_of_segments():
    x, lengths = integers(3, 10), np.array([[4, 6, 0], [1, 1, 8], [0, 10, 0]])

    def run(x, lengths):
        return jscan.cumsum(x, segments=jscan.Segments.from_lengths(lengths, total=10))

    actual = jax.vmap(run)(x, lengths)
    for row, values_, counts in zip(actual, x, lengths, strict=True):
        ends = np.cumsum(counts)
        parts = np.split(values_, ends[:-1])
        np.testing.assert_array_equal(row, np.concatenate([np.cumsum(part) for part in parts]))


def test_vmap_of_an_operator_that_falls_back():
    elems = np.random.default_rng(0).integers(-2, 3, (4, 6, 2, 2))
    flags = head_flags((4, 6), share=0.4)

    def run(elems, flags):
        return jscan.associative_scan(jnp.matmul, elems, segments=flags)

    actual = jax.vmap(run)(elems, flags)
    for i in range(4):
        want = reference.scan(np.matmul, elems[i], flags=flags[i])
        reference.assert_equal(actual[i], want)


# dead code


def scan_equation(jaxpr):
    """The one scan in a jaxpr, whose primitive is jscan's own."""
    from jscan import primitives

    (equation,) = [e for e in jaxpr.eqns if e.primitive is primitives.scan_p]
    return equation


@pytest.mark.parametrize(
    ("used", "outputs", "inputs"),
    [
        ((True, True), 2, [True, True]),
        ((False, True), 1, [True, True]),
        ((True, False), 1, [True, False]),  # a's scan does not depend on x
    ],
)
def test_outputs_nobody_uses_are_dropped(used, outputs, inputs):
    a, x = np.ones(16), np.ones(16)
    jaxpr = jax.make_jaxpr(lambda a, x: jscan.associative_scan(affine, (a, x)))(a, x).jaxpr
    kept, used_inputs = partial_eval.dce_jaxpr(jaxpr, used)
    equation = scan_equation(kept)
    assert len(equation.outvars) == outputs
    assert len(equation.invars) == sum(inputs)
    assert used_inputs == inputs


@pytest.mark.product
@pytest.mark.parametrize("form", [PLAIN, FULL], ids=form_name)
def test_results_survive_dead_code(form, engine):
    reverse, exclusive, segmented = form
    elems = integers(70), integers(70, seed=1)
    flags = head_flags((70,)) if segmented else None
    options = {"reverse": reverse, "exclusive": exclusive, "identity": (1, 0)}
    expected = reference.scan(affine, elems, flags=flags, **options)

    def run(which, elems, flags):
        return jscan.associative_scan(
            affine, elems, segments=flags, method=engine.method, **options
        )[which]

    for which in (0, 1):
        actual = jax.jit(partial(run, which))(elems, flags)
        reference.assert_equal(actual, expected[which])


def test_a_scan_nobody_uses_disappears():
    jaxpr = jax.make_jaxpr(lambda x: (jscan.cumsum(x), x + 1))(np.ones(4)).jaxpr
    kept, _ = partial_eval.dce_jaxpr(jaxpr, [False, True])
    assert [e.primitive.name for e in kept.eqns] == ["add"]


# compilation


def test_eager_calls_with_equal_operators_do_not_recompile():
    x = jnp.arange(123)

    def call():
        return jscan.associative_scan(lambda a, b: a * 5 + b - a * 4, x).block_until_ready()

    call()
    with assert_compilations(0):
        call()
        call()


def test_eager_calls_with_different_operators_do_recompile():
    x = jnp.arange(124)

    def total_modulo(k):
        return jscan.associative_scan(lambda a, b: (a + b) % k, x)[-1].item()

    assert total_modulo(7) == np.sum(x) % 7
    assert total_modulo(11) == np.sum(x) % 11


@pytest.mark.parametrize("cumulative", CUMULATIVES, ids=lambda c: c.name)
def test_eager_cumulatives_compile_once(cumulative):
    x = jnp.asarray(values(cumulative.name, (19, 7), "float32"))
    flags = jnp.asarray(head_flags((19, 7)))
    call = partial(cumulative.function, x, exclusive=True, reverse=True, segments=flags)
    call().block_until_ready()
    with assert_compilations(0):
        call().block_until_ready()


def test_jit_traces_the_operator_only_when_it_traces():
    calls: list[None] = []

    @jax.jit
    def run(x):
        def fn(a, b):
            calls.append(None)
            return a + b

        return jscan.associative_scan(fn, x)

    run(jnp.arange(10))
    traced = len(calls)
    run(jnp.arange(10))
    assert 0 < traced == len(calls)


def test_equal_operators_make_equal_programs():
    x = jnp.arange(30)

    def program():
        jaxpr = jax.make_jaxpr(lambda x: jscan.associative_scan(lambda a, b: a + 2 * b - b, x))(x)
        return scan_equation(jaxpr.jaxpr).params["combine"]

    first, second = program(), program()
    assert first == second
    assert hash(first) == hash(second)


@pytest.mark.parametrize(
    ("first", "second"),
    [
        (lambda a, b: a + b, lambda a, b: b + a),
        (lambda a, b: a + b, lambda a, b: a * b),
        (lambda a, b: a + b + 1, lambda a, b: a + b + 2),
        (lambda a, b: jnp.where(a > b, a, b), lambda a, b: jnp.where(a >= b, a, b)),
        (
            lambda a, b: (a + b).astype("int8").astype(int),
            lambda a, b: (a + b).astype("int16").astype(int),
        ),
    ],
    ids=["operands", "primitive", "literal", "comparison", "parameter"],
)
def test_different_operators_make_different_programs(first, second):
    x = jnp.arange(30)

    def program(fn):
        jaxpr = jax.make_jaxpr(partial(jscan.associative_scan, fn))(x)
        return scan_equation(jaxpr.jaxpr).params["combine"]

    assert program(first) != program(second)


@pytest.mark.parametrize("n", [1 << 10, 1 << 16])
def test_the_jaxpr_does_not_grow_with_the_axis(n):
    jaxpr = jax.make_jaxpr(lambda x: jscan.cumsum(x, exclusive=True))(jnp.zeros(n))
    small = jax.make_jaxpr(lambda x: jscan.cumsum(x, exclusive=True))(jnp.zeros(4))
    assert len(jaxpr.jaxpr.eqns) == len(small.jaxpr.eqns)


# export


def test_export_and_call():
    x, flags = integers(40), head_flags((40,))
    run = jax.jit(lambda x, flags: jscan.cumsum(x, segments=flags))
    exported = jax.export.export(run)(x, flags)
    np.testing.assert_array_equal(exported.call(x, flags), run(x, flags))
