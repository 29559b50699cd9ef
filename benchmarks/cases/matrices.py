"""Sparse matrices in compressed rows, made on the device: stencils, elements, uneven rows.

Entries are whole numbers from -8 to 8 and vectors of -1, 0 and 1, so that the products of every row
are exact in float32 in any order.
"""

from __future__ import annotations

import jax
import jax.numpy as jnp

from benchmarks.cases import inputs
from benchmarks.cases.inputs import Arrays, draw


def stencil(dimensions: int, side: int, width: int = 0) -> Arrays:
    """Each place of a torus and its neighbours along every dimension: rows of one length."""
    rows = jnp.arange(side**dimensions, dtype=jnp.int32)
    before, after = [], []
    for dimension in range(dimensions):
        stride = side**dimension
        place = rows // stride % side
        before.append(rows + ((place - 1) % side - place) * stride)
        after.append(rows + ((place + 1) % side - place) * stride)
    columns = jnp.stack([*reversed(before), rows, *after], 1)
    offsets = jnp.arange(rows.size + 1, dtype=jnp.int32) * columns.shape[1]
    return _matrix(columns.ravel(), offsets, rows.size, width)


def elements(rows: int, entries: int, width: int = 0) -> Arrays:
    """Rows of different lengths, whose columns are triples near the diagonal.

    So are those of finite elements with three unknowns at each node.
    """
    mean = entries // rows
    row = jnp.arange(rows + 1, dtype=jnp.int32)
    is_end = (row == 0) | (row == rows)
    uneven = jnp.where(is_end, 0, draw(31, row.shape, max(2 * mean // 3, 1)))
    offsets = row * mean + row * (entries % rows) // rows + uneven
    numbers, places = _rows_and_places(offsets, entries)
    node = numbers // 3 + 7 * (places // 3 - mean // 6)
    return _matrix((3 * node + places % 3) % rows, offsets, rows, width)


def skewed(entries: int, rows: int, width: int = 0) -> Arrays:
    """Rows whose lengths are as 1, 1/2, 1/3 and so on, in random order; columns at random."""
    (ids,) = inputs.zipf(entries, rows)
    offsets = jnp.searchsorted(ids, jnp.arange(rows + 1, dtype=jnp.int32)).astype(jnp.int32)
    return _matrix(draw(32, (entries,), rows), offsets, rows, width)


def one_dense(rows: int, width: int = 0) -> Arrays:
    """Rows of four entries at random, but for one in the middle that has an entry everywhere."""
    row, middle = jnp.arange(rows + 1, dtype=jnp.int32), rows // 2
    offsets = 4 * row + jnp.where(row > middle, rows - 4, 0)
    places = jnp.arange(5 * rows - 4, dtype=jnp.int32) - 4 * middle
    is_dense = (places >= 0) & (places < rows)
    return _matrix(jnp.where(is_dense, places, draw(33, places.shape, rows)), offsets, rows, width)


def with_empty_rows(rows: int, length: int, width: int = 0) -> Arrays:
    """Rows of one length at random, of which every other one is empty."""
    offsets = (jnp.arange(rows + 1, dtype=jnp.int32) + 1) // 2 * length
    return _matrix(draw(34, ((rows + 1) // 2 * length,), rows), offsets, rows, width)


def _matrix(columns: jax.Array, offsets: jax.Array, count: int, width: int) -> Arrays:
    """Entries, columns, offsets, and a dense operand: a vector, or so many of them."""
    entries = draw(35, columns.shape, 17) - 8
    dense = draw(36, (count, width) if width else (count,), 3) - 1
    return entries.astype(jnp.float32), columns, offsets, dense.astype(jnp.float32)


def _rows_and_places(offsets: jax.Array, entries: int) -> tuple[jax.Array, jax.Array]:
    """The row of each entry, and its place in that row."""
    rows = jnp.arange(offsets.size - 1, dtype=jnp.int32)
    numbers = jnp.repeat(rows, jnp.diff(offsets), total_repeat_length=entries)
    return numbers, jnp.arange(entries, dtype=jnp.int32) - offsets[numbers]
