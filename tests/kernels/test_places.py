"""Operators on numbers that lie abreast in a word, against the same on each number."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax import lax

from jscan import combine
from jscan.combine import Combine
from jscan.kernels.places import identity, in_places, places
from tests.kernels.test_narrow import values

DTYPES = ("int8", "uint8", "int16", "uint16")


def _two(a: Any, b: Any) -> Any:
    return a[0] * b[0], b[0] * a[1] + b[1]


def _flagged(a: Any, b: Any) -> Any:
    return a[0] | b[0], jnp.where(b[0], b[1], a[1] + b[1])


def _answers(a: Any, b: Any) -> Any:
    """Masks that are combined, inverted, selected and turned to numbers."""
    less, same = a < b, a == b
    either = jnp.where(less ^ same, less | ~same, less & same)
    return jnp.where(either, a, b) + (a >= b).astype(a.dtype)


OPERATORS: dict[str, Callable[[Any, Any], Any]] = {
    "sum": lambda a, b: a + b,
    "difference": lambda a, b: a - b,
    "product": lambda a, b: a * b,
    "a + b + a b": lambda a, b: a + b + a * b,
    "-a b³": lambda a, b: -a * b**3,
    "square": lambda a, b: lax.square(a) + b,
    "greatest": jnp.maximum,
    "least": jnp.minimum,
    "clipped": lambda a, b: lax.clamp(jnp.full_like(a, 3), a + b, jnp.full_like(a, 100)),
    "bits": lambda a, b: (a & b) ^ (a | ~b),
    "last write": lambda a, b: jnp.where(b != 0, b, a),
    "greatest size": lambda a, b: jnp.where(jnp.abs(b) >= jnp.abs(a), b, a),
    "greater": lambda a, b: jnp.where(a > b, a - b, b - a),
    "at most": lambda a, b: jnp.where(a <= b, a, b + 1),
    "answers": _answers,
}


def traced(fn: Callable[..., Any], *dtypes: str) -> Combine:
    elems = [jax.ShapeDtypeStruct((2,), jnp.dtype(d)) for d in dtypes]
    tree = jax.tree.structure(0 if len(elems) == 1 else elems)
    found = combine.trace(fn, elems, tree, 0, None)
    assert found is not None
    return found


def applied(operator: Combine, *operands: np.ndarray[Any, Any]) -> list[np.ndarray[Any, Any]]:
    """What the operator on words makes of narrow numbers."""
    words = in_places(operator)
    assert words is not None
    assert all(a.dtype == np.int32 for a in (*words.in_avals, *words.out_avals))
    run = jax.jit(jax.vmap(lambda *x: jax.extend.core.jaxpr_as_fun(words)(*x)))
    found = run(*(x.view(np.int32) for x in operands))
    pairs = zip(found, operator.dtypes, strict=True)
    return [np.asarray(x).view(dtype) for x, dtype in pairs]


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("name", OPERATORS)
def test_numbers_of_a_word_do_not_meet(name, dtype):
    """Every pair of bytes, and many of two bytes: in each place what is alone in its own dtype."""
    fn = OPERATORS[name]
    if np.dtype(dtype).itemsize == 1:
        every = np.arange(256, dtype=np.uint8).view(dtype)
        a, b = np.tile(every, 256), np.repeat(every, 256)
    else:
        a, b = values(dtype, 2**16), values(dtype, 2**16, 1)
    [found] = applied(traced(fn, dtype), a, b)
    np.testing.assert_array_equal(found, jax.jit(jax.vmap(fn))(a, b))


def test_constants_that_overflow_say_nothing():
    """Of constants alone NumPy makes words, which may wrap."""
    operator = traced(lambda a, b: a + b - jnp.ones_like(a) * 2, "int8")
    with np.errstate(over="raise"):
        [found] = applied(operator, values("int8", 100), values("int8", 100, 1))
    wanted = values("int8", 100) + values("int8", 100, 1) - np.int8(2)
    np.testing.assert_array_equal(found, wanted)


@pytest.mark.parametrize("dtype", DTYPES)
def test_two_leaves(dtype):
    a, b, c, d = (values(dtype, 1000, seed) for seed in range(4))
    found = applied(traced(_two, dtype, dtype), a, b, c, d)
    for one, wanted in zip(found, _two((a, b), (c, d)), strict=True):
        np.testing.assert_array_equal(one, wanted)


def test_booleans_beside_bytes():
    rng = np.random.default_rng(0)
    f, g = (rng.random(1000) < 0.5 for _ in range(2))
    x, y = values("uint8", 1000), values("uint8", 1000, 1)
    flags, sums = applied(traced(_flagged, "bool", "uint8"), f, x, g, y)
    np.testing.assert_array_equal(flags, f | g)
    np.testing.assert_array_equal(sums, np.where(g, y, x + y))


@pytest.mark.parametrize(
    "fn",
    [
        lambda a, b: a // 2 + b,
        lambda a, b: lax.shift_right_logical(a, jnp.full_like(a, 1)) + b,
        lambda a, b: (a.astype(jnp.int32) + b.astype(jnp.int32)).astype(a.dtype),
        lambda a, b: a + jnp.sqrt(b.astype(jnp.float32)).astype(a.dtype),
        lambda a, b: a**7 + b,
        lambda a, b: lax.select_n(jnp.where(b > 0, 1, 0), a, b),
    ],
)
def test_what_has_no_places(fn):
    """Divisions, shifts, other widths and high powers are left to single numbers."""
    assert in_places(traced(fn, "int8")) is None


def test_leaves_that_do_not_lie_abreast():
    assert places([np.dtype("int8"), np.dtype("bool")]) is not None
    for dtypes in (["int8", "int16"], ["int32"], ["float16"], ["int8", "float16"]):
        assert places([np.dtype(d) for d in dtypes]) is None


@pytest.mark.parametrize(("dtype", "number"), [("int8", -3), ("uint8", 255), ("int16", -1)])
def test_an_identity_is_in_every_place(dtype, number):
    operator, scalar = traced(lambda a, b: a + b, dtype), np.dtype(dtype).type(number)
    assert identity(operator) is None
    found = identity(dataclasses.replace(operator, identity=(scalar,)))
    assert found is not None
    [word] = found
    assert set(np.atleast_1d(word).view(dtype)) == {scalar}
