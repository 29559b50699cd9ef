"""Tridiagonal systems, solved by scans.

A tridiagonal matrix is factored by a scalar recurrence for its pivots, and the factors are solved
by two linear recurrences. All three are scans: `jscan.plain.elimination` has their formulas. On a
GPU they are one kernel where a system fits a tile.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
from jax import lax

from jscan import extent, meshes
from jscan.advice import advised
from jscan.arguments.arrays import as_array
from jscan.arguments.leading import common_dtype, common_shape, spread_along
from jscan.arguments.scalars import as_axis, as_switch
from jscan.combine import accumulation_dtype
from jscan.eager import compiled, elements, number
from jscan.plain.elimination import Factors, Matrix, without

__all__ = ["tridiagonal_solve"]


@advised
def tridiagonal_solve(
    dl: Any, d: Any, du: Any, b: Any, *, axis: int = 0, periodic: bool = False
) -> jax.Array:
    """Solution of tridiagonal systems, also of periodic ones, by scans.

    ``dl[i] x[i-1] + d[i] x[i] + du[i] x[i+1] = b[i]``. ``x[-1]`` and ``x[n]`` are 0; where
    ``periodic`` they are ``x[n-1]`` and ``x[0]``.

    Args:
      dl: the diagonal below the middle, an array of numeric dtype or a number. It has the
        dimensions of ``b``, each in full or 1, or only the leading ones of them; what is missing is
        shared, so that ``b`` of shape (n, k) holds k right-hand sides of one matrix. Where it is 1
        along ``axis`` it is written out. Its first element counts only where ``periodic``.
      d: the diagonal, like ``dl``.
      du: the diagonal above it, like ``dl``. Its last element counts only where ``periodic``.
      b: the right-hand sides, an array of numeric dtype.
      axis: the axis of ``b`` that the diagonals run along, counted from the end where negative. For
        ``jax.lax.linalg.tridiagonal_solve`` it is -2, behind which are the right-hand sides.
      periodic: the last unknown is beside the first. Of two, each is on both sides of the other;
        one is beside itself, and the three elements add up.

    Returns:
      An array of the shape that all have together, in the dtype to which JAX promotes them.
      float16 and bfloat16 are solved in float32 and rounded once at the end.

    Raises:
      TypeError: an argument is not of a numeric dtype, or all of them are integers.
      ValueError: ``axis`` or a shape does not fit; the dtypes do not promote to one; the axis has
        2^31 elements or more.

    Nothing is pivoted, which takes a diagonal that dominates its rows or its columns. For a real
    matrix whose rows are dominated by a tenth, ``|d[i]| >= 1.1 (|dl[i]| + |du[i]|)``, the residual
    of each row is promised: ``|b - A x|[i] <= 4 eps ((|dl[i]| + |d[i]| + |du[i]|) max |x| +
    |b[i]|)``. It was 3.2 eps at most for lengths to 10^5 and elements that differ by 10^12. Where
    columns are, ``|d[i]| >= 1.1 (|dl[i+1]| + |du[i-1]|)``, the sum of all is: ``sum |b - A x| <=
    4 eps sum (|A| |x| + |b|)``; it was 1.2 eps. Where ``periodic`` both may be twice as large:
    less than 7 and 4 eps in samples of 200,000 small systems of each kind.

    Where rows are just dominated the pivots stay as accurate, but a tree of scans may lose some in
    ``x`` by its order: 24 eps at most of random rows 10^5 long, 0.7 of a Laplacian. One step more,
    ``x + tridiagonal_solve(dl, d, du, b - A x)``, left 0.7 eps of each. A Laplacian's solution is
    more accurate than that of elimination, since nothing cancels in its pivots: of 1000 unknowns in
    float32 its error is 1e-6, and that of elimination 3e-4.

    For any other matrix ``jax.lax.linalg.tridiagonal_solve`` is there, which pivots on a CPU. Here
    digits are lost, and more of them than by elimination without pivots: of 1000 rows with a
    diagonal of 1.5 between ones, two to five of float32's seven. A pivot of 0 divides by 0: of a
    singular matrix, and of one whose first rows and columns are a singular one. The result is then
    infinite or NaN, in its own system alone; of a matrix that is singular but for roundings, as
    large as 1 / eps. ``jnp.isfinite(x).all()`` and the residual tell. No value raises an error.

    Derivatives are those of the solution: each is one more solution by the same pivots, of the
    transposed matrix in a gradient. A kernel that solves whole systems computes the pivots again.

    Cost: three scans. One is for the pivots, by a map of three coefficients, once for all
    right-hand sides that share a matrix; two are linear recurrences, one there and one back. Before
    them the matrix is read to see whether rows or columns are dominated. Where ``periodic``, two
    more recurrences for each matrix. On a GPU, all this is one pass over the operands where each
    right-hand side has a real matrix of its own, of 4096 unknowns at most, or exactly 8192, half as
    many of float64; of 512 where other dimensions lie behind the axis.

    Sources: Stone, *An Efficient Parallel Algorithm for the Solution of a Tridiagonal Linear System
    of Equations* (1973); Blelloch, *Prefix Sums and Their Applications* (1990), §1.4; Kass and
    Miller, *Rapid, Stable Fluid Dynamics for Computer Graphics* (1990), which Sengupta et al.,
    *Scan Primitives for GPU Computing* (2007), solve by scans; Alfa, Xue and Ye, *Accurate
    Computation of the Smallest Eigenvalue of a Diagonally Dominant M-Matrix* (2002), for the excess
    of pivots.

    Example:
      >>> import jax.numpy as jnp
      >>> import jscan
      >>> print(jscan.tridiagonal_solve(-1.0, 2.0, -1.0, jnp.array([0.0, 0.0, 4.0])))
      [1. 2. 3.]
      >>> x = jscan.tridiagonal_solve(-1.0, 4.0, -1.0, jnp.array([2.0, 4.0, 6.0]), periodic=True)
      >>> print((10 * x).round())
      [16. 20. 24.]

      Three steps of heat in a rod, implicitly:

      >>> heat = jnp.zeros(5).at[2].set(1.0)
      >>> for _ in range(3):
      ...     heat = jscan.tridiagonal_solve(-1.0, 3.0, -1.0, heat)
      >>> print((1000 * heat).round())
      [ 71. 139. 179. 139.  71.]
    """
    return _tridiagonal_solve(dl, d, du, b, axis, periodic)


@compiled(number, number, number, elements, int, bool)
@meshes.automatic(lambda given: ([given[name] for name in ("b", "d", "dl", "du")], meshes.same))
def _tridiagonal_solve(dl: Any, d: Any, du: Any, b: Any, axis: int, periodic: bool) -> jax.Array:
    """The solution for arrays."""
    caller = "jscan.tridiagonal_solve"
    given = {"dl": dl, "d": d, "du": du, "b": b}
    given = {name: as_array(caller, name, value) for name, value in given.items()}
    axis = as_axis(caller, "b", axis, given["b"].shape)
    periodic = as_switch(caller, "periodic", periodic)
    shape = common_shape(caller, given, "b")
    extent.check_places(caller, "b", given["b"], axis)
    dtype = common_dtype(caller, given)
    if not jnp.issubdtype(dtype, jnp.inexact):
        raise TypeError(
            f"{caller}: dl, d, du and b must promote to a float or complex dtype; got {dtype}"
        )
    wide = accumulation_dtype(dtype)
    whole = {name: spread_along(x.astype(wide), shape, axis) for name, x in given.items()}
    whole["b"] = jnp.broadcast_to(whole["b"], shape)
    below, middle, above, right = extent.vary_alike([*whole.values()])
    if shape[axis] == 0:
        return right.astype(dtype)
    if periodic and shape[axis] == 1:
        below, middle, above = below, below + middle + above, above
        periodic = False
    known = lax.stop_gradient(Matrix(below, middle, above, axis))
    solver = (_Periodic if periodic else Factors).of(known)
    if not periodic:
        below, above = without(below, 0, axis), without(above, -1, axis)
    matrix = Matrix(below, middle, above, axis)
    x: jax.Array = lax.custom_linear_solve(
        matrix.times,
        right,
        lambda _, y: solver.solve(y),
        lambda _, y: solver.solve_transposed(y),
    )
    return x.astype(dtype)


@dataclasses.dataclass(frozen=True)
class _Periodic:
    """A matrix with corners as ``T + u v``, by Sherman and Morrison.

    ``u`` is a column and ``v`` a row with two elements each, the first and the last. The first
    element of the diagonal of T is twice that of the matrix, so that T is dominated by its diagonal
    where the matrix is.
    """

    factors: Factors
    column: tuple[jax.Array, jax.Array]
    row: tuple[jax.Array, jax.Array]

    @classmethod
    def of(cls, matrix: Matrix) -> _Periodic:
        """The parts of a matrix."""
        axis = matrix.axis
        n = matrix.middle.shape[axis]
        first = lax.slice_in_dim(matrix.middle, 0, 1, axis=axis)
        top = lax.slice_in_dim(matrix.below, 0, 1, axis=axis)
        bottom = lax.slice_in_dim(matrix.above, n - 1, n, axis=axis)
        pivot = jnp.where(first == 0, jnp.ones_like(first), -first)
        column, row = (pivot, bottom), (jnp.ones_like(pivot), top / pivot)
        places = lax.broadcasted_iota(jnp.int32, matrix.middle.shape, axis)
        taken = jnp.where(places == 0, pivot, 0) + jnp.where(places == n - 1, bottom * row[1], 0)
        rest = dataclasses.replace(matrix, middle=matrix.middle - taken)
        return cls(Factors.of(rest), column, row)

    def solve(self, b: jax.Array) -> jax.Array:
        """The solution for ``b``."""
        return self._corrected(self.factors.solve, self.column, self.row, b)

    def solve_transposed(self, b: jax.Array) -> jax.Array:
        """The solution of the transposed system."""
        return self._corrected(self.factors.solve_transposed, self.row, self.column, b)

    def _corrected(
        self,
        solve: Callable[[jax.Array], jax.Array],
        column: tuple[jax.Array, jax.Array],
        row: tuple[jax.Array, jax.Array],
        b: jax.Array,
    ) -> jax.Array:
        """``(T + u v)^-1 b = x - y (v x) / (1 + v y)`` with ``T x = b`` and ``T y = u``."""
        axis = self.factors.matrix.axis
        shape = self.factors.matrix.middle.shape
        n = shape[axis]
        places = lax.broadcasted_iota(jnp.int32, shape, axis)
        u = jnp.where(places == 0, column[0], 0) + jnp.where(places == n - 1, column[1], 0)

        def along_row(x: jax.Array) -> jax.Array:
            ends = (lax.slice_in_dim(x, i, i + 1, axis=axis) for i in (0, n - 1))
            first, last = (part * end for part, end in zip(row, ends, strict=True))
            return first + last

        x, y = solve(b), solve(u)
        return x - y * (along_row(x) / (1 + along_row(y)))
