"""Calls outside of ``jit``: how long they take beside a jitted function, and what they compile."""

from __future__ import annotations

import dataclasses
import functools
import itertools
from collections.abc import Callable, Iterator
from typing import Any

import jax
import jax.numpy as jnp

import jscan
from benchmarks.cases import inputs
from benchmarks.measuring import machine
from benchmarks.measuring.turns import advancing, in_turn

ALLOWED = 1.3
"""The most that a call may take, as a multiple of one of a jitted function."""
SHORT = 1000


@dataclasses.dataclass(frozen=True)
class Outside:
    """A call outside of ``jit``, and one of a jitted function that computes the same.

    Attributes:
      name: what is new in each call.
      jscan: the call, given its number.
      peer: the other call.
    """

    name: str
    jscan: Callable[[int], Any]
    peer: Callable[[], Any]


def _outside() -> list[Outside]:
    """Calls of which each hands in something new, where its name says so."""
    x, shuffled = inputs.normal(SHORT)[0], inputs.signs((SHORT,), jnp.int32)[0]
    flags, mask = shuffled > 0, shuffled > 0
    ids = jnp.arange(SHORT) // 10

    def pairs(left: Any, right: Any) -> Any:
        return left[0] * right[0], left[1] * right[0] + right[1]

    def lengths(count: int) -> list[int]:
        return [SHORT - count, *[1] * count]

    def of_new(turn: int) -> jscan.Segments:
        return jscan.Segments.from_lengths(lengths(turn % (SHORT - 1)))

    def jitted(fn: Callable[..., Any], *operands: Any) -> Callable[[], Any]:
        return functools.partial(jax.jit(fn), *operands)

    def exclusive(identity: Any, x: jax.Array) -> Any:
        return jscan.associative_scan(jnp.maximum, x, exclusive=True, identity=identity)

    def number(k: Any, x: jax.Array) -> Any:
        return jscan.associative_scan(lambda a, b: a + b + k * a * b, x)

    def by_flags(x: jax.Array, flags: jax.Array) -> jax.Array:
        return jscan.cumsum(x, segments=flags)

    def by_ids(x: jax.Array, ids: jax.Array) -> jax.Array:
        return jscan.segment_sum(x, ids, SHORT // 10, indices_are_sorted=True)

    def plus(x: jax.Array) -> Any:
        return jscan.associative_scan(jnp.add, x)

    def of_pairs(x: jax.Array) -> Any:
        return jscan.associative_scan(pairs, (x, x))

    def total(x: jax.Array) -> Any:
        return jscan.reduce(lambda a, b: a + b, x)

    def packed(x: jax.Array, mask: jax.Array) -> Any:
        return jscan.pack(x, mask, size=SHORT)

    def numbered(ids: jax.Array) -> jax.Array:
        return jscan.Segments.from_ids(ids).ids

    return [
        Outside("cumsum, beside jnp.cumsum", lambda _: jscan.cumsum(x), lambda: jnp.cumsum(x)),
        Outside("cumsum", lambda _: jscan.cumsum(x), jitted(jscan.cumsum, x)),
        Outside("cumsum by flags", lambda _: by_flags(x, flags), jitted(by_flags, x, flags)),
        Outside("a ufunc", lambda _: plus(x), jitted(plus, x)),
        Outside(
            "a new lambda",
            lambda _: jscan.associative_scan(lambda a, b: a + b, x),
            jitted(plus, x),
        ),
        Outside(
            "a new number in a lambda", lambda i: number(1 / (i + 2), x), jitted(number, 1.0, x)
        ),
        Outside(
            "a new identity, tried",
            lambda i: exclusive(-1000.0 - i, x),
            jitted(exclusive, -1000.0, x),
        ),
        Outside("pairs by a function", lambda _: of_pairs(x), jitted(of_pairs, x)),
        Outside(
            "linear_recurrence",
            lambda _: jscan.linear_recurrence(x, x),
            jitted(jscan.linear_recurrence, x, x),
        ),
        Outside("reduce by a lambda", lambda _: total(x), jitted(total, x)),
        Outside(
            "new segments",
            lambda i: jscan.cumsum(x, segments=of_new(i)),
            jitted(by_flags, x, flags),
        ),
        Outside("numbers of new segments", lambda i: of_new(i).ids, jitted(numbered, ids)),
        Outside("segment_sum of sorted ids", lambda _: by_ids(x, ids), jitted(by_ids, x, ids)),
        Outside("enumerate", lambda _: jscan.enumerate(mask), jitted(jscan.enumerate, mask)),
        Outside("pack", lambda _: packed(x, mask), jitted(packed, x, mask)),
        Outside("split", lambda _: jscan.split(x, mask), jitted(jscan.split, x, mask)),
    ]


def measured(seconds: float = 0.5, calls: int = 21) -> list[dict[str, Any]]:
    """Times calls outside of ``jit`` and counts what those after the first compile."""
    cases = _outside()

    def entries() -> Iterator[dict[str, Any]]:
        for case in cases:
            turns = itertools.count()
            run = functools.partial(_next, case.jscan, turns)
            both: list[Callable[[], Any]] = [run, case.peer]
            jax.block_until_ready(run())
            with machine.compilations() as compiled:
                for _ in range(3):
                    jax.block_until_ready(run())
            took = in_turn(case.name, both, seconds, ALLOWED, calls)
            yield took | {"compiled": len(compiled)}

    return advancing("calls", len(cases), entries())


def _next(call: Callable[[int], Any], turns: Iterator[int]) -> Any:
    return call(next(turns))
