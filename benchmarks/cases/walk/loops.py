"""`lax.scan` in the place of `lax.associative_scan`, which is the faster one on a CPU."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from typing import Any

import jax
import jax.numpy as jnp
from jax import lax

from benchmarks.cases.case import Call, Operation
from benchmarks.cases.walk import operations


def with_loops(peers: Mapping[str, Operation]) -> dict[str, Operation]:
    """Counterparts, and for each tree the loop that does the same."""
    loops = {name: _looped(peer) for name, peer in peers.items() if isinstance(peer, Call)}
    return {
        **peers,
        **{name.replace("associative_scan", "scan"): loop for name, loop in loops.items() if loop},
    }


def _looped(tree: Call) -> Call | None:
    """The call with a loop in it, if there was a tree in it."""
    if tree.function is operations.lax_scan:
        return dataclasses.replace(tree, function=scan)
    if tree.function is operations.lax_recurrence:
        return dataclasses.replace(tree, function=recurrence)
    told = [_looped(part) or part if isinstance(part, Call) else part for part in tree.told]
    return None if told == [*tree.told] else dataclasses.replace(tree, told=tuple(told))


def scan(operator: Operation, leaves: int, axis: int, reverse: bool, *arrays: jax.Array) -> Any:
    """The same as `operations.lax_scan`; half precision is carried in float32."""
    given = arrays[:leaves]
    rows = [jnp.moveaxis(operations.widened(x), axis, 0) for x in given]
    flags = arrays[leaves].astype(jnp.bool_) if len(arrays) > leaves else None
    if flags is not None:
        flags = jnp.moveaxis(flags, axis, 0) if flags.ndim == given[0].ndim else flags
        # From the other end a segment begins behind a head.
        flags = jnp.roll(flags, -1, 0) if reverse else flags
    tree = jax.tree.structure((0,) * leaves if leaves > 1 else 0)

    def step(carry: list[jax.Array], read: tuple[list[jax.Array], Any]) -> tuple[Any, Any]:
        elements, head = read
        sides = (jax.tree.unflatten(tree, side) for side in (carry, elements))
        pairs = zip(jax.tree.leaves(operator(*sides)), elements, strict=True)
        found = [new.astype(x.dtype) for new, x in pairs]
        if head is not None:
            head = head.reshape(*head.shape, *(1,) * (elements[0].ndim - head.ndim))
            found = [jnp.where(head, x, y) for x, y in zip(elements, found, strict=True)]
        return found, found

    first = -1 if reverse else 0
    rest = slice(0, -1) if reverse else slice(1, None)
    start = [x[first] for x in rows]
    later = None if flags is None else flags[rest]
    _, found = lax.scan(step, start, ([x[rest] for x in rows], later), reverse=reverse)
    ends = [(y, s[None]) if reverse else (s[None], y) for y, s in zip(found, start, strict=True)]
    results = [
        jnp.moveaxis(jnp.concatenate(parts), 0, axis).astype(x.dtype)
        for parts, x in zip(ends, given, strict=True)
    ]
    return jax.tree.unflatten(tree, results)


def recurrence(axis: int, reverse: bool, a: jax.Array, b: jax.Array) -> jax.Array:
    """The same as `operations.lax_recurrence`; half precision is carried in float32."""
    a = jnp.broadcast_to(lax.expand_dims(a, range(a.ndim, b.ndim)), b.shape)
    rows = [jnp.moveaxis(operations.widened(x), axis, 0) for x in (a, b)]

    def step(h: jax.Array, read: list[jax.Array]) -> tuple[jax.Array, jax.Array]:
        slope, offset = read
        h = slope * h + offset
        return h, h

    _, found = lax.scan(step, jnp.zeros_like(rows[1][0]), rows, reverse=reverse)
    return jnp.moveaxis(found, 0, axis).astype(b.dtype)
