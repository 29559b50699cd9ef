"""What is wrong with an argument, said by the argument's name."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

from jscan.combine import accumulation_dtype
from jscan.conversions import as_integer, as_marks, as_numbers, flatten, kind_of
from jscan.segments import Segments, describe, head_flags

METHODS = (
    *("auto", "xla", "block", "lookback", "serial_lookback", "chained"),
    *("reduce_then_scan", "scan_then_propagate"),
)


def check_method(caller: str, method: Any) -> None:
    """Raise unless ``method`` is "auto", "xla" or the name of a strategy."""
    if isinstance(method, str) and method in METHODS:
        return
    kind = ValueError if isinstance(method, str) else TypeError
    raise kind(f"{caller}: method must be one of {', '.join(map(repr, METHODS))}; got {method!r}")


def check_operator(caller: str, fn: Any) -> None:
    """Raise unless ``fn`` can be called."""
    if not callable(fn):
        raise TypeError(f"{caller}: fn must be callable; got {type(fn).__name__}")


def check_axis(caller: str, name: str, axis: Any, shape: tuple[int, ...]) -> int:
    """``axis`` counted from 0."""
    index = as_integer(caller, "axis", axis)
    if not -len(shape) <= index < len(shape):
        raise ValueError(f"{caller}: axis={index} is out of range for {name} of shape {shape}")
    return index % len(shape)


def check_flag(caller: str, name: str, value: Any) -> bool:
    """True or False, or 0 or 1, of Python, NumPy or JAX; a traced one cannot choose the program."""
    if isinstance(value, jax.core.Tracer):
        raise TypeError(f"{caller}: {name} must be a Python bool, not a traced value")
    number = value
    if isinstance(value, (np.generic, np.ndarray, jax.Array)) and value.shape == ():
        discrete = value.dtype == jnp.bool_ or jnp.issubdtype(value.dtype, jnp.integer)
        number = value.item() if discrete else None
    if not (isinstance(number, int) and number in (0, 1)):
        raise TypeError(f"{caller}: {name} must be a Python bool; got {value!r}")
    return bool(number)


def leaves_along(
    caller: str, name: str, tree: Any, axis: Any
) -> tuple[list[jax.Array], jax.tree_util.PyTreeDef, int]:
    """The leaves of a pytree, of one length along ``axis``; its structure; ``axis`` from 0."""
    leaves, treedef = flatten(caller, name, tree)
    index = check_axis(caller, name, axis, leaves[0].shape)
    check_lengths(caller, name, leaves, index)
    return leaves, treedef, index


def check_lengths(caller: str, name: str, leaves: Sequence[jax.Array], axis: int) -> None:
    """Raise unless all leaves have one length along ``axis``."""
    shapes = [leaf.shape for leaf in leaves]
    if any(leaf.ndim <= axis for leaf in leaves) or len({shape[axis] for shape in shapes}) > 1:
        raise ValueError(
            f"{caller}: the arrays of {name} must have one length along axis={axis}; got shapes "
            f"{shapes}"
        )


def flags_for(
    caller: str, segments: Any, leaves: Sequence[jax.Array], axis: int, *, elementwise: bool
) -> jax.Array | None:
    """Head flags with the leaves' rank and 1 in the dimensions that share them.

    For an operator on whole arrays flags may also end early, and cover the leading dimensions of
    every leaf.
    """
    if segments is None:
        return None
    if isinstance(segments, Segments):
        flags = _along(head_flags(segments), axis)
    else:
        flags = jnp.asarray(as_flags(caller, segments))
    return _aligned(caller, segments, flags, leaves, axis, elementwise=elementwise)


def descriptor_for(
    caller: str, segments: Any, leaves: Sequence[jax.Array], axis: int, *, elementwise: bool
) -> tuple[str, jax.Array]:
    """What tells an element's segment, aligned as by `flags_for`, and its kind for ``reduce_p``."""
    if isinstance(segments, Segments):
        kind, array = describe(segments)
        if kind == "offsets":
            rank = leaves[0].ndim if elementwise else axis + 1
            # Offsets tell nothing of how many elements there are; the flags that belong to them do.
            flags = _along(head_flags(segments), axis)
            _aligned(caller, segments, flags, leaves, axis, elementwise=elementwise)
            if array.ndim == 1:
                return kind, lax.expand_dims(array, [*range(axis), *range(axis + 1, rank)])
            return kind, _along(array, axis)
        array = _along(array, axis)
    else:
        kind, array = "flags", jnp.asarray(as_flags(caller, segments))
    return kind, _aligned(caller, segments, array, leaves, axis, elementwise=elementwise)


