"""The rules of ``move_p``. It is linear in what is moved, and its transpose moves it back."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax
from jax.core import ShapedArray
from jax.interpreters import ad

from jscan import extent, meshes, ranks
from jscan.derivatives.tangents import Tangent, is_moving, summed_to, zero_of
from jscan.plain.ranks import is_marked, move_in_plain_jax, taken
from jscan.primitives import move_p
from jscan.rules import base, partition


def move_abstract_eval(
    marks: ShapedArray,
    x: ShapedArray,
    *beside: ShapedArray,
    axis: int,
    size: int,
    placed: bool,
    counted: bool,
    **_: Any,
) -> list[ShapedArray]:
    """The elements in the shape of all operands together, ``size`` long along the axis.

    And where they were, of the same shape; and how many are marked, of size 1 along it.
    """
    full = extent.full_shape([marks, x, *beside])
    moved = x.update(shape=(*full[:axis], size, *full[axis + 1 :]), weak_type=False)
    sizes = [*([size] if placed else []), *([1] if counted else [])]
    shapes = [(*full[:axis], length, *full[axis + 1 :]) for length in sizes]
    return [moved, *(moved.update(shape=shape, dtype=jnp.dtype(jnp.int32)) for shape in shapes)]


def move_in_kernels(
    marks: jax.Array,
    x: jax.Array,
    *others: jax.Array,
    axis: int,
    source: str,
    emit: str,
    size: int,
    placed: bool,
    counted: bool,
    layout: meshes.Layout | None,
    **params: Any,
) -> list[jax.Array]:
    """The moved elements by a kernel, which counts positions in 32 bits."""
    full = extent.full_shape([marks, x, *others])
    if 0 in full or size == 0:
        raise base.NoKernel("there is nothing to move")
    if full[axis] >= extent.FAR:
        raise base.NoKernel("the axis is too long for 32 bits")
    # Pallas takes seconds to import, and only GPU programs need it.
    from jscan.kernels import launch, moving, parting, sending, tuning
    from jscan.kernels.layout import outer_n_inner

    del layout
    reason = launch.why_not_dtypes([x])
    if reason is not None:
        raise base.NoKernel(reason)
    each = (*full[:axis], 1, *full[axis + 1 :])
    outer, n, inner = outer_n_inner(full, axis)
    if emit == "parts":
        if not tuning.suits_parts(outer, size, inner):
            raise base.NoKernel("two passes part so short a row, or so many lanes")
        begins = [jnp.broadcast_to(begin, each) for begin in others]
        return [parting.part(marks, x, *begins, full=full, axis=axis, **params)]
    [beside] = others
    if emit == "order":
        beside = jnp.broadcast_to(beside, each)
    elif beside.size > 1:
        raise base.NoKernel("rows are filled with values of their own")
    by = sending.neighbours(np.dtype(np.int8))  # masks are read as bytes
    in_bits = sending.suits_rows(outer, n, inner, own=marks.shape == full, by=by)
    walked = source == "mask" and emit == "places" and not in_bits
    if walked and tuning.suits_gather(n, size, x.dtype.itemsize):
        raise base.NoKernel("so few elements are better gathered")
    how: dict[str, Any] = {"axis": axis, "source": source, "emit": emit, "size": size}
    how |= {"placed": placed, "counted": counted}
    return moving.move(marks, x, beside, full=full, **how, **params)


def move_jvp(
    primals: Sequence[jax.Array],
    tangents: Sequence[Tangent],
    *,
    emit: str,
    placed: bool,
    counted: bool,
    **params: Any,
) -> tuple[list[jax.Array], list[Tangent]]:
    """The moved tangents; places and a count have none."""
    results = move_p.bind(*primals, emit=emit, placed=placed, counted=counted, **params)
    marks, _, *beside = primals
    _, slope, *of_beside = tangents
    others = [zero_of(x) for x in results[1:]]
    if not any(map(is_moving, (slope, *of_beside))):
        return results, [zero_of(results[0]), *others]
    if emit == "places":
        beside = [ad.instantiate_zeros(of_fill) for of_fill in of_beside]
    operands = extent.vary_alike([marks, ad.instantiate_zeros(slope), *beside])
    [moved] = move_p.bind(*operands, emit=emit, placed=False, counted=False, **params)
    return results, [moved, *others]


def move_transpose(
    cotangents: Sequence[Tangent],
    marks: jax.Array,
    x: Any,
    *beside: Any,
    axis: int,
    source: str,
    emit: str,
    size: int,
    **_: Any,
) -> list[Any]:
    """To each element the cotangent at its place; to what fills, those behind the elements."""
    cotangent = cotangents[0]  # places and a count behind it have none
    operands = marks, x, *beside
    back: list[Any] = [None] * len(operands)
    if isinstance(cotangent, ad.Zero) or size == 0:
        return [ad.Zero(y.aval) if ad.is_undefined_primal(y) else None for y in operands]
    if ad.is_undefined_primal(x):
        there, place = _places(marks, beside, axis=axis, source=source, emit=emit, size=size)
        found = taken(cotangent, place, axis)
        found = found if there is None else jnp.where(there, found, jnp.zeros_like(found))
        back[1] = summed_to(found, x.aval)
    if ad.is_undefined_primal(beside[0]):
        marked = is_marked(marks, axis=axis, source=source)
        count = jnp.sum(marked, axis, keepdims=True, dtype=jnp.int32)
        place = lax.broadcasted_iota(jnp.int32, cotangent.shape, axis)
        rest = jnp.where(place < count, jnp.zeros_like(cotangent), cotangent)
        back[2] = summed_to(rest, beside[0].aval)
    return back


def _places(
    marks: jax.Array, beside: Sequence[Any], *, axis: int, source: str, emit: str, size: int
) -> tuple[jax.Array | None, jax.Array]:
    """Which elements are among the results, unless all are, and where each one is."""
    element = lax.broadcasted_iota(jnp.int32, marks.shape, axis)
    if emit == "parts":
        zero, (second, third) = lax.full_like(marks, 0), beside
        is_negative, is_positive = lax.lt(marks, zero), lax.gt(marks, zero)
        less, more = (ranks.rank(x, axis=axis, emit="before") for x in (is_negative, is_positive))
        place = jnp.where(is_positive, third + more, second + element - less - more)
        return None, jnp.where(is_negative, less, place)
    marked = is_marked(marks, axis=axis, source=source)
    before = ranks.rank(marks, axis=axis, emit="before", source=source)
    if emit == "order":
        return None, jnp.where(marked, beside[0] + before, element - before)
    last = np.int32(size - 1)
    return marked & (before <= last), jnp.minimum(before, last)


def move_dimensions(
    operands: Sequence[ShapedArray], results: Sequence[ShapedArray], *, axis: int, **_: Any
) -> partition.Dimensions:
    """Those along which nothing moves."""
    return partition.but_for(axis, operands, results)


base.register(
    move_p,
    name="move",
    abstract_eval=move_abstract_eval,
    plain=move_in_plain_jax,
    in_kernels=move_in_kernels,
    dimensions=move_dimensions,
    jvp=move_jvp,
    transpose=move_transpose,
)
