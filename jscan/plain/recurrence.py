"""The recurrences of derivatives in plain JAX: on whole arrays, and on a CPU chunk by chunk."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, TypeVar

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

from jscan import extent, primitives
from jscan.derivatives import recurrence
from jscan.derivatives.components import Component
from jscan.derivatives.jacobian import Source
from jscan.derivatives.recurrence import IN_KERNELS
from jscan.heads import as_bool, moved_on, neighbours
from jscan.plain import chunks
from jscan.plain.chunks import Carry, Chunk
from jscan.primitives import parted

T = TypeVar("T")


def split(
    operands: Sequence[T], component: Component, segmented: bool
) -> tuple[list[T], list[T], T | None]:
    """The operands of ``tangent_p``: what is known, what comes in, and the flags."""
    leaves, flags = parted(operands, segmented)
    count = len(component.reads)
    return leaves[:count], leaves[count:], flags


class ChunkReader:
    """Operands, as the matrices of a component read a chunk of them.

    Args:
      known: the values and elements that are read.
      flags: head flags, if the differentiated scan is segmented.
      full: the shape of all operands together.
      component: what reads them.
      chunk: the positions at which it reads.
      reverse: whether the differentiated scan runs from the end.
      exclusive: whether the values are the previous ones as they stand.
    """

    def __init__(
        self,
        known: Sequence[jax.Array],
        flags: jax.Array | None,
        full: Sequence[int],
        *,
        component: Component,
        chunk: Chunk,
        reverse: bool,
        exclusive: bool,
    ):
        self.known, self.flags, self.component, self.chunk = known, flags, component, chunk
        self.reverse, self.exclusive = reverse, exclusive
        self.n = full[chunk.axis]
        self.shape = (*full[: chunk.axis], chunk.size, *full[chunk.axis + 1 :])

    def at(self, x: jax.Array, step: int) -> jax.Array:
        """The elements so many steps on in scan order; at an end of the axis, the last ones."""
        right = -step if self.reverse else step
        if step == 0 or self.chunk.size != self.n or self.n == 0:
            return jnp.broadcast_to(self.chunk.of(x, right), self.shape)
        # Of a whole axis, which may be sharded, XLA moves less by a pad than by a concatenation.
        zero = np.zeros((), x.dtype)[()]
        moved = moved_on(x, zero, axis=self.chunk.axis, reverse=right > 0)
        last = _is_at(x.shape, self.chunk.axis, self.n - 1 if right > 0 else 0)
        return jnp.broadcast_to(jnp.where(last, x, moved), self.shape)

    def __call__(self, source: Source, step: int) -> jax.Array:
        """The operand that a matrix reads, so many steps on.

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
        """Where the first element of the axis is, or the last if ``reverse``."""
        place = (self.n - 1 if reverse else 0) - self.chunk.start
        place = jnp.clip(place, -1, self.chunk.size).astype(jnp.int32)
        return _is_at(self.shape, self.chunk.axis, place)

    def start(self) -> jax.Array:
        """Where the differentiated scan starts: at the end of the axis, and in each segment."""
        first = self.edge(self.reverse)
        if self.flags is None:
            return first
        return first | as_bool(self.at(self.flags, -int(self.reverse)))

    def end(self) -> jax.Array:
        """Where it ends: behind these elements the axis ends, or another segment starts."""
        last = self.edge(not self.reverse)
        if self.flags is None:
            return last
        return last | as_bool(self.at(self.flags, int(not self.reverse)))


class PartReader(ChunkReader):
    """The same for the part of an axis that a device holds, with neighbours on other devices.

    An array is read with an element of each neighbour at its ends.
    """

    def __init__(self, *operands: Any, axis_name: primitives.AxisName, **how: Any):
        super().__init__(*operands, **how)
        self.axis_name = axis_name

    def at(self, x: jax.Array, step: int) -> jax.Array:
        """The elements at most one step on in scan order."""
        if step == 0 or self.n == 0:
            return super().at(x, step)
        axis, forward = self.chunk.axis, (step > 0) != self.reverse
        other, _ = neighbours(x, self.axis_name, axis=axis, behind=forward)
        if forward:
            parts = [lax.slice_in_dim(x, 1, None, axis=axis), other]
        else:
            parts = [other, lax.slice_in_dim(x, 0, self.n - 1, axis=axis)]
        return jnp.broadcast_to(lax.concatenate(parts, axis), self.shape)

    def edge(self, reverse: bool) -> jax.Array:
        """Where the first element of the whole axis is, or the last if ``reverse``."""
        here = lax.axis_index(self.axis_name)
        ends = lax.axis_size(self.axis_name) - 1 if reverse else 0
        return super().edge(reverse) & (here == ends)


