"""The functions that bind the primitives of marks and places: ranks, moves and what is located."""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

from jscan import extent, heads, meshes, primitives
from jscan.operators import integer_limits
from jscan.primitives import AxisName


def rank(
    marks: jax.Array,
    *,
    axis: int,
    emit: str,
    source: str = "mask",
    reverse: bool = False,
    size: int | None = None,
    fill: int | None = None,
    axis_name: AxisName = (),
) -> jax.Array:
    """Bind ``rank_p``; ``size`` may be more than there are elements.

    Places behind the last one are ``fill``, or the length of the axis.
    """
    how: dict[str, Any] = {"source": source, "reverse": reverse, "axis_name": axis_name}
    [result] = _rank(marks, axis=axis, emit=emit, size=size, fill=fill, counted=False, **how)
    return result


def rank_and_count(
    marks: jax.Array, *, axis: int, emit: str, source: str = "mask", size: int | None = None
) -> tuple[jax.Array, jax.Array]:
    """The same, and how many elements are marked, of size 1 along the axis."""
    how: dict[str, Any] = {"source": source, "reverse": False, "axis_name": ()}
    result, count = _rank(marks, axis=axis, emit=emit, size=size, fill=None, counted=True, **how)
    return result, count


def _rank(
    marks: jax.Array, *, axis: int, emit: str, size: int | None, fill: int | None, **params: Any
) -> list[jax.Array]:
    extent.check_places("jscan", "marks", marks, axis)
    n = marks.shape[axis]
    length = n if size is None else size
    params |= {"axis": axis, "emit": emit, "fill": n if fill is None else fill}

    def run(marks: jax.Array) -> list[jax.Array]:
        # Kernels write no more words than there are elements.
        head, *counts = _bind_rank(marks, size=min(length, n), **params)
        if length > n:
            end = [(0, length - n if d == axis else 0, 0) for d in range(head.ndim)]
            head = lax.pad(head, np.int32(params["fill"]), end)
        return [head, *counts]

    dimensions = meshes.instead_of(axis) if emit == "places" else meshes.same
    return meshes.automatically(run, marks, like=[marks], dimensions=dimensions)


def heads_of_runs(ids: jax.Array, *, axis: int) -> jax.Array:
    """Head flags of runs of equal ids along ``axis``, as booleans."""
    if ids.shape[axis] < extent.FAR:
        return rank(ids, axis=axis, source="runs", emit="heads")
    return meshes.automatically(lambda ids: heads.changes(ids, axis=axis), ids, like=[ids])


def _bind_rank(marks: jax.Array, *, axis: int, emit: str, **params: Any) -> list[jax.Array]:
    operands = [marks]
    if emit == "order":
        operands.append(_unmarked(marks, axis))
    operands = extent.vary_alike(operands)
    context = primitives.settings_for(marks.shape)
    results: list[jax.Array] = primitives.rank_p.bind(
        *operands, axis=axis, emit=emit, **params, **context
    )
    return results


def move(
    x: jax.Array,
    marks: jax.Array,
    fill: jax.Array | None = None,
    *,
    axis: int,
    source: str = "mask",
    size: int | None = None,
) -> jax.Array:
    """Bind ``move_p``: marked elements, then the ``fill``; or without one, marked elements last.

    Marks have the shape of ``x``. With a ``fill`` there may be more results than elements. Arrays
    are bound one by one, since a primitive is transposed as a whole.
    """
    how: dict[str, Any] = {"placed": False, "counted": False}
    [moved] = _move(x, marks, fill, axis=axis, source=source, size=size, **how)
    return moved


def move_and_count(
    x: jax.Array,
    marks: jax.Array,
    fill: jax.Array,
    *,
    axis: int,
    source: str = "mask",
    size: int | None = None,
) -> tuple[jax.Array, jax.Array]:
    """The same, and how many elements are marked, of size 1 along the axis."""
    how: dict[str, Any] = {"placed": False, "counted": True}
    moved, count = _move(x, marks, fill, axis=axis, source=source, size=size, **how)
    return moved, count


