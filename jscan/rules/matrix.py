"""The rules of ``matrix_p``.

For h[t] = A[t] h[t-1] + b[t] the tangent is the same recurrence, and so is the transpose in b, from
the other end and with A transposed and one place on:

    dh[t] = A[t] dh[t-1] + (db[t] + dA[t] h[t-1])        λ[t] = h̄[t] + A[t+1]ᵀ λ[t+1],   b̄[t] = λ[t]
"""

from __future__ import annotations

import functools
from collections.abc import Hashable, Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax.core import ShapedArray
from jax.interpreters import ad

from jscan import extent, heads, matrices
from jscan.blocks import MOST_WORDS
from jscan.combine import accumulation_dtype
from jscan.derivatives import transposition
from jscan.derivatives.tangents import Tangent, is_moving, summed_to, zero_of
from jscan.matrices import matrix_p
from jscan.plain.matrices import (
    LARGEST,
    as_leaves,
    matrix_across,
    matrix_in_tree,
    matrix_on_cpu,
    matrix_uneven,
)
from jscan.primitives import AxisName
from jscan.rules import base, partition
from jscan.rules.elements import in_place, method_of_large
from jscan.rules.grids import Labels
from jscan.rules.scan import scan_in_kernels


def matrix_abstract_eval(
    held: ShapedArray, terms: ShapedArray, *flags: ShapedArray, **_: Any
) -> list[ShapedArray]:
    """The states: terms at full size."""
    shape = extent.full_shape([held, terms, *flags])[:-2]
    return [terms.update(shape=(*shape, *terms.shape[-2:]), weak_type=False)]