def _is_at(shape: Sequence[int], axis: int, place: int | jax.Array) -> jax.Array:
    """Where the element at a place along the axis is."""
    return lax.broadcasted_iota(jnp.int32, shape, axis) == jnp.asarray(place, jnp.int32)


def reader(*operands: Any, axis_name: primitives.AxisName, **how: Any) -> ChunkReader:
    """The reader of a whole axis, or of a part of one that goes on across mesh axes."""
    return (
        PartReader(*operands, axis_name=axis_name, **how)
        if axis_name
        else ChunkReader(*operands, **how)
    )


def tangent_in_plain_jax(
    *operands: jax.Array,
    component: Component,
    axis: int,
    reverse: bool,
    exclusive: bool,
    transposed: bool,
    segmented: bool,
    dtypes: Sequence[np.dtype[Any]],
    method: str,
    axis_name: primitives.AxisName = (),
    differentiable: bool = False,
    **_: Any,
) -> list[jax.Array]:
    """The results of ``tangent_p``: a scan of matrices and vectors, and what surrounds it."""
    known, linear, flags = split(operands, component, segmented)
    full = extent.full_shape(operands)
    if 0 in full:
        return [jnp.zeros(full, d) for d in dtypes]
    against = reverse != transposed
    chunk = Chunk(0, full[axis], axis, against)
    how: dict[str, Any] = {"component": component, "reverse": reverse, "exclusive": exclusive}
    read = reader(known, flags, full, chunk=chunk, axis_name=axis_name, **how)
    given = [jnp.broadcast_to(x, full) for x in linear]
    solved = recurrence.Recurrence(component, read, transposed, differentiable)
    states = elements = solved.elements(given)
    if recurrence.is_recurrent(component):
        states = primitives.scan(
            elements,
            flags,
            combine=recurrence.operator_of(component),
            axis=axis,
            reverse=against,
            exclusive=False,
            method=method if component.size <= IN_KERNELS else "xla",
            axis_name=axis_name,
        )
    results = solved.results(states[-component.size :])
    return [x.astype(d) for x, d in zip(results, dtypes, strict=True)]


def tangent_in_chunks(
    *operands: jax.Array,
    component: Component,
    axis: int,
    reverse: bool,
    exclusive: bool,
    transposed: bool,
    segmented: bool,
    dtypes: Sequence[np.dtype[Any]],
    **_: Any,
) -> list[jax.Array]:
    """The results of ``tangent_p`` chunk by chunk, none of whose matrices is ever whole."""
    known, linear, flags = split(operands, component, segmented)
    full = extent.full_shape(operands)
    if 0 in full:
        return [jnp.zeros(full, d) for d in dtypes]
    combine = recurrence.operator_of(component)
    how: dict[str, Any] = {"component": component, "reverse": reverse, "exclusive": exclusive}

    def step(chunk: Chunk, carry: Carry | None) -> tuple[list[jax.Array], Carry]:
        read = ChunkReader(known, flags, full, chunk=chunk, **how)
        solved = recurrence.Recurrence(component, read, transposed)
        elements = solved.elements([read.at(x, 0) for x in linear])
        elements = _without_past(elements, component, read.edge(chunk.reverse))
        restarts = chunk.restarts(flags)
        if restarts is not None:
            restarts = jnp.broadcast_to(restarts, read.shape)
        scanned = chunk.scanned(combine, elements, restarts, carry)
        last = [chunk.last(x, 1) for x in scanned]
        states = [chunk.last(x) for x in scanned[-component.size :]]
        results = solved.results(states)
        return [x.astype(d) for x, d in zip(results, dtypes, strict=True)], last

    row = (*full[:axis], 1, *full[axis + 1 :])
    like = jnp.broadcast_to(lax.slice_in_dim(linear[0], 0, 1, axis=axis), row)
    zeros = [jnp.zeros_like(like, component.dtype)] * combine.num_leaves
    return chunks.run(step, full, dtypes, axis=axis, reverse=reverse != transposed, initial=zeros)


def _without_past(
    elements: Sequence[jax.Array], component: Component, first: jax.Array
) -> list[jax.Array]:
    """Elements of the scan whose slopes are zero at the ``first`` one of the axis.

    There a slope may be any number, also one that is infinite, and the carry before it is zero.
    """
    square = len(elements) - component.size
    slopes, offsets = elements[:square], elements[square:]
    return [*(jnp.where(first, jnp.zeros_like(x), x) for x in slopes), *offsets]
