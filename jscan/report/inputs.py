"""What the checks and the speeds are made of: numbers, segments, sparse matrices."""

from __future__ import annotations

from typing import Any

import numpy as np

from jscan.report.loops import Array

LONG = 10_007
"""The length of an axis of several tiles, the last of which is not full."""

SHORT = 203
COUNT = 40
"""How many segments ids are of; some have no element, and some ids are of none."""


def small(dtype: Any, *shape: int, seed: int = 0) -> Array:
    """Small integers in a dtype, whose sums are exact; some of them negative, where any can be."""
    rng = np.random.default_rng(seed)
    least = 0 if np.issubdtype(dtype, np.unsignedinteger) else -3
    values = rng.integers(least, 5, shape)
    if np.issubdtype(dtype, np.complexfloating):
        return (values + 1j * rng.integers(least, 5, shape)).astype(dtype)
    return values.astype(dtype)


def signs(n: int) -> Array:
    """float32 numbers whose products are 1 or 2, or their negatives."""
    sizes = np.where(np.arange(n) % 2, 0.5, 2.0)
    return (sizes * np.random.default_rng(1).choice([-1.0, 1.0], n)).astype(np.float32)


def normal(*shape: int, seed: int = 2) -> Array:
    """Normal float32 numbers."""
    return np.random.default_rng(seed).normal(size=shape).astype(np.float32)


def slopes(*shape: int) -> Array:
    """float32 numbers below 0.9 in size, by which a recurrence forgets."""
    return np.random.default_rng(4).uniform(-0.9, 0.9, shape).astype(np.float32)


def heads(n: int) -> Array:
    """Head flags of segments, some of one element and some of hundreds."""
    flags = np.random.default_rng(3).random(n) < 0.01
    flags[n // 2 : n // 2 + 3] = True
    return flags


def ids(n: int) -> Array:
    """Ids in any order: two segments are empty, and some elements are of none."""
    found = np.random.default_rng(5).integers(-1, COUNT - 1, n)
    return np.where(found == 7, 8, found).astype(np.int32)


def sorted_ids(n: int) -> Array:
    """The same ids in ascending order."""
    return np.sort(ids(n))


def rows_of_a_matrix(rows: int, columns: int) -> tuple[Array, Array, Array]:
    """Values, columns and offsets of a sparse matrix in compressed rows, some of them empty."""
    rng = np.random.default_rng(6)
    lengths = rng.integers(0, 6, rows) * (rng.random(rows) < 0.9)
    offsets = np.concatenate([[0], np.cumsum(lengths)]).astype(np.int32)
    indices = rng.integers(0, columns, offsets[-1]).astype(np.int32)
    return small(np.float32, int(offsets[-1]), seed=7), indices, offsets
