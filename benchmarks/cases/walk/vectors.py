"""Vector operations by chance: pack, split, enumerate, distribute, and descriptions of segments."""

from __future__ import annotations

import math
import random

from benchmarks.cases.case import Operation, call
from benchmarks.cases.walk import operations, shapes, values
from benchmarks.cases.walk.calls import (
    PERIODS,
    Drawn,
    Operand,
    direction_of,
    divided,
    dtype_of,
    leaf,
    way_of,
)
from benchmarks.cases.walk.operators import NUMBERS

SECTOR = 32
"""The bytes that a GPU reads at least, wherever it reads."""


def mask_of(rng: random.Random, extents: tuple[int, ...]) -> tuple[Operand, float]:
    """A mask, and the share of it that is true."""
    density = rng.choice([0.0001, 0.01, 0.1, 0.5, 0.5, 0.9, 1.0])
    dtype = rng.choices(["bool", "uint8", "int32"], [8, 1, 1])[0]
    return Operand(extents, dtype, call(values.marks, round(density * 10**6))), density


def draw_pack(rng: random.Random, size: int) -> Drawn:
    """`jscan.pack`, by a mask of rows or of elements."""
    dtype = "bool" if rng.random() < 0.2 else dtype_of(rng, NUMBERS)
    shape = shapes.drawn(rng, size, ("one row", "one row", "short rows", "primes", "few lanes"))
    whole = rng.random() < 0.5
    masked = shape.extents if whole else shape.extents[:1]
    mask, density = mask_of(rng, masked)
    kept = max(round(density * math.prod(masked)), 1)
    x = leaf(shape.extents, dtype, "numbers")
    out = Operand((kept, *shape.extents[len(masked) :]), dtype)
    sectors = kept * -(-out.bytes // kept // SECTOR)
    read = Operand((min(sectors * SECTOR, x.bytes),), "uint8")
    return Drawn(
        *("pack", (f"{density:.2%} of {mask.dtype}",), shape, dtype, "", f"{density:.2%} marked"),
        call(operations.packed, kept),
        leaves=(x,),
        others=(mask,),
        results=(out,),
        peers={
            "jnp.compress" if len(masked) == 1 else "jnp.nonzero": call(operations.jnp_packed, kept)
        },
        reference=call(operations.jnp_packed, kept),
        moved=(mask, read, out),
    )


def draw_split(rng: random.Random, size: int) -> Drawn:
    """`jscan.split`, by one mask or one for each row."""
    dtype, shape = dtype_of(rng, NUMBERS), shapes.drawn(rng, size)
    own = rng.random() < 0.5
    mask, density = mask_of(rng, shape.extents if own else (shape.length,))
    x = leaf(shape.extents, dtype, "numbers")
    peer = call(operations.jnp_split, shape.axis)
    words = f"{density:.2%} of {mask.dtype}" + (" of each row" if own else "")
    return Drawn(
        *("split", (words,), shape, dtype, "", f"{density:.2%} marked"),
        call(operations.split, shape.axis),
        leaves=(x,),
        others=(mask,),
        results=(x,),
        peers={"jnp.argsort": peer},
        reference=peer,
    )


def draw_split_segments(rng: random.Random, size: int) -> Drawn:
    """`jscan.split_and_segment`, which nothing else offers."""
    dtype, shape = dtype_of(rng, NUMBERS), shapes.drawn(rng, size)
    own = rng.random() < 0.5
    extents = shape.extents if own else (shape.length,)
    mask, density = mask_of(rng, extents)
    period = rng.choice([p for p in PERIODS if p <= shape.length])
    flags = Operand(extents, "bool", call(values.marks, round(10**6 / period)))
    x = leaf(shape.extents, dtype, "numbers")
    moved = (*extents[: shape.axis], *extents[shape.axis + 1 :], shape.length) if own else extents
    return Drawn(
        *("split_and_segment", (f"{density:.2%}, segments of {period}",), shape, dtype, ""),
        *(f"{density:.2%} marked", call(operations.split_segments, shape.axis)),
        leaves=(x,),
        others=(mask, flags),
        results=(x, Operand(moved, "bool")),
    )


def draw_enumerate(rng: random.Random, size: int) -> Drawn:
    """`jscan.enumerate`."""
    shape = shapes.drawn(rng, size)
    mask, density = mask_of(rng, shape.extents)
    way = way_of(rng, shape, exclusive=0.0)
    peers = {}
    if not way.division.form:
        peers["lax.cumsum"] = call(operations.jnp_enumerated, shape.axis, way.reverse)
    return Drawn(
        *("enumerate", (f"{density:.2%}", *way.words), shape, mask.dtype, "", way.direction),
        call(operations.enumerated, way.division.form, axis=shape.axis, **way.how),
        leaves=(mask,),
        others=way.division.operands,
        results=(Operand(shape.extents, "int32"),),
        peers=peers,
        reference=next(iter(peers.values()), None),
    )


def draw_distribute(rng: random.Random, size: int) -> Drawn:
    """`jscan.distribute`."""
    dtype, shape = dtype_of(rng, ("bool", *NUMBERS)), shapes.drawn(rng, size)
    division = divided(rng, shape)
    reverse = rng.random() < 0.4
    x = leaf(shape.extents, dtype, "numbers")
    how = {"axis": shape.axis} | ({"reverse": True} if reverse else {})
    peers: dict[str, Operation] = {}
    if len(shape.extents) == 1 and not reverse:
        peers["gather"] = call(operations.jnp_distributed, division.form)
    return Drawn(
        *("distribute", (*["reverse"] * reverse, division.word), shape, dtype, ""),
        *(direction_of(reverse, False, True), call(operations.distributed, division.form, **how)),
        leaves=(x,),
        others=division.operands,
        results=(x,),
        peers=peers,
        reference=peers.get("gather"),
    )


def draw_convert(rng: random.Random, size: int) -> Drawn:
    """`jscan.Segments` of one description turned into another."""
    shape = shapes.drawn(rng, size, ("one row",))
    division = divided(rng, shape)
    every = {"flags": "bool", "ids": "int32", "lengths": "int32", "offsets": "int32"}
    into = rng.choice([form for form in every if form != division.form])
    extent = {"lengths": division.count, "offsets": division.count + 1}.get(into, shape.length)
    run = call(operations.converted, division.form, shape.length, into, division.count)
    return Drawn(
        *("Segments", (division.word, f"to {into}"), shape, every[into], "", f"to {into}", run),
        leaves=(),
        others=division.operands,
        results=(Operand((extent,), every[into]),),
    )