def _along(rows: jax.Array, axis: int) -> jax.Array:
    """Rows of ``Segments``, which run along their last axis, as they lie beside the leaves."""
    if rows.ndim < 2 or axis >= rows.ndim - 1:
        return rows
    return jnp.moveaxis(rows, -1, axis)


def as_flags(caller: str, segments: Any) -> np.ndarray | jax.Array:
    """Head flags that were given as an array; what is known stays with NumPy."""
    if not (hasattr(segments, "dtype") or isinstance(segments, (list, tuple))):
        raise TypeError(
            f"{caller}: segments must be jscan.Segments or an array of head flags; "
            f"got {type(segments).__name__}"
        )
    flags = as_marks(caller, "segments", segments)
    if flags.ndim == 0:
        raise ValueError(f"{caller}: segments must have at least one dimension; got a scalar")
    return flags


def _aligned(
    caller: str,
    segments: Any,
    flags: jax.Array,
    leaves: Sequence[jax.Array],
    axis: int,
    *,
    elementwise: bool,
) -> jax.Array:
    shape = leaves[0].shape
    rank = len(shape)
    if flags.shape == (shape[axis],):
        return lax.expand_dims(
            flags, [*range(axis), *range(axis + 1, rank if elementwise else axis + 1)]
        )
    if elementwise:
        if flags.shape == shape:
            return flags
    elif flags.ndim > axis and all(leaf.shape[: flags.ndim] == flags.shape for leaf in leaves):
        return flags
    given, expected, where = flags.shape, shape, ""
    if isinstance(segments, Segments) and axis < flags.ndim - 1:
        given, expected = ((*s[:axis], *s[axis + 1 :], s[axis]) for s in (given, expected))
        where = f" with axis={axis} last"
    raise ValueError(
        f"{caller}: segments has shape {given}; expected the shape of what is scanned, "
        f"{expected}{where}, or ({shape[axis]},), the length of axis={axis}"
    )


def identity_leaves(
    caller: str,
    identity: Any,
    treedef: jax.tree_util.PyTreeDef,
    leaves: Sequence[jax.Array],
    axis: int,
) -> list[Any]:
    """The leaves of ``identity`` in the accumulation dtypes: NumPy scalars where concrete."""
    try:
        values, structure = jax.tree.flatten(identity)
    except (TypeError, ValueError) as error:  # keys of a dict that have no order
        raise ValueError(f"{caller}: identity must be a pytree; {error}") from error
    if structure != treedef:
        raise ValueError(
            f"{caller}: identity has the structure {structure}; expected that of elems, {treedef}"
        )
    return [
        _as_identity(caller, value, leaf, axis) for value, leaf in zip(values, leaves, strict=True)
    ]


def _as_identity(caller: str, value: Any, leaf: jax.Array, axis: int) -> Any:
    dtype = accumulation_dtype(leaf.dtype)
    given = as_numbers(caller, "identity", value)
    if kind_of(given.dtype) > kind_of(dtype):
        raise TypeError(
            f"{caller}: identity has dtype {given.dtype}, which does not fit elements of "
            f"{leaf.dtype}"
        )
    element = leaf.shape[:axis] + leaf.shape[axis + 1 :]
    shape = given.shape
    if len(shape) > len(element) or any(
        size not in (1, full) for size, full in zip(shape[::-1], element[::-1], strict=False)
    ):
        raise ValueError(
            f"{caller}: identity has shape {shape}, which does not broadcast to {element}, the "
            f"shape of one element along axis={axis}"
        )
    if isinstance(given, jax.core.Tracer):
        return given.astype(dtype)
    concrete = np.asarray(given)
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
    return jnp.asarray(cast) if shape else cast[()]
