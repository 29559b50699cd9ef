"""Plain JAX for CPUs: an axis taken chunk by chunk, so that what lies between stays small.

    ┌─ chunk ─┬─ chunk ─┬─ chunk ─┬─ rest ─┐     each is scanned by `lax.associative_scan`, behind
    └────────►┴────────►┴────────►┴────────┘     the last result of the one before it

``lax.associative_scan`` over a whole axis keeps several arrays of its size, and a recurrence makes
two of the same size for it; by chunks neither is ever whole. A GPU would launch many kernels a
chunk, and plain scans run faster over the whole axis, so this is for derivatives on CPUs, and for
the scans in them that ``lax.associative_scan`` would turn around, shift, or carry flags with.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Callable, Sequence
from typing import Any, TypeAlias

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

from jscan import extent
from jscan.combine import Combine
from jscan.heads import as_bool
from jscan.plain.scan import Combination, scan_from
from jscan.primitives import parted
from jscan.starts import Start

ELEMENTS = 2**14
"""Elements of a chunk, over all dimensions."""

SHORTEST = 64
"""Positions of a chunk, however many elements each has."""


@dataclasses.dataclass(frozen=True)
class Chunk:
    """Positions of an axis that are scanned together.

    Attributes:
      start: the first position.
      size: how many positions there are.
      axis: the axis.
      reverse: whether the scan runs from the end.
    """

    start: int | jax.Array
    size: int
    axis: int
    reverse: bool

    def of(self, x: jax.Array, step: int = 0) -> jax.Array:
        """The elements of ``x`` that are ``step`` positions to the right; it is -1, 0 or 1.

        Beyond the ends of the axis stands the element at that end.
        """
        inside = self._slice(x, self.start, self.size)
        if step == 0:
            return inside
        last = x.shape[self.axis] - 1
        edge: int | jax.Array
        if isinstance(self.start, int):
            edge = max(self.start - 1, 0) if step < 0 else min(self.start + self.size, last)
        elif step < 0:
            edge = jnp.maximum(self.start - 1, 0)
        else:
            edge = jnp.minimum(self.start + self.size, last)
        beyond = self._slice(x, edge, 1)
        if step < 0:
            return lax.concatenate([beyond, self._slice(inside, 0, self.size - 1)], self.axis)
        return lax.concatenate([self._slice(inside, 1, self.size - 1), beyond], self.axis)

    def restarts(self, flags: jax.Array | None) -> jax.Array | None:
        """Flags of the elements at which the scan restarts, from head flags of the whole axis.

        At an end of the axis they may be wrong, but there the scan starts in any case.
        """
        return None if flags is None else as_bool(self.of(flags, int(self.reverse)))

    def scanned(
        self,
        fn: Combination,
        leaves: list[jax.Array],
        restarts: jax.Array | None,
        carry: Carry | None,
    ) -> list[jax.Array]:
        """The chunk's leaves scanned behind ``carry``, which comes first in scan order."""
        if carry is not None:
            leaves = [self.behind(c, x) for c, x in zip(carry, leaves, strict=True)]
            if restarts is not None:
                restarts = self.behind(lax.full_like(self._slice(restarts, 0, 1), False), restarts)
        return scan_from(fn, leaves, restarts, axis=self.axis, reverse=self.reverse)

    def behind(self, first: jax.Array, rest: jax.Array) -> jax.Array:
        """``rest`` behind ``first`` in scan order."""
        return lax.concatenate([rest, first] if self.reverse else [first, rest], self.axis)

    def last(self, x: jax.Array, count: int | None = None) -> jax.Array:
        """The last ``count`` elements of ``x`` in scan order; as many as the chunk has if None."""
        count = self.size if count is None else count
        return self._slice(x, 0 if self.reverse else x.shape[self.axis] - count, count)

    def first(self, x: jax.Array) -> jax.Array:
        """The first elements of ``x`` in scan order, as many as the chunk has."""
        return self._slice(x, x.shape[self.axis] - self.size if self.reverse else 0, self.size)

    def _slice(self, x: jax.Array, start: int | jax.Array, size: int) -> jax.Array:
        if isinstance(start, int):
            return lax.slice_in_dim(x, start, start + size, axis=self.axis)
        sliced: jax.Array = lax.dynamic_slice_in_dim(x, start, size, self.axis)
        return sliced


Carry: TypeAlias = list[jax.Array]
"""The last results of a chunk in scan order, of size 1 along the axis."""

Step: TypeAlias = Callable[[Chunk, Carry | None], tuple[list[jax.Array], Carry]]
"""From a chunk and the carry of the one before it to the chunk's results and its own carry."""


