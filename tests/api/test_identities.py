"""What ``identity=`` promises: it is neutral, and no result takes it in, however it is given."""

from __future__ import annotations

import contextlib
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import jscan
from jscan import combine, identities, primitives
from tests.functions import last_write, welford

X = np.array([3.0, -1.0, 4.0, 1.0, -5.0])
HEADS = np.array([0, 0, 1, 0, 0])


def first_of_greatest(a, b):
    later = b[0] > a[0]
    return jnp.where(later, b[0], a[0]), jnp.where(later, b[1], a[1])


def last_of_least(a, b):
    earlier = a[0] < b[0]
    return jnp.where(earlier, a[0], b[0]), jnp.where(earlier, a[1], b[1])


def unguarded_log_sum(a, b):
    m = jnp.maximum(a, b)
    return m + jnp.log(jnp.exp(a - m) + jnp.exp(b - m))


def proves(fn, identity, dtypes):
    leaves = [jax.ShapeDtypeStruct((3,), d) for d in dtypes]
    treedef = jax.tree.structure(0 if len(dtypes) == 1 else tuple(dtypes))
    given: tuple[Any, ...] = tuple(
        np.asarray(i, d)[()] for i, d in zip(identity, dtypes, strict=True)
    )
    traced = combine.trace(fn, leaves, treedef, 0, given)
    assert traced is not None
    return identities.is_proved(traced)


FLOAT, INT = np.float32, np.int32


@pytest.mark.parametrize(
    ("fn", "identity", "dtypes"),
    [
        (jnp.add, [0], [FLOAT]),
        (jnp.multiply, [1], [np.complex64]),
        (jnp.maximum, [-np.inf], [FLOAT]),
        (jnp.minimum, [np.iinfo(INT).max], [INT]),
        (jnp.logaddexp, [-np.inf], [FLOAT]),
        (jnp.bitwise_and, [-1], [INT]),
        (lambda _, b: b, [7], [FLOAT]),
        (last_write, [0], [INT]),
        (last_of_least, [np.iinfo(INT).max, -1], [INT, INT]),
        (lambda a, b: (b[0] * a[0], b[0] * a[1] + b[1]), [1, 0], [FLOAT, FLOAT]),
        (lambda a, b: (a[0] + b[0], jnp.maximum(a[1], a[0] + b[1])), [0, -np.inf], [FLOAT, FLOAT]),
    ],
)
def test_an_identity_is_proved_from_the_operator(fn, identity, dtypes):
    assert proves(fn, identity, dtypes)


@pytest.mark.parametrize(
    ("fn", "identity", "dtypes"),
    [
        (jnp.add, [5], [FLOAT]),
        (jnp.multiply, [0], [FLOAT]),
        (jnp.maximum, [0], [FLOAT]),
        (lambda a, _: a, [0], [FLOAT]),
        (lambda a, b: (a[0] | b[0], jnp.where(b[0], b[1], a[1])), [False, 0], [np.bool_, FLOAT]),
        (lambda a, b: a * b + a, [1], [FLOAT]),
        (last_write, [1], [INT]),
        # The least number may be an element, whose index this would lose.
        (first_of_greatest, [np.iinfo(INT).min, -1], [INT, INT]),
        (first_of_greatest, [-np.inf, -1], [FLOAT, INT]),
        # A weight of zero divides zero by zero.
        (welford, [0, 0, 0], [FLOAT, FLOAT, FLOAT]),
        # Of minus infinity NaN comes out.
        (unguarded_log_sum, [-np.inf], [FLOAT]),
        (lambda a, b: a + jax.lax.div(b * 2, jax.lax.full_like(b, 2)), [0], [INT]),
        (lambda a, b: jax.lax.reduce_precision(a + b, 5, 10), [0], [FLOAT]),
    ],
)
def test_what_is_no_identity_is_not_proved(fn, identity, dtypes):
    assert not proves(fn, identity, dtypes)


@pytest.mark.parametrize(("fn", "identity"), [(jnp.maximum, 0.0), (jnp.add, 5.0)])
def test_a_concrete_identity_that_is_none_is_named(fn, identity):
    with pytest.raises(
        ValueError, match=r"^jscan.associative_scan: identity must be an identity of fn"
    ):
        jscan.associative_scan(fn, X, exclusive=True, identity=identity)
    with pytest.raises(ValueError, match=r"^jscan.reduce: identity must be an identity of fn"):
        jscan.reduce(fn, X, identity=identity, segments=HEADS)


