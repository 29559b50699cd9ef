"""What ranks read and write; `jscan.kernels.ranking` says what they are, and has the kernel."""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Sequence

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

from jscan import heads
from jscan.kernels import language, memory, quarters, sending
from jscan.kernels.description import Scan
from jscan.kernels.language import Ref
from jscan.kernels.tile import Tile

COUNT = np.dtype(np.int32)


@dataclasses.dataclass(frozen=True)
class Ranking(Scan):
    """What to count, and what to write."""

    source: str  # of the marks: "mask", or head flags as "flags", or changes of value as "runs"
    emit: str  # "before", "number", "places", "order"
    size: int  # of the result, along the axis
    filler: int = dataclasses.field(default=0, kw_only=True)  # behind the places
    counted: bool = dataclasses.field(default=False, kw_only=True)  # whether the total is a result
    floats: np.dtype | None = dataclasses.field(default=None, kw_only=True)  # whose runs are sought

    @property
    def beside(self) -> int:
        """One where ``order`` reads how many elements are unmarked."""
        return int(self.emit == "order")

    @property
    def segmented(self) -> bool:
        """Ranks count along the whole axis."""
        return False

    @property
    def few(self) -> int:
        """Of so many elements of a tile at most one is marked, where they are sent by bits."""
        return 3 if self.source == "runs" else 5

    @property
    def written(self) -> list[tuple[int, np.dtype]]:
        """What is written along the axis, then the total, each with its size."""
        return [(self.geometry.outer * self.size * self.geometry.inner, COUNT), *self.totals]

    @property
    def totals(self) -> list[tuple[int, np.dtype]]:
        """The total of each row, if it is a result."""
        return [(self.geometry.outer * self.geometry.inner, COUNT)] if self.counted else []

    def split(self, refs: Sequence[Ref]) -> tuple[Sequence[Ref], Sequence[Ref]]:
        """The input and output references out of all of the kernel's."""
        inputs, others = self.apart(refs)
        return inputs, others[: len(self.written)]

    def read(self, tile: Tile, inputs: Sequence[Ref]) -> list[jax.Array]:
        """The marks."""
        return [self.marks(tile, inputs[0])]

    def leaves(
        self, tile: Tile, inputs: Sequence[Ref], read: Sequence[jax.Array]
    ) -> list[jax.Array]:
        """The marks as integers."""
        del tile, inputs
        return [x.astype(COUNT) for x in read]

    def marks(self, tile: Tile, marks: Ref) -> jax.Array:
        """Whether each element is marked."""
        view = self.views[0]
        here = tile.load(marks, view)
        if self.source == "runs":
            return self.differ(here, tile.load(marks, view, 1)) | tile.before_start(1)
        return here != 0 if self.source == "mask" else (here != 0) | tile.before_start(1)

    def differ(self, x: jax.Array, y: jax.Array) -> jax.Array:
        """Whether elements of different runs are neighbours."""
        return x != y if self.floats is None else heads.differ(x, y, self.floats)

    def store(
        self,
        tile: Tile,
        outputs: Sequence[Ref],
        inputs: Sequence[Ref],
        scanned: Sequence[jax.Array],
    ) -> None:
        """Writes what follows from the count, then the total.

        Where something is written in between, compilers would read the marks a second time.
        """
        [count] = scanned
        self._store_ranks(tile, outputs[0], inputs, count)
        self.store_total(tile, outputs, count)

    def _store_ranks(
        self, tile: Tile, result: Ref, inputs: Sequence[Ref], count: jax.Array
    ) -> None:
        """Writes what is wanted along the axis."""
        if self.emit == "number":
            tile.store(result, count - np.int32(1))
            return
        marks = self.marks(tile, inputs[0])
        before = count - marks.astype(COUNT)
        if self.emit == "before":
            tile.store(result, before)
            return
        place = self.places(tile, inputs[1:], marks, before)
        value = element = tile.element()
        if self.emit == "places":
            value = jnp.where(marks, element, jnp.full_like(element, self.filler))
        tile.scatter(result, self.size, place, value, where=place < np.int32(self.size))

    def store_total(self, tile: Tile, outputs: Sequence[Ref], count: jax.Array) -> None:
        """Writes how many elements of each row are marked, if that is asked for."""
        if not self.counted:
            return
        g, total = tile.geometry, outputs[-1]

        def write() -> None:
            end = tile.at_end(first=g.reverse)
            tile.scatter(total, 1, jnp.zeros_like(count), count, where=end)

        language.when(tile.index == np.int32(g.tiles - 1), write)

    def bits(self, tile: Tile, marks: Ref) -> jax.Array:
        """The marks of a tile, a bit for each of `sending.neighbours`."""
        whole = tile.cut(dataclasses.replace(tile.geometry, mixed=False))
        by_words = self.source != "runs" and marks.dtype.itemsize == 1

        def found(*, ends: bool) -> jax.Array:
            if by_words:
                return sending.bits_of_bytes(tile, marks, ends=ends)
            here = whole if ends else whole.without_ends(of_rows=False)
            return sending.bits_of(self.begin_runs(here, marks, sending.neighbours(marks.dtype)))

        if whole.mask(0) is None:
            bits = found(ends=False)
        else:
            is_last = tile.index == np.int32(tile.geometry.tiles - 1)
            ways = functools.partial(found, ends=True), functools.partial(found, ends=False)
            bits = lax.cond(is_last, *ways)
        if self.source == "mask":
            return bits
        group = lax.broadcasted_iota(COUNT, bits.shape, 0)
        return bits | ((tile.index == 0) & (group == 0)).astype(COUNT)

    def begin_runs(self, tile: Tile, values: Ref, by: int) -> list[jax.Array]:
        """Whether each of ``by`` neighbours that exist differs from the one before it.

        All but the first are compared in registers. Nothing is before the axis: of its first
        element this says nothing.
        """
        view, exists = self.views[0], tile.mask(0)
        here = language.deinterleave(tile.load(values, view), by)
        before = [quarters.load(tile, values, view, -1, by), *here[:-1]]
        begins = [self.differ(x, y) for x, y in zip(here, before, strict=True)]
        if exists is None:
            return begins
        there = [quarters.left(tile, place, by) >= 0 for place in range(by)]
        return [x & y for x, y in zip(begins, there, strict=True)]

    def fetch(
        self, inputs: Sequence[Ref], tile: Tile, offset: jax.Array, where: jax.Array
    ) -> list[list[jax.Array]]:
        """What is wanted of elements so far behind the first of a tile: where they are."""
        del inputs, where
        return [[tile.first_in_memory() + offset]]

    def put(
        self,
        outputs: Sequence[Ref],
        tile: Tile,
        place: jax.Array,
        where: jax.Array,
        values: Sequence[Sequence[jax.Array]],
        *,
        scattered: bool = True,
    ) -> None:
        """Writes parts of values of each result to places, ``scattered`` or side by side."""
        at = [(tile.row_block, self.size), (place, 1)]
        for output, parts in zip(outputs, values, strict=False):
            if memory.parts(output.dtype) == 1:
                parts = [part.astype(output.dtype) for part in parts]
            language.store(output, at, parts, mask=where, scattered=scattered)

    def fillers(self, inputs: Sequence[Ref], shape: tuple[int, ...]) -> list[list[jax.Array]]:
        """What fills so many places behind those of marked elements, as `fetch` gives these."""
        del inputs
        return [[jnp.full(shape, self.filler, COUNT)]]

    def places(
        self, tile: Tile, beside: Sequence[Ref], marks: jax.Array, before: jax.Array
    ) -> jax.Array:
        """Where each element goes, with how many marked ones before it."""
        element = tile.element()
        if self.emit == "order":
            return jnp.where(marks, of_rows(tile, beside[0]) + before, element - before)
        # The unmarked element with f unmarked ones before it goes to n-1-f.
        last = np.int32(tile.geometry.n - 1)
        return jnp.where(marks, before, last - element + before)


def of_rows(tile: Tile, ref: Ref) -> jax.Array:
    """An operand (outer, inner), as it meets each element: one for each row and lane."""
    g = tile.geometry
    if g.rows * g.lanes * g.inner > 1:
        return language.load(ref, tile.outside(g.inner), mask=tile.mask(0))
    return language.load(ref, [(tile.row_block, 1)])
