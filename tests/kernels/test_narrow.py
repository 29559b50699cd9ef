"""Operators on narrow integers, which compute in words of 32 bits: the numbers of a loop."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax import lax

import jscan
from jscan import combine, primitives
from jscan.kernels import operator, tuning
from jscan.kernels.narrow import is_narrow

INTEGERS = ("int8", "uint8", "int16", "uint16")
TILE = tuning.Tuning(length=16, lanes=1, warps=1, window=4)


def _clipped(a: Any, b: Any) -> Any:
    return lax.clamp(jnp.zeros_like(a), a + b, jnp.full_like(a, 100))


def _halves(a: Any, b: Any) -> Any:
    return lax.shift_right_logical(a, jnp.full_like(a, 1)) + b


def _doubled(a: Any, b: Any) -> Any:
    return (a << 1) ^ (b * b)


def _by_floats(a: Any, b: Any) -> Any:
    return ((a + b).astype(jnp.float32) / 3).astype(a.dtype)


def _through_32(a: Any, b: Any) -> Any:
    return ((a + b).astype(jnp.int32) * 1000 >> 3).astype(a.dtype)


OPERATORS: dict[str, Callable[[Any, Any], Any]] = {
    "a + b + a b": lambda a, b: a + b + a * b,
    "a - b": lambda a, b: a - b,
    "-a b³": lambda a, b: -a * b**3,
    "not a, xor b": lambda a, b: ~a ^ b,
    "least of a sum": lambda a, b: jnp.minimum(a + b, 50),
    "greatest of a product, and more": lambda a, b: jnp.maximum(a * b, a) + b,
    "greatest size": lambda a, b: jnp.where(jnp.abs(b) >= jnp.abs(a), b, a),
    "last write": lambda a, b: jnp.where(b != 0, b, a),
    "equal sums": lambda a, b: jnp.where(a + b == b, a, b),
    "signs": lambda a, b: jnp.sign(a + b) * b,
    "remainder": lambda a, b: (a + b) % 7,
    "clipped": _clipped,
    "halves": _halves,
    "doubled": _doubled,
    "by floats": _by_floats,
    "through 32 bits": _through_32,
    "by a number": lambda a, b: lax.select_n(b.astype(jnp.int32) % 3, a, b, a + b),
}
"""They need not associate: in one tile they are applied as in a loop, if it has two elements."""


def values(dtype: str, n: int, seed: int = 0) -> np.ndarray:
    """Numbers of a dtype, the least and the greatest among them."""
    info = np.iinfo(dtype)
    rng = np.random.default_rng(seed)
    x = rng.integers(info.min, info.max, n, endpoint=True).astype(dtype)
    x[::5] = rng.choice([info.min, info.max, 0, 1], len(x[::5])).astype(dtype)
    return x


def prepared(fn: Callable[..., Any], *dtypes: str) -> jax.extend.core.ClosedJaxpr:
    """The operator as kernels have it."""
    elems = [jax.ShapeDtypeStruct((2,), jnp.dtype(d)) for d in dtypes]
    tree = jax.tree.structure(0 if len(elems) == 1 else elems)
    traced = combine.trace(fn, elems, tree, 0, None)
    assert traced is not None
    return operator.prepare(traced)


@pytest.mark.parametrize("dtype", ["int8", "uint16"])
@pytest.mark.parametrize("name", OPERATORS)
def test_two_elements_are_combined_as_in_their_own_dtype(name, dtype):
    """Every pair of many numbers, and the result once more with a third: low bits go on."""
    fn = OPERATORS[name]
    a, b, c = (values(dtype, 500, seed) for seed in range(3))
    run = prepared(fn, dtype)
    apply = jax.jit(jax.vmap(lambda *x: jax.extend.core.jaxpr_as_fun(run)(*x)))
    wide = run.out_avals[0].dtype
    assert wide.itemsize == 4
    [once] = apply(a.astype(wide), b.astype(wide))
    [twice] = apply(once, c.astype(wide))
    [other] = apply(c.astype(wide), once)
    alone = jax.jit(jax.vmap(fn))
    np.testing.assert_array_equal(np.asarray(once).astype(dtype), alone(a, b))
    np.testing.assert_array_equal(np.asarray(twice).astype(dtype), alone(alone(a, b), c))
    np.testing.assert_array_equal(np.asarray(other).astype(dtype), alone(c, alone(a, b)))


def _argmax(a: Any, b: Any) -> Any:
    later = b[0] > a[0]
    return jnp.where(later, b[0], a[0]), jnp.where(later, b[1], a[1])


def _sum_least_greatest(a: Any, b: Any) -> Any:
    return a[0] + b[0], jnp.minimum(a[1], b[1]), jnp.maximum(a[2], b[2])


def _own_segments(a: Any, b: Any) -> Any:
    return a[0] | b[0], jnp.where(b[0], b[1], a[1] + b[1])


def _affine(a: Any, b: Any) -> Any:
    return a[0] * b[0], b[0] * a[1] + b[1]


def _sum_and_its_number(a: Any, b: Any) -> Any:
    """The other leaf of the sum, not of the low bits that it is computed in."""
    total = a[0] + b[0]
    return total, total.astype(b[1].dtype)


MANY = {
    "argmax": (_argmax, ("int8", "int32")),
    "argmax in float32": (_argmax, ("uint16", "float32")),
    "sum, least, greatest": (_sum_least_greatest, ("int8", "int8", "int8")),
    "mixed": (_sum_least_greatest, ("uint8", "int16", "float32")),
    "own segments": (_own_segments, ("bool", "int8")),
    "affine": (_affine, ("int8", "int8")),
    "affine, unsigned": (_affine, ("uint16", "uint16")),
    "widened": (_sum_and_its_number, ("int8", "int16")),
    "widened, unsigned": (_sum_and_its_number, ("uint8", "int16")),
    "widened to unsigned": (_sum_and_its_number, ("int8", "uint16")),
}


def leaf(dtype: str, n: int, seed: int) -> np.ndarray:
    """Numbers of any dtype."""
    rng = np.random.default_rng(seed)
    if dtype == "bool":
        return rng.random(n) < 0.2
    return values(dtype, n, seed) if is_narrow(dtype) else rng.integers(-50, 50, n).astype(dtype)


def looped(fn: Callable[..., Any], leaves: list[np.ndarray], *, reverse: bool) -> list[np.ndarray]:
    """The inclusive scan of leaves, one element after another, in their own dtypes."""
    step = jax.jit(fn)
    order = range(len(leaves[0]))[:: -1 if reverse else 1]
    out = [x.copy() for x in leaves]
    for before, now in itertools.pairwise(order):
        found = step([x[before] for x in out], [x[now] for x in leaves])
        for x, y in zip(out, found, strict=True):
            assert y.dtype == x.dtype
            x[now] = y
    return out


@pytest.mark.product
@pytest.mark.parametrize("reverse", [False, True])
@pytest.mark.parametrize("name", MANY)
def test_scans_of_several_leaves_are_those_of_a_loop(name, reverse):
    fn, dtypes = MANY[name]
    leaves = [leaf(dtype, 150, seed) for seed, dtype in enumerate(dtypes)]
    with primitives.interpreted(), primitives.tiled(TILE):
        found = jscan.associative_scan(fn, leaves, reverse=reverse, method="lookback")
    for x, y in zip(found, looped(fn, leaves, reverse=reverse), strict=True):
        assert x.dtype == y.dtype
        np.testing.assert_array_equal(x, y)


@pytest.mark.product
@pytest.mark.parametrize("name", ["a + b + a b", "last write"])
@pytest.mark.parametrize("dtype", INTEGERS)
def test_segmented_scans_are_those_of_a_loop(name, dtype):
    fn, n = OPERATORS[name], 150
    x, heads = values(dtype, n), np.random.default_rng(1).random(n) < 0.1
    wanted = x.copy()
    alone = jax.jit(fn)
    for i in range(1, n):
        wanted[i] = x[i] if heads[i] else alone(wanted[i - 1], x[i])
    with primitives.interpreted(), primitives.tiled(TILE):
        found = jscan.associative_scan(fn, x, segments=heads, method="lookback")
    np.testing.assert_array_equal(found, wanted)


@pytest.mark.parametrize("fn", [jnp.bitwise_or, jnp.bitwise_and, jnp.bitwise_xor])
def test_bools_are_words_as_well(fn):
    x = np.random.default_rng(0).random(100) < 0.3
    with primitives.interpreted(), primitives.tiled(TILE):
        found = jscan.associative_scan(fn, x, method="lookback")
    assert found.dtype == bool
    np.testing.assert_array_equal(
        found, looped(lambda a, b: [fn(a[0], b[0])], [x], reverse=False)[0]
    )


@pytest.mark.parametrize("dtype", INTEGERS)
@pytest.mark.parametrize("name", ["a + b + a b", "a - b", "not a, xor b", "-a b³"])
def test_low_bits_are_not_cut(name, dtype):
    """No equation of such an operator has a narrow dtype."""
    run = prepared(OPERATORS[name], dtype)
    made = [v.aval.dtype for equation in run.jaxpr.eqns for v in equation.outvars]
    assert not any(map(is_narrow, made))


def test_an_operator_without_narrow_leaves_stays_as_it_is():
    run = prepared(OPERATORS["a + b + a b"], "int32")
    assert [e.primitive.name for e in run.jaxpr.eqns] == ["add", "mul", "add"]
