"""Scans by operators on small blocks: those of the numbers that their elements hold."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import jax
from jax import lax

from jscan import blocks, heads, meshes, primitives
from jscan.arguments.identity import Neutral
from jscan.blocks import Apart


def scan(
    leaves: Sequence[jax.Array],
    apart: Apart,
    flags: jax.Array | None,
    *,
    axis: int,
    reverse: bool,
    starts_with: Sequence[Neutral] | None,
    method: str,
    axis_name: tuple[str, ...],
) -> list[jax.Array]:
    """The scan by an operator that is taken apart.

    Where it ``starts_with`` identities it is the inclusive one, moved on by a place. Flags may lack
    trailing dimensions.
    """
    along: dict[str, Any] = {"axis": axis, "reverse": reverse, "axis_name": axis_name}

    def run(
        leaves: Sequence[jax.Array],
        flags: jax.Array | None,
        starts_with: Sequence[Neutral] | None,
    ) -> list[jax.Array]:
        if flags is not None:
            flags = lax.expand_dims(flags, range(flags.ndim, apart.leading))
        numbers = primitives.scan(
            [number for x in leaves for number in blocks.entries(x, apart.leading)],
            flags,
            combine=apart.combine,
            exclusive=False,
            method=method,
            **along,
        )
        results = blocks.joined(numbers, [x.shape for x in leaves])
        if starts_with is None:
            return results
        starts = None
        if flags is not None:
            starts = heads.segment_starts(flags, **along)
            leading = leaves[0].shape[: apart.leading]
            starts = meshes.broadcast(starts, leading, jax.typeof(starts).sharding)
        return heads.shift(results, starts, starts_with, **along)

    like = [*leaves] if flags is None else [*leaves, flags]
    return meshes.automatically(run, leaves, flags, starts_with, like=like)
