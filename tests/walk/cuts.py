"""How rows of the table are cut into segments: each form in which jscan takes them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from jscan import Segments
from tests import reference
from tests.walk.row import LENGTH, ROWS

COUNT = 4  # of segments, where there have to be so many


@dataclass(frozen=True)
class Cut:
    """A form of segments: an operand that says where they are, and what it means."""

    name: str
    covers: tuple[str, ...]
    draw: Callable[[np.random.Generator], Any]
    label: str
    # What the function under test is given.
    given: Callable[[Any], Any]
    # Head flags, (n,) or (rows, n), by the module that is handed in: numpy or jax.numpy.
    flags: Callable[[Any, Any], Any]
    # Whether a part of it says where the segments of a part of the axis are.
    divisible: bool = False

    def numbers(self, descriptor: Any) -> reference.Array:
        """The segment of each element, (rows, n)."""
        heads = self.flags(np, descriptor)
        return np.broadcast_to(reference.numbers_of(heads, axis=-1), (ROWS, LENGTH))


def lying(label: str, flags: Any) -> Any:
    """Flags (rows, n) as the elements lie."""
    return flags.T if flags.ndim > 1 and label == "nr" else flags


@dataclass(frozen=True)
class Segmented:
    """The last operand of a row of the table, where its elements are cut into segments."""

    cut: Cut | None
    label: str = "rn"  # how the elements lie

    @property
    def covers(self) -> tuple[str, ...]:
        """The constructor that the cut calls."""
        return () if self.cut is None else self.cut.covers

    @property
    def labels(self) -> tuple[str, ...]:
        """The operand's label; none without a cut."""
        if self.cut is None:
            return ()
        return (self.label if self.cut.label == "rn" else self.cut.label,)

    def divisible(self, trailing: tuple[int, ...] = ()) -> bool:
        """Whether elements of a shape can be combined across devices, each with a part of them."""
        return self.cut is None or (self.cut.divisible and not trailing)

    def draw(self, rng: np.random.Generator) -> list[Any]:
        """The operand; none without a cut."""
        return [] if self.cut is None else [lying(self.label, self.cut.draw(rng))]

    def given(self, operands: Sequence[Any]) -> Any:
        """What the function under test is given for `segments`."""
        return None if self.cut is None else self.cut.given(operands[-1])

    def flags(self, xp: Any, operands: Sequence[Any]) -> Any:
        """The head flags, as the elements lie; None without a cut."""
        return None if self.cut is None else self.cut.flags(xp, operands[-1])

    @property
    def numbers(self) -> Callable[..., Any] | None:
        """The function of all operands that gives each element's segment; None without a cut."""
        cut = self.cut
        if cut is None:
            return None
        return lambda *operands: cut.numbers(lying(self.label, operands[-1]))


def _flags(rng: np.random.Generator) -> Any:
    flags = np.zeros(LENGTH, np.uint8)
    flags[rng.choice(np.arange(1, LENGTH), COUNT - 2, replace=False)] = 3
    return flags


def _rows_of_flags(rng: np.random.Generator) -> Any:
    return np.stack([_flags(rng) for _ in range(ROWS)]) != 0


def _ids(rng: np.random.Generator) -> Any:
    kinds = rng.permutation(9)[: COUNT - 1]
    return kinds[np.cumsum(_flags(rng) != 0)].astype(np.int32)


def _lengths(rng: np.random.Generator) -> Any:
    return rng.permutation([3, 0, 4, 1]).astype(np.int32)


def _offsets(rng: np.random.Generator) -> Any:
    return np.concatenate([[0], np.cumsum(_lengths(rng))]).astype(np.int64)


def _flags_of_ends(xp: Any, ends: Any) -> Any:
    """Where the number of segments that have ended changes."""
    number = xp.sum(xp.arange(LENGTH)[:, None] >= ends.astype(int)[None, :], axis=1)
    return xp.concatenate([xp.ones(1, bool), number[1:] != number[:-1]])


FLAGS = Cut("flags", (), _flags, "n", lambda d: d, lambda _, d: d.astype(bool), divisible=True)
OF_FLAGS = Cut(
    "Segments of flags",
    ("Segments.from_flags",),
    _flags,
    "n",
    Segments.from_flags,
    lambda _, d: d.astype(bool),
)
ROWS_OF_FLAGS = Cut(
    "rows of flags", (), _rows_of_flags, "rn", lambda d: d, lambda _, d: d, divisible=True
)
PACKED = Cut(
    "packed flags",
    ("Segments.from_packed",),
    lambda rng: np.packbits(_flags(rng) != 0, bitorder="little"),
    "s",
    lambda d: Segments.from_packed(d, LENGTH),
    lambda xp, d: xp.unpackbits(d.astype(np.uint8), axis=-1, bitorder="little") != 0,
)
ROWS_OF_PACKED = replace(
    PACKED,
    name="rows of packed flags",
    draw=lambda rng: np.packbits(_rows_of_flags(rng), axis=-1, bitorder="little"),
    label="rs",
)
IDS = Cut(
    "Segments of ids",
    ("Segments.from_ids",),
    _ids,
    "n",
    Segments.from_ids,
    lambda xp, d: xp.concatenate([xp.ones(1, bool), d[1:] != d[:-1]]),
)
LENGTHS = Cut(
    "Segments of lengths",
    ("Segments.from_lengths",),
    _lengths,
    "s",
    lambda d: Segments.from_lengths(d, total=LENGTH),
    lambda xp, d: _flags_of_ends(xp, xp.cumsum(d)),
)
OFFSETS = Cut(
    "Segments of offsets",
    ("Segments.from_offsets",),
    _offsets,
    "s",
    lambda d: Segments.from_offsets(d, total=LENGTH),
    lambda xp, d: _flags_of_ends(xp, d[1:]),
)


def numbers_in_order(xp: Any, cut: Cut, descriptor: Any) -> Any:
    """The segment of each element for a reduction, which counts empty ones; of `xp`."""
    if cut is LENGTHS or cut is OFFSETS:
        ends = xp.cumsum(descriptor) if cut is LENGTHS else descriptor[1:]
        return xp.sum(xp.arange(LENGTH)[:, None] >= ends.astype(int)[None, :], axis=1)
    heads = cut.flags(xp, descriptor).astype(int)
    return xp.cumsum(heads, axis=-1) - heads[..., :1]
