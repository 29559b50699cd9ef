"""No value of one segment reaches another: NaN and infinity are planted in one of them."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import jscan
from jscan import operators
from tests.functions import welford

HEADS = np.array([1, 0, 0, 1, 0, 0, 1, 0])
IDS = np.cumsum(HEADS) - 1
X = np.random.default_rng(0).uniform(0.5, 1.5, 8)
WEIGHTS = np.random.default_rng(1).uniform(0.5, 1.5, 8)
MATRIX = np.array([[1.0, 0.5], [0.2, 1.0]])


def matrices(p, q):
    # No einsum: XLA 0.11.2 aborts on the gradient of a float64 one on a GPU, in lax's scan too.
    return (p[:, :, :, None] * q[:, None, :, :]).sum(2)


@jax.custom_jvp
def product(p, q):
    return p * q


product.defjvp(lambda primals, t: (primals[0] * primals[1], t[0] * primals[1] + primals[0] * t[1]))


def closing_over_an_array(p, q):
    return p * q * jnp.asarray(MATRIX)[0, 0]


def _scan_of(fn, make, identity, take):
    def run(x, **how):
        y = jscan.associative_scan(fn, make(x), identity=identity, segments=HEADS, **how)
        return take(y)

    return run


SCANS = {
    "matrices": _scan_of(
        matrices, lambda x: jax.vmap(lambda v: v * MATRIX)(x), np.eye(2), lambda y: y.sum((1, 2))
    ),
    "closure": _scan_of(closing_over_an_array, lambda x: x, 1.0, lambda y: y),
    "custom rule": _scan_of(product, lambda x: x, 1.0, lambda y: y),
    "welford": _scan_of(
        welford,
        lambda x: (jnp.ones_like(x), x, jnp.zeros_like(x)),
        (0.0, 0.0, 0.0),
        lambda y: y[2],
    ),
    "affine": _scan_of(operators.affine, lambda x: (x, x * x), None, lambda y: y[1]),
    "logaddexp": _scan_of(operators.logaddexp, lambda x: x, None, lambda y: y),
    "product": _scan_of(operators.mul, lambda x: x, None, lambda y: y),
    "maximum": _scan_of(operators.max, lambda x: x, None, lambda y: y),
}

REDUCTIONS = {
    "matrices": lambda x: jscan.reduce(
        matrices,
        jax.vmap(lambda v: v * MATRIX)(x),
        segments=HEADS,
        identity=np.eye(2),
        num_segments=3,
    ).sum((1, 2)),
    "closure": lambda x: jscan.reduce(
        closing_over_an_array, x, segments=HEADS, identity=1.0, num_segments=3
    ),
    "logaddexp": lambda x: jscan.reduce(operators.logaddexp, x, segments=HEADS, num_segments=3),
    "segment_sum": lambda x: jscan.segment_sum(x * x, IDS, 3, True),
    "segment_prod": lambda x: jscan.segment_prod(x, IDS, 3, True),
    "segment_max": lambda x: jscan.segment_max(x, IDS, 3, True),
    "segment_min unsorted": lambda x: jscan.segment_min(x, IDS, 3),
}


def other_segments_are_untouched(f, owner, planted, segment):
    """Values and derivatives of what other segments give, with and without a planted value."""
    spoilt = X.copy()
    spoilt[np.flatnonzero(segment == IDS)[1]] = planted
    mine, others = owner != segment, segment != IDS
    weights = WEIGHTS[: len(owner)]

    def loss(x):
        return f(x) @ weights

    def loss_of_others(x):
        return jnp.where(mine, f(x), 0.0) @ weights

    with np.errstate(all="ignore"):
        checks = {
            "value": (f, mine),
            "gradient": (jax.grad(loss), others),
            "gradient of others": (jax.grad(loss_of_others), others),
            "Jacobian": (jax.jacfwd(f), np.ix_(mine, others)),
            "Hessian": (jax.hessian(loss_of_others), np.ix_(others, others)),
            "reverse over reverse": (jax.jacrev(jax.grad(loss_of_others)), np.ix_(others, others)),
        }
        of_all = jax.jit(lambda x: {name: derived(x) for name, (derived, _) in checks.items()})
        clean, found = of_all(X), of_all(spoilt)
        for name, (_, seen) in checks.items():
            arrays = np.asarray(found[name])[seen], np.asarray(clean[name])[seen]
            np.testing.assert_allclose(*arrays, rtol=1e-9, err_msg=name)


def plant(first):
    """Where NaN or infinity goes; every pair is a case, and one of them runs by default."""
    pairs = [(value, segment) for value in (np.nan, np.inf) for segment in range(3)]
    return [
        pytest.param(*pair, marks=[] if i == first % len(pairs) else [pytest.mark.thorough])
        for i, pair in enumerate(pairs)
    ]


def _cases(table):
    return [
        pytest.param(name, *case.values, marks=case.marks, id=f"{name}-{case.values}")
        for number, name in enumerate(table)
        for case in plant(number)
    ]


@pytest.mark.sweep
@pytest.mark.parametrize(
    ("name", "planted", "segment", "reverse", "exclusive"),
    [
        # Of the four directions each operator takes a diagonal by default.
        pytest.param(
            *case.values,
            reverse,
            exclusive,
            marks=[pytest.mark.thorough] if (number // 6 + reverse + exclusive) % 2 else case.marks,
            id=f"{case.id}-{reverse}-{exclusive}",
        )
        for number, case in enumerate(_cases(SCANS))
        for reverse in (False, True)
        for exclusive in (False, True)
    ],
)
def test_scans_keep_to_their_segments(name, planted, segment, reverse, exclusive):
    def f(x):
        return SCANS[name](x, reverse=reverse, exclusive=exclusive)

    other_segments_are_untouched(f, IDS, planted, segment)


@pytest.mark.parametrize(("name", "planted", "segment"), _cases(REDUCTIONS))
def test_reductions_keep_to_their_segments(name, planted, segment):
    other_segments_are_untouched(REDUCTIONS[name], np.arange(3), planted, segment)


def test_the_gradient_of_matrix_products_by_segments_sees_no_nan_of_another():
    heads = jnp.array([1, 0, 1, 0])

    def last(x):
        return jscan.associative_scan(matrices, x[:, None, None], segments=heads)[-1, 0, 0]

    gradient = jax.jit(jax.grad(last))(jnp.array([jnp.nan, 1.0, 4.0, 5.0]))
    np.testing.assert_array_equal(gradient[2:], [5, 4])


def test_what_an_operator_closes_over_sees_no_combination_across_a_head():
    """Weights of the two segments cancel, so that only a discarded mean divides by zero."""
    weights, values = np.array([1.0, 1.0, -2.0, -1.0]), np.array([1.0, 2.0, 3.0, 4.0])

    def loss(center):
        def mean(p, q):
            total = p[0] + q[0]
            return total, (p[0] * (p[1] - center) + q[0] * (q[1] - center)) / total + center

        heads = np.array([1, 0, 1, 0])
        return (jscan.associative_scan(mean, (weights, values), segments=heads)[1] ** 2).sum()

    np.testing.assert_allclose(jax.jit(jax.grad(loss))(0.5), 0, atol=1e-12)
