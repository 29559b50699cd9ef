"""``tangent_p``: the recurrence of a `Component`, forwards or transposed, and all its rules.

Operands are the values and the elements that the component's matrices read, then what comes in, in
which it is linear, then the head flags where ``segmented``; shapes are as for ``scan_p``. Forwards,
tangents come in and those of the states go out; transposed, cotangents of the states come in and
those of the tangents go out. ``reverse`` and ``exclusive`` are the scan's whose derivative it is:
where that is exclusive, its results are the previous values as they stand.
"""

from __future__ import annotations

import functools
from collections.abc import Sequence
from typing import Any

import jax
import jax.numpy as jnp
from jax import lax
from jax.extend import core
from jax.interpreters import ad, batching

from jscan import extent, fallback, primitive
from jscan.derivatives import recurrence, transposition
from jscan.derivatives.components import Component
from jscan.derivatives.jacobian import Source
from jscan.derivatives.recurrence import IN_KERNELS
from jscan.plain import chunks

tangent_p: Any = core.Primitive("jscan_tangent")
tangent_p.multiple_results = True


def tangent(
    known: Sequence[jax.Array],
    linear: Sequence[jax.Array],
    flags: jax.Array | None,
    **params: Any,
) -> list[jax.Array]:
    """Bind ``tangent_p``."""
    operands = [*known, *linear, *([] if flags is None else [flags])]
    results: list[jax.Array] = tangent_p.bind(
        *extent.vary_alike(operands), segmented=flags is not None, **params
    )
    return results


def _split(
    operands: Sequence[Any], component: Component, segmented: bool
) -> tuple[list[Any], list[Any], Any]:
    """What is known, what comes in, and the flags."""
    count = len(component.reads)
    end = len(operands) - segmented
    return [*operands[:count]], [*operands[count:end]], operands[-1] if segmented else None


def tangent_abstract_eval(*avals: Any, dtypes: tuple[Any, ...], **_: Any) -> list[Any]:
    """Results at full size."""
    shape = extent.full_shape(avals)
    return [avals[0].update(shape=shape, dtype=dtype, weak_type=False) for dtype in dtypes]


class Reader:
    """Operands, as the matrices of a component read a chunk of them."""

    def __init__(
        self,
        known: Sequence[jax.Array],
        flags: jax.Array | None,
        full: Sequence[int],
        *,
        component: Component,
        axis: int,
        reverse: bool,
        exclusive: bool,
        start: Any = 0,
        size: int | None = None,
    ):
        self.known, self.flags, self.component = known, flags, component
        self.axis, self.reverse, self.exclusive = axis, reverse, exclusive
        self.n = full[axis]
        self.begin, self.size = start, self.n if size is None else size
        self.shape = (*full[:axis], self.size, *full[axis + 1 :])

    def at(self, x: jax.Array, step: int) -> jax.Array:
        """The elements so many steps on in scan order; at an end, the last ones there are."""
        moved = chunks.window(x, self.begin, self.size, -step if self.reverse else step, self.axis)
        return jnp.broadcast_to(moved, self.shape)

    def __call__(self, source: Source, step: int) -> jax.Array:
        """What a matrix reads.

        Nothing comes before a start, and behind the end of a segment comes another one. What
        stands there is not used. But a derivative multiplies it by zero, so it has to be a number,
        and no other segment's: it is this element instead.
        """
        x = self.known[self.component.reads.index(source)]
        if source[0] != "before" or self.exclusive:
            value, apart = self.at(x, step), step != 0
        else:
            value, apart = self.at(x, step - 1), step == 0
        if self.flags is None or not apart:
            return value
        return jnp.where(self.end() if step else self.start(), self.at(x, 0), value)

    def edge(self, reverse: bool) -> jax.Array:
        """The first element of the axis, or the last."""
        place = (self.n - 1 if reverse else 0) - self.begin
        place = jnp.clip(place, -1, self.size).astype(jnp.int32)
        return lax.broadcasted_iota(jnp.int32, self.shape, self.axis) == place

    def start(self) -> jax.Array:
        """Where the differentiated scan starts: at the end of the axis, and in each segment."""
        first = self.edge(self.reverse)
        if self.flags is None:
            return first
        return first | fallback.as_bool(self.at(self.flags, -int(self.reverse)))

    def end(self) -> jax.Array:
        """Where it ends: behind these elements the axis ends, or another segment starts."""
        last = self.edge(not self.reverse)
        if self.flags is None:
            return last
        return last | fallback.as_bool(self.at(self.flags, int(not self.reverse)))


