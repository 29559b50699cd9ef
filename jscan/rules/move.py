"""The rules of ``move_p``. It is linear in what is moved, and its transpose moves it back."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax
from jax.core import ShapedArray
from jax.extend import core
from jax.interpreters import ad

from jscan import extent, meshes, ranks
from jscan.derivatives.tangents import Tangent, is_moving, summed_to, zero_of
from jscan.plain.ranks import is_marked, move_in_plain_jax, taken
from jscan.primitives import move_p, moved
from jscan.rules import base, partition


def move_abstract_eval(
    marks: ShapedArray, *operands: ShapedArray, axis: int, emit: str, size: int, **_: Any
) -> list[ShapedArray]:
    """The leaves in the shape of all operands together, ``size`` long along the axis."""
    leaves, _beside = moved(operands, emit)
    full = extent.full_shape([marks, *operands])
    shape = (*full[:axis], size, *full[axis + 1 :])
    return [leaf.update(shape=shape, weak_type=False) for leaf in leaves]


def move_in_kernels(
    marks: jax.Array,
    *operands: jax.Array,
    axis: int,
    source: str,
    emit: str,
    size: int,
    layout: meshes.Layout | None,
    **params: Any,
) -> list[jax.Array]:
    """The moved elements by a kernel, which counts positions in 32 bits."""
    leaves, beside = moved(operands, emit)
    full = extent.full_shape([marks, *operands])
    if 0 in full or size == 0:
        raise base.NoKernel("there is nothing to move")
    if full[axis] >= extent.FAR:
        raise base.NoKernel("the axis is too long for 32 bits")
    # Pallas takes seconds to import, and only GPU programs need it.
    from jscan.kernels import launch, moving

    del layout
    reason = launch.why_not_dtypes(leaves)
    if reason is not None:
        raise base.NoKernel(reason)
    if emit == "order":
        beside = [jnp.broadcast_to(x, (*full[:axis], 1, *full[axis + 1 :])) for x in beside]
    elif any(fill.size > 1 for fill in beside):
        raise base.NoKernel("rows are filled with values of their own")
    how: dict[str, Any] = {"axis": axis, "source": source, "emit": emit, "size": size}
    return moving.move(marks, leaves, beside, full=full, **how, **params)


def move_jvp(
    primals: Sequence[jax.Array], tangents: Sequence[Tangent], *, emit: str, **params: Any
) -> tuple[list[jax.Array], list[Tangent]]:
    """The moved tangents, of leaves that move or whose fill does."""
    results: list[jax.Array] = move_p.bind(*primals, emit=emit, **params)
    slopes, beside = moved(tangents[1:], emit)
    fills = beside if emit == "places" else slopes
    pairs = enumerate(zip(slopes, fills, strict=True))
    moving = [k for k, pair in pairs if any(map(is_moving, pair))]
    found: list[Tangent] = [zero_of(x) for x in results]
    if moving:
        given = [ad.instantiate_zeros(slopes[k]) for k in moving]
        rest = [ad.instantiate_zeros(fills[k]) for k in moving]
        operands = [primals[0], *given, *(rest if emit == "places" else primals[-1:])]
        through = move_p.bind(*extent.vary_alike(operands), emit=emit, **params)
        for k, tangent in zip(moving, through, strict=True):
            found[k] = tangent
    return results, found


def move_transpose(
    cotangents: Sequence[Tangent],
    marks: jax.Array,
    *operands: Any,
    axis: int,
    source: str,
    emit: str,
    size: int,
    **_: Any,
) -> list[Any]:
    """To each element the cotangent at its place; to what fills, those behind the elements."""
    leaves, beside = moved(operands, emit)
    before = ranks.rank(marks, axis=axis, emit="before", source=source)
    marked = is_marked(marks, axis=axis, source=source)
    element = lax.broadcasted_iota(jnp.int32, before.shape, axis)
    last = np.int32(max(size - 1, 0))

    def to_leaf(cotangent: jax.Array) -> jax.Array:
        if emit == "order":
            return taken(cotangent, jnp.where(marked, beside[0] + before, element - before), axis)
        back = taken(cotangent, jnp.minimum(before, last), axis)
        return jnp.where(marked & (before <= last), back, jnp.zeros_like(back))

    def to_fill(cotangent: jax.Array) -> jax.Array:
        count = jnp.sum(marked, axis, keepdims=True, dtype=jnp.int32)
        place = lax.broadcasted_iota(jnp.int32, cotangent.shape, axis)
        return jnp.where(place < count, jnp.zeros_like(cotangent), cotangent)

    to_leaves = _back(to_leaf, cotangents, leaves)
    to_fills = _back(to_fill, cotangents, beside) if emit == "places" else [None]
    return [None, *to_leaves, *to_fills]


def _back(
    of: Callable[[jax.Array], jax.Array], cotangents: Sequence[Tangent], operands: Sequence[Any]
) -> list[Any]:
    """The cotangents of operands, from those of the results; None for what is known."""
    found: list[Any] = []
    for cotangent, operand in zip(cotangents, operands, strict=True):
        if not ad.is_undefined_primal(operand):
            found.append(None)
        elif isinstance(cotangent, ad.Zero) or cotangent.size == 0:
            found.append(ad.Zero(operand.aval))
        else:
            found.append(summed_to(of(cotangent), operand.aval))
    return found


def move_dimensions(
    operands: Sequence[ShapedArray], results: Sequence[ShapedArray], *, axis: int, **_: Any
) -> partition.Dimensions:
    """Those along which nothing moves."""
    return partition.but_for(axis, operands, results)


def move_dce(used: Sequence[bool], *rest: Any) -> tuple[list[bool], core.JaxprEqn | None]:
    """Drop results that nobody uses, with their leaves and what fills them."""
    # jax 0.12 passes which inputs are live between the two arguments it always passed.
    eqn: core.JaxprEqn = rest[-1]
    if not any(used):
        return [False] * len(eqn.invars), None
    fills = [*used] if eqn.params["emit"] == "places" else [True]
    kept = [True, *used, *fills]
    avals: list[Any] = [v.aval for v in eqn.invars]
    left = [aval for aval, is_kept in zip(avals, kept, strict=True) if is_kept]
    if all(used) or extent.full_shape(left) != extent.full_shape(avals):
        # Those that are dropped may carry the size of a batch that the others share.
        return [True] * len(avals), eqn
    return kept, eqn.replace(
        invars=[v for v, is_kept in zip(eqn.invars, kept, strict=True) if is_kept],
        outvars=[v for v, is_kept in zip(eqn.outvars, used, strict=True) if is_kept],
    )


base.register(
    move_p,
    name="move",
    abstract_eval=move_abstract_eval,
    plain=move_in_plain_jax,
    in_kernels=move_in_kernels,
    dimensions=move_dimensions,
    jvp=move_jvp,
    transpose=move_transpose,
    dce=move_dce,
)
