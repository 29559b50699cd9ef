"""The tangents of ``scan_p``: recurrences of `components`, and for sums another sum."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax.interpreters import ad

from jscan import extent, heads
from jscan.combine import Combine
from jscan.derivatives import recurrence
from jscan.derivatives.components import Component, components
from jscan.derivatives.tangents import is_moving, jvp_of
from jscan.plain.recurrence import Reader
from jscan.plain.scan import scan_in_plain_jax
from jscan.primitives import scan_p, tangent


def scan_jvp(
    primals: Sequence[jax.Array], tangents: Sequence[Any], **params: Any
) -> tuple[list[jax.Array], list[Any]]:
    """Results, and their tangents as recurrences over those of the leaves that have one."""
    combine: Combine = params["combine"]
    count = combine.num_leaves
    moving = {i: t for i, t in enumerate(tangents[:count]) if is_moving(t)}
    used = params["used"]
    wanted = [i for i, is_used in enumerate(used) if is_used]
    plain = primals[0].shape[params["axis"]] >= 2**31  # recurrences count positions in 32 bits
    if combine.is_sum:
        values, slope = _sums(primals, moving, wanted, **params)
    else:
        dtypes = combine.result_dtypes([x.dtype for x in primals[:count]])
        pairs = enumerate(zip(dtypes, combine.dtypes, strict=True))
        # Exclusive results are another element's, and narrow ones are rounded.
        exact = [i for i, (d, wide) in pairs if d == wide and not params["exclusive"]]
        parts = None if plain else components(combine, wanted, list(moving), exact)
        if parts is None:
            return jvp_of(scan_in_plain_jax, primals, tangents, **params)
        values, slope = _recurrences(primals, moving, wanted, parts, **params)
    zeros = {i: ad.Zero(jax.typeof(values[i]).to_tangent_aval()) for i in wanted}
    return [values[i] for i in wanted], [slope.get(i, zeros[i]) for i in wanted]


Leaves = dict[int, Any]
"""What there is of each leaf."""


def _sums(
    primals: Sequence[jax.Array], moving: Leaves, wanted: list[int], **params: Any
) -> tuple[Leaves, Leaves]:
    """A sum's tangent is the sum of tangents."""
    combine: Combine = params["combine"]
    values = dict(zip(wanted, scan_p.bind(*primals, **params), strict=True))
    summed = [i for i in wanted if i in moving]
    if not summed:
        return values, {}
    flags = primals[combine.num_leaves :]
    leaves = at_full_size([moving[i] for i in summed], [values[i] for i in summed], flags)
    part = combine if len(summed) == combine.num_leaves else combine.restrict(summed)
    every = {**params, "combine": part, "used": (True,) * len(summed)}
    return values, dict(zip(summed, scan_p.bind(*leaves, *flags, **every), strict=True))


def _recurrences(
    primals: Sequence[jax.Array],
    moving: Leaves,
    wanted: list[int],
    parts: Sequence[Component],
    **params: Any,
) -> tuple[Leaves, Leaves]:
    combine: Combine = params["combine"]
    leaves = primals[: combine.num_leaves]
    flags = primals[combine.num_leaves] if params["segmented"] else None
    # The recurrences read results, of leaves too that nobody asked for.
    needed = {*wanted}.union(*(part.results for part in parts))
    kept = tuple(i in needed for i in range(combine.num_leaves))
    compact = params["reverse"] or params["exclusive"] or params["segmented"]
    how = {**params, "used": kept, "compact": compact}
    values = dict(zip(sorted(needed), scan_p.bind(*primals, **how), strict=True))
    solved: Leaves = {}
    for part in parts:
        solved.update(_solve(part, leaves, values, moving, solved, flags, **params))
    slope = {i: solved[i] for i in wanted if i in solved}
    if params["exclusive"] and slope:
        moved = _before(list(slope.values()), flags, **params)
        slope = dict(zip(slope, moved, strict=True))
    return values, slope


def _solve(
    part: Component,
    leaves: Sequence[jax.Array],
    values: Leaves,
    moving: Leaves,
    solved: Leaves,
    flags: jax.Array | None,
    **params: Any,
) -> Leaves:
    """The tangents of the states of one component."""
    known = [leaves[i] if when == "here" else values[i] for when, i in part.reads]
    coming = [moving[i] for i in part.tangents]
    if part.others:
        coming += _before([solved[i] for i in part.others], flags, **params)
    like = next(iter(values.values()))
    dtypes = params["combine"].result_dtypes([x.dtype for x in leaves])
    widths = tuple(dtypes[i] for i in part.states)
    how = {name: params[name] for name in ("axis", "reverse", "exclusive")}
    described = [] if flags is None else [flags]
    if 0 in like.shape:
        results = [jnp.zeros(like.shape, d) for d in widths]
    elif recurrence.is_recurrent(part):
        [first, *rest] = at_full_size(coming, [like], [*known, *described])
        results = tangent(
            known,
            [first, *rest],
            flags,
            component=part,
            transposed=False,
            dtypes=widths,
            method=params["method"],
            interpret=params["interpret"],
            tile=params["tile"],
            **how,
        )
    else:
        read = Reader(known, flags, like.shape, component=part, **how)
        given = [jnp.broadcast_to(x, like.shape) for x in coming]
        one = recurrence.Recurrence(part, read, transposed=False, differentiable=True)
        pairs = zip(one.elements(given)[-part.size :], widths, strict=True)
        results = [x.astype(d) for x, d in pairs]
    return dict(zip(part.states, results, strict=True))


def _before(arrays: list[Any], flags: jax.Array | None, **params: Any) -> list[jax.Array]:
    """The previous element of each, and zero at starts."""
    axis, reverse = params["axis"], params["reverse"]
    starts = None
    if flags is not None:
        starts = heads.segment_starts(flags, axis=axis, reverse=reverse)
    zeros = [np.zeros((), x.dtype)[()] for x in arrays]
    return heads.shift(arrays, starts, zeros, axis=axis, reverse=reverse)


def at_full_size(
    arrays: Sequence[jax.Array], like: Sequence[jax.Array], others: Sequence[jax.Array]
) -> list[jax.Array]:
    """The arrays, of which the first is spread where the size of a batch would be lost."""
    full = extent.full_shape(like)
    first, *rest = arrays
    if extent.full_shape([first, *rest, *others]) != full:
        first = jnp.broadcast_to(first, full)
    return [first, *rest]
