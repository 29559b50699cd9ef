"""First derivatives of scans, forward and reverse, against loops over hand-written Jacobians."""

from __future__ import annotations

from functools import partial

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import jscan
from jscan import operators, primitives
from tests import chain_rule, reference, slopes
from tests.cases import FULL, PLAIN, every_form, form_name, head_flags

every_rule = pytest.mark.parametrize("rule", slopes.RULES, ids=lambda rule: rule.name)
two_forms = pytest.mark.parametrize("form", [PLAIN, FULL], ids=form_name)
AFFINE = slopes.BY_NAME["affine"]


COUPLED = ("cumprod", "affine", "welford", "rotation")
"""One of each kind: a slope for each leaf, one after another, and in a circle."""


def longest(engine):
    """The longest row that a test compares, of leaves of up to 72 bytes together."""
    return min(engine.longest, 400) if engine.method == "block" else engine.longest


def check(rule, shape, form, method, *, axis=0, dtype="float64", flags=None, change=lambda f: f):
    """Compares the tangents and the cotangents of a scan with those of the loops."""
    reverse, exclusive, segmented = form
    if segmented and flags is None:
        flags = head_flags((shape[axis],))
    xs, dxs, gs = rule.data(shape, jnp.dtype(dtype))
    options = {"axis": axis, "reverse": reverse, "exclusive": exclusive}

    @change
    def scan(*xs):
        return rule.scan(xs, segments=flags, method=method, **options)

    @jax.jit
    def both(xs, dxs, gs):
        _, pullback = jax.vjp(scan, *xs)
        return jax.jvp(scan, xs, dxs)[1], pullback(gs)

    tangents, cotangents = both(xs, dxs, gs)
    assert {x.dtype for x in (*tangents, *cotangents)} == {jnp.dtype(dtype)}
    loop = chain_rule.Recurrence(rule, xs, flags=flags, **options)
    for got, run, given in ((tangents, loop.tangents, dxs), (cotangents, loop.cotangents, gs)):
        chain_rule.assert_within(
            got, run(given), run(given, sized=True), axis=axis, steps=rule.steps
        )


# Every engine


@pytest.mark.thorough
def test_several_tiles_of_an_affine_scan_in_its_full_form(engine):
    check(AFFINE, (150,), FULL, engine.method)


def test_several_tiles_of_two_coupled_states(engine):
    rule, flags = slopes.BY_NAME["rotation"], head_flags((130,))
    xs, _, gs = rule.data((130,), "float64")

    @jax.jit
    def pull(xs, gs):
        def scan(*xs):
            return rule.scan(xs, segments=flags, method=engine.method)

        return jax.vjp(scan, *xs)[1](gs)

    loop = chain_rule.Recurrence(rule, xs, flags=flags)
    sizes = loop.cotangents(gs, sized=True)
    chain_rule.assert_within(pull(xs, gs), loop.cotangents(gs), sizes, axis=0, steps=rule.steps)


@pytest.mark.parametrize(
    "name",
    [
        *(*COUPLED, "cumlogsumexp", "custom_vjp"),
        pytest.param("circulants", marks=pytest.mark.thorough),  # half a minute of compilation
    ],
)
def test_operators_in_one_interpreted_block(name):
    with primitives.interpreted():
        check(slopes.BY_NAME[name], (20,), FULL, "block", dtype="float32")


@pytest.mark.thorough
@pytest.mark.sweep
@every_rule
def test_every_operator(rule, engine):
    check(rule, (20,), (False, False, True), engine.method)


@pytest.mark.grid
@two_forms
@every_rule
def test_every_operator_over_many_elements(rule, form, engine):
    check(rule, (longest(engine),), form, engine.method)


@pytest.mark.sweep
@every_form
def test_every_form_of_an_affine_scan(form, engine):
    check(AFFINE, (33,), form, engine.method)


@pytest.mark.grid
@every_form
@pytest.mark.parametrize("name", COUPLED)
def test_operators_in_every_form(name, form, engine):
    check(slopes.BY_NAME[name], (longest(engine),), form, engine.method, dtype="float32")


@pytest.mark.sweep
def test_every_size(engine, size):
    check(AFFINE, (size,), FULL, engine.method)


@pytest.mark.grid
@pytest.mark.parametrize("name", ["cumprod", "cummax"])
def test_every_size_of_one_leaf(name, engine, size):
    check(slopes.BY_NAME[name], (size,), PLAIN, engine.method, dtype="float32")


@pytest.mark.thorough
@pytest.mark.sweep
@two_forms
@pytest.mark.parametrize("name", ["cumprod", "affine"])
def test_rows_of_several_chunks(name, form, engine):
    # Plain JAX on a CPU takes an axis of so many rows by chunks, the last of which is shorter.
    check(
        slopes.BY_NAME[name], (1283 if engine.method != "block" else 257, 64), form, engine.method
    )


