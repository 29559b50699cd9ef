"""Head flags from ids, from flags of other widths, and from words of bits, at copy speed.

    ids        7 7 7 2 │ 2 2 5 5 │ ...      four neighbours a thread, compared in registers; the one
                                            behind the four is read a second time, from a cache
    heads      1 0 0 1 │ 0 0 1 0 │ ...
    bits         9     │    4    │ ...      in words of 32, of eight neighbouring threads
    or bytes  01 00 00 01 ...               written four in a word

Arrays are seen flat, as rows one behind the other. What XLA makes of the same comparison reads and
writes single bytes: ids of 8 bits, 62 million, 294 µs for a copy's 29 (H200, 2026-11-24).
"""

from __future__ import annotations

import dataclasses
import functools
import math
from collections.abc import Callable, Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

from jscan import bits, extent, heads
from jscan.called import Leaf
from jscan.kernels import language, launch
from jscan.kernels.language import Body, Ref
from jscan.kernels.layout import Geometry, View
from jscan.kernels.tile import Tile

WORD = np.dtype(np.uint32)
"""The dtype of words of flags."""
WIDTH = bits.width(WORD)
BYTES = 8192
"""What a program reads of ids at most, in tiles of up to `LENGTH` elements."""
LENGTH = 4096
WARPS = 4
LEAST = 2**16
"""From so many elements on: XLA's loop is no slower below, and may be a part of another."""

IN_BYTES, LOWEST = np.int32(0x00204081), np.int32(0x01010101)
"""Four bits times the first have one in each byte; the second leaves the lowest of each."""


@dataclasses.dataclass(frozen=True)
class Marks:
    """Head flags as a scan is given them.

    Attributes:
      kind: "flags"; "bits", in words; or "runs", of ids.
      array: these, beside the leaves of the scan: dimensions are full or 1.
      axis: the one along which segments run.
      n: its length.
      interpret: whether kernels are interpreted.
    """

    kind: str
    array: jax.Array
    axis: int
    n: int
    interpret: bool

    def as_bytes(self) -> jax.Array:
        """The flags as integers of whole bytes."""
        how: dict[str, Any] = {"axis": self.axis, "interpret": self.interpret}
        if self.kind == "bits":
            return unpacked(self.array, n=self.n, **how)
        if self.kind == "runs":
            return heads_of_runs(self.array, **how)
        return launch.whole_bytes(self.array)

    @property
    def of_bytes(self) -> jax.ShapeDtypeStruct:
        """The shape and dtype of these."""
        shape = [*self.array.shape]
        shape[self.axis] = self.n
        dtype = self.array.dtype if self.kind == "flags" else np.dtype(np.bool_)
        return jax.ShapeDtypeStruct(tuple(shape), dtype)

    def are_shared(self, full: Sequence[int]) -> bool:
        """Whether several rows of the shape ``full`` share one row of flags."""
        return math.prod(self.of_bytes.shape) == self.n < math.prod(full)

    def differ_beside(self, axis: int, full: Sequence[int]) -> bool:
        """Whether lanes of the shape ``full`` have flags of their own, and do not share a row's."""
        shape = self.of_bytes.shape
        return len(shape) == len(full) and math.prod(shape[axis + 1 :]) > 1

    def of_rows(self, rows: int) -> Marks:
        """Those of so many rows that share these, one behind the other, in words."""
        words = bits.repeated(self.as_bytes().reshape(-1).astype(jnp.bool_), rows)
        return dataclasses.replace(self, kind="bits", array=words, axis=0, n=rows * self.n)

    def in_words(self, full: Sequence[int]) -> Marks:
        """The same as words where rows of the shape ``full`` share flags, which are few then.

        A row that begins inside of memory's words has flags at another place than its elements, of
        which bytes would be read one by one.
        """
        if self.width(flat=False) is not None or not self.are_shared(full):
            return self
        flags = self.as_bytes().reshape(-1)
        if suits(self.n):
            count, how = bits.count(self.n, WORD), {"interpret": self.interpret}
            words = _called(flags, count, WORD, row=0, packed=True, **how)
        else:
            words = bits.packed(flags.astype(jnp.bool_), WORD)
        shape = [*self.array.shape]
        shape[self.axis] = words.size
        return dataclasses.replace(self, kind="bits", array=words.reshape(shape))

    def width(self, *, flat: bool) -> int | None:
        """The bits of a word of flags; None where there are no words.

        Where they are ``flat``, rows follow one another with nothing between.
        """
        alone = math.prod(self.of_bytes.shape) == self.n
        if self.kind == "bits":
            return bits.width(self.array.dtype) if alone or not flat else None
        whole = flat or alone or self.n % WIDTH == 0
        fits = self.kind == "runs" and whole and _is_flat(self.array.shape, self.axis)
        return WIDTH if fits and suits(self.array.size) else None

    def words(self, *, flat: bool) -> jax.Array:
        """The words, where they have a width."""
        if self.kind == "bits":
            return self.array.reshape(-1) if flat else self.array
        words = words_of_runs(self.array, axis=self.axis, interpret=self.interpret)
        if flat:
            return words
        shape = self.array.shape
        return words.reshape(*shape[: self.axis], -1, *shape[self.axis + 1 :])


