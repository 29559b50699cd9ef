"""The functions that are built of scans, as one writes them in plain JAX without jscan.

Those that take more than arrays take it first, as in `benchmarks.cases.operations`.
"""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
from jax import lax
from jax.experimental import sparse

from benchmarks.cases.operations import changes, jnp_offsets_to_ids

Leaves = tuple[jax.Array, ...]
Pair = tuple[jax.Array, jax.Array]


def bcsr(values: jax.Array, indices: jax.Array, offsets: jax.Array, x: jax.Array) -> Any:
    """The product by jax.experimental.sparse.BCSR."""
    shape = (offsets.size - 1, x.shape[0])
    return sparse.BCSR((values, indices, offsets), shape=shape) @ x


def gathered(values: jax.Array, indices: jax.Array, offsets: jax.Array, x: jax.Array) -> jax.Array:
    """The product by indexing, and a sum by sorted ids."""
    ids = jnp_offsets_to_ids(indices.size, offsets)
    entries = values.reshape(values.shape + (1,) * (x.ndim - 1))
    made = entries * x[indices]
    return jax.ops.segment_sum(made, ids, offsets.size - 1, indices_are_sorted=True)


def gathered_maxima(
    values: jax.Array, indices: jax.Array, offsets: jax.Array, x: jax.Array
) -> jax.Array:
    """The same over maxima of sums."""
    ids = jnp_offsets_to_ids(indices.size, offsets)
    made = values + x[indices]
    return jax.ops.segment_max(made, ids, offsets.size - 1, indices_are_sorted=True)


def scattered(
    columns: int, values: jax.Array, indices: jax.Array, offsets: jax.Array, x: jax.Array
) -> jax.Array:
    """The product of the transposed matrix by indexing and a scatter."""
    made = values * x[jnp_offsets_to_ids(indices.size, offsets)]
    return jnp.zeros(columns, values.dtype).at[indices].add(made)


def eliminated(dl: jax.Array, d: jax.Array, du: jax.Array, b: jax.Array) -> jax.Array:
    """Systems along the last axis by jax.lax.linalg.tridiagonal_solve."""
    first, last = (jnp.arange(d.shape[-1]) == end for end in (0, d.shape[-1] - 1))
    below, above = jnp.where(first, 0, dl), jnp.where(last, 0, du)
    return lax.linalg.tridiagonal_solve(below, d, above, b[..., None])[..., 0]


def by_a_loop(dl: jax.Array, d: jax.Array, du: jax.Array, b: jax.Array) -> jax.Array:
    """The same by elimination row after row, in two loops."""

    def down(carry: Pair, row: Leaves) -> tuple[Pair, Pair]:
        above, right = carry
        below, middle, here, mine = row
        pivot = middle - below * above
        found = here / pivot, (mine - below * right) / pivot
        return found, found

    def up(x: jax.Array, row: Pair) -> Pair:
        above, right = row
        x = right - above * x
        return x, x

    rows = tuple(jnp.moveaxis(z, -1, 0) for z in (dl, d, du, b))
    zero = jnp.zeros_like(rows[0][0])
    _, factors = lax.scan(down, (zero, zero), rows)
    return jnp.moveaxis(lax.scan(up, zero, factors, reverse=True)[1], 0, -1)


def nonzero(size: int, mask: jax.Array) -> Leaves:
    """The true places by jnp.nonzero."""
    return jnp.nonzero(mask, size=size)


def scattered_places(size: int, mask: jax.Array) -> Leaves:
    """The true places of a row, counted and scattered."""
    place = jnp.where(mask, jnp.cumsum(mask) - 1, size)
    here = jnp.arange(mask.size, dtype=jnp.int32)
    return (jnp.zeros(size, jnp.int32).at[place].set(here, mode="drop", unique_indices=True),)


def scattered_pack(size: int, x: jax.Array, mask: jax.Array) -> jax.Array:
    """The true elements, counted and scattered."""
    place = jnp.where(mask, jnp.cumsum(mask) - 1, size)
    return jnp.zeros(size, x.dtype).at[place].set(x, mode="drop", unique_indices=True)


def scattered_split(x: jax.Array, mask: jax.Array) -> jax.Array:
    """The false elements and then the true ones, counted and scattered."""
    true, here = jnp.cumsum(mask), jnp.arange(mask.size)
    place = jnp.where(mask, mask.size - true[-1] + true - 1, here - true)
    return jnp.zeros_like(x).at[place].set(x, unique_indices=True)


def encoded(size: int, x: jax.Array) -> tuple[jax.Array, jax.Array, jax.Array]:
    """Runs by jnp.nonzero of where they begin."""
    heads = changes(x)
    (begins,) = jnp.nonzero(heads, size=size + 1, fill_value=x.size)
    values = x.at[begins[:-1]].get(mode="fill", fill_value=0)
    return values, jnp.diff(begins), jnp.sum(heads)


