"""Reductions, `pack` and `split` in plain JAX on a CPU, beside other plain JAX."""

from __future__ import annotations

import functools
import math
from collections.abc import Iterator
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

import jscan
from benchmarks.cases import operations
from benchmarks.cases.case import Operation
from benchmarks.cases.cpu_inputs import (
    Array,
    Comparison,
    compound,
    draw,
    ids_and_numbers,
    numbers_at_random,
    signs,
    uniform,
)
from jscan import operators


def cases() -> Iterator[Comparison]:
    """All comparisons of reductions, `pack` and `split`."""
    yield from (*_reductions(), *_segments(), *_vectors())


def _reductions() -> Iterator[Comparison]:
    n, shape = (10**6,), (4096, 1024)

    def of(operator: Any, axis: int = 0) -> Operation:
        return lambda x: jscan.reduce(operator, x, axis)

    yield Comparison("reduce add 10^6", signs(n), of(operators.add), {"jnp.sum": jnp.sum})
    yield Comparison(
        f"reduce max {shape} axis 1",
        uniform(shape),
        of(operators.max, 1),
        {"jnp.max": lambda x: jnp.max(x, 1)},
    )
    yield Comparison(
        "reduce bitwise_xor int32 10^6",
        signs(n, dtype=np.int32),
        of(operators.bitwise_xor),
        {"lax.reduce_xor": lambda x: lax.reduce_xor(x, [0])},
    )
    logsumexp = {"jax.nn.logsumexp": jax.nn.logsumexp}
    yield Comparison("reduce logaddexp 10^6", uniform(n), of(operators.logaddexp), logsumexp)
    yield Comparison(
        f"reduce logaddexp {shape} axis 1",
        uniform(shape),
        of(operators.logaddexp, 1),
        {"jax.nn.logsumexp": lambda x: jax.nn.logsumexp(x, 1)},
    )
    yield Comparison(
        "reduce affine 10^6",
        uniform(n, n),
        lambda a, b: jscan.reduce(operators.affine, (a, b)),
        {
            "lax.scan, unrolled": lambda a, b: lax.scan(
                lambda c, y: (operations.join_affine(c, y), None),
                (jnp.float32(1), jnp.float32(0)),
                (a, b),
                unroll=8,
            )[0],
            "lax.associative_scan": lambda a, b: jax.tree.map(
                lambda x: x[-1], lax.associative_scan(operations.join_affine, (a, b))
            ),
        },
    )
    yield Comparison(
        f"reduce lambda {shape}",
        uniform(shape, low=-1e-3, high=1e-3),
        of(compound),
        {
            "lax.reduce": lambda x: lax.reduce(x, np.float32(0), compound, [0]),
            "lax.scan": lambda x: lax.scan(
                lambda c, y: (compound(c, y), None), jnp.zeros_like(x[0]), x
            )[0],
        },
    )


def _segments() -> Iterator[Comparison]:
    count = 10**4
    for name, trailing, is_sorted in (
        ("segment_sum", (), True),
        ("segment_sum", (), False),
        ("segment_max", (), True),
        ("segment_max", (), False),
        ("segment_sum", (16,), True),
    ):
        n = 10**6 // math.prod(trailing)
        how: dict[str, Any] = {"num_segments": count, "indices_are_sorted": is_sorted}
        yield Comparison(
            f"{name} {(n, *trailing)}, {'sorted' if is_sorted else 'any order'}",
            ids_and_numbers(n, count, *trailing, is_sorted=is_sorted),
            functools.partial(getattr(jscan, name), **how),
            {f"jax.ops.{name}": functools.partial(getattr(jax.ops, name), **how)},
        )
    yield Comparison(
        "reduce lambda by sorted ids 10^6",
        ids_and_numbers(10**6, count),
        lambda x, ids: jscan.reduce(
            compound,
            1e-3 * x,
            identity=np.float32(0),
            segments=jscan.Segments.from_ids(ids),
            num_segments=count,
        ),
        {"lax.associative_scan": _last_of_runs},
    )


def _last_of_runs(x: jax.Array, ids: jax.Array) -> jax.Array:
    def fn(a: Any, b: Any) -> Any:
        return a[0] | b[0], jnp.where(b[0], b[1], compound(a[1], b[1]))

    heads = operations.changes(ids)
    _, scanned = lax.associative_scan(fn, (heads, 1e-3 * x))
    # Ids that nobody has are not among those that are drawn, but for a few, which are 0.
    count = 10**4
    last = jnp.searchsorted(ids, jnp.arange(count), side="right") - 1
    there = ids[last] == jnp.arange(count)
    return jnp.where(there, scanned[last], 0)


def _vectors() -> Iterator[Comparison]:
    n = 10**6

    def masked() -> tuple[Array, ...]:
        rng = numbers_at_random()
        return draw(rng, (n,), np.float32), rng.random(n) < 0.5

    def nonzero(x: jax.Array, mask: jax.Array) -> jax.Array:
        return jnp.where(
            jnp.arange(n) < jnp.sum(mask), x[jnp.nonzero(mask, size=n, fill_value=0)[0]], 0
        )

    def scattered(x: jax.Array, mask: jax.Array) -> jax.Array:
        place = jnp.where(mask, jnp.cumsum(mask) - 1, n)
        return jnp.zeros_like(x).at[place].set(x, mode="drop", unique_indices=True)

    def compressed(x: jax.Array, mask: jax.Array) -> jax.Array:
        return jnp.compress(mask, x, size=n, fill_value=0)

    yield Comparison(
        "pack 10^6",
        masked,
        functools.partial(jscan.pack, size=n),
        {"x[jnp.nonzero]": nonzero, "cumsum and scatter": scattered, "jnp.compress": compressed},
    )

    def sorted_by(x: jax.Array, mask: jax.Array) -> jax.Array:
        return x[jnp.argsort(mask, stable=True)]

    def placed(x: jax.Array, mask: jax.Array) -> jax.Array:
        true = jnp.cumsum(mask)
        element = jnp.arange(n)
        place = jnp.where(mask, n - true[-1] + true - 1, element - true)
        return jnp.zeros_like(x).at[place].set(x, unique_indices=True)

    yield Comparison(
        "split 10^6",
        masked,
        jscan.split,
        {"x[jnp.argsort]": sorted_by, "cumsum and scatter": placed},
    )
