"""The primitives, functions that bind most of them, and the settings that are read then.

Others are in `jscan.matrices` and `jscan.multiplication`. Their rules are in `jscan.rules`, which
the package imports. Nothing here knows what a primitive is compiled to or how it is differentiated,
so that a rule can import this module and bind primitives itself.

The operands of a primitive have one rank. Each of their dimensions is full size, or 1 where it is
shared, which is never copied. Along the axis that is worked along a leaf may be shared, too, where
another one or its flags have it in full: of ``scan_p`` and ``tangent_p``, and of ``reduce_p``
where it is a number that the operator reads. Static parameters that are read from the context in
which a primitive is bound:

    interpret   whether its kernels run interpreted, on any platform
    tile        how its kernels cut their operands; None leaves the choice to `jscan.kernels`.
                ``locate_p`` has no such parameter
    engine      the name of the engine that builds them, None for the default: see `jscan.engines`
"""

from __future__ import annotations

import contextlib
from collections.abc import Hashable, Iterator, Mapping, Sequence
from typing import Any, TypeAlias, TypeVar

import jax
import numpy as np
from jax.extend import core

from jscan import bits, engines, extent, meshes
from jscan.bits import Marks, kind_of
from jscan.combine import Combine
from jscan.derivatives.components import Component
from jscan.starts import Start

T = TypeVar("T")

AxisName: TypeAlias = tuple[str, ...]
"""The names of mesh axes, the slowest first."""


def _primitive(name: str) -> core.Primitive:
    primitive = core.Primitive(name)
    primitive.multiple_results = True
    return primitive


scan_p = _primitive("jscan_scan")
"""Every scan.

Operands: the K leaves, then head flags where ``segmented``; then, where it is ``started``, the
values of a `jscan.starts.Start` and, if that may be closed, whether it is open.
Results: the leaves that ``used`` names, at full size, in the dtypes of the leaves.
Parameters:

    combine     the operator, as data
    axis        the axis that is scanned
    reverse     whether the scan runs from the end
    exclusive   whether results hold what comes before their elements
    segmented   whether there are head flags
    kind        of these: "flags"; "runs", of ids; "bits", in words, "offsets", or "ends", offsets
                without the first: these three have an axis of their own
    used        for each leaf, whether its result is wanted
    method      "auto", "xla" or the name of a strategy
    compact     whether it may take longer on a CPU to keep little besides its results
    started     whether there is a start. One that may be closed is bound by lowerings alone
    axis_name   the mesh axes across which the axis goes on, inside of ``shard_map``; () if it ends

and those of every primitive, which the context says in which it is bound:

    interpret   whether kernels run interpreted
    tile        how kernels cut the operands, or None
    engine      the name of the engine that builds kernels, or None
    layout      how operands lie in a mesh of Explicit axes, or None
"""

reduce_p = _primitive("jscan_reduce")
"""Every reduction.

Operands: the K leaves, then the descriptor of segments unless ``kind`` is "whole".
Results: the leaves, with ``num_segments`` elements along the axis.
Parameters: ``combine``, ``axis``, ``method`` and ``axis_name`` as in ``scan_p``, ``num_segments``,
``exact``, whether results have the dtypes in which leaves are combined, ``neutral``, whether the
identity may be combined with elements, and the ``kind`` of descriptor:

    ids      the segment of each element is its id, and what lies outside [0, num_segments) is
             dropped. Equal ids must be neighbours
    flags    head flags; segments are numbered from 0
    runs     a segment is a run of equal values; segments are numbered from 0
    offsets  int32, one more than there are segments: where each begins and the last one ends; from
             0, never decreasing. What lies behind the last is a segment of its own
    whole    one segment, no descriptor
"""

tail_p = _primitive("jscan_tail")
"""What is open at the end of a segmented axis, for a scan that goes on from there.

Operands: the K leaves, then head flags.
Results: what the elements since the last restart combine to, in the dtypes in which leaves are
combined; then, in the shape of the flags, whether a scan restarts inside of the axis. All are of
size 1 along the axis. A restart is a head or, from the other end, an element behind which there is
one: neither begins with the axis itself.
Parameters: ``combine``, ``axis``, ``reverse`` and ``method`` as in ``scan_p``. Only lowerings bind
it: it has no derivative.
"""

tangent_p = _primitive("jscan_tangent")
"""The recurrence of a `jscan.derivatives.components.Component`, forwards or transposed.

Operands: the values and elements that the component's matrices read, then what comes in, in which
the recurrence is linear, then head flags where ``segmented``. Forwards, tangents come in and those
of the states are the results. Transposed, cotangents of the states come in and those of the
tangents are the results.
Results: at full size, in ``dtypes``.
Parameters: the ``component``; ``axis``, ``reverse``, ``exclusive``, ``segmented``, ``method`` and
``axis_name`` of the scan whose derivative it is; ``transposed``; and ``dtypes``. Where the scan is
exclusive, the values among the operands are those of the position before already.
"""

