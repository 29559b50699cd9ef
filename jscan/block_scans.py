"""Scans by operators on small blocks: those of the numbers that their elements hold."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, Protocol

import jax
import jax.numpy as jnp
from jax import lax

from jscan import blocks, elements, heads, meshes, primitives
from jscan.arguments.identity import Neutral
from jscan.starts import Start


class Call(Protocol):
    """What is known of a call, as `jscan.dispatch` knows it."""

    @property
    def caller(self) -> str:
        """The public function, which errors name."""

    @property
    def fn(self) -> Any:
        """The operator."""

    @property
    def leaves(self) -> Sequence[jax.Array]:
        """The arrays to combine, of one length along the axis."""

    @property
    def treedef(self) -> jax.tree_util.PyTreeDef:
        """The pytree in which the operator takes them."""

    @property
    def axis(self) -> int:
        """The axis, counted from 0."""

    @property
    def init(self) -> Sequence[jax.Array] | None:
        """The values of a start, or None."""

    @property
    def method(self) -> str:
        """Either "auto" or the name of a strategy."""

    @property
    def axis_name(self) -> tuple[str, ...]:
        """The mesh axes across which the axis goes on."""


def scan(
    call: Call,
    flags: jax.Array | None,
    *,
    reverse: bool,
    starts_with: Sequence[Neutral] | None,
) -> list[jax.Array] | str:
    """The scan by an operator that is taken apart, or why it cannot be.

    Where it ``starts_with`` identities it is the inclusive one, moved on by a place. Flags may lack
    trailing dimensions.
    """
    axis, axis_name = call.axis, call.axis_name
    if any(leaf.size == 0 for leaf in call.leaves):
        return "there are no elements"
    least = 0 if flags is None else flags.ndim
    apart = blocks.taken_apart(call.caller, call.fn, call.leaves, call.treedef, axis, least)
    if isinstance(apart, str):
        return apart
    combine, leading, whole = apart
    if whole is not None and (axis_name or meshes.explicit_mesh(call.leaves) is not None):
        return "kernels combine elements of so many numbers on one device alone"
    along: dict[str, Any] = {"axis": axis, "reverse": reverse}

    def side_by_side(x: jax.Array) -> jax.Array:
        return x.reshape(*x.shape[:leading], math.prod(x.shape[leading:]))

    def run(
        leaves: Sequence[jax.Array],
        flags: jax.Array | None,
        starts_with: Sequence[Neutral] | None,
        init: Sequence[jax.Array] | None,
    ) -> list[jax.Array]:
        before = None
        if init is not None:
            pairs = zip(init, leaves, strict=True)
            values = [
                jnp.broadcast_to(x, (*x.shape[:leading], *leaf.shape[leading:]))
                for x, leaf in pairs
            ]
            before = Start(values)
        marks = None if flags is None else lax.expand_dims(flags, range(flags.ndim, leading + 1))
        scanned = elements.scan(
            [side_by_side(x) for x in leaves],
            marks,
            None if before is None else [side_by_side(x) for x in before.values],
            combine=combine,
            whole=whole,
            method=call.method,
            axis_name=axis_name,
            **along,
        )
        results = [x.reshape(leaf.shape) for x, leaf in zip(scanned, leaves, strict=True)]
        if starts_with is None:
            return results
        starts = None
        if flags is not None:
            flags = lax.expand_dims(flags, range(flags.ndim, leading))
            starts = heads.segment_starts(flags, axis_name=axis_name, **along)
            row = leaves[0].shape[:leading]
            starts = meshes.broadcast(starts, row, jax.typeof(starts).sharding)
        shifted = heads.shift(results, starts, starts_with, axis_name=axis_name, **along)
        if before is None:
            return shifted
        return before.shown(shifted, before.reaches(flags, axis_name=axis_name, **along), **along)

    like = primitives.joined(call.leaves, flags)
    return meshes.automatically(run, call.leaves, flags, starts_with, call.init, like=like)