def full_of(leaves: Sequence[Leaf], marks: Leaf | None, kind: str, axis: int) -> tuple[int, ...]:
    """The shape of leaves and of what marks beside them have of it."""
    beside = [] if marks is None else [bits.beside(marks, kind, axis)]
    return extent.full_shape([*leaves, *beside])


def heads_of_runs(ids: jax.Array, *, axis: int, interpret: bool) -> jax.Array:
    """Head flags of runs of equal ids along ``axis``, as booleans."""
    n = ids.shape[axis]
    if not _is_flat(ids.shape, axis) or not suits(ids.size):
        return heads.changes(ids, axis=axis)
    return _marked(ids, row=n, interpret=interpret).reshape(ids.shape)


def words_of_runs(ids: jax.Array, *, axis: int, interpret: bool) -> jax.Array:
    """Words of the heads of runs along ``axis``, of all rows one behind the other."""
    assert _is_flat(ids.shape, axis)
    count = bits.count(ids.size, WORD)
    return _called(ids, count, WORD, row=ids.shape[axis], packed=True, interpret=interpret)


def one_byte(flags: jax.Array, *, interpret: bool) -> jax.Array:
    """The flags in one byte each; any value but zero is a flag."""
    if flags.dtype.itemsize == 1 or not suits(flags.size):
        return launch.one_byte(flags)
    return _marked(flags, row=0, interpret=interpret).reshape(flags.shape)


def unpacked(words: jax.Array, *, axis: int, n: int, interpret: bool) -> jax.Array:
    """The flags of ``n`` elements along ``axis``, as booleans, from words of their bits."""
    shape = (*words.shape[:axis], n, *words.shape[axis + 1 :])
    size, width = math.prod(shape), bits.width(words.dtype)
    if not _is_flat(shape, axis) or not suits(size):
        return bits.unpacked(words, axis=axis, n=n)
    geometry = _geometry(size, 1)
    # Where a row begins inside of a word's elements, each of these is looked up.
    whole = n % width == 0 or size == n

    def kernel(program: jax.Array, refs: Sequence[Ref]) -> None:
        given, result = refs
        if whole:
            work = functools.partial(_spread, given, result, width)
        else:
            work = functools.partial(_looked_up, given, result, width, n)
        _by_ends(geometry, program, work)

    return _launched(kernel, words, size, np.dtype(np.bool_), geometry, interpret).reshape(shape)


def suits(size: int) -> bool:
    """Whether a kernel is to find the flags of so many elements."""
    return LEAST <= size < extent.FAR


def _is_flat(shape: Sequence[int], axis: int) -> bool:
    """Whether the elements of a row are neighbours in memory."""
    return math.prod(shape[axis + 1 :]) == 1


def _marked(marks: jax.Array, *, row: int, interpret: bool) -> jax.Array:
    return _called(
        marks, marks.size, np.dtype(np.bool_), row=row, packed=False, interpret=interpret
    )


def _called(
    marks: jax.Array, size: int, dtype: np.dtype, *, row: int, packed: bool, interpret: bool
) -> jax.Array:
    marks = launch.whole_bytes(marks).reshape(-1)
    geometry = _geometry(marks.size, marks.dtype.itemsize)
    # Of words what a thread reads at once; bytes are written four at once.
    apart = 16 // marks.dtype.itemsize if packed else 4
    kernel = _Marks(geometry, row, packed, apart).kernel
    return _launched(kernel, marks, size, dtype, geometry, interpret)


