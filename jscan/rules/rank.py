"""The rules of ``rank_p``."""

from __future__ import annotations

import functools
from typing import Any

import jax
import jax.numpy as jnp
from jax.interpreters import batching

from jscan import extent
from jscan.plain.ranks import rank_in_plain_jax
from jscan.primitives import rank_p
from jscan.rules import base


def rank_abstract_eval(marks: Any, *unmarked: Any, axis: int, size: int, **_: Any) -> list[Any]:
    """int32 in the shape of the marks, ``size`` long along the axis."""
    del unmarked
    shape = (*marks.shape[:axis], size, *marks.shape[axis + 1 :])
    return [marks.update(shape=shape, dtype=jnp.dtype(jnp.int32), weak_type=False)]


def rank_in_kernels(
    marks: jax.Array, *unmarked: jax.Array, interpret: bool, tile: Any, **params: Any
) -> list[jax.Array]:
    """The ranks in a kernel where one can run."""
    axis = params["axis"]
    if 0 in marks.shape or params["size"] == 0:
        return rank_in_plain_jax(marks, *unmarked, **params)
    # Pallas takes seconds to import, and only GPU programs need it.
    from jscan.kernels import ranking

    if marks.shape[axis] >= extent.FAR:
        return rank_in_plain_jax(marks, *unmarked, **params)
    totals = unmarked[0] if unmarked else None
    with base.cut_by(tile):
        return [ranking.rank(marks, totals, interpret=interpret, **params)]


rank_p.def_impl(functools.partial(base.run, rank_p))
rank_p.def_abstract_eval(rank_abstract_eval)
base.register_lowerings(rank_p, rank_in_kernels, rank_in_plain_jax)
batching.primitive_batchers[rank_p] = functools.partial(base.batched, rank_p)
