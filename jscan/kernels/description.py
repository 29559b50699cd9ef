"""One scan as the kernels see it: its leaves, its operator, and how a tile is read.

Leaves inside a kernel are ``[head flag, *values]`` if the scan is segmented, else ``values``; the
leaf operator is the flag-value operator in the first case. Flags mark where the *scan* restarts: a
reversed scan restarts at a segment's last element, whose right neighbour is a head.
"""

from __future__ import annotations

import dataclasses
import itertools
from collections.abc import Callable, Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax.extend import core

from jscan.kernels import elements, language, memory, rows, shifting, sliding, weaving
from jscan.kernels.language import Ref
from jscan.kernels.layout import Geometry, View
from jscan.kernels.operator import FLAG, flag_value, front
from jscan.kernels.registers import constant
from jscan.kernels.spreading import Bits
from jscan.kernels.start import Start, among_first, is_first, load_first
from jscan.kernels.tile import Tile


@dataclasses.dataclass(frozen=True)
class Scan:
    """What to scan: everything about the call that is known when it is compiled."""

    geometry: Geometry
    operator: core.ClosedJaxpr  # on the values
    dtypes: tuple[np.dtype, ...]  # of the values, as accumulated
    results: tuple[np.dtype, ...]  # of the arrays that are written, if used
    identity: tuple[Any, ...] | None
    used: tuple[bool, ...]
    linear: bool  # logaddexp of one leaf, to be summed in the linear domain
    views: tuple[View, ...]
    flag_view: View | None
    flag_bits: Bits | None = dataclasses.field(default=None, kw_only=True)  # instead of a view
    start: Start | None = dataclasses.field(default=None, kw_only=True)
    restarts_at_first: bool = dataclasses.field(default=True, kw_only=True)  # a row, as it begins
    restarts_at_rows: bool = dataclasses.field(default=False, kw_only=True)  # see `Geometry.row`
    numbers: tuple[int, ...] = dataclasses.field(default=(), kw_only=True)  # of results, if not one
    identity_apart: bool = dataclasses.field(default=False, kw_only=True)  # it is not combined
    restarts_at_second: bool = dataclasses.field(default=False, kw_only=True)  # place of the axis

    @property
    def used_parts(self) -> tuple[bool, ...]:
        """Whether somebody uses each of the values, of which a complex result takes two."""
        return tuple(used for values, used, _ in self._written for _ in range(values))

    @property
    def _written(self) -> list[tuple[int, bool, int]]:
        """Of each result how many values it takes, whether it is used, and an element's numbers."""
        each = zip(self.results, self.used, self.numbers or (1,) * len(self.results), strict=True)
        return [(memory.parts(dtype) * numbers, used, numbers) for dtype, used, numbers in each]

    @property
    def beside(self) -> int:
        """The number of inputs that are not cut into tiles, and come behind the others."""
        return 0 if self.start is None else self.start.inputs

    @property
    def flagged(self) -> bool:
        """Whether head flags are given."""
        return self.flag_view is not None or self.flag_bits is not None

    @property
    def segmented(self) -> bool:
        """Whether there are head flags: given, of rows, or where the identity is left behind."""
        return self.flagged or self.restarts_at_rows or self.restarts_at_second

    @property
    def leaf_operator(self) -> core.ClosedJaxpr:
        """The operator on a tile's leaves."""
        return flag_value(self.operator) if self.segmented else self.operator

    @property
    def written(self) -> list[tuple[int, np.dtype]]:
        """The results that somebody uses: their size, which is the full one, and dtype."""
        size = self.geometry.elements
        each = zip(self.results, self._written, strict=True)
        return [(size * numbers, d) for d, (_, used, numbers) in each if used]

    def on_tile(self, tile: Tile, work: Work, walk: Work | None = None) -> None:
        """Does the work of a tile, compiled anew for the few that need more than the others.

        The length of the axis may be no multiple of what a thread takes at once. Masks of its end
        would then hold for single elements, and every access be one of a single element: sum of
        200,000,003 float32 elements, 0.55 of copy speed (H200, 2026-11-22). Beside lanes they take
        registers, but where one is for all elements of a word (`sliding`). Nor has any tile but the
        first a flag, where one is needed to leave the identity behind.
        """
        g = self.geometry
        if g.row:
            self._on_tile_of_rows(tile, work, walk or work)
            return
        widest = 16 // min(d.itemsize for d in (*self.dtypes, *self.results))
        single = g.outer == 1 and g.n % widest != 0 and not g.reverse and g.word == 1
        ends = g.n % g.length != 0 and (single or g.inner > 1) and not sliding.slides(g)
        if g.tiles == 1 or not (ends or self.restarts_at_second):
            work(self, tile)
            return
        others, inside = self, tile.without_ends(of_rows=False) if ends else tile
        last = tile.index == np.int32(0 if g.fronted else g.tiles - 1)  # the ragged
        if self.restarts_at_second:
            others = dataclasses.replace(self, restarts_at_second=False)
            # Places in front of a row may take up the first tile, or all of it but one.
            lead = g.tiles * g.length - g.n if g.fronted else g.word - 1
            reached = -(-(lead + 2) // g.length)
            first = language.opaque(tile.index) < reached  # opaque as in `rows.is_ragged`
            last = last | first if ends else first
        language.when(last, lambda: work(self, tile))
        language.when(~last, lambda: work(others, inside))

    def _on_tile_of_rows(self, tile: Tile, work: Work, walk: Work) -> None:
        """Does the work of a tile, or walks it where a row begins or ends in it.

        Rows that are not longer than a tile begin in most of them.
        """
        g = self.geometry
        if g.n % g.length:
            ragged = rows.is_ragged(tile)
            language.when(ragged, lambda: walk(self, tile))
            language.when(~ragged, lambda: self._on_whole_tile(tile, work, walk))
        else:
            self._on_whole_tile(tile, work, walk)

    def _on_whole_tile(self, tile: Tile, work: Work, walk: Work) -> None:
        """Does the work of a tile in which the axis does not end."""
        g = self.geometry
        if g.row <= g.length:
            walk(self, tile.without_ends(of_rows=False))
            return
        restarts = rows.may_restart(tile)
        language.when(restarts, lambda: walk(self, tile.without_ends(of_rows=False)))
        within = self.within_row()
        language.when(~restarts, lambda: work(within, tile.without_ends(of_rows=True)))

    def within_row(self) -> Scan:
        """The scan as it looks where no row begins."""
        return dataclasses.replace(self, restarts_at_rows=False)

    def since_restart(self, tile: Tile, inputs: Sequence[Ref]) -> list[jax.Array]:
        """The tile's leaves from the one place on at which a row's scan restarts.

        Others hold what leaves no trace behind it.
        """
        g = self.geometry
        values = self.within_row().load(tile, inputs)
        place = rows.first(tile, g.shift + g.reverse)
        first = np.int32(g.length - 1) - place if g.reverse else place
        return self._behind(tile.positions() - first, values)

    def split(self, refs: Sequence[Ref]) -> tuple[Sequence[Ref], Sequence[Ref]]:
        """The input and output references out of all of the kernel's."""
        inputs, others = self.apart(refs)
        return inputs, others[: sum(self.used)]

    def apart(self, refs: Sequence[Ref]) -> tuple[Sequence[Ref], Sequence[Ref]]:
        """The input references, and those behind them."""
        inputs = len(self.views) + self.flagged + self.beside
        if self.geometry.abreast > 1:
            results = range(inputs, inputs + sum(self.used))
            refs = memory.in_words(refs, [*range(len(self.views)), *results])
        return refs[:inputs], refs[inputs:]

    def load(self, tile: Tile, inputs: Sequence[Ref]) -> list[jax.Array]:
        """The tile's leaves, ready to be scanned inclusively."""
        return self.leaves(tile, inputs, self.read(tile, inputs))

    def read(self, tile: Tile, inputs: Sequence[Ref]) -> list[jax.Array]:
        """What of the tile lies in memory: the parts of its elements, then flags if there are."""
        shift = tile.geometry.shift
        pairs = zip(inputs, self.views, strict=False)
        parts = [part for ref, view in pairs for part in self._parts(tile, ref, view, shift)]
        return [*parts, *self.flags(tile, inputs, shift)]

    def read_together(
        self, together: Tile, each: Sequence[Tile], inputs: Sequence[Ref]
    ) -> list[list[jax.Array]]:
        """The same of tiles of which each has the neighbours of the one before it in memory."""
        read: list[list[jax.Array]] = [[] for _ in each]
        for ref, view in zip(inputs, self.views, strict=False):
            if view.numbers > 1:
                found = elements.load_apart(together, ref, view)
            else:
                found = [self._parts(tile, ref, view, 0) for tile in each]
            for so_far, parts in zip(read, found, strict=True):
                so_far += parts
        pairs = zip(read, each, strict=True)
        return [[*parts, *self.flags(tile, inputs, 0)] for parts, tile in pairs]

    def _parts(self, tile: Tile, ref: Ref, view: View, shift: int) -> list[jax.Array]:
        """The tile of an operand, which may have one element for all places."""
        if view.shape[1] == 1:
            return elements.load_common(tile, ref, view)
        if view.numbers > 1:
            return elements.load(tile, ref, view)
        if tile.geometry.woven:
            return weaving.load(tile, ref, view, shift)
        return shifting.load_parts(tile, ref, view, shift)

    def flags(self, tile: Tile, inputs: Sequence[Ref], shift: int) -> list[jax.Array]:
        """The flags ``shift`` positions to the left, or none."""
        if not self.flagged:
            return []
        # A reversed scan restarts where the right neighbour is a head.
        moved, ref = shift + tile.geometry.reverse, inputs[len(self.views)]
        if self.flag_view is None:
            assert self.flag_bits is not None
            return [self.flag_bits.load(tile, ref, moved)]
        if tile.geometry.woven:
            return weaving.load(tile, ref, self.flag_view, moved)
        return [shifting.load(tile, ref, self.flag_view, moved)]

    def leaves(
        self, tile: Tile, inputs: Sequence[Ref], read: Sequence[jax.Array]
    ) -> list[jax.Array]:
        """The leaves of a tile of which this was `read`."""
        shift, read = tile.geometry.shift, sliding.elements(tile, inputs, self.views, read)
        values = [x.astype(d) for x, d in zip(read, self.dtypes, strict=False)]
        if self.start is not None:
            values = self._started(self.start, tile, inputs, values)
            if tile.geometry.leads:
                values = self._behind_the_lead(tile, values)
        elif shift and not tile.within_row:
            start = tile.before_start(shift)
            values = [self._or_identity(start, v, k) for k, v in enumerate(values)]
        elif tile.geometry.leads and not self.segmented and not tile.within_row:
            values = self._behind_the_lead(tile, values)
        if not self.segmented:
            return values
        flags = read[len(self.dtypes) :]
        return [self._restarts(tile, flags, shift), *values]

    def loaded(self, tile: Tile) -> jax.Array | None:
        """Whether each place of the tile, as it was loaded, holds a value; None where all do.

        Where the axis begins an exclusive scan holds one only if it has a start.
        """
        mask = tile.mask(tile.geometry.shift)
        return mask if mask is None or self.start is None else mask | is_first(tile)

    def _behind_the_lead(self, tile: Tile, values: Sequence[jax.Array]) -> list[jax.Array]:
        """The values, with what does not count in the places in front of the row."""
        filled = []
        for value, (neutral, through_first) in zip(values, self._in_front(), strict=True):
            before = tile.before_start(1 if through_first else 0)
            filled.append(jnp.where(before, constant(value.shape, neutral), value))
        return filled

    def _behind(self, place: jax.Array, values: Sequence[jax.Array]) -> list[jax.Array]:
        """The values from ``place`` 0 on, with what does not count in front of it."""
        return [
            jnp.where(place < np.int32(through), constant(value.shape, neutral), value)
            for value, (neutral, through) in zip(values, self._in_front(), strict=True)
        ]

    @property
    def neutral(self) -> tuple[tuple[Any, bool], ...] | None:
        """What may stand in front of a row, if that is known: see `operator.front`."""
        if self.linear:
            size, *phase = (d.type for d in self.dtypes)
            return ((size(-np.inf), False), *((p(0), False) for p in phase))
        return front(self.operator, self.used_parts)

    def _in_front(self) -> tuple[tuple[Any, bool], ...]:
        assert self.neutral is not None
        return self.neutral

    def _started(
        self, start: Start, tile: Tile, inputs: Sequence[Ref], values: Sequence[jax.Array]
    ) -> list[jax.Array]:
        """The values with the start at the first place of the axis, or in front of what is there.

        Where the start reaches no element the first place is as it is without one.
        """
        g, behind = tile.geometry, inputs[len(inputs) - start.inputs :]
        before = [v.astype(d) for v, d in zip(start.values(tile, behind), self.dtypes, strict=True)]
        reaches = start.is_open(tile, behind)
        if g.exclusive:
            # Flags are looked at when results are written, as everywhere else.
            first, others = before, [self._identity(g.edge, k) for k in range(len(before))]
        else:
            read = zip(inputs, self.views, strict=False)
            loaded = [part for ref, view in read for part in load_first(tile, ref, view)]
            others = [x.astype(d) for x, d in zip(loaded, self.dtypes, strict=True)]
            first = language.mapped(self.operator, [*before, *others])
            if self.flag_view is not None and not g.reverse:
                [flag] = load_first(tile, inputs[len(self.views)], self.flag_view)
                same = flag == 0
                reaches = same if reaches is None else reaches & same
        if reaches is not None:
            first = [jnp.where(reaches, x, y) for x, y in zip(first, others, strict=True)]
        here, tall = is_first(tile), [weaving.along(tile, x) for x in first]
        pairs = zip(tall, values, strict=True)
        return [jnp.where(here, jnp.broadcast_to(x, v.shape), v) for x, v in pairs]

    def _restarts(self, tile: Tile, flags: Sequence[jax.Array], shift: int) -> jax.Array:
        """Not zero where scans restart or a row starts, from the `flags` at ``shift``.

        Where a row starts they are zero with a start, as the first place has what belongs there.
        An identity that is kept ``apart`` has the first place to itself.
        """
        second = self.identity_apart and shift == 1
        shift += tile.geometry.reverse
        if not flags:
            if not self.restarts_at_second:
                return rows.begin(tile, shift).astype(FLAG)
            if tile.within_row:
                return jnp.zeros(tile.geometry.shape, FLAG)
            return tile.before_start(2).astype(FLAG)
        [flag] = flags
        # Narrow flags stay as they are: any non-zero value will do, and comparing costs
        # instructions.
        flag = (flag != 0 if flag.dtype.itemsize > FLAG.itemsize else flag).astype(FLAG)
        if self.restarts_at_rows:
            return flag | rows.begin(tile, shift).astype(FLAG)
        if tile.within_row:
            return flag
        if not shift:
            if not tile.geometry.leads:
                return flag
            shift = 1  # so that the row begins anew behind the places in front of it
        if self.start is not None or not self.restarts_at_first:
            return jnp.where(among_first(tile, shift), jnp.zeros_like(flag), flag)
        return flag | tile.before_start(2 if second else shift).astype(FLAG)

    def _or_identity(self, where: jax.Array, values: jax.Array, leaf: int) -> jax.Array:
        return jnp.where(where, self._identity(values.shape, leaf), values)

    def _identity(self, shape: Sequence[int], leaf: int) -> jax.Array:
        assert self.identity is not None
        return constant(shape, np.asarray(self.identity[leaf], self.dtypes[leaf])[()])

    def tile_scan(self, leaves: Sequence[jax.Array]) -> list[jax.Array]:
        """The tile's leaves, scanned inclusively."""
        g = self.geometry
        return language.tile_scan(self.leaf_operator, leaves, g.axis, reverse=g.backwards)

    def combine(self, left: Sequence[jax.Array], right: Sequence[jax.Array]) -> list[jax.Array]:
        """Leaves ⊕ leaves; ``left`` is broadcast to the shape of ``right``."""
        shape = right[0].shape
        left = [jnp.broadcast_to(x, shape) for x in left]
        return language.mapped(self.leaf_operator, [*left, *right])

    def store(
        self,
        tile: Tile,
        outputs: Sequence[Ref],
        inputs: Sequence[Ref],
        scanned: Sequence[jax.Array],
    ) -> None:
        """Writes the values that somebody uses."""
        values = list(scanned[1:] if self.segmented else scanned)
        if (self.flagged or self.restarts_at_rows) and tile.geometry.exclusive:
            restarts = self._restarts(tile, self.flags(tile, inputs, 0), 0) != 0
            values = [self._or_identity(restarts, v, k) for k, v in enumerate(values)]
        written = self._by_results(values)
        for ref, (own, numbers) in zip(outputs, written, strict=True):
            if numbers > 1:
                elements.store(tile, ref, numbers, own)
            elif tile.geometry.woven:
                weaving.store(tile, ref, own)
            elif tile.geometry.shared:
                sliding.store(tile, ref, own)
            else:
                tile.store(ref, *own)

    def store_together(
        self,
        together: Tile,
        each: Sequence[Tile],
        outputs: Sequence[Ref],
        scanned: Sequence[Sequence[jax.Array]],
    ) -> None:
        """The same of tiles that were read together; inclusive scans."""
        found = [self._by_results(leaves[self.segmented :]) for leaves in scanned]
        for ref, of_result in zip(outputs, zip(*found, strict=True), strict=True):
            numbers = of_result[0][1]
            if numbers > 1:
                elements.store_apart(together, ref, numbers, [own for own, _ in of_result])
            else:
                for tile, (own, _) in zip(each, of_result, strict=True):
                    tile.store(ref, *own)

    def _by_results(self, values: Sequence[jax.Array]) -> list[tuple[list[jax.Array], int]]:
        """The values of each result that is used, and how many numbers an element of it has."""
        kept = iter([v for v, used in zip(values, self.used_parts, strict=True) if used])
        written = [(count, numbers) for count, used, numbers in self._written if used]
        return [([*itertools.islice(kept, count)], numbers) for count, numbers in written]


Work = Callable[[Scan, Tile], None]
"""What a program does with a tile, of a scan as it looks there."""
