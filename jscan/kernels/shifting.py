"""Tiles of narrow elements to the left, or to the right, moved there in registers.

    memory     │ a b c d │ e f g h │ i j k l │       words of 16 bytes, each read whole
    parts        a e i     b f j     c g k  ...      by places within a word, a register tile each
    moved by 1   - d h     a e i     b f j  ...      the first of each comes from the word before:
                                                     one element of it is read once more

An access at an address between words is one of a single element, and a thread's neighbours of a
byte are 16 of those, each of which takes a register until all of them are there.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import TYPE_CHECKING

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

from jscan.kernels import language, sliding
from jscan.kernels.language import Ref
from jscan.kernels.layout import VECTOR, View

if TYPE_CHECKING:
    from jscan.kernels.tile import Tile
    from jscan.kernels.words import Address

WIDEST = 2
"""The bytes of the widest elements that are moved. Of four bytes single accesses keep up: exclusive
sums of 2^27 float32 0.92 to 0.956 of copy speed (H200, 2026-11-20). Beside wider ones a tile has
their layout, to which flags would be moved through shared memory."""


def load_parts(tile: Tile, ref: Ref, view: View, shift: int) -> list[jax.Array]:
    """`Tile.load_parts`, by words where that is possible and worth it.

    Of some that share lanes, words that hold several elements each (`sliding.elements`).
    """
    if sliding.slides(tile.geometry):
        return sliding.load_parts(tile, ref, view, shift)
    count = _at_once(tile, ref)
    if not shift or not _may_move(tile, view, shift, count):
        return tile.load_parts(ref, view, shift)
    step = shift if tile.geometry.reverse else -shift
    accessed = tile.as_accessed()
    [values] = accessed.load_parts(ref, view)
    here = language.deinterleave(values, count)
    moved = [
        here[place] if 0 <= place < count else _of_next_word(tile, ref, view, place, count)
        for place in range(step, step + count)
    ]
    return [language.interleave(moved[::-1] if tile.geometry.turns else moved)]


def load(tile: Tile, ref: Ref, view: View, shift: int) -> jax.Array:
    """The same of an operand of real numbers."""
    [values] = sliding.elements(tile, [ref], [view], load_parts(tile, ref, view, shift))
    return values


def _at_once(tile: Tile, ref: Ref) -> int:
    """How many neighbours a thread reads at once."""
    most = 16 // ref.dtype.itemsize
    return min(VECTOR, most) if tile.geometry.mixed else most


def _may_move(tile: Tile, view: View, shift: int, count: int) -> bool:
    """Whether tiles are read in whole words of ``count`` elements where nothing is moved."""
    g = tile.geometry
    if not g.narrow or g.inner > 1 or g.far or abs(shift) >= count:
        return False
    if not view.strides[1] or g.length % count or g.rows * g.length < count * g.threads:
        return False
    if g.mirrored and g.at_once != count:
        return False
    if g.word > 1:
        return g.rows == 1 and g.word % count == 0 and view.follows(g)
    # Each row has to begin with a word, and the tile, where its ends are not those of words.
    many_rows = view.row_period[1] > 1
    whole = g.n % count == 0
    begins = g.from_front or whole or not (many_rows or g.reverse)
    return begins and (whole or tile.inside)


def _of_next_word(tile: Tile, ref: Ref, view: View, place: int, count: int) -> jax.Array:
    """The element at a ``place`` beyond those of each word; undefined where there is none."""
    g = tile.geometry
    shape = (*g.shape[:-1], g.length // count)
    iota = functools.partial(lax.broadcasted_iota, jnp.int32, shape)
    number = iota(g.axis)
    if g.mirrored:
        number = np.int32(shape[-1] - 1) - number
    terms, first = _begin(tile, view, functools.partial(iota, 0))
    element = first + number * np.int32(count) + np.int32(place)
    checks = [element >= 0, element < np.int32(g.n)]
    if tile.inside and tile.within_row:
        checks = []
    elif tile.inside:
        checks = checks[1:] if g.reverse else checks[:1]
    if g.outer % g.rows:
        checks.append(tile.rows_exist(iota(0)))
    mask = functools.reduce(lax.bitwise_and, checks) if checks else None
    return language.load(ref, [*terms, (jnp.int32(place), 1), (number, count)], mask=mask)


def _begin(tile: Tile, view: View, row: Callable[[], jax.Array]) -> tuple[Address, jax.Array]:
    """The address of the tile's first place in memory, and which element of the axis is there."""
    if tile.geometry.word > 1:
        return tile.words.begin(), tile.words.first_element
    first = tile.first_in_memory()
    return [(first, 1), *tile.row_terms(view, row)], first