rank_p = _primitive("jscan_rank")
"""Marked elements, counted along an axis.

Operands: the marks and, for "order", how many elements of each row are unmarked, in the marks'
shape with 1 along the axis.
Results: int32, ``size`` long along the ``axis``, of "heads" bool; then, where ``counted``, how many
elements are marked, of size 1 along it. ``emit`` says what the first holds:

    heads     whether each element is marked
    before    how many marked elements come before each element (behind it, if ``reverse``)
    number    how many marked elements there are up to each element, less one
    places    the places of the marked elements, in order, then ``fill``
    order     the places of the unmarked elements, then those of the marked ones

``axis_name`` is as in ``scan_p``; only "before" and "number" of a mask go on across mesh axes.
``source`` says what is marked: where a "mask" is not zero; where head "flags" are not zero, and the
first element in any case; where a value begins one of the "runs" of equal values, among which what
is not a number equals what is not a number.
"""

move_p = _primitive("jscan_move")
"""Elements moved to where their marks send them, in one pass: what a gather by ``rank_p`` gives.

Operands: the marks; the elements; then of size 1 along the ``axis``, for "places" what fills, for
"order" how many elements of each row are unmarked, as for ``rank_p``, and for "parts" where the
second and the third begin.
Results: the elements, ``size`` long along the ``axis``; then, where ``placed``, the places of the
marked ones, and n behind the last; then, where ``counted``, how many are marked, as of ``rank_p``.
``emit`` says what the first holds:

    places    the marked elements, in order, then what fills
    order     the unmarked elements, then the marked ones
    parts     the elements whose mark is negative, then those whose is zero, then the others

``source`` is as in ``rank_p``; of an "order" it is "mask", and of "parts" "signs". It is linear in
what moves and fills.
"""

locate_p = _primitive("jscan_locate")
"""The segment that each position is in, from where segments begin.

Operand: int32 of shape ``(..., count + 1)``, which begins with 0 along its last axis and does not
decrease.
Result: ``n`` elements along that axis. ``emit`` says what they are: "ids", the segment of each
position in int32, ``count`` at and behind the last bound; or "flags", head flags as booleans.
"""

spread_p = _primitive("jscan_spread")
"""The value of its segment for each element: the transpose of a sum by segments.

Operands: values, one for each segment along the axis, and the number of each element's segment.
Result: the values of elements, zero where a number is out of range.
Parameters: ``axis``; and ``axis_name``, which lowerings alone bind.
"""

collect_p = _primitive("jscan_collect")
"""Totals of segments whose elements lie anywhere, or, to ``emit`` "elements", sums' transpose.

Operands: the values of elements, or of segments to emit elements; then the arrays of a plan: the
segment of each element, their order by segment, and the segments in this order.
Results and parameters: as of ``reduce_p`` and of ``spread_p``. Each device has the whole axis.
"""

histogram_p = _primitive("jscan_histogram")
"""Keys, counted.

Operand: the keys, integers.
Result: int32, ``num_keys`` long along the ``axis``: how often each of the numbers below it is among
the keys of a row. Others are not counted.
Parameters: ``axis_name``, which lowerings alone bind.
"""

# Both are in the keys of JAX's caches, so that a function traced in another context is traced anew.
_interpret = jax.make_user_context(False)
_tile = jax.make_user_context(None)


@contextlib.contextmanager
def interpreted() -> Iterator[None]:
    """Makes primitives that are bound in this context run their kernels interpreted."""
    with _interpret(True):
        yield


@contextlib.contextmanager
def tiled(tile: Hashable) -> Iterator[None]:
    """Makes kernels of primitives that are bound in this context cut operands by ``tile``.

    It is a `Tuning` of `jscan.kernels`, or None for the choice of the kernels.
    """
    with _tile(tile):
        yield


@contextlib.contextmanager
def settings_of(params: Mapping[str, Any]) -> Iterator[None]:
    """Binds primitives in this context with the settings of one that has these parameters."""
    layout = params["layout"]
    layouts = None if layout is None else [layout]
    with (
        _interpret(params["interpret"]),
        _tile(params.get("tile")),
        engines.named(params["engine"]),
        meshes.known(layouts),
    ):
        yield


def settings_for(shape: tuple[int, ...]) -> dict[str, Any]:
    """The parameters of a primitive that its context says, for operands of this shape."""
    layout = meshes.layout_of(shape)
    return {
        "interpret": _interpret.value,
        "tile": _tile.value,
        "engine": engines.name_in_context(),
        "layout": layout,
    }


def joined(leaves: Sequence[jax.Array], described: Marks | None) -> list[jax.Array]:
    """Operands from leaves and what describes their segments, if anything does."""
    return [*leaves, *jax.tree.leaves(described)]