def tangent_in_plain_jax(
    *operands: jax.Array,
    component: Component,
    axis: int,
    reverse: bool,
    exclusive: bool,
    transposed: bool,
    segmented: bool,
    dtypes: tuple[Any, ...],
    method: str,
    differentiable: bool = False,
    **_: Any,
) -> list[jax.Array]:
    """The recurrence on whole arrays: a scan of matrices and vectors, and what surrounds it."""
    known, linear, flags = _split(operands, component, segmented)
    full = extent.full_shape(operands)
    if 0 in full:
        return [jnp.zeros(full, d) for d in dtypes]
    read = Reader(
        *(known, flags, full),
        component=component,
        axis=axis,
        reverse=reverse,
        exclusive=exclusive,
    )
    given = [jnp.broadcast_to(x, full) for x in linear]
    one = recurrence.Recurrence(component, read, transposed, differentiable)
    scanned = elements = one.elements(given)
    if recurrence.is_recurrent(component):
        scanned = primitive.scan(
            elements,
            flags,
            combine=recurrence.operator_of(component),
            axis=axis,
            reverse=reverse != transposed,
            exclusive=False,
            method=method if component.size <= IN_KERNELS else "xla",
        )
    results = one.results(scanned[-component.size :])
    return [x.astype(d) for x, d in zip(results, dtypes, strict=True)]


def tangent_in_chunks(
    *operands: jax.Array,
    component: Component,
    axis: int,
    reverse: bool,
    exclusive: bool,
    transposed: bool,
    segmented: bool,
    dtypes: tuple[Any, ...],
    method: str,
    **_: Any,
) -> list[jax.Array]:
    """The recurrence chunk by chunk, none of whose matrices is ever whole."""
    primitive.check_runs_anywhere(method)
    known, linear, flags = _split(operands, component, segmented)
    full = extent.full_shape(operands)
    if 0 in full:
        return [jnp.zeros(full, d) for d in dtypes]
    combine = recurrence.operator_of(component)
    against = reverse != transposed

    def step(start: Any, size: int, carry: chunks.Carry) -> tuple[list[jax.Array], list[jax.Array]]:
        read = Reader(
            *(known, flags, full),
            component=component,
            axis=axis,
            reverse=reverse,
            exclusive=exclusive,
            start=start,
            size=size,
        )
        given = [read.at(x, 0) for x in linear]
        one = recurrence.Recurrence(component, read, transposed)
        elements = one.elements(given)
        # Nothing comes before the first element, where a slope is any number.
        first = read.edge(against)
        square = len(elements) - component.size
        elements[:square] = [jnp.where(first, jnp.zeros_like(x), x) for x in elements[:square]]
        restarts = chunks.restarts(flags, start, size, axis, reverse=against)
        if restarts is not None:
            restarts = jnp.broadcast_to(restarts, elements[0].shape)
        scanned = chunks.scanned(combine, elements, restarts, carry, axis=axis, reverse=against)
        last = [chunks.behind(x, 1, axis, reverse=against) for x in scanned]
        states = [chunks.behind(x, size, axis, reverse=against) for x in scanned[-component.size :]]
        pairs = zip(one.results(states), dtypes, strict=True)
        return [x.astype(d) for x, d in pairs], last

    row = (*full[:axis], 1, *full[axis + 1 :])
    like = jnp.broadcast_to(lax.slice_in_dim(linear[0], 0, 1, axis=axis), row)
    zero = jnp.zeros_like(like, component.dtype)
    initial = [zero] * combine.num_leaves
    return chunks.run(step, full, dtypes, axis=axis, reverse=against, initial=initial)


