"""A row of the table: a function, its operands, and what its values and derivatives should be."""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from tests import reference

Array = reference.Array

ROWS, LENGTH = 4, 8  # a mesh of four devices divides both


def label_of(axis: int) -> str:
    """How rows lie in memory when `axis` is scanned."""
    return "rn" if axis == 1 else "nr"


def shape_of(label: str) -> tuple[int, ...]:
    """The shape that a label of rows and the axis stands for."""
    return tuple({"r": ROWS, "n": LENGTH}[letter] for letter in label)


@dataclass(frozen=True, eq=False)
class Row:
    """A public function on plain arrays.

    A label has a letter for each dimension of an operand or a result: "r" for the rows, "n" for the
    axis that is scanned or reduced, "s" for segments, "." for any other.
    """

    name: str
    covers: tuple[str, ...]
    function: Callable[..., Any]
    draw: Callable[[np.random.Generator], Sequence[Any]]
    labels: tuple[str, ...]
    results: tuple[str, ...]
    # The value: a loop over NumPy arrays, of operands as wide as their kind allows.
    expected: Callable[..., Any]
    # The same to be differentiated: a loop of jax.lax or jax.numpy. None where nothing can be.
    sequential: Callable[..., Any] | None = None
    # Sets of operands in which the function is linear when the others are given.
    linear: tuple[tuple[int, ...], ...] = ()
    # Operands in which it is linear but for a constant, or whose operator has a rule of its own:
    # JAX's own functions return numbers for some of these and raise for others.
    undecided: tuple[int, ...] = ()
    # The segment of each element, an array (rows, length), given the operands.
    numbers: Callable[..., Any] | None = None
    # The place of the axis at which an operand without that axis comes in.
    entrance: int = 0
    # Whether the function takes `axis_name`, across whose devices the axis "n" goes on.
    across: bool = False

    def call(self, *operands: Any, **options: Any) -> list[Any]:
        """The function under test, its results in a list."""
        return jax.tree.leaves(self.function(*operands, **options))

    @functools.cache  # noqa: B019  rows live as long as the tests
    def operands(self, seed: int = 0) -> tuple[Array, ...]:
        """Example operands."""
        drawn = self.draw(np.random.default_rng([seed, 11]))
        return tuple(np.asarray(x) for x in drawn)

    @functools.cached_property
    def inexact(self) -> tuple[int, ...]:
        """The operands that can be differentiated."""
        return tuple(
            i
            for i, x in enumerate(self.operands())
            if jnp.issubdtype(x.dtype, jnp.inexact) and self.sequential is not None
        )

    @functools.cached_property
    def shapes(self) -> list[jax.ShapeDtypeStruct]:
        """The shapes and dtypes that results have."""
        return [jax.ShapeDtypeStruct(y.shape, y.dtype) for y in self.values()]

    @functools.cached_property
    def smooth(self) -> tuple[int, ...]:
        """The results that can be differentiated."""
        return tuple(k for k, y in enumerate(self.shapes) if jnp.issubdtype(y.dtype, jnp.inexact))

    @functools.cache  # noqa: B019
    def values(self, seed: int = 0) -> list[Array]:
        """The results, rounded to the dtypes that they should have."""
        return self.values_of(*self.operands(seed))

    def values_of(self, *operands: Any) -> list[Array]:
        """The results of any operands."""
        with np.errstate(all="ignore"):
            results = jax.tree.leaves(self.expected(*operands))
        return [np.asarray(y) for y in results]

    def weights(self, seed: int = 0) -> list[Array]:
        """A number for each differentiable result."""
        rng = np.random.default_rng([seed, 12])
        shapes = [self.shapes[k] for k in self.smooth]
        return [np.asarray(rng.normal(size=y.shape), y.dtype) for y in shapes]

    def tangents(self, seed: int = 0) -> list[Array]:
        """A direction for each differentiable operand."""
        rng = np.random.default_rng([seed, 13])
        given = self.operands(seed)
        chosen = self.chosen(given)
        return [np.asarray(rng.normal(size=x.shape), x.dtype) for x in chosen]

    def closed(
        self, function: Callable[..., list[Any]], operands: Sequence[Any]
    ) -> Callable[..., list[Any]]:
        """The differentiable results as a function of the differentiable operands alone."""

        def inner(*chosen: Any) -> list[Any]:
            given = list(operands)
            for i, x in zip(self.inexact, chosen, strict=True):
                given[i] = x
            results = function(*given)
            return [results[k] for k in self.smooth]

        return inner

    def chosen(self, operands: Sequence[Any]) -> list[Any]:
        """The differentiable ones of the operands."""
        return [operands[i] for i in self.inexact]

    def wide(self, *operands: Any) -> list[Any]:
        """The reference to differentiate."""
        assert self.sequential is not None
        return jax.tree.leaves(self.sequential(*operands))


def loss(results: Sequence[Any], weights: Sequence[Any]) -> Any:
    """A number with slopes of the first and of the second order.

    Identities of an exclusive scan can be infinite; they count for nothing.
    """
    totals = []
    for y, w in zip(results, weights, strict=True):
        z = jnp.where(jnp.isfinite(y), y, jnp.zeros_like(y))
        totals.append(jnp.sum(jnp.real(z * w + z * z * w * jnp.asarray(0.5, z.dtype))))
    return sum(totals[1:], totals[0])


def widened(arrays: Sequence[Any]) -> tuple[Array, ...]:
    """The arrays in the widest types of their kinds."""
    return tuple(reference.widen(x) for x in arrays)
