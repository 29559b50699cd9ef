"""Speeds of a few calls beside what JAX has for the same, by the wall clock."""

from __future__ import annotations

import dataclasses
import time
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

import jscan
from jscan import operators

ON_GPU, ELSEWHERE = 2**26, 2**21
"""Lengths of float32."""

SECONDS = 0.3
"""How long each program is run."""

Call = Callable[..., Any]


@dataclasses.dataclass(frozen=True)
class Pair:
    """A call of this package and one of JAX's that computes the same, of the same operands."""

    name: str
    ours: Call
    counterpart: str
    theirs: Call
    operands: tuple[str, ...]


@dataclasses.dataclass(frozen=True)
class Speed:
    """What a pair takes in microseconds, or why there is no such number."""

    name: str
    counterpart: str
    ours: float | str
    theirs: float | str


def _flagged(a: Any, b: Any) -> Any:
    return a[0] | b[0], jnp.where(b[0], b[1], a[1] + b[1])


def _gradient(scan: Call) -> Call:
    return jax.grad(lambda x, y: jnp.vdot(y, scan(x)))


PAIRS = (
    Pair("cumsum", jscan.cumsum, "lax.cumsum", lax.cumsum, ("x",)),
    Pair(
        "cumsum by segments",
        lambda x, flags: jscan.cumsum(x, segments=flags),
        "lax.associative_scan",
        lambda x, flags: lax.associative_scan(_flagged, (flags, x))[1],
        ("x", "flags"),
    ),
    Pair(
        "linear_recurrence",
        jscan.linear_recurrence,
        "lax.associative_scan",
        lambda a, b: lax.associative_scan(operators.affine, (a, b))[1],
        ("a", "x"),
    ),
    Pair(
        "gradient of cummax",
        _gradient(jscan.cummax),
        "lax.cummax",
        _gradient(lax.cummax),
        ("x", "a"),
    ),
    Pair(
        "segment_sum, sorted",
        lambda x, ids: jscan.segment_sum(x, ids, 1000, indices_are_sorted=True),
        "jax.ops.segment_sum",
        lambda x, ids: jax.ops.segment_sum(x, ids, 1000, indices_are_sorted=True),
        ("x", "ids"),
    ),
)


def length() -> int:
    """How many elements the operands have here."""
    return ON_GPU if jax.default_backend() == "gpu" else ELSEWHERE


def measured(advance: Callable[[str], None]) -> list[Speed]:
    """All pairs, one after another; ``advance`` is told each one's name when it is done."""
    given = _operands(length())
    found = []
    for pair in PAIRS:
        operands = [given[name] for name in pair.operands]
        times = [_microseconds(call, operands) for call in (pair.ours, pair.theirs)]
        found.append(Speed(pair.name, pair.counterpart, *times))
        advance(pair.name)
    return found


def _operands(n: int) -> dict[str, jax.Array]:
    rng = np.random.default_rng(0)
    return {
        "x": jnp.asarray(rng.random(n, np.float32)),
        "a": jnp.asarray(rng.random(n, np.float32)),
        "flags": jnp.asarray(rng.random(n, np.float32) < 0.001),
        "ids": jnp.asarray(np.sort(rng.integers(0, 1000, n, np.int32))),
    }


def _microseconds(call: Call, operands: list[jax.Array]) -> float | str:
    """The fewest of a call: of several in a row, so that a GPU does not wait for the next one."""
    try:
        program = jax.jit(call).lower(*operands).compile()
        jax.block_until_ready(program(*operands))
        times: list[float] = []
        end = time.perf_counter() + SECONDS
        while len(times) < 3 or time.perf_counter() < end:
            begin = time.perf_counter()
            jax.block_until_ready([program(*operands) for _ in range(4)][-1])
            times.append((time.perf_counter() - begin) / 4)
    except Exception as error:  # of any kind, as memory that is too small: the others are told
        return type(error).__name__
    return 1e6 * min(times)
