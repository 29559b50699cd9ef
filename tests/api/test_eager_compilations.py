"""What calls outside of ``jit`` compile, by the operator, its numbers, identities and segments."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax import lax

import jscan
from jscan import Segments, operators, templates
from jscan.combine import trace_open
from tests.transformations.test_transformations import assert_compilations

X = np.random.default_rng(0).integers(1, 9, 50)


class Kind(NamedTuple):
    """How an operator comes to its number."""

    name: str
    make: Callable[[Any], Any]


def of_cell(k):
    return lambda a, b: a + b + k * a * b


def of_list(k):
    numbers = [k]
    return lambda a, b: a + b + numbers[0] * a * b


def of_default(k):
    return lambda a, b, k=k: a + b + k * a * b


def of_helper(k):
    def inner(x, y):
        return k * x * y

    return lambda a, b: a + b + inner(a, b)


def of_pair(k):
    pair = (k, 1.0)
    return lambda a, b: a + b + pair[0] * a * b


def of_jnp(k):
    return lambda a, b: jnp.add(jnp.add(a, b), lax.mul(jnp.multiply(k, a), b))


def of_partial(k):
    return functools.partial(lambda k, a, b: a + b + k * a * b, k)


KINDS = [Kind(f.__name__, f) for f in (of_cell, of_default, of_helper, of_pair, of_jnp, of_partial)]
NUMBERS = {
    "float": float,
    "float32": np.float32,
    "array": lambda k: jnp.asarray(k, jnp.float32),
}


@pytest.fixture
def _standard():
    with jax.enable_x64(False), jax.numpy_dtype_promotion("standard"):
        yield


@pytest.mark.usefixtures("_standard")
@pytest.mark.parametrize("number", NUMBERS.values(), ids=NUMBERS)
@pytest.mark.parametrize("kind", KINDS, ids=lambda kind: kind.name)
def test_another_number_compiles_nothing(kind, number):
    x = jnp.asarray(X / 100, jnp.float32)

    def scan(k):
        return jscan.associative_scan(kind.make(number(k)), x)

    numbers = [number(k) for k in (0.5, 0.25, 0.125)]
    scan(0.75).block_until_ready()
    with assert_compilations(0):
        found = [jscan.associative_scan(kind.make(k), x) for k in numbers]
    for k, y in zip((0.5, 0.25, 0.125), found, strict=True):
        expected = lax.associative_scan(of_cell(k), x)
        np.testing.assert_allclose(y, expected, rtol=1e-6)


def test_an_operator_is_traced_once(monkeypatch):
    traced = []

    def counted(*arguments, **keywords):
        traced.append(arguments[0])
        return trace_open(*arguments, **keywords)

    monkeypatch.setattr(templates, "trace_open", counted)
    x = jnp.arange(37)
    for k in (2, 3, 4):
        jscan.associative_scan(of_cell(k), x)
        if k == 2:
            assert len(traced) == 2  # with the number, and with a tracer
            traced.clear()
    assert not traced
    for k in (2, 3, 4):
        jscan.associative_scan(of_list(k), x)
        assert len(traced) == k - 1


def test_no_trace_is_kept():
    x = jnp.arange(1, 39)
    with jax.checking_leaks():
        jscan.associative_scan(of_cell(2), x)
    with assert_compilations(0):
        jscan.associative_scan(of_cell(3), x)


@pytest.mark.parametrize("form", ["scan", "exclusive", "reduce", "segments"])
def test_another_identity_compiles_nothing(form):
    """Identities that only these elements have, hence tried and not proved."""
    x = jnp.asarray(X)

    def run(identity):
        if form == "scan":
            return jscan.associative_scan(jnp.maximum, x, identity=identity)
        if form == "exclusive":
            return jscan.associative_scan(jnp.maximum, x, exclusive=True, identity=identity)
        segments = Segments.from_lengths([20, 0, 30]) if form == "segments" else None
        return jscan.reduce(jnp.maximum, x, identity=identity, segments=segments)

    run(0).block_until_ready()
    with assert_compilations(0):
        found = [np.asarray(run(-k)) for k in (1, 2, 3)]
    for k, y in zip((1, 2, 3), found, strict=True):
        expected = np.maximum.accumulate(X)
        if form == "exclusive":
            expected = np.append(-k, expected[:-1])
        if form == "reduce":
            expected = X.max()
        if form == "segments":
            expected = np.array([X[:20].max(), -k, X[20:].max()])
        np.testing.assert_array_equal(y, expected)


def test_a_wrong_identity_is_found_each_time():
    x = jnp.asarray(X)
    for _ in range(2):
        for identity in (1, 5):
            with pytest.raises(ValueError, match=f"identity is {identity}, it is not"):
                jscan.associative_scan(jnp.add, x, exclusive=True, identity=identity)
        y = jscan.associative_scan(jnp.add, x, exclusive=True, identity=0)
        np.testing.assert_array_equal(y, np.cumsum(X) - X)


def test_segments_of_any_number_compile_nothing():
    x = jnp.asarray(X)
    jscan.cumsum(x, segments=Segments.from_lengths([25, 25])).block_until_ready()
    with assert_compilations(0):
        for count in (1, 3, 7, 49):
            lengths = [50 - count, *[1] * count]
            for segments in (
                Segments.from_lengths(lengths),
                Segments.from_lengths(np.array(lengths), 50),
                Segments.from_offsets(np.append(0, np.cumsum(lengths))),
                Segments.from_ids(np.repeat(np.arange(count + 1), lengths)),
            ):
                sums = jscan.cumsum(x, segments=segments)
                parts = np.split(X, np.cumsum(lengths)[:-1])
                np.testing.assert_array_equal(sums, np.concatenate([np.cumsum(p) for p in parts]))
                assert segments.ids.tolist() == np.repeat(np.arange(count + 1), lengths).tolist()
                assert segments.lengths().tolist() == lengths
                assert segments.offsets().tolist() == np.append(0, np.cumsum(lengths)).tolist()


def test_a_reduction_compiles_once_for_a_number_of_segments():
    x = jnp.asarray(X)
    with assert_compilations(2):
        for lengths in ([10, 40], [20, 30], [50, 0], [10, 10, 30], [0, 50, 0]):
            totals = jscan.reduce(operators.add, x, segments=Segments.from_lengths(lengths))
            parts = np.split(X, np.cumsum(lengths)[:-1])
            np.testing.assert_array_equal(totals, [p.sum() for p in parts])
