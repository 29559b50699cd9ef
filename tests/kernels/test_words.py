"""Rows that begin inside of memory's words, in every strategy, against a loop in NumPy."""

from __future__ import annotations

from typing import Any, TypeAlias

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import jscan
from jscan import primitives
from jscan.kernels import launch, tuning
from jscan.kernels.layout import Geometry
from tests import reference
from tests.cases import head_flags
from tests.engines import Engine, by_kernel, every_strategy
from tests.functions import affine

Array: TypeAlias = np.ndarray[Any, np.dtype[Any]]

SHORT = tuning.Tuning(length=16, lanes=1, warps=1, window=4, strip=16)
both_ways = pytest.mark.parametrize("reverse", [False, True])


def sums(x: Array, heads: Array, *, reverse: bool) -> Array:
    """Sums along the rows, one element at a time."""
    found, carry = np.empty_like(x), np.zeros_like(x[:, 0])
    n = x.shape[1]
    for t in range(n - 1, -1, -1) if reverse else range(n):
        if not reverse:
            carry = np.where(heads[:, t], 0, carry).astype(x.dtype)
        carry = (carry + x[:, t]).astype(x.dtype)
        found[:, t] = carry
        if reverse:
            carry = np.where(heads[:, t], 0, carry).astype(x.dtype)
    return found


def run(strategy: Engine, call: Any, *operands: Array) -> Any:
    """The results of a call that takes a method, with short tiles but for whole rows."""
    tile = None if strategy.method == "block" else SHORT
    with strategy.active(), primitives.tiled(tile):
        found = jax.jit(lambda *x: call(*x, strategy.method))(*operands)
    return jax.tree.map(np.asarray, found)


@pytest.mark.sweep
@pytest.mark.parametrize("segmented", [False, True])
@pytest.mark.parametrize("dtype", ["float32", "int8", "uint16", "float16"])
@pytest.mark.parametrize("shape", [(5, 33), (3, 7), (1, 61), (2, 47), (9, 17)])
@both_ways
@every_strategy
def test_sums(strategy, reverse, shape, dtype, segmented):
    rng = np.random.default_rng(shape[1])
    x = rng.integers(0, 3, shape).astype(dtype)
    heads = np.array(head_flags(shape, share=0.1)) if segmented else np.zeros(shape, bool)

    def call(x: jax.Array, heads: jax.Array, method: str) -> jax.Array:
        segments = heads if segmented else None
        return jscan.cumsum(x, axis=1, reverse=reverse, segments=segments, method=method)

    reference.assert_equal(run(strategy, call, x, heads), sums(x, heads, reverse=reverse))


@both_ways
@every_strategy
def test_what_no_identity_stands_before(strategy, reverse):
    """The first slope of a row may be infinite, and an operator may have no identity."""
    rng = np.random.default_rng(0)
    a, b = (rng.integers(-1, 2, (4, 35)).astype(np.float32) for _ in range(2))
    a[:, -1 if reverse else 0] = np.inf

    def call(a: jax.Array, b: jax.Array, method: str) -> Any:
        how: dict[str, Any] = {"axis": 1, "reverse": reverse, "method": method}
        return jscan.linear_recurrence(a, b, **how), jscan.associative_scan(_newest, b, **how)

    found, newest = run(strategy, call, a, b)
    y = np.zeros((4,), np.float32)
    for t in range(34, -1, -1) if reverse else range(35):
        first = t == (34 if reverse else 0)
        y = b[:, t] if first else a[:, t] * y + b[:, t]
        reference.assert_equal(found[:, t], y)
    reference.assert_equal(newest, b)


def _newest(_: jax.Array, x: jax.Array) -> jax.Array:
    return x


@both_ways
@every_strategy
def test_negative_zeros_and_logarithms(strategy, reverse):
    x = np.full((3, 21), -0.0, np.float32)

    def call(x: jax.Array, method: str) -> Any:
        how: dict[str, Any] = {"axis": 1, "reverse": reverse, "method": method}
        return jscan.cumsum(x, **how), jscan.cumlogsumexp(x, **how)

    zeros, logs = run(strategy, call, x)
    reference.assert_equal(zeros, np.zeros_like(x))
    if strategy.gpu:  # interpreted, sums begin with zero
        assert np.signbit(zeros).all()
    counts = np.arange(21, 0, -1) if reverse else np.arange(1, 22)
    np.testing.assert_allclose(logs, np.broadcast_to(np.log(counts), x.shape), rtol=2e-6, atol=1e-7)


