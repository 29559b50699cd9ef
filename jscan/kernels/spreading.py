"""Head flags of a bit each, spread over the elements of a tile.

    words      ... │ 31 ... 1 0 │ 63 ... 33 32 │ ...    a 32nd of the tile, or an eighth
    tile              [         ...        ][ ...       may begin at any bit: words are moved into
    moved             │ 36 ... 6 5 │ ...                place, each by bits of its neighbour
    spread     every word over as many elements as it has bits, of which each takes its own

Few words are read and moved, whatever the place from which flags come; an element costs one
instruction more than where flags are bytes.
"""

from __future__ import annotations

import dataclasses
import functools

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

from jscan.kernels import language
from jscan.kernels.language import Ref
from jscan.kernels.layout import VECTOR, Geometry, View
from jscan.kernels.tile import Tile
from jscan.kernels.words import Address

WORD = np.dtype(np.int32)
"""The dtype of words inside a kernel."""


@dataclasses.dataclass(frozen=True)
class Bits:
    """Where the words of an operand lie, of which each has bits for so many elements."""

    view: View
    width: int

    def load(self, tile: Tile, ref: Ref, shift: int) -> jax.Array:
        """The flags ``shift`` positions to the left, not zero where set; undefined without one."""
        g = tile.geometry
        first = tile.first_in_memory() + np.int32(shift if g.reverse else -shift)
        number = lax.shift_right_arithmetic(first, np.int32(self.width.bit_length() - 1))
        words = self._words(tile, ref, number)
        known = self._known_offset(g, shift)
        if known != 0:
            offset = jnp.int32(known) if known else first & np.int32(self.width - 1)
            words = self._moved(words, self._words(tile, ref, number + np.int32(1)), offset)
        octets = words
        if self.width > 8:
            each, number = _spread(words, self.width // 8)
            if g.mirrored:
                number = np.int32(self.width // 8 - 1) - number
            octets = lax.shift_right_logical(each, number * np.int32(8))
            octets = octets.reshape(*g.shape[: g.axis], g.length // 8)
        each, number = _spread(octets, 8)
        if g.mirrored:
            number = np.int32(7) - number
        flags = each & lax.shift_left(jnp.ones_like(number), number)
        # ptxas, which reads bits of a word into several predicates at once, takes one of a bit
        # of another word for it (12.8 and 13.0): only what it has to combine is read singly.
        flags |= language.unknown(jnp.int32(0))
        return _by_neighbours(flags.reshape(g.shape), ref)

    def _known_offset(self, g: Geometry, shift: int) -> int | None:
        """The bit at which all tiles begin, if they begin at the same."""
        if g.word > 1:
            return None
        start = g.n - g.length if g.reverse and not g.from_front else 0
        return (start + shift if g.reverse else start - shift) % self.width

    def _words(self, tile: Tile, ref: Ref, number: jax.Array) -> jax.Array:
        """As many words as the tile takes, from that ``number`` of each row on."""
        g = tile.geometry
        shape = (*g.shape[: g.axis], g.length // self.width)
        iota = functools.partial(lax.broadcasted_iota, jnp.int32, shape)
        every = iota(g.axis)
        if g.mirrored:
            every = np.int32(g.length // self.width - 1) - every
        terms: Address = [(number, 1), (every, 1)]
        terms += tile.row_terms(self.view, lambda: iota(0))
        place = number + every
        mask = (place >= 0) & (place < np.int32(self.view.shape[1]))
        if g.outer % g.rows:
            mask &= tile.rows_exist(iota(0))
        return language.load(ref, terms, mask=mask).astype(WORD)

    def _moved(self, words: jax.Array, behind: jax.Array, offset: jax.Array) -> jax.Array:
        """The words from bit ``offset`` of each on, with the first bits of those ``behind``."""
        by = jnp.broadcast_to(offset, words.shape)
        if self.width < 8 * WORD.itemsize:
            width = jnp.full(words.shape, self.width, WORD)
            return lax.shift_right_logical(words | lax.shift_left(behind, width), by)
        # A shift by all of the bits has no meaning in every engine.
        rest = np.int32(self.width - 1) - by
        upper = lax.shift_left(lax.shift_left(behind, jnp.ones_like(behind)), rest)
        return lax.shift_right_logical(words, by) | upper


def _spread(words: jax.Array, count: int) -> tuple[jax.Array, jax.Array]:
    """Each word so many times behind another, and which of these it is."""
    shape = (*words.shape, count)
    each = jnp.broadcast_to(lax.expand_dims(words, [words.ndim]), shape)
    return each, lax.broadcasted_iota(WORD, shape, words.ndim)


def _by_neighbours(flags: jax.Array, ref: Ref) -> jax.Array:
    """The same flags, of which a thread has as many neighbours as it would read at once of bytes.

    A compiler gives a thread as many neighbours of a tile as its widest access reads, which are
    four of 32 bits, and a segmented scan then takes 213 registers for 142. So bytes are read here
    that are nobody's: no lane reads any, and what is left of them is always zero. The first
    compiler, of tiles, does not see that, and the second, of instructions, drops the access.
    """
    nowhere = language.opaque(jnp.int32(0))
    place = lax.broadcasted_iota(jnp.int32, flags.shape, flags.ndim - 1)
    mask = jnp.broadcast_to(nowhere != 0, flags.shape)
    found = language.load_seen(ref, [(nowhere, VECTOR), (place, 1)], 8, mask=mask).astype(WORD)
    above = lax.shift_left(found, jnp.full(flags.shape, 8, WORD))
    return flags | (above & jnp.full(flags.shape, 255, WORD))


def fits(geometry: Geometry, strip: int, width: int) -> bool:
    """Whether tiles, and strips of so many positions, can be read so: all of them hold whole words.

    Several rows that begin inside of memory's words would begin at bits of their own.
    """
    alone = geometry.word == 1 or geometry.rows == 1
    whole = geometry.length % width == 0 and strip % width == 0
    return geometry.inner == 1 and not geometry.far and alone and whole
