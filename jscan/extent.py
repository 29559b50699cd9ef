"""The extent of several operands together: their shape, and the mesh axes they vary over."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import jax
from jax import lax

FAR = 2**31 - 2**20
"""Positions from here on do not fit 32 bits, for a tile may reach past the end."""


def full_shape(operands: Sequence[Any]) -> tuple[int, ...]:
    """The shape across operands that have each dimension in full or as 1."""
    return tuple(
        next((size for size in sizes if size != 1), 1)
        for sizes in zip(*(x.shape for x in operands), strict=True)
    )


def vary_alike(operands: Sequence[jax.Array]) -> list[jax.Array]:
    """Make every operand vary over the shard_map axes that any of them varies over."""
    varying = [jax.typeof(x).mat.varying for x in operands]
    every = frozenset().union(*varying)
    return [
        lax.pcast(x, tuple(sorted(every - axes)), to="varying") if every - axes else x
        for x, axes in zip(operands, varying, strict=True)
    ]


def check_places(caller: str, name: str, array: jax.Array, axis: int) -> None:
    """Raise for an axis so long that places along it do not fit the results."""
    if array.shape[axis] >= 2**31:
        raise ValueError(
            f"{caller}: places are counted in int32, so that an axis may have at most {2**31 - 1} "
            f"elements; got {name} of shape {array.shape} along axis={axis}"
        )