@pytest.mark.sweep
@pytest.mark.parametrize("axis", [0, 1, 2, -1])
@pytest.mark.parametrize("name", ["affine", "rotation"])
def test_every_axis(name, axis, engine):
    form = (True, False, True)
    check(slopes.BY_NAME[name], (6, 33, 5), form, engine.method, axis=axis)


@pytest.mark.sweep
@pytest.mark.parametrize("axis", [0, 1])
@pytest.mark.parametrize("reverse", [False, True])
def test_flags_of_every_row(axis, reverse, engine):
    shape = (40, 7)
    form = (reverse, True, True)
    check(AFFINE, shape, form, engine.method, axis=axis, flags=head_flags(shape, "int32"))


@pytest.mark.thorough
@pytest.mark.sweep
@pytest.mark.parametrize("name", COUPLED)
def test_bfloat16(name, engine):
    check(slopes.BY_NAME[name], (20,), (True, False, True), engine.method, dtype="bfloat16")


@pytest.mark.grid
@pytest.mark.parametrize("dtype", ["bfloat16", "float16", "float32"])
@every_rule
def test_every_dtype(rule, dtype, engine):
    n = min(257, longest(engine))
    check(rule, (n,), (True, False, True), engine.method, dtype=dtype)


@pytest.mark.thorough
@pytest.mark.sweep
@pytest.mark.parametrize("name", ["affine", "welford", "custom_vjp"])
def test_checkpoint(name, engine):
    check(slopes.BY_NAME[name], (20,), FULL, engine.method, change=jax.checkpoint)


@pytest.mark.sweep
@pytest.mark.parametrize("dtype", ["bfloat16", "float16"])
@pytest.mark.parametrize("reverse", [False, True])
def test_half_precision_is_rounded_once(dtype, reverse, engine):
    # Slopes of one make sums of integers, which float32 holds exactly and half precision does not.
    n = min(1000, longest(engine))
    g = np.random.default_rng(0).integers(-9, 10, n)
    x = (jnp.ones(n, dtype), jnp.zeros(n, dtype))

    def offsets(b):
        elems = (x[0], b)
        scan = partial(jscan.associative_scan, operators.affine, reverse=reverse)
        return scan(elems, method=engine.method)[1]

    _, pullback = jax.vjp(offsets, x[1])
    (found,) = pullback(g.astype(jnp.dtype(dtype)))
    expected = np.cumsum(g) if reverse else np.cumsum(g[::-1])[::-1]
    np.testing.assert_array_equal(found, expected.astype(jnp.dtype(dtype)))
    _, moved = jax.jvp(offsets, x[1:], (g.astype(jnp.dtype(dtype)),))
    expected = np.cumsum(g[::-1])[::-1] if reverse else np.cumsum(g)
    np.testing.assert_array_equal(moved, expected.astype(jnp.dtype(dtype)))


# Ties, unused results, constants


@pytest.mark.sweep
@two_forms
@pytest.mark.parametrize("name", ["cummax", "cummin"])
def test_equal_elements_share_the_tangent(name, form, engine):
    rule = slopes.BY_NAME[name]
    whole = np.random.default_rng(0).integers(-3, 3, min(60, engine.longest))
    reverse, exclusive, segmented = form
    flags = head_flags(whole.shape) if segmented else None
    _, dxs, gs = rule.data(whole.shape, "float64")
    options = {"reverse": reverse, "exclusive": exclusive}

    def scan(x):
        return rule.scan((x,), segments=flags, method=engine.method, **options)

    x = whole.astype("float64")
    loop = chain_rule.Recurrence(rule, (x,), flags=flags, **options)
    _, tangents = jax.jvp(scan, (x,), dxs)
    assert_near = partial(chain_rule.assert_within, axis=0, steps=1)
    assert_near(tangents, loop.tangents(dxs), loop.tangents(dxs, sized=True))
    cotangents = jax.vjp(scan, x)[1](gs)
    assert_near(cotangents, loop.cotangents(gs), loop.cotangents(gs, sized=True))


@pytest.mark.sweep
@two_forms
def test_only_the_offsets_of_an_affine_scan(form, engine):
    reverse, exclusive, segmented = form
    n = min(100, engine.longest)
    xs, dxs, gs = AFFINE.data((n,), "float64")
    flags = head_flags((n,)) if segmented else None
    options = {"reverse": reverse, "exclusive": exclusive}

    def offsets(a, b):
        return AFFINE.scan((a, b), segments=flags, method=engine.method, **options)[1]

    loop = chain_rule.Recurrence(AFFINE, xs, flags=flags, **options)
    _, tangent = jax.jvp(offsets, xs, dxs)
    near = partial(chain_rule.assert_within, axis=0, steps=AFFINE.steps)
    near([tangent], loop.tangents(dxs)[1:], loop.tangents(dxs, sized=True)[1:])
    given = (np.zeros(n), gs[1])
    near(
        jax.vjp(offsets, *xs)[1](gs[1]), loop.cotangents(given), loop.cotangents(given, sized=True)
    )


