"""Scans, recurrences and their derivatives in plain JAX on a CPU, beside other plain JAX.

Where half precision is accumulated in float32, what stands beside it does so, too.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

import jscan
from benchmarks.cases import operations
from benchmarks.cases.case import Operation
from benchmarks.cases.cpu_inputs import (
    Comparison,
    Function,
    Shape,
    compound,
    flagged,
    signs,
    uniform,
)


def cases() -> Iterator[Comparison]:
    """All comparisons of scans."""
    yield from (*_sums(), *_forms(), *_operators(), *_recurrences(), *_gradients())


def _along(run: Function | Operation, axis: int) -> Operation:
    """A function of arrays whose first axis it works along, with another one in its place."""

    def moved(*arrays: jax.Array) -> Any:
        results = run(*(jnp.moveaxis(x, axis, 0) for x in arrays))
        return jax.tree.map(lambda x: jnp.moveaxis(x, 0, axis), results)

    return moved if axis else run


def _loop(step: Callable[..., Any], *xs: jax.Array, unroll: int = 1, **how: Any) -> Any:
    """The results of ``step(carry, *elements)``, which is the carry too, by lax.scan."""

    def both(carry: jax.Array, elements: tuple[jax.Array, ...]) -> tuple[jax.Array, jax.Array]:
        found = step(carry, *elements)
        return found, found

    return lax.scan(both, jnp.zeros_like(xs[0][0]), xs, unroll=unroll, **how)[1]


def _by_loop(step: Callable[..., Any], axis: int, flat: bool) -> dict[str, Operation]:
    """lax.scan; of single elements also unrolled."""
    found = {"lax.scan": _along(functools.partial(_loop, step), axis)}
    if flat:
        found["lax.scan, unrolled"] = functools.partial(_loop, step, unroll=8)
    return found


def _tree(fn: Function, axis: int = 0, reverse: bool = False) -> dict[str, Operation]:
    return {"lax.associative_scan": lambda x: lax.associative_scan(fn, x, reverse, axis)}


def _size(shape: Shape) -> str:
    return str(shape) if len(shape) > 1 else f"10^{round(math.log10(shape[0]))}"


def _sum(shape: Shape, axis: int = 0, dtype: Any = np.float32) -> Comparison:
    is_half = np.dtype(dtype) == jnp.bfloat16

    def widely(run: Operation) -> Operation:
        return lambda x: run(x.astype(jnp.float32)).astype(x.dtype) if is_half else run(x)

    peers = {
        "lax.cumsum": lambda x: lax.cumsum(x, axis),
        **_tree(lax.add, axis),
        **_by_loop(lax.add, axis, len(shape) == 1),
    }
    return Comparison(
        f"cumsum {np.dtype(dtype).name} {_size(shape)}" + (f" axis {axis}" if axis else ""),
        signs(shape, dtype=dtype),
        lambda x: jscan.cumsum(x, axis),
        {name: widely(run) for name, run in peers.items()},
    )


def _sums() -> Iterator[Comparison]:
    for exponent in range(3, 8):
        yield _sum((10**exponent,))
    yield _sum((4096, 1024))
    yield _sum((4096, 1024), 1)
    yield _sum((64, 50257), 1)
    yield _sum((8, 128), 1)
    for dtype in (jnp.bfloat16, np.int32, np.int8):
        yield _sum((10**6,), dtype=dtype)
    yield _sum((4096, 1024), 1, jnp.bfloat16)
    sines = {
        "lax.cumsum": lambda x: lax.cumsum(jnp.sin(x)),
        "lax.associative_scan": lambda x: lax.associative_scan(lax.add, jnp.sin(x)),
        "lax.scan, unrolled": lambda x: _loop(lax.add, jnp.sin(x), unroll=8),
    }
    yield Comparison(
        "cumsum of sines 10^6", signs((10**6,)), lambda x: jscan.cumsum(jnp.sin(x)), sines
    )


def _exclusive(x: jax.Array, sums: Operation) -> jax.Array:
    return jnp.pad(sums(x)[:-1], (1, 0))


def _segmented_loop(x: jax.Array, heads: jax.Array, **how: Any) -> Any:
    return _loop(lambda c, y, head: jnp.where(head, y, c + y), x, heads, **how)


def _ends(heads: jax.Array) -> jax.Array:
    """Flags of the last elements of segments."""
    return jnp.pad(heads[1:], (0, 1), constant_values=True)


def _reversed_tree(x: jax.Array, heads: jax.Array) -> jax.Array:
    return operations.lax_segmented_sum(x[::-1], _ends(heads)[::-1])[::-1]


def _forms() -> Iterator[Comparison]:
    n, shape = 10**6, (64, 50257)
    walk = signs((n,))
    yield Comparison(
        "reversed cumsum 10^6",
        walk,
        lambda x: jscan.cumsum(x, reverse=True),
        {
            "lax.cumsum": lambda x: lax.cumsum(x, reverse=True),
            **_tree(lax.add, reverse=True),
            "lax.scan, unrolled": lambda x: _loop(lax.add, x, unroll=8, reverse=True),
        },
    )
    yield Comparison(
        "exclusive cumsum 10^6",
        walk,
        lambda x: jscan.cumsum(x, exclusive=True),
        {
            "lax.cumsum": lambda x: _exclusive(x, lax.cumsum),
            "lax.scan, unrolled": lambda x: lax.scan(
                lambda c, y: (c + y, c), jnp.float32(0), x, unroll=8
            )[1],
        },
    )
    yield Comparison(
        "segmented cumsum 10^6",
        flagged((n,)),
        operations.segmented_sum,
        {
            "lax.associative_scan": operations.lax_segmented_sum,
            "lax.scan": _segmented_loop,
            "lax.scan, unrolled": functools.partial(_segmented_loop, unroll=8),
        },
    )
    yield Comparison(
        "segmented cumsum (64, 50257) axis 1",
        flagged(shape),
        lambda x, heads: jscan.cumsum(x, 1, segments=heads),
        {
            "lax.associative_scan": jax.vmap(operations.lax_segmented_sum),
            "lax.scan": _along(_segmented_loop, 1),
        },
    )
    yield Comparison(
        "segmented exclusive reversed cumsum 10^6",
        flagged((n,)),
        lambda x, heads: jscan.cumsum(x, reverse=True, exclusive=True, segments=heads),
        {
            "lax.associative_scan": lambda x, heads: jnp.where(
                _ends(heads), 0, jnp.roll(_reversed_tree(x, heads), -1)
            ),
            "lax.scan, unrolled": lambda x, heads: lax.scan(
                lambda c, y: (jnp.where(y[1], 0, c) + y[0], jnp.where(y[1], 0, c)),
                jnp.float32(0),
                (x, _ends(heads)),
                reverse=True,
                unroll=8,
            )[1],
        },
    )


def _operators() -> Iterator[Comparison]:
    n, rows = (10**6,), (4096, 1024)
    yield Comparison(
        "cummax 10^6",
        uniform(n),
        jscan.cummax,
        {"lax.cummax": lax.cummax, **_tree(lax.max), **_by_loop(lax.max, 0, True)},
    )
    yield Comparison(
        f"cummax {rows} axis 1",
        uniform(rows),
        lambda x: jscan.cummax(x, 1),
        {"lax.cummax": lambda x: lax.cummax(x, 1), **_tree(lax.max, 1)},
    )
    for size, axis in (((10**5,), 0), ((64, 4096), 1)):
        yield Comparison(
            f"cumlogsumexp {_size(size)}" + (f" axis {axis}" if axis else ""),
            uniform(size),
            functools.partial(jscan.cumlogsumexp, axis=axis),
            {
                "lax.cumlogsumexp": functools.partial(lax.cumlogsumexp, axis=axis),
                **_tree(jnp.logaddexp, axis),
            },
        )
    small = uniform(n, low=-1e-3, high=1e-3)
    yield Comparison(
        "lambda, one leaf, 10^6",
        small,
        lambda x: jscan.associative_scan(compound, x),
        {**_tree(compound), **_by_loop(compound, 0, True)},
    )
    yield Comparison(
        "lambda, two leaves, 10^6",
        uniform(n, n),
        lambda a, b: jscan.associative_scan(operations.join_affine, (a, b)),
        {
            "lax.associative_scan": lambda a, b: lax.associative_scan(
                operations.join_affine, (a, b)
            ),
            "lax.scan, unrolled": lambda a, b: _pairs(operations.join_affine, (a, b), (1.0, 0.0)),
        },
    )
    samples = uniform((10**5,))
    yield Comparison(
        "lambda, three leaves (Welford), 10^5",
        samples,
        lambda x: jscan.associative_scan(operations.join_moments, _moments(x)),
        {
            "lax.associative_scan": lambda x: lax.associative_scan(
                operations.join_moments, _moments(x)
            ),
            "lax.scan": lambda x: _pairs(operations.join_moments, _moments(x), (0.0,) * 3, 1),
        },
    )


def _moments(x: jax.Array) -> tuple[jax.Array, ...]:
    return jnp.ones_like(x), x, jnp.zeros_like(x)


def _pairs(fn: Function, leaves: Sequence[jax.Array], start: Any, unroll: int = 4) -> Any:
    """A scan of several leaves by lax.scan."""
    carry = tuple(jnp.float32(x) for x in start)
    step = lambda c, y: (fn(c, y),) * 2  # noqa: E731
    return lax.scan(step, carry, tuple(leaves), unroll=unroll)[1]


def _recurrence_loop(a: jax.Array, b: jax.Array, **how: Any) -> Any:
    return _loop(lambda h, x, y: x * h + y, a, b, **how)


def _recurrence_tree(a: jax.Array, b: jax.Array, axis: int = 0) -> Any:
    return lax.associative_scan(operations.join_affine, (a, b), axis=axis)[1]


def _recurrence_peers(shape: Shape, axis: int) -> dict[str, Operation]:
    peers: dict[str, Operation] = {
        "lax.scan": _along(_recurrence_loop, axis),
        "lax.associative_scan": functools.partial(_recurrence_tree, axis=axis),
    }
    if len(shape) == 1:
        peers["lax.scan, unrolled"] = functools.partial(_recurrence_loop, unroll=8)
    return peers


def _recurrences() -> Iterator[Comparison]:
    for shape, axis in (((10**6,), 0), ((4096, 1024), 0), ((4096, 1024), 1), ((8, 2048, 256), 1)):
        yield Comparison(
            f"linear_recurrence {_size(shape)}" + (f" axis {axis}" if axis else ""),
            uniform(shape, shape),
            functools.partial(jscan.linear_recurrence, axis=axis),
            _recurrence_peers(shape, axis),
        )
    loop = functools.partial(_loop, lambda h, x, y, head: jnp.where(head, y, x * h + y), unroll=8)
    yield Comparison(
        "segmented linear_recurrence 10^6",
        flagged((10**6,), 2),
        lambda a, b, heads: jscan.linear_recurrence(a, b, segments=heads),
        {
            "lax.scan, unrolled": loop,
            "lax.associative_scan": lambda a, b, heads: _recurrence_tree(jnp.where(heads, 0, a), b),
        },
    )


def _with_gradient(run: Operation) -> Operation:
    return functools.partial(operations.with_gradient, run)


def _gradients() -> Iterator[Comparison]:
    n, shape = (10**6,), (4096, 1024)
    for size, axis in ((n, 0), (shape, 0), ((64, 50257), 1)):
        yield Comparison(
            f"linear_recurrence and gradient {_size(size)}" + (f" axis {axis}" if axis else ""),
            uniform(size, size, size),
            _with_gradient(functools.partial(jscan.linear_recurrence, axis=axis)),
            {k: _with_gradient(run) for k, run in _recurrence_peers(size, axis).items()},
        )
    yield Comparison(
        "cumsum and gradient 10^6",
        signs(n, n),
        _with_gradient(jscan.cumsum),
        {
            "lax.cumsum": _with_gradient(lax.cumsum),
            "lax.scan, unrolled": _with_gradient(functools.partial(_loop, lax.add, unroll=8)),
        },
    )
    factors = uniform(shape, shape, low=0.99, high=1.01)
    for name, fn in (("cumprod", lax.mul), ("cummax", lax.max)):
        yield Comparison(
            f"{name} and gradient {shape}",
            factors,
            _with_gradient(getattr(jscan, name)),
            {
                f"lax.{name}": _with_gradient(getattr(lax, name)),
                "lax.associative_scan": _with_gradient(_tree(fn)["lax.associative_scan"]),
            },
        )
