"""Checks of recurrences, step by step: each element follows from the one before it.

Operands are whole numbers, and so are results, all exact in float32. A result that fits the
equation at every step then is the answer, bit for bit, and no other scan is needed to tell.
"""

from __future__ import annotations

import jax
import jax.numpy as jnp
from jax import lax

from benchmarks.cases.answers import Leaves, differing, shifted
from benchmarks.cases.case import Check, call


def _behind(x: jax.Array, axis: int) -> jax.Array:
    """The element behind each one, and 0 behind the last."""
    return lax.rev(shifted(lax.rev(x, (axis,)), axis), (axis,))


@Check
def positions(found: jax.Array, heads: jax.Array) -> jax.Array:
    """1 at heads and where rows begin, and one more than before elsewhere."""
    return differing(found, jnp.where(heads != 0, 1, shifted(found, 1) + 1))


def recurrence(axis: int = 0) -> Check:
    """h[t] = a[t] h[t-1] + b[t]."""
    return Check(call(_recurrence, axis))


def _recurrence(axis: int, h: jax.Array, a: jax.Array, b: jax.Array) -> jax.Array:
    return differing(h, a * shifted(h, axis) + b)


def recurrence_and_gradient(axis: int = 0) -> Check:
    """The same; λ[t] = h̄[t] + a[t+1] λ[t+1], b̄ = λ, and ā[t] = λ[t] h[t-1], summed if shared."""
    return Check(call(_recurrence_and_gradient, axis))


def _recurrence_and_gradient(
    axis: int, result: Leaves, a: jax.Array, b: jax.Array, cotangent: jax.Array
) -> jax.Array:
    h, _, back = result
    before = shifted(h, axis)
    shared = [d for d, size in enumerate(a.shape) if size != h.shape[d]]
    by_slope = jnp.sum(back * before, shared, keepdims=True)
    return differing(result, (a * before + b, by_slope, cotangent + _behind(a * back, axis)))


@Check
def matrix_recurrence_and_gradient(
    result: Leaves, matrices: jax.Array, terms: jax.Array, cotangent: jax.Array
) -> jax.Array:
    """λ[t] = h̄[t] + A[t+1]ᵀ λ[t+1], b̄ = λ, and Ā[t] = λ[t] h[t-1]ᵀ.

    Sums of a few products, written out: a product of matrices on a GPU may round its operands.
    """
    h, _, back = result
    before = shifted(h, 0)[:, None, :]
    column = back[:, :, None]
    states = jnp.sum(matrices * before, -1) + terms
    wanted = cotangent + _behind(jnp.sum(matrices * column, -2), 0)
    return differing(result, (states, column * before, wanted))


def products(found: jax.Array, x: jax.Array, *first: jax.Array) -> jax.Array:
    """How many numbers differ from y[t] = y[t-1] x[t], with what comes first, or nothing."""
    [start] = first or (jnp.eye(x.shape[-1]),)
    before = jnp.concatenate([start[None], found[:-1]])
    return differing(found, jnp.sum(before[..., None] * x[:, None], -2))


def sums(found: jax.Array, x: jax.Array, *first: jax.Array) -> jax.Array:
    """How many differ from y[t] = y[t-1] + x[t]."""
    [start] = first or (jnp.zeros((), x.dtype),)
    before = jnp.concatenate([start[None], found[:-1]])
    return differing(found, before + x)
