"""Ranks and places of marked elements in plain JAX, and the segments of positions."""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
from jax import lax

from jscan import heads


def rank_in_plain_jax(
    marks: jax.Array,
    *unmarked: jax.Array,
    axis: int,
    source: str,
    emit: str,
    reverse: bool,
    size: int,
    **_: Any,
) -> list[jax.Array]:
    """The results of ``rank_p``, by ``lax.cumsum`` and a scatter."""
    n = marks.shape[axis]
    if n == 0:
        shape = (*marks.shape[:axis], size, *marks.shape[axis + 1 :])
        return [jnp.zeros(shape, jnp.int32)]
    marked = _marked(marks, axis=axis, source=source).astype(jnp.int32)
    count = lax.cumsum(marked, axis, reverse=reverse)
    if emit == "number":
        return [count - 1]
    before = count - marked
    if emit == "before":
        return [before]
    element = lax.broadcasted_iota(jnp.int32, marks.shape, axis)
    if emit == "order":
        place = jnp.where(marked != 0, unmarked[0] + before, element - before)
    else:
        place = jnp.where(marked != 0, before, n)

    def of_row(place: jax.Array, element: jax.Array) -> jax.Array:
        into = jnp.full((size,), n, jnp.int32)
        return into.at[place].set(element, mode="drop")

    by_row = jax.vmap(of_row)(_rows(place, axis), _rows(element, axis))
    rest = (*marks.shape[:axis], *marks.shape[axis + 1 :])
    return [jnp.moveaxis(by_row.reshape(*rest, size), -1, axis)]


def _rows(x: jax.Array, axis: int) -> jax.Array:
    return jnp.moveaxis(x, axis, -1).reshape(-1, x.shape[axis])


def _marked(marks: jax.Array, *, axis: int, source: str) -> jax.Array:
    if source == "mask":
        return heads.as_bool(marks)
    if source == "runs":
        return heads.changes(marks, axis=axis)
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
