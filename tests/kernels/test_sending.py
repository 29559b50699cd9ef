"""Marked elements that are sent by bits, against NumPy: few of a tile, many, or both in turn."""

from __future__ import annotations

import functools
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import jscan
from jscan import primitives
from jscan.kernels import ranking, tuning
from jscan.kernels.ranks import Ranking
from tests.engines import by_kernel

TILE = tuning.Tuning(length=512, lanes=1, warps=1, window=4, strip=128)
"""Marks that are bytes are 32 groups in such a tile."""


def _mask(n: int, shares: list[float]) -> np.ndarray:
    """Marks of which a share of its own is set in each part."""
    rng = np.random.default_rng(n)
    return rng.random(n) < np.repeat(shares, -(-n // len(shares)))[:n]


@pytest.mark.parametrize(
    ("n", "shares", "size"),
    [
        (1536, [0.02], 1536),  # whole tiles, most of what is written fills
        (1337, [0.0, 0.9, 0.01], 700),
        (1339, [0.3, 0.0, 1 / 16], 1000),  # few in the last tile, which ends inside of a word
        (1337, [0.9, 0.02], 300),  # nothing is wanted of the last tiles
        pytest.param(1036, [0.1], 2000, marks=pytest.mark.thorough),
        pytest.param(1337, [0.0], 40, marks=pytest.mark.thorough),
        pytest.param(1337, [1.0], 1337, marks=pytest.mark.thorough),
    ],
)
@by_kernel
def test_places_and_elements(strategy, n, shares, size):
    mask, x = _mask(n, shares), np.arange(n, dtype=np.float32)
    mask[-2:] = shares[-1] > 0  # among the last three, which are no word
    places = np.flatnonzero(mask)[:size]
    filled = np.concatenate([places, np.full(size - len(places), -3)])
    with strategy.active(), primitives.tiled(TILE):
        [found] = jscan.nonzero(jnp.asarray(mask), size=size, fill_value=-3)
        packed = jscan.pack(jnp.asarray(x), jnp.asarray(mask), size=size, fill_value=-3)
    np.testing.assert_array_equal(found, filled)
    np.testing.assert_array_equal(jax.tree.leaves(packed)[0], filled)


@pytest.mark.parametrize(
    ("dtype", "n", "shares", "size"),
    [
        ("int32", 1337, [0.02, 0.8], 900),
        ("float16", 1536, [0.05], 60),
        ("int8", 1337, [0.05, 0.4], 1337),
        pytest.param("float64", 1536, [0.05, 0.8], 1000, marks=pytest.mark.gpu),
    ],
)
@by_kernel
def test_runs(strategy, dtype, n, shares, size):
    changes = _mask(n, shares)
    changes[0] = True
    values = (np.cumsum(changes) % 100).astype(dtype)
    first = np.flatnonzero(changes)
    fill = np.zeros(max(size - len(first), 0), dtype)
    with strategy.active(), primitives.tiled(TILE), jax.enable_x64(dtype == "float64"):
        unique, count = jscan.unique_sorted(jnp.asarray(values), size=size)
        heads, lengths, runs = jscan.run_length_encode(jnp.asarray(values), size=size)
    expected = np.concatenate([values[first][:size], fill])
    np.testing.assert_array_equal(unique, expected)
    np.testing.assert_array_equal(heads, expected)
    each = np.diff(np.append(first, n))[:size]
    np.testing.assert_array_equal(lengths, np.append(each, np.zeros(size - len(each), np.int32)))
    assert count == runs == len(first)


@pytest.mark.parametrize("rows", [(2, 1040), (3, 1043)])
@by_kernel
def test_rows(strategy, rows):
    rng = np.random.default_rng(0)
    mask = np.where(rng.random(rows) < 0.05, rng.integers(-128, 128, rows), 0).astype(np.int8)
    x = np.arange(mask.size, dtype=np.int16).reshape(rows)
    with strategy.active(), primitives.tiled(TILE):
        packed = jax.vmap(functools.partial(jscan.pack, size=90, fill_value=-1))(
            jnp.asarray(x), jnp.asarray(mask)
        )
    for row, marks, values in zip(x, mask, jax.tree.leaves(packed)[0], strict=True):
        kept = row[marks != 0][:90]
        np.testing.assert_array_equal(values, np.append(kept, np.full(90 - len(kept), -1)))


@by_kernel
def test_lanes_that_share_marks_are_not_sent_so(strategy):
    mask = np.random.default_rng(0).random(1337) < 0.05
    x = np.arange(3 * 1337, dtype=np.float32).reshape(1337, 3)
    pack = functools.partial(jscan.pack, size=90, fill_value=-1)
    with strategy.active(), primitives.tiled(TILE):
        packed = jax.vmap(pack, in_axes=(1, None))(jnp.asarray(x), jnp.asarray(mask))
    for lane, values in zip(x.T, jax.tree.leaves(packed)[0], strict=True):
        kept = lane[mask][:90]
        np.testing.assert_array_equal(values, np.append(kept, np.full(90 - len(kept), -1)))


def test_what_is_sent_by_bits(monkeypatch):
    """Marks of bytes and of runs are held as bits, whether few of a tile are marked or not."""
    seen = []
    bits = Ranking.bits

    def listening(*given: Any) -> jax.Array:
        seen.append(True)
        return bits(*given)

    monkeypatch.setattr(Ranking, "bits", listening)
    how: dict[str, Any] = {"axis": 0, "size": 99, "fill": 0, "counted": False, "tile": TILE}
    for marks, source in ((jnp.zeros(2048, bool), "mask"), (jnp.zeros(2048, jnp.int32), "runs")):
        ranking.rank(
            marks, None, source=source, emit="places", reverse=False, interpret=True, **how
        )
        assert seen.pop()
        assert not seen
