"""Products of sparse matrices in compressed rows, over any pair of operators by name."""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from jscan import meshes, reductions
from jscan.advice import advised
from jscan.arguments.arrays import as_array, as_integers
from jscan.arguments.descriptors import as_vector, bounds_of_offsets, is_known
from jscan.arguments.scalars import as_count, as_switch
from jscan.combine import accumulation_dtype
from jscan.described import can_be_read, describe
from jscan.eager import NONE, UNFIT, compiled, elements
from jscan.multiplication import Operands, product
from jscan.pairs import PAIRS, multiplied
from jscan.plain.products import products
from jscan.segments import Segments

__all__ = ["csr_matmat", "csr_matvec"]


SCATTERS = {
    "sum-product": reductions.segment_sum,
    "max-plus": reductions.segment_max,
    "min-plus": reductions.segment_min,
    "or-and": reductions.segment_max,
}
"""What adds up the products of a transposed matrix, by the names of pairs."""


@advised
def csr_matvec(
    values: Any,
    indices: Any,
    offsets: Any,
    x: Any,
    *,
    operators: str = "sum-product",
    transpose: bool = False,
    length: int | None = None,
) -> jax.Array:
    """Product of a sparse matrix in compressed rows (CSR) with a vector.

    ``y[i] = sum of values[k] * x[indices[k]] over offsets[i] <= k < offsets[i + 1]``, and of a row
    without entries 0. With another pair of operators, "max-plus" for one, the largest of
    ``values[k] + x[indices[k]]``, and the identity of the maximum where there is none.

    Args:
      values: ``(entries,)``, the entries of the matrix, row by row; any dtype that has the
        operators. A scalar is taken for all entries. Of a ``jax.experimental.sparse.BCSR`` or a CSR
        matrix of SciPy these are ``matrix.data``, ``matrix.indices`` and ``matrix.indptr``, and
        ``BCSR((values, indices, offsets), shape=shape)`` or, of arrays of NumPy, SciPy's
        ``csr_array((values, indices, offsets), shape=shape)`` is made of the three.
      indices: ``(entries,)``, any integer dtype: the column of each entry, in any order within a
        row; equal ones are added up. Entries whose column is negative or not below the number of
        columns are dropped.
      offsets: ``(rows + 1,)``, any integer dtype: where each row's entries begin, as for
        ``jscan.Segments.from_offsets``. Entries from the last offset on are dropped.
      x: ``(columns,)``, or ``(rows,)`` of a transposed matrix.
      operators: "sum-product"; "max-plus" or "min-plus", of paths; "or-and", of reachable places,
        for which anything but zero is true.
      transpose: whether the transposed matrix is multiplied: ``y[indices[k]] += values[k] * x[row
        of k]``. It scatters, but for the order of what is added the same in every run of it.
      length: the number of columns, static; needed with ``transpose``, and only there.

    Returns:
      An array ``(rows,)``, or ``(length,)`` of a transposed matrix, of the dtype to which those of
      ``values`` and ``x`` promote; of "or-and", bool. float16 and bfloat16 are multiplied and added
      in float32 and rounded once at the end; integers wrap.

    Raises:
      TypeError: an argument is no array, ``indices`` or ``offsets`` are not of an integer dtype, or
        the operators do not take the dtype.
      ValueError: a shape or ``length`` does not fit, concrete ``offsets`` fall or do not end at the
        number of entries, or there are no operators of that name.

    It is differentiable in ``values`` and ``x``; the derivative of ``x`` scatters. On a CUDA GPU
    values and indices are read once by kernels that gather, multiply and add up: rows of seven
    entries or fewer on average several to a program, other matrices and long rows by programs that
    take equal numbers of entries. What they make is in no memory, but for ``transpose`` and in
    derivatives by extrema.

    Sources: Blelloch, Heroux and Zagha, *Segmented Operations for Sparse Matrix Computation on
    Vector Multiprocessors* (1993); Sengupta et al., *Scan Primitives for GPU Computing* (2007);
    Bell and Garland, *Implementing Sparse Matrix-Vector Multiplication on Throughput-Oriented
    Processors* (2009).

    Example:
      >>> import jax.numpy as jnp
      >>> import jscan
      >>> values = jnp.array([2.0, 1.0, 3.0])  # of [[0, 2, 1], [0, 0, 0], [3, 0, 0]]
      >>> indices, offsets = jnp.array([1, 2, 0]), jnp.array([0, 2, 2, 3])
      >>> print(jscan.csr_matvec(values, indices, offsets, jnp.array([1.0, 10.0, 100.0])))
      [120.   0.   3.]
      >>> x = jnp.array([1.0, 10.0, 100.0])
      >>> print(jscan.csr_matvec(values, indices, offsets, x, transpose=True, length=3))
      [300.   2.   1.]
      >>> edges = jnp.array([4.0, 1.0, 7.0])
      >>> far = jnp.array([0.0, jnp.inf, 2.0])
      >>> print(jscan.csr_matvec(edges, indices, offsets, far, operators="min-plus"))
      [ 3. inf  7.]
    """
    matrix = _matrix("jscan.csr_matvec", values, indices, offsets)
    return _product(*matrix, x, "jscan.csr_matvec", operators, transpose, length)


