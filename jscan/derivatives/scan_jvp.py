"""The tangents of ``scan_p``: recurrences of `components`, and of a sum another sum."""

from __future__ import annotations

import functools
from collections.abc import Mapping, Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from jscan import bits, compensation, extent
from jscan.combine import Combine
from jscan.derivatives import recurrence
from jscan.derivatives.components import Component, components
from jscan.derivatives.tangents import Tangent, is_moving, jvp_of, zero_of
from jscan.heads import segment_starts, shift
from jscan.plain.across import scan_across
from jscan.plain.chunks import Chunk
from jscan.plain.recurrence import reader
from jscan.plain.scan import scan_plainly
from jscan.primitives import AxisName, joined, scan_p, tangent
from jscan.starts import Scanned, Start, first_of, of_scan, with_first

Leaves = Mapping[int, jax.Array]
"""Arrays by the numbers of the leaves that they belong to; there may be none of a leaf."""


def scan_jvp(
    primals: Sequence[jax.Array], tangents: Sequence[Tangent], **params: Any
) -> tuple[list[jax.Array], list[Tangent]]:
    """Results, and their tangents as recurrences over those of the leaves that have one."""
    combine: Combine = params["combine"]
    coming = of_scan(tangents, **params)
    moving = _moving(coming.leaves)
    at_start = _moving(coming.values)
    wanted = [i for i, is_used in enumerate(params["used"]) if is_used]
    if combine.is_sum:
        values, slopes = _of_sum(primals, moving, at_start, wanted, **params)
    elif compensation.adds_pairs(combine) and wanted == [0]:
        values, slopes = _of_pairs(primals, moving, at_start, **params)
    else:
        if params["started"]:  # the first element gets a tangent of its own
            primals, tangents = _written_out(primals, tangents, **params)
            moving = _moving(of_scan(tangents, **params).leaves)
        given = of_scan(primals, **params)
        dtypes = combine.result_dtypes([x.dtype for x in given.leaves])
        pairs = enumerate(zip(dtypes, combine.dtypes, strict=True))
        # Exclusive results are another element's, and narrow ones are rounded.
        exact = [i for i, (d, wide) in pairs if d == wide and not params["exclusive"]]
        n = extent.full_shape(primals)[params["axis"]]
        far = n >= 2**31  # recurrences count positions in 32 bits
        moved = _moved(combine, moving, at_start) if params["started"] else [*moving]
        parts = None if far else components(combine, wanted, moved, exact)
        if parts is None:
            form = scan_across if params["axis_name"] else scan_plainly
            return jvp_of(form, primals, tangents, **params)
        if params["started"]:
            states = [i for part in parts for i in part.states if i in moved]
            zeros = {i: _or_zero(None, given.leaves[i]) for i in moved if i not in moving}
            moving = {**zeros, **_behind_start(given, moving, at_start, states, **params)}
        values, slopes = _of_recurrences(primals, moving, at_start, wanted, parts, **params)
    results = [values[i] for i in wanted]
    return results, [
        slopes[i] if i in slopes else zero_of(x) for i, x in zip(wanted, results, strict=True)
    ]


def _written_out(
    primals: Sequence[jax.Array], tangents: Sequence[Tangent], **params: Any
) -> tuple[list[jax.Array], list[Tangent]]:
    """Primals and tangents in which no leaf has one element for all of the axis."""
    axis, count = params["axis"], params["combine"].num_leaves
    n = extent.full_shape(primals[: count + params["segmented"]])[axis]
    wide, slopes = [*primals], [*tangents]
    for i in [i for i in range(count) if primals[i].shape[axis] != n]:
        [wide[i]] = extent.whole_along(axis, [primals[i]], n)
        slope = tangents[i]
        if is_moving(slope):
            [slopes[i]] = extent.whole_along(axis, [slope], n)
        else:
            slopes[i] = zero_of(wide[i])
    return wide, slopes


def _moving(tangents: Sequence[Tangent]) -> Leaves:
    return {i: t for i, t in enumerate(tangents) if is_moving(t)}


def _of_sum(
    primals: Sequence[jax.Array],
    moving: Leaves,
    at_start: Leaves,
    wanted: Sequence[int],
    **params: Any,
) -> tuple[Leaves, Leaves]:
    """The results of a sum, and the sums of the tangents."""
    combine: Combine = params["combine"]
    values = dict(zip(wanted, scan_p.bind(*primals, **params), strict=True))
    summed = [i for i in wanted if i in moving or i in at_start]
    if not summed:
        return values, {}
    given = of_scan(primals, **params)
    full = extent.full_shape([values[i] for i in summed])
    flags = joined([], given.flags)
    coming = [_or_zero(moving.get(i), given.leaves[i]) for i in summed]
    start = [_or_zero(at_start.get(i), given.start[i]) for i in summed if at_start]
    marks = [bits.beside(x, params["kind"], params["axis"]) for x in flags]
    coming = extent.at_full_size(coming, full, [*marks, *start])
    part = combine if len(summed) == combine.num_leaves else combine.restrict(summed)
    every = {**params, "combine": part, "used": (True,) * len(summed), "started": bool(start)}
    return values, dict(zip(summed, scan_p.bind(*coming, *flags, *start, **every), strict=True))


