"""Tiles of rows under logaddexp, of which a thread sums its neighbours by itself.

    memory     a0 a1 a2 a3 │ a4 a5 a6 a7 │ ...       a thread's words
    terms      exp(a - m)                            behind the tile's maximum m
    E          e0, e0+e1, e0+e1+e2, ... │ e4, ...    sums of a thread's own
    P                                               those of the threads before it: a scan
    result     r + log(exp(q - r) + exp(m - r) (P + E))

P comes from scanning a 0 and the total of each thread, two places for its neighbours, so that what
threads tell each other, and turn in a scan from the end, is a fraction of the tile's elements. With
what comes before the tile it is one number a thread.
"""

from __future__ import annotations

from collections.abc import Sequence

import jax
import jax.numpy as jnp
import numpy as np

from jscan.kernels import language
from jscan.kernels.description import Scan
from jscan.kernels.language import Ref
from jscan.kernels.logaddexp import LinearTile
from jscan.kernels.operator import FLAG, flag_value
from jscan.kernels.registers import take
from jscan.kernels.terms import (
    added,
    centered,
    greatest,
    least,
    logarithm,
    logarithm_behind,
    scalar,
    term,
)
from jscan.kernels.tile import Tile

Leaves = list[jax.Array]


class FoldedLinearTile(LinearTile):
    """A tile of one lane, of which a thread has so many neighbours."""

    def __init__(self, scan: Scan, tile: Tile, inputs: Sequence[Ref], width: int):
        self._width, self._order = width, slice(None, None, -1 if scan.geometry.backwards else 1)
        self._earlier: Leaves = []
        self._through: Leaves = []
        super().__init__(scan, tile, inputs)

    def _apart(self, leaves: Sequence[jax.Array]) -> list[Leaves]:
        """The leaves of each neighbour, in scan order."""
        each = zip(*(language.deinterleave(x, self._width) for x in leaves), strict=True)
        return [list(x) for x in each][self._order]

    def _together(self, each: Sequence[Leaves]) -> Leaves:
        """The inverse of `_apart`."""
        return [language.interleave(x) for x in zip(*each[self._order], strict=True)]

    def _begin(self, flags: list[jax.Array], values: list[jax.Array]) -> None:
        dtype, axis = self.dtype, self._scan.geometry.axis
        each = self._apart(values)
        self.maximum = greatest([real for real, *_ in each], axis)
        center = jnp.broadcast_to(jnp.expand_dims(centered(self.maximum), axis), each[0][0].shape)
        terms = [term(real - center, *phase) for real, *phase in each]
        if flags:
            self._begin_segments(flags, each, terms)
            return
        self._own: list[Leaves] = [terms[0]]
        for here in terms[1:]:
            self._own.append([x + y for x, y in zip(self._own[-1], here, strict=True)])
        add = scalar(jax.lax.add, dtype)
        total = [language.tile_reduce(add, x, axis) for x in self._own[-1]]
        self.aggregate = logarithm_behind(self.maximum, total)

    def _begin_segments(
        self, flags: list[jax.Array], each: Sequence[Leaves], terms: Sequence[Leaves]
    ) -> None:
        """The same where segments begin in the tile: sums begin anew there."""
        scan, axis = self._scan, self._scan.geometry.axis
        [heads], exists = flags, scan.loaded(self._tile)
        if exists is not None:  # behind the axis flags hold anything
            heads = jnp.where(exists, heads, jnp.zeros_like(heads))
        begins = [flag != 0 for [flag] in self._apart([heads])]
        nowhere = jnp.full_like(each[0][0], np.inf)
        of_heads = [
            jnp.where(here, real, nowhere) for (real, *_), here in zip(each, begins, strict=True)
        ]
        self.lowest = least(of_heads, axis)
        self._begun, self._own = [begins[0]], [terms[0]]
        for here, own in zip(begins[1:], terms[1:], strict=True):
            self._begun.append(self._begun[-1] | here)
            before = [jnp.where(here, jnp.zeros_like(x), x) for x in self._own[-1]]
            self._own.append([x + y for x, y in zip(before, own, strict=True)])
        self._over_threads(self._begun[-1])
        place = jax.lax.broadcasted_iota(jnp.int32, nowhere.shape, axis)
        end = place == np.int32(0 if scan.geometry.backwards else nowhere.shape[axis] - 1)
        held, tree = jax.tree.flatten((self._begun, self._own, self._earlier))
        held = self._since_restart(lambda: [take(x, end, axis) for x in self._through], held)
        self._begun, self._own, self._earlier = jax.tree.unflatten(tree, held)

    def _over_threads(self, begun: jax.Array | None = None) -> None:
        """Scans the totals of threads: what comes before each in the tile, and with its own."""
        g, add, total = self._scan.geometry, added(self._scan.dtypes), self._own[-1]
        if begun is not None:
            add, total = flag_value(add), [begun.astype(FLAG), *total]
        places = [[jnp.zeros_like(x) for x in total], total][self._order]
        both = [language.interleave(x) for x in zip(*places, strict=True)]
        scanned = language.tile_scan(add, both, g.axis, reverse=g.backwards)
        each = [language.deinterleave(x, 2)[self._order] for x in scanned]
        self._earlier, self._through = [x[0] for x in each], [x[1] for x in each]

    def scan(self) -> None:
        """P, unless segments have it already."""
        if self.lowest is None:
            self._over_threads()
            self._earlier = [language.settle(x) for x in self._earlier]

    def _behind(
        self, reference: jax.Array, before: Sequence[jax.Array], weight: jax.Array
    ) -> list[jax.Array]:
        axis, shape = self._scan.geometry.axis, self._own[0][0].shape

        def tall(x: jax.Array) -> jax.Array:
            return jnp.broadcast_to(jnp.expand_dims(x, axis) if x.ndim else x, shape)

        heavy, earlier = tall(weight), self._earlier
        counting = [tall(x) for x in before]
        if self._scan.segmented:
            flag, *earlier = earlier
            counting = [jnp.where(flag == 0, x, jnp.zeros_like(x)) for x in counting]
        ahead = [x + heavy * y for x, y in zip(counting, earlier, strict=True)]
        found = []
        for number, own in enumerate(self._own):
            here = ahead
            if self._scan.segmented:
                begun = self._begun[number]
                here = [jnp.where(begun, jnp.zeros_like(x), x) for x in ahead]
            size, *angle = logarithm([x + heavy * y for x, y in zip(here, own, strict=True)])
            found.append([tall(reference) + size, *angle])
        return self._together(found)

    def _write(self, outputs: Sequence[Ref], result: list[jax.Array]) -> None:
        # What restarts has no place among results.
        flag = [jnp.zeros(result[0].shape, FLAG)] if self._scan.segmented else []
        super()._write(outputs, [*flag, *result])
