"""Meshes of eight CPU devices, functions of rows, and the collectives of compiled programs."""

from __future__ import annotations

import functools
import re
from collections.abc import Callable
from contextlib import nullcontext
from math import prod
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax.sharding import AxisType, Mesh, NamedSharding, PartitionSpec

import jscan
from jscan import operators, primitives
from tests.functions import affine

N = 64
"""So many that totals of segments, one for each of eight devices, are fewer."""
HEADS = np.zeros(N, bool)
HEADS[[0, 3, 4, 27, 61]] = True
SORTED = np.cumsum(HEADS) - 1
COUNT = 6
ROWS = np.random.default_rng(0).uniform(0.5, 1.5, (8, N))

FUNCTIONS: dict[str, Callable[[Any], Any]] = {
    "cumsum": jscan.cumsum,
    "cumsum of halves": lambda r: jscan.cumsum(r.astype(jnp.bfloat16)),
    "cumprod, reversed": lambda r: jscan.cumprod(r, reverse=True),
    "cummax, exclusive": lambda r: jscan.cummax(r, exclusive=True),
    "cummin, reversed and exclusive": lambda r: jscan.cummin(r, reverse=True, exclusive=True),
    "cumlogsumexp": jscan.cumlogsumexp,
    "cumsum, segmented": lambda r: jscan.cumsum(r, segments=HEADS),
    "cumprod, every form": lambda r: jscan.cumprod(r, reverse=True, exclusive=True, segments=HEADS),
    "associative_scan": lambda r: jscan.associative_scan(affine, (r / 2, r)),
    "associative_scan, reversed": lambda r: jscan.associative_scan(
        affine, (r / 2, r), reverse=True, segments=HEADS
    ),
    "linear_recurrence": lambda r: jscan.linear_recurrence(r / 2, r, 2.0),
    "linear_recurrence, reversed": lambda r: jscan.linear_recurrence(
        r / 2, r, reverse=True, segments=HEADS
    ),
    "reduce": lambda r: jscan.reduce(operators.logaddexp, r),
    "reduce, in order": lambda r: jscan.reduce(affine, (r / 2, r)),
    "reduce by segments": lambda r: jscan.reduce(
        affine, (r / 2, r), identity=(1.0, 0.0), segments=HEADS, num_segments=COUNT
    ),
    "reduce by lengths": lambda r: jscan.reduce(
        operators.add, r, segments=jscan.Segments.from_lengths([3, 1, 0, 23, 34, 3])
    ),
    "segment_sum": lambda r: jscan.segment_sum(r, SORTED, COUNT, True),
    "segment_max": lambda r: jscan.segment_max(r, SORTED, COUNT, True),
    "distribute": lambda r: jscan.distribute(r, segments=HEADS),
    "enumerate": lambda r: jscan.enumerate(r > 1),
    "enumerate by segments": lambda r: jscan.enumerate(r > 1, segments=HEADS),
    "pack": lambda r: jscan.pack(r, r > 1, size=9),
    "nonzero": lambda r: jscan.nonzero(r > 1, size=9),
    "histogram": lambda r: jscan.histogram(jnp.floor(4 * r).astype(int), COUNT),
    "partition": lambda r: jscan.partition(r, (4 * r).astype(int) - 4),
    "run_length_encode": lambda r: jscan.run_length_encode(jnp.round(r), size=9),
    "run_length_decode": lambda r: jscan.run_length_decode(r, (r > 1).astype(int), size=40),
    "unique_sorted": lambda r: jscan.unique_sorted(jnp.round(r), size=9)[0],
    "split": lambda r: jscan.split(r, r > 1),
    "split_and_segment": lambda r: jscan.split_and_segment(r, r > 1, HEADS),
}
"""Functions of a row of N numbers around 1, of which many are on each side of it."""

WITHOUT_GRADIENT = (
    *("cumsum of halves", "enumerate", "enumerate by segments"),
    *("histogram", "nonzero", "run_length_encode", "unique_sorted"),
)
MOVES_DATA = (
    *("pack", "nonzero", "partition", "split", "split_and_segment"),
    *("run_length_encode", "run_length_decode", "unique_sorted"),
)
"""Functions whose results are elsewhere along the row than their operands."""
TOTALS_OF_SEGMENTS = (
    *("reduce by segments", "reduce by lengths", "segment_sum", "segment_max", "histogram"),
)


