"""The argument ``identity``: a pytree like the elements, of scalars or of whole elements."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from jscan.arguments.arrays import as_numbers, kind_of

Neutral = np.generic | jax.Array
"""The identity of one leaf: a NumPy scalar where it is known, else an array of JAX."""


def as_identity(
    caller: str,
    identity: Any,
    treedef: jax.tree_util.PyTreeDef,
    leaves: Sequence[jax.Array],
    dtypes: Sequence[np.dtype],
    axis: int,
) -> list[Neutral]:
    """The leaves of ``identity`` in ``dtypes``, those in which ``leaves`` are combined."""
    try:
        values, structure = jax.tree.flatten(identity)
    except (TypeError, ValueError) as error:  # keys of a dict that have no order
        raise ValueError(f"{caller}: identity must be a pytree; {error}") from error
    if structure != treedef:
        raise ValueError(
            f"{caller}: identity has the structure {structure}; expected that of elems, {treedef}"
        )
    return [
        _of_leaf(caller, value, leaf, dtype, axis)
        for value, leaf, dtype in zip(values, leaves, dtypes, strict=True)
    ]


def _of_leaf(caller: str, value: Any, leaf: jax.Array, dtype: np.dtype, axis: int) -> Neutral:
    given = as_numbers(caller, "identity", value)
    if kind_of(given.dtype) > kind_of(dtype):
        raise TypeError(
            f"{caller}: identity has dtype {given.dtype}, which does not fit elements of "
            f"{leaf.dtype}"
        )
    _check_shape(caller, given.shape, leaf, axis)
    if isinstance(given, jax.core.Tracer):
        return given.astype(dtype)
    concrete: Any = np.asarray(given)
    try:
        with np.errstate(over="ignore"):
            cast = concrete.astype(dtype)
        if jnp.issubdtype(dtype, jnp.integer):
            fits = bool((concrete == cast).all())
        else:
            fits = bool((np.isfinite(cast) | ~np.isfinite(concrete.astype(complex))).all())
    except OverflowError:
        fits = False
    if not fits:
        raise ValueError(
            f"{caller}: identity={value!r} is out of range for elements of {leaf.dtype}"
        )
    return jnp.asarray(cast) if given.shape else cast[()]


def _check_shape(caller: str, shape: tuple[int, ...], leaf: jax.Array, axis: int) -> None:
    """Raise unless ``shape`` broadcasts to that of one element of ``leaf`` along ``axis``."""
    element = leaf.shape[:axis] + leaf.shape[axis + 1 :]
    if len(shape) > len(element) or any(
        size not in (1, full) for size, full in zip(shape[::-1], element[::-1], strict=False)
    ):
        raise ValueError(
            f"{caller}: identity has shape {shape}, which does not broadcast to {element}, the "
            f"shape of one element along axis={axis}"
        )
