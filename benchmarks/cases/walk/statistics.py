"""Functions of the elements of each segment by chance, and the same on `jax.ops`."""

from __future__ import annotations

import dataclasses
import math
import random
from collections.abc import Callable

import jax
import jax.numpy as jnp

from benchmarks.cases.case import call
from benchmarks.cases.walk import operations, values
from benchmarks.cases.walk.calls import PERIODS, Drawn, Operand, dtype_of, leaf
from benchmarks.cases.walk.operators import FLOATS
from benchmarks.cases.walk.reductions import TRAILING
from benchmarks.cases.walk.shapes import Shape

Peer = Callable[[int, jax.Array, jax.Array], jax.Array]


def _spread(per_segment: jax.Array, ids: jax.Array) -> jax.Array:
    return per_segment.at[ids].get(mode="fill", fill_value=0)


def _mean(count: int, x: jax.Array, ids: jax.Array) -> jax.Array:
    lengths = jax.ops.segment_sum(jnp.ones_like(ids, x.dtype), ids, count)
    total = jax.ops.segment_sum(x, ids, count)
    return total / jnp.maximum(lengths, 1).reshape(count, *[1] * (x.ndim - 1))


def _terms(count: int, x: jax.Array, ids: jax.Array) -> tuple[jax.Array, jax.Array]:
    largest = jax.lax.stop_gradient(jax.ops.segment_max(x, ids, count))
    largest = jnp.where(jnp.isfinite(largest), largest, 0)
    return jnp.exp(x - _spread(largest, ids)), largest


def _logsumexp(count: int, x: jax.Array, ids: jax.Array) -> jax.Array:
    terms, largest = _terms(count, x, ids)
    return jnp.log(jax.ops.segment_sum(terms, ids, count)) + largest


def _softmax(count: int, x: jax.Array, ids: jax.Array) -> jax.Array:
    terms, _ = _terms(count, x, ids)
    return terms / _spread(jax.ops.segment_sum(terms, ids, count), ids)


@dataclasses.dataclass(frozen=True)
class Statistic:
    """A function of segments: the values that it is drawn with, and the same by others.

    Attributes:
      kind: of values.
      peer: the same on `jax.ops`.
      slopes: what the second pass of a gradient reads.
      each: whether there is a result for each element.
    """

    kind: str
    peer: Peer
    slopes: tuple[int | str, ...] = ()
    each: bool = False


STATISTICS = {
    "segment_mean": Statistic("numbers", _mean),
    "segment_logsumexp": Statistic("exponents", _logsumexp, (0, "results")),
    "segment_softmax": Statistic("exponents", _softmax, ("results",), each=True),
}


def by_others(name: str, count: int, x: jax.Array, ids: jax.Array) -> jax.Array:
    """A function of segments on `jax.ops`, of halves in float32."""
    wide = x.astype(jnp.float32) if x.dtype.itemsize < 4 else x
    return STATISTICS[name].peer(count, wide, ids).astype(x.dtype)


def draw_statistic(rng: random.Random, size: int) -> Drawn:
    """`jscan.segment_mean` and the like, by sorted ids or others."""
    name = rng.choice(list(STATISTICS))
    statistic = STATISTICS[name]
    dtype = dtype_of(rng, FLOATS)
    trailing = rng.choice([(), (), (rng.choice(TRAILING),)])
    n = max(size // math.prod(trailing), 1)
    shape = Shape("trailing dimensions" if trailing else "one row", (n, *trailing), 0)
    period = rng.choice([p for p in PERIODS if p <= n])
    is_sorted = rng.random() < 0.75
    count = values.count_of(period, n)
    make = call(values.ids, period) if is_sorted else call(values.unsorted_ids, count)
    how = {"indices_are_sorted": True} if is_sorted else {}
    run = call(operations.by_ids, name, count, **how)
    order = "sorted" if is_sorted else "unsorted"
    x = leaf(shape.extents, dtype, statistic.kind)
    return Drawn(
        *(name, (f"into {count}", f"{order} ids"), shape, dtype, ""),
        *(order, run),
        leaves=(x,),
        others=(Operand((n,), "int32", make, True),),
        results=(x if statistic.each else Operand((count, *trailing), dtype),),
        slopes=statistic.slopes,
        peers={"jax.ops": call(by_others, name, count)},
        reference=call(run, method="xla"),
    )