def encoded_by_scatters(size: int, x: jax.Array) -> tuple[jax.Array, jax.Array, jax.Array]:
    """Runs by the number of each element's run."""
    ids = jnp.cumsum(changes(x)) - 1
    values = jnp.zeros(size, x.dtype).at[ids].set(x, mode="drop", indices_are_sorted=True)
    lengths = jnp.zeros(size, jnp.int32).at[ids].add(1, mode="drop", indices_are_sorted=True)
    return values, lengths, ids[-1] + 1


def decoded(n: int, values: jax.Array, lengths: jax.Array) -> jax.Array:
    """Runs written out by jnp.repeat."""
    return jnp.repeat(values, lengths, total_repeat_length=n)


def unique(size: int, x: jax.Array) -> Pair:
    """The different elements by jnp.unique, which sorts."""
    return jnp.unique(x, size=size, fill_value=0), jnp.sum(changes(x))


def unique_neighbours(size: int, x: jax.Array) -> Pair:
    """The different elements of what is sorted, by jnp.nonzero."""
    values, _, count = encoded(size, x)
    return values, count


def bincount(length: int, keys: jax.Array) -> jax.Array:
    """How often there is each key, by jnp.bincount."""
    return jnp.bincount(keys, length=length)


def sorted_counts(length: int, keys: jax.Array) -> jax.Array:
    """How often there is each key, where it ends among the sorted ones."""
    ends = jnp.searchsorted(lax.sort(keys), jnp.arange(length, dtype=keys.dtype), side="right")
    return jnp.diff(ends, prepend=0)


def parted(x: jax.Array, signs: jax.Array) -> Pair:
    """Three parts by a stable jnp.argsort of the signs."""
    return x[jnp.argsort(signs, stable=True)], _lengths(signs)


def parted_by_scatter(x: jax.Array, signs: jax.Array) -> Pair:
    """Three parts, each counted, and one scatter."""
    lengths = _lengths(signs)
    low, same = signs < 0, signs == 0
    down, level = jnp.cumsum(low), jnp.cumsum(same)
    here = jnp.arange(signs.size)
    up = here - down - level
    high = lengths[0] + lengths[1] + up
    place = jnp.where(low, down - 1, jnp.where(same, lengths[0] + level - 1, high))
    return jnp.zeros_like(x).at[place].set(x, unique_indices=True), lengths


def _lengths(signs: jax.Array) -> jax.Array:
    return jnp.stack([jnp.sum(part) for part in (signs < 0, signs == 0, signs > 0)])


def _total(count: int, x: jax.Array, ids: jax.Array) -> jax.Array:
    return jax.ops.segment_sum(x, ids, count, indices_are_sorted=True)


def _greatest(count: int, x: jax.Array, ids: jax.Array) -> jax.Array:
    return jax.ops.segment_max(x, ids, count, indices_are_sorted=True)


def segment_mean(count: int, x: jax.Array, ids: jax.Array) -> jax.Array:
    """Sums by lengths."""
    lengths = _total(count, jnp.ones(ids.shape, x.dtype), ids)
    return _total(count, x, ids) / jnp.maximum(lengths, 1)


def segment_norm(count: int, x: jax.Array, ids: jax.Array) -> jax.Array:
    """Roots of sums of squares."""
    return jnp.sqrt(_total(count, x * x, ids))


def segment_logsumexp(count: int, x: jax.Array, ids: jax.Array) -> jax.Array:
    """By the largest element of each segment."""
    largest = _greatest(count, x, ids)
    return jnp.log(_total(count, jnp.exp(x - largest[ids]), ids)) + largest


def segment_softmax(count: int, x: jax.Array, ids: jax.Array) -> jax.Array:
    """By the largest element of each segment."""
    terms = jnp.exp(x - _greatest(count, x, ids)[ids])
    return terms / _total(count, terms, ids)[ids]


def segment_argmax(count: int, x: jax.Array, ids: jax.Array) -> jax.Array:
    """The first place of the largest element."""
    here = jnp.arange(x.size, dtype=jnp.int32)
    places = jnp.where(x == _greatest(count, x, ids)[ids], here, x.size)
    first = jax.ops.segment_min(places, ids, count, indices_are_sorted=True)
    return jnp.where(first < x.size, first, -1)


def segment_sort(x: jax.Array, ids: jax.Array) -> jax.Array:
    """By one sort of ids and elements."""
    return lax.sort((ids, x), num_keys=2)[1]


def segment_top_k(count: int, k: int, x: jax.Array, ids: jax.Array) -> Leaves:
    """By one sort of ids, negated elements and places, of which the first of each are taken."""
    here = jnp.arange(x.size, dtype=jnp.int32)
    _, _, order = lax.sort((ids, -x, here), num_keys=2, is_stable=True)
    bounds = jnp.searchsorted(ids, jnp.arange(count + 1, dtype=ids.dtype))
    wanted = bounds[:-1, None] + jnp.arange(k)
    there = wanted < bounds[1:, None]
    places = jnp.where(there, order.at[wanted].get(mode="clip"), -1)
    return jnp.where(there, x[places], -jnp.inf), places
