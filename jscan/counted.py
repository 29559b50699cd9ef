"""Segments that are numbered by counting their heads: those of flags and of ids.

Both have rows, along whose last axis segments run.
"""

from __future__ import annotations

import jax

from jscan import meshes
from jscan.eager import compiled, elements
from jscan.heads import as_bool, changes, is_first
from jscan.ranks import rank

SOURCES = {"flags": "flags", "ids": "runs"}
"""The ``source`` by which ``rank`` marks the heads of each form of segments."""


@compiled(elements)
def heads_of_ids(ids: jax.Array) -> jax.Array:
    """Head flags of runs of equal ids."""
    return meshes.automatically(lambda ids: changes(ids, axis=ids.ndim - 1), ids, like=[ids])


@compiled(elements)
def with_first(heads: jax.Array) -> jax.Array:
    """Head flags as booleans, of which the first are set."""

    def run(heads: jax.Array) -> jax.Array:
        return as_bool(heads) | is_first(heads, axis=heads.ndim - 1)

    return meshes.automatically(run, heads, like=[heads])


@compiled(elements, str)
def numbers(marks: jax.Array, form: str) -> jax.Array:
    """The numbers of elements' segments."""
    return rank(marks, axis=marks.ndim - 1, source=SOURCES[form], emit="number")


@compiled(elements, str, int)
def offsets(marks: jax.Array, form: str, size: int) -> jax.Array:
    """Where the first segments begin, ``size`` of them, and the length of the axis behind them."""
    return rank(marks, axis=marks.ndim - 1, source=SOURCES[form], emit="places", size=size)
