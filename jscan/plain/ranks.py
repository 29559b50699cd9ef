"""Ranks and places of marked elements in plain JAX, moves, and the segments of positions."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

from jscan import extent, heads, ranks
from jscan.plain.sequence import counted_on_cpu

UNROLLED = 4
"""Elements that a turn of a loop takes."""


def rank_in_plain_jax(
    marks: jax.Array,
    *unmarked: jax.Array,
    axis: int,
    source: str,
    emit: str,
    reverse: bool,
    size: int,
    fill: int,
    counted: bool,
    summed: Callable[..., jax.Array] = lax.cumsum,
    **_: Any,
) -> list[jax.Array]:
    """The results of ``rank_p``, by a cumulative sum and a scatter."""
    n = marks.shape[axis]
    marks_here = is_marked(marks, axis=axis, source=source)
    marked = marks_here.astype(jnp.int32)
    totals = [jnp.sum(marked, axis, keepdims=True, dtype=jnp.int32)] if counted else []
    if n == 0:
        shape = (*marks.shape[:axis], size, *marks.shape[axis + 1 :])
        empty = jnp.zeros(shape, jnp.bool_ if emit == "heads" else jnp.int32)
        return [empty, *totals]
    if emit == "heads":
        return [marks_here, *totals]
    count = summed(marked, axis=axis, reverse=reverse)
    if emit == "number":
        return [count - 1, *totals]
    before = count - marked
    if emit == "before":
        return [before, *totals]
    element = lax.broadcasted_iota(jnp.int32, marks.shape, axis)
    if emit == "order":
        place = jnp.where(marked != 0, unmarked[0] + before, element - before)
    else:
        place = jnp.where(marked != 0, before, n)

    def of_row(place: jax.Array, element: jax.Array) -> jax.Array:
        into = jnp.full((size,), fill, jnp.int32)
        return into.at[place].set(element, mode="drop")

    by_row = jax.vmap(of_row)(_rows(place, axis), _rows(element, axis))
    rest = (*marks.shape[:axis], *marks.shape[axis + 1 :])
    return [jnp.moveaxis(by_row.reshape(*rest, size), -1, axis), *totals]


def rank_on_cpu(
    marks: jax.Array,
    *unmarked: jax.Array,
    axis: int,
    source: str,
    emit: str,
    size: int,
    fill: int,
    counted: bool,
    **params: Any,
) -> list[jax.Array]:
    """The results of ``rank_p``, of which places are found one after another.

    A scatter does the same on a CPU, and takes longer.
    """
    n = marks.shape[axis]
    if emit in ("number", "before", "heads") or params["reverse"] or 0 in marks.shape or size == 0:
        params |= {"axis": axis, "source": source, "emit": emit, "size": size, "counted": counted}
        params |= {"fill": fill, "summed": counted_on_cpu}
        return rank_in_plain_jax(marks, *unmarked, **params)
    marked = _rows(is_marked(marks, axis=axis, source=source), axis).astype(jnp.int32)
    count = jnp.sum(marked, 1, keepdims=True, dtype=jnp.int32)

    def place(row: Any, i: Any, mark: jax.Array, before: jax.Array) -> jax.Array:
        if emit == "order":
            first = np.int32(n) - lax.dynamic_slice(count, (row, np.int32(0)), (1, 1))
            return jnp.where(mark != 0, first + before, i - before)
        # An element that is not marked stands where the next one will, perhaps behind all of them.
        return jnp.minimum(before, np.int32(size))

    words = jnp.zeros((marked.shape[0], size + 1), jnp.int32)
    found = lax.slice_in_dim(_put_in_turn(words, marked, place), 0, size, axis=1)
    if emit != "order":
        is_place = lax.broadcasted_iota(jnp.int32, found.shape, 1) < count
        found = jnp.where(is_place, found, np.int32(fill))
    rest = (*marks.shape[:axis], *marks.shape[axis + 1 :])
    shaped = [(found, size), (count, 1)][: 1 + counted]
    return [jnp.moveaxis(x.reshape(*rest, length), -1, axis) for x, length in shaped]


def move_in_plain_jax(
    marks: jax.Array,
    x: jax.Array,
    *beside: jax.Array,
    axis: int,
    source: str,
    emit: str,
    size: int,
    placed: bool,
    counted: bool,
    **_: Any,
) -> list[jax.Array]:
    """The results of ``move_p``, by a gather from where ``rank_p`` finds the elements.

    Three parts are made by two moves: positive elements go behind all others, and of what is there
    then, negative ones before all others.
    """
    n, full = marks.shape[axis], extent.full_shape([marks, x, *beside])
    shape = (*full[:axis], size, *full[axis + 1 :])
    each = (*full[:axis], 1, *full[axis + 1 :])
    if 0 in full or size == 0:
        marked = is_marked(marks, axis=axis, source=source)
        total = jnp.sum(marked, axis, keepdims=True, dtype=jnp.int32)
        where = [jnp.zeros(shape, jnp.int32)] if placed else []
        totals = [jnp.broadcast_to(total, each)] if counted else []
        return [jnp.zeros(shape, x.dtype), *where, *totals]
    if emit == "parts":
        zero = lax.full_like(marks, 0)
        is_positive, others = lax.gt(marks, zero), lax.ge(marks, zero)
        once, others = (ranks.move(y, is_positive, axis=axis) for y in (x, others))
        return [jnp.broadcast_to(ranks.move(once, others, axis=axis), shape)]
    how: dict[str, Any] = {"axis": axis, "emit": emit, "source": source, "size": size}
    if counted:
        places, total = ranks.rank_and_count(marks, **how)
        totals = [jnp.broadcast_to(total, each)]
    else:
        places, totals = ranks.rank(marks, **how), []
    if emit == "order":
        return [jnp.broadcast_to(taken(x, places, axis, unique_indices=True), shape), *totals]
    where = [jnp.broadcast_to(places, shape)] if placed else []
    inside = jnp.minimum(places, np.int32(n - 1))
    there = jnp.broadcast_to(places < np.int32(n), shape)
    found = taken(x, inside, axis, indices_are_sorted=True)
    return [jnp.where(there, jnp.broadcast_to(found, shape), beside[0]), *where, *totals]


def taken(x: jax.Array, places: jax.Array, axis: int, **how: Any) -> jax.Array:
    """The elements at places along an axis, which are the same for all rows or their own.

    ``how`` holds what is known of places of one row: ``unique_indices``, ``indices_are_sorted``.
    """
    if places.size != places.shape[axis]:
        return jnp.take_along_axis(x, places, axis, mode="promise_in_bounds")
    rows = jnp.moveaxis(x, axis, 0)
    found = rows.at[places.reshape(-1)].get(mode="promise_in_bounds", **how)
    return jnp.moveaxis(found, 0, axis)


def last_places_on_cpu(places: jax.Array, *, axis: int, size: int) -> jax.Array:
    """The last element along ``axis`` of those in each of so many places; -1 where there is none.

    Elements of place ``size`` are in none.
    """
    rows = _rows(places, axis)
    nowhere = jnp.full((rows.shape[0], size + 1), -1, jnp.int32)
    words = _put_in_turn(nowhere, rows, lambda *given: given[2])
    rest = (*places.shape[:axis], *places.shape[axis + 1 :])
    found = lax.slice_in_dim(words, 0, size, axis=1).reshape(*rest, size)
    return jnp.moveaxis(found, -1, axis)


def _put_in_turn(
    words: jax.Array,
    elements: jax.Array,
    place: Callable[[Any, Any, jax.Array, jax.Array], jax.Array],
) -> jax.Array:
    """Rows of ``words``, into which the number of each element of a row is put, one by one.

    ``place`` says where, given row and number of an element, the element and the sum of those
    before it.
    """
    zero = jnp.zeros((1, 1), jnp.int32)
    words, zero, elements = extent.vary_alike([words, zero, elements])
    rows, n = elements.shape

    def at(*index: Any) -> list[jax.Array]:
        # Of numbers without a sign XLA asks only whether they are too large.
        return [lax.convert_element_type(i, np.uint32) for i in index]

    def of_row(row: Any, words: jax.Array) -> jax.Array:
        def one(i: Any, state: tuple[jax.Array, jax.Array]) -> tuple[jax.Array, jax.Array]:
            words, before = state
            i = lax.convert_element_type(i, np.int32)  # with 64-bit types it may have 64 bits
            element = lax.dynamic_slice(elements, at(row, i), (1, 1), allow_negative_indices=False)
            where = at(row, place(row, i, element, before)[0, 0])
            number = jnp.full((1, 1), i, jnp.int32)
            changed = lax.dynamic_update_slice(words, number, where, allow_negative_indices=False)
            return changed, before + element

        row, end = lax.convert_element_type(row, np.int32), np.int32(n)
        return lax.fori_loop(np.int32(0), end, one, (words, zero), unroll=UNROLLED)[0]

    put: jax.Array = lax.fori_loop(np.int32(0), np.int32(rows), of_row, words)
    return put


def _rows(x: jax.Array, axis: int) -> jax.Array:
    return jnp.moveaxis(x, axis, -1).reshape(-1, x.shape[axis])


def is_marked(marks: jax.Array, *, axis: int, source: str) -> jax.Array:
    """Whether each element is marked."""
    if source == "mask":
        return heads.as_bool(marks)
    if source == "runs":
        return heads.first_of_runs(marks, axis=axis)
    return heads.as_bool(marks) | heads.is_first(marks, axis=axis)


def locate_in_plain_jax(bounds: jax.Array, *, n: int, emit: str, **_: Any) -> list[jax.Array]:
    """The results of ``locate_p``. Bounds are scattered, and ids are their running count."""
    rows = bounds.reshape(-1, bounds.shape[-1])

    def ids(row: jax.Array) -> jax.Array:
        return lax.cumsum(jnp.zeros((n,), jnp.int32).at[row].add(1, mode="drop")) - 1

    def flags(row: jax.Array) -> jax.Array:
        return jnp.zeros((n,), jnp.bool_).at[row].set(True, mode="drop")

    result = jax.vmap(ids if emit == "ids" else flags)(rows)
    return [result.reshape(*bounds.shape[:-1], n)]


def locate_on_cpu(bounds: jax.Array, *, n: int, emit: str, **_: Any) -> list[jax.Array]:
    """The results of ``locate_p``, of which ids are written one after another.

    A running count takes three times as long on a CPU.
    """
    if emit != "ids" or 0 in (n, bounds.size) or max(n, bounds.size) >= extent.FAR:
        return locate_in_plain_jax(bounds, n=n, emit=emit)
    ends = lax.pad(bounds[..., 1:], np.int32(n), [(0, 0, 0)] * (bounds.ndim - 1) + [(0, 1, 0)])
    ends = ends.reshape(-1, bounds.shape[-1])
    rows, segments = ends.shape
    zero = jnp.zeros((), jnp.int32)
    words, zero, ends = extent.vary_alike([jnp.zeros((rows, n), jnp.int32), zero, ends])

    def index(number: Any) -> Any:  # with 64-bit types that of a loop may have 64 bits
        return lax.convert_element_type(number, np.int32)

    def of_row(row: Any, words: jax.Array) -> jax.Array:
        def of_segment(
            segment: Any, state: tuple[jax.Array, jax.Array]
        ) -> tuple[jax.Array, jax.Array]:
            words, first = state
            number = jnp.full((1, 1), segment, jnp.int32)
            # What nobody reads may hold anything, and is not written more than once either.
            end = lax.dynamic_slice(ends, (index(row), index(segment)), (1, 1))[0, 0]
            end = lax.clamp(first, end, np.int32(n))

            def put(i: Any, words: jax.Array) -> jax.Array:
                return lax.dynamic_update_slice(words, number, (index(row), index(i)))

            return lax.fori_loop(first, end, put, words), end

        return lax.fori_loop(np.int32(0), np.int32(segments), of_segment, (words, zero))[0]

    put: jax.Array = lax.fori_loop(np.int32(0), np.int32(rows), of_row, words)
    return [put.reshape(*bounds.shape[:-1], n)]
