"""The layout of arrays and tiles: how an operand lies in memory, and how a scan is cut.

Every operand is seen as (outer, n, inner), the scanned axis in the middle. A `View` says where the
elements of one operand lie; a dimension of size 1 is broadcast, and read in place. A `Geometry` is
the cut of the whole into tiles of (rows, length, lanes).
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Sequence

import jax
import jax.numpy as jnp
import numpy as np

from jscan import extent


def outer_n_inner(shape: Sequence[int], axis: int) -> tuple[int, int, int]:
    """The shape with the dimensions before ``axis`` as one, and those behind it."""
    return math.prod(shape[:axis]), shape[axis], math.prod(shape[axis + 1 :])


@dataclasses.dataclass(frozen=True)
class View:
    """The place of each (row, position, lane) in an operand's memory."""

    shape: tuple[int, int, int]  # the operand's own (outer, n, inner), 1 where it is broadcast
    row_period: tuple[int, int]  # (repeat, count): its row is (row // repeat) % count

    @property
    def strides(self) -> tuple[int, int, int]:
        """The steps from one row, position and lane to the next, in elements."""
        _, n, inner = self.shape
        return (n * inner, inner, 0 if inner == 1 else 1)


def collapse(shape: Sequence[int], full: Sequence[int], axis: int) -> View | None:
    """The view of an operand of ``shape`` inside ``full``; its dimensions are full or 1.

    None where its broadcast dimensions do not collapse to one row period. Such an operand has to be
    materialised.
    """
    inner, inner_full = math.prod(shape[axis + 1 :]), math.prod(full[axis + 1 :])
    if inner not in (1, inner_full):
        return None
    own = [(s, f) for s, f in zip(shape[:axis], full[:axis], strict=True) if f > 1]
    kept = [i for i, (s, _) in enumerate(own) if s > 1]
    if not kept:
        return View((1, shape[axis], inner), (1, 1))
    first, last = kept[0], kept[-1]
    if kept != list(range(first, last + 1)):
        return None
    repeat = math.prod(f for _, f in own[last + 1 :])
    count = math.prod(f for _, f in own[first : last + 1])
    return View((count, shape[axis], inner), (repeat, count))


@dataclasses.dataclass(frozen=True)
class Geometry:
    """The cut of (outer, n, inner) into tiles of (rows, length, lanes)."""

    outer: int
    n: int
    inner: int
    rows: int
    length: int
    lanes: int
    reverse: bool
    exclusive: bool
    mixed: bool = False  # whether operands differ in bytes an element

    @property
    def tiles(self) -> int:
        """The number of tiles along the axis."""
        return -(-self.n // self.length)

    @property
    def row_blocks(self) -> int:
        """The number of tiles across the rows."""
        return -(-self.outer // self.rows)

    @property
    def lane_blocks(self) -> int:
        """The number of tiles across the lanes."""
        return -(-self.inner // self.lanes)

    @property
    def programs(self) -> int:
        """The number of tiles in all, each of them a program's."""
        return self.tiles * self.row_blocks * self.lane_blocks

    @property
    def shape(self) -> tuple[int, ...]:
        """The register tile's shape. A tile of one row has no dimension of rows; likewise lanes."""
        rows = (self.rows,) if self.rows > 1 else ()
        return (*rows, self.length, *self.per_lane)

    @property
    def per_lane(self) -> tuple[int, ...]:
        """The shape of one position in a tile of one row: one value for each lane, or a scalar."""
        return (self.lanes,) if self.lanes > 1 else ()

    @property
    def edge(self) -> tuple[int, ...]:
        """The shape of one position: one value for each row and lane, or a scalar."""
        return (*((self.rows,) if self.rows > 1 else ()), *self.per_lane)

    @property
    def axis(self) -> int:
        """The register tile's scanned dimension."""
        return 1 if self.rows > 1 else 0

    @property
    def far(self) -> bool:
        """Whether positions along the axis do not fit 32 bits."""
        return self.n >= extent.FAR

    @property
    def far_lanes(self) -> bool:
        """Whether lanes do not fit 32 bits."""
        return self.inner >= extent.FAR

    @property
    def shift(self) -> int:
        """How many positions to the left a scan reads, in scan order: one where it is exclusive."""
        return 1 if self.exclusive else 0


def size_of(block: jax.Array, total: int, size: int) -> jax.Array:
    """The number of elements in a block of ``size`` out of ``total``: the last may have fewer."""
    blocks = -(-total // size)
    last = block == np.int32(blocks - 1)
    return jnp.where(last, np.int32(total - (blocks - 1) * size), np.int32(size))
