"""Operators of the user outside of ``jit``: what is compiled for them, and nothing is stale."""

from __future__ import annotations

import functools
import math
import types
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax import lax

import jscan
from jscan import operators
from jscan.written import written
from tests.api.test_eager_compilations import Kind, of_cell

X = np.random.default_rng(0).integers(1, 9, 50)
SCALE: Any = 2
SETTINGS: Any = types.ModuleType("settings")
SETTINGS.scale = 2


def loop(fn, x=X):
    """The scan as a loop in NumPy, the operator called anew at each element."""
    y = [np.asarray(x[0])]
    for value in x[1:]:
        y.append(np.asarray(fn(jnp.asarray(y[-1]), jnp.asarray(value))))
    return np.stack(y)


def check(fn, x=X):
    """The scan outside of ``jit`` against the loop."""
    np.testing.assert_array_equal(jscan.associative_scan(fn, jnp.asarray(x)), loop(fn, x))


# what counts as the same operator


def join(a, b):
    return a + b + SCALE * a * b


def test_a_changed_global(monkeypatch):
    for scale in (2, 3, np.int64(4), jnp.int64(7), 5):
        monkeypatch.setitem(globals(), "SCALE", scale)
        check(join)
        check(lambda a, b: join(a, b))
        check(functools.partial(join))


def test_a_global_that_becomes_a_function_or_a_module(monkeypatch):
    def fn(a, b):
        return SCALE.minimum(a, b) if isinstance(SCALE, types.ModuleType) else SCALE(a, b)

    for scale in (jnp.minimum, jnp.maximum, operators.add, max_of, jnp):
        monkeypatch.setitem(globals(), "SCALE", scale)
        check(fn)


def max_of(a, b):
    return jnp.maximum(a, b)


def test_a_changed_attribute_of_a_module(monkeypatch):
    def fn(a, b):
        return a + b + SETTINGS.scale * a * b

    for scale in (2, 3, 4):
        monkeypatch.setattr(SETTINGS, "scale", scale)
        check(fn)


def test_a_changed_function_of_a_library(monkeypatch):
    def fn(a, b):
        return jnp.maximum(a, b)

    check(fn)
    monkeypatch.setattr(jnp, "maximum", jnp.minimum)
    check(fn)
    np.testing.assert_array_equal(
        jscan.associative_scan(fn, jnp.asarray(X)), np.minimum.accumulate(X)
    )


def test_a_wrapped_function_in_the_place_of_one_of_a_library(monkeypatch):
    factors = [1]
    wrapped = jnp.maximum

    @functools.wraps(wrapped)
    def maximum(a, b):
        return factors[0] * wrapped(a, b)

    monkeypatch.setattr(jnp, "maximum", maximum)
    for factor in (1, 0):
        factors[0] = factor
        check(lambda a, b: jnp.maximum(a, b))


def test_a_tracer_that_is_left_in_a_closure():
    left = []

    @jax.jit
    def leak(k):
        left.append(lambda a, b: a + b + k * a * b)
        return k

    leak(2)
    for function in (jscan.associative_scan, jscan.reduce):
        with pytest.raises(jax.errors.UnexpectedTracerError):
            function(left[0], jnp.asarray(X))


def test_a_changed_cell():
    k: Any = 2

    def fn(a, b):
        return a + b + k * a * b

    def bind(number):
        nonlocal k
        k = number

    for number in (2, 3, np.int64(5), 7):
        bind(number)
        check(fn)


def test_a_changed_default():
    def fn(a, b, k=2, *, j=1):
        return j * (a + b) + k * a * b if j == 1 else a + b * 0

    check(fn)
    fn.__defaults__ = (3,)
    check(fn)
    fn.__kwdefaults__ = {"j": 1}
    check(fn)


def test_a_changed_body():
    def fn(a, b):
        return a + b

    def other(a, b):
        return jnp.maximum(a, b)

    check(fn)
    fn.__code__ = other.__code__
    check(fn)


def test_a_mutated_list_and_dict():
    for held in ([2], {0: 2}):

        def fn(a, b, held=held):
            return a + b + held[0] * a * b

        for k in (2, 3, 4):
            held[0] = k
            check(fn)


def test_an_array_that_is_written_to():
    scalar, vector = np.array(2), np.array([2])
    for k in (2, 3, 4):
        scalar[...] = k
        vector[...] = k
        check(lambda a, b: a + b + scalar * a * b)
        check(lambda a, b: a + b + vector[0] * a * b)


def test_attributes_of_objects_classes_and_functions():
    class Held:
        k = 2

        def __init__(self):
            self.j = 1

        def __call__(self, a, b):
            return self.j * (a + b) + self.k * a * b

        def method(self, a, b):
            return self(a, b)

    def plain(a, b):
        return a + b + helper.k * a * b

    helper: Any = plain

    held = Held()

    def by_attribute(a, b):
        return a + b + held.k * a * b

    def by_class(a, b):
        return a + b + Held.k * a * b

    def by_alias(a, b):
        again = helper
        return a + b + again.k * a * b

    for k in (2, 3, 4):
        Held.k = helper.k = k
        for fn in (held, held.method, by_attribute, by_class, helper, by_alias):
            check(fn)
    held.k = 9
    for fn in (held, held.method, by_attribute):
        check(fn)


def test_a_counter_counts():
    calls = 0

    def fn(a, b):
        nonlocal calls
        calls += 1
        return a + b

    check(fn)
    before = calls
    jscan.associative_scan(fn, jnp.asarray(X))
    assert calls > before


