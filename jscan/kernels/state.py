"""Tile state: what tiles tell each other, in self-tagged 64-bit words.

    word = tag << 32 | 32 bits of a leaf        tags: EMPTY < AGGREGATE < PREFIX

A leaf of up to 32 bits is one piece, a 64-bit leaf two. All pieces of a tile carry the same tag
once they are all written; a reader that finds unequal tags caught a tile between two writes and
takes it for EMPTY. A word is valid by itself, so neither writes nor reads need ordering: writes are
relaxed atomic maxima, so that a word never goes back to a lower tag, reads are volatile. No fence
is used.

Layout: [row][piece][tile][lane], zeroed (EMPTY) before every launch; behind them the counter of
tickets, for programs that take their tile's number from one.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Sequence

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

from jscan.kernels import language, sliding
from jscan.kernels.language import Ref
from jscan.kernels.registers import from_bits, to_bits
from jscan.kernels.tile import Tile
from jscan.kernels.words import Address

EMPTY, AGGREGATE, PREFIX = np.int32(0), np.int32(1), np.int32(2)


def to_pieces(value: jax.Array) -> list[jax.Array]:
    """A leaf as int32 pieces."""
    bits = to_bits(value)
    if bits.dtype.itemsize == 4:
        return [bits]
    high = lax.shift_right_logical(bits, jnp.full_like(bits, 32))
    return [bits.astype(jnp.int32), high.astype(jnp.int32)]


def from_pieces(pieces: Sequence[jax.Array], dtype: np.dtype) -> jax.Array:
    """The inverse of `to_pieces`."""
    if len(pieces) == 1:
        return from_bits(pieces[0], dtype)
    low, high = (p.astype(jnp.int64) for p in pieces)
    mask = jnp.full_like(low, 0xFFFFFFFF)
    return from_bits(lax.shift_left(high, jnp.full_like(high, 32)) | (low & mask), dtype)


@dataclasses.dataclass(frozen=True)
class TileState:
    """The state words of one launch: ``rows`` × pieces × ``tiles`` × ``lanes``."""

    dtypes: tuple[np.dtype, ...]
    rows: int
    tiles: int
    lanes: int
    tickets: int = 0

    @property
    def pieces(self) -> tuple[int, ...]:
        """The number of words that each leaf takes."""
        return tuple(2 if d.itemsize == 8 else 1 for d in self.dtypes)

    @property
    def words(self) -> int:
        """The number of words in all."""
        return self._states + self.tickets

    @property
    def _states(self) -> int:
        return math.prod((self.rows, sum(self.pieces), self.tiles, self.lanes))

    def take_ticket(self, words: Ref) -> jax.Array:
        """The number of programs that took a ticket before this one."""
        return language.take_ticket(words, [(jnp.int32(1), self._states)])

    def _terms(self, tile: Tile, piece: int, index: jax.Array) -> Address:
        """The address of a piece of tile ``index``, or of a window of tiles as first dimension."""
        terms = [
            (tile.row_block, sum(self.pieces) * self.tiles * self.lanes),
            (jnp.int32(piece), self.tiles * self.lanes),
            (tile.across_lanes(index), self.lanes),
        ]
        if self.lanes > 1:
            lane = tile.lane()
            terms += tile.lane_terms(1, tile.along_positions(lane) if index.ndim else lane)
        return terms

    def publish(
        self,
        words: Ref,
        tile: Tile,
        tag: jax.Array,
        values: Sequence[jax.Array],
        mask: jax.Array | None = None,
        *,
        number: jax.Array | None = None,
    ) -> None:
        """Writes a tile's words, or those of this ``number``, in the lanes of ``mask``.

        Of a tile that has no lanes, all words of several numbers are written, those in ``mask``.
        """
        mask = _and(_and(mask, self._existing(tile)), sliding.owned_lanes(tile))
        number = tile.index if number is None else number
        for place, piece in enumerate(p for v in values for p in to_pieces(v)):
            terms = self._terms(tile, place, number)
            if number.ndim:
                tag, piece = (jnp.broadcast_to(x, number.shape) for x in (tag, piece))
            language.publish(words, terms, tag, piece, mask)

    def peek(
        self, words: Ref, tile: Tile, window: jax.Array, where: jax.Array | None = None
    ) -> tuple[jax.Array, list[jax.Array]]:
        """The tags and values of the tiles in ``window``; tiles before the first read as EMPTY.

        So do words outside of the mask ``where``, which are not read.
        """
        inside = tile.across_lanes(window >= 0)
        existing = self._existing(tile)
        mask = inside if existing is None else inside & tile.along_positions(existing)
        mask = mask if where is None else mask & where
        count = sum(self.pieces)
        terms = [self._terms(tile, number, window) for number in range(count)]
        seen = [language.peek(words, t, mask) for t in terms]
        tag, pieces = seen[0][0], [piece for _, piece in seen]
        for other, _ in seen[1:]:
            tag = jnp.where(tag == other, tag, jnp.zeros_like(tag))
        if existing is not None:
            # Lanes past the array's edge own no words; they must not keep the window waiting.
            tag = jnp.where(tile.along_positions(existing), tag, jnp.full_like(tag, PREFIX))
        values, start = [], 0
        for dtype, count in zip(self.dtypes, self.pieces, strict=True):
            values.append(from_pieces(pieces[start : start + count], dtype))
            start += count
        return tag, values

    def _existing(self, tile: Tile) -> jax.Array | None:
        """Whether each lane of the tile exists; None where all do."""
        g = tile.geometry
        if not g.lanes_end:
            return None
        return tile.lanes_exist(tile.lane())


def _and(a: jax.Array | None, b: jax.Array | None) -> jax.Array | None:
    if a is None or b is None:
        return b if a is None else a
    return a & b
