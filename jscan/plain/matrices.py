"""Recurrences of small matrices in plain JAX.

They run as a loop on CPUs, as a tree elsewhere, and on parts of an axis that goes on across
devices.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

from jscan import extent, matrices, primitives
from jscan.combine import accumulation_dtype
from jscan.heads import as_bool
from jscan.plain.across import scan_general_across
from jscan.plain.scan import scan_flat
from jscan.plain.uneven import with_end
from jscan.primitives import AxisName, joined, parted

LARGEST = 4
"""The most states of which numbers are leaves of a scan: of K, they are K * K + K."""

BY_SUMS = 8
"""The most states of which products are sums that XLA fuses with what surrounds them."""


def as_leaves(
    held: jax.Array, terms: jax.Array, *flags: jax.Array, axis: int
) -> tuple[list[jax.Array], list[jax.Array]]:
    """The operands of the scan that solves a recurrence: its leaves, in scalars, and flags."""
    shape = extent.full_shape([held, terms, *flags])
    leading = [*held.shape[:-2]]
    leading[axis] = shape[axis]
    held = jnp.broadcast_to(held, (*leading, *held.shape[-2:]))
    rows = [x[..., 0, 0] for x in flags]
    leaves = extent.at_full_size(
        [*matrices.entries(terms), *matrices.entries(held)],
        shape[:-2],
        rows,
    )
    count = terms.shape[-2]
    return [*leaves[count:], *leaves[:count]], rows


def matrix_in_tree(
    *operands: jax.Array, stored: str, axis: int, reverse: bool, **_: Any
) -> list[jax.Array]:
    """The states by ``lax.associative_scan``."""
    leaves, flags = _spread(*operands, stored=stored)
    along: dict[str, Any] = {"axis": axis, "reverse": reverse}
    states = scan_flat(_composed, leaves, flags, identity=None, **along)[1]
    return [states.astype(operands[1].dtype)]


def matrix_in_loop(
    held: jax.Array,
    terms: jax.Array,
    *flags: jax.Array,
    stored: str,
    shared: bool,
    axis: int,
    reverse: bool,
    **_: Any,
) -> list[jax.Array]:
    """The states, one after another, each written where it belongs."""
    full = extent.full_shape([held, terms, *flags])
    n, wide = full[axis], accumulation_dtype(terms.dtype)
    size = (*full[:axis], 1, *full[axis + 1 : -2], *terms.shape[-2:])
    states = jnp.zeros((*full[:-2], *terms.shape[-2:]), terms.dtype)
    if 0 in states.shape:
        return [states]

    def at(x: jax.Array, place: Any) -> jax.Array:
        found: jax.Array = lax.dynamic_slice_in_dim(x, place, 1, axis, allow_negative_indices=False)
        return found

    def term(place: Any) -> jax.Array:
        return jnp.broadcast_to(at(terms, place), size).astype(wide)

    def written(states: jax.Array, state: jax.Array, place: Any) -> jax.Array:
        part = state.astype(states.dtype)
        changed: jax.Array = lax.dynamic_update_slice_in_dim(states, part, place, axis)
        return changed

    def step(i: jax.Array, carried: tuple[jax.Array, jax.Array]) -> tuple[jax.Array, jax.Array]:
        state, states = carried
        place = np.int32(n - 1) - i if reverse else i
        matrix = matrices.whole(at(held, np.int32(0) if shared else place), stored).astype(wide)
        offset = term(place)
        following = matrices.times(matrix, state) + offset
        for heads in flags:
            restarts = as_bool(at(heads, place + np.int32(reverse)))
            following = jnp.where(restarts, offset, following)
        return following, written(states, following, place)

    first = np.int32(n - 1 if reverse else 0)
    begin = term(first), written(states, term(first), first)
    return [lax.fori_loop(np.int32(1), np.int32(n), step, begin)[1]]


def matrix_on_cpu(*operands: jax.Array, method: str, **params: Any) -> list[jax.Array]:
    """The states, by what is fastest on a CPU. The method "xla" is a tree."""
    run = matrix_in_tree if method == "xla" else matrix_in_loop
    return run(*operands, **params)


def matrix_across(
    *operands: jax.Array,
    stored: str,
    axis: int,
    reverse: bool,
    method: str,
    axis_name: AxisName,
    **_: Any,
) -> list[jax.Array]:
    """The states of the part of the axis that a device holds."""
    terms = operands[1]
    size, dtype = terms.shape[-2], terms.dtype
    along: dict[str, Any] = {"axis": axis, "reverse": reverse, "axis_name": axis_name}
    if size > LARGEST:
        given, flags = _spread(*operands, stored=stored)

        def composed(left: Any, right: Any) -> tuple[jax.Array, jax.Array]:
            a, b = _composed([*left], [*right])
            return a, b

        pair = jax.tree.structure((0, 0))
        how: dict[str, Any] = {"identity": None, **along}
        states = scan_general_across(composed, given, pair, flags, **how)[1]
        return [states.astype(dtype)]
    leaves, rows = as_leaves(*operands, axis=axis)
    results = primitives.scan(
        leaves,
        rows[0] if rows else None,
        combine=matrices.operator(stored, size, accumulation_dtype(dtype)),
        exclusive=False,
        method=method,
        used=[False] * (len(leaves) - size) + [True] * size,
        **along,
    )
    return [jnp.stack(results, -1)[..., None]]


def matrix_uneven(
    *operands: jax.Array,
    length: int,
    axis: int,
    reverse: bool,
    segmented: bool,
    axis_name: AxisName,
    **params: Any,
) -> list[jax.Array]:
    """The states of a part of an axis of this length."""
    given, flags = parted(operands, segmented)
    if reverse:
        full = extent.full_shape(operands)
        flags = with_end(flags, (*full[:-2], 1, 1), length, axis, axis_name)
    params |= {"axis": axis, "reverse": reverse, "axis_name": axis_name}
    results: list[jax.Array] = matrices.matrix_p.bind(
        *joined(given, flags), segmented=flags is not None, **params
    )
    return results


def recur_numbers(
    elements: Sequence[jax.Array],
    flags: jax.Array | None,
    size: int,
    method: str,
    **along: Any,
) -> list[jax.Array]:
    """The states of elements, which are slopes row by row, then offsets."""
    shape = elements[0].shape
    slopes = jnp.stack(elements[:-size], -1).reshape(*shape, size, size)
    states = matrices.recur(
        slopes,
        jnp.stack(elements[-size:], -1)[..., None],
        None if flags is None else flags[..., None, None],
        stored="full",
        shared=False,
        method="xla" if method == "xla" else "auto",
        **along,
    )
    return matrices.entries(states)


def _spread(
    held: jax.Array, terms: jax.Array, *flags: jax.Array, stored: str
) -> tuple[list[jax.Array], jax.Array | None]:
    """Matrices and terms at full size, as they are combined, and the flags."""
    shape = extent.full_shape([held, terms, *flags])[:-2]
    wide = accumulation_dtype(terms.dtype)
    full = [
        jnp.broadcast_to(x, (*shape, *x.shape[-2:]))
        for x in (matrices.whole(held, stored).astype(wide), terms.astype(wide), *flags)
    ]
    return full[:2], full[2] if flags else None


def _composed(left: list[jax.Array], right: list[jax.Array]) -> list[jax.Array]:
    """The affine map on the left, and then that on the right."""
    (a, b), (c, d) = left, right
    return [_product(c, a), _product(c, b) + d]


def _product(left: jax.Array, right: jax.Array) -> jax.Array:
    """The product of matrices, which a GPU must not round to fewer bits."""
    if left.shape[-1] > BY_SUMS:
        product: jax.Array = jnp.matmul(left, right, precision=lax.Precision.HIGHEST)
        return product
    return jnp.sum(left[..., None] * right[..., None, :, :], -2, dtype=left.dtype)
