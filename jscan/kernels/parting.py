"""Elements in three parts by their signs, moved by the program that counts these.

    signs       0  -  +  0  -  +
    negative    0  1  1  1  2  2         two counts, which are one number within a tile:
    positive    0  0  1  1  1  2         16 bits for each
    elements    a  b  c  d  e  f

    results     b  e │ a  d │ c  f

How many elements are negative and how many are zero is told before, as where the second part and
the third begin. Tiles count strip by strip, publish, look back, and read the signs again from a
cache beside the elements, as in `jscan.kernels.ranking`.
"""

from __future__ import annotations

import dataclasses
import functools
import math
from collections.abc import Sequence

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax
from jax.extend import core

from jscan.kernels import language, launch, lookback, tuning
from jscan.kernels.forms import OperatorAggregates
from jscan.kernels.language import Ref
from jscan.kernels.moving import Moving
from jscan.kernels.operator import trace_scalars
from jscan.kernels.ranking import along, no_counts, suits_bytes
from jscan.kernels.ranks import COUNT, of_rows
from jscan.kernels.state import AGGREGATE, PREFIX
from jscan.kernels.strips import Part, over_strips
from jscan.kernels.tile import Tile

BITS = 16
"""Those of one of two counts in a word: tiles have fewer than 2^15 places."""


@dataclasses.dataclass(frozen=True)
class Parting(Moving):
    """What to part.

    Inputs are the signs and the elements; then where the second part begins, and where the third.
    """

    @property
    def beside(self) -> int:
        """The number of inputs that are not cut into tiles."""
        return 2

    def signs(self, tile: Tile, signs: Ref) -> tuple[jax.Array, jax.Array]:
        """Whether each element is negative, and whether it is positive."""
        here = tile.load(signs, self.views[0])
        if here.dtype.kind == "u":
            return jnp.zeros(here.shape, jnp.bool_), here != 0
        zero = here.dtype.type(0)
        return here < zero, here > zero


def _packed(negative: jax.Array, positive: jax.Array) -> jax.Array:
    """Two counts in one word."""
    return negative.astype(COUNT) + positive.astype(COUNT) * np.int32(1 << BITS)


def _unpacked(counts: jax.Array) -> list[jax.Array]:
    """The counts of negative and of positive elements."""
    positive = lax.shift_right_arithmetic(counts, jnp.full_like(counts, BITS))
    return [counts & np.int32((1 << BITS) - 1), positive]


@functools.cache
def _operators() -> tuple[core.ClosedJaxpr, core.ClosedJaxpr]:
    """What adds two words, and what adds two pairs of counts."""

    def pairs(a: jax.Array, b: jax.Array, c: jax.Array, d: jax.Array) -> list[jax.Array]:
        return [lax.add(a, c), lax.add(b, d)]

    return trace_scalars(lax.add, [COUNT] * 2), trace_scalars(pairs, [COUNT] * 4)


def kernel(parting: Parting, tuned: tuning.Tuning, program: jax.Array, refs: Sequence[Ref]) -> None:
    """One tile of a row, by one program."""
    assert parting.geometry.length < 1 << BITS, "a count of a tile fits half a word"
    inputs, outputs = parting.split(refs)
    tile = Tile(parting.geometry, program)
    part = Part(parting, tuned.strip_or_tile, tile, refs)
    if parting.geometry.tiles == 1:  # nothing comes before the only tile
        _send(parting, part, [jnp.zeros(tile.geometry.per_lane, COUNT)] * 2, outputs)
        return
    words, state = refs[-1], lookback.tile_state(parting)
    total = _unpacked(_count(parting, tuned, part, inputs))
    first = tile.index == 0
    state.publish(words, tile, AGGREGATE + first.astype(jnp.int32), total)
    rule = OperatorAggregates(parting.operator, None)
    search = lookback.Lookback(parting.operator, state, words, tile, tuned.window, rule)
    found = search.prefix(search.peek(tile.index))
    prefix = [jnp.where(first, jnp.zeros_like(x), x) for x in found]
    inclusive = rule.combine(prefix, total)
    state.publish(words, tile, jnp.full_like(total[0], PREFIX), inclusive, ~first)
    _send(parting, part, prefix, outputs)


