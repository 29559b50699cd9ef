"""The tangents of ``scan_p``: recurrences of `components`, and of a sum another sum."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from jscan import compensation, extent
from jscan.combine import Combine
from jscan.derivatives import recurrence
from jscan.derivatives.components import Component, components
from jscan.derivatives.tangents import Tangent, is_moving, jvp_of, zero_of
from jscan.heads import segment_starts, shift
from jscan.plain.across import scan_across
from jscan.plain.chunks import Chunk
from jscan.plain.recurrence import reader
from jscan.plain.scan import scan_in_plain_jax
from jscan.primitives import AxisName, joined, parted, scan_p, tangent

Leaves = Mapping[int, jax.Array]
"""Arrays by the numbers of the leaves that they belong to; there may be none of a leaf."""


def scan_jvp(
    primals: Sequence[jax.Array], tangents: Sequence[Tangent], **params: Any
) -> tuple[list[jax.Array], list[Tangent]]:
    """Results, and their tangents as recurrences over those of the leaves that have one."""
    combine: Combine = params["combine"]
    count = combine.num_leaves
    moving: Leaves = {i: t for i, t in enumerate(tangents[:count]) if is_moving(t)}
    wanted = [i for i, is_used in enumerate(params["used"]) if is_used]
    if combine.is_sum:
        values, slopes = _of_sum(primals, moving, wanted, **params)
    elif compensation.adds_pairs(combine) and wanted == [0]:
        values, slopes = _of_pairs(primals, moving, **params)
    else:
        dtypes = combine.result_dtypes([x.dtype for x in primals[:count]])
        pairs = enumerate(zip(dtypes, combine.dtypes, strict=True))
        # Exclusive results are another element's, and narrow ones are rounded.
        exact = [i for i, (d, wide) in pairs if d == wide and not params["exclusive"]]
        far = primals[0].shape[params["axis"]] >= 2**31  # recurrences count positions in 32 bits
        parts = None if far else components(combine, wanted, list(moving), exact)
        if parts is None:
            form = scan_across if params["axis_name"] else scan_in_plain_jax
            return jvp_of(form, primals, tangents, **params)
        values, slopes = _of_recurrences(primals, moving, wanted, parts, **params)
    results = [values[i] for i in wanted]
    return results, [
        slopes[i] if i in slopes else zero_of(x) for i, x in zip(wanted, results, strict=True)
    ]


def _of_sum(
    primals: Sequence[jax.Array], moving: Leaves, wanted: Sequence[int], **params: Any
) -> tuple[Leaves, Leaves]:
    """The results of a sum, and the sums of the tangents."""
    combine: Combine = params["combine"]
    values = dict(zip(wanted, scan_p.bind(*primals, **params), strict=True))
    summed = [i for i in wanted if i in moving]
    if not summed:
        return values, {}
    flags = primals[combine.num_leaves :]
    full = extent.full_shape([values[i] for i in summed])
    leaves = extent.at_full_size([moving[i] for i in summed], full, flags)
    part = combine if len(summed) == combine.num_leaves else combine.restrict(summed)
    every = {**params, "combine": part, "used": (True,) * len(summed)}
    return values, dict(zip(summed, scan_p.bind(*leaves, *flags, **every), strict=True))


def _of_pairs(primals: Sequence[jax.Array], moving: Leaves, **params: Any) -> tuple[Leaves, Leaves]:
    """The sums of pairs, and those of the tangents, which are what is lost plays no part in."""
    values = {0: scan_p.bind(*primals, **params)[0]}
    if 0 not in moving:
        return values, {}
    flags = primals[params["combine"].num_leaves :]
    [leaf] = extent.at_full_size([moving[0]], values[0].shape, flags)
    every = {**params, "combine": recurrence.sum_of(leaf.dtype), "used": (True,)}
    return values, {0: scan_p.bind(leaf, *flags, **every)[0]}


def _of_recurrences(
    primals: Sequence[jax.Array],
    moving: Leaves,
    wanted: Sequence[int],
    parts: Sequence[Component],
    **params: Any,
) -> tuple[Leaves, Leaves]:
    """The results, and the tangents of those that have one, a component after the other."""
    leaves, flags = parted(primals, params["segmented"])
    # The recurrences read results, also of leaves that nobody asked for.
    needed = {*wanted}.union(*(part.results for part in parts))
    kept = tuple(i in needed for i in range(len(leaves)))
    compact = params["reverse"] or params["exclusive"] or params["segmented"]
    how = {**params, "used": kept, "compact": compact}
    values = dict(zip(sorted(needed), scan_p.bind(*primals, **how), strict=True))
    solved: dict[int, jax.Array] = {}
    for part in parts:
        solved.update(_solve(part, leaves, values, moving, solved, flags, **params))
    slopes = {i: solved[i] for i in wanted if i in solved}
    if params["exclusive"] and slopes:
        moved = _before(list(slopes.values()), flags, **params)
        slopes = dict(zip(slopes, moved, strict=True))
    return values, slopes


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
    full = next(iter(values.values())).shape
    dtypes = params["combine"].result_dtypes([x.dtype for x in leaves])
    widths = tuple(dtypes[i] for i in part.states)
    how = {name: params[name] for name in ("reverse", "exclusive")}
    if 0 in full:
        results = [jnp.zeros(full, d) for d in widths]
    elif recurrence.is_recurrent(part):
        results = tangent(
            known,
            extent.at_full_size(coming, full, joined(known, flags)),
            flags,
            component=part,
            transposed=False,
            dtypes=widths,
            axis=params["axis"],
            method=params["method"],
            axis_name=params["axis_name"],
            **how,
        )
    else:
        chunk = Chunk(0, full[params["axis"]], params["axis"], params["reverse"])
        across = {"axis_name": params["axis_name"]}
        read = reader(known, flags, full=full, component=part, chunk=chunk, **across, **how)
        given = [jnp.broadcast_to(x, full) for x in coming]
        direct = recurrence.Recurrence(part, read, transposed=False, differentiable=True)
        pairs = zip(direct.elements(given)[-part.size :], widths, strict=True)
        results = [x.astype(d) for x, d in pairs]
    return dict(zip(part.states, results, strict=True))


def _before(
    arrays: Sequence[jax.Array],
    flags: jax.Array | None,
    *,
    axis: int,
    reverse: bool,
    axis_name: AxisName,
    **_: Any,
) -> list[jax.Array]:
    """The previous element of each, and zero at starts."""
    along: dict[str, Any] = {"axis": axis, "reverse": reverse, "axis_name": axis_name}
    starts = None if flags is None else segment_starts(flags, **along)
    zeros: list[Any] = [np.zeros((), x.dtype)[()] for x in arrays]
    return shift(arrays, starts, zeros, **along)
