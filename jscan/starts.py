"""The start of a scan: what comes before the first element of its axis.

    inclusive    start ⊕ x[0]    start ⊕ x[0] ⊕ x[1]    ...
    exclusive    start           start ⊕ x[0]           ...

A reversed scan starts from the other end: at x[n-1], with x[n-2] behind it. The start belongs to
the segment that is open where the axis begins, so it reaches no element at or behind the first
restart.

Without a start the first element in scan order begins a segment, flagged or not. With one it does
so where it is flagged as a head, forwards, or where the start is not ``open``, in either direction.
From the other end no flag says so: x[n-1] ends its segment if the element behind the axis is a
head, which only the caller knows.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from jax import lax

from jscan import meshes
from jscan.combine import Combine, accumulation_dtype
from jscan.heads import as_bool, choose


@dataclasses.dataclass(frozen=True)
class Start:
    """What a scan starts from.

    Attributes:
      values: an array for each leaf, in the dtype in which the leaf is combined. Its size is 1
        along the scanned axis, and full or 1 in every other dimension.
      open: flags of such a shape, which may lack trailing dimensions: whether the start reaches any
        element. None where it always does.
    """

    values: Sequence[jax.Array]
    open: jax.Array | None = None

    @classmethod
    def of(cls, values: Sequence[jax.Array] | None, is_open: jax.Array | None) -> Start | None:
        """The start of these values; None where there are none."""
        return None if values is None else cls(values, is_open)

    @property
    def arrays(self) -> list[jax.Array]:
        """The values, and the flags if there are any."""
        return [*self.values, *([] if self.open is None else [self.open])]

    def reaches(
        self,
        flags: jax.Array | None,
        *,
        axis: int,
        reverse: bool,
        axis_name: Sequence[str] = (),
    ) -> jax.Array | None:
        """Whether it reaches the first element in scan order; None where it always does.

        ``flags`` are head flags of the whole axis, or of a device's part of an axis that goes on
        across the mesh axes ``axis_name``.
        """
        found = None if self.open is None else as_bool(self.open)
        if axis_name:
            names = tuple(axis_name)
            here = lax.axis_index(names) == (lax.axis_size(names) - 1 if reverse else 0)
            here = jnp.broadcast_to(here, (1,) * (axis + 1))
            found = here if found is None else jnp.logical_and(found, here)
        if flags is None or reverse:
            return found
        same = lax.bitwise_not(as_bool(lax.slice_in_dim(flags, 0, 1, axis=axis)))
        return same if found is None else jnp.logical_and(found, same)

    def joined(
        self,
        fn: Callable[[list[jax.Array], list[jax.Array]], list[jax.Array]],
        leaves: Sequence[jax.Array],
        reaches: jax.Array | None,
        *,
        axis: int,
        reverse: bool,
    ) -> list[jax.Array]:
        """The leaves, whose first elements come behind the start where it ``reaches`` them."""
        first = [first_of(x, axis=axis, reverse=reverse) for x in leaves]
        values = [_beside(x, y) for x, y in zip(self.values, first, strict=True)]
        if reaches is None:
            behind = fn(values, first)
        else:
            # As across a head, the operator is applied to ones where its result is thrown away:
            # its derivative may be infinite or NaN there.
            left, right = (
                [choose(reaches, x, lax.full_like(x, 1)) for x in side] for side in (values, first)
            )
            pairs = zip(fn(left, right), first, strict=True)
            behind = [choose(reaches, x, y) for x, y in pairs]
        pairs = zip(leaves, behind, strict=True)
        return [with_first(x, y, axis=axis, reverse=reverse) for x, y in pairs]

    def shown(
        self,
        results: Sequence[jax.Array],
        reaches: jax.Array | None,
        *,
        axis: int,
        reverse: bool,
    ) -> list[jax.Array]:
        """The results of an exclusive scan, of which the first is the start where it ``reaches``.

        Elsewhere it stays, and is the identity.
        """
        shown = []
        for value, x in zip(self.values, results, strict=True):
            first = first_of(x, axis=axis, reverse=reverse)
            value = _beside(value, first).astype(x.dtype)
            if reaches is not None:
                value = choose(reaches, value, first)
            shown.append(with_first(x, value, axis=axis, reverse=reverse))
        return shown


class Scanned(NamedTuple):
    """The operands of ``scan_p``, or what belongs to them, as tangents do.

    Attributes:
      leaves: one for each leaf.
      flags: those of the head flags, if the scan is segmented.
      start: those of the start, if it has one: the values, then whether it is open.
    """

    leaves: list[Any]
    flags: Any
    start: list[Any]

    @property
    def values(self) -> list[Any]:
        """Those of the start's values."""
        return self.start[: len(self.leaves)]

    @property
    def open(self) -> Any:
        """That of whether the start is open; None where it always is."""
        return self.start[len(self.leaves)] if len(self.start) > len(self.leaves) else None


