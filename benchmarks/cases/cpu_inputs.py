"""What comparisons on a CPU are made of, and their operands."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping
from typing import Any

import jax
import numpy as np

from benchmarks.cases.case import Case, Check, Operation

Array = np.ndarray[Any, np.dtype[Any]]
Inputs = Callable[[], tuple[Any, ...]]
Function = Callable[[Any, Any], Any]
Shape = tuple[int, ...]


@dataclasses.dataclass(frozen=True)
class Comparison:
    """A call of jscan, and others that compute the same.

    Attributes:
      name: what is computed, and the shape.
      inputs: the operands.
      jscan: the call.
      peers: the others by name.
      bytes: that any implementation has to move; None where nothing was said of them.
      check: of jscan's answer, beside that of the peers.
    """

    name: str
    inputs: Inputs
    jscan: Operation
    peers: Mapping[str, Operation]
    bytes: int | None = None
    check: Check | None = None


def comparison(case: Case) -> Comparison:
    """A case of a suite, without libraries outside of JAX."""

    def build() -> tuple[jax.Array, ...]:
        made: tuple[jax.Array, ...] = jax.jit(case.inputs.build)(*case.inputs.args)
        return made

    return Comparison(case.name, build, case.run, case.peers, case.bytes, case.check)


def numbers_at_random() -> np.random.Generator:
    """A generator, whose numbers are the same in every call."""
    return np.random.default_rng(0)


def signs(*shapes: Shape, dtype: Any = np.float32) -> Inputs:
    """-1, 0 and 1: sums are whole numbers."""
    return lambda: tuple(draw(rng, s, dtype) for rng in [numbers_at_random()] for s in shapes)


def draw(rng: np.random.Generator, shape: Shape, dtype: Any) -> Array:
    """-1, 0 and 1."""
    return np.asarray(rng.integers(-1, 2, shape)).astype(dtype)


def uniform(*shapes: Shape, low: float = 0.5, high: float = 1.0) -> Inputs:
    """Numbers between two bounds."""
    return lambda: tuple(
        rng.uniform(low, high, s).astype(np.float32)
        for rng in [numbers_at_random()]
        for s in shapes
    )


def flagged(shape: Shape, count: int = 1) -> Inputs:
    """Numbers, and head flags of segments of 100 elements on average."""

    def build() -> tuple[Array, ...]:
        rng = numbers_at_random()
        numbers = (rng.uniform(0.5, 1, shape).astype(np.float32) for _ in range(count))
        return *numbers, rng.random(shape) < 0.01

    return build


def ids_and_numbers(n: int, count: int, *trailing: int, is_sorted: bool = True) -> Inputs:
    """Numbers, and ids of segments."""

    def build() -> tuple[Array, ...]:
        rng = numbers_at_random()
        ids = rng.integers(0, count, n).astype(np.int32)
        return draw(rng, (n, *trailing), np.float32), np.sort(ids) if is_sorted else ids

    return build


def compound(a: Any, b: Any) -> Any:
    """The growth of two periods together: an operator that is no operation of JAX."""
    return a + b + a * b