STARTED: dict[str, tuple[Any, Any, tuple[float, ...], tuple[float, ...]]] = {
    # in JAX and in NumPy, its identity, and a start
    "sum": (jnp.add, np.add, (0,), (5,)),
    "product": (jnp.multiply, np.multiply, (1,), (2,)),
    "maximum": (jnp.maximum, np.maximum, (-np.inf,), (-5,)),
    "logaddexp": (jnp.logaddexp, np.logaddexp, (-np.inf,), (5,)),
    "affine": (affine, affine, (1, 0), (-1, 3)),
}


@pytest.mark.sweep
@both_ways
@pytest.mark.parametrize("exclusive", [False, True])
@pytest.mark.parametrize(
    ("shape", "dtype"), [((1, 37), "float32"), ((3, 37), "bfloat16"), ((2, 35), "float16")]
)
@pytest.mark.parametrize("name", [*STARTED])
@every_strategy
def test_starts(strategy, name, shape, dtype, exclusive, reverse):
    """In front of a row stands what leaves its start as it is, and zero does only for sums."""
    fn, in_numpy, identity, start = STARTED[name]
    rng, dtype = np.random.default_rng(shape[1]), jnp.dtype(dtype)
    leaves = [rng.choice([-1, 1], shape).astype(dtype) for _ in start]

    def packed(x: Any) -> Any:
        return tuple(x) if len(start) > 1 else x[0]

    def call(*leaves_and_method: Any) -> Any:
        *leaves, method = leaves_and_method
        return jscan.associative_scan(
            fn, packed(leaves), identity=packed([np.float32(i) for i in identity]),
            init=packed([jnp.float32(s) for s in start]), axis=1, reverse=reverse,
            exclusive=exclusive, method=method,
        )  # fmt: skip

    found = jax.tree.leaves(run(strategy, call, *leaves))
    carry = [np.full(shape[:1], s, np.float64) for s in start]
    for t in range(shape[1])[:: -1 if reverse else 1]:
        x = [leaf[:, t].astype(np.float64) for leaf in leaves]
        after = jax.tree.leaves(in_numpy(packed(carry), packed(x)))
        for actual, expected in zip(found, carry if exclusive else after, strict=True):
            # All but logarithms are whole numbers that the dtypes hold.
            rtol = float(jnp.finfo(dtype).eps) if name == "logaddexp" else 0
            np.testing.assert_allclose(actual[:, t].astype(np.float64), expected, rtol=4 * rtol)
        carry = after


@every_strategy
def test_rows_that_share_flags_or_values(strategy):
    """An operand of one row begins with a word whatever row it is read for."""
    rng = np.random.default_rng(1)
    x, shared = rng.integers(0, 5, (6, 27)).astype(np.int32), np.arange(27, dtype=np.int32)
    heads = np.array(head_flags((27,), share=0.2))

    def call(x: jax.Array, shared: jax.Array, heads: jax.Array, method: str) -> Any:
        def row(x: jax.Array) -> Any:
            sums = jscan.cumsum(x, segments=heads, method=method)
            pair = jscan.associative_scan(_added, (x, shared), method=method)
            return sums, pair

        return jax.vmap(row)(x)

    found, (left, right) = run(strategy, call, x, shared, heads)
    reference.assert_equal(found, sums(x, np.broadcast_to(heads, x.shape), reverse=False))
    reference.assert_equal(left, np.cumsum(x, 1, dtype=np.int32))
    reference.assert_equal(right, np.broadcast_to(np.cumsum(shared, dtype=np.int32), x.shape))


def _added(x: Any, y: Any) -> Any:
    return x[0] + y[0], x[1] + y[1]


