"""``rank_p``: marked elements counted along an axis, and all the primitive's rules.

Operands are the marks and, for ``order``, how many elements of each row are unmarked (the marks'
shape with 1 along the axis). The result is int32, ``size`` long along the axis:

    before    how many marked elements come before each element (behind it, if ``reverse``)
    number    how many marked elements there are up to each element, less one
    places    the places of the marked elements, in order, then n
    order     the places of the unmarked elements, then those of the marked ones

What is marked depends on ``source``: where a "mask" is not zero; where head "flags" are not zero,
and the first element in any case; where a value begins one of the "runs" of equal values.
"""

from __future__ import annotations

import functools
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax
from jax.extend import core
from jax.interpreters import batching

from jscan import extent, fallback, meshes, primitive

rank_p: Any = core.Primitive("jscan_rank")
rank_p.multiple_results = True


def rank(
    marks: jax.Array,
    *,
    axis: int,
    emit: str,
    source: str = "mask",
    reverse: bool = False,
    size: int | None = None,
) -> jax.Array:
    """Bind ``rank_p``."""
    check_places("jscan", "marks", marks, axis)
    n = marks.shape[axis]
    length = n if size is None else size

    def run(marks: jax.Array) -> jax.Array:
        # Kernels write no more words than there are elements.
        head = _bind(
            marks, axis=axis, emit=emit, source=source, reverse=reverse, size=min(length, n)
        )
        if length <= n:
            return head
        shape = (*marks.shape[:axis], length - n, *marks.shape[axis + 1 :])
        return lax.concatenate([head, lax.full(shape, np.int32(n))], axis)

    dimensions = meshes.instead_of(axis) if emit == "places" else meshes.same
    result: jax.Array = meshes.automatically(run, marks, like=[marks], dimensions=dimensions)
    return result


def _bind(marks: jax.Array, *, axis: int, emit: str, **params: Any) -> jax.Array:
    operands = [marks]
    if emit == "order":
        unmarked = jnp.sum(~fallback.as_bool(marks), axis, keepdims=True, dtype=jnp.int32)
        operands.append(unmarked)
    [result] = rank_p.bind(
        *extent.vary_alike(operands),
        axis=axis,
        emit=emit,
        interpret=primitive.interpreting(),
        **params,
    )
    return result


def check_places(caller: str, name: str, array: jax.Array, axis: int) -> None:
    """Raise for an axis so long that places along it do not fit the results."""
    if array.shape[axis] >= 2**31:
        raise ValueError(
            f"{caller}: places are counted in int32, so that an axis may have at most {2**31 - 1} "
            f"elements; got {name} of shape {array.shape} along axis={axis}"
        )


def rank_abstract_eval(marks: Any, *unmarked: Any, axis: int, size: int, **_: Any) -> list[Any]:
    """int32 in the shape of the marks, ``size`` long along the axis."""
    del unmarked
    shape = (*marks.shape[:axis], size, *marks.shape[axis + 1 :])
    return [marks.update(shape=shape, dtype=jnp.dtype(jnp.int32), weak_type=False)]


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
    """The ranks by ``lax.cumsum`` and a scatter."""
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
        place, value = jnp.where(marked != 0, unmarked[0] + before, element - before), element
    else:
        place = jnp.where(marked != 0, before, n)
        value = element

    def one(place: jax.Array, value: jax.Array) -> jax.Array:
        into = jnp.full((size,), n, jnp.int32)
        return into.at[place].set(value, mode="drop")

    by_row = jax.vmap(one)(_rows(place, axis), _rows(value, axis))
    rest = (*marks.shape[:axis], *marks.shape[axis + 1 :])
    return [jnp.moveaxis(by_row.reshape(*rest, size), -1, axis)]


def _rows(x: jax.Array, axis: int) -> jax.Array:
    return jnp.moveaxis(x, axis, -1).reshape(-1, x.shape[axis])


def _marked(marks: jax.Array, *, axis: int, source: str) -> jax.Array:
    if source == "mask":
        return fallback.as_bool(marks)
    if source == "runs":
        return fallback.changes(marks, axis=axis)
    return fallback.as_bool(marks) | fallback.is_first(marks, axis=axis)


def rank_in_kernels(
    marks: jax.Array, *unmarked: jax.Array, interpret: bool, **params: Any
) -> list[jax.Array]:
    """The ranks in a kernel where one can run."""
    axis = params["axis"]
    if 0 in marks.shape or params["size"] == 0:
        return rank_in_plain_jax(marks, *unmarked, **params)
    # Pallas takes seconds to import, and only GPU programs need it.
    from jscan.kernels import ranking

    if marks.shape[axis] >= extent.FAR:
        return rank_in_plain_jax(marks, *unmarked, **params)
    totals = unmarked[0] if unmarked else None
    return [ranking.rank(marks, totals, interpret=interpret, **params)]


rank_p.def_impl(functools.partial(primitive.run, rank_p))
rank_p.def_abstract_eval(rank_abstract_eval)
primitive.register_lowerings(rank_p, rank_in_kernels, rank_in_plain_jax)
batching.primitive_batchers[rank_p] = functools.partial(primitive.batched, rank_p)