@pytest.mark.sweep
@pytest.mark.parametrize("moving", [0, 1])
def test_only_one_leaf_of_an_affine_scan_moves(moving, engine):
    xs, dxs, gs = AFFINE.data((60,), "float64")
    still = np.zeros(60)

    def scan(x):
        leaves = [*xs]
        leaves[moving] = x
        return AFFINE.scan(leaves, method=engine.method)

    loop = chain_rule.Recurrence(AFFINE, xs)
    given = [dxs[i] if i == moving else still for i in (0, 1)]
    near = partial(chain_rule.assert_within, axis=0, steps=AFFINE.steps)
    found = jax.jvp(scan, (xs[moving],), (dxs[moving],))[1]
    near(found, loop.tangents(given), loop.tangents(given, sized=True))
    (found,) = jax.vjp(scan, xs[moving])[1](gs)
    near(
        [found],
        [loop.cotangents(gs)[moving]],
        [loop.cotangents(gs, sized=True)[moving]],
    )


# vmap


def check_rows(rule, axes, form, method, n=40, rows=3):
    """Batches of jvp and of vjp, of which each row is that of the loops.

    `axes` has 0 or None for each leaf, then for the flags.
    """
    reverse, exclusive, segmented = form
    options = {"reverse": reverse, "exclusive": exclusive}
    xs, dxs, gs = rule.data((rows, n), "float64")
    xs = tuple(x if at == 0 else x[0] for x, at in zip(xs, axes, strict=False))
    flags = head_flags((rows, n) if axes[-1] == 0 else (n,)) if segmented else None

    def both(xs, dxs, gs, flags):
        def scan(*xs):
            return rule.scan(xs, segments=flags, method=method, **options)

        return jax.jvp(scan, xs, dxs)[1], jax.vjp(scan, *xs)[1](gs)

    batched = jax.vmap(both, (axes[:-1], 0, 0, axes[-1] if segmented else None))
    tangents, cotangents = jax.jit(batched)(xs, dxs, gs, flags)
    for i in range(rows):
        here = [x[i] if at == 0 else x for x, at in zip(xs, axes, strict=False)]
        own = flags if flags is None or axes[-1] is None else flags[i]
        loop = chain_rule.Recurrence(rule, here, flags=own, **options)
        for found, run, given in (
            (tangents, loop.tangents, [x[i] for x in dxs]),
            (cotangents, loop.cotangents, [g[i] for g in gs]),
        ):
            row, sizes = [x[i] for x in found], run(given, sized=True)
            chain_rule.assert_within(row, run(given), sizes, axis=0, steps=rule.steps)


@pytest.mark.sweep
@pytest.mark.parametrize("axes", [(0, 0, 0), (0, 0, None), (None, 0, None), (0, None, 0)])
def test_vmap_of_leaves(axes, engine):
    check_rows(AFFINE, axes, FULL, engine.method)


@pytest.mark.thorough
@pytest.mark.sweep
@pytest.mark.parametrize("name", ["cumprod", "rotation", "welford", "custom_vjp"])
def test_vmap_of_flags_alone(name, engine):
    rule = slopes.BY_NAME[name]
    leaves = len(rule.data((1,), "float64")[0])
    check_rows(rule, (*[None] * leaves, 0), FULL, engine.method)


@pytest.mark.parametrize("axes", [(None, 0, None), (None, None, 0)])
def test_vmap_of_some_operands_in_one_interpreted_block(axes):
    with primitives.interpreted():
        check_rows(AFFINE, axes, (True, False, True), "block", n=20)


@pytest.mark.sweep
@pytest.mark.parametrize("shared", [0, 1])
@pytest.mark.parametrize("reverse", [False, True])
def test_the_gradient_of_a_leaf_that_rows_share_is_summed(shared, reverse, engine):
    xs, _, gs = AFFINE.data((4, 50), "float64")
    xs = tuple(x[0] if i == shared else x for i, x in enumerate(xs))
    axes = tuple(None if i == shared else 0 for i in (0, 1))

    def scan(a, b):
        return AFFINE.scan((a, b), reverse=reverse, method=engine.method)

    found = jax.vjp(jax.vmap(scan, axes), *xs)[1](gs)[shared]
    whole = [np.broadcast_to(x, (4, 50)) for x in xs]
    loop = chain_rule.Recurrence(AFFINE, whole, axis=1, reverse=reverse)
    expected, size = (loop.cotangents(gs, sized=sized)[shared].sum(0) for sized in (False, True))
    chain_rule.assert_within([found], [expected], [size], axis=0, steps=AFFINE.steps)


def test_zero_length_and_no_rows_have_empty_derivatives():
    for shape in ((0,), (0, 3), (3, 0)):
        xs, dxs, gs = AFFINE.data(shape, "float64")
        scan = partial(jscan.associative_scan, operators.affine)
        _, tangents = jax.jvp(scan, (xs,), (dxs,))
        (cotangents,) = jax.vjp(scan, xs)[1](gs)
        for x in (*tangents, *cotangents):
            reference.assert_equal(x, np.zeros(shape))
