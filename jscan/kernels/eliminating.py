"""Tridiagonal systems that fit a tile, each solved by one program: scans in registers, no state.

    diagonals ─ rows that the diagonal dominates ─ scan: pivots ─┐
    b ──────────────────────────────────────────── scan ─ scan back ─ x

The formulas are those of `jscan.plain.elimination`, but for what is divided by one number: it is
multiplied by its inverse, since a division of float64 takes as long as thirty products. A matrix's
rows beside a tile's own are read again from the cache. Of a transposed system, elements of the
diagonals are read at their neighbours.
"""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Sequence
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax
from jax.extend import core

from jscan.kernels import language, launch, tuning
from jscan.kernels.contraction import contracted
from jscan.kernels.language import Ref
from jscan.kernels.layout import Geometry, View
from jscan.kernels.operator import trace_scalars
from jscan.kernels.tile import Tile

DTYPES = (np.dtype(np.float32), np.dtype(np.float64))
"""What kernels solve in."""


@dataclasses.dataclass(frozen=True)
class Systems:
    """What to solve: the diagonals' views, then that of the right-hand sides."""

    geometry: Geometry
    dtype: np.dtype
    views: tuple[View, ...]
    transposed: bool

    @property
    def written(self) -> list[tuple[int, np.dtype]]:
        """The size and dtype of the result."""
        g = self.geometry
        return [(g.outer * g.n * g.inner, self.dtype)]


class Row(NamedTuple):
    """What counts of each row of a matrix: see `jscan.plain.elimination.Rows`."""

    scale: jax.Array
    above: jax.Array
    rest: jax.Array
    excess: jax.Array


class Matrix:
    """The matrix of a tile's systems, by rows that come so many places before the tile's own."""

    def __init__(self, systems: Systems, tile: Tile, inputs: Sequence[Ref]):
        self.systems, self.tile, self.inputs = systems, tile, inputs

    def right(self) -> jax.Array:
        """The right-hand sides."""
        return self._read(3, 0, [0], 0)

    def below(self, shift: int) -> jax.Array:
        """The elements below the diagonal, zero where there is no diagonal beside it."""
        number, further = (2, 1) if self.systems.transposed else (0, 0)
        return self._read(number, shift + further, [shift, shift + 1], 0)

    def middle(self, shift: int) -> jax.Array:
        """Those on the diagonal, one where there is none."""
        return self._read(1, shift, [shift], 1)

    def above(self, shift: int) -> jax.Array:
        """Those above it, zero where there is no diagonal beside it."""
        number, further = (0, -1) if self.systems.transposed else (2, 0)
        return self._read(number, shift + further, [shift, shift - 1], 0)

    def _read(self, number: int, shift: int, there: Sequence[int], fill: int) -> jax.Array:
        """An operand ``shift`` places before, where rows so many places before are ``there``."""
        values = self.tile.load(self.inputs[number], self.systems.views[number], shift)
        values = jnp.broadcast_to(values, self.tile.geometry.shape)
        masks = [mask for mask in map(self.tile.mask, there) if mask is not None]
        if not masks:
            return values
        exists = functools.reduce(lax.bitwise_and, masks)
        return jnp.where(exists, values, jnp.full_like(values, fill))

    def dominated(self, shift: int) -> tuple[Row, Row]:
        """The columns as rows, and the rows."""
        middle = self.middle(shift)
        columns = row_of(self.above(shift + 1), middle, self.below(shift - 1))
        return columns, row_of(self.below(shift), middle, self.above(shift))


def row_of(below: jax.Array, middle: jax.Array, above: jax.Array) -> Row:
    """A row, divided by a power of two that is about its largest element."""
    below, middle, above = lax.abs(below), lax.abs(middle), lax.abs(above)
    larger, smaller = lax.max(below, above), lax.min(below, above)
    rest = middle - larger
    rounding = middle - rest - larger
    scale = inverse_power(lax.max(larger, middle))
    excess = rest - smaller + rounding
    return Row(scale, above * scale, (middle - above) * scale, excess * scale)


def inverse_power(x: jax.Array) -> jax.Array:
    """The inverse of the greatest power of two in a positive number, and neither tiny nor huge."""
    finfo = np.finfo(x.dtype)
    integer = np.dtype(f"int{8 * x.dtype.itemsize}").type
    one = integer(1) << integer(finfo.nmant)
    bias = integer(1 - int(finfo.minexp))
    exponent = lax.shift_right_logical(
        lax.bitcast_convert_type(x, integer), jnp.full(x.shape, finfo.nmant, integer)
    )
    inverse = integer(2 * int(bias)) - exponent
    inverse = lax.max(lax.min(inverse, integer(2 * int(bias) - 1)), integer(1))
    return lax.bitcast_convert_type(inverse * one, x.dtype)


def signed(row: Row, middle: jax.Array) -> jax.Array:
    """What makes the elements on the diagonal, ``middle``, positive, and scales the rows."""
    return jnp.where(middle < 0, -row.scale, row.scale)


