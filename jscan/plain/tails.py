"""What is open at the end of a segmented axis, from a scan of its last elements.

Where each row restarts among these, no more is read.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Callable, Sequence
from typing import Any, TypeAlias

import jax
import jax.numpy as jnp
from jax import lax

from jscan import extent, heads
from jscan.combine import Combine
from jscan.plain.scan import scan_in_plain_jax
from jscan.starts import first_of

AT_ONCE = 2**20
"""Elements at the end of a part in which a restart is looked for."""

Scan: TypeAlias = Callable[[list[jax.Array], jax.Array], list[jax.Array]]
"""An inclusive segmented scan of leaves with head flags."""


def tail_in_plain_jax(
    *operands: jax.Array, combine: Combine, axis: int, reverse: bool, **_: Any
) -> list[jax.Array]:
    """The results of ``tail_p``."""
    *leaves, flags = operands
    along: dict[str, Any] = {"combine": combine, "axis": axis, "reverse": reverse}
    used = (True,) * len(leaves)

    def scan(leaves: list[jax.Array], flags: jax.Array) -> list[jax.Array]:
        how: dict[str, Any] = {"exclusive": False, "segmented": True, "used": used, **along}
        return scan_in_plain_jax(*leaves, flags, **how)

    return tail_by(scan, leaves, flags, **along)


def tail_by(
    scan: Scan,
    leaves: Sequence[jax.Array],
    flags: jax.Array,
    *,
    combine: Combine,
    axis: int,
    reverse: bool,
) -> list[jax.Array]:
    """The results of ``tail_p`` by a ``scan``, which is asked for no more than it takes."""
    marked = heads.as_bool(flags)
    n, shape = marked.shape[axis], extent.full_shape([*leaves, marked])
    chunk = max(1, min(n, AT_ONCE * n // math.prod(shape)))

    def within(size: int) -> list[jax.Array]:
        begin = 0 if reverse else n - size
        cut = functools.partial(
            lax.slice_in_dim, start_index=begin, limit_index=begin + size, axis=axis
        )
        wide = [cut(x).astype(d) for x, d in zip(leaves, combine.dtypes, strict=True)]
        scanned = scan(wide, cut(flags))
        last = [first_of(x, axis=axis, reverse=not reverse) for x in scanned]
        return [*last, restarts(cut(marked), axis=axis, reverse=reverse)]

    if chunk == n:
        return within(n)
    begin = 0 if reverse else n - chunk
    end = lax.slice_in_dim(marked, begin, begin + chunk, axis=axis)
    soon = restarts(end, axis=axis, reverse=reverse)
    near, whole = functools.partial(within, chunk), functools.partial(within, n)
    found: list[jax.Array] = lax.cond(jnp.all(soon), near, whole)
    return found


def restarts(marked: jax.Array, *, axis: int, reverse: bool) -> jax.Array:
    """Whether a scan restarts inside of a part with these head flags."""
    # From the other end it restarts behind a head, and where the part begins is none.
    rest = lax.slice_in_dim(marked, 1, None, axis=axis) if reverse else marked
    return jnp.any(rest, axis, keepdims=True)