def parted(operands: Sequence[T], is_described: bool) -> tuple[list[T], T | None]:
    """The leaves among operands, and what describes their segments, if anything does."""
    return ([*operands[:-1]], operands[-1]) if is_described else ([*operands], None)


def scan(
    leaves: Sequence[jax.Array],
    flags: Marks | None,
    *,
    combine: Combine,
    axis: int,
    reverse: bool,
    exclusive: bool,
    method: str,
    start: Start | None = None,
    axis_name: AxisName = (),
    used: Sequence[bool] | None = None,
) -> list[jax.Array]:
    """Bind ``scan_p``, for all results or those that are ``used``."""
    if exclusive and combine.identity is None:
        raise ValueError("an exclusive scan needs an operator with an identity")
    kind, begins = kind_of(flags), [] if start is None else start.arrays
    settings = settings_for(extent.full_shape([*joined(leaves, flags), *begins]))
    if settings["layout"] is None:
        beside = [bits.beside(x, kind, axis) for x in jax.tree.leaves(flags)]
        leaves = extent.shared(leaves, beside)
    given = [*joined(leaves, flags), *begins]
    operands = extent.vary_alike(given, axis_name)
    results: list[jax.Array] = scan_p.bind(
        *operands,
        combine=combine,
        axis=axis,
        reverse=reverse,
        exclusive=exclusive,
        segmented=flags is not None,
        kind=kind,
        used=(True,) * len(leaves) if used is None else tuple(used),
        method=method,
        compact=False,
        started=start is not None,
        axis_name=axis_name,
        **settings,
    )
    return results


def reduce(
    leaves: Sequence[jax.Array],
    descriptor: jax.Array | None,
    *,
    combine: Combine,
    axis: int,
    kind: str,
    num_segments: int,
    method: str,
    exact: bool = False,
    neutral: bool = True,
    axis_name: AxisName = (),
) -> list[jax.Array]:
    """Bind ``reduce_p``."""
    results: list[jax.Array] = reduce_p.bind(
        *extent.vary_alike(joined(leaves, descriptor), axis_name),
        combine=combine,
        axis=axis,
        kind=kind,
        num_segments=num_segments,
        method=method,
        exact=exact,
        neutral=neutral,
        axis_name=axis_name,
        **settings_for(extent.full_shape(leaves)),
    )
    return results


def tail(
    leaves: Sequence[jax.Array],
    flags: jax.Array,
    *,
    combine: Combine,
    axis: int,
    reverse: bool,
    method: str,
) -> list[jax.Array]:
    """Bind ``tail_p``."""
    operands = extent.vary_alike([*leaves, flags])
    how: dict[str, Any] = {"combine": combine, "axis": axis, "reverse": reverse, "method": method}
    settings = settings_for(extent.full_shape(operands))
    results: list[jax.Array] = tail_p.bind(*operands, **how, **settings)
    return results


def tangent(
    known: Sequence[jax.Array],
    linear: Sequence[jax.Array],
    flags: jax.Array | None,
    *,
    component: Component,
    axis: int,
    reverse: bool,
    exclusive: bool,
    transposed: bool,
    dtypes: tuple[np.dtype[Any], ...],
    method: str,
    axis_name: AxisName = (),
) -> list[jax.Array]:
    """Bind ``tangent_p``."""
    operands = extent.vary_alike(joined([*known, *linear], flags), axis_name)
    results: list[jax.Array] = tangent_p.bind(
        *operands,
        component=component,
        axis=axis,
        reverse=reverse,
        exclusive=exclusive,
        transposed=transposed,
        segmented=flags is not None,
        dtypes=dtypes,
        method=method,
        axis_name=axis_name,
        **settings_for(extent.full_shape(operands)),
    )
    return results


def spread(values: jax.Array, numbers: jax.Array, *, axis: int) -> jax.Array:
    """Bind ``spread_p``."""
    operands = extent.vary_alike([values, numbers])
    settings = settings_for(extent.shape_along(axis, numbers, values))
    [result] = spread_p.bind(*operands, axis=axis, axis_name=(), **settings)
    return result


def histogram(keys: jax.Array, *, axis: int, num_keys: int) -> jax.Array:
    """Bind ``histogram_p``."""
    how: dict[str, Any] = {"axis": axis, "num_keys": num_keys, "axis_name": ()}
    [counts] = histogram_p.bind(keys, **how, **settings_for(keys.shape))
    return counts


def collect(values: jax.Array, plan: Sequence[jax.Array], **params: Any) -> jax.Array:
    """Bind ``collect_p``; the arrays of the ``plan`` have the rank of the values."""
    operands = extent.vary_alike([values, *plan])
    settings = settings_for(extent.shape_along(params["axis"], plan[0], values))
    [result] = collect_p.bind(*operands, **params, **settings)
    return result
