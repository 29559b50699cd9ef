"""Recurrences whose coefficients are small matrices: their primitive, and what its operands hold.

The primitive's operands have one rank, each dimension full or 1, and end in two dimensions of their
own, which are neither scanned nor divided among devices:

    matrices    (..., k, k), or (..., 2, 1) for rotations, of which the first column is held
    terms       (..., k, 1)
    flags       (..., 1, 1)
"""

from __future__ import annotations

import functools
from collections.abc import Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax
from jax.extend import core

from jscan import extent, meshes, primitives
from jscan.combine import Combine, trace
from jscan.derivatives import recurrence

matrix_p = core.Primitive("jscan_matrix")
"""The recurrence h[t] = A[t] h[t-1] + b[t].

Operands: the matrices, the terms, then head flags where ``segmented``.
Result: the states, shaped like the terms at full size, in their dtype.
Parameters: ``axis``, ``reverse``, ``segmented``, ``method`` and ``axis_name`` as in ``scan_p``; the
way in which matrices are ``stored``, one of `FORMS`; and ``shared``, whether one matrix is that of
all places along the axis, which is then 1 in that operand; and ``turned``, whether the matrix of a
place is that of the place before in scan order, transposed, as gradients want it.
"""
matrix_p.multiple_results = True

FORMS = ("full", "rotation")
"""How matrices are held: all of a matrix, or (c, s) for [[c, -s], [s, c]]."""


def recur(
    matrices: jax.Array,
    terms: jax.Array,
    flags: jax.Array | None,
    *,
    stored: str,
    shared: bool,
    axis: int,
    reverse: bool,
    method: str,
    axis_name: primitives.AxisName,
) -> jax.Array:
    """Bind ``matrix_p``."""
    operands = extent.vary_alike(primitives.joined([matrices, terms], flags), axis_name)
    shape = extent.full_shape(operands)
    settings = primitives.settings_for(shape)
    known = meshes.layout_of(shape[:-1])
    if known is not None:
        settings["layout"] = meshes.Layout(known.mesh, shape, (*known.entries, None))
    [states] = matrix_p.bind(
        *operands,
        stored=stored,
        shared=shared,
        turned=False,
        axis=axis,
        reverse=reverse,
        segmented=flags is not None,
        method=method,
        axis_name=axis_name,
        **settings,
    )
    return states


def whole(matrices: jax.Array, stored: str) -> jax.Array:
    """All entries of matrices."""
    if stored == "full":
        return matrices
    c, s = matrices[..., :1, :], matrices[..., 1:, :]
    return jnp.concatenate([jnp.concatenate([c, -s], -1), jnp.concatenate([s, c], -1)], -2)


def transposed(matrices: jax.Array, stored: str) -> jax.Array:
    """Matrices with their columns as rows."""
    if stored == "full":
        return jnp.swapaxes(matrices, -1, -2)
    return jnp.concatenate([matrices[..., :1, :], -matrices[..., 1:, :]], -2)


def times(matrices: jax.Array, columns: jax.Array) -> jax.Array:
    """Products with columns, of shape (..., k, 1), rounded as the dtype says."""
    rows = jnp.swapaxes(columns, -1, -2)
    return jnp.sum(matrices * rows, -1, keepdims=True, dtype=matrices.dtype)


def entries(matrices: jax.Array) -> list[jax.Array]:
    """What is held of matrices, or columns, number by number: arrays without the last dimensions.

    The order is that of the leaves of `operator`.
    """
    rows, columns = matrices.shape[-2:]
    # XLA reads matrices once for all slices of one shape that it finds first: columns have another.
    if columns == 1:
        return [matrices[..., i, 0] for i in range(rows)]
    flat = matrices.reshape(*matrices.shape[:-2], rows * columns)
    return [flat[..., i] for i in range(rows * columns)]


def operator(stored: str, size: int, dtype: np.dtype) -> Combine:
    """The operator that scans the `entries` of matrices and of terms."""
    return recurrence.affine(size, dtype) if stored == "full" else _rotations(dtype)


@functools.lru_cache(maxsize=64)
def turned_operator(size: int, dtype: np.dtype) -> Combine:
    """The same of whole matrices that are to be transposed: their products are, too."""
    combine, square = operator("full", size, dtype), size * size
    order = [i * size + j for j in range(size) for i in range(size)]

    def turned(leaves: Sequence[jax.Array]) -> list[jax.Array]:
        return [*(leaves[i] for i in order), *leaves[square:]]

    def combined(left: Sequence[jax.Array], right: Sequence[jax.Array]) -> list[jax.Array]:
        return turned(combine(turned(left), turned(right)))

    leaves: list[Any] = [jax.ShapeDtypeStruct((1,), dtype)] * (square + size)
    traced = trace(combined, leaves, jax.tree.structure([0] * len(leaves)), 0, None)
    assert traced is not None
    return traced


@functools.lru_cache(maxsize=16)
def _rotations(dtype: np.dtype) -> Combine:
    """(c, s, x, y): a rotation by products of complex numbers, then a translation."""

    def combine(left: Sequence[jax.Array], right: Sequence[jax.Array]) -> list[jax.Array]:
        c, s = right[:2]
        turned = [_turned(c, s, left[i], left[i + 1]) for i in (0, 2)]
        (c, s), (x, y) = turned
        return [c, s, lax.add(x, right[2]), lax.add(y, right[3])]

    leaves: list[Any] = [jax.ShapeDtypeStruct((1,), dtype)] * 4
    identity = (*np.array([1, 0, 0, 0], dtype),)
    traced = trace(combine, leaves, jax.tree.structure([0] * 4), 0, identity)
    assert traced is not None
    return traced


def _turned(c: jax.Array, s: jax.Array, x: jax.Array, y: jax.Array) -> tuple[jax.Array, jax.Array]:
    products = [lax.mul(a, b) for a, b in ((c, x), (s, y), (s, x), (c, y))]
    return lax.sub(products[0], products[1]), lax.add(products[2], products[3])
