"""Loops to differentiate: jax.lax.scan and sorts of jax.numpy, one element after another."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
from jax import lax


def heads(
    flags: Any, n: int, *, axis: int, reverse: bool, continues: bool = False, xp: Any = jnp
) -> Any:
    """Where a walk along the leading axis starts afresh, given head flags in memory order.

    `xp` is jax.numpy or numpy.
    """
    if flags is None:
        marked = xp.zeros((n,), bool)
    else:
        marked = xp.asarray(flags).astype(bool)
        marked = xp.moveaxis(marked, axis, 0) if marked.ndim > 1 else marked
    edge = xp.ones((1, *marked.shape[1:]), bool)
    if continues:
        edge = xp.zeros_like(edge) if reverse else marked[:1]
    return xp.concatenate([marked[1:], edge] if reverse else [edge, marked[1:]])


def choose(condition: Any, a: Any, b: Any) -> Any:
    """Selects between slices; the condition's axes are the leading ones of the slices."""
    ones = jnp.ndim(a) - condition.ndim
    condition = condition.reshape(condition.shape + (1,) * ones)
    return jnp.where(jnp.broadcast_to(condition, jnp.shape(a)), a, b)


def scan(
    fn: Callable[[Any, Any], Any],
    elems: Any,
    *,
    axis: int = 0,
    reverse: bool = False,
    exclusive: bool = False,
    identity: Any = None,
    init: Any = None,
    flags: Any = None,
) -> Any:
    """Scans a pytree of arrays; fn combines two pytrees of slices."""
    xs = jax.tree.map(lambda x: jnp.moveaxis(x, axis, 0), elems)
    n = jax.tree.leaves(xs)[0].shape[0]
    first = jax.tree.map(lambda x: x[-1 if reverse else 0], xs)
    start = first
    if exclusive:
        start = jax.tree.map(lambda x, value: jnp.full_like(x, value), first, identity)

    def step(carry: Any, given: tuple[Any, Any]) -> tuple[Any, Any]:
        x, fresh = given
        joined = fn(carry, x)
        after = jax.tree.map(lambda a, b: choose(fresh, a, b), x, joined)
        before = jax.tree.map(lambda a, b: choose(fresh, a, b), start, carry)
        return after, before if exclusive else after

    if init is not None:
        first = jax.tree.map(lambda x, y: jnp.broadcast_to(y, x.shape).astype(x.dtype), first, init)
    fresh = heads(flags, n, axis=axis, reverse=reverse, continues=init is not None)
    _, ys = lax.scan(step, first, (xs, fresh), reverse=reverse)
    return jax.tree.map(lambda y: jnp.moveaxis(y, 0, axis), ys)


def reduce(
    fn: Callable[[Any, Any], Any], elems: Any, numbers: Any, count: int, identity: Any, axis: int
) -> Any:
    """Reduces each segment; `numbers` is the segment of each element, (n,) or of the rows too."""
    xs = jax.tree.map(lambda x: jnp.moveaxis(x, axis, 0), elems)
    numbers = jnp.moveaxis(numbers, axis, 0) if jnp.ndim(numbers) > 1 else jnp.asarray(numbers)
    totals = jax.tree.map(
        lambda x, value: jnp.full((count, *x.shape[1:]), value, x.dtype), xs, identity
    )

    def step(carry: Any, given: tuple[Any, Any]) -> tuple[Any, None]:
        totals, begun = carry
        x, number = given
        places = jnp.arange(count).reshape((count,) + (1,) * number.ndim)
        mine = places == number[None]
        spread = jax.tree.map(lambda x, y: jnp.broadcast_to(x[None], y.shape), x, totals)
        joined = fn(jax.tree.map(lambda y, x: choose(begun, y, x), totals, spread), spread)
        after = jax.tree.map(
            lambda y, x, j: choose(mine, choose(begun, j, x), y), totals, spread, joined
        )
        return (after, begun | mine), None

    begun = jnp.zeros((count, *numbers.shape[1:]), bool)
    (totals, _), _ = lax.scan(step, (totals, begun), (xs, numbers))
    return jax.tree.map(lambda y: jnp.moveaxis(y, 0, axis), totals)


def recurrence(
    a: Any,
    b: Any,
    h0: Any,
    *,
    axis: int,
    reverse: bool = False,
    exclusive: bool = False,
    flags: Any = None,
) -> Any:
    """h[t] = a[t] h[t-1] + b[t]; a segment that is not the first starts with b[t]."""
    a = jnp.broadcast_to(a.reshape(a.shape + (1,) * (b.ndim - a.ndim)), b.shape)
    a, b = jnp.moveaxis(a, axis, 0), jnp.moveaxis(b, axis, 0)
    fresh = heads(flags, b.shape[0], axis=axis, reverse=reverse)
    end = -1 if reverse else 0
    fresh = fresh.at[end].set(False)

    def step(h: Any, given: tuple[Any, Any, Any]) -> tuple[Any, Any]:
        a, b, fresh = given
        before = choose(fresh, jnp.zeros_like(b), h)
        h = b + a * before
        return h, before if exclusive else h

    start = jnp.zeros_like(b[0]) if h0 is None else jnp.broadcast_to(h0, b[0].shape)
    _, hs = lax.scan(step, start, (a, b, fresh), reverse=reverse)
    return jnp.moveaxis(hs, 0, axis)