def test_an_identity_of_these_operands_alone_is_one():
    y = jscan.associative_scan(jnp.maximum, abs(X), exclusive=True, identity=0.0)
    np.testing.assert_array_equal(y, [0, 3, 3, 4, 4])


def ways(f, identity):
    """The same call with an identity that is concrete, traced, an array, and mapped."""
    yield jax.jit(lambda x: f(x, identity))(X)
    yield jax.jit(f)(X, identity)
    yield jax.jit(jax.vmap(f, (0, None)))(X[None], identity)[0]
    yield jax.jit(jax.vmap(f, (None, 0)))(X, jnp.array([identity]))[0]
    with primitives.interpreted():
        yield jax.jit(lambda x: f(x, identity))(X)


@pytest.mark.product
@pytest.mark.parametrize("segmented", [False, True])
@pytest.mark.parametrize("reverse", [False, True])
@pytest.mark.parametrize(("fn", "identity"), [(jnp.maximum, 0.0), (jnp.add, 5.0)])
def test_no_result_takes_in_what_is_no_identity(fn, identity, reverse, segmented):
    """Where nothing is known of the operands, all ways agree: it stands at starts alone."""
    heads = HEADS if segmented else None

    def f(x, identity):
        return jscan.associative_scan(
            fn, x, reverse, exclusive=True, identity=identity, segments=heads
        )

    found = np.asarray(jscan.associative_scan(fn, X, reverse, segments=heads))
    starts = np.array([True, False, segmented, False, False])
    if reverse:
        starts = np.array([False, segmented, False, False, True])
    expected = np.where(starts, identity, np.roll(found, -1 if reverse else 1))
    for actual in ways(f, identity):
        np.testing.assert_array_equal(actual, expected)


@pytest.mark.parametrize(("fn", "identity"), [(jnp.maximum, 0.0), (jnp.add, 5.0)])
def test_no_segment_takes_in_what_is_no_identity(fn, identity):
    def f(x, identity):
        return jscan.reduce(fn, x, identity=identity, segments=HEADS, num_segments=3)

    fold = np.max if fn is jnp.maximum else np.sum
    expected = [fold(X[:2]), fold(X[2:]), identity]
    for actual in ways(f, identity):
        np.testing.assert_array_equal(actual, expected)


def test_an_identity_that_no_result_holds_is_not_tried():
    y = jscan.associative_scan(jnp.maximum, -abs(X), identity=0.0)
    np.testing.assert_array_equal(y, [-3, -1, -1, -1, -1])
    assert jscan.reduce(jnp.maximum, -abs(X), identity=0.0) == -1


@pytest.mark.parametrize("method", ["block", "lookback"])
def test_kernels_take_an_identity_in_no_more_than_plain_jax(method):
    """What is not proved for every element does not reach a kernel: here one is minus infinity."""
    x = np.where(np.arange(300) % 7 == 0, -np.inf, np.arange(300) % 5)

    def f(method):
        return jscan.associative_scan(
            unguarded_log_sum, jnp.asarray(x), exclusive=True, identity=-np.inf, method=method
        )

    plain = jax.jit(lambda: f("xla"))()
    with primitives.interpreted():
        found = jax.jit(lambda: f(method))()
    np.testing.assert_array_equal(np.asarray(found)[:2], [-np.inf, -np.inf])
    np.testing.assert_array_equal(np.isnan(found), np.isnan(plain))


def test_a_segmented_reduction_by_an_identity_that_is_not_proved_is_one_reduction():
    def greatest(v, i):
        return jscan.reduce(
            first_of_greatest, (v, i), identity=(-np.inf, -1), segments=HEADS, num_segments=3
        )

    jaxpr = jax.make_jaxpr(greatest)(X, np.arange(5))
    assert [e.primitive.name for e in jaxpr.eqns if "jscan" in e.primitive.name] == ["jscan_reduce"]
    for interpreted in (False, True):
        with primitives.interpreted() if interpreted else contextlib.nullcontext():
            values, places = jax.jit(greatest)(X, np.arange(5))
        np.testing.assert_array_equal(values, [3, 4, -np.inf])
        np.testing.assert_array_equal(places, [0, 2, -1])