def _count(parting: Parting, tuned: tuning.Tuning, part: Part, inputs: Sequence[Ref]) -> jax.Array:
    """The counts of a tile, in one word."""
    by_bytes = inputs[0].dtype == np.int8 and suits_bytes(inputs[0].dtype, tuned)

    def step(strip: Tile, state: Sequence[jax.Array]) -> list[jax.Array]:
        exists = strip.mask(0)
        if by_bytes:
            signs = strip.load(inputs[0], parting.views[0])
            if exists is not None:
                signs = jnp.where(exists, signs, jnp.zeros_like(signs))
            negative = language.count_bytes(signs, negative=True)
            found = _packed(negative, language.count_bytes(signs) - negative)
        else:
            found = _packed(*parting.signs(strip, inputs[0]))
            if exists is not None:
                found = jnp.where(exists, found, jnp.zeros_like(found))
        return [state[0] + found]

    [counts] = over_strips(part, step, [no_counts(part, by_fours=by_bytes)])
    return language.tile_reduce(_operators()[0], counts, parting.geometry.axis)


def _send(
    parting: Parting, part: Part, prefix: Sequence[jax.Array], outputs: Sequence[Ref]
) -> None:
    """Counts a tile again, strip by strip behind what comes before it, and moves its elements."""
    inputs = part.inputs
    second, third = (of_rows(part.tile, ref) for ref in inputs[len(parting.views) :])

    def step(
        state: tuple[jax.Array, jax.Array, jax.Array],
    ) -> tuple[jax.Array, jax.Array, jax.Array]:
        negatives, positives, number = state
        strip = part.strip(number)
        negative, positive = parting.signs(strip, inputs[0])
        words = _packed(negative, positive)
        [scanned] = language.tile_scan(
            _operators()[0], [words], parting.geometry.axis, reverse=False
        )
        less, more = _unpacked(scanned - words)
        zero = (second - negatives - positives) + strip.element() - less - more
        place = jnp.where(positive, (third + positives) + more, zero)
        place = jnp.where(negative, negatives + less, place)
        inside = place < np.int32(parting.size)
        for ref, output, view in zip(inputs[1:], outputs, parting.views[1:], strict=False):
            strip.scatter(output, parting.size, place, *strip.load_parts(ref, view), where=inside)
        [end] = strip.last([scanned])
        less, more = _unpacked(end)
        return negatives + less, positives + more, number + np.int32(1)

    start = prefix[0], prefix[1], jnp.int32(0)
    lax.while_loop(lambda state: state[-1] < part.count, step, start)


def part(
    signs: jax.Array,
    x: jax.Array,
    second: jax.Array,
    third: jax.Array,
    *,
    full: tuple[int, ...],
    axis: int,
    interpret: bool = False,
    tile: tuning.Tuning | None = None,
) -> jax.Array:
    """The elements along ``axis``, behind which there are no others, in three parts.

    ``second`` and ``third`` say where these begin, of size 1 along the axis.
    """
    signs, n = launch.whole_bytes(signs), full[axis]
    tuned = tuning.parts_by_signs(math.prod(full[:axis]), n, tile)
    read = launch.readable([x])
    cut = launch.Cut([signs, *read], full, axis, tuned, widths={4})
    parting = Parting(
        geometry=cut.geometry,
        operator=_operators()[1],
        dtypes=(COUNT, COUNT),
        results=(COUNT, COUNT),
        identity=None,
        used=(True, True),
        linear=False,
        views=cut.views,
        flag_view=None,
        source="signs",
        emit="parts",
        size=n,
        moved=tuple(np.dtype(array.dtype) for array in read),
    )
    body = functools.partial(kernel, parting, tuned)
    beside = [second.reshape(-1), third.reshape(-1)]
    state = None if cut.geometry.tiles == 1 else lookback.tile_state(parting)
    outputs = cut.call(parting, beside, body, state, "jscan_partition", interpret)
    [moved] = along(launch.joined(outputs, [x.dtype]), full, axis, [n])
    return moved