def test_words_are_taken_where_rows_begin_inside_of_them():
    rows = Geometry(4, 33, 1, 1, 16, 1, reverse=False, exclusive=False)
    assert rows.by_words(4, 16).word == 4
    assert rows.by_words(4, 16).tiles == 3
    assert Geometry(4, 32, 1, 1, 16, 1, reverse=False, exclusive=False).by_words(4, 16).word == 1
    lanes = Geometry(4, 33, 2, 1, 16, 2, reverse=False, exclusive=False)
    assert lanes.by_words(4, 16).word == 1
    assert rows.by_words(4, 2).word == 1
    short = Geometry(9, 3, 1, 1, 16, 1, reverse=False, exclusive=False)
    assert short.by_words(4, 16).word == 1
    # A row that fills its tile stays in it.
    whole = Geometry(4, 15, 1, 2, 16, 1, reverse=False, exclusive=False)
    assert whole.by_words(4, 16).word == 1


@pytest.mark.parametrize(
    ("shape", "dtype", "tile"),
    [
        ((5, 301), "int8", tuning.Tuning(64, 1, 1, 32, strip=64)),  # a row's last tile may be empty
        ((5, 301), "float32", tuning.Tuning(128, 1, 1, 32, strip=32)),
        ((40, 19), "int8", None),
        ((3, 127), "int16", tuning.Tuning(64, 1, 1, 32, strip=32)),
        ((9, 65), "complex64", tuning.Tuning(16, 1, 1, 32, strip=16)),
        ((16, 49), "uint8", tuning.Tuning(32, 1, 1, 32, strip=16)),
    ],
)
@by_kernel
def test_reductions(strategy, shape, dtype, tile, monkeypatch):
    """In order: the last value that is not zero."""
    monkeypatch.setattr(tuning, "suits_words_of", lambda _: True)
    x = (np.random.default_rng(2).integers(0, 3, shape) * (1 + np.arange(shape[1]) % 50)).astype(
        dtype
    )
    zero = np.zeros((), dtype)

    def last(a: jax.Array, b: jax.Array) -> jax.Array:
        return jnp.where(b != zero, b, a)

    with strategy.active(), primitives.tiled(tile):
        found = jax.jit(lambda x: jscan.reduce(last, x, axis=1, identity=zero))(x)
    wanted = [next((v for v in row[::-1] if v != 0), zero) for row in x]
    reference.assert_equal(np.asarray(found), np.array(wanted, dtype))


def test_what_rows_share_is_not_reduced_by_words(monkeypatch):
    """Reads in front of a row would be in front of the array."""
    monkeypatch.setattr(tuning, "suits_words_of", lambda _: True)
    cuts: list[launch.Cut] = []
    cut = launch.Cut.__init__

    def recorded(self: launch.Cut, *arguments: Any, **named: Any) -> None:
        cut(self, *arguments, **named)
        cuts.append(self)

    monkeypatch.setattr(launch.Cut, "__init__", recorded)
    rng = np.random.default_rng(4)
    one, each = rng.choice([-1, 1], 301), rng.integers(-2, 3, (3, 301))
    tile = tuning.Tuning(64, 1, 1, 32, strip=32)

    def call(x: jax.Array) -> Any:
        neutral = (np.int32(1), np.int32(0))
        return jscan.reduce(affine, (jnp.asarray(one, jnp.int32), x), axis=0, identity=neutral)

    with primitives.interpreted(), primitives.tiled(tile):
        found = jax.vmap(call)(jnp.asarray(each, jnp.int32))
    state = np.zeros(3, np.int32)
    for a, b in zip(one, each.T, strict=True):
        state = (a * state + b).astype(np.int32)
    reference.assert_equal(np.asarray(found[1]), state)
    assert cuts
    assert all(one.geometry.word == 1 for one in cuts)


def test_who_reduces_by_words():
    long: dict[str, Any] = {"segmented": False, "equations": 3}
    assert tuning.suits_words_of(tuning.Shape(7, 5003, 1, 1, 1, **long))
    assert not tuning.suits_words_of(tuning.Shape(7, 2001, 1, 2, 1, **long))
    assert not tuning.suits_words_of(tuning.Shape(1, 5003, 1, 1, 1, **long))
    assert not tuning.suits_words_of(tuning.Shape(7, 5003, 1, 8, 1, **long))
