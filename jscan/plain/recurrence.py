"""The recurrences of derivatives in plain JAX: on whole arrays, and on a CPU chunk by chunk."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import jax
import jax.numpy as jnp
from jax import lax

from jscan import extent, heads, primitives
from jscan.derivatives import recurrence
from jscan.derivatives.components import Component
from jscan.derivatives.jacobian import Source
from jscan.derivatives.recurrence import IN_KERNELS
from jscan.plain import chunks


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
    known, linear, flags = split(operands, component, segmented)
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
        scanned = primitives.scan(
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
    **_: Any,
) -> list[jax.Array]:
    """The recurrence chunk by chunk, none of whose matrices is ever whole."""
    known, linear, flags = split(operands, component, segmented)
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


def split(
    operands: Sequence[Any], component: Component, segmented: bool
) -> tuple[list[Any], list[Any], Any]:
    """What is known, what comes in, and the flags."""
    count = len(component.reads)
    end = len(operands) - segmented
    return [*operands[:count]], [*operands[count:end]], operands[-1] if segmented else None


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
        return first | heads.as_bool(self.at(self.flags, -int(self.reverse)))

    def end(self) -> jax.Array:
        """Where it ends: behind these elements the axis ends, or another segment starts."""
        last = self.edge(not self.reverse)
        if self.flags is None:
            return last
        return last | heads.as_bool(self.at(self.flags, int(not self.reverse)))
