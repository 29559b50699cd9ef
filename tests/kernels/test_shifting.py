"""Scans of narrow elements that read one place beside, in both directions, against a loop."""

from __future__ import annotations

from typing import Any, TypeAlias

import jax
import numpy as np
import pytest

import jscan
from jscan import primitives
from jscan.kernels import tuning
from tests import reference
from tests.cases import head_flags
from tests.engines import Engine

Array: TypeAlias = np.ndarray[Any, np.dtype[Any]]

TILE = tuning.Tuning(length=512, lanes=1, warps=1, window=4, strip=512)
HELD = tuning.Tuning(length=1024, lanes=1, warps=1, window=4, held=512)
ENGINES = [
    Engine("lookback-interpreted", "lookback", (), interpreted=True),
    Engine("reduce_then_scan-interpreted", "reduce_then_scan", (), interpreted=True),
    Engine("block-interpreted", "block", (), interpreted=True),
    *(Engine(f"{name}-gpu", name, (), gpu=True) for name in ("lookback", "block")),
]
every_engine = pytest.mark.parametrize(
    "strategy",
    [pytest.param(e, id=e.name, marks=[pytest.mark.gpu] if e.gpu else []) for e in ENGINES],
)
both_ways = pytest.mark.parametrize("reverse", [False, True])
exclusive_or_not = pytest.mark.parametrize("exclusive", [False, True])


def sums(x: Array, heads: Array | None, *, reverse: bool, exclusive: bool) -> Array:
    """Sums along the rows, one element at a time."""
    found, carry = np.empty_like(x), np.zeros_like(x[:, 0])
    n = x.shape[1]
    for t in range(n - 1, -1, -1) if reverse else range(n):
        if heads is not None:
            begins = heads[:, t] if not reverse else heads[:, t + 1] if t + 1 < n else heads[:, 0]
            if not reverse or t + 1 < n:
                carry = np.where(begins, 0, carry).astype(x.dtype)
        before, carry = carry, (carry + x[:, t]).astype(x.dtype)
        found[:, t] = before if exclusive else carry
    return found


def run(strategy: Engine, tile: tuning.Tuning, call: Any, *operands: Array) -> Any:
    """The results of a call that takes a method, by tiles of a thread's words and more."""
    cut = None if strategy.method == "block" else tile
    with strategy.active(), primitives.tiled(cut):
        found = jax.jit(lambda *x: call(*x, strategy.method))(*operands)
    return jax.tree.map(np.asarray, found)


@pytest.mark.parametrize("segmented", [False, True])
@pytest.mark.parametrize("dtype", ["int8", "int16"])
@pytest.mark.parametrize("shape", [(1, 2581), (2, 1616), (2, 1010)])
@exclusive_or_not
@both_ways
@every_engine
def test_sums(strategy, reverse, exclusive, shape, dtype, segmented):
    rng = np.random.default_rng(shape[1])
    x = (rng.random(shape) < 0.03).astype(dtype)
    heads = np.array(head_flags(shape, share=0.02)) if segmented else None

    def call(x: jax.Array, method: str) -> jax.Array:
        how: dict[str, Any] = {"axis": 1, "reverse": reverse, "exclusive": exclusive}
        return jscan.cumsum(x, segments=heads, method=method, **how)

    expected = sums(x, heads, reverse=reverse, exclusive=exclusive)
    reference.assert_equal(run(strategy, TILE, call, x), expected)


@pytest.mark.sweep
@pytest.mark.parametrize("dtype", ["uint8", "float16", "float32"])
@pytest.mark.parametrize("n", [4112, 4098, 4101])
@exclusive_or_not
@both_ways
def test_held_tiles(reverse, exclusive, n, dtype):
    x = (np.random.default_rng(n).random((1, n)) < 0.03).astype(dtype)

    def call(x: jax.Array, method: str) -> jax.Array:
        how: dict[str, Any] = {"axis": 1, "reverse": reverse, "exclusive": exclusive}
        return jscan.cumsum(x, method=method, **how)

    expected = sums(x, None, reverse=reverse, exclusive=exclusive)
    reference.assert_equal(run(ENGINES[0], HELD, call, x), expected)


@pytest.mark.parametrize("segmented", [False, True])
@pytest.mark.parametrize("n", [2560, 2581])
@both_ways
@every_engine
def test_recurrences_from_a_start(strategy, reverse, n, segmented):
    rng = np.random.default_rng(n)
    a, b = (rng.integers(-1, 2, (2, n)).astype(np.float16) for _ in range(2))
    start = np.array([3, -2], np.float16)
    heads = np.array(head_flags((2, n), share=0.02)) if segmented else None
    if heads is not None:
        heads[:, 0] = False

    def call(a: jax.Array, b: jax.Array, start: jax.Array, method: str) -> Any:
        how: dict[str, Any] = {"axis": 1, "reverse": reverse, "segments": heads}
        return jscan.linear_recurrence(a, b, h0=start, method=method, **how)

    y, carry = np.empty_like(a), start
    for t in range(n - 1, -1, -1) if reverse else range(n):
        fresh = np.zeros(2, bool)
        if heads is not None and (t + 1 < n if reverse else True):
            fresh = heads[:, t + 1] if reverse else heads[:, t]
        carry = np.where(fresh, b[:, t], (a[:, t] * carry + b[:, t])).astype(np.float16)
        y[:, t] = carry
    reference.assert_equal(run(strategy, TILE, call, a, b, start), y)
