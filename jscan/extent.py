"""The extent of several operands together: their shape, and the mesh axes they vary over."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Protocol

import jax
import jax.numpy as jnp
from jax import lax
from jax.core import ShapedArray

FAR = 2**31 - 2**20
"""Positions from here on do not fit 32 bits, since a tile may reach past the end of its axis."""


class Shaped(Protocol):
    """An array, or its abstract value."""

    @property
    def shape(self) -> tuple[int, ...]:
        """The sizes of its dimensions."""


def full_shape(operands: Sequence[Shaped]) -> tuple[int, ...]:
    """The shape of operands together, each of which has a dimension in full or as 1."""
    return tuple(
        next((size for size in sizes if size != 1), 1)
        for sizes in zip(*(x.shape for x in operands), strict=True)
    )


def shape_along(axis: int, elements: Shaped, *others: Shaped) -> tuple[int, ...]:
    """The shape of operands of which ``elements`` alone has the ``axis`` that counts."""
    whole = full_shape([elements, *others])
    return (*whole[:axis], elements.shape[axis], *whole[axis + 1 :])


def at_full_size(
    leaves: Sequence[jax.Array], full: tuple[int, ...], beside: Sequence[Shaped] = ()
) -> list[jax.Array]:
    """Leaves that have the shape ``full`` together, or together with those ``beside`` them.

    The first one is broadcast where they would not. They may lack a dimension where ``vmap`` maps
    some other operand alone.
    """
    first, *rest = leaves
    if full_shape([*leaves, *beside]) != full:
        first = jnp.broadcast_to(first, full)
    return [first, *rest]


def shared(leaves: Sequence[jax.Array], beside: Sequence[Shaped] = ()) -> list[jax.Array]:
    """Leaves as they were before the program that is being traced broadcast them.

    A kernel reads in place what would be written out for it. The shape of all, and of what lies
    ``beside`` them, stays: one keeps its own where it would be lost.
    """
    before = [_before_broadcast(x) for x in leaves]
    for i, x in enumerate(leaves):
        if full_shape([*before, *beside]) == full_shape([*leaves, *beside]):
            break
        before[i] = x
    return before


def _before_broadcast(x: jax.Array) -> jax.Array:
    """The operand of the ``broadcast_in_dim`` that made a tracer, with the dimensions of this."""
    # Tracers of jax 0.10 to 0.12 know the equation that they come from; others stay as they are.
    made: Any = getattr(x, "parent", None)
    primitive = getattr(made, "primitive", None)
    if primitive is lax.convert_element_type_p:
        [operand] = made.in_tracers
        before = _before_broadcast(operand)
        return x if before is operand else lax.convert_element_type(before, x.dtype)
    if primitive is not lax.broadcast_in_dim_p:
        return x
    operand, *sizes = made.in_tracers
    if sizes:
        return x
    shape = [1] * x.ndim
    for dimension, size in zip(made.params["broadcast_dimensions"], operand.shape, strict=True):
        shape[dimension] = size
    return lax.reshape(operand, shape)


def whole_along(axis: int, leaves: Sequence[jax.Array], n: int) -> list[jax.Array]:
    """Leaves that are ``n`` long along ``axis``, where one may have an element for all of it."""
    sizes = [(*x.shape[:axis], n, *x.shape[axis + 1 :]) for x in leaves]
    return [jnp.broadcast_to(x, size) for x, size in zip(leaves, sizes, strict=True)]


def vary_alike(operands: Sequence[jax.Array], axis_name: Sequence[str] = ()) -> list[jax.Array]:
    """Operands that vary over all of the shard_map axes that any of them varies over.

    They vary over those in ``axis_name``, too.
    """
    varying = [jax.typeof(x).mat.varying for x in operands]
    # In what XLA partitions by a callback, axes have names and no mesh.
    known = jax.sharding.get_abstract_mesh().manual_axes if axis_name else ()
    every = frozenset(name for name in axis_name if name in known).union(*varying)
    return [
        lax.pcast(x, tuple(sorted(every - axes)), to="varying") if every - axes else x
        for x, axes in zip(operands, varying, strict=True)
    ]


def alike_across(aval: ShapedArray, axis_name: Sequence[str]) -> ShapedArray:
    """The aval of an array that is the same on all devices of these mesh axes."""
    if not aval.mat.varying.intersection(axis_name):
        return aval
    return aval.update(manual_axis_type=aval.mat.update(varying=aval.mat.varying - {*axis_name}))


def check_places(caller: str, name: str, array: Shaped, axis: int) -> None:
    """Raise for an axis so long that places along it do not fit the results."""
    if array.shape[axis] >= 2**31:
        raise ValueError(
            f"{caller}: places are counted in int32, so that an axis may have at most {2**31 - 1} "
            f"elements; got {name} of shape {array.shape} along axis={axis}"
        )