def _or_zero(tangent: jax.Array | None, like: jax.Array) -> jax.Array:
    """A tangent, or zeros where there is none."""
    if tangent is not None:
        return tangent
    [zeros, _] = extent.vary_alike([jnp.zeros(like.shape, like.dtype), like])
    return zeros


def _moved(combine: Combine, moving: Leaves, at_start: Leaves) -> list[int]:
    """The leaves that have a tangent where the first elements are those behind the start."""
    own = moving.keys() | at_start.keys()
    inexact = [i for i, d in enumerate(combine.dtypes) if jnp.issubdtype(d, jnp.inexact)]
    return sorted(own | {i for i in inexact if combine.dependencies[i] & own})


def _behind_start(
    given: Scanned, moving: Leaves, at_start: Leaves, states: Sequence[int], **params: Any
) -> Leaves:
    """The tangents of elements of which the first one comes behind the start: f(start, x[0]).

    What follows is then a scan without a start. Only ``states`` take in the first element's own
    tangent.
    """
    combine: Combine = params["combine"]
    along: dict[str, Any] = {"axis": params["axis"], "reverse": params["reverse"]}
    start = Start(given.values, given.open)
    reaches = start.reaches(given.flags, axis_name=params["axis_name"], **along)
    first = [first_of(x, **along) for x in given.leaves]
    flags = [] if given.flags is None else [first_of(given.flags, **along)]
    row = extent.full_shape([*first, *given.start, *flags])
    count = combine.num_leaves

    def behind(*rows: jax.Array) -> list[jax.Array]:
        values = list(given.values)
        elements = list(first)
        for i, x in zip(numbers, rows, strict=True):
            if i < count:
                elements[i] = x
            else:
                values[i - count] = x
        wide = [
            jnp.broadcast_to(x, row).astype(d)
            for x, d in zip(elements, combine.dtypes, strict=True)
        ]
        fn = functools.partial(combine, differentiable=True)
        found = Start(values).joined(fn, wide, reaches, **along)
        return [found[i] for i in states]

    numbers = [*moving, *(count + i for i in at_start)]
    primals = [first[i] for i in moving] + [given.values[i] for i in at_start]
    tangents = [first_of(t, **along) for t in moving.values()] + [*at_start.values()]
    _, slopes = jax.jvp(behind, primals, tangents)
    changed = dict(moving)
    for i, slope in zip(states, slopes, strict=True):
        if slope.dtype != jax.dtypes.float0:
            whole = _or_zero(moving.get(i), given.leaves[i])
            shape = (*row[: along["axis"]], whole.shape[along["axis"]], *row[along["axis"] + 1 :])
            whole, slope = extent.vary_alike([jnp.broadcast_to(whole, shape), slope])
            changed[i] = with_first(whole, slope.astype(whole.dtype), **along)
    return changed


def _of_pairs(
    primals: Sequence[jax.Array], moving: Leaves, at_start: Leaves, **params: Any
) -> tuple[Leaves, Leaves]:
    """The sums of pairs, and those of the tangents, which are what is lost plays no part in."""
    values = {0: scan_p.bind(*primals, **params)[0]}
    if 0 not in moving and 0 not in at_start:
        return values, {}
    given = of_scan(primals, **params)
    flags, start = joined([], given.flags), [at_start[0]] if 0 in at_start else []
    leaf = _or_zero(moving.get(0), given.leaves[0])
    marks = [bits.beside(x, params["kind"], params["axis"]) for x in flags]
    [leaf] = extent.at_full_size([leaf], values[0].shape, [*marks, *start])
    every = {**params, "combine": recurrence.sum_of(leaf.dtype), "used": (True,)}
    every["started"] = bool(start)
    return values, {0: scan_p.bind(leaf, *flags, *start, **every)[0]}


def _of_recurrences(
    primals: Sequence[jax.Array],
    moving: Leaves,
    at_start: Leaves,
    wanted: Sequence[int],
    parts: Sequence[Component],
    **params: Any,
) -> tuple[Leaves, Leaves]:
    """The results, and the tangents of those that have one, a component after the other."""
    given = of_scan(primals, **params)
    leaves, flags = given.leaves, given.flags
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
        if at_start:
            start = Start([_or_zero(at_start.get(i), given.values[i]) for i in slopes], given.open)
            along = {name: params[name] for name in ("axis", "reverse")}
            reaches = start.reaches(flags, axis_name=params["axis_name"], **along)
            moved = start.shown(moved, reaches, **along)
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
        known = extent.whole_along(chunk.axis, known, chunk.size)
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
