"""The segment of each position by the kernel that seeks bounds, or counts them, against NumPy."""

from __future__ import annotations

import jax
import numpy as np
import pytest

import jscan
from jscan import primitives, ranks
from jscan.kernels import locating, tuning
from jscan.segments import Segments
from tests.engines import by_kernel

LENGTH = locating.LENGTH
STRIPS = tuning.Tuning(length=512, lanes=1, warps=1, window=4, strip=128)


def bounds_of(n: int, count: int, *, crowded: bool = False) -> np.ndarray:
    """Bounds of so many segments, of which half begin at one place if they are ``crowded``."""
    places = np.random.default_rng([n, count]).integers(0, n + 1, count)
    if crowded:
        places[count // 2 :] = n // 2
    places[0] = 0
    return np.sort(places).astype(np.int32)


def searched(bounds: np.ndarray, n: int) -> np.ndarray:
    """The last of the bounds at or before each position."""
    return np.searchsorted(bounds, np.arange(n), side="right") - 1


def located(bounds: np.ndarray, n: int) -> np.ndarray:
    """The same by the engine that runs."""
    return np.asarray(jax.jit(lambda given: ranks.locate(given, n=n, emit="ids"))(bounds))


cases = pytest.mark.parametrize(
    ("n", "count", "crowded"),
    [
        (LENGTH, 3, False),  # bisected in every tile
        (LENGTH, 5, False),
        (5 * LENGTH - 3, 300, False),  # counted
        (5 * LENGTH - 3, 5 * LENGTH, False),  # in several chunks
        (3 * LENGTH + 1, 9 * LENGTH, True),  # bisected where most segments are empty
        (200, 199, False),  # in a tile that ends behind its row
    ],
)


@by_kernel
@cases
def test_segments_of_positions(n, count, crowded, strategy):
    bounds = bounds_of(n, count, crowded=crowded)
    with strategy.active():
        np.testing.assert_array_equal(located(bounds, n), searched(bounds, n))


@by_kernel
def test_rows_have_bounds_of_their_own(strategy):
    n = 2 * LENGTH + 7
    bounds = np.stack([bounds_of(n + row, 400) for row in range(3)]).clip(0, n)
    with strategy.active():
        expected = np.stack([searched(row, n) for row in bounds])
        np.testing.assert_array_equal(located(bounds, n), expected)


def test_bounds_of_segments_of_128_are_not_counted():
    """The last of 2^20 + 1 bounds is the end."""
    assert locating.are_sparse(2**20 + 1, 2**27)
    assert not locating.are_sparse(2**20 + 2, 2**27)


@by_kernel
def test_bounds_that_fall_count_nowhere_else(strategy):
    n = 2 * LENGTH
    bounds = bounds_of(n, 500)
    bounds[200:300] = bounds[200:300][::-1]
    bounds[400] = 2**30
    with strategy.active():
        found = located(bounds, n)
    assert ((found >= 0) & (found < bounds.size)).all()


@by_kernel
@pytest.mark.parametrize("share", [0.5, 0.1, 0.02, 0.004])
def test_sums_by_offsets_in_strips(share, strategy):
    n = 2000
    count = max(2, int(share * n))
    offsets = np.append(bounds_of(n, count), n).astype(np.int32)
    x = np.random.default_rng(count).integers(-9, 9, n).astype(np.int32)
    expected = np.zeros(count, np.int32)
    np.add.at(expected, searched(offsets[:-1], n), x)
    with strategy.active(), primitives.tiled(STRIPS):

        def sums(x: jax.Array, offsets: jax.Array) -> jax.Array:
            return jscan.reduce(jscan.operators.add, x, segments=Segments.from_offsets(offsets, n))

        found = jax.jit(sums)(x, offsets)
    np.testing.assert_array_equal(found, expected)


@by_kernel
@pytest.mark.parametrize("count", [1, 4])
def test_the_only_element_is_in_its_segment(count, strategy):
    """Segments before it are empty."""
    offsets = np.array([*[0] * count, 1, 1], np.int32)
    expected = np.zeros(count + 1, np.int32)
    expected[count - 1] = 7

    def sums(x: jax.Array, offsets: jax.Array) -> jax.Array:
        return jscan.reduce(jscan.operators.add, x, segments=Segments.from_offsets(offsets, 1))

    x = np.array([7], np.int32)
    with strategy.active():
        found = jax.jit(sums)(x, offsets)
        rows = jax.jit(jax.vmap(sums, (0, None)))(np.stack([x, x]), offsets)
        columns, dense = np.array([1], np.int32), np.array([0, 1, 9], np.int32)
        product = jax.jit(jscan.csr_matvec)(x, columns, offsets, dense)
    np.testing.assert_array_equal(found, expected)
    np.testing.assert_array_equal(rows, [expected, expected])
    np.testing.assert_array_equal(product, expected)
