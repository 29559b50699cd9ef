"""Tiles of lanes whose rows begin inside of memory's words, and tiles that share lanes.

    memory    │ · · · a │ b c d e │ f g h i │       a row's aligned words, of four bytes each
    held        a b c d   e f g h   i - - -         shifted by the row's own bytes: lanes are apart
    written   │       a │ b c d e │ f g h i │       shifted back; ends of rows singly

A thread reads two words that lie one behind the other, and keeps the 32 bits between them. To write
it needs those of its left neighbour. By single elements a warp writes 32 or 64 bytes at once, of
which each begins and ends inside of a sector of memory: the L2 cache, which takes sectors, was 76
to 82 % busy at 0.41 and 0.44 of copy speed (H100, 2026-11-27).

Lanes that neighbouring tiles share are scanned by both, and a scan's results are written by one: a
sector belongs to the tile in which it begins, so that sectors are written whole.
"""

from __future__ import annotations

import dataclasses
import functools
import itertools
from collections.abc import Collection, Sequence
from typing import TYPE_CHECKING

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

from jscan import extent
from jscan.kernels import funnels, language, memory
from jscan.kernels.language import Ref
from jscan.kernels.layout import Geometry, View
from jscan.kernels.registers import from_bits, to_bits

if TYPE_CHECKING:
    from jscan.kernels.tile import Tile
    from jscan.kernels.words import Address

WORD, SECTOR = 4, 32
"""Bytes of a word that is shifted, and of what memory writes at once."""


