"""Products of sparse matrices by chance, and the same on `jax.ops`."""

from __future__ import annotations

import random
from typing import Any

import jax
import jax.numpy as jnp

import jscan
from benchmarks.cases.case import call
from benchmarks.cases.walk import operations, shapes, values
from benchmarks.cases.walk.calls import PERIODS, Drawn, Operand, dtype_of, leaf
from benchmarks.cases.walk.operators import NUMBERS, REALS

SUMS = {"sum-product": "segment_sum", "max-plus": "segment_max", "min-plus": "segment_min"}
"""The pairs of operators that are drawn, and the function of `jax.ops` that adds up for each."""


def draw_product(rng: random.Random, size: int) -> Drawn:
    """`jscan.csr_matvec`, or `jscan.csr_matmat` with few columns, perhaps transposed."""
    shape = shapes.drawn(rng, size, ("one row",))
    pair = rng.choices([*SUMS], [6, 1, 1])[0]
    dtype = dtype_of(rng, NUMBERS if pair == "sum-product" else REALS)
    width = rng.choice([1, 1, 2, 4, 8])
    entries = max(shape.length // width, 1)
    period = rng.choice([p for p in PERIODS if p <= entries])
    rows = values.count_of(period, entries)
    columns = max(round(rows * rng.choice([0.1, 1, 3])), 1)
    transpose = rng.random() < 0.2
    given, found = (rows, columns) if transpose else (columns, rows)
    function, beside = ("csr_matvec", ()) if width == 1 else ("csr_matmat", (width,))
    result = leaf((found, *beside), dtype, "zeros")
    direction = "transposed" if transpose else "forwards"
    words = (f"{rows} rows", f"{columns} columns", *([direction] if transpose else []))
    how = {"operators": pair, "transpose": transpose, "length": columns if transpose else None}
    peer = call(ops_product, SUMS[pair], pair == "sum-product", transpose, found)
    return Drawn(
        *(function, words, shapes.Shape(shape.kind, (entries,), 0), dtype, pair, direction),
        call(product, function, **how),
        leaves=(leaf((entries,), dtype, "signs"),),
        others=(
            Operand((entries,), "int32", call(values.unsorted_ids, columns)),
            Operand((rows + 1,), "int32", call(values.bounds, period, entries)),
            leaf((given, *beside), dtype, "signs"),
        ),
        results=(result,),
        peers={f"jax.ops.{SUMS[pair]}": peer},
        reference=peer,
    )


def product(
    function: str,
    entries: jax.Array,
    indices: jax.Array,
    offsets: jax.Array,
    x: jax.Array,
    **how: Any,
) -> jax.Array:
    """`jscan.csr_matvec` and `jscan.csr_matmat`."""
    result: jax.Array = getattr(jscan, function)(entries, indices, offsets, x, **how)
    return result


def ops_product(
    add: str,
    multiplies: bool,
    transpose: bool,
    count: int,
    entries: jax.Array,
    indices: jax.Array,
    offsets: jax.Array,
    x: jax.Array,
) -> jax.Array:
    """A gather, products in memory, and their totals by `jax.ops`."""
    rows = operations.numbers_of("offsets", len(entries), offsets)
    read, written = (rows, indices) if transpose else (indices, rows)
    factors = x.at[read].get(mode="clip")
    terms = operations.widened(entries).reshape(-1, *[1] * (x.ndim - 1))
    products = terms * factors if multiplies else terms + factors
    totals = getattr(jax.ops, add)(products, written, count, indices_are_sorted=not transpose)
    return jnp.asarray(totals, x.dtype)
