"""Reduce, then scan, by chunks that a thread walks alone: for elements of many numbers.

    memory    │ e0 e1 e2 e3 │ e4 e5 e6 e7 │ e8 ...       chunks of four elements, a thread for each

    thread 0    e0 ⊕ e1 ⊕ e2 ⊕ e3 ─► total               an element after another
    thread 1    e4 ⊕ e5 ⊕ e6 ⊕ e7 ─► total
                └─► scan of the totals
    thread 1    total before ⊕ e4, ⊕ e5, ...             again, and written

Scanned as a tile, elements are handed from thread to thread number by number, and combined as often
as a warp has levels, in code that has a copy of the operator for each. A thread that walks combines
each element twice, in a loop of one copy; and the second time it carries no more than what is
written depends on, of a recurrence its state and no product of matrices. The price is that elements
are read twice, and that a thread's are apart from the next thread's.
"""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

from jscan.combine import carried
from jscan.kernels import language, launch, scan_then_propagate, totals
from jscan.kernels.comb import Comb
from jscan.kernels.description import Scan
from jscan.kernels.language import Ref
from jscan.kernels.tile import Tile

Progress = tuple[jax.Array, ...]
"""What is carried of the leaves, then the number of a position in its chunk."""

Number = Any
"""The number of a position in its chunk: an int32, known or not."""

Step = Callable[[Sequence[jax.Array], Number], list[jax.Array]]
"""From what is carried to a position, and its number, to what is carried on."""


class Walked(NamedTuple):
    """How a thread walks: the positions of its chunk, and how many it takes together."""

    chunk: int
    together: int


def run(
    scan: Scan, cut: launch.Cut, interpret: bool, beside: Sequence[jax.Array] = ()
) -> list[jax.Array]:
    """Runs the kernels; a tile of ``scan``'s geometry is a chunk for each thread."""
    assert scan.geometry.inner == 1, "a thread walks elements that have no lanes beside them"
    how = Walked(cut.tuned.chunk, cut.tuned.together)
    of_chunks = dataclasses.replace(
        scan, geometry=dataclasses.replace(scan.geometry, length=how.chunk)
    )
    written = totals.Totals(of_chunks.geometry, totals.dtypes(scan))
    reduce = functools.partial(_reduce, scan, how)
    found = cut.call(written, beside, reduce, None, "jscan_chunk_totals", interpret)
    longer = scan_then_propagate.run
    before = totals.scanned(of_chunks, found, interpret, longer, totals.LONGEST)
    walk = functools.partial(_scan, scan, how)
    return cut.call(scan, [*beside, *before], walk, None, "jscan_chunks", interpret)


class Walk:
    """The chunks of a tile, walked in scan order, some neighbouring positions at a time."""

    def __init__(self, scan: Scan, cut: Walked, tile: Tile, refs: Sequence[Ref]):
        self._scan, self._tile = scan, tile
        self._chunk, self._together = cut
        self.inputs, self.others = scan.apart(refs)
        self._order = slice(None, None, -1 if scan.geometry.reverse else 1)

    def number(self) -> jax.Array:
        """The number of each chunk in its row."""
        g = self._comb(np.int32(0)).geometry
        place = lax.broadcasted_iota(jnp.int32, g.shape, g.axis)
        place = np.int32(g.length - 1) - place if g.reverse else place
        return self._tile.index * np.int32(g.length) + place

    def begin(self) -> list[list[jax.Array]]:
        """The leaves of the chunks' first positions, in one of which the axis begins."""
        return self._leaves(np.int32(0), begins=True)

    def leaves(self, number: Number) -> list[list[jax.Array]]:
        """Those of positions from the one of this ``number`` on."""
        return self._leaves(number, begins=False)

    def store(
        self, number: Number, outputs: Sequence[Ref], found: Sequence[Sequence[jax.Array]]
    ) -> None:
        """Writes what these positions are."""
        together, each = self._combs(number)
        self._scan.store_together(together, each, outputs, found[self._order])

    def further(self, carry: Sequence[jax.Array], step: Step) -> list[jax.Array]:
        """What is carried to the end of the chunks, from behind the first positions on."""

        def goes_on(state: Progress) -> jax.Array:
            return state[-1] < np.int32(self._chunk)

        def walked(state: Progress) -> Progress:
            *carry, number = state
            return (*step(carry, number), number + np.int32(self._together))

        *last, _ = lax.while_loop(goes_on, walked, (*carry, jnp.int32(self._together)))
        return last

    def _leaves(self, number: Number, *, begins: bool) -> list[list[jax.Array]]:
        together, each = self._combs(number)
        read = self._scan.read_together(together, each, self.inputs)[self._order]
        inside = dataclasses.replace(self._scan, start=None)
        found = []
        for k, (comb, parts) in enumerate(zip(each[self._order], read, strict=True)):
            first = begins and k == 0
            comb.within_row = not first
            found.append((self._scan if first else inside).leaves(comb, self.inputs, parts))
        return found

    def _combs(self, number: Number) -> tuple[Comb, list[Comb]]:
        """Positions and those behind them, together and each by itself, in the order of memory."""
        first = number
        if self._scan.geometry.reverse:
            first = np.int32(self._chunk - self._together) - number
        each = [self._comb(first + np.int32(k)) for k in range(self._together)]
        return self._comb(first, self._together), each

    def _comb(self, place: Number, neighbours: int = 0) -> Comb:
        return Comb(self._tile, self._chunk, jnp.asarray(place), neighbours)


