"""The argument ``segments`` beside the leaves that it divides.

`jscan.Segments` run along the last axis of their arrays, and may be one row for all of the leaves.
A primitive takes them as an operand of the leaves' rank, with size 1 in the dimensions that share
it. Whether they fit is checked once, by their shape; the operand is made in the form that is used.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

from jscan.arguments.arrays import Array, as_marks
from jscan.arguments.descriptors import is_known
from jscan.arguments.scalars import as_count
from jscan.bits import Marks
from jscan.described import (
    can_be_read,
    describe,
    head_flags,
    is_whole,
    marks_of,
    shape_of,
    to_send,
    without_flags,
)
from jscan.eager import UNFIT, marks
from jscan.plain.across import flags_of_this_part
from jscan.segments import Segments

Given = Segments | Array
"""What a caller hands in: `Segments`, or an array of head flags."""


def of_scan(segments: Any) -> Any:
    """The kind of an argument of `jscan.eager` that divides a scan: an array of flags, or rows.

    Segments by bounds become flags, for which a program is compiled whatever their number. Those by
    bits stay what they are.
    """
    if not isinstance(segments, Segments):
        return marks(segments)
    if not can_be_read(segments):
        return UNFIT
    sent = to_send(segments)
    if isinstance(sent, Segments) or sent.ndim == 1:
        return sent
    return Segments("flags", sent)


def of_reduction(segments: Any) -> Any:
    """The kind of an argument of `jscan.eager` that divides a reduction, for as many segments."""
    if not isinstance(segments, Segments):
        return marks(segments)
    return without_flags(segments) if can_be_read(segments) else UNFIT


def known_count(segments: Any) -> int | None:
    """The number of known segments, or None."""
    if isinstance(segments, (jax.Array, np.ndarray)) and is_known(segments):
        fits = segments.ndim > 0 and segments.dtype.kind in "biu"
        segments = Segments.from_flags(segments) if fits else None
    return segments.num_segments if isinstance(segments, Segments) else None


def as_segments(caller: str, segments: Any) -> Given | None:
    """``segments`` as `Segments` or head flags, or None where there are none."""
    if segments is None or isinstance(segments, Segments):
        return segments
    if not (hasattr(segments, "dtype") or isinstance(segments, (list, tuple))):
        raise TypeError(
            f"{caller}: segments must be jscan.Segments or an array of head flags; "
            f"got {type(segments).__name__}"
        )
    flags = as_marks(caller, "segments", segments)
    if flags.ndim == 0:
        raise ValueError(f"{caller}: segments must have at least one dimension; got a scalar")
    return flags


@dataclasses.dataclass(frozen=True)
class Division:
    """Segments that fit the leaves they divide.

    Attributes:
      segments: the segments as they are given.
      axis: the leaves' axis that they divide.
      rank: the rank of an operand, or the least one for an operator on whole arrays.
      length: the length of the axis, or of a device's part of it.
      axis_name: the mesh axes across which the axis goes on.
    """

    segments: Given
    axis: int
    rank: int
    length: int
    axis_name: tuple[str, ...]

    def marks(self) -> Marks:
        """Head flags in the form in which ``scan_p`` reads them."""
        # Bounds of a lone element are longer than its axis.
        if isinstance(self.segments, Segments) and not self.axis_name and self.length > 1:
            given = marks_of(self.segments, in_place=self.axis >= len(shape_of(self.segments)) - 1)
            marks: Marks = jax.tree.map(self._beside, given)
            return marks
        return self.flags()

    def flags(self) -> jax.Array:
        """Head flags as a scan reads them."""
        if not isinstance(self.segments, Segments):
            return self._beside(jnp.asarray(self.segments))
        if not self.axis_name or self.length == 0:
            return self._beside(head_flags(self.segments))
        kind, array = self.descriptor()
        return flags_of_this_part(array, kind, self.axis_name, axis=self.axis, n=self.length)

    def descriptor(self) -> tuple[str, jax.Array]:
        """The descriptor that a reduction reads, behind its kind."""
        if isinstance(self.segments, Segments):
            kind, array = describe(self.segments)
            return kind, self._beside(array)
        return "flags", self.flags()

    def _beside(self, rows: jax.Array) -> jax.Array:
        if rows.ndim == 1:
            return lax.expand_dims(rows, [d for d in range(self.rank) if d != self.axis])
        if isinstance(self.segments, Segments) and self.axis < rows.ndim - 1:
            rows = jnp.moveaxis(rows, -1, self.axis)
        return lax.expand_dims(rows, range(rows.ndim, self.rank))


def divide(
    caller: str,
    segments: Given | None,
    leaves: Sequence[jax.Array],
    axis: int,
    *,
    elementwise: bool,
    axis_name: tuple[str, ...] = (),
) -> Division | None:
    """Segments beside leaves that they fit, or None where there are no segments.

    One row fits any leaves. Rows fit leaves of which they have the leading dimensions, through the
    axis at least, and are shared along the others. Where the axis goes on
    across mesh axes, flags and ids are those of the leaves' part of it, and lengths and offsets
    divide the whole.

    Raises:
      ValueError: they do not fit.
    """
    if segments is None:
        return None
    shape = leaves[0].shape
    if isinstance(segments, Segments):
        given = shape_of(segments)
        if axis_name and is_whole(segments):
            whole = shape[axis] * lax.axis_size(axis_name)
            if given != (whole,):
                raise ValueError(
                    f"{caller}: with axis_name, lengths and offsets are those of the whole axis, "
                    f"which has {whole} elements; got segments of {given[-1]}"
                )
            given = (shape[axis],)
        if axis < len(given) - 1:
            given = (*given[:axis], given[-1], *given[axis:-1])
    else:
        given = segments.shape
    rank = len(given)
    fits = rank > axis and all(leaf.shape[:rank] == given for leaf in leaves)
    if fits or given == (shape[axis],):
        rank = len(shape) if elementwise else axis + 1
        return Division(segments, axis, rank, shape[axis], axis_name)
    expected, where = shape, ""
    if isinstance(segments, Segments) and axis < len(given) - 1:
        given, expected = ((*s[:axis], *s[axis + 1 :], s[axis]) for s in (given, expected))
        where = f" with axis={axis} last"
    shared = f", its leading dimensions {shape[: max(axis, 1) + 1]}" if len(shape) > 2 else ""
    if isinstance(segments, Segments) and len(given) == 1:
        raise ValueError(
            f"{caller}: segments divide an axis of {given[0]} elements; axis={axis} of what is "
            f"scanned, of shape {shape}, has {shape[axis]}"
        )
    raise ValueError(
        f"{caller}: segments has shape {given}; expected the shape of what is scanned, "
        f"{expected}{where}{shared}, or ({shape[axis]},), the length of axis={axis}"
    )


def flags_along(
    caller: str,
    segments: Any,
    leaves: Sequence[jax.Array],
    axis: int,
    axis_name: tuple[str, ...] = (),
) -> jax.Array | None:
    """Head flags beside leaves that are combined element by element; None without segments."""
    division = _along(caller, segments, leaves, axis, axis_name)
    return None if division is None else division.flags()


def marks_along(
    caller: str,
    segments: Any,
    leaves: Sequence[jax.Array],
    axis: int,
    axis_name: tuple[str, ...] = (),
) -> Marks | None:
    """The same in the form in which ``scan_p`` reads them."""
    division = _along(caller, segments, leaves, axis, axis_name)
    return None if division is None else division.marks()


def _along(
    caller: str,
    segments: Any,
    leaves: Sequence[jax.Array],
    axis: int,
    axis_name: tuple[str, ...],
) -> Division | None:
    given = as_segments(caller, segments)
    return divide(caller, given, leaves, axis, elementwise=True, axis_name=axis_name)


def segment_count(caller: str, num_segments: Any, segments: Given | None) -> int | None:
    """The number of segments to return, or None without segments."""
    count = as_count(caller, "num_segments", num_segments)
    if segments is None:
        if count is not None:
            raise ValueError(f"{caller}: num_segments={count} needs segments")
        return None
    if count is not None:
        return count
    described = segments if isinstance(segments, Segments) else Segments.from_flags(segments)
    known = described.num_segments
    if known is None:
        raise ValueError(
            f"{caller}: num_segments is required where segments are traced flags or ids"
        )
    return known
