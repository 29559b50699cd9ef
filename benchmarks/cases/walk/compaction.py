"""Compaction by chance: what is marked, and runs of equal elements."""

from __future__ import annotations

import math
import random

from benchmarks.cases.case import call
from benchmarks.cases.walk import compacted, shapes, values
from benchmarks.cases.walk.calls import PERIODS, Drawn, Operand, dtype_of, leaf
from benchmarks.cases.walk.operators import NUMBERS
from benchmarks.cases.walk.shapes import Shape
from benchmarks.cases.walk.vectors import mask_of

WIDE = ("int32", "uint32", "int64", "float32", "float64")
"""Dtypes in which the numbers of runs ascend."""


def draw_nonzero(rng: random.Random, size: int) -> Drawn:
    """`jscan.nonzero`."""
    shape = shapes.drawn(rng, size, ("one row", "one row", "short rows", "primes"))
    mask, density = mask_of(rng, shape.extents)
    kept = max(round(density * math.prod(shape.extents)), 1)
    peer = call(compacted.jnp_nonzero, kept)
    return Drawn(
        *("nonzero", (f"{density:.2%} of {mask.dtype}",), shape, mask.dtype, ""),
        *(f"{density:.2%} marked", call(compacted.nonzero, kept)),
        leaves=(mask,),
        others=(),
        results=(Operand((kept,), "int32"),) * len(shape.extents),
        peers={"jnp.nonzero": peer},
        reference=peer,
    )


def draw_histogram(rng: random.Random, size: int) -> Drawn:
    """`jscan.histogram`."""
    shape = shapes.drawn(rng, size, ("one row",))
    length = rng.choice([2, 10, 256, 1000, 2**16])
    dtype = "uint8" if length <= 256 else rng.choice(["int32", "uint16"])
    peer = call(compacted.jnp_histogram, length)
    return Drawn(
        *("histogram", (f"{length} numbers",), shape, dtype, "", f"{length} numbers"),
        call(compacted.histogram, length),
        leaves=(Operand(shape.extents, dtype, call(values.unsorted_ids, length)),),
        others=(),
        results=(Operand((length,), "int32"),),
        peers={"jnp.bincount": peer},
        reference=peer,
    )


def draw_partition(rng: random.Random, size: int) -> Drawn:
    """`jscan.partition`, by one row of signs or one for each row."""
    dtype, shape = dtype_of(rng, NUMBERS), shapes.drawn(rng, size)
    own = rng.random() < 0.5
    extents = shape.extents if own else (shape.length,)
    along = shape.axis if own else 0
    signs = Operand(extents, rng.choice(["int8", "int8", "int32"]), values.signs)
    x = leaf(shape.extents, dtype, "numbers")
    lengths = Operand((*extents[:along], 3, *extents[along + 1 :]), "int32")
    peer = call(compacted.jnp_partition, shape.axis)
    words = f"by {signs.dtype}" + (" of each row" if own else "")
    return Drawn(
        *("partition", (words,), shape, dtype, "", "three parts"),
        call(compacted.partition, shape.axis),
        leaves=(x,),
        others=(signs,),
        results=(x, lengths),
        peers={"jnp.argsort": peer},
        reference=peer,
    )


def _runs(rng: random.Random, size: int, dtypes: tuple[str, ...]) -> tuple[Shape, Operand, int]:
    """A row of runs, the array, and how many runs there are at most."""
    dtype, shape = dtype_of(rng, dtypes), shapes.drawn(rng, size, ("one row",))
    period = rng.choice([p for p in PERIODS if p <= shape.length])
    x = Operand(shape.extents, dtype, call(values.ids, period))
    return shape, x, values.count_of(period, shape.length)


def draw_encode(rng: random.Random, size: int) -> Drawn:
    """`jscan.run_length_encode`."""
    shape, x, count = _runs(rng, size, NUMBERS)
    peer = call(compacted.jnp_encoded, count)
    return Drawn(
        *("run_length_encode", (f"{count} runs",), shape, x.dtype, "", "runs"),
        call(compacted.encoded, count),
        leaves=(x,),
        others=(),
        results=(Operand((count,), x.dtype), Operand((count,), "int32"), Operand((), "int32")),
        peers={"jnp.nonzero": peer},
        reference=peer,
    )


def draw_unique(rng: random.Random, size: int) -> Drawn:
    """`jscan.unique_sorted`, beside one that need not be sorted."""
    shape, x, count = _runs(rng, size, WIDE)
    peers = {} if x.is_floating else {"jnp.unique": call(compacted.jnp_unique, count)}
    return Drawn(
        *("unique_sorted", (f"{count} at most",), shape, x.dtype, "", "runs"),
        call(compacted.unique, count),
        leaves=(x,),
        others=(),
        results=(Operand((count,), x.dtype),),
        peers=peers,
        reference=call(compacted.jnp_first_of_runs, count),
    )


def draw_decode(rng: random.Random, size: int) -> Drawn:
    """`jscan.run_length_decode`."""
    dtype, shape = dtype_of(rng, NUMBERS), shapes.drawn(rng, size, ("one row",))
    n = shape.length
    period = rng.choice([p for p in PERIODS if p <= n])
    count = values.count_of(period, n)
    lengths = Operand((count,), "int32", call(values.lengths, period, n), True)
    peer = call(compacted.jnp_decoded, n)
    return Drawn(
        *("run_length_decode", (f"{count} runs",), shape, dtype, "", "runs"),
        call(compacted.decoded, n),
        leaves=(leaf((count,), dtype, "numbers"),),
        others=(lengths,),
        results=(Operand((n,), dtype),),
        peers={"jnp.repeat": peer},
        reference=peer,
    )
