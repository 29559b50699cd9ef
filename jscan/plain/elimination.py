"""Tridiagonal systems, factored and solved by scans.

Let the rows be divided so that the diagonal is positive: ``a`` lies below it, ``c`` above. The
pivots are ``w[i] = d[i] - a[i] c[i-1] / w[i-1]``. What is scanned is ``v[i] = w[i] - |c[i]|``,
the part of a pivot by which it dominates its row. With ``s[i] = d[i] - |a[i]| - |c[i]|`` and
``t[i] = a[i] c[i-1]``,

    v[i] = (P v[i-1] + Q) / (v[i-1] + S),   P = d[i] - |c[i]|,   S = |c[i-1]|,
                                            Q = s[i] |c[i-1]| + |t[i]| - t[i]

Where rows are dominated by the diagonal and real, ``s``, ``P``, ``Q`` and ``S`` are not negative. A
composition of such maps then adds, multiplies and divides, and nothing cancels. Since ``s`` is
rounded once from what is exact, every pivot is right but for a few roundings a level of the scan,
however near to singular the matrix is. A map is divided by its third coefficient, which becomes 1,
so that a product of many neither overflows nor underflows.

The transposed matrix has the same pivots. Where the diagonal dominates columns more than rows,
``v`` is what it dominates them by: ``a[i+1]`` and ``c[i-1]`` take the places of c[i] and a[i].
"""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

from jscan import combine, heads, primitives
from jscan.elimination import eliminate
from jscan.operators import affine, float_limits, integer_limits
from jscan.primitives import AxisName

Map = tuple[jax.Array, jax.Array, jax.Array]
"""(P, Q, S) for v -> (P v + Q) / (v + S)."""


def eliminate_by_factors(
    _below: jax.Array,
    _middle: jax.Array,
    _above: jax.Array,
    right: jax.Array,
    scale: jax.Array,
    before: jax.Array,
    behind: jax.Array,
    pivots: jax.Array,
    *,
    axis: int,
    transposed: bool,
    axis_name: AxisName,
    length: int | None = None,
    **_: Any,
) -> list[jax.Array]:
    """The result of ``eliminate_p`` by two recurrences; of a part of an axis of a ``length``."""
    along: dict[str, Any] = {"axis": axis, "axis_name": axis_name}
    if transposed:
        y = _recurrence(-before, right, **along) / pivots
        slopes = -behind / pivots
    else:
        # Of a row that is close to overflow ``scale / pivots`` would be flushed to zero.
        y = _recurrence(-before / pivots, right * scale / pivots, **along)
        slopes = -behind
    if length is not None:
        y, slopes = (_up_to(length, x, **along) for x in (y, slopes))
    x = _recurrence(slopes, y, **along, reverse=True)
    return [x * scale if transposed else x]


def _up_to(length: int, x: jax.Array, *, axis: int, axis_name: AxisName) -> jax.Array:
    """A part of an axis, with zeros behind the end of it."""
    here = lax.broadcasted_iota(jnp.int32, x.shape, axis)
    place = lax.axis_index(axis_name).astype(jnp.int32) * np.int32(x.shape[axis]) + here
    return jnp.where(place < np.int32(length), x, jnp.zeros_like(x))


