"""Segments that are numbered by counting their heads: those of flags, bits and ids.

All have rows, along whose last axis segments run.
"""

from __future__ import annotations

import functools

import jax
import numpy as np

from jscan import bits, meshes
from jscan.eager import compiled, elements
from jscan.heads import as_bool, is_first
from jscan.ranks import heads_of_runs, rank


@compiled(elements)
def heads_of_ids(ids: jax.Array) -> jax.Array:
    """Head flags of runs of equal ids."""
    return heads_of_runs(ids, axis=ids.ndim - 1)


@compiled(elements, int)
def heads_of_bits(words: jax.Array, n: int) -> jax.Array:
    """Head flags of ``n`` elements from words of bits, of which the first may not be set."""
    axis = words.ndim - 1
    run = functools.partial(bits.unpacked, axis=axis, n=n)
    dimensions = meshes.instead_of(axis)
    return meshes.automatically(run, words, like=[words], dimensions=dimensions)


@compiled(elements, str)
def packed(flags: jax.Array, dtype: str) -> jax.Array:
    """Words of bits from head flags, which are booleans."""
    run = functools.partial(bits.packed, dtype=np.dtype(dtype))
    dimensions = meshes.instead_of(flags.ndim - 1)
    return meshes.automatically(run, flags, like=[flags], dimensions=dimensions)


@compiled(elements)
def with_first(heads: jax.Array) -> jax.Array:
    """Head flags as booleans, of which the first are set."""

    def run(heads: jax.Array) -> jax.Array:
        return as_bool(heads) | is_first(heads, axis=heads.ndim - 1)

    return meshes.automatically(run, heads, like=[heads])


@compiled(elements, str)
def numbers(marks: jax.Array, source: str) -> jax.Array:
    """The numbers of elements' segments."""
    return rank(marks, axis=marks.ndim - 1, source=source, emit="number")


@compiled(elements, str, int)
def offsets(marks: jax.Array, source: str, size: int) -> jax.Array:
    """Where the first segments begin, ``size`` of them, and the length of the axis behind them."""
    return rank(marks, axis=marks.ndim - 1, source=source, emit="places", size=size)
