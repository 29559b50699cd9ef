"""Results for segments without elements, where most have some and a fill of all would cost.

    ids        0  0  2  2  2  5        each marks its segment
    marks      1  .  1  .  .  1        a byte a segment
    results       e     e  e           the identity is written where there is no mark

What else the results hold is undefined: the reduction writes it. So each result is written once,
for the reading of the ids and two launches more.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

from jscan.kernels import launch
from jscan.kernels.fill import bits_of
from jscan.kernels.keys import Keys
from jscan.kernels.language import Ref
from jscan.kernels.layout import Geometry, View
from jscan.kernels.registers import constant
from jscan.kernels.tile import Tile

LEAST = 2**25
"""From so many bytes of results on there are marks. By reckoning: a fill of these takes 8 µs at an
H200's copy speed, and marks take two launches more and a pass over ids."""

IDS = 4
"""Results have to be so many times the bytes of ids, which are read once more."""

MARKED, FILLED = 2048, 4096
"""Elements of a tile of ids, and of results, each of a program of four warps."""


def pays(keys: Keys, ids: Sequence[jax.Array], written: Sequence[tuple[int, np.dtype]]) -> bool:
    """Whether marks of the segments in ``ids`` are cheaper than a fill of what is ``written``."""
    if keys.kind != "ids" or keys.by_lane or any(d == np.bool_ for _, d in written):
        return False
    size = sum(size * d.itemsize for size, d in written)
    return size >= max(LEAST, IDS * ids[0].nbytes)


def filled(
    keys: Keys,
    ids: jax.Array,
    geometry: Geometry,
    values: Sequence[Any],
    *,
    interpret: bool,
) -> list[jax.Array]:
    """An array for each of ``values``, which segments hold that have no id among ``ids``.

    The geometry is the reduction's.
    """
    [view] = keys.views
    count, n, _ = view.shape
    varies = jax.typeof(ids).mat
    of_ids = Geometry(count, n, 1, 1, MARKED, 1, False, False)

    def mark(program: jax.Array, refs: Sequence[Ref]) -> None:
        ids, marks = refs
        tile = Tile(of_ids, program)
        key = keys.narrow(tile.load(ids, View((count, n, 1), (1, count))))
        one = jnp.ones(key.shape, jnp.int8)
        tile.scatter(marks, keys.num_segments, key, one, where=keys.inside(key))

    size = count * keys.num_segments
    zeros = lax.full((size,), np.int8(0))
    [marks] = launch.call(
        *(mark, [ids], [(size, np.dtype(np.int8))]),
        programs=of_ids.programs,
        warps=4,
        name="jscan_mark",
        interpret=interpret,
        starts=[zeros],
        varies=varies,
    )
    lanes = geometry.lanes
    of_results = dataclasses.replace(
        geometry, n=keys.num_segments, length=max(1, FILLED // lanes), rows=1
    )
    bits = [bits_of(value) for value in values]

    def fill(program: jax.Array, refs: Sequence[Ref]) -> None:
        marks, *results = refs
        tile = Tile(of_results, program)
        absent = tile.load_shared(marks, dataclasses.replace(view, shape=(count, of_results.n, 1)))
        where = tile.spread(absent == 0)
        for ref, value in zip(results, bits, strict=True):
            tile.store(ref, constant(of_results.shape, value), where=where)

    extent = math.prod((geometry.outer, keys.num_segments, geometry.inner))
    found = launch.call(
        *(fill, [marks], [(extent, value.dtype) for value in bits]),
        programs=of_results.programs,
        warps=4,
        name="jscan_fill_absent",
        interpret=interpret,
        varies=varies,
    )
    pairs = zip(found, values, strict=True)
    return [lax.bitcast_convert_type(x, np.dtype(value.dtype)) for x, value in pairs]
