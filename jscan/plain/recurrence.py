"""The recurrences of derivatives in plain JAX.

They run on whole arrays, and on a CPU one element after another, or chunk by chunk.
"""

from __future__ import annotations

import abc
import functools
from collections.abc import Sequence
from typing import Any, Generic, TypeVar

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

from jscan import extent, primitives
from jscan.derivatives import recurrence
from jscan.derivatives.components import Component
from jscan.derivatives.jacobian import Source
from jscan.derivatives.recurrence import IN_KERNELS
from jscan.heads import as_bool, choose, moved_on, neighbours
from jscan.plain import chunks
from jscan.plain.chunks import Carry, Chunk
from jscan.plain.matrices import recur_numbers
from jscan.plain.serial import (
    Elements,
    Place,
    Read,
    Walk,
    can_be_walked,
    elements_of,
    is_fast,
    one_by_one,
    shape_of,
    words_of,
)
from jscan.primitives import parted

T = TypeVar("T")
X = TypeVar("X", jax.Array, Elements)


def split(
    operands: Sequence[T], component: Component, segmented: bool
) -> tuple[list[T], list[T], T | None]:
    """The operands of ``tangent_p``: what is known, what comes in, and the flags."""
    leaves, flags = parted(operands, segmented)
    count = len(component.reads)
    return leaves[:count], leaves[count:], flags


class Reader(abc.ABC, Generic[X]):
    """Operands, as the matrices of a component read some positions of them.

    Args:
      known: the values and elements that are read.
      flags: head flags, if the differentiated scan is segmented.
      component: what reads them.
      reverse: whether the differentiated scan runs from the end.
      exclusive: whether the values are the previous ones as they stand.
    """

    def __init__(
        self,
        known: Sequence[X],
        flags: X | None,
        *,
        component: Component,
        reverse: bool,
        exclusive: bool,
    ):
        self.known: Sequence[X] = known
        self.flags: X | None = flags
        self.component, self.reverse, self.exclusive = component, reverse, exclusive

    @abc.abstractmethod
    def at(self, x: X, step: int) -> jax.Array:
        """The elements so many steps on in scan order; at an end of the axis, the last ones."""

    @abc.abstractmethod
    def edge(self, reverse: bool) -> jax.Array:
        """Where the first element of the axis is, or the last if ``reverse``."""

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


class ChunkReader(Reader[jax.Array]):
    """The reader of a chunk, of operands whose shape together is ``full``."""

    def __init__(self, *operands: Any, full: Sequence[int], chunk: Chunk, **how: Any):
        super().__init__(*operands, **how)
        self.chunk, self.n = chunk, full[chunk.axis]
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

    def edge(self, reverse: bool) -> jax.Array:
        """Where the first element of the axis is, or the last if ``reverse``."""
        place = (self.n - 1 if reverse else 0) - self.chunk.start
        place = jnp.clip(place, -1, self.chunk.size).astype(jnp.int32)
        return _is_at(self.shape, self.chunk.axis, place)


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