def _geometry(size: int, itemsize: int) -> Geometry:
    return Geometry(1, size, 1, 1, min(LENGTH, BYTES // itemsize), 1, False, False)


def _launched(
    kernel: Body,
    given: jax.Array,
    size: int,
    dtype: np.dtype,
    geometry: Geometry,
    interpret: bool,
) -> jax.Array:
    [result] = launch.call(
        *(kernel, [given.reshape(-1)], [(size, dtype)]),
        programs=geometry.programs,
        warps=WARPS,
        name="jscan_flags",
        interpret=interpret,
    )
    return result


def _by_ends(geometry: Geometry, program: jax.Array, work: Callable[..., None]) -> None:
    """Does the work of a tile, compiled anew for the one in which the array ends.

    Masks of an end inside of a word would make every access one of a single element.
    """
    tile = Tile(geometry, program)
    if geometry.n % geometry.length == 0:
        work(tile, ends=False)
        return
    last = tile.index == np.int32(geometry.tiles - 1)
    language.when(last, lambda: work(tile, ends=True))
    language.when(~last, lambda: work(tile.without_ends(of_rows=False), ends=False))


@dataclasses.dataclass(frozen=True)
class _Marks:
    """What is written for each element of a flat array: whether it differs, or is not zero.

    Attributes:
      row: the elements of a row, which begins anew; 0 where elements are only compared with zero.
      apart: the number of neighbours that are compared in registers.
    """

    geometry: Geometry
    row: int
    packed: bool
    apart: int

    def kernel(self, program: jax.Array, refs: Sequence[Ref]) -> None:
        """One tile, by one program."""
        _by_ends(self.geometry, program, functools.partial(self._on_tile, refs))

    def _on_tile(self, refs: Sequence[Ref], tile: Tile, *, ends: bool) -> None:
        given, result = refs
        numbers = [mark.astype(jnp.int32) for mark in self._marks(tile, given, ends=ends)]
        if not self.packed:
            _store_bytes(tile, result, numbers, ends=ends)
            return
        if ends:
            exists = [self._index(tile, place) < np.int32(self.geometry.n) for place in self.places]
            numbers = [x & y.astype(jnp.int32) for x, y in zip(numbers, exists, strict=True)]
        _store_words(tile, result, numbers, ends=ends)

    @property
    def places(self) -> range:
        """Those of neighbours that are compared in registers."""
        return range(self.apart)

    def _index(self, tile: Tile, place: int) -> jax.Array:
        """The index of each element at that place of neighbours."""
        number = lax.broadcasted_iota(jnp.int32, (self.geometry.length // self.apart,), 0)
        return tile.first_in_memory() + np.int32(place) + number * np.int32(self.apart)

    def _marks(self, tile: Tile, given: Ref, *, ends: bool) -> list[jax.Array]:
        """Whether the elements at each place are heads."""
        view = View((1, self.geometry.n, 1), (1, 1))
        here = language.deinterleave(tile.load(given, view), self.apart)
        if not self.row:
            return [x != 0 for x in here]
        behind = [self._before(tile, given, ends=ends), *here[:-1]]
        begins = zip(here, behind, self._begins(tile), strict=True)
        return [x != y if first is None else (x != y) | first for x, y, first in begins]

    def _before(self, tile: Tile, given: Ref, *, ends: bool) -> jax.Array:
        """The elements before those at the first place."""
        index = self._index(tile, -1)
        mask = index >= 0
        if ends:
            mask &= index < np.int32(self.geometry.n)
        number = lax.broadcasted_iota(jnp.int32, index.shape, 0)
        first = tile.first_in_memory() - np.int32(1)
        return language.load(given, [(first, 1), (number, self.apart)], mask=mask)

    def _begins(self, tile: Tile) -> list[jax.Array | None]:
        """Whether a row begins with the elements at each place; None where none can."""
        first = self._index(tile, 0)
        if self.row == self.geometry.n:
            return [first == 0, *[None] * (self.apart - 1)]
        index, step = lax.rem(first, np.int32(self.row)), math.gcd(self.row, self.apart)
        return [
            index == np.int32(-place % self.row) if place % step == 0 else None
            for place in self.places
        ]


def _store_words(tile: Tile, result: Ref, marks: Sequence[jax.Array], *, ends: bool) -> None:
    """Writes a bit for each element."""
    apart = len(marks)
    raised = [_up(x, place) for place, x in enumerate(marks)]
    parts = functools.reduce(lax.bitwise_or, raised).reshape(-1, WIDTH // apart)
    place = lax.broadcasted_iota(jnp.int32, parts.shape, 1) * np.int32(apart)
    words = jnp.sum(lax.shift_left(parts, place), axis=1, dtype=jnp.int32)
    number = lax.broadcasted_iota(jnp.int32, words.shape, 0)
    start = tile.index * np.int32(words.size)
    mask = start + number < np.int32(result.shape[0]) if ends else None
    language.store(result, [(start, 1), (number, 1)], words.astype(result.dtype), mask=mask)


def _store_bytes(tile: Tile, result: Ref, marks: Sequence[jax.Array], *, ends: bool) -> None:
    """Writes a byte for each element: four at once, or where the array ends one."""
    if not ends:
        raised = [_up(x, 8 * place) for place, x in enumerate(marks)]
        _store_octets(tile, result, functools.reduce(lax.bitwise_or, raised))
        return
    for place, mark in enumerate(marks):
        number = lax.broadcasted_iota(jnp.int32, mark.shape, 0)
        first = tile.first_in_memory() + np.int32(place)
        exists = first + number * np.int32(4) < np.int32(tile.geometry.n)
        terms = [(first, 1), (number, 4)]
        language.store(result, terms, mark.astype(jnp.uint8), mask=exists, into_bytes=True)


def _store_octets(tile: Tile, result: Ref, octets: jax.Array) -> None:
    """Writes four bytes at once, each a flag."""
    every = lax.broadcasted_iota(jnp.int32, octets.shape, 0)
    start = tile.index * np.int32(octets.size)
    language.store(result, [(start, 1), (every, 1)], octets, into_bytes=True)


def _spread(given: Ref, result: Ref, width: int, tile: Tile, *, ends: bool) -> None:
    """Writes a byte for each bit of words of so many."""
    count = tile.geometry.length // width
    number = lax.broadcasted_iota(jnp.int32, (count,), 0)
    start = tile.index * np.int32(count)
    mask = start + number < np.int32(given.shape[0]) if ends else None
    words = language.load(given, [(start, 1), (number, 1)], mask=mask).astype(jnp.int32)
    shape = (count, width // 4)
    each = jnp.broadcast_to(lax.expand_dims(words, [1]), shape)
    place = lax.broadcasted_iota(jnp.int32, shape, 1) * np.int32(4)
    four = (lax.shift_right_logical(each, place) & np.int32(15)).reshape(-1)
    if not ends:
        _store_octets(tile, result, four * IN_BYTES & LOWEST)
        return
    bit = [lax.shift_right_logical(four, jnp.full(four.shape, p, jnp.int32)) for p in range(4)]
    _store_bytes(tile, result, [x & np.int32(1) for x in bit], ends=True)


def _looked_up(given: Ref, result: Ref, width: int, n: int, tile: Tile, *, ends: bool) -> None:
    """Writes a byte for each bit of rows of ``n``, each of which begins with a word."""
    count, size = bits.count(n, np.dtype(f"uint{width}")), np.int32(tile.geometry.n)
    every = lax.broadcasted_iota(jnp.int32, (tile.geometry.length // 4,), 0) * np.int32(4)
    marks = []
    for place in range(4):
        index = tile.first_in_memory() + np.int32(place) + every
        row = lax.div(index, np.int32(n))
        within = index - row * np.int32(n)
        number = lax.shift_right_logical(within, np.int32(width.bit_length() - 1))
        number = number + row * np.int32(count)
        word = language.load(given, [(number, 1)], mask=index < size if ends else None)
        bit = within & np.int32(width - 1)
        marks.append(lax.shift_right_logical(word.astype(jnp.int32), bit) & np.int32(1))
    _store_bytes(tile, result, marks, ends=ends)


def _up(x: jax.Array, by: int) -> jax.Array:
    return lax.shift_left(x, jnp.full(x.shape, by, jnp.int32)) if by else x