def length_of(full: Sequence[int], axis: int) -> int:
    """The length of a chunk: a sixteenth of the axis or less, or all of it where it is short."""
    n = full[axis]
    most = ELEMENTS * n // max(math.prod(full), 1)
    return min(n, max(SHORTEST, min(most, n // 16)))


def run(
    step: Step,
    full: tuple[int, ...],
    dtypes: Sequence[np.dtype[Any]],
    *,
    axis: int,
    reverse: bool,
    initial: Carry | None = None,
) -> list[jax.Array]:
    """Every chunk's results, written one after another into arrays of shape ``full``.

    ``initial`` is the carry before the first chunk. Without it that chunk is compiled apart from
    the others, which have a carry.
    """
    n = full[axis]
    length = length_of(full, axis)
    if length >= n:
        return step(Chunk(0, n, axis, reverse), initial)[0]
    count, rest = divmod(n, length)

    def chunk_at(i: int | jax.Array) -> Chunk:
        return Chunk(n - (i + 1) * length if reverse else i * length, length, axis, reverse)

    def written(
        arrays: list[jax.Array], chunk: Chunk, parts: Sequence[jax.Array]
    ) -> list[jax.Array]:
        return [
            lax.dynamic_update_slice_in_dim(array, part, chunk.start, axis)
            for array, part in zip(arrays, parts, strict=True)
        ]

    def unwritten(like: jax.Array) -> list[jax.Array]:
        # Every element is written, so that only the mesh axes matter over which a value varies.
        values = [like.reshape(-1)[0].astype(dtype) for dtype in dtypes]
        return [jnp.broadcast_to(x, full) for x in values]

    def one(i: jax.Array, state: tuple[list[jax.Array], Carry]) -> tuple[list[jax.Array], Carry]:
        arrays, carry = state
        parts, carry = step(chunk_at(i), carry)
        return written(arrays, chunk_at(i), parts), carry

    if initial is None:
        parts, carry = step(chunk_at(0), None)
        arrays = written(unwritten(parts[-1]), chunk_at(0), parts)
        arrays, carry = lax.fori_loop(1, count, one, (arrays, carry))
    else:
        arrays, carry = lax.fori_loop(0, count, one, (unwritten(initial[-1]), initial))
    if rest:
        chunk = Chunk(0 if reverse else count * length, rest, axis, reverse)
        parts, _ = step(chunk, carry)
        arrays = written(arrays, chunk, parts)
    return arrays


def scan_in_chunks(
    *operands: jax.Array,
    combine: Combine,
    axis: int,
    reverse: bool,
    exclusive: bool,
    segmented: bool,
    used: Sequence[bool],
    start: Sequence[jax.Array] | None = None,
    start_open: jax.Array | None = None,
    **_: Any,
) -> list[jax.Array]:
    """The results of `scan_in_plain_jax`, chunk by chunk."""
    leaves, flags = parted(operands, segmented)
    before = Start.of(start, start_open)
    full = extent.full_shape([*operands, *([] if before is None else before.arrays)])
    narrow = combine.result_dtypes([x.dtype for x in leaves])
    results = [d for d, is_used in zip(narrow, used, strict=True) if is_used]
    if 0 in full:
        return [jnp.zeros(full, d) for d in results]

    where: dict[str, Any] = {"axis": axis, "reverse": reverse}
    reaches = None if before is None else before.reaches(flags, **where)

    def step(chunk: Chunk, carry: Carry | None) -> tuple[list[jax.Array], Carry]:
        shape = (*full[:axis], chunk.size, *full[axis + 1 :])
        parts = [
            jnp.broadcast_to(chunk.of(x), shape).astype(dtype)
            for x, dtype in zip(leaves, combine.dtypes, strict=True)
        ]
        restarts = chunk.restarts(flags)
        begins = before if carry is None else None
        if begins is not None:
            parts = begins.joined(combine, parts, reaches, **where)
        values = chunk.scanned(combine, parts, restarts, carry)
        last = [chunk.last(x, 1) for x in values]
        if exclusive:
            assert combine.identity is not None
            values = [
                _exclusive(chunk, x, value, restarts)
                for x, value in zip(values, combine.identity, strict=True)
            ]
            if begins is not None:
                values = begins.shown(values, reaches, **where)
        kept = zip(values, narrow, used, strict=True)
        return [chunk.last(x).astype(d) for x, d, is_used in kept if is_used], last

    return run(step, full, results, axis=axis, reverse=reverse)


def _exclusive(
    chunk: Chunk, x: jax.Array, identity: np.generic, restarts: jax.Array | None
) -> jax.Array:
    """A chunk's inclusive results, perhaps behind a carry, as exclusive ones."""
    value = np.asarray(identity, x.dtype)[()]
    if x.shape[chunk.axis] == chunk.size:
        edge = lax.full_like(lax.slice_in_dim(x, 0, 1, axis=chunk.axis), value)
        x = chunk.behind(edge, x)
    x = chunk.first(x)
    return x if restarts is None else jnp.where(restarts, value, x)
