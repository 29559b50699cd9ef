"""Derivatives of higher order, their agreement with each other, and with those of jax.lax."""

from __future__ import annotations

from functools import partial

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax import lax
from jax.test_util import check_grads

import jscan
from jscan import operators
from tests import slopes
from tests.cases import FORMS, FULL
from tests.functions import multiply_matrices

pytestmark = pytest.mark.sweep

BOTH = ("fwd", "rev")
KINDS = ("cumprod", "affine", "welford", "rotation", "custom_vjp")
"""One of each kind: scalar slopes, one after another, in a circle, and with a rule of its own."""

every_kind = pytest.mark.parametrize(
    "rule", [slopes.BY_NAME[name] for name in KINDS], ids=lambda rule: rule.name
)
every_rule = pytest.mark.parametrize("rule", slopes.RULES, ids=lambda rule: rule.name)
N = 6


@jax.custom_jvp
def product(p, q):
    """A product with a rule of its own, which says what is so."""
    return p * q


@product.defjvp
def product_jvp(primals, tangents):
    (p, q), (dp, dq) = primals, tangents
    return product(p, q), dp * q + p * dq


@jax.custom_vjp
def other_product(p, q):
    """The same with a reverse rule."""
    return p * q


other_product.defvjp(
    lambda p, q: (other_product(p, q), (p, q)), lambda kept, g: (g * kept[1], g * kept[0])
)


def scan_of(rule, form, flags=None):
    """A scan of leaves whose infinite identities are cut off."""
    reverse, exclusive, segmented = form
    if segmented and flags is None:
        flags = np.array([0, 0, 1, 0, 1, 0])

    def scan(*xs):
        out = rule.scan(xs, reverse=reverse, exclusive=exclusive, segments=flags)
        return tuple(jnp.where(jnp.isfinite(y), y, 0.0) for y in out)

    return scan


def leaves_of(rule, *shape):
    """Leaves without ties or near ties, which differences would see."""
    xs = rule.data(shape, "float64", seed=3)[0]
    if rule.name in ("cummax", "cummin"):
        return (np.random.default_rng(0).permutation(np.prod(shape)).reshape(shape) / 4.0,)
    return xs


def in_every_form(rule, forms=FORMS):
    """The scan in all forms, as one function."""

    def scans(*xs):
        return [scan_of(rule, form)(*xs) for form in forms]

    return jax.jit(scans)


ORDINARY = [rule.name for rule in slopes.RULES if not rule.name.startswith("custom")]


@pytest.mark.thorough
@pytest.mark.parametrize("name", ORDINARY)
def test_two_orders_in_every_form(name):
    rule = slopes.BY_NAME[name]
    # Three and four coupled states take seconds to compile in each form.
    forms = [FULL] if name in ("circulants", "quaternions") else FORMS
    scans = in_every_form(rule, forms)
    check_grads(scans, leaves_of(rule, N), order=2, modes=BOTH, rtol=2e-5)


@pytest.mark.parametrize("name", ["cumlogsumexp", "affine"])
def test_two_orders(name):
    scan = scan_of(slopes.BY_NAME[name], FULL)
    check_grads(jax.jit(scan), leaves_of(slopes.BY_NAME[name], N), 2, modes=BOTH, rtol=2e-5)


@pytest.mark.thorough
@pytest.mark.parametrize(("fn", "modes"), [(product, BOTH), (other_product, ("rev",))])
def test_two_orders_of_operators_with_rules(fn, modes):
    rule = slopes.BY_NAME["cumprod"]
    own = slopes.Rule("own", slopes.scan_with(fn, 1), rule.combine, rule.slopes, rule.draw)
    scans = in_every_form(own)
    check_grads(scans, leaves_of(own, N), order=2, modes=modes, rtol=2e-5)
    check_grads(scans, leaves_of(own, N), order=1, modes=BOTH, rtol=2e-5)


@pytest.mark.thorough
@pytest.mark.parametrize("name", ["affine", "cumlogsumexp"])
def test_three_orders_against_differences(name):
    rule = slopes.BY_NAME[name]
    xs = leaves_of(rule, 4)
    check_grads(jax.jit(scan_of(rule, (True, False, False))), xs, order=3, modes=BOTH, rtol=2e-4)


# Transformations of derivatives


def loss_of(rule, form):
    """A sum of squares, whose gradient is no constant."""
    scan = scan_of(rule, form)

    def loss(*xs):
        return sum(jnp.sum(y * y) for y in scan(*xs))

    return loss