def gradient_of(fn: Callable[[Any], Any]) -> Callable[[Any], Any]:
    """The gradient of a sum of everything that a function returns."""

    def total(row: jax.Array) -> jax.Array:
        leaves = jax.tree.leaves(fn(row))
        exact = [x for x in leaves if jnp.issubdtype(x.dtype, jnp.inexact)]
        return sum((jnp.sum(jnp.sin(x)) for x in exact), jnp.zeros((), row.dtype))

    return jax.grad(total)


def mesh_of(*sizes: int, kind: AxisType = AxisType.Auto) -> Mesh:
    """A mesh of CPU devices with the axes "a", "b", ..."""
    devices = jax.devices("cpu")[: prod(sizes)]
    names = tuple("abc"[: len(sizes)])
    return jax.make_mesh(sizes, names, axis_types=(kind,) * len(sizes), devices=devices)


def placed(x: Any, mesh: Mesh, *entries: Any) -> jax.Array:
    """An array that is sharded over mesh axes."""
    return jax.device_put(x, NamedSharding(mesh, PartitionSpec(*entries)))


class Layout(NamedTuple):
    """How rows lie in a mesh: its sizes, what divides each dimension, and the kind of its axes."""

    sizes: tuple[int, ...]
    entries: tuple[Any, ...]
    kind: AxisType = AxisType.Auto


def every_layout(**layouts: Layout) -> pytest.MarkDecorator:
    """Cases for layouts, in turn of one kind of axes and of the other.

    The same layouts of the other kind each are left to the thorough.
    """
    kinds = AxisType.Auto, AxisType.Explicit
    cases = []
    for place, (name, layout) in enumerate(layouts.items()):
        for turn in range(2):
            kind = kinds[(place + turn) % 2]
            marks = [pytest.mark.thorough] * turn
            cases.append(
                pytest.param(layout._replace(kind=kind), id=f"{name}-{kind.name}", marks=marks)
            )
    return pytest.mark.parametrize("layout", cases)


def function_of(name: str, *, gradient: bool = False) -> Callable[[Any], Any]:
    """A function of rows, or the gradients of one."""
    return jax.vmap(gradient_of(FUNCTIONS[name]) if gradient else FUNCTIONS[name])


@functools.cache
def expected(name: str, *, gradient: bool = False) -> list[np.ndarray]:
    """What one device makes of the rows."""
    results = jax.jit(function_of(name, gradient=gradient))(ROWS)
    return [np.asarray(y) for y in jax.tree.leaves(results)]


def check(
    name: str, layout: Layout, *, gradient: bool = False, interpreted: bool = False
) -> tuple[jax.stages.Compiled, list[jax.Array]]:
    """The program of a function of rows, and its results, which have the values of one device."""
    wanted = expected(name, gradient=gradient)
    mesh = mesh_of(*layout.sizes, kind=layout.kind)
    x = placed(ROWS, mesh, *layout.entries)
    run = jax.jit(function_of(name, gradient=gradient))
    with jax.set_mesh(mesh), primitives.interpreted() if interpreted else nullcontext():
        compiled = run.lower(x).compile()
        found = jax.tree.leaves(compiled(x))
    for y, values in zip(found, wanted, strict=True):
        assert_close(y, values)
    return compiled, found


class Collective(NamedTuple):
    """An operation that moves data between devices, and how many elements its result has."""

    name: str
    elements: int


_COLLECTIVE = re.compile(
    r"= \(?(.*?)\)? (all-gather|all-reduce|all-to-all|collective-permute|reduce-scatter)"
    r"(?:-start)?\("
)


def assert_close(found: Any, expected: Any) -> None:
    """Raise unless numbers agree to a few bits, in halves to two digits."""
    tolerance = 1e-2 if found.dtype.itemsize == 2 else 1e-10
    wide = [np.asarray(x).astype(np.float64) for x in (found, expected)]
    np.testing.assert_allclose(wide[0], wide[1], rtol=tolerance)


def collectives(compiled: jax.stages.Compiled) -> list[Collective]:
    """The collectives of a compiled program."""
    text = compiled.as_text()
    assert text is not None
    found = []
    for shapes, name in _COLLECTIVE.findall(text):
        sizes = [
            prod(int(size) for size in dims.split(",") if size)
            for dims in re.findall(r"\[([\d,]*)\]", shapes)
        ]
        found.append(Collective(name, max(sizes)))
    return found