class PlaceReader(Reader[Elements]):
    """The reader of a place of a walk, of which ``size`` is the shape."""

    def __init__(self, *operands: Any, place: Place, size: Sequence[int], **how: Any):
        super().__init__(*operands, **how)
        self.place, self.size = place, tuple(size)

    def at(self, x: Elements, step: int) -> jax.Array:
        """The elements so many steps on in scan order; at an end of the axis, the last ones."""
        return jnp.broadcast_to(self.place.of(x, -step if self.reverse else step), self.size)

    def edge(self, reverse: bool) -> jax.Array:
        """Whether the first element of the axis is here, or the last if ``reverse``."""
        end = np.int32(self.place.n - 1 if reverse else 0)
        return jnp.broadcast_to(self.place.position == end, self.size)


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
    by_matrices: bool = False,
    **_: Any,
) -> list[jax.Array]:
    """The results of ``tangent_p``: a scan of matrices and vectors, and what surrounds it.

    The scan is by ``matrix_p`` where kernels cannot take as many leaves, or where that is asked.
    """
    known, linear, flags = split(operands, component, segmented)
    full = extent.full_shape(operands)
    if 0 in full:
        return [jnp.zeros(full, d) for d in dtypes]
    against = reverse != transposed
    chunk = Chunk(0, full[axis], axis, against)
    known = extent.whole_along(axis, known, full[axis])
    how: dict[str, Any] = {"component": component, "reverse": reverse, "exclusive": exclusive}
    read = reader(known, flags, full=full, chunk=chunk, axis_name=axis_name, **how)
    given = [jnp.broadcast_to(x, full) for x in linear]
    solved = recurrence.Recurrence(component, read, transposed, differentiable)
    states = elements = solved.elements(given)
    if component.size > IN_KERNELS or by_matrices:
        rest: dict[str, Any] = {"axis": axis, "reverse": against, "axis_name": axis_name}
        states = recur_numbers(elements, flags, component.size, method, **rest)
    elif recurrence.is_recurrent(component):
        count = len(elements) - component.size
        states = primitives.scan(
            elements,
            flags,
            used=[False] * count + [True] * component.size,
            combine=recurrence.operator_of(component),
            axis=axis,
            reverse=against,
            exclusive=False,
            method=method,
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
        read = ChunkReader(known, flags, full=full, chunk=chunk, **how)
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


def tangent_in_sequence(
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
    """The results of ``tangent_p``, one element after another."""
    shape = extent.full_shape(operands)
    alike = extent.vary_alike(operands)
    every = [elements_of(x, shape, axis) for x in alike]
    known, linear, flags = split(every, component, segmented)
    walk = _walk(operands, component, dtypes, shape, axis, reverse != transposed)
    size = (walk.rows, 1, walk.full[2])
    how: dict[str, Any] = {"component": component, "reverse": reverse, "exclusive": exclusive}
    count = component.size

    def begin(read: Read) -> list[jax.Array]:
        return [jnp.broadcast_to(read(linear[0]), size).astype(component.dtype)] * count

    def step(place: Place, states: list[jax.Array]) -> tuple[list[jax.Array], list[jax.Array]]:
        read = PlaceReader(known, flags, place=place, size=size, **how)
        solved = recurrence.Recurrence(component, read, transposed)
        elements = solved.elements([read.at(x, 0) for x in linear])
        slopes, offsets = elements[:-count], elements[-count:]
        rows = [slopes[i * count : (i + 1) * count] for i in range(count)] if slopes else [None]
        if place.is_first:
            return solved.results(offsets), list(offsets)
        states = [_next(row, states, x) for row, x in zip(rows, offsets, strict=True)]
        if flags is not None:
            restarts = as_bool(place.of(flags, int(walk.reverse)))
            states = _chosen(jnp.broadcast_to(restarts, size), offsets, states)
        return solved.results(states), states

    found = walk.run(one_by_one(step), begin, dtypes, alike[0])
    return [x.reshape(shape) for x in found]


def is_faster_in_sequence(
    *operands: jax.Array,
    component: Component,
    axis: int,
    exclusive: bool,
    dtypes: Sequence[np.dtype[Any]],
    **_: Any,
) -> bool:
    """Whether `tangent_in_sequence` is faster than a tree, and keeps as little."""
    if exclusive and jax.__version_info__ < (0, 11):  # XLA makes what comes in shifted twice
        return False
    shape = extent.full_shape(operands)
    if not can_be_walked(operands, shape, axis):
        return False
    walk = _walk(operands, component, dtypes, shape, axis, False)
    return walk.is_compiled_whole(all(is_fast(m.jaxpr) for m in (component.a, component.c)))


def _walk(
    operands: Sequence[jax.Array],
    component: Component,
    dtypes: Sequence[np.dtype[Any]],
    shape: Sequence[int],
    axis: int,
    reverse: bool,
) -> Walk:
    """The way through the arrays, of which what is known may be read at two places."""
    known, _, _ = split(operands, component, False)
    words = words_of([*(x.dtype for x in (*operands, *known)), *dtypes])
    return Walk(shape_of(shape, axis), words, reverse)


def _next(
    slopes: Sequence[jax.Array] | None, states: Sequence[jax.Array], offset: jax.Array
) -> jax.Array:
    """A state that follows from those before it; a sum has no slopes."""
    if slopes is None:
        return states[0] + offset
    products = [lax.mul(a, s) for a, s in zip(slopes, states, strict=True)]
    return functools.reduce(lax.add, products) + offset


def _chosen(
    flags: jax.Array, chosen: Sequence[jax.Array], other: Sequence[jax.Array]
) -> list[jax.Array]:
    return [choose(flags, x, y) for x, y in zip(chosen, other, strict=True)]


def _without_past(
    elements: Sequence[jax.Array], component: Component, first: jax.Array
) -> list[jax.Array]:
    """Elements of the scan whose slopes are zero at the ``first`` one of the axis.

    There a slope may be any number, also one that is infinite, and the carry before it is zero.
    """
    square = len(elements) - component.size
    slopes, offsets = elements[:square], elements[square:]
    return [*(jnp.where(first, jnp.zeros_like(x), x) for x in slopes), *offsets]