def test_random_numbers_are_drawn_again():
    drawn = np.random.default_rng(0)

    def fn(a, b):
        return a + b + drawn.normal() * a * b

    first, second = (jscan.associative_scan(fn, jnp.asarray(X / 10)) for _ in range(2))
    assert (np.asarray(first) != np.asarray(second)).any()


def test_a_number_that_decides_what_is_computed():
    x = X / 10.0

    def branches(k):
        return lambda a, b: a + b + k * a * b if k > 0 else jnp.maximum(a, b)

    def asks_for_the_type(k):
        return lambda a, b: a + b if isinstance(k, float) else a * b

    def raises(k):
        return lambda a, b: (a**k + b**k) ** (1 / k)

    def compares(k):
        return lambda a, b: jnp.maximum(a, b) if k == "max" else jnp.minimum(a, b)

    cases: list[tuple[Any, list[Any]]] = [
        (branches, [0.5, -0.5, 2.0, 0.25]),
        (asks_for_the_type, [1, 2.0, np.float32(1), 2]),
        (raises, [1, 3, 5]),
        (compares, ["max", "min", "max"]),
    ]
    for make, numbers in cases:
        for k in numbers:
            check_near(make(k), x)


def check_near(fn, x):
    found = jscan.associative_scan(fn, jnp.asarray(x))
    np.testing.assert_allclose(found, jax.jit(lambda x: lax.associative_scan(fn, x))(x), rtol=1e-6)


def test_numbers_are_computed_with_as_python_does():
    """A sum that is lost in 32 bits, and a product that would wrap there."""

    def lost(k):
        return lambda a, b: a + b + ((1 + k) - 1) * a * b

    def wraps(k):
        return lambda a, b: (a + b) % (k * k % 1009)

    with jax.enable_x64(False):
        x = jnp.ones(5, jnp.float32)
        for k in (1e-9, 2e-9, 3e-9):
            found = jscan.associative_scan(lost(k), x)
            slope = np.float32((1 + k) - 1)
            np.testing.assert_allclose(found[1], np.float32(2) + slope, rtol=1e-7)
        y = jnp.arange(1, 6)
        for j in (65_537, 65_539):
            found = jscan.associative_scan(wraps(j), y)
            np.testing.assert_array_equal(found, np.cumsum(y) % (j * j % 1009))


def test_integers_that_do_not_fit_are_cut_down_as_jax_does():
    x = jnp.arange(5, dtype=jnp.int8)
    for k in (3, 5, 300, 2**31 + 7, 7):
        with jax.numpy_dtype_promotion("standard"):
            found = jscan.associative_scan(of_cell(k), x)
            expected = lax.associative_scan(of_cell(k), x)
        np.testing.assert_array_equal(found, expected)


def test_settings_of_jax_are_part_of_the_key():
    x = jnp.ones(5, jnp.float32)

    def fn(a, b):
        return a + b + np.float64(0.5) * a * b

    with jax.numpy_dtype_promotion("standard"), pytest.raises(TypeError, match="float64"):
        jscan.associative_scan(fn, x)
    with jax.enable_x64(False), jax.numpy_dtype_promotion("standard"):
        jscan.associative_scan(fn, x)
    with jax.numpy_dtype_promotion("strict"), pytest.raises(ValueError, match="promotion"):
        jscan.associative_scan(fn, x)


# what is described

DESCRIBED = {
    "a lambda": lambda a, b: a + b,
    "of jnp": jnp.add,
    "of lax": lax.add,
    "reads jnp": lambda a, b: jnp.maximum(a, b),
    "reads math": lambda a, b: a * math.pi + b,
    "reads a function": lambda a, b: max_of(a, b),
    "jitted": jax.jit(lambda a, b: a + b),
    "partial": functools.partial(max_of),
    "makes a function": lambda a, b: (lambda x: x + b)(a),
    "comprehension": lambda a, b: tuple(x + y for x, y in zip(a, b, strict=True)),
    "dtype": lambda a, b: a + jnp.float32(1) * b.astype(jnp.int32),
}
HELD: list[int] = [1]
NOT_DESCRIBED = {
    "reads a list": lambda a, b: a + HELD[0] * b,
    "prints": lambda a, b: (print(a), a + b)[1],
    "reads a class": lambda a, b: Kind(a, b),
    "reads np.random": lambda a, b: a + np.random.default_rng() * b,
    "evaluates": lambda a, b: eval("x + y", {"x": a, "y": b}),
    "an object": types.SimpleNamespace(k=1),
    "reads an array": lambda a, b: a + X * b,
    "a method": Kind("", len)._asdict,
    "of NumPy": np.frompyfunc(lambda a, b: a + b, 2, 1),
    "missing": lambda a, b: a + missing * b,  # type: ignore[name-defined]  # noqa: F821
}


@pytest.mark.parametrize("fn", DESCRIBED.values(), ids=DESCRIBED)
def test_described(fn):
    found = written(fn)
    assert found is not None
    assert found == written(fn)


@pytest.mark.parametrize("fn", NOT_DESCRIBED.values(), ids=NOT_DESCRIBED)
def test_not_described(fn):
    assert written(fn) is None


def test_functions_that_write_or_recur_are_not_described():
    def writes(a, b):
        global SCALE
        SCALE = 5
        return a + b

    def recurs(a, b):
        return recurs(b, a)

    def imports(a, b):
        import random

        return a + b * random.random()

    assert [written(fn) for fn in (writes, recurs, imports)] == [None] * 3