def of_scan(
    operands: Sequence[Any], *, combine: Combine, segmented: bool, started: bool, **_: Any
) -> Scanned:
    """The operands of ``scan_p`` by what they are for, given its parameters."""
    count = combine.num_leaves
    start = [*operands[count + segmented :]]
    assert started == bool(start)
    return Scanned([*operands[:count]], operands[count] if segmented else None, start)


def _beside(value: jax.Array, first: jax.Array) -> jax.Array:
    """A start's value for the first elements, with their shape and their layout in a mesh."""
    spread = jnp.broadcast_to(value, first.shape)
    if meshes.explicit_mesh(first) is None:
        return spread
    return meshes.broadcast(
        meshes.in_mesh_of(spread, first), first.shape, jax.typeof(first).sharding
    )


def first_of(x: jax.Array, *, axis: int, reverse: bool) -> jax.Array:
    """The first element in scan order, of size 1 along the axis."""
    place = x.shape[axis] - 1 if reverse else 0
    return lax.slice_in_dim(x, place, place + 1, axis=axis)


def with_first(x: jax.Array, first: jax.Array, *, axis: int, reverse: bool) -> jax.Array:
    """``x`` with another first element in scan order."""
    place = x.shape[axis] - 1 if reverse else 0
    x, first = meshes.in_mesh_of(x, first), meshes.in_mesh_of(first, x)
    if meshes.explicit_mesh(x) is not None:  # where an update in a batch has no known layout
        rest = lax.slice_in_dim(x, 1 - bool(reverse), x.shape[axis] - bool(reverse), axis=axis)
        return lax.concatenate([rest, first] if reverse else [first, rest], axis)
    changed: jax.Array = lax.dynamic_update_slice_in_dim(x, first, place, axis)
    return changed


def started(
    caller: str,
    a: jax.Array,
    b: jax.Array,
    h0: jax.Array,
    *,
    axis: int,
    reverse: bool,
    axis_name: tuple[str, ...],
    times: Callable[[jax.Array, jax.Array], jax.Array] = jnp.multiply,
) -> jax.Array:
    """``b`` with ``a h0`` added to its first element (the last, when reversed).

    ``a`` may be 1 along the axis, and ``times`` is how it multiplies what comes before.

    It is added as a padded array: XLA fuses the sum into what computes ``b``, and the derivative
    with respect to ``b`` copies nothing, as that of an update in place would.
    """
    row = b.shape[:axis] + b.shape[axis + 1 :]
    try:
        if h0.ndim not in (0, len(row)):
            raise ValueError
        h0 = jnp.broadcast_to(h0, row)
    except ValueError:
        raise ValueError(
            f"{caller}: h0 must be a scalar or have the result's shape without axis={axis}, {row}, "
            f"each dimension in full or 1; got {h0.shape}"
        ) from None
    n = b.shape[axis]
    if n == 0:
        return b
    wide = accumulation_dtype(b.dtype)
    a, h0 = a.astype(wide), h0.astype(wide)
    place = n - 1 if reverse else 0
    there = min(place, a.shape[axis] - 1)
    slope, start = lax.slice_in_dim(a, there, there + 1, axis=axis), lax.expand_dims(h0, (axis,))
    if axis_name:
        # Both factors are 0 elsewhere, so that no NaN comes in there, in derivatives either.
        here = lax.axis_index(axis_name) == (lax.axis_size(axis_name) - 1 if reverse else 0)
        slope, start = (jnp.where(here, x, jnp.zeros_like(x)) for x in (slope, start))
    first = jnp.broadcast_to(times(slope, start), (*b.shape[:axis], 1, *b.shape[axis + 1 :]))
    ends = [(place, n - 1 - place, 0) if d == axis else (0, 0, 0) for d in range(b.ndim)]
    return (b.astype(wide) + lax.pad(first, jnp.zeros((), wide), ends)).astype(b.dtype)
