"""The extent of several operands together: shape, and sharding by meshes of explicit axes."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import jax
from jax import lax
from jax.sharding import NamedSharding, PartitionSpec

FAR = 2**31 - 2**20
"""Positions from here on do not fit 32 bits, for a tile may reach past the end."""


def _reshard(x: jax.Array, sharding: NamedSharding) -> jax.Array:
    moved: jax.Array = jax.sharding.reshard(x, sharding)
    return moved


def broadcast(x: jax.Array, shape: tuple[int, ...], sharding: NamedSharding) -> jax.Array:
    """``x`` with its dimensions of size 1 spread to ``shape``, sharded as ``sharding`` says."""
    if x.shape != shape:
        dimensions = tuple(range(len(shape)))
        placement = sharding if is_explicit(sharding) else None
        return lax.broadcast_in_dim(x, shape, dimensions, out_sharding=placement)
    return _reshard(x, sharding) if jax.typeof(x).sharding.spec != sharding.spec else x


def gather(x: jax.Array, axis: int) -> jax.Array:
    """``x`` with ``axis`` whole on every device; a sharded axis cannot be sliced."""
    sharding = jax.typeof(x).sharding
    if sharding.spec[axis] is None:
        return x
    entries = [None if d == axis else sharding.spec[d] for d in range(x.ndim)]
    return _reshard(x, NamedSharding(sharding.mesh, PartitionSpec(*entries)))


def replicate(x: jax.Array) -> jax.Array:
    """``x`` whole on every device, where a mesh axis of explicit type shards it."""
    sharding = jax.typeof(x).sharding
    if not is_explicit(sharding):
        return x
    return _reshard(x, NamedSharding(sharding.mesh, PartitionSpec(*[None] * x.ndim)))


def place_like(x: jax.Array, like: jax.Array) -> jax.Array:
    """``x`` sharded as ``like`` is, where ``like`` says."""
    sharding = jax.typeof(like).sharding
    if is_explicit(sharding) and jax.typeof(x).sharding.spec != sharding.spec:
        return _reshard(x, sharding)
    return x


def is_explicit(sharding: NamedSharding) -> bool:
    """Whether a dimension is sharded over a mesh axis of explicit type."""
    return any(entry is not None for entry in sharding.spec)


def full_extent(avals: Sequence[Any]) -> tuple[tuple[int, ...], NamedSharding]:
    """The shape and sharding across operands that have each dimension in full or as 1.

    A dimension is sharded as in the first operand that has it in full and sharded.
    """
    shape = full_shape(avals)
    sharding: NamedSharding = avals[0].sharding
    specs = [aval.sharding.spec for aval in avals]
    entries = [
        next((s[d] for a, s in zip(avals, specs, strict=True) if a.shape[d] == n and s[d]), None)
        for d, n in enumerate(shape)
    ]
    if any(entry is not None for entry in entries):
        sharding = NamedSharding(sharding.mesh, PartitionSpec(*entries))
    return shape, sharding


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
