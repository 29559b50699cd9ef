"""Orders in which the vector operations take elements: counts, places, and where to take from."""

from __future__ import annotations

from collections.abc import Sequence

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

from jscan import dispatch, operators, primitives, ranks
from jscan.heads import as_bool, before, is_first


def count_before(mask: jax.Array, flags: jax.Array, *, axis: int, reverse: bool) -> jax.Array:
    """The number of true elements before each one in its segment.

    The scan adds int32 and reads the mask as it is: nothing is widened in memory.
    """
    counting = dispatch.combine_once(operators.add, (np.dtype(np.int32),))
    [count] = primitives.scan(
        [mask],
        flags,
        combine=counting,
        axis=axis,
        reverse=reverse,
        exclusive=True,
        method="auto",
    )
    return count


def in_one_shape(
    mask: jax.Array, flags: jax.Array, shape: tuple[int, ...], axis: int
) -> tuple[jax.Array, jax.Array, int]:
    """A mask and flags of one rank, and their axis: one row where both are, else all of ``shape``.

    Flags keep size 1 in the dimensions that share them.
    """
    n = shape[axis]
    if mask.ndim == 1 and flags.size == n:
        return mask, flags.reshape(n), 0
    if mask.ndim == 1:
        mask = lax.expand_dims(mask, [d for d in range(len(shape)) if d != axis])
    return jnp.broadcast_to(mask, shape), flags, axis


def split_order(mask: jax.Array, flags: jax.Array, axis: int) -> jax.Array:
    """The place from which each element of the split segments comes.

    A true element moves behind the false ones that follow it in its segment, a false one before the
    true ones that precede it.
    """
    true_before = count_before(mask, flags, axis=axis, reverse=False)
    false_behind = count_before(~mask, flags, axis=axis, reverse=True)
    element = lax.broadcasted_iota(jnp.int32, mask.shape, axis)
    return inverse(jnp.where(mask, element + false_behind, element - true_before), axis)


def split_heads(flags: jax.Array, moved: jax.Array, axis: int) -> jax.Array:
    """Head flags of the split segments: the old ones, and where the true elements begin.

    ``moved`` is the mask in the order of the split segments.
    """
    change = moved & ~before(moved, axis=axis)
    first = is_first(moved, axis=axis)
    return as_bool(flags) | first | change


def parted(
    leaves: Sequence[jax.Array], signs: jax.Array, axis: int
) -> tuple[list[jax.Array], jax.Array]:
    """The elements whose sign is negative, then those of sign zero, then the positive ones.

    And how many there are of each, along the axis. Leaves of the signs' shape are moved, and others
    are taken in the order of their one row.
    """
    along = axis if signs.ndim > 1 else 0
    zero = lax.full_like(signs, 0)
    negative = jnp.sum(lax.lt(signs, zero), along, keepdims=True, dtype=jnp.int32)
    positive = jnp.sum(lax.gt(signs, zero), along, keepdims=True, dtype=jnp.int32)
    third = np.int32(signs.shape[along]) - positive
    lengths = lax.concatenate([negative, third - negative, positive], along)
    if signs.shape[along] < 2:
        return [*leaves], lengths

    def moved(x: jax.Array) -> jax.Array:
        return ranks.part(x, signs, negative, third, axis=along)

    order = None
    if any(leaf.shape != signs.shape for leaf in leaves):
        order = moved(lax.broadcasted_iota(jnp.int32, signs.shape, along))
    return [
        moved(leaf) if leaf.shape == signs.shape or order is None else take(leaf, order, axis)
        for leaf in leaves
    ], lengths


def packed(
    rows: Sequence[jax.Array], mask: jax.Array, fills: Sequence[jax.Array], size: int
) -> list[jax.Array]:
    """The rows of each array where the mask is true, then what fills the rest.

    Rows of one element are moved, and longer ones are taken from where they are.
    """
    places = None
    if any(x.ndim > 1 for x in rows):
        places = ranks.rank(mask, axis=0, emit="places", size=size)
    return [
        ranks.move(x, mask, fill, axis=0, size=size)
        if x.ndim == 1 or places is None
        else take_marked(x, places, fill)
        for x, fill in zip(rows, fills, strict=True)
    ]


def split(leaves: Sequence[jax.Array], mask: jax.Array, axis: int) -> list[jax.Array]:
    """The elements where the mask is false, then those where it is true.

    Leaves of the mask's shape are moved, and others are taken in the order of its one row.
    """
    order = None
    if any(leaf.shape != mask.shape for leaf in leaves):
        order = ranks.rank(mask, axis=0, emit="order")
    return [
        ranks.move(leaf, mask, axis=axis)
        if leaf.shape == mask.shape or order is None
        else take(leaf, order, axis)
        for leaf in leaves
    ]


def take(x: jax.Array, order: jax.Array, axis: int) -> jax.Array:
    """``x`` in an order, which is a permutation of the axis or of each of its rows."""
    if order.ndim == 1:
        moved = jnp.moveaxis(x, axis, 0)
        taken = moved.at[order].get(mode="promise_in_bounds", unique_indices=True)
        return jnp.moveaxis(taken, 0, axis)
    return jnp.take_along_axis(x, order, axis, mode="promise_in_bounds")


def take_marked(rows: jax.Array, places: jax.Array, fill: jax.Array) -> jax.Array:
    """The rows at places that ascend, and ``fill`` where a place is behind the last row."""
    n = rows.shape[0]
    if n == 0:
        return jnp.full((places.shape[0], *rows.shape[1:]), fill)
    inside = jnp.minimum(places, n - 1)
    taken = rows.at[inside].get(mode="promise_in_bounds", indices_are_sorted=True)
    there = lax.expand_dims(places < n, range(1, rows.ndim))
    return jnp.where(jnp.broadcast_to(there, taken.shape), taken, fill)


def inverse(place: jax.Array, axis: int) -> jax.Array:
    """The permutation along an axis that undoes ``place``."""

    def inverse_of_row(place: jax.Array) -> jax.Array:
        element = lax.iota(jnp.int32, place.shape[0])
        into = jnp.zeros_like(place)
        return into.at[place].set(element, mode="promise_in_bounds", unique_indices=True)

    if place.ndim == 1:
        return inverse_of_row(place)
    if place.size == 0:
        return place
    rows = jnp.moveaxis(place, axis, -1)
    flat = jax.vmap(inverse_of_row)(rows.reshape(-1, rows.shape[-1]))
    return jnp.moveaxis(flat.reshape(rows.shape), -1, axis)