@functools.cache
def _operators(dtype: np.dtype) -> tuple[core.ClosedJaxpr, core.ClosedJaxpr, core.ClosedJaxpr]:
    """Two maps, two steps of a recurrence, and the least of two integers, as scans combine them."""

    def maps(
        p1: jax.Array, q1: jax.Array, s1: jax.Array, p2: jax.Array, q2: jax.Array, s2: jax.Array
    ) -> list[jax.Array]:
        inverse = jnp.ones_like(p1) / (p1 + s2)
        return [(p2 * p1 + q2) * inverse, (p2 * q1 + q2 * s1) * inverse, (q1 + s2 * s1) * inverse]

    def steps(a: jax.Array, b: jax.Array, c: jax.Array, d: jax.Array) -> list[jax.Array]:
        return [c * a, c * b + d]

    integer = np.dtype(f"int{8 * dtype.itemsize}")
    return (
        contracted(trace_scalars(maps, [dtype] * 6), trace_scalars),
        contracted(trace_scalars(steps, [dtype] * 4), trace_scalars),
        trace_scalars(lax.min, [integer] * 2),
    )


def least(tile: Tile, x: jax.Array) -> jax.Array:
    """The least along the axis, as an integer in the same order, for each row of the tile."""
    integer = np.dtype(f"int{8 * x.dtype.itemsize}").type
    bits = lax.bitcast_convert_type(x, integer)
    lowest = integer(np.iinfo(integer).min)
    ordered = jnp.where(bits < 0, (integer(-1) - bits) + lowest, bits)
    axis = tile.geometry.axis
    found = language.tile_reduce(_operators(np.dtype(x.dtype))[2], ordered, axis)
    return jnp.broadcast_to(tile.along_positions(found), x.shape)


def kernel(systems: Systems, program: jax.Array, refs: Sequence[Ref]) -> None:
    """The systems of a tile, solved by one program."""
    tile = Tile(systems.geometry, program)
    matrix = Matrix(systems, tile, refs[:4])
    maps, steps, _ = _operators(systems.dtype)

    def scan(operator: core.ClosedJaxpr, *leaves: jax.Array, reverse: bool = False) -> jax.Array:
        found = language.tile_scan(operator, leaves, systems.geometry.axis, reverse=reverse)
        return found[0 if operator is maps else 1]

    columns, rows = matrix.dominated(0)
    by_columns = least(tile, columns.excess) > least(tile, rows.excess)

    def chosen(columns: Row, rows: Row) -> Row:
        return Row(*(jnp.where(by_columns, x, y) for x, y in zip(columns, rows, strict=True)))

    row, before = chosen(columns, rows), chosen(*matrix.dominated(1))
    scale = signed(row, matrix.middle(0))
    below, above = matrix.below(0) * scale, matrix.above(0) * scale
    product = below * (matrix.above(1) * signed(before, matrix.middle(1)))
    opposite = lax.max(-product, jnp.zeros_like(product))
    q = row.excess * before.above + (opposite + opposite)
    pivots = scan(maps, row.rest, q, before.above) + row.above
    inverse = jnp.ones_like(pivots) / pivots
    y = scan(steps, -below * inverse, matrix.right() * scale * inverse)
    x = scan(steps, -above * inverse, y, reverse=True)
    tile.store(refs[4], x)


def why_not(
    operands: Sequence[jax.Array], full: Sequence[int], axis: int, tile: tuning.Tuning | None
) -> str | None:
    """Why no kernel can solve these systems; None if one can."""
    if operands[0].dtype not in DTYPES:
        return f"kernels solve in {DTYPES}, not in {operands[0].dtype}"
    if any(x.shape[axis] != full[axis] for x in operands):
        return "a diagonal is one number"
    if cut_of(full, axis, operands[0].dtype, tile) is None:
        return f"systems of {full[axis]} rows do not fit one tile"
    return None


def cut_of(
    full: Sequence[int], axis: int, dtype: np.dtype, tile: tuning.Tuning | None
) -> tuning.Tuning | None:
    """The cut of systems of a shape."""
    return tuning.systems(full, axis, dtype.itemsize, tile)


def solve(
    operands: Sequence[jax.Array],
    full: Sequence[int],
    *,
    axis: int,
    transposed: bool,
    interpret: bool,
    tile: tuning.Tuning | None = None,
) -> jax.Array:
    """Solves systems for which there is no `why_not`; dimensions of operands are full or 1."""
    dtype = np.dtype(operands[0].dtype)
    tuned = cut_of(full, axis, dtype, tile)
    assert tuned is not None
    cut = launch.Cut(operands, full, axis, tuned)
    systems = Systems(cut.geometry, dtype, cut.views, transposed)
    body = functools.partial(kernel, systems)
    [x] = cut.call(systems, [], body, None, "jscan_eliminate", interpret)
    return x.reshape(full)
