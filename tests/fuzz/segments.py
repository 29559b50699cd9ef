"""Fuzzing: segments, as an array that describes them and as each element's segment by number."""

from __future__ import annotations

import dataclasses
from typing import Any

import numpy as np

from jscan import Segments
from tests.fuzz.examples import FULL, Data, Form, heads

COUNTED = ("lengths", "offsets")
IDS = ("sorted", "neighbours", "unsorted", "planned")


@dataclasses.dataclass(frozen=True)
class Described:
    """Segments as an array that describes them, and as the number of each element's segment.

    Numbers have the dimensions of the operands, or only the scanned one; both may be batched.
    """

    array: Any
    numbers: Any


def draw_segments(form: Form, data: Data, rng: np.random.Generator) -> Described | None:
    """Segments of the form's kind."""
    if form.segments == "none":
        return None
    batch = (form.batch,) if form.batch and form.mapped[-1] else ()
    full = form.segments in FULL
    others = [s for d, s in enumerate(form.shape) if d != form.along] if full else []
    shape = (*batch, *others, form.n)
    if form.segments in COUNTED:
        return _cuts(form, data, rng, batch)
    flags = heads(rng, shape, data.heads)
    begins = flags | (np.arange(form.n) == 0)
    numbers = np.cumsum(begins, axis=-1) - 1
    if form.segments in IDS:
        numbers = _own_ids(form, rng, numbers)
        narrow = form.flag_dtype != "bool" and (form.flag_dtype != "uint8" or form.n < 100)
        array = numbers.astype(form.flag_dtype if narrow else "int32")
    elif form.segments in ("ids", "rows of ids"):
        # Neighbours differ, and what is further apart may not.
        steps = np.where(begins, rng.integers(1, 100, shape), 0)
        array = (np.cumsum(steps, axis=-1) if form.flag_dtype != "bool" else numbers) % 100
        array = (array % 2 == 1) if form.flag_dtype == "bool" else array
        # Steps of 1 to 99 modulo 100 are never none.
        array = array.astype(form.flag_dtype)
    elif form.segments == "packed":
        array = np.packbits(flags, axis=-1, bitorder="little")
        if form.flag_dtype in ("int32", "int64"):
            whole = [(0, 0)] * (array.ndim - 1) + [(0, -array.shape[-1] % 4)]
            array = np.pad(array, whole).view(np.uint32)
    else:
        # Any nonzero value marks a head, one whose low byte is zero too.
        wide = form.flag_dtype in ("int32", "int64")
        marks = rng.choice([1, 2, -1, 256, 2**31 - 1] if wide else [1, 2, 128, 255], shape)
        array = np.where(flags, marks, 0).astype(form.flag_dtype)
    if full:
        numbers = np.moveaxis(numbers, -1, form.along + len(batch))
        if form.segments == "flags":
            array = np.moveaxis(array, -1, form.along + len(batch))
    return Described(array, numbers)


def _own_ids(form: Form, rng: np.random.Generator, numbers: Any) -> Any:
    """Ids for ``segment_sum`` and its like, some of which are no segment's."""
    if form.segments == "sorted":
        return numbers + rng.integers(-2, 3)
    if form.segments == "neighbours":
        names = rng.permutation(np.arange(-1, numbers.shape[-1] + 1))
        return names[numbers]
    return rng.integers(-1, form.wanted + 1, numbers.shape)


def _cuts(form: Form, data: Data, rng: np.random.Generator, batch: tuple[int, ...]) -> Described:
    """Lengths or offsets, empty segments among them; traced ones need not fit the axis."""
    n, count = form.n, form.count
    cuts = np.sort(rng.integers(0, n + 1, (*batch, count - 1)), axis=-1)
    edges = [np.full((*batch, 1), value) for value in (0, n)]
    bounds = np.concatenate([edges[0], cuts, edges[1]], axis=-1)
    if data.heads == "few":  # all but one are empty
        bounds[..., 1:-1] = rng.choice([0, n])
    ragged = data.heads == "ends" and form.wrapper != "call"
    if form.segments == "lengths":
        array = np.diff(bounds, axis=-1)
        if ragged:
            array = array + rng.integers(-2, 3, array.shape)
        ends = np.cumsum(np.maximum(array, 0), axis=-1)
    else:
        array = bounds
        if ragged:
            array = array + rng.integers(-2, 3, array.shape)
        clean = np.where((array >= 0) & (array < n), array, n)
        ends = np.minimum.accumulate(clean[..., ::-1], axis=-1)[..., ::-1][..., 1:]
    numbers = np.sum(ends[..., None, :] <= np.arange(n)[:, None], axis=-1)
    dtype = "int64" if form.flag_dtype in ("bool", "int64") else "int32"
    return Described(array.astype(dtype), numbers)


def segments_of(form: Form, array: Any) -> Any:
    """The argument `segments` for what describes them."""
    if form.segments in ("rows",):
        return Segments.from_flags(array)
    if form.segments == "packed":
        return Segments.from_packed(array, form.n)
    if form.segments in ("ids", "rows of ids"):
        return Segments.from_ids(array)
    if form.segments == "lengths":
        return Segments.from_lengths(array, total=form.n)
    if form.segments == "offsets":
        return Segments.from_offsets(array, total=form.n)
    return array


def numbers_of(form: Form, described: Described, *, shared: bool = True) -> Any:
    """The segments' numbers as the operands lie: with a batch, or of the axis alone."""
    numbers = described.numbers
    batched = bool(form.batch) and form.mapped[-1]
    rank = len(form.shape)
    if numbers.ndim - batched == 1 and rank > 1:
        if shared and not batched:
            return numbers
        ones = [form.n if d == form.along else 1 for d in range(rank)]
        numbers = numbers.reshape(*numbers.shape[:batched], *ones)
    elif shared and not batched and numbers.ndim == 1:
        return numbers
    if form.batch and not batched:
        numbers = numbers[None]
    batch = (form.batch,) if form.batch else ()
    return np.broadcast_to(numbers, (*batch, *form.shape))


def flags_of(numbers: Any, axis: int) -> Any:
    """Head flags of segments by number."""
    return np.diff(numbers, axis=axis, prepend=-1) != 0