def tangent_in_kernels(
    *operands: jax.Array, method: str, interpret: bool, **params: Any
) -> list[jax.Array]:
    """The recurrence in one kernel where one can run it, else in those that a scan takes."""
    if method != "xla":
        # Pallas takes seconds to import, and only GPU programs need it.
        from jscan import kernels

        known, linear, flags = _split(operands, params["component"], params["segmented"])
        full = extent.full_shape(operands)
        if extent.full_shape([*known, *linear]) != full:
            linear[0] = jnp.broadcast_to(linear[0], full)
        operands_read = [*known, *linear]
        # Rows that fit a tile may not do so with the leaves of their derivative.
        for way in (method, "auto"):
            reason = kernels.why_no_tangent(
                operands_read, component=params["component"], axis=params["axis"], method=way
            )
            if reason is None:
                return kernels.tangent(
                    known, linear, flags, method=way, interpret=interpret, **params
                )
    way = "auto" if method == "block" else method
    return tangent_in_plain_jax(*operands, method=way, **params)


def tangent_anywhere(*operands: jax.Array, method: str, **params: Any) -> list[jax.Array]:
    """The recurrence where there is no kernel."""
    primitive.check_runs_anywhere(method)
    return tangent_in_plain_jax(*operands, method=method, **params)


def tangent_jvp(
    primals: Sequence[jax.Array], tangents: Sequence[Any], **params: Any
) -> tuple[list[jax.Array], list[Any]]:
    """Linear in what comes in; in what it reads, the derivative of its plain form."""
    known, linear, flags = _split(primals, params["component"], params["segmented"])
    moved, coming, _ = _split(tangents, params["component"], params["segmented"])
    results = tangent_p.bind(*primals, **params)
    flagged = [] if flags is None else [flags]
    total: list[Any] = [ad.Zero(jax.typeof(r).to_tangent_aval()) for r in results]
    if any(type(t) is not ad.Zero for t in coming):
        coming = [ad.instantiate_zeros(t) for t in coming]
        total = tangent_p.bind(*known, *coming, *flagged, **params)
    moving = [i for i, t in enumerate(moved) if primitive.is_moving(t)]
    if moving:

        def of_known(*values: jax.Array) -> list[jax.Array]:
            operands = list(known)
            for i, x in zip(moving, values, strict=True):
                operands[i] = x
            return tangent_in_plain_jax(*operands, *linear, *flagged, **params, differentiable=True)

        _, slope = jax.jvp(of_known, [known[i] for i in moving], [moved[i] for i in moving])
        total = [s if type(t) is ad.Zero else t + s for t, s in zip(total, slope, strict=True)]
    return results, total


def tangent_transpose(
    cotangents: Sequence[Any], *operands: Any, component: Component, segmented: bool, **params: Any
) -> list[Any]:
    """In what comes in the same recurrence, the other way; in what it reads by its plain form."""
    known, linear, flags = _split(operands, component, segmented)
    if transposition.undefined(known):
        if transposition.undefined(linear):
            raise TypeError(
                "jscan: this tangent of a scan is not linear in the scan's elements and their "
                "tangents together, so it has no transpose in both"
            )

        def of_known(*moved: jax.Array) -> list[jax.Array]:
            _, full = transposition.at_zero(operands, transposition.undefined(operands), moved)
            how = {**params, "component": component, "segmented": segmented}
            return tangent_in_plain_jax(*full, **how, differentiable=True)

        return transposition.transposed(of_known, cotangents, operands, [])
    avals = [x.aval if ad.is_undefined_primal(x) else jax.typeof(x) for x in linear]
    flagged = [] if flags is None else [flags]
    whole = tangent_p.bind(
        *known,
        *(ad.instantiate_zeros(c) for c in cotangents),
        *flagged,
        component=component,
        segmented=segmented,
        **{
            **params,
            "transposed": not params["transposed"],
            "dtypes": tuple(a.dtype for a in avals),
        },
    )
    back = [
        primitive.summed_to(x, aval) if ad.is_undefined_primal(given) else None
        for x, aval, given in zip(whole, avals, linear, strict=True)
    ]
    return [*[None] * len(known), *back, *[None] * len(flagged)]


tangent_p.def_impl(functools.partial(primitive.run, tangent_p))
tangent_p.def_abstract_eval(tangent_abstract_eval)
primitive.register_lowerings(
    tangent_p, tangent_in_kernels, tangent_anywhere, on_cpu=tangent_in_chunks
)
batching.primitive_batchers[tangent_p] = functools.partial(primitive.batched, tangent_p)
ad.primitive_jvps[tangent_p] = tangent_jvp
ad.primitive_transposes[tangent_p] = tangent_transpose