@jax.tree_util.register_dataclass
@dataclasses.dataclass(frozen=True)
class Matrix:
    """A tridiagonal matrix for each row of an array; the ends of a diagonal may join the corners.

    Attributes:
      below: the diagonal below the middle; its first element multiplies the last of a vector.
      middle: the diagonal.
      above: the diagonal above; its last element multiplies the first of a vector.
      axis: the axis that the diagonals run along.
    """

    below: jax.Array
    middle: jax.Array
    above: jax.Array
    axis: int = dataclasses.field(metadata={"static": True})

    def times(self, x: jax.Array) -> jax.Array:
        """The product with vectors."""
        before, after = (heads.turned(x, axis=self.axis, reverse=way) for way in (False, True))
        return self.below * before + self.middle * x + self.above * after

    def transposed(self, above: jax.Array | None = None) -> Matrix:
        """The matrix with its columns as rows, where no corners are joined; ``above`` if known."""
        if above is None:
            above = heads.after(self.below, axis=self.axis)
        return Matrix(heads.before(self.above, axis=self.axis), self.middle, above, self.axis)

    def previous(self) -> Matrix:
        """The row before each one, and before the first that of a matrix without neighbours."""
        below, above = (heads.before(x, axis=self.axis) for x in (self.below, self.above))
        one = np.ones((), self.middle.dtype)[()]
        middle = heads.moved_on(self.middle, one, axis=self.axis, reverse=False)
        return Matrix(below, middle, above, self.axis)

    def least_excess(self) -> jax.Array:
        """By how much the diagonal dominates every row, as an integer in the same order.

        A minimum of floats, which keeps NaN, takes ten times as long on a CPU.
        """
        excess = Rows.of(self).excess
        integer = jnp.dtype(f"int{8 * excess.dtype.itemsize}")
        bits = lax.bitcast_convert_type(excess, integer)
        negative = lax.bitwise_not(bits) ^ integer_limits(integer).min
        return jnp.min(jnp.where(bits < 0, negative, bits), self.axis, keepdims=True)


@dataclasses.dataclass(frozen=True)
class Factors:
    """A matrix without corners as ``T = F^-1 L U``.

    F scales the rows; L has the pivots w and below them a; U has ones and above them c / w.
    """

    matrix: Matrix
    scale: jax.Array
    below: jax.Array
    above: jax.Array
    pivots: jax.Array

    @classmethod
    def of(cls, given: Matrix) -> Factors:
        """The factors of a matrix, of which the ends of diagonals do not count.

        What stands before is computed again from the matrix before: arrays of it would be written,
        and read one place further on.
        """
        axis = given.axis
        below, above = without(given.below, 0, axis), without(given.above, -1, axis)
        matrix = Matrix(below, given.middle, above, axis)
        columns, previous = matrix.transposed(), matrix.previous()
        dominating = columns.least_excess() > matrix.least_excess()

        def of(columns: Matrix, rows: Matrix) -> Rows:
            return Rows.of(jax.tree.map(lambda x, y: jnp.where(dominating, x, y), columns, rows))

        rows = of(columns, matrix)
        before = of(previous.transposed(above=matrix.below), previous)
        scale = rows.signed(matrix.middle)
        below, above = matrix.below * scale, matrix.above * scale
        product = below * (previous.above * before.signed(previous.middle))
        v = _excess_of_pivots(rows, before.above, product, matrix.axis)
        pivots = v + rows.above.astype(v.dtype)
        return cls(given, scale, below, above / pivots, pivots)

    def solve(self, b: jax.Array) -> jax.Array:
        """``T^-1 b``."""
        return self._solved(b, self.below, self.above, transposed=False)

    def solve_transposed(self, b: jax.Array) -> jax.Array:
        """``b T^-1``: the same factors, the other way round."""
        axis = self.matrix.axis
        before, behind = heads.before(self.above, axis=axis), heads.after(self.below, axis=axis)
        return self._solved(b, before, behind, transposed=True)

    def _solved(
        self, b: jax.Array, before: jax.Array, behind: jax.Array, *, transposed: bool
    ) -> jax.Array:
        m = self.matrix
        factors = self.scale, before, behind, self.pivots
        diagonals = m.below, m.middle, m.above
        return eliminate(diagonals, b, factors, axis=m.axis, transposed=transposed)


