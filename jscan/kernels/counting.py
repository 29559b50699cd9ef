"""Keys counted, in registers and in the memory that a program's warps share.

    keys       2 0 2 3 │ 2 0 2 9 │ 3 ...      a program reads its part strip by strip
    counts     [1 0 2 1] + [1 0 2 0] + ...    those of a strip, added up in registers
    parts      one row of counts a program, which XLA adds up

No two programs write to one place, so that it does not matter how many keys are equal.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

from jscan.kernels import language, launch, tuning
from jscan.kernels.language import Ref
from jscan.kernels.layout import Geometry, View
from jscan.kernels.tile import Tile

COUNT = np.dtype(np.int32)


@dataclasses.dataclass(frozen=True)
class Counting:
    """What to count."""

    geometry: Geometry
    view: View
    num_keys: int
    strip: int

    @property
    def bins(self) -> int:
        """A count for each key, and those that fill a power of two."""
        return max(tuning.next_power_of_2(self.num_keys), FEWEST_BINS)

    @property
    def written(self) -> list[tuple[int, np.dtype]]:
        """The counts of each program."""
        return [(self.geometry.programs * self.bins, COUNT)]


FEWEST_BINS = 32
"""One for each thread of a warp."""


def kernel(counting: Counting, program: jax.Array, refs: Sequence[Ref]) -> None:
    """Counts the keys of a part, by one program."""
    keys, counts = refs
    g = counting.geometry
    tile = Tile(g, program)
    first = tile.cut(dataclasses.replace(g, length=counting.strip))
    per_part = g.length // counting.strip
    begin = tile.index * np.int32(per_part)
    end = jnp.minimum(begin + np.int32(per_part), np.int32(first.geometry.tiles))

    def step(state: tuple[jax.Array, jax.Array]) -> tuple[jax.Array, jax.Array]:
        found, number = state
        strip = first.at(number)
        key, inside = _keys(strip.load(keys, counting.view), counting.num_keys)
        exists = strip.mask(0)
        inside = inside if exists is None else inside & exists
        return found + language.tile_histogram(key, inside, counting.bins), number + np.int32(1)

    start = jnp.zeros((counting.bins,), COUNT), begin
    found, _ = lax.while_loop(lambda state: state[1] < end, step, start)
    place = lax.broadcasted_iota(jnp.int32, (counting.bins,), 0)
    row = tile.row_block * np.int32(g.tiles) + tile.index
    language.store(counts, [(row, counting.bins), (place, 1)], found)


def _keys(keys: jax.Array, num_keys: int) -> tuple[jax.Array, jax.Array]:
    """The keys in 32 bits, and which of them are in range."""
    dtype = keys.dtype
    if dtype.itemsize < 4:
        keys = keys.astype(COUNT)
    elif dtype.kind == "u":  # what has no place among numbers with a sign is negative
        keys = lax.bitcast_convert_type(keys, jnp.dtype(dtype.name[1:]))
    inside = (keys >= keys.dtype.type(0)) & (keys < keys.dtype.type(num_keys))
    return keys.astype(COUNT), inside


def histogram(
    keys: jax.Array,
    *,
    axis: int,
    num_keys: int,
    interpret: bool = False,
    tile: tuning.Tuning | None = None,
) -> jax.Array:
    """How often each number below ``num_keys`` is along ``axis``, behind which there are no others.

    There are keys, and fewer than 32 bits count.
    """
    keys = launch.whole_bytes(keys)
    outer = keys.size // keys.shape[axis]
    tuned = tuning.counts(outer, keys.shape[axis], tile)
    cut = launch.Cut([keys], keys.shape, axis, tuned)
    counting = Counting(cut.geometry, cut.views[0], num_keys, tuned.strip_or_tile)

    def body(program: jax.Array, refs: Sequence[Ref]) -> None:
        kernel(counting, program, refs)

    [counts] = cut.call(counting, [], body, None, "jscan_count", interpret)
    parts = counts.reshape(outer, cut.geometry.tiles, counting.bins)
    whole = jnp.sum(parts[:, :, :num_keys], 1, dtype=COUNT)
    return whole.reshape(*keys.shape[:axis], num_keys, *keys.shape[axis + 1 :])