@advised
def csr_matmat(
    values: Any,
    indices: Any,
    offsets: Any,
    x: Any,
    *,
    operators: str = "sum-product",
    transpose: bool = False,
    length: int | None = None,
) -> jax.Array:
    """Product of a sparse matrix in compressed rows (CSR) with a dense one of few columns.

    ``y[i, j] = sum of values[k] * x[indices[k], j] over offsets[i] <= k < offsets[i + 1]``

    Args:
      values: as for ``jscan.csr_matvec``.
      indices: the column of each entry.
      offsets: where each row's entries begin.
      x: ``(columns, width)``, or ``(rows, width)`` of a transposed matrix.
      operators: as for ``jscan.csr_matvec``.
      transpose: whether the transposed matrix is multiplied.
      length: the number of columns, static; needed with ``transpose``, and only there.

    Returns:
      An array ``(rows, width)``, or ``(length, width)`` of a transposed matrix; its dtype is as for
      ``jscan.csr_matvec``.

    Raises:
      TypeError, ValueError: as for ``jscan.csr_matvec``.

    On a CUDA GPU products are made as for ``jscan.csr_matvec``; up to 16 columns of ``x`` share one
    search of their rows, and for more the row of each entry is held in memory. On a CPU those of 2
    to 64 columns of float32 are in no memory either; elsewhere ``entries * width`` products are.

    Sources: as for ``jscan.csr_matvec``.

    Example:
      >>> import jax.numpy as jnp
      >>> import jscan
      >>> values = jnp.array([2, 1, 3])  # of [[0, 2, 1], [0, 0, 0], [3, 0, 0]]
      >>> indices, offsets = jnp.array([1, 2, 0]), jnp.array([0, 2, 2, 3])
      >>> print(jscan.csr_matmat(values, indices, offsets, jnp.arange(6).reshape(3, 2)))
      [[ 8 11]
       [ 0  0]
       [ 0  3]]
    """
    matrix = _matrix("jscan.csr_matmat", values, indices, offsets)
    return _product(*matrix, x, "jscan.csr_matmat", operators, transpose, length)