def matrix_in_kernels(
    *operands: jax.Array,
    stored: str,
    turned: bool,
    shared: bool,
    axis: int,
    reverse: bool,
    segmented: bool,
    method: str,
    tile: Hashable,
    interpret: bool,
    **_: Any,
) -> list[jax.Array]:
    """The states by the kernels of a scan over the numbers that matrices and terms hold."""
    held, terms, *flags = operands
    size, wide, last = terms.shape[-2], accumulation_dtype(terms.dtype), terms.ndim - 3
    if size > LARGEST:
        if (size + 1) * size * -(-wide.itemsize // 4) > MOST_WORDS:
            raise base.NoKernel(
                f"matrices of {size} x {size} do not fit the registers of a thread; of float32 "
                "those of 7 x 7 do"
            )
        method = method_of_large(method)
        if axis != last:  # a thread takes elements that are neighbours
            again: dict[str, Any] = {"stored": stored, "turned": turned, "shared": shared}
            again |= {"reverse": reverse, "segmented": segmented, "method": method}
            moved = [jnp.moveaxis(x, axis, last) for x in operands]
            there = matrix_in_kernels(*moved, axis=last, tile=tile, interpret=interpret, **again)
            return [jnp.moveaxis(there[0], last, axis)]
    how: dict[str, Any] = {"axis": axis, "reverse": reverse}
    # What a thread reads of the place before has to begin with a word.
    in_words = stored == "full" and size * size * held.dtype.itemsize % 16 == 0
    if turned and not (in_words and held.shape[axis] == terms.shape[axis]):
        held = matrices_turned(held, stored=stored, shared=shared, axis_name=(), **how)
        turned = False
    if turned:
        operator = matrices.turned_operator(size, wide)
    else:
        operator = matrices.operator(stored, size, wide)
    how |= {"method": method, "tile": tile, "interpret": interpret}
    found = in_place(
        [held.reshape(*held.shape[:-2], -1), terms[..., 0]],
        flags[0][..., 0, 0] if flags else None,
        None,
        used=(False, True),
        combine=operator,
        behind=(int(turned), 0),
        **how,
    )
    if found is not None:
        return [found[0][..., None]]
    if turned:
        along: dict[str, Any] = {"axis": axis, "reverse": reverse, "axis_name": ()}
        held = matrices_turned(held, stored=stored, shared=shared, **along)
        operator = matrices.operator(stored, size, wide)
    operands = (held, terms, *flags)
    how["combine"] = operator
    leaves, rows = as_leaves(*operands, axis=axis)
    results = scan_in_kernels(
        *leaves,
        *rows,
        exclusive=False,
        segmented=segmented,
        used=(False,) * (len(leaves) - size) + (True,) * size,
        started=False,
        **how,
    )
    return [jnp.stack(results, -1)[..., None]]


def matrices_turned(
    held: jax.Array, *, stored: str, shared: bool, axis: int, reverse: bool, axis_name: AxisName
) -> jax.Array:
    """The matrices of the places before in scan order, transposed."""
    if not shared:
        along: dict[str, Any] = {"axis": axis, "reverse": reverse, "axis_name": axis_name}
        held = heads.shift([held], None, [_zero(held)], **along)[0]
    return matrices.transposed(held, stored)


def _spelled(form: base.Form) -> base.Form:
    """A form that turns matrices before it goes on."""

    @functools.wraps(form)
    def spelled(held: jax.Array, *others: jax.Array, turned: bool, **params: Any) -> Any:
        if turned:
            names = ("stored", "shared", "axis", "reverse", "axis_name")
            held = matrices_turned(held, **{name: params[name] for name in names})
        return form(held, *others, **params)

    return spelled


def _bind(*operands: jax.Array, **params: Any) -> list[jax.Array]:
    results: list[jax.Array] = matrix_p.bind(*operands, turned=False, **params)
    return results


def matrix_dimensions(
    operands: Sequence[ShapedArray], results: Sequence[ShapedArray], *, axis: int, **_: Any
) -> partition.Dimensions:
    """All but the last two, which are whole on each device."""
    divided = partition.together(operands, results, axis=axis)

    def leading(arrays: Sequence[Labels]) -> tuple[Labels, ...]:
        return tuple((*labels[:-2], None, None) for labels in arrays)

    return partition.Dimensions(
        leading(divided.operands), leading(divided.results), divided.sizes, divided.axis
    )


def matrix_batch(
    batch: Any, operands: Sequence[jax.Array], dims: Sequence[int | None], **params: Any
) -> tuple[list[jax.Array], list[int]]:
    """The recurrences of a batch, whose dimension comes first if it was one of the last."""
    moved: list[jax.Array] = []
    places: list[int | None] = []
    for x, d in zip(operands, dims, strict=True):
        comes_last = d is not None and d >= x.ndim - 2
        moved.append(jnp.moveaxis(x, d, 0) if d is not None and comes_last else x)
        places.append(0 if comes_last else d)
    return base.batched(matrix_p, batch, moved, places, **params)


def matrix_jvp(
    primals: Sequence[jax.Array], tangents: Sequence[Tangent], **params: Any
) -> tuple[list[jax.Array], list[Tangent]]:
    """The states, and the recurrence of what the tangents of matrices and terms make of them."""
    if params["turned"]:
        moving = [i for i, t in enumerate(tangents) if is_moving(t)]

        def of_moving(*moved: jax.Array) -> list[jax.Array]:
            there = dict(zip(moving, moved, strict=True))
            given = (there.get(i, x) for i, x in enumerate(primals))
            return _spelled(_bind)(*given, **params)

        given: list[Any] = [tangents[i] for i in moving]
        results, found = jax.jvp(of_moving, [primals[i] for i in moving], given)
        return results, found
    held, terms, *flags = primals
    turning, coming = tangents[:2]
    [states] = matrix_p.bind(*primals, **params)
    moved: list[jax.Array] = []
    if is_moving(coming):
        moved.append(coming)
    if is_moving(turning):
        along: dict[str, Any] = {name: params[name] for name in ("axis", "reverse", "axis_name")}
        starts = None
        if flags:
            starts = jnp.broadcast_to(heads.segment_starts(flags[0], **along), states.shape)
        before = heads.shift([states], starts, [_zero(states)], **along)[0]
        wide = accumulation_dtype(terms.dtype)
        slopes = matrices.whole(turning, params["stored"]).astype(wide)
        moved.append(matrices.times(slopes, before.astype(wide)).astype(terms.dtype))
    if not moved:
        return [states], [zero_of(states)]
    total = moved[0] if len(moved) == 1 else moved[0] + moved[1]
    return [states], matrix_p.bind(held, total, *flags, **params)


def matrix_transpose(
    cotangents: Sequence[Tangent], *operands: Any, segmented: bool, **params: Any
) -> list[Any]:
    """The cotangent of the terms: the recurrence from the other end."""
    held, terms, *flags = operands
    if transposition.undefined(operands) != (1,):
        raise TypeError(
            "jscan: this matrix recurrence is linear in b and h0 alone, so it has no transpose in "
            "A or segments"
        )
    if params["turned"]:
        names = ("stored", "shared", "axis", "reverse", "axis_name")
        held = matrices_turned(held, **{name: params[name] for name in names})
    params |= {"segmented": segmented, "reverse": not params["reverse"], "turned": True}
    given = ad.instantiate_zeros(cotangents[0])
    [back] = matrix_p.bind(held, given, *flags, **params)
    return [None, summed_to(back, terms.aval), *[None] * segmented]


def _zero(x: jax.Array) -> Any:
    return np.zeros((), x.dtype)[()]


base.register(
    matrix_p,
    name="recurrence",
    abstract_eval=matrix_abstract_eval,
    plain=_spelled(matrix_in_tree),
    across=_spelled(matrix_across),
    uneven=matrix_uneven,
    divisible=lambda turned, **_: _spelled(_bind) if turned else None,
    in_kernels=matrix_in_kernels,
    dimensions=matrix_dimensions,
    on_cpu=_spelled(matrix_on_cpu),
    batch=matrix_batch,
    jvp=matrix_jvp,
    transpose=matrix_transpose,
)
