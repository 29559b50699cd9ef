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


def _norm(count: int, x: jax.Array, ids: jax.Array) -> jax.Array:
    return jnp.sqrt(jax.ops.segment_sum(x * x, ids, count))


def _argmax(count: int, x: jax.Array, ids: jax.Array) -> jax.Array:
    largest = _spread(jax.ops.segment_max(x, ids, count), ids)
    places = jax.lax.broadcasted_iota(jnp.int32, x.shape, 0)
    first = jax.ops.segment_min(jnp.where(x == largest, places, len(x)), ids, count)
    return jnp.where(first < len(x), first, -1)


def _argmin(count: int, x: jax.Array, ids: jax.Array) -> jax.Array:
    return _argmax(count, -x, ids)


def _sort(count: int, x: jax.Array, ids: jax.Array) -> jax.Array:
    """Of ids that are sorted, and none of which is dropped."""
    del count
    beside = jnp.broadcast_to(ids.reshape(-1, *[1] * (x.ndim - 1)), x.shape)
    return jax.lax.sort((beside, x), dimension=0, num_keys=2)[1]


@dataclasses.dataclass(frozen=True)
class Statistic:
    """A function of segments: the values that it is drawn with, and the same by others.

    Attributes:
      kind: of values.
      peer: the same on `jax.ops`.
      slopes: what the second pass of a gradient reads.
      each: whether there is a result for each element.
      dtype: of the result, where it is not that of the data.
      is_sort: whether others need sorted ids, and no method can be named.
    """

    kind: str
    peer: Peer
    slopes: tuple[int | str, ...] = ()
    each: bool = False
    dtype: str = ""
    is_sort: bool = False


STATISTICS = {
    "segment_mean": Statistic("numbers", _mean),
    "segment_norm": Statistic("signs", _norm, (0, "results")),
    "segment_argmax": Statistic("numbers", _argmax, dtype="int32"),
    "segment_argmin": Statistic("numbers", _argmin, dtype="int32"),
    "segment_sort": Statistic("numbers", _sort, each=True, is_sort=True),
    "segment_logsumexp": Statistic("exponents", _logsumexp, (0, "results")),
    "segment_softmax": Statistic("exponents", _softmax, ("results",), each=True),
}


def by_others(name: str, count: int, x: jax.Array, ids: jax.Array) -> jax.Array:
    """A function of segments on `jax.ops`, of halves in float32."""
    wide = x.astype(jnp.float32) if x.dtype.itemsize < 4 else x
    statistic = STATISTICS[name]
    return statistic.peer(count, wide, ids).astype(statistic.dtype or x.dtype)


def draw_statistic(rng: random.Random, size: int) -> Drawn:
    """`jscan.segment_mean` and the like, by sorted ids or others."""
    name = rng.choice([*STATISTICS, "segment_top_k"])
    if name == "segment_top_k":
        return _draw_top_k(rng, size)
    statistic = STATISTICS[name]
    dtype = dtype_of(rng, FLOATS)
    trailing = rng.choice([(), (), (rng.choice(TRAILING),)])
    n = max(size // math.prod(trailing), 1)
    shape = Shape("trailing dimensions" if trailing else "one row", (n, *trailing), 0)
    period = rng.choice([p for p in PERIODS if p <= n])
    is_sorted = rng.random() < 0.75 or statistic.is_sort
    count = values.count_of(period, n)
    make = call(values.ids, period) if is_sorted else call(values.unsorted_ids, count)
    how = {"indices_are_sorted": True} if is_sorted else {}
    run = call(operations.by_ids, name, count, **how)
    order = "sorted" if is_sorted else "unsorted"
    x = leaf(shape.extents, dtype, statistic.kind)
    peer = call(by_others, name, count)
    result = Operand((count, *trailing), statistic.dtype or dtype)
    return Drawn(
        *(name, (f"into {count}", f"{order} ids"), shape, dtype, ""),
        *(order, run),
        leaves=(x,),
        others=(Operand((n,), "int32", make, True),),
        results=(x if statistic.each else result,),
        slopes=statistic.slopes,
        peers={"lax.sort" if statistic.is_sort else "jax.ops": peer},
        reference=peer if statistic.is_sort else call(run, method="xla"),
    )


def _draw_top_k(rng: random.Random, size: int) -> Drawn:
    """`jscan.segment_top_k`, for which there is nothing to compare with."""
    name, dtype, k = "segment_top_k", dtype_of(rng, FLOATS), rng.choice([1, 2, 10])
    count = values.count_of(rng.choice([p for p in PERIODS if k <= p <= size]), size)
    ids = Operand((size,), "int32", call(values.unsorted_ids, count), True)
    return Drawn(
        *(name, (f"{k} of {count}",), Shape("one row", (size,), 0), dtype, "", "unsorted"),
        call(operations.by_ids, name, count, k=k),
        leaves=(leaf((size,), dtype, "numbers"),),
        others=(ids,),
        results=(Operand((count, k), dtype), Operand((count, k), "int32")),
    )
