"""The arguments ``identity`` and ``init``: pytrees like the elements, of scalars or of elements."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

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
    return _like(caller, "identity", identity, treedef, leaves, dtypes, axis)


def as_init(
    caller: str,
    init: Any,
    treedef: jax.tree_util.PyTreeDef,
    leaves: Sequence[jax.Array],
    dtypes: Sequence[np.dtype],
    axis: int,
) -> list[jax.Array] | None:
    """The leaves of ``init`` in ``dtypes``, those in which ``leaves`` are combined.

    They have the rank of these and size 1 along the axis. None if there is none.
    """
    if init is None:
        return None
    values = _like(caller, "init", init, treedef, leaves, dtypes, axis)
    return [
        in_row(jnp.asarray(value), leaf.ndim, axis)
        for value, leaf in zip(values, leaves, strict=True)
    ]


def in_row(element: jax.Array, rank: int, axis: int) -> jax.Array:
    """One element as an array of this rank, of size 1 along the axis and where it is shared."""
    whole = lax.expand_dims(element, range(rank - 1 - element.ndim))
    return lax.expand_dims(whole, (axis,))


def _like(
    caller: str,
    name: str,
    given: Any,
    treedef: jax.tree_util.PyTreeDef,
    leaves: Sequence[jax.Array],
    dtypes: Sequence[np.dtype],
    axis: int,
) -> list[Neutral]:
    try:
        values, structure = jax.tree.flatten(given)
    except (TypeError, ValueError) as error:  # keys of a dict that have no order
        raise ValueError(f"{caller}: {name} must be a pytree; {error}") from error
    if structure != treedef:
        raise ValueError(
            f"{caller}: {name} has the structure {structure}; expected that of elems, {treedef}"
        )
    return [
        _of_leaf(caller, name, value, leaf, dtype, axis)
        for value, leaf, dtype in zip(values, leaves, dtypes, strict=True)
    ]


def _of_leaf(
    caller: str, name: str, value: Any, leaf: jax.Array, dtype: np.dtype, axis: int
) -> Neutral:
    given = as_numbers(caller, name, value)
    if kind_of(given.dtype) > kind_of(dtype):
        raise TypeError(
            f"{caller}: {name} has dtype {given.dtype}, which does not fit elements of {leaf.dtype}"
        )
    _check_shape(caller, name, given.shape, leaf, axis)
    # What is on a device as an initial value is what another scan has left there.
    if isinstance(given, jax.Array if name == "init" else jax.core.Tracer):
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
        raise ValueError(f"{caller}: {name}={value!r} is out of range for elements of {leaf.dtype}")
    return jnp.asarray(cast) if given.shape else cast[()]


def _check_shape(
    caller: str, name: str, shape: tuple[int, ...], leaf: jax.Array, axis: int
) -> None:
    """Raise unless ``shape`` broadcasts to that of one element of ``leaf`` along ``axis``."""
    element = leaf.shape[:axis] + leaf.shape[axis + 1 :]
    if len(shape) > len(element) or any(
        size not in (1, full) for size, full in zip(shape[::-1], element[::-1], strict=False)
    ):
        raise ValueError(
            f"{caller}: {name} has shape {shape}, which does not broadcast to {element}, the "
            f"shape of one element along axis={axis}"
        )
