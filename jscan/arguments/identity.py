"""The arguments ``identity`` and ``init``: pytrees like the elements, of scalars or of elements."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax
from jax.tree_util import keystr

from jscan.arguments.arrays import as_numbers, is_array_of_numbers, kind_of
from jscan.arguments.descriptors import is_known

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


def as_known(
    caller: str, init: Any, elems: Any, combined_in: Callable[[np.dtype], np.dtype]
) -> Any:
    """``init`` whose known values are in the dtypes ``combined_in`` which ``elems`` are combined.

    A compiled call can look at no value, so that they are looked at before. What does not fit
    ``elems`` otherwise stays as it is, and is refused later.
    """
    if init is None:
        return init
    try:
        given, structure = jax.tree_util.tree_flatten_with_path(init)
        leaves: list[Any] = jax.tree.leaves(elems)
        expected: jax.tree_util.PyTreeDef = jax.tree.structure(elems)
    except (TypeError, ValueError):  # keys of a dict that have no order
        return init
    if expected != structure:
        return init
    values = []
    for (path, value), leaf in zip(given, leaves, strict=True):
        if not (is_array_of_numbers(leaf) and _is_known_number(value)):
            values.append(value)
            continue
        name, dtype = f"init{keystr(path)}", combined_in(jax.dtypes.canonicalize_dtype(leaf.dtype))
        known = np.asarray(as_numbers(caller, name, value))
        fits = kind_of(known.dtype) <= kind_of(dtype)
        values.append(_cast(caller, name, known, leaf.dtype, dtype) if fits else value)
    return jax.tree.unflatten(structure, values)


def _is_known_number(value: Any) -> bool:
    """Whether it is of Python or NumPy, or what JAX makes of a Python number, without a dtype."""
    if isinstance(value, jax.Array):
        return bool(jax.typeof(value).weak_type) and is_known(value)
    return isinstance(value, (bool, int, float, complex, np.generic, np.ndarray))


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
        values, structure = jax.tree_util.tree_flatten_with_path(given)
    except (TypeError, ValueError) as error:  # keys of a dict that have no order
        raise ValueError(f"{caller}: {name} must be a pytree; {error}") from error
    if structure != treedef:
        one = treedef == jax.tree.structure(0)
        expected = "one number or one array" if one else f"that of elems, {treedef}"
        raise ValueError(
            f"{caller}: {name} has the structure {structure}, of {len(values)} leaves; expected "
            f"{expected}"
        )
    return [
        _of_leaf(caller, name, keystr(path), value, leaf, dtype, axis)
        for (path, value), leaf, dtype in zip(values, leaves, dtypes, strict=True)
    ]


def _of_leaf(
    caller: str,
    argument: str,
    path: str,
    value: Any,
    leaf: jax.Array,
    dtype: np.dtype,
    axis: int,
) -> Neutral:
    name = f"{argument}{path}"
    given = as_numbers(caller, name, value)
    if kind_of(given.dtype) > kind_of(dtype):
        raise TypeError(
            f"{caller}: {name} has dtype {given.dtype}, which does not fit elements of {leaf.dtype}"
        )
    _check_shape(caller, name, given.shape, leaf, axis)
    # What is on a device as an initial value is what another scan has left there.
    if not isinstance(given, jax.Array if argument == "init" else jax.core.Tracer):
        cast: Any = _cast(caller, name, np.asarray(given), leaf.dtype, dtype)
        return jnp.asarray(cast) if given.shape else cast[()]
    if argument == "init" and not (jax.typeof(given).weak_type or _promotes(given.dtype, dtype)):
        raise TypeError(
            f"{caller}: {name} has dtype {given.dtype}, which does not promote to {dtype}, in "
            f"which elements of {leaf.dtype} are combined; pass {name}.astype({dtype.name!r})"
        )
    return jnp.asarray(given, dtype)


def _promotes(given: np.dtype, dtype: np.dtype) -> bool:
    """Whether JAX takes an operand of the one dtype to the other where it combines the two."""
    if given == dtype:
        return True
    try:
        with jax.numpy_dtype_promotion("standard"):
            return bool(jnp.promote_types(given, dtype) == dtype)
    except (TypeError, ValueError):  # narrow dtypes have no promotion
        return False


def _cast(caller: str, name: str, concrete: Any, elements: np.dtype, dtype: np.dtype) -> np.ndarray:
    """Known values in ``dtype``, in which those of dtype ``elements`` are combined."""
    try:
        with np.errstate(over="ignore"):
            cast: np.ndarray = concrete.astype(dtype)
        if jnp.issubdtype(dtype, jnp.integer):
            fits = bool((concrete == cast).all())
        else:
            fits = bool((np.isfinite(cast) | ~np.isfinite(concrete.astype(complex))).all())
    except OverflowError:
        fits = False
    if not fits:
        shown = concrete if concrete.shape else concrete[()]
        raise ValueError(f"{caller}: {name}={shown} is out of range for elements of {elements}")
    return cast


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