@jax.tree_util.register_dataclass
@dataclasses.dataclass(frozen=True)
class Rows:
    """What counts of each row of a matrix, in absolute values, of which the largest is about 1.

    Attributes:
      scale: what they are multiplied by, a power of two.
      above: the element above the diagonal.
      rest: the diagonal without that.
      excess: the diagonal without both of its neighbours, rounded once, however small it is.
    """

    scale: jax.Array
    above: jax.Array
    rest: jax.Array
    excess: jax.Array

    @classmethod
    def of(cls, matrix: Matrix) -> Rows:
        """The rows of a matrix."""
        below, middle, above = (jnp.abs(x) for x in (matrix.below, matrix.middle, matrix.above))
        larger, smaller = jnp.maximum(below, above), jnp.minimum(below, above)
        rest = middle - larger
        rounding = middle - rest - larger
        # A power of two rounds nothing: what is computed twice is one number, fused or not.
        limits = float_limits(middle.dtype)
        largest = lax.reduce_precision(jnp.maximum(larger, middle), limits.nexp, mantissa_bits=0)
        # An inverse that is flushed to zero, of a row that is close to overflow, would lose it.
        scale = jnp.clip(1 / largest, limits.tiny, 1 / limits.tiny)
        excess = rest - smaller + rounding
        return cls(scale, above * scale, (middle - above) * scale, excess * scale)

    def signed(self, middle: jax.Array) -> jax.Array:
        """What makes the elements on the diagonal, ``middle``, positive, and scales the rows."""
        sign = jnp.where(middle == 0, jnp.ones_like(middle), lax.sign(middle))
        return jnp.conj(sign) * self.scale.astype(middle.dtype)


def _excess_of_pivots(rows: Rows, size: jax.Array, product: jax.Array, axis: int) -> jax.Array:
    """``v``, as at the head of this file; ``size`` is S and ``product`` is t."""
    # Of real numbers the bracket is 0, or twice the product: never the rounding of that.
    if jnp.iscomplexobj(product):
        opposite = jnp.abs(product).astype(product.dtype) - product
    else:
        opposite = 2 * jnp.maximum(-product, 0)
    p, q, r = (x.astype(product.dtype) for x in (rows.rest, rows.excess * size, size))
    p, q, r = jnp.broadcast_arrays(p, q + opposite, r)
    # The first map is a constant, so v = infinity may come before it, and P is what it becomes.
    return _scan([p, q, r], 0, _maps(p.dtype), axis=axis)


def _recurrence(slopes: jax.Array, terms: jax.Array, **how: Any) -> jax.Array:
    return _scan([slopes, terms], 1, _steps(slopes.dtype), **how)


def _scan(
    leaves: Sequence[jax.Array],
    wanted: int,
    by: combine.Combine,
    *,
    axis: int,
    axis_name: AxisName = (),
    reverse: bool = False,
) -> jax.Array:
    """The leaf of a scan that is wanted: nothing drops others where a primitive is lowered."""
    used = [number == wanted for number in range(len(leaves))]
    how: dict[str, Any] = {"axis": axis, "axis_name": axis_name, "reverse": reverse}
    how |= {"combine": by, "used": used, "exclusive": False, "method": "auto"}
    [result] = primitives.scan(leaves, None, **how)
    return result


@functools.lru_cache(maxsize=16)
def _steps(dtype: np.dtype[Any]) -> combine.Combine:
    """The composition of a recurrence's steps as data, that of `jscan.linear_recurrence`."""
    leaves = [jax.ShapeDtypeStruct((1,), dtype)] * 2
    identity = affine.identities([dtype] * 2)
    found = combine.trace(affine, leaves, jax.tree.structure((0, 0)), 0, identity)
    assert found is not None
    return found


@functools.lru_cache(maxsize=16)
def _maps(dtype: np.dtype[Any]) -> combine.Combine:
    """The composition of maps as data."""
    leaves = [jax.ShapeDtypeStruct((1,), dtype)] * 3
    found = combine.trace(_composed, leaves, jax.tree.structure((0, 0, 0)), 0, None)
    assert found is not None
    return found


def _composed(first: Map, second: Map) -> Map:
    """The map ``first`` and then ``second``."""
    (p1, q1, s1), (p2, q2, s2) = first, second
    scale = p1 + s2
    return (p2 * p1 + q2) / scale, (p2 * q1 + q2 * s1) / scale, (q1 + s2 * s1) / scale


def without(x: jax.Array, place: int, axis: int) -> jax.Array:
    """``x`` with zeros at a place."""
    there = lax.broadcasted_iota(jnp.int32, x.shape, axis) == place % x.shape[axis]
    return jnp.where(there, jnp.zeros_like(x), x)
