"""Operators on small blocks: taken apart into scalars, they run in kernels and in loops."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax import lax

import jscan
from jscan import blocks, elements, primitives
from tests import reference


def product(a, b):
    return jnp.einsum("...ij,...jk->...ik", b, a)


def affine(a, b):
    return product(a[0], b[0]), jnp.einsum("...ij,...j->...i", b[0], a[1]) + b[1]


def log_product(a, b):
    return jax.scipy.special.logsumexp(a[..., :, :, None] + b[..., None, :, :], axis=-2)


def hamilton(a, b):
    """Products of quaternions, (w, x, y, z)."""
    (w, x, y, z), (p, q, r, s) = ([v[..., i] for i in range(4)] for v in (a, b))
    parts = w * p - x * q - y * r - z * s, w * q + x * p + y * s - z * r
    return jnp.stack([*parts, w * r - x * s + y * p + z * q, w * s + x * r - y * q + z * p], -1)


def kalman(a, b):
    """The elements of a filter of one observed number and two states, by written-out inverses."""
    (f, m, c), (g, n, d) = a, b
    turned = jnp.concatenate([f[..., 1:, :], f[..., :1, :]], -2).mT
    return g @ f, jnp.sum(g * m[..., None, :], -1) + n, g @ c @ g.mT + d + 0 * turned


def drawn(*shapes, dtype=np.float32):
    rng = np.random.default_rng(3)
    return tuple(np.asarray(rng.normal(size=s) * 0.5, dtype) for s in shapes)


OPERATORS = {
    "2 x 2": (product, drawn((23, 2, 2))[0]),
    "3 x 3, two rows": (product, drawn((23, 2, 3, 3))[0]),
    "affine": (affine, drawn((23, 2, 2), (23, 2))),
    "log semiring": (log_product, drawn((23, 2, 2))[0]),
    "quaternions": (hamilton, drawn((23, 4))[0]),
    "filter": (kalman, drawn((23, 2, 2), (23, 2), (23, 2, 2))),
    "5 x 5": (product, drawn((23, 5, 5))[0]),
    "2 x 2, seven in a block": (product, drawn((23, 7, 2, 2))[0]),
}


def looped(fn, elems, heads, *, reverse):
    """The scan along the first axis by a loop of ``fn``."""
    n = len(jax.tree.leaves(elems)[0])
    found = {}
    before = None
    for t in reversed(range(n)) if reverse else range(n):
        here = jax.tree.map(lambda x: jnp.asarray(x)[t : t + 1], elems)  # noqa: B023
        edge = t + 1 if reverse else t
        fresh = before is None or (heads is not None and edge < n and heads[edge])
        found[t] = before = here if fresh else fn(before, here)
    return jax.tree.map(lambda *parts: jnp.concatenate(parts), *[found[t] for t in range(n)])


def assert_close(found, want):
    for got, wanted in zip(jax.tree.leaves(found), jax.tree.leaves(want), strict=True):
        np.testing.assert_allclose(got, wanted, rtol=2e-5, atol=2e-5)


@pytest.mark.parametrize("name", OPERATORS)
def test_operators_on_blocks_are_taken_apart(name):
    fn, elems = OPERATORS[name]
    leaves, treedef = jax.tree.flatten(elems)
    apart = blocks.taken_apart("jscan", fn, leaves, treedef, 0)
    assert isinstance(apart, blocks.Apart)
    flat = [jnp.asarray(x).reshape(*x.shape[: apart.leading], -1) for x in leaves]
    numbers = elements.numbers(flat)
    made = iter(apart.combine(numbers, numbers[:]))
    found = [jnp.stack([next(made) for _ in range(x.shape[-1])], -1) for x in flat]
    found = [x.reshape(leaf.shape) for x, leaf in zip(found, leaves, strict=True)]
    assert_close(found, fn(elems, elems))


@pytest.mark.parametrize("name", OPERATORS)
def test_scans_by_blocks_are_those_of_a_loop(name):
    fn, elems = OPERATORS[name]
    heads = np.random.default_rng(4).random(23) < 0.2
    for reverse, flags in ((False, None), (True, heads)):
        found = jscan.associative_scan(fn, elems, reverse=reverse, segments=flags)
        assert_close(found, looped(fn, elems, flags, reverse=reverse))


@pytest.mark.parametrize("name", ["2 x 2", "3 x 3, two rows", "quaternions", "log semiring"])
def test_kernels_scan_blocks(name):
    fn, elems = OPERATORS[name]
    heads = np.random.default_rng(4).random(23) < 0.2
    with primitives.interpreted():
        found = jax.jit(lambda x: jscan.associative_scan(fn, x, segments=heads, method="lookback"))(
            elems
        )
    assert_close(found, looped(fn, elems, heads, reverse=False))


def test_exclusive_scans_begin_with_the_identity():
    fn, elems = OPERATORS["2 x 2"]
    heads = np.zeros(23, bool)
    heads[7] = True
    unit = np.eye(2, dtype=np.float32)
    found = jscan.associative_scan(fn, elems, exclusive=True, identity=unit, segments=heads)
    want = looped(fn, elems, heads, reverse=False)
    np.testing.assert_allclose(found[7], unit)
    np.testing.assert_allclose(found[0], unit)
    np.testing.assert_allclose(found[1:7], want[:6], rtol=1e-5, atol=1e-5)
    np.testing.assert_allclose(found[8:], want[7:-1], rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("name", ["2 x 2", "3 x 3, two rows", "affine", "log semiring"])
def test_gradients_are_those_of_a_loop(name):
    fn, elems = OPERATORS[name]
    wide = jax.tree.map(lambda x: jnp.asarray(x[:9], jnp.float32), elems)
    weights = jax.tree.map(
        lambda x: jnp.cos(jnp.arange(x.size, dtype=x.dtype)).reshape(x.shape), wide
    )

    def total(scanned):
        pairs = zip(jax.tree.leaves(scanned), jax.tree.leaves(weights), strict=True)
        return sum(jnp.sum(x * w) for x, w in pairs)

    found = jax.jit(jax.grad(lambda x: total(jscan.associative_scan(fn, x))))(wide)
    want = jax.jit(jax.grad(lambda x: total(looped(fn, x, None, reverse=False))))(wide)
    assert_close(found, want)


REDUCED = {
    "products": lambda a, b: jnp.stack(
        [jnp.prod(jnp.stack([a, b], -1), -1)[..., 0], b[..., 1]], -1
    ),
    "sums": lambda a, b: a + b + 0 * jnp.sum(a, -1, keepdims=True),
    "largest": lambda a, b: jnp.maximum(a, b) + 0 * jnp.max(b, -1, keepdims=True),
    "least": lambda a, b: jnp.minimum(a, b) + 0 * jnp.min(b, -1, keepdims=True),
}


@pytest.mark.parametrize("name", REDUCED)
def test_gradients_reach_what_comes_before(name):
    fn, (x, init) = REDUCED[name], drawn((5, 2), (2,))
    apart = blocks.taken_apart("jscan", fn, [jnp.asarray(x)], jax.tree.structure(0), 0)
    assert isinstance(apart, blocks.Apart)

    def total(x, init, scan):
        return jnp.sum(jnp.cos(scan(x, init)))

    def loop(x, init):
        return looped(fn, jnp.concatenate([init[None], x]), None, reverse=False)[1:]

    def scan(x, init):
        return jscan.associative_scan(fn, x, init=init)

    slopes = jax.jit(jax.grad(total, (0, 1)), static_argnums=2)
    found, want = (slopes(x, init, run) for run in (scan, loop))
    assert_close(found, want)


def test_gradients_of_products_from_a_matrix():
    slope = jax.grad(lambda m: jscan.associative_scan(jnp.matmul, m, init=jnp.eye(2)).sum())(
        jnp.ones((3, 2, 2))
    )
    assert slope.tolist() == [[[7, 7], [7, 7]], [[6, 6], [6, 6]], [[4, 4], [4, 4]]]


def test_narrow_floats_are_combined_in_float32():
    [x] = drawn((50, 2, 2), dtype="bfloat16")
    found = jscan.associative_scan(product, x)
    assert found.dtype == jnp.bfloat16
    want = looped(product, reference.widen(np.asarray(x)), None, reverse=False)
    error = np.abs(reference.widen(np.asarray(found)) - want)
    assert np.all(error <= 2**-8 * (np.abs(want) + 1e-4))


def test_blocks_of_rows_and_batches_are_scanned_along_their_axis():
    [x] = drawn((3, 11, 2, 2))
    along = jscan.associative_scan(product, x, axis=1)
    mapped = jax.vmap(lambda row: jscan.associative_scan(product, row))(x)
    for row in range(3):
        want = looped(product, x[row], None, reverse=False)
        assert_close((along[row], mapped[row]), (want, want))


@pytest.mark.parametrize(
    ("fn", "shape", "reason"),
    [
        (lambda a, b: a @ b, (9, 9, 9), "81 numbers, of which kernels take 64"),
        (lambda a, b: a[::-1] + b, (9, 2, 2), "it reverses leading dimensions"),
        (lambda a, b: a + jnp.linalg.inv(b), (9, 2, 2), "it calls lu"),
        (lambda a, b: a + jnp.sort(b), (9, 3), "it calls sort"),
    ],
)
def test_a_named_method_says_why_an_operator_is_not_taken_apart(fn, shape, reason):
    with pytest.raises(ValueError, match=reason):
        jscan.associative_scan(fn, np.ones(shape, np.float32), method="lookback")


def test_what_is_known_is_computed_and_nothing_is_done_twice():
    def masked(a, b):
        return jnp.triu(b) @ jnp.triu(a) + jnp.triu(b) @ jnp.triu(a)

    leaf = jax.ShapeDtypeStruct((5, 2, 2), np.float32)
    apart = blocks.taken_apart("jscan", masked, [leaf], jax.tree.structure(0), 0)
    assert isinstance(apart, blocks.Apart)
    names = [eqn.primitive.name for eqn in apart.combine.jaxpr.eqns]
    assert "select_n" not in names
    assert len(names) <= 8 + 4 + 4


def test_a_large_operator_compiles_to_few_operations_on_a_cpu():
    """A loop over stacked leaves, in the derivative too; a tree of sixteen takes minutes."""
    [x] = drawn((300, 4, 4))
    gradient = jax.jit(jax.grad(lambda x: jnp.sum(jscan.associative_scan(product, x))))
    text = gradient.lower(x).as_text()
    assert text.count("stablehlo.while") >= 3
    assert len(text.splitlines()) < 6000
    want = jax.jit(jax.grad(lambda x: jnp.sum(lax.associative_scan(product, x))))(x[:20])
    np.testing.assert_allclose(gradient(x[:20]), want, rtol=1e-4, atol=1e-4)


def test_a_scan_of_blocks_goes_on_from_where_another_ended():
    fn, elems = OPERATORS["affine"]
    whole = jscan.associative_scan(fn, elems)
    first = jax.tree.map(lambda x: x[:9], elems)
    rest = jax.tree.map(lambda x: x[9:], elems)
    begun = jscan.associative_scan(fn, first)
    last = jax.tree.map(lambda x: x[-1], begun)
    for exclusive in (False, True):
        found = jscan.associative_scan(fn, rest, init=last, exclusive=exclusive)
        want = jax.tree.map(lambda x: x[8:-1] if exclusive else x[9:], whole)  # noqa: B023
        assert_close(found, want)
