"""Rows one behind the other, as one axis in which scans restart (`layout.Geometry.row`).

    memory   │ a b c d │ e f g h │ i j k l │ m n o p │      words of 16 bytes
    rows       └─ 0 ─────┘└─ 1 ─────┘└─ 2 ─────┘ ...
    tiles    [    whole    ][   words   ][   only    ] ...

Rows that begin inside of words would be read and written element by element. Their array begins
with a word, and tiles that are cut along it are read and written by words.
"""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

from jscan.kernels import language
from jscan.kernels.tile import Tile


def begin(tile: Tile, shift: int) -> jax.Array:
    """Whether each element ``shift`` positions to the left is a row's first in memory.

    Places behind the axis count as rows too.
    """
    g = tile.geometry
    place = tile.offset()
    if g.row < g.length:
        phase = _phase(tile, shift if g.reverse else -shift)
        return lax.rem(phase + place, np.int32(g.row)) == 0
    return place == first(tile, shift)


def first(tile: Tile, shift: int) -> jax.Array:
    """The place in memory order of the first element of which `begin` holds."""
    phase = _phase(tile, shift if tile.geometry.reverse else -shift)
    return jnp.where(phase == 0, phase, np.int32(tile.geometry.row) - phase)


def may_restart(tile: Tile) -> jax.Array:
    """Whether scans of rows may restart in the tile.

    Restarts of a reversed scan are those of the elements to the right, and an exclusive one reads
    one element to the left.
    """
    g = tile.geometry
    phase = _phase(tile, 1 if g.reverse else -g.shift)
    return (phase == 0) | (np.int32(g.row) - phase < np.int32(g.length + g.shift))


def is_ragged(tile: Tile) -> jax.Array:
    """Whether the axis, whose tiles are cut from the front, ends inside of the tile."""
    # Opaque, since Triton 3.6 fails where it knows that a look back is the first tile's.
    index = language.opaque(tile.index)
    return index == np.int32(0 if tile.geometry.reverse else tile.geometry.tiles - 1)


def _phase(tile: Tile, step: int) -> jax.Array:
    """The place in its row of the element ``step`` behind the tile's first in memory."""
    row = np.int32(tile.geometry.row)
    return lax.rem(tile.first_in_memory() + (row + np.int32(step)), row)