def _matrix(caller: str, values: Any, indices: Any, offsets: Any) -> tuple[Any, Any, Segments]:
    """The entries of a matrix, their columns, and the rows that they are divided into."""
    entries = as_array(caller, "values", values)
    columns = as_integers(caller, "indices", indices, allow_bool=False)
    if columns.ndim != 1:
        raise ValueError(f"{caller}: indices must be one-dimensional; got shape {columns.shape}")
    if entries.shape not in ((), columns.shape):
        raise ValueError(
            f"{caller}: values must have the shape of indices, {columns.shape}, or be a scalar; "
            f"got shape {entries.shape}"
        )
    bounds = as_vector(caller, "offsets", offsets)
    if bounds.shape[0] == 0:
        raise ValueError(
            f"{caller}: offsets must have one entry more than there are rows; got none"
        )
    if is_known(bounds):
        bounds = bounds_of_offsets(caller, bounds, columns.shape[0])
    return entries, columns, Segments.from_offsets(bounds, columns.shape[0])


def _checked(caller: str, name: Any) -> str:
    """The name of a pair of operators."""
    if isinstance(name, str) and name in PAIRS:
        return name
    kind = ValueError if isinstance(name, str) else TypeError
    raise kind(f"{caller}: operators must be one of {', '.join(map(repr, PAIRS))}; got {name!r}")


def _untraced(rows: Segments) -> Any:
    return rows if can_be_read(rows) else UNFIT


@compiled(elements, elements, _untraced, elements, str, str, bool, (int, NONE))
@meshes.automatic(lambda given: (given["x"], meshes.same))
def _product(
    values: jax.Array,
    indices: Any,
    rows: Segments,
    x: Any,
    caller: str,
    operators: str,
    transpose: bool,
    length: int | None,
) -> jax.Array:
    """The product with a vector or, as the caller's name says, with a matrix."""
    pair, trailing = _checked(caller, operators), int(caller.endswith("matmat"))
    columns = jnp.asarray(indices)
    dense = as_array(caller, "x", x)
    if dense.ndim != 1 + trailing:
        raise ValueError(f"{caller}: x must have {1 + trailing} dimensions; got {dense.shape}")
    dtype = _dtype(caller, pair, values, dense)
    wide = accumulation_dtype(dtype)
    count = rows.num_segments
    assert count is not None, "offsets tell the number of rows"
    across = as_count(caller, "length", length)
    if as_switch(caller, "transpose", transpose):
        if across is None:
            raise ValueError(f"{caller}: length, the number of columns, is needed with transpose")
        if dense.shape[0] != count:
            raise ValueError(
                f"{caller}: x must have a length of {count}, the number of rows; got {dense.shape}"
            )
        made = _made(pair, values, dense, rows.ids, wide)
        return SCATTERS[pair](made, columns, across).astype(dtype)
    if across is not None:
        raise ValueError(f"{caller}: length goes with transpose=True; x tells the columns here")
    entries = [values]
    if values.ndim == 0:
        # What all entries make of an element is made once.
        entries, dense = [], multiplied(pair, values, dense, wide)

    def beside(x: jax.Array) -> jax.Array:
        return x[:, None] if trailing else x

    kind, bounds = describe(rows)
    assert kind == "offsets", "rows are told by offsets"
    given = Operands([beside(x) for x in entries], beside(columns), dense, beside(bounds))
    return product(given, pair=pair, axis=0, num_segments=count, dtype=dtype)


def _dtype(caller: str, pair: str, entries: jax.Array, dense: jax.Array) -> np.dtype:
    """The dtype of the result."""
    if pair == "or-and":
        return np.dtype(bool)
    dtype = jnp.result_type(entries, dense)
    ordered = pair != "sum-product"
    if dtype == jnp.bool_ or (ordered and dtype.kind == "c"):
        raise TypeError(f"{caller}: operators {pair!r} do not take {dtype} values and x")
    return np.dtype(dtype)


def _made(
    pair: str, entries: jax.Array, dense: jax.Array, rows: jax.Array, dtype: np.dtype
) -> jax.Array:
    """What each entry makes of the element of its row; the identity where there is none."""
    over = (slice(None),) + (None,) * (dense.ndim - 1)
    entries = jnp.broadcast_to(entries, rows.shape)[over]
    return products([entries], rows[over], dense, pair=pair, axis=0, dtype=dtype)
