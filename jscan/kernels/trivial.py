"""Scans where there is nothing to launch: axes of length 0 or 1, and empty batches."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import jax
import jax.numpy as jnp

from jscan.combine import Combine
from jscan.starts import Start


def scan(
    leaves: Sequence[jax.Array],
    flags: jax.Array | None,
    start: Start | None,
    full: tuple[int, ...],
    *,
    combine: Combine,
    axis: int,
    reverse: bool,
    exclusive: bool,
    used: Sequence[bool],
) -> list[jax.Array]:
    """The results of such a scan, in the full shape."""
    kept = [k for k, u in enumerate(used) if u]
    dtypes = combine.result_dtypes([leaf.dtype for leaf in leaves])
    where: dict[str, Any] = {"axis": axis, "reverse": reverse}
    identity: Any = combine.identity
    if start is not None and 0 not in full:
        reaches = start.reaches(flags, **where)
        if exclusive:
            empty = [jnp.full(full, identity[k], d) for k, d in enumerate(combine.dtypes)]
            results = start.shown(empty, reaches, **where)
        else:
            pairs = zip(leaves, combine.dtypes, strict=True)
            wide = [jnp.broadcast_to(x, full).astype(d) for x, d in pairs]
            results = start.joined(combine, wide, reaches, **where)
        return [results[k].astype(dtypes[k]) for k in kept]
    if exclusive:
        return [jnp.full(full, identity[k], dtypes[k]) for k in kept]
    return [jnp.broadcast_to(leaves[k], full).astype(dtypes[k]) for k in kept]