def move_and_place(
    x: jax.Array, marks: jax.Array, fill: jax.Array, *, axis: int, source: str, size: int
) -> tuple[jax.Array, jax.Array, jax.Array]:
    """The same, and before the count where marked elements are, and n behind the last one."""
    how: dict[str, Any] = {"placed": True, "counted": True}
    moved, places, count = _move(x, marks, fill, axis=axis, source=source, size=size, **how)
    return moved, places, count


def _move(
    x: jax.Array,
    marks: jax.Array,
    fill: jax.Array | None,
    *,
    axis: int,
    size: int | None,
    **params: Any,
) -> list[jax.Array]:
    extent.check_places("jscan", "marks", marks, axis)
    n = marks.shape[axis]
    length = n if size is None else size
    wide = whole_bytes(x)
    if fill is None:
        emit, beside = "order", _unmarked(marks, axis)
    else:
        emit, beside = "places", fill.reshape((1,) * marks.ndim).astype(wide.dtype)
    marks, wide, beside = extent.vary_alike([marks, wide, beside])
    how: dict[str, Any] = {"axis": axis, "emit": emit, "size": min(length, n), **params}
    context = primitives.settings_for(marks.shape)
    result, *others = primitives.move_p.bind(marks, wide, beside, **how, **context)
    if length > n:
        behind = (*marks.shape[:axis], length - n, *marks.shape[axis + 1 :])
        rest = jnp.broadcast_to(beside, behind)
        result = lax.concatenate(extent.vary_alike([result, rest]), axis)
        if how["placed"]:
            end = [(0, length - n if d == axis else 0, 0) for d in range(marks.ndim)]
            others[0] = lax.pad(others[0], np.int32(n), end)
    return [result.astype(x.dtype), *others]


def part(
    x: jax.Array, signs: jax.Array, second: jax.Array, third: jax.Array, *, axis: int
) -> jax.Array:
    """Bind ``move_p`` of three parts: negative elements, those of sign zero, and positive ones.

    ``second`` and ``third`` say where the last two begin in each row. There are two elements or
    more along the axis.
    """
    extent.check_places("jscan", "signs", signs, axis)
    n = signs.shape[axis]
    operands = extent.vary_alike([signs, whole_bytes(x), second, third])
    how: dict[str, Any] = {"axis": axis, "source": "signs", "emit": "parts", "size": n}
    context = primitives.settings_for(signs.shape)
    [moved] = primitives.move_p.bind(*operands, placed=False, counted=False, **how, **context)
    result: jax.Array = moved.astype(x.dtype)
    return result


def whole_bytes(x: jax.Array) -> jax.Array:
    """The numbers in whole bytes.

    XLA does not pad those of 2 bits in all of its ways to compile for CPUs.
    """
    if jnp.issubdtype(x.dtype, jnp.integer) and integer_limits(x.dtype).bits < 8:
        return x.astype(jnp.int8 if jnp.issubdtype(x.dtype, jnp.signedinteger) else jnp.uint8)
    return x


def _unmarked(marks: jax.Array, axis: int) -> jax.Array:
    """How many elements of each row are not marked."""
    return jnp.sum(~heads.as_bool(marks), axis, keepdims=True, dtype=jnp.int32)


def locate(bounds: jax.Array, *, n: int, emit: str) -> jax.Array:
    """Bind ``locate_p``."""

    def run(bounds: jax.Array) -> jax.Array:
        context = primitives.settings_for(bounds.shape)
        del context["tile"]
        [result] = primitives.locate_p.bind(bounds, n=n, emit=emit, **context)
        return result

    return meshes.automatically(
        run, bounds, like=[bounds], dimensions=meshes.instead_of(bounds.ndim - 1)
    )
