"""The words of memory that a tile's rows lie in, where tiles are cut along them.

An access is one of 16 bytes only where its address is known to be a multiple of that, and its mask
to be the same for all of it. So a tile of rows that begin inside of words is read word by word, and
what does not belong to the row is thrown away in registers; and written word by word but for the
two words of a row that it shares with its neighbours.
"""

from __future__ import annotations

import functools

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

from jscan.kernels.layout import Geometry, size_of

Address = list[tuple[jax.Array, int]]
"""Terms to be summed (`language.Terms`)."""


class Words:
    """The words of a tile's rows.

    A row's words are counted from the one in which it begins. Each attribute is a scalar, or of the
    tile's shape where it has several rows.

    Attributes:
      before: how many words come before the row's first, less those that whole rows take.
      inside: how many elements of the first word belong to the row before.
      count: the number of the row's words.
      lead: how many places in scan order the first tile has in front of the row.
    """

    def __init__(self, geometry: Geometry, row_block: jax.Array, index: jax.Array):
        g, self._row_block, self._index = geometry, row_block, index
        self._geometry = g
        row = row_block
        if g.rows > 1:
            row = row_block * np.int32(g.rows) + self._iota(0)
        begin = row * np.int32(g.n % g.word) if g.outer > 1 else jnp.int32(0)
        self.before = lax.div(begin, np.int32(g.word))
        self.inside = begin - self.before * np.int32(g.word)
        self.count = lax.div(self.inside + np.int32(g.n + g.word - 1), np.int32(g.word))
        end = self.count * np.int32(g.word) - self.inside - np.int32(g.n)
        self.lead = end if g.reverse else self.inside

    def has(self, word: Words) -> jax.Array:
        """Whether another tile, of one ``word``, is in this one."""
        begin, size = self._begin(word.count), self._geometry.length // self._geometry.word
        number = word._begin(word.count)
        return (number >= begin) & (number < begin + np.int32(size))

    def _iota(self, dimension: int) -> jax.Array:
        return lax.broadcasted_iota(jnp.int32, self._geometry.shape, dimension)

    @property
    def _first(self) -> jax.Array:
        return self._begin(self.count)

    def _begin(self, count: jax.Array) -> jax.Array:
        """The number of the tile's first word in memory, of ``count``; negative in front of all."""
        g = self._geometry
        per_tile = np.int32(g.length // g.word)
        if g.reverse:
            return count - (self._index + np.int32(1)) * per_tile
        return self._index * per_tile

    def terms(self) -> Address:
        """The address of each place, which begins with a whole word."""
        g = self._geometry
        row_stride = g.n - g.n % g.word
        if g.rows > 1:
            rows: Address = [(self._row_block, g.rows * row_stride), (self._iota(0), row_stride)]
        else:
            rows = [(self._row_block, row_stride)]
        words = [(self.before, g.word), (self._first, g.word)]
        return [*rows, *words, (self._iota(g.axis), 1)]

    def number(self) -> jax.Array:
        """The number of the word in which each place is."""
        return self._first + lax.div(self._iota(self._geometry.axis), np.int32(self._geometry.word))

    def within(self) -> jax.Array:
        """Whether each place is in a word in which the row lies, and which ends in the array."""
        g = self._geometry
        count = self.count
        if g.outer * g.n % g.word:
            row = self._row_block
            if g.rows > 1:
                row = row * np.int32(g.rows) + self._iota(0)
            count = count - (row == np.int32(g.outer - 1)).astype(jnp.int32)
        return self._among(jnp.zeros_like(count), count)

    def whole(self) -> jax.Array:
        """Whether each place is in a word that is the row's alone."""
        end = lax.div(self.inside + np.int32(self._geometry.n), np.int32(self._geometry.word))
        return self._among((self.inside > 0).astype(jnp.int32), end)

    def _among(self, first: jax.Array, end: jax.Array) -> jax.Array:
        """Whether each place is in one of the row's words from ``first`` to ``end``."""
        g = self._geometry
        checks = [self.number() >= first, self.number() < end]
        if g.outer % g.rows:
            checks.append(self._iota(0) < size_of(self._row_block, g.outer, g.rows))
        return functools.reduce(lax.bitwise_and, checks)

    def may_end(self) -> jax.Array:
        """Whether the array may end in the tile."""
        last = self._row_block == np.int32(self._geometry.row_blocks - 1)
        return last & self._at_end(in_memory=True)

    def at_edge(self) -> jax.Array:
        """Whether the tile may have words that rows share."""
        return (self._index == 0) | self._at_end()

    def _at_end(self, *, in_memory: bool = False) -> jax.Array:
        """Whether the row may end in the tile, in scan order or ``in_memory``."""
        # Depending on its place in memory it ends in the last tile or in the one before.
        g = self._geometry
        last = self._index >= np.int32(max(g.n // g.length - 1, 0))
        return self._index == 0 if in_memory and g.reverse else last