@pytest.mark.thorough
@every_kind
def test_vmap_of_grad_is_the_gradient_of_each_row(rule):
    xs = leaves_of(rule, 3, N)
    every = tuple(range(len(xs)))
    gradient = jax.jit(jax.grad(loss_of(rule, FULL), every))
    batched = jax.jit(jax.vmap(jax.grad(loss_of(rule, FULL), every)))(*xs)
    for i in range(3):
        for rows, row in zip(batched, gradient(*(x[i] for x in xs)), strict=True):
            np.testing.assert_allclose(rows[i], row, rtol=1e-13, atol=1e-13)


@pytest.mark.thorough
@pytest.mark.parametrize("name", ["cumprod", "affine"])
def test_two_orders_of_a_batch(name):
    rule = slopes.BY_NAME[name]
    scan = jax.jit(jax.vmap(scan_of(rule, FULL)))
    check_grads(scan, leaves_of(rule, 2, N), order=2, modes=BOTH, rtol=2e-5)


def assert_close(a, b, rtol=1e-12):
    """Asserts that pytrees agree, relative to the largest element."""
    for x, y in zip(jax.tree.leaves(a), jax.tree.leaves(b), strict=True):
        np.testing.assert_allclose(x, y, rtol=rtol, atol=rtol * np.max(np.abs(y), initial=1e-300))


@pytest.mark.thorough
@every_rule
def test_forward_and_reverse_jacobians_agree(rule):
    xs = leaves_of(rule, N)
    every, scan = tuple(range(len(xs))), scan_of(rule, FULL)
    assert_close(jax.jit(jax.jacfwd(scan, every))(*xs), jax.jit(jax.jacrev(scan, every))(*xs))


@pytest.mark.thorough
@pytest.mark.parametrize("name", ["cumlogsumexp", "affine", "rotation"])
def test_the_hessian_is_symmetric_whichever_way_it_is_made(name):
    rule = slopes.BY_NAME[name]
    xs = leaves_of(rule, N)
    loss = loss_of(rule, (True, False, True))
    every = tuple(range(len(xs)))
    found = jax.jit(jax.hessian(loss, every))(*xs)
    for i in every:
        for j in every:
            np.testing.assert_allclose(found[i][j], found[j][i].T, rtol=1e-11, atol=1e-11)
    assert_close(jax.jit(jax.jacrev(jax.grad(loss, every), every))(*xs), found, rtol=1e-11)


@every_kind
def test_linearize_is_the_jvp(rule):
    xs, dxs, _ = rule.data((N,), "float64")
    scan = scan_of(rule, (True, False, True))
    _, linear = jax.linearize(scan, *xs)
    assert_close(linear(*dxs), jax.jvp(scan, xs, dxs)[1])


@every_kind
def test_checkpoint_changes_nothing(rule):
    xs = leaves_of(rule, N)
    every, loss = tuple(range(len(xs))), loss_of(rule, (False, False, True))
    assert_close(
        jax.jit(jax.grad(jax.checkpoint(loss), every))(*xs), jax.jit(jax.grad(loss, every))(*xs)
    )


# Agreement with jax.lax


def like_lax(rule, fn, n, reverse, rtol=1e-12):
    """Compares the tangents and cotangents of a scan with those of lax.associative_scan."""
    xs, dxs, gs = rule.data((n,), "float64")

    def theirs(*xs):
        elems = xs if len(xs) > 1 else xs[0]
        return tuple(jax.tree.leaves(lax.associative_scan(fn, elems, reverse=reverse)))

    def ours(*xs):
        return rule.scan(xs, reverse=reverse)

    @partial(jax.jit, static_argnums=0)
    def both(scan, xs, dxs, gs):
        return jax.jvp(scan, xs, dxs)[1], jax.vjp(scan, *xs)[1](gs)

    assert_close(both(ours, xs, dxs, gs), both(theirs, xs, dxs, gs), rtol)


SMOOTH = {
    "cumsum": jnp.add,
    "cumprod": jnp.multiply,
    "cumlogsumexp": jnp.logaddexp,
    "affine": operators.affine,
    "either": slopes.either,
    "matrices": multiply_matrices,
    "rotation": slopes.rotate,
    "welford": slopes.merge_moments,
}


@pytest.mark.thorough
@pytest.mark.parametrize(("name", "reverse"), [(k, i % 2 == 0) for i, k in enumerate(SMOOTH)])
def test_smooth_operators_have_the_derivatives_of_lax(name, reverse):
    like_lax(slopes.BY_NAME[name], SMOOTH[name], 1000, reverse)


