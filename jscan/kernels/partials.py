"""Reductions in several kernels, none of which waits: totals of tiles, then totals of those.

    tile 0            tile 1            tile 2
    ┌ a a b b c c ┐   ┌ c c c c c c ┐   ┌ c d d e e e ┐     runs that end in the tile they began in
    └──┬──────┬───┘   └──────┬──────┘   └┬───────┬────┘     are written: b, d
       └──────┴──────────────┴───────────┴───────┴─► first and last runs of every tile, as an
                                                    array of totals and keys, to be reduced

Two strategies cut their tiles for this. The tree (`scan_then_propagate`, of which nothing is left
to propagate) takes tiles of one strip, and again for their totals, until one program is enough
(Sengupta, Harris, Zhang and Owens 2007). In matrix style (`reduce_then_scan`) as many programs as
keep the GPU busy stay resident and walk a part each, strip by strip, as a row of a matrix is summed
(Dotsenko et al. 2008); of long rows one level is left. Both combine in a fixed order, hence
repeatably.

Two entries a tile: what its first run amounts to, if that began before the tile and is over, and
what its last run amounts to. Where there is no such run the entry holds the identity and the key
of its neighbour, so that entries of one segment stay neighbours.
"""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from jscan.kernels import launch, reduction, tuning
from jscan.kernels.keys import KEY, Keys
from jscan.kernels.layout import Geometry
from jscan.kernels.reduction import Reduction, Walk
from jscan.kernels.registers import constant
from jscan.kernels.tile import Tile

DROPPED = np.int32(-1)
"""The key of what belongs to no segment."""


@dataclasses.dataclass(frozen=True)
class Partials:
    """Entries of every tile, and the results of runs that need none."""

    one: Reduction

    @property
    def geometry(self) -> Geometry:
        """The reduction's."""
        return self.one.geometry

    @property
    def keyed(self) -> bool:
        """Whether there are segments."""
        return self.one.keys.kind != "whole"

    @property
    def extent(self) -> int:
        """Entries of a row."""
        return self.geometry.tiles * (2 if self.keyed else 1)

    @property
    def written(self) -> list[tuple[int, np.dtype]]:
        """Keys, leaves, results; of a reduction without segments only the leaves."""
        size = self.geometry.outer * self.extent * self.geometry.inner
        leaves = [(size, d) for d in self.one.dtypes]
        return [(size, KEY), *leaves, *self.one.written] if self.keyed else leaves


def run(
    one: Reduction,
    cut: launch.Cut,
    described: Sequence[jax.Array],
    interpret: bool,
    results: Sequence[jax.Array],
) -> list[jax.Array]:
    """Reduces level by level, each of which adds to the ``results``, and returns these."""
    if one.geometry.tiles == 1:
        last = functools.partial(reduction.kernel, one, 1)
        return cut.call(one, described, last, None, "jscan_reduce", interpret, results)
    partials = Partials(one)
    assert partials.extent < one.geometry.n, "a level has to leave less than it was given"
    body = functools.partial(kernel, partials)
    name = "jscan_partials"
    found = cut.call(partials, described, body, None, name, interpret, results)
    count = len(one.dtypes)
    keys: list[jax.Array] = []
    if partials.keyed:
        keys, found, results = found[:1], found[1 : count + 1], found[count + 1 :]
    shape = (one.geometry.outer, partials.extent, one.geometry.inner)
    tuned = tuning.entries(partials.extent, cut.tuned)
    cut = launch.Cut([x.reshape(shape) for x in found], shape, 1, tuned)
    described, told = [], Keys("whole", 1, ())
    if partials.keyed:
        flat, view = launch.view(keys[0].reshape(shape), shape, 1)
        described, told = [flat], Keys("ids", one.keys.num_segments, (view,))
    next_one = dataclasses.replace(
        one,
        geometry=cut.geometry,
        strip=min(tuned.strip, tuned.length) or tuned.length,
        views=cut.views,
        keys=told,
    )
    return run(next_one, cut, described, interpret, results)


def kernel(partials: Partials, program: jax.Array, refs: Sequence[Any]) -> None:
    """One tile of a row, by one program."""
    one, g = partials.one, partials.geometry
    tile = Tile(g, program)
    inputs, count = len(one.views) + one.keys.operands, len(one.dtypes)
    given, outputs = refs[:inputs], refs[inputs:]
    entries, results = outputs, outputs[:0]
    if partials.keyed:
        entries, results = outputs[: count + 1], outputs[count + 1 :]
    walk = Walk(one, tile, [*given, *results])
    totals, first, found, last = walk.parts(reduction.walked(walk))
    lanes = g.per_lane
    everywhere = jnp.ones(lanes, jnp.bool_)

    def write(number: int, values: Sequence[jax.Array]) -> None:
        place = tile.index * np.int32(partials.extent // g.tiles) + np.int32(number)
        for ref, value in zip(entries, values, strict=True):
            value = jnp.broadcast_to(value, lanes)
            tile.store_row(ref, partials.extent, place, value, everywhere)

    if not partials.keyed:
        write(0, [jnp.where(found, f, t) for f, t in zip(first, totals, strict=True)])
        return
    # Behind the row's last element there is no run, and nothing is defined.
    key = jnp.where(tile.index == g.tiles - 1, DROPPED, jnp.broadcast_to(last, lanes))
    before = jnp.broadcast_to(walk.before, lanes)
    alone = found & (jnp.broadcast_to(last, lanes) == before)  # the first run is the last one
    assert one.identity is not None
    nothing = [np.asarray(i).astype(d)[()] for i, d in zip(one.identity, one.dtypes, strict=True)]
    write(0, [jnp.where(found, before, key), *_chosen(found, first, nothing)])
    write(1, [key, *_chosen(~alone, totals, nothing)])


def _chosen(
    where: jax.Array, values: Sequence[jax.Array], nothing: Sequence[Any]
) -> list[jax.Array]:
    pairs = zip(values, nothing, strict=True)
    return [jnp.where(where, v, constant(v.shape, i)) for v, i in pairs]
