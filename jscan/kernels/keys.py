"""The segment of each element, told from any descriptor.

ids      read; what lies outside [0, num_segments) is dropped when it comes to writing
flags    counted, from how many heads there are before the tile
runs     the same, where heads are changes of value
offsets  searched (`jscan.kernels.locating`)
whole    there is one segment
"""

from __future__ import annotations

import dataclasses
import itertools
from collections.abc import Sequence

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

from jscan.kernels import language, locating, quarters, start
from jscan.kernels.language import Ref
from jscan.kernels.layout import View
from jscan.kernels.operator import trace_scalars
from jscan.kernels.tile import Tile

KEY = np.dtype(np.int32)
COUNTED = ("flags", "runs")
"""Descriptors whose segments are numbered by counting heads."""


@dataclasses.dataclass(frozen=True)
class Keys:
    """How a program learns the segments of a strip."""

    kind: str
    num_segments: int
    views: tuple[View, ...]  # of the descriptor; then, where heads are counted, of the counts
    bounds: int = 0  # offsets of one row
    shift: int = 0  # the low bits of ids in which those of a segment differ
    seeks: bool = False  # whether offsets are sought alone: what is gathered needs the cache

    @property
    def operands(self) -> int:
        """How many of the kernel's inputs are the descriptor's."""
        return {"whole": 0, "offsets": 1}.get(self.kind, len(self.views))

    @property
    def by_lane(self) -> bool:
        """Whether each lane has segments of its own."""
        return bool(self.views) and self.views[0].strides[2] != 0

    def around(self, tile: Tile, operands: Sequence[Ref]) -> tuple[jax.Array, jax.Array]:
        """The key of the element before the tile, for each lane or for all; any in the first.

        And one that no element of the tile exceeds, where keys are searched.
        """
        if self.kind == "offsets":
            [bounds] = operands
            g, one = tile.geometry, np.int32(1)
            start = tile.index * np.int32(g.length)
            end = jnp.minimum(start + np.int32(g.length), np.int32(g.n))
            places = [jnp.maximum(start - one, np.int32(0)), end - one]
            before, last = locating.segments_of(bounds, self._first(tile), places, self.bounds)
            return before, last
        before = self._before(tile, operands)
        return before, before

    def _before(self, tile: Tile, operands: Sequence[Ref]) -> jax.Array:
        if self.kind == "whole":
            return jnp.int32(0)
        if self.kind == "ids":
            return self.narrow(tile.load_before(operands[0], self.views[0]))
        return tile.load_one(operands[1], self.views[1], tile.index) - np.int32(1)

    def load(
        self,
        strip: Tile,
        operands: Sequence[Ref],
        before: jax.Array,
        last: jax.Array,
        *,
        counts: bool,
    ) -> jax.Array:
        """The leaf that stands for the keys of a strip: the keys, or heads where it ``counts``.

        ``before`` is the key of the element before the strip, and none that is searched exceeds the
        ``last``. What lanes share is a column.
        """
        if self.kind == "whole":
            if strip.geometry.leads:  # what lies in front of a row is of no segment
                lead = start.among_first(strip, strip.geometry.word)
                lead = lead & (strip.positions() < strip.words.lead)
                return jnp.where(lead, np.int32(-1), np.int32(0))
            shape = strip.at_end(first=True, spread=self._by_element(strip)).shape
            return jnp.zeros(shape, jnp.int32)
        if self.kind == "offsets":
            shared = strip if strip.geometry.lanes == 1 else strip.column()
            within = locating.Within(jnp.maximum(before, np.int32(0)), last)
            given = operands[0], self._first(strip), shared, self.bounds, within
            return locating.located(*given, counts=not self.seeks)
        if self.kind == "ids":
            return self.narrow(strip.load_shared(operands[0], self.views[0]))
        heads = self._heads(strip, operands[0]).astype(KEY)
        if counts:
            return heads
        adding = trace_scalars(lax.add, [KEY] * 2)
        axis = strip.geometry.axis
        [count] = language.tile_scan(adding, [heads], axis, reverse=False)
        return self.counted(count, strip, before)

    def counted(self, count: jax.Array, strip: Tile, before: jax.Array) -> jax.Array:
        """The keys behind so many heads of the strip: ``count`` at each element."""
        first = strip.along_positions(before)
        return count + jnp.where(strip.index == 0, np.int32(-1), first)

    def ends(self, strip: Tile, operands: Sequence[Ref], key: jax.Array) -> jax.Array:
        """Whether the next element has another key; undefined for the row's last element."""
        if self.kind == "whole":
            return jnp.zeros(key.shape, jnp.bool_)
        if self.kind == "offsets":
            bound = self._bound_behind(operands, strip, key)
            shared = strip if strip.geometry.lanes == 1 else strip.column()
            return bound == shared.element() + np.int32(1)
        if self.kind == "ids":
            return key != self.narrow(strip.load_shared(operands[0], self.views[0], -1))
        here = strip.load_shared(operands[0], self.views[0], -1)
        if self.kind == "flags":
            return here != 0
        return here != strip.load_shared(operands[0], self.views[0])

    def ends_by_quarters(
        self,
        strip: Tile,
        operands: Sequence[Ref],
        leaf: jax.Array,
        keys: Sequence[jax.Array],
    ) -> list[jax.Array]:
        """`ends` of the elements of each quarter; only the last one's neighbour is loaded."""
        if self.kind == "whole":
            return [jnp.zeros(k.shape, jnp.bool_) for k in keys]
        if self.kind in COUNTED:
            within = [head != 0 for head in language.deinterleave(leaf, 4)[1:]]
            here = quarters.load(strip, operands[0], self.views[0], 4)
            if self.kind == "flags":
                return [*within, here != 0]
            return [*within, here != quarters.load(strip, operands[0], self.views[0], 3)]
        within = [key != behind for key, behind in itertools.pairwise(keys)]
        if self.kind == "offsets":
            bound = self._bound_behind(operands, strip, keys[3])
            return [*within, bound == quarters.index(strip, 4)]
        return [
            *within,
            keys[3] != self.narrow(quarters.load(strip, operands[0], self.views[0], 4)),
        ]

    def _bound_behind(self, operands: Sequence[Ref], strip: Tile, key: jax.Array) -> jax.Array:
        """The place behind the segment's end; -1 for what lies behind the last bound."""
        last = np.int32(self.bounds - 1)
        behind = jnp.minimum(key + np.int32(1), last)
        bound = locating.begins(operands[0], self._first(strip), behind)
        return jnp.where(key < last, bound, np.int32(-1))

    def size(
        self, tile: Tile, operands: Sequence[Ref], key: jax.Array, where: jax.Array
    ) -> jax.Array:
        """The number of elements by offsets; undefined but ``where`` there is such a segment."""
        begin, end = (
            language.load(
                operands[0], [(self._first(tile), 1), (jnp.int32(behind), 1), (key, 1)], mask=where
            )
            for behind in (0, 1)
        )
        return end - begin

    def _heads(self, strip: Tile, descriptor: Ref) -> jax.Array:
        here = strip.load_shared(descriptor, self.views[0])
        if self.kind == "flags":
            heads = here != 0
        else:
            heads = here != strip.load_shared(descriptor, self.views[0], 1)
        return heads | strip.at_end(first=True, spread=self._by_element(strip))

    def _by_element(self, strip: Tile) -> bool:
        """Whether each element of the strip has a key of its own, and keys are no column."""
        return strip.geometry.lanes == 1 or self.by_lane

    def narrow(self, ids: jax.Array) -> jax.Array:
        """Ids in 32 bits. Those of more bits that will be dropped become -1."""
        if ids.dtype.itemsize > KEY.itemsize:
            limit = np.asarray(self.num_segments, ids.dtype)[()]
            ids = jnp.where((ids >= 0) & (ids < limit), ids, jnp.full_like(ids, -1))
        ids = ids.astype(KEY)
        return lax.shift_right_arithmetic(ids, np.int32(self.shift)) if self.shift else ids

    def inside(self, key: jax.Array) -> jax.Array:
        """Whether each key is a segment's."""
        # As numbers without a sign, negative ones are too large.
        limit = language.unsigned(np.uint32(self.num_segments))
        return lax.bitcast_convert_type(key, jnp.uint32) < limit

    def _first(self, tile: Tile) -> jax.Array:
        """The place at which the offsets of the tile's row begin."""
        return tile.row_of(self.views[0]) * np.int32(self.bounds)
