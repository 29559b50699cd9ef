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

from jscan.kernels import launch, tuning
from jscan.kernels.joining import kernel as reduce_tile
from jscan.kernels.keys import KEY, Keys
from jscan.kernels.language import Ref
from jscan.kernels.layout import Geometry
from jscan.kernels.reduction import Reduction, StripWalk
from jscan.kernels.registers import constant
from jscan.kernels.tile import Tile

DROPPED = np.int32(-1)
"""The key of entries that belong to no segment."""


@dataclasses.dataclass(frozen=True)
class Partials:
    """A level of a reduction: entries of every tile, and the results of runs that need none."""

    reduction: Reduction

    @property
    def geometry(self) -> Geometry:
        """The reduction's cut."""
        return self.reduction.geometry

    @property
    def keyed(self) -> bool:
        """Whether there are segments."""
        return self.reduction.keys.kind != "whole"

    @property
    def extent(self) -> int:
        """The number of entries of a row."""
        return self.geometry.tiles * (2 if self.keyed else 1)

    @property
    def written(self) -> list[tuple[int, np.dtype]]:
        """Keys and leaves of entries, then results; leaves alone where there are no segments."""
        size = self.geometry.outer * self.extent * self.geometry.inner
        leaves = [(size, d) for d in self.reduction.dtypes]
        return [(size, KEY), *leaves, *self.reduction.written] if self.keyed else leaves


def run(
    reduction: Reduction,
    cut: launch.Cut,
    described: Sequence[jax.Array],
    interpret: bool,
    results: Sequence[jax.Array],
) -> list[jax.Array]:
    """Reduces level by level, each of which adds to the ``results``, and returns these."""
    if reduction.geometry.tiles == 1:
        last = functools.partial(reduce_tile, reduction, 1)
        return cut.call(reduction, described, last, None, "jscan_reduce", interpret, results)
    partials = Partials(reduction)
    assert partials.extent < reduction.geometry.n, "a level has to leave less than it was given"
    body = functools.partial(kernel, partials)
    name = "jscan_partials"
    found = cut.call(partials, described, body, None, name, interpret, results)
    count = len(reduction.dtypes)
    keys: list[jax.Array] = []
    if partials.keyed:
        keys, found, results = found[:1], found[1 : count + 1], found[count + 1 :]
    shape = (reduction.geometry.outer, partials.extent, reduction.geometry.inner)
    tuned = tuning.entries(partials.extent, cut.tuned)
    cut = launch.Cut([x.reshape(shape) for x in found], shape, 1, tuned)
    described, told = [], Keys("whole", 1, ())
    if partials.keyed:
        flat, view = launch.view(keys[0].reshape(shape), shape, 1)
        described, told = [flat], Keys("ids", reduction.keys.num_segments, (view,))
    rest = dataclasses.replace(
        reduction,
        geometry=cut.geometry,
        strip=min(tuned.strip, tuned.length) or tuned.length,
        views=cut.views,
        keys=told,
        order=None,
        product=None,
    )
    return run(rest, cut, described, interpret, results)


def kernel(partials: Partials, program: jax.Array, refs: Sequence[Ref]) -> None:
    """One tile of a row, by one program."""
    reduction, g = partials.reduction, partials.geometry
    tile, lanes = Tile(g, program), g.per_lane
    given, outputs = refs[: reduction.inputs], refs[reduction.inputs :]
    entry = len(reduction.dtypes) + partials.keyed  # a key, if there are segments, and the leaves
    entries, results = outputs[:entry], outputs[entry:]
    walk = StripWalk(reduction, tile, [*given, *results])
    runs = walk.all_strips()
    everywhere = jnp.ones(lanes, jnp.bool_)

    def write(number: int, values: Sequence[jax.Array]) -> None:
        place = tile.index * np.int32(partials.extent // g.tiles) + np.int32(number)
        for ref, value in zip(entries, values, strict=True):
            value = jnp.broadcast_to(value, lanes)
            tile.store_row(ref, partials.extent, place, value, everywhere)

    if not partials.keyed:
        pairs = zip(runs.first, runs.last, strict=True)
        write(0, [jnp.where(runs.first_over, f, t) for f, t in pairs])
        return
    # Behind the row's last element there is no run, and nothing is defined.
    key = jnp.where(tile.index == g.tiles - 1, DROPPED, jnp.broadcast_to(runs.key, lanes))
    before = jnp.broadcast_to(walk.before, lanes)
    first_is_last = runs.first_over & (jnp.broadcast_to(runs.key, lanes) == before)
    assert reduction.identity is not None
    identity = [
        np.asarray(i).astype(d)[()]
        for i, d in zip(reduction.identity, reduction.dtypes, strict=True)
    ]
    first_key = jnp.where(runs.first_over, before, key)
    write(0, [first_key, *_or_identity(runs.first_over, runs.first, identity)])
    write(1, [key, *_or_identity(~first_is_last, runs.last, identity)])


def _or_identity(
    where: jax.Array, values: Sequence[jax.Array], identity: Sequence[Any]
) -> list[jax.Array]:
    pairs = zip(values, identity, strict=True)
    return [jnp.where(where, v, constant(v.shape, i)) for v, i in pairs]
