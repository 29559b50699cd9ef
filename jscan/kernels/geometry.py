"""The cut of an array into tiles, and what of it outgrows 32 bits."""

from __future__ import annotations

import dataclasses

import jax
import jax.numpy as jnp
import numpy as np

from jscan import extent


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
    mixed: bool = False  # operands of one byte an element stand beside wider ones

    @property
    def tiles(self) -> int:
        """Tiles along the axis."""
        return -(-self.n // self.length)

    @property
    def row_blocks(self) -> int:
        """Tiles across the rows."""
        return -(-self.outer // self.rows)

    @property
    def lane_blocks(self) -> int:
        """Tiles across the lanes."""
        return -(-self.inner // self.lanes)

    @property
    def programs(self) -> int:
        """All tiles."""
        return self.tiles * self.row_blocks * self.lane_blocks

    @property
    def shape(self) -> tuple[int, ...]:
        """The register tile's shape; a tile of one row or lane has no dimension for it."""
        rows = (self.rows,) if self.rows > 1 else ()
        return (*rows, self.length, *self.per_lane)

    @property
    def per_lane(self) -> tuple[int, ...]:
        """The shape of one position of a tile of one row: a value for each lane."""
        return (self.lanes,) if self.lanes > 1 else ()

    @property
    def axis(self) -> int:
        """The register tile's scanned dimension."""
        return 1 if self.rows > 1 else 0

    @property
    def far(self) -> bool:
        """Whether positions along the axis outgrow 32 bits."""
        return self.n >= extent.FAR

    @property
    def far_lanes(self) -> bool:
        """Whether lanes outgrow 32 bits."""
        return self.inner >= extent.FAR

    @property
    def shift(self) -> int:
        """Exclusive scans read one position to the left, in scan order."""
        return 1 if self.exclusive else 0


def size_of(block: jax.Array, total: int, size: int) -> jax.Array:
    """How many of a block's ``size`` there are of ``total``; the last block may have fewer."""
    blocks = -(-total // size)
    last = block == np.int32(blocks - 1)
    return jnp.where(last, np.int32(total - (blocks - 1) * size), np.int32(size))
