"""Plain JAX for CPUs: an axis taken chunk by chunk, so that what lies between stays small.

    ┌─ chunk ─┬─ chunk ─┬─ chunk ─┬─ rest ─┐     each is scanned by `lax.associative_scan`, behind
    └────────►┴────────►┴────────►┴────────┘     the last result of the one before it

``lax.associative_scan`` over a whole axis keeps several arrays of its size, and a recurrence makes
two of the same size for it; by chunks neither is ever whole. A GPU would launch many kernels a
chunk, and plain scans run faster over the whole axis, so this is for derivatives on CPUs, and for
the scans in them that ``lax.associative_scan`` would turn around, shift, or carry flags with.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

from jscan import extent, heads
from jscan.combine import Combine
from jscan.plain.scan import scan_from

ELEMENTS = 2**14
"""Of a chunk, over all dimensions."""

SHORTEST = 64
"""Positions of a chunk, however many elements each has."""

Carry = list[jax.Array] | None
Step = Callable[[Any, int, Carry], tuple[list[jax.Array], list[jax.Array]]]
"""From a chunk's start, its size and what came before it to its results and what comes after."""


def length_of(full: Sequence[int], axis: int) -> int:
    """How long a chunk is: a sixteenth of the axis, or less; the whole axis where that is short."""
    n = full[axis]
    most = ELEMENTS * n // max(math.prod(full), 1)
    return min(n, max(SHORTEST, min(most, n // 16)))


def run(
    step: Step,
    full: Sequence[int],
    dtypes: Sequence[Any],
    *,
    axis: int,
    reverse: bool,
    initial: Carry = None,
) -> list[jax.Array]:
    """Every chunk's results, written one after another into arrays of shape ``full``.

    Without ``initial``, what comes before the first chunk, that is compiled apart from the others.
    """
    n = full[axis]
    length = length_of(full, axis)
    if length >= n:
        return step(0, n, initial)[0]
    count, rest = divmod(n, length)

    def begin(i: Any) -> Any:
        return n - (i + 1) * length if reverse else i * length

    def write(into: Sequence[jax.Array], parts: Sequence[jax.Array], start: Any) -> list[jax.Array]:
        return [
            lax.dynamic_update_slice_in_dim(whole, part, start, axis)
            for whole, part in zip(into, parts, strict=True)
        ]

    def one(i: Any, state: Any) -> Any:
        arrays, carry = state
        parts, carry = step(begin(i), length, carry)
        return write(arrays, parts, begin(i)), carry

    # Every element is written, so that the first value does not matter; but it is to vary over the
    # same mesh axes.
    parts, carry = ([], initial) if initial is not None else step(begin(0), length, None)
    some = [(parts or carry or [])[-1].reshape(-1)[0].astype(d) for d in dtypes]
    arrays = [jnp.broadcast_to(x, tuple(full)) for x in some]
    if parts:
        arrays = write(arrays, parts, begin(0))
    arrays, carry = lax.fori_loop(int(bool(parts)), count, one, (arrays, carry))
    if rest:
        last = 0 if reverse else count * length
        parts, _ = step(last, rest, carry)
        arrays = write(arrays, parts, last)
    return arrays


def window(x: jax.Array, start: Any, size: int, step: int, axis: int) -> jax.Array:
    """Elements ``start + step`` and on, ``size`` of them; ``step`` is -1, 0 or 1.

    Beyond the ends of the axis, the element at that end.
    """
    inside = _slice(x, start, size, axis)
    if step == 0:
        return inside
    last = x.shape[axis] - 1
    if isinstance(start, int):
        edge: Any = max(start - 1, 0) if step < 0 else min(start + size, last)
    else:
        edge = jnp.maximum(start - 1, 0) if step < 0 else jnp.minimum(start + size, last)
    beyond = _slice(x, edge, 1, axis)
    if step < 0:
        return lax.concatenate([beyond, _slice(inside, 0, size - 1, axis)], axis)
    return lax.concatenate([_slice(inside, 1, size - 1, axis), beyond], axis)


def _slice(x: jax.Array, start: Any, size: int, axis: int) -> jax.Array:
    if isinstance(start, int):
        return lax.slice_in_dim(x, start, start + size, axis=axis)
    sliced: jax.Array = lax.dynamic_slice_in_dim(x, start, size, axis)
    return sliced


def restarts(
    flags: jax.Array | None, start: Any, size: int, axis: int, *, reverse: bool
) -> jax.Array | None:
    """Where a scan restarts within a chunk; undefined where it begins."""
    if flags is None:
        return None
    return heads.as_bool(window(flags, start, size, int(reverse), axis))


def scanned(
    fn: Callable[[list[jax.Array], list[jax.Array]], list[jax.Array]],
    leaves: list[jax.Array],
    starts: jax.Array | None,
    carry: Carry,
    *,
    axis: int,
    reverse: bool,
) -> list[jax.Array]:
    """A chunk, scanned behind ``carry``, which comes out as the first in scan order."""
    if carry is not None:
        leaves = [_join(c, x, axis, reverse) for c, x in zip(carry, leaves, strict=True)]
        if starts is not None:
            edge = lax.full_like(_slice(starts, 0, 1, axis), False)
            starts = _join(edge, starts, axis, reverse)
    return scan_from(fn, leaves, starts, axis=axis, reverse=reverse)


def _join(first: jax.Array, rest: jax.Array, axis: int, reverse: bool) -> jax.Array:
    return lax.concatenate([rest, first] if reverse else [first, rest], axis)


def behind(x: jax.Array, size: int, axis: int, *, reverse: bool) -> jax.Array:
    """The last ``size`` elements in scan order."""
    return _slice(x, 0 if reverse else x.shape[axis] - size, size, axis)


def ahead(x: jax.Array, size: int, axis: int, *, reverse: bool) -> jax.Array:
    """The first ``size`` elements in scan order."""
    return behind(x, size, axis, reverse=not reverse)


def scan(
    leaves: Sequence[jax.Array],
    flags: jax.Array | None,
    *,
    combine: Combine,
    axis: int,
    reverse: bool,
    exclusive: bool,
    used: Sequence[bool],
) -> list[jax.Array]:
    """As `scan_in_plain_jax`, chunk by chunk."""
    operands = [*leaves] if flags is None else [*leaves, flags]
    full = extent.full_shape(operands)
    narrow = combine.result_dtypes([x.dtype for x in leaves])
    results = [d for d, is_used in zip(narrow, used, strict=True) if is_used]
    if 0 in full:
        return [jnp.zeros(full, d) for d in results]

    def step(start: Any, size: int, carry: Carry) -> tuple[list[jax.Array], list[jax.Array]]:
        shape = (*full[:axis], size, *full[axis + 1 :])
        parts = [
            jnp.broadcast_to(window(x, start, size, 0, axis), shape).astype(dtype)
            for x, dtype in zip(leaves, combine.dtypes, strict=True)
        ]
        starts = restarts(flags, start, size, axis, reverse=reverse)
        values = scanned(combine, parts, starts, carry, axis=axis, reverse=reverse)
        last = [behind(x, 1, axis, reverse=reverse) for x in values]
        if exclusive:
            identity: Any = combine.identity
            values = [
                _exclusive(x, value, starts, size, axis, reverse=reverse)
                for x, value in zip(values, identity, strict=True)
            ]
        kept = zip(values, narrow, used, strict=True)
        return [behind(x, size, axis, reverse=reverse).astype(d) for x, d, u in kept if u], last

    return run(step, full, results, axis=axis, reverse=reverse)


def _exclusive(
    x: jax.Array, identity: Any, starts: jax.Array | None, size: int, axis: int, *, reverse: bool
) -> jax.Array:
    """A chunk's results a place on: behind what came before it, or at first the identity."""
    value = np.asarray(identity, x.dtype)[()]
    if x.shape[axis] == size:
        first = lax.full_like(_slice(x, 0, 1, axis), value)
        x = _join(first, x, axis, reverse)
    x = ahead(x, size, axis, reverse=reverse)
    return x if starts is None else jnp.where(starts, value, x)