def near_one(rng, shape):
    """Factors of which very many neither vanish nor overflow."""
    return [1 + rng.normal(size=shape) * 1e-3]


@pytest.mark.thorough
@pytest.mark.parametrize(
    ("name", "reverse"), [("cumprod", True), ("cumlogsumexp", False), ("affine", True)]
)
def test_several_chunks_have_the_derivatives_of_lax(name, reverse):
    rule = slopes.BY_NAME[name]
    draw = {
        "cumprod": near_one,
        "cumlogsumexp": rule.draw,
        "affine": lambda rng, shape: [*near_one(rng, shape), rng.normal(size=shape)],
    }[name]
    own = slopes.Rule(name, rule.scan, rule.combine, rule.slopes, draw)
    like_lax(own, SMOOTH[name], 100_000, reverse)


def pulled(module, name, x, reverse, axis=0):
    """The Jacobian of a cumulative function, by jvp and by vjp."""
    scan = partial(getattr(module, name), axis=axis, reverse=reverse)
    return jax.jit(lambda x: (jax.jacfwd(scan)(x), jax.jacrev(scan)(x)))(x)


TIES = [[1.0, 2.0, 2.0, 0.0, 3.0, 3.0], [2.0, 2.0, 0.0, 1.0], [0.0, 3.0, 1.0, 3.0, 4.0]]


@pytest.mark.sweep
@pytest.mark.parametrize("x", TIES)
@pytest.mark.parametrize("name", ["cummax", "cummin"])
@pytest.mark.parametrize("reverse", [False, True])
def test_ties_of_two_are_as_in_lax(name, x, reverse):
    x = jnp.array(x) if name == "cummax" else -jnp.array(x)
    for ours, theirs in zip(
        pulled(jscan, name, x, reverse), pulled(lax, name, x, reverse), strict=True
    ):
        np.testing.assert_array_equal(ours, theirs)


ZEROS = {
    "none": np.array([2.0, 3.0, -1.0, 4.0]),
    "one": np.array([2.0, 0.0, -1.0, 4.0]),
    "two": np.array([2.0, 0.0, -1.0, 0.0]),
    "aligned over columns": np.array([[2.0, 5.0], [0.0, 0.0], [3.0, 4.0]]),
}


@pytest.mark.parametrize("zeros", ZEROS)
@pytest.mark.parametrize("reverse", [False, True])
def test_products_with_zeros_are_as_in_lax(zeros, reverse):
    x = jnp.array(ZEROS[zeros])
    for ours, theirs in zip(
        pulled(jscan, "cumprod", x, reverse), pulled(lax, "cumprod", x, reverse), strict=True
    ):
        np.testing.assert_array_equal(ours, theirs)


EXTREMES = {
    "an infinity": [1.0, np.inf, 2.0, 3.0],
    "an infinity at the start": [np.inf, 1.0, 2.0, 3.0],
    "an infinity at the end": [1.0, 2.0, 3.0, np.inf],
    "a negative infinity": [1.0, -np.inf, 2.0, 3.0],
    "a negative infinity at the start": [-np.inf, 1.0, 2.0, 3.0],
    "negative infinities apart": [-np.inf, 1.0, -np.inf, 2.0],
    "negative infinities at the start": [-np.inf, -np.inf, 1.0, 2.0],
    "two infinities": [1.0, np.inf, 2.0, np.inf],
    "a NaN": [1.0, np.nan, 2.0, 3.0],
    "a NaN at the start": [np.nan, 1.0, 2.0, 3.0],
}


@pytest.mark.parametrize("name", ["cumsum", "cumprod", "cummax", "cummin", "cumlogsumexp"])
@pytest.mark.parametrize("reverse", [False, True])
def test_extremes_are_as_in_lax(name, reverse):
    """Infinity times zero is NaN, and where it comes up depends on who pairs what.

    So a product with infinite factors, and negative infinities behind each other in a logarithm of
    sums, are compared where both have a number. Everything else is the same, NaN included.
    """
    x = jnp.array(list(EXTREMES.values()))

    def pull(module):
        return jax.jit(jax.vmap(lambda row: pulled(module, name, row, reverse)))(x)

    for ours, theirs in zip(pull(jscan), pull(lax), strict=True):
        ours, theirs = np.array(ours), np.array(theirs)
        if name in ("cumprod", "cumlogsumexp"):
            other = np.isnan(ours) | np.isnan(theirs)
            ours[other] = theirs[other] = 0.0
        np.testing.assert_allclose(ours, theirs, rtol=1e-14, atol=0)
