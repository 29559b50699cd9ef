"""The words of memory that a tile's rows lie in, where tiles are cut along them.

An access is one of 16 bytes only where its address is known to be a multiple of that, and its mask
to be the same for all of it. So a tile of rows that begin inside of words is read word by word, and
what does not belong to the row is thrown away in registers; and written word by word but for the
two words of a row that it shares with its neighbours.
"""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Sequence

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

from jscan.kernels import language
from jscan.kernels.language import Ref
from jscan.kernels.layout import Geometry, size_of
from jscan.kernels.registers import from_bits, to_bits

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

    def __init__(
        self, geometry: Geometry, row_block: jax.Array, index: jax.Array, *, accessed: bool = False
    ):
        g, self._row_block, self._index = geometry, row_block, index
        self._geometry, self._accessed = g, accessed
        row = row_block
        if g.rows > 1:
            row = row_block * np.int32(g.rows) + self._iota(0)
        begin = row * np.int32(g.n % g.word) if g.outer > 1 else jnp.int32(0)
        self.before = lax.div(begin, np.int32(g.word))
        self.inside = begin - self.before * np.int32(g.word)
        self.count = lax.div(self.inside + np.int32(g.n + g.word - 1), np.int32(g.word))
        end = self.count * np.int32(g.word) - self.inside - np.int32(g.n)
        self.lead = end if g.reverse else self.inside

    def _iota(self, dimension: int) -> jax.Array:
        return lax.broadcasted_iota(jnp.int32, self._geometry.shape, dimension)

    def _place(self) -> jax.Array:
        """The place of each element in the tile, in memory order."""
        return self._geometry.offset(self._iota(self._geometry.axis), accessed=self._accessed)

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
        return [*self.begin(), (self._place(), 1)]

    def begin(self) -> Address:
        """The address of the tile's first place in memory."""
        g = self._geometry
        row_stride = g.n - g.n % g.word
        if g.rows > 1:
            rows: Address = [(self._row_block, g.rows * row_stride), (self._iota(0), row_stride)]
        else:
            rows = [(self._row_block, row_stride)]
        return [*rows, (self.before, g.word), (self._first, g.word)]

    @property
    def first_element(self) -> jax.Array:
        """The element of the row at the tile's first place in memory; negative in front of it."""
        return self._first * np.int32(self._geometry.word) - self.inside

    def load(self, ref: Ref, terms: Address) -> list[jax.Array]:
        """The words at the address ``terms``, with what else is in them."""
        g = self._geometry
        values = language.load_parts(ref, terms, mask=self._within())
        if g.outer * g.n % g.word == 0:
            return values

        def with_last() -> list[jax.Array]:
            shared, here = self._shared(last=True)
            word = language.load_parts(ref, shared.terms(), mask=shared._exists())
            tall = [jnp.broadcast_to(lax.expand_dims(x, [x.ndim - 1]), self._by_word) for x in word]
            pairs = zip(tall, values, strict=True)
            return [jnp.where(here, x.reshape(g.shape), value) for x, value in pairs]

        # The array ends inside of its last word, of which no more is read.
        may_end = self._row_block == np.int32(g.row_blocks - 1)
        may_end &= self._index == 0 if g.reverse else self._may_finish
        loaded: list[jax.Array] = lax.cond(may_end, with_last, lambda: values)
        return loaded

    def store(self, ref: Ref, terms: Address, values: Sequence[jax.Array]) -> None:
        """Writes the words that are a row's alone, then its elements in the others."""
        g = self._geometry
        end = lax.div(self.inside + np.int32(g.n), np.int32(g.word))
        whole = self._among((self.inside > 0).astype(jnp.int32), end)
        language.store(ref, terms, values, mask=whole)

        def ends() -> None:
            for last in (False, True):
                shared, here = self._shared(last=last)
                word = [self._kept(x, here) for x in values]
                begin, per_tile = self._begin(shared.count), np.int32(g.length // g.word)
                in_tile = (shared._first >= begin) & (shared._first < begin + per_tile)
                language.store(ref, shared.terms(), word, mask=shared._exists() & in_tile)

        language.when((self._index == 0) | self._may_finish, ends)

    def _kept(self, values: jax.Array, where: jax.Array) -> jax.Array:
        """The elements of the word that ``where`` selects."""
        bits = to_bits(values)
        kept = jnp.where(where, bits, jnp.zeros_like(bits)).reshape(self._by_word)
        return from_bits(jnp.sum(kept, axis=-2, dtype=kept.dtype), values.dtype)

    @property
    def _may_finish(self) -> jax.Array:
        """Whether the row may end in the tile, in scan order: in the last one or the one before."""
        g = self._geometry
        return self._index >= np.int32(max(g.n // g.length - 1, 0))

    @property
    def _number(self) -> jax.Array:
        """The number of the word in which each place is."""
        g, place = self._geometry, self._iota(self._geometry.axis)
        if g.mirrored and not self._accessed:
            return self._first + lax.div(self._place(), np.int32(g.word))
        return self._first + g.words_before(place, g.word)

    @property
    def _by_word(self) -> tuple[int, ...]:
        """The shape of the tile with a dimension for the places within a word."""
        g = self._geometry
        return (*g.shape[:-1], g.length // g.word, g.word)

    def _within(self) -> jax.Array:
        """Whether each place is in a word in which the row lies, and which ends in the array."""
        g = self._geometry
        count = self.count
        if g.outer * g.n % g.word:
            row = self._row_block
            if g.rows > 1:
                row = row * np.int32(g.rows) + self._iota(0)
            count = count - (row == np.int32(g.outer - 1)).astype(jnp.int32)
        return self._among(jnp.zeros_like(count), count)

    def _among(self, first: jax.Array, end: jax.Array) -> jax.Array:
        """Whether each place is in one of the row's words from ``first`` to ``end``."""
        checks = [self._number >= first, self._number < end, *self._rows_exist()]
        return functools.reduce(lax.bitwise_and, checks)

    def _exists(self) -> jax.Array:
        """Whether each place holds an element of the row."""
        g = self._geometry
        element = self.first_element + self._place()
        checks = [element >= 0, element < np.int32(g.n), *self._rows_exist()]
        return functools.reduce(lax.bitwise_and, checks)

    def _rows_exist(self) -> list[jax.Array]:
        g = self._geometry
        if g.outer % g.rows == 0:
            return []
        return [self._iota(0) < size_of(self._row_block, g.outer, g.rows)]

    def _shared(self, *, last: bool) -> tuple[Words, jax.Array]:
        """The row's first word in memory, or its last, as a tile; and its places in this one.

        It may be shared with the row's neighbour.
        """
        g = self._geometry
        one = dataclasses.replace(g, length=g.word)
        end = Words(one, self._row_block, self._index).count - np.int32(1)
        place = end if last != g.reverse else jnp.zeros_like(end)
        number = self.count - np.int32(1) if last else jnp.int32(0)
        shared = Words(one, self._row_block, place, accessed=self._accessed)
        return shared, self._number == number