def _reduce(scan: Scan, cut: Walked, program: jax.Array, refs: Sequence[Ref]) -> None:
    """The totals of a tile's chunks; that of a chunk in which the axis ends is undefined."""
    tile = Tile(scan.geometry, program)
    walk = Walk(scan, cut, tile, refs)

    def combined(values: Sequence[Sequence[jax.Array]]) -> list[jax.Array]:
        return functools.reduce(
            lambda x, y: language.mapped(scan.leaf_operator, [*x, *y]), map(list, values)
        )

    found = walk.further(
        combined(walk.begin()), lambda carry, number: combined([carry, *walk.leaves(number)])
    )
    place, count = walk.number(), -(-scan.geometry.n // cut.chunk)
    for ref, value in zip(walk.others, found, strict=True):
        terms = [(tile.row_block, count), (place, 1)]
        language.store(ref, terms, value.astype(ref.dtype), mask=place < np.int32(count))


def _scan(scan: Scan, cut: Walked, program: jax.Array, refs: Sequence[Ref]) -> None:
    """A tile's chunks, each scanned behind the total of all before it."""
    tile = Tile(scan.geometry, program)
    walk = Walk(scan, cut, tile, refs)
    kinds = totals.dtypes(scan)
    before, outputs = walk.others[: len(kinds)], walk.others[len(kinds) :]
    wanted = [k + scan.segmented for k, used in enumerate(scan.used_parts) if used]
    kept = carried(scan.leaf_operator, wanted)
    place, count = walk.number(), -(-scan.geometry.n // cut.chunk)
    terms = [(tile.row_block, count), (place - np.int32(1), 1)]
    mask = (place > 0) & (place < np.int32(count))
    prefix = [totals.as_read(language.load(before[k], terms, mask=mask), kinds[k]) for k in kept]

    def combined(carry: Sequence[jax.Array], values: Sequence[jax.Array]) -> list[jax.Array]:
        there = dict(zip(kept, carry, strict=True))
        left = [there.get(k, jnp.zeros_like(x)) for k, x in enumerate(values)]
        return language.mapped(scan.leaf_operator, [*left, *values])

    def scanned(
        first: Sequence[jax.Array], others: Sequence[Sequence[jax.Array]]
    ) -> list[Sequence[jax.Array]]:
        found = [first]
        for values in others:
            found.append(combined([found[-1][k] for k in kept], values))
        return found

    def step(carry: Sequence[jax.Array], number: Number) -> list[jax.Array]:
        first, *others = walk.leaves(number)
        found = scanned(combined(carry, first), others)
        walk.store(number, outputs, found)
        return [found[-1][k] for k in kept]

    first, *others = walk.begin()
    behind = combined(prefix, first)
    begun = [jnp.where(place == 0, x, y) for x, y in zip(first, behind, strict=True)]
    found = scanned(begun, others)
    walk.store(np.int32(0), outputs, found)
    walk.further([found[-1][k] for k in kept], step)