def fits(g: Geometry, widths: Collection[int]) -> bool:
    """Whether tiles of this cut can share lanes, of operands and results of so many bytes.

    Each row of a tile has a term of its own in every address, and what is left of words is counted
    in 32 bits.
    """
    per, units = max(1, WORD // min(widths)), [SECTOR // width for width in widths]
    alone = g.rows == 1 and g.inner > 1 and g.lanes > 1 and g.word == 1
    plain = not (g.woven or g.far or g.far_lanes or g.row)
    whole = all(g.lane_step % unit == 0 for unit in units if g.shared >= unit)
    whole = whole and g.lanes % per == g.lane_step % per == 0
    counted = g.outer * per < extent.FAR and g.length * per < extent.FAR
    return alone and plain and whole and 0 < g.shared < g.lanes and counted


def slides(g: Geometry) -> bool:
    """Whether rows are read and written by words that are shifted."""
    return g.per_word > 1 or g.shifts


def in_elements(g: Geometry) -> Geometry:
    """The geometry of the array itself, where several of its lanes are abreast."""
    lanes, shared, per = g.lanes * g.abreast, g.shared * g.abreast, g.abreast
    cut = dataclasses.replace(g, inner=g.narrow_lanes, lanes=lanes, shared=shared, narrow_lanes=0)
    return dataclasses.replace(cut, abreast=1, per_word=per, together=1)


def _of_array(tile: Tile) -> Tile:
    """The same tile, whose lanes are those of the array (`in_elements`)."""
    found = tile.cut(in_elements(tile.geometry))
    found.may_end = tile.may_end
    return found


def suits(g: Geometry, view: View, dtype: np.dtype) -> bool:
    """Whether an operand is read by words that are shifted."""
    return g.per_word > 1 and dtype.itemsize * g.per_word == WORD and view.follows(g)


def owned_lanes(tile: Tile) -> jax.Array | None:
    """Whether each lane is no other tile's; None where all are the tile's own."""
    g = tile.geometry
    if not g.shared:
        return None
    return (tile.lane() < np.int32(g.lane_step)) | _is_last(tile)


def load_parts(tile: Tile, ref: Ref, view: View, shift: int) -> list[jax.Array]:
    """`Tile.load_parts` where there are several elements in a word; of what `suits`, int32 words.

    What is as wide as no word, or what lanes share, comes by an access for each element of a word,
    so that a thread has the lanes that it has of words.
    """
    if tile.geometry.shifts:
        words = _Words(_of_array(tile), tile.geometry.abreast, shift)
        if not isinstance(ref, memory.InWords):
            return words.load_lane(ref, view, 0)
        low, high = (words.load(ref.narrow, later) for later in (False, True))
        return [funnels.funnel(low, high, words.before * np.int32(32 // words.per))]
    words = _Words(tile, tile.geometry.per_word, shift)
    if suits(tile.geometry, view, ref.dtype):
        low, high = (words.load(ref, later) for later in (False, True))
        return [funnels.funnel(low, high, words.before * np.int32(8 * ref.dtype.itemsize))]
    places = words.per if view.strides[2] else 1
    found = [words.load_lane(ref, view, place) for place in range(places)] * (words.per // places)
    return [language.interleave(parts) for parts in zip(*found, strict=True)]


def along(tile: Tile, each: jax.Array) -> jax.Array:
    """A value of each lane at every position, as words bring them.

    As a row it would bring its own layout, to which all that it meets would be moved.
    """
    g = tile.geometry
    count = g.lanes // g.per_word
    apart = language.deinterleave(each, g.per_word)
    rows = [jnp.broadcast_to(x[None, :], (g.length, count)) for x in apart]
    return language.interleave(rows)


def elements(
    tile: Tile, refs: Sequence[Ref], views: Sequence[View], read: Sequence[jax.Array]
) -> list[jax.Array]:
    """What was read of these operands, with the elements in place of words that hold them."""
    g, rest = tile.geometry, iter(read)
    if g.per_word == 1:
        return [*read]
    found: list[jax.Array] = []
    for ref, view in zip(refs, views, strict=False):
        parts = itertools.islice(rest, memory.parts(ref.dtype) * view.numbers)
        in_words = suits(g, view, ref.dtype)
        found += [_from_words(x, ref.dtype) for x in parts] if in_words else parts
    return [*found, *rest]


def _from_words(words: jax.Array, dtype: np.dtype) -> jax.Array:
    width = 8 * dtype.itemsize
    read_as = jnp.dtype(jnp.uint8) if dtype == jnp.bool_ else dtype
    parts = [from_bits(_right(words, place), read_as) for place in range(0, 32, width)]
    return language.interleave(parts)


def store(tile: Tile, ref: Ref, parts: Sequence[jax.Array]) -> None:
    """`Tile.store` of a tile that shares lanes."""
    values = parts if memory.parts(ref.dtype) == 2 else [x.astype(ref.dtype) for x in parts]
    if isinstance(ref, memory.InWords) and tile.geometry.shifts:
        _store_apart(_of_array(tile), ref.narrow, values[0])
        return
    if ref.dtype.itemsize < WORD:
        _store_words(tile, ref, _packed(values[0], 8 * ref.dtype.itemsize))
        return
    g = tile.geometry
    own = _Words(tile, 1, 0).owned(SECTOR // ref.dtype.itemsize)
    language.store(ref, tile.terms(g.whole, 0), values, mask=_all([own, tile.mask(0)]))


def _store_words(tile: Tile, ref: Ref, here: jax.Array) -> None:
    """Writes whole words, then what is left of them at a row's ends."""
    per = WORD // ref.dtype.itemsize
    words = _Words(tile, per, 0)
    exist = words.positions()
    aligned = _shifted_back(words, here)
    whole = (words.first >= 0) & (words.first <= words.left - np.int32(per))
    own = words.owned(SECTOR // ref.dtype.itemsize)
    language.store(ref, words.terms(), aligned, mask=_all([whole, own, exist]), into_bytes=True)

    def ends() -> None:
        for place in range(per):
            _store_end(ref, words, aligned, [own, ~whole, exist], jnp.int32(place))

    g = tile.geometry
    if g.inner % per:  # or all rows begin and end with a word
        language.when(_may_end(tile, per), ends)


def _store_apart(tile: Tile, ref: Ref, here: jax.Array) -> None:
    """The same where tiles inside of rows are written by instructions of their own.

    What is left of words is written in turn, so that a program has the instructions of one place.
    By strips of an axis that is walked, which are read ahead, this is slower: int8 recurrences of
    (47, 1426922) 0.85 of copy speed and 0.75 (H100, 2026-11-28).
    """
    per = WORD // ref.dtype.itemsize
    words, sector = _Words(tile, per, 0), SECTOR // ref.dtype.itemsize
    exist = words.positions()
    aligned = _shifted_back(words, here)

    def store(*checks: jax.Array) -> None:
        language.store(ref, words.terms(), aligned, mask=_all([*checks, exist]), into_bytes=True)

    def with_ends() -> None:
        own = words.owned(sector)
        whole = (words.first >= 0) & (words.first <= words.left - np.int32(per))
        store(whole, own)

        def end(place: jax.Array) -> jax.Array:
            _store_end(ref, words, aligned, [own, ~whole, exist], place)
            return place + np.int32(1)

        lax.while_loop(lambda place: place < np.int32(per), end, jnp.int32(0))

    if tile.geometry.lane_blocks == 1:
        with_ends()
        return
    may_end = _may_end(tile, per)
    language.when(may_end, with_ends)
    language.when(~may_end, lambda: store(words.owned(sector, inside=True)))


def _shifted_back(words: _Words, here: jax.Array) -> jax.Array:
    """A row's words as memory has them, of what each thread and its left neighbour hold."""
    left = funnels.along(here, jnp.maximum(words.number - np.int32(1), np.int32(0)))
    return funnels.funnel(left, here, words.before * np.int32(32 // words.per), left=True)


def _may_end(tile: Tile, per: int) -> jax.Array:
    """Whether rows begin or end in a tile, or a word before its end."""
    left = tile.geometry.lanes_left(tile.lane_block)
    return (tile.lane_block == 0) | (left < np.int32(tile.geometry.lanes + per))


def _store_end(
    ref: Ref,
    words: _Words,
    aligned: jax.Array,
    checks: Sequence[jax.Array | None],
    place: jax.Array,
) -> None:
    """Writes the element at a ``place`` of words that are not written whole."""
    width = 8 * ref.dtype.itemsize
    lane, low = words.first + place, np.int32((1 << width) - 1)
    moved = lax.shift_right_logical(aligned, jnp.full_like(aligned, place * np.int32(width)))
    mask = _all([*checks, lane >= 0, lane < words.left])
    at = [*words.terms(words.per), (place, 1)]
    language.store(ref, at, from_bits(moved & low, ref.dtype), mask=mask)


def _packed(values: jax.Array, width: int) -> jax.Array:
    """Neighbouring elements as words."""
    apart = [to_bits(x) for x in language.deinterleave(values, 32 // width)]
    mask = np.int32((1 << width) - 1)
    low = [*(x & mask for x in apart[:-1]), apart[-1]]
    moved = [lax.shift_left(x, jnp.full_like(x, place * width)) for place, x in enumerate(low)]
    return functools.reduce(lax.bitwise_or, moved)


def _right(words: jax.Array, bits: int) -> jax.Array:
    return lax.shift_right_logical(words, jnp.full_like(words, bits)) if bits else words


def _is_last(tile: Tile) -> jax.Array:
    return tile.lane_block == np.int32(tile.geometry.lane_blocks - 1)


def _all(checks: Sequence[jax.Array | None]) -> jax.Array | None:
    known = [x for x in checks if x is not None]
    return functools.reduce(lax.bitwise_and, known) if known else None


class _Words:
    """The aligned words in which a tile's rows lie, ``shift`` positions to the left.

    A row's first word is the one in which the tile's first lane lies.

    Attributes:
      per: how many elements a word has.
      number: the number of each word of a row.
      before: how many elements of the row's first word come before the tile's first lane.
      first: the lane of the tile with which each word begins; negative where that is before it.
      left: how many lanes the array has from the tile's first on.
    """

    def __init__(self, tile: Tile, per: int, shift: int):
        g = tile.geometry
        self._tile, self.per, self._shift = tile, per, shift
        count = g.lanes // per
        flat = dataclasses.replace(g, lanes=count, inner=count, shared=0, together=1, per_word=1)
        self._flat = tile.cut(flat)
        self._flat.may_end = tile.may_end
        self._first = tile.first_in_memory() + np.int32(shift if g.reverse else -shift)
        self._place = self._flat.offset()
        self._odd = self._first & np.int32(per - 1)
        inside = self._odd * np.int32(g.inner % per)
        if g.outer > 1:
            inside = inside + tile.row_block * np.int32(g.n * g.inner % per)
        inside = inside + self._place * np.int32(g.inner % per)
        self._whole = lax.shift_right_logical(inside, jnp.full_like(inside, per.bit_length() - 1))
        self.before = inside & np.int32(per - 1)
        self.number = lax.broadcasted_iota(jnp.int32, flat.shape, 1)
        self.first = self.number * np.int32(per) - self.before
        self.left = g.lanes_left(tile.lane_block)

    def terms(self, each: int = 1) -> Address:
        """The address of each word, in units of which it is so many."""
        g, per = self._tile.geometry, self.per
        even = lax.shift_right_arithmetic(self._first, np.int32(per.bit_length() - 1))
        terms = [(even, g.inner), (self._odd, g.inner // per)]
        if g.outer > 1:
            terms = [(self._tile.row_block, g.n * g.inner // per), *terms]
        # Opaque, since a thread would take as many words as rows begin with, and not one.
        terms += [(language.opaque(self._tile.lane_block * np.int32(g.lane_step // per)), 1)]
        terms += [(self._place, g.inner // per), (self._whole, 1), (self.number, 1)]
        return [(value, multiplier * each) for value, multiplier in terms]

    def positions(self) -> jax.Array | None:
        """Whether each position exists; None where all do."""
        return self._flat.mask(self._shift)

    def load(self, ref: Ref, later: bool) -> jax.Array:
        """The words, or the next one of each; undefined where nothing of the row is in them."""
        g, per = self._tile.geometry, self.per
        first = self.first + np.int32(per) if later else self.first
        checks = [self.positions()]
        if later:
            checks.append(self.before > 0)
        if g.lanes_end:
            checks.append(first < self.left)
        terms = [*self.terms(), (jnp.int32(1), 1)] if later else self.terms()
        if g.outer * g.n * g.inner % per == 0:
            return language.load_seen(ref, terms, 32, mask=_all(checks))
        # The array ends inside of its last word, of which no more is read.
        cut_off = first > self.left - np.int32(per)
        cut_off &= self._first + self._place == np.int32(g.n - 1)
        if g.outer > 1:
            cut_off &= self._tile.row_block == np.int32(g.outer - 1)
        found = language.load_seen(ref, terms, 32, mask=_all([*checks, ~cut_off]))
        return jnp.where(cut_off, self._end(ref), found)

    def load_lane(self, ref: Ref, view: View, place: int) -> list[jax.Array]:
        """The elements of a lane at this ``place`` among as many as a word has."""
        flat, tile = self._flat, self._tile
        _, stride, lane_stride = view.strides
        terms = [*flat.start(stride, self._shift), (self._place, stride)]
        terms += flat.row_terms(view, lambda: self._place)
        checks = [self.positions()]
        if lane_stride:
            if view.lane_period is None:
                step = tile.geometry.lane_step * lane_stride
                terms += [(language.opaque(tile.lane_block), step)]
                terms += [(self.number, self.per * lane_stride), (jnp.int32(place), lane_stride)]
            else:
                lane = self.number * np.int32(self.per) + np.int32(place)
                terms += tile.lane_terms(lane_stride, lane, view.lane_period)
            checks.append(self.number * np.int32(self.per) + np.int32(place) < self.left)
        return language.load_parts(ref, terms, mask=_all(checks))

    def _end(self, ref: Ref) -> jax.Array:
        """The word in which the array ends."""
        g, width = self._tile.geometry, 8 * ref.dtype.itemsize
        size = g.outer * g.n * g.inner
        end, mask = jnp.int32(0), np.int32((1 << width) - 1)
        for place in range(size % self.per):
            [one] = language.load_parts(ref, [(jnp.int32(1), size - size % self.per + place)])
            end = end | lax.shift_left(to_bits(one) & mask, np.int32(place * width))
        return end

    def owned(self, sector: int, *, inside: bool = False) -> jax.Array:
        """Whether each word lies in a sector of so many elements that begins in this tile.

        Where tiles share less than a sector, whether it begins in this tile itself. A tile that is
        ``inside`` of a row has no lanes that are its first or last.
        """
        tile, g = self._tile, self._tile.geometry
        unit = sector if g.shared >= sector else self.per
        before = (self._first + self._place) * np.int32(g.inner % unit)
        before = before + tile.lane_block * np.int32(g.lane_step % unit)
        if g.outer > 1:
            before = before + tile.row_block * np.int32(g.n * g.inner % unit)
        skipped = -before & np.int32(unit - 1)
        if inside:
            begin = skipped + self.before
            place = self.number * np.int32(self.per)
            return (place >= begin) & (place < begin + np.int32(g.lane_step))
        begin = jnp.where(tile.lane_block == 0, np.int32(1 - self.per), skipped)
        end = jnp.where(_is_last(tile), self.left, skipped + np.int32(g.lane_step))
        return (self.first >= begin) & (self.first < end)
