"""Arguments that are pytrees of arrays: their leaves, which have one length along an axis."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import jax

from jscan.arguments.arrays import Array, as_array, is_sparse
from jscan.arguments.scalars import as_axis


def as_leaves(caller: str, name: str, tree: Any) -> tuple[list[jax.Array], jax.tree_util.PyTreeDef]:
    """The leaves of a pytree as arrays, and its structure.

    A Python scalar is refused, as by ``lax.associative_scan``.
    """
    try:
        values, treedef = jax.tree.flatten(tree, is_leaf=is_sparse)
    except (TypeError, ValueError) as error:  # keys of a dict that have no order
        raise ValueError(f"{caller}: {name} must be a pytree of arrays; {error}") from error
    if not values:
        raise ValueError(f"{caller}: {name} must be a pytree with at least one array; got none")
    for value in values:
        if not hasattr(value, "shape") or not hasattr(value, "dtype"):
            raise TypeError(f"{caller}: {name} must be a pytree of arrays; got a leaf {value!r}")
    return [as_array(caller, name, value) for value in values], treedef


def as_leaves_along(
    caller: str, name: str, tree: Any, axis: Any
) -> tuple[list[jax.Array], jax.tree_util.PyTreeDef, int]:
    """The leaves of a pytree, of one length along ``axis``; its structure; ``axis`` from 0."""
    leaves, treedef = as_leaves(caller, name, tree)
    index = as_axis(caller, name, axis, leaves[0].shape)
    _check_lengths(caller, name, leaves, index)
    return leaves, treedef, index


def check_along(
    caller: str, name: str, array: Array, leaves: Sequence[jax.Array], axis: int
) -> None:
    """Raise unless an array has the shape of all leaves of ``x``, or is one row for all of them."""
    n = leaves[0].shape[axis]
    if array.shape != (n,) and any(leaf.shape != array.shape for leaf in leaves):
        raise ValueError(
            f"{caller}: {name} has shape {array.shape}; expected ({n},), the length of axis={axis},"
            f" or the shape of every leaf of x, which is {leaves[0].shape}"
        )


def _check_lengths(caller: str, name: str, leaves: Sequence[jax.Array], axis: int) -> None:
    """Raise unless all leaves have one length along ``axis``."""
    shapes = [leaf.shape for leaf in leaves]
    if any(leaf.ndim <= axis for leaf in leaves) or len({shape[axis] for shape in shapes}) > 1:
        raise ValueError(
            f"{caller}: the arrays of {name} must have one length along axis={axis}; got shapes "
            f"{shapes}"
        )
