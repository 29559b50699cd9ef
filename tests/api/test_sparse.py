"""Products of sparse matrices in compressed rows, against loops and SciPy."""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import scipy.sparse
from jax.experimental.sparse import BCSR
from jax.test_util import check_grads

import jscan
from tests import reference

PAIRS: dict[str, tuple[Any, Any, float]] = {
    "sum-product": (np.add, np.multiply, 0),
    "max-plus": (np.maximum, np.add, -np.inf),
    "min-plus": (np.minimum, np.add, np.inf),
}


def matrix(rows: int, columns: int, seed: int = 0, share: float = 0.2) -> Any:
    """A matrix with an empty row at either end, and one that is full."""
    rng = np.random.default_rng(seed)
    dense = np.where(rng.random((rows, columns)) < share, rng.integers(1, 5, (rows, columns)), 0)
    if rows > 2:
        dense[0] = dense[-1] = 0
        dense[1] = 3
    return scipy.sparse.csr_array(dense.astype(np.float32))


def looped(m: Any, x: Any, pair: str = "sum-product", *, transpose: bool = False) -> Any:
    """The product, one entry at a time."""
    add, multiply, empty = PAIRS[pair]
    y = np.full((m.shape[int(transpose)], *x.shape[1:]), empty, np.float64)
    for row in range(m.shape[0]):
        for k in range(m.indptr[row], m.indptr[row + 1]):
            column = m.indices[k]
            into, of = (column, row) if transpose else (row, column)
            y[into] = add(y[into], multiply(m.data[k], x[of]))
    return y


@pytest.mark.sweep
@pytest.mark.parametrize("pair", PAIRS)
@pytest.mark.parametrize("transpose", [False, True])
@pytest.mark.parametrize("shape", [(13, 9), (1, 5), (5, 1), (40, 300)])
@pytest.mark.parametrize("width", [None, 1, 3])
def test_pairs(width, shape, transpose, pair):
    m = matrix(*shape)
    count = shape[0] if transpose else shape[1]
    dims = (count,) if width is None else (count, width)
    x = np.random.default_rng(1).integers(-3, 4, dims).astype(np.float32)
    product = jscan.csr_matvec if width is None else jscan.csr_matmat
    form: dict[str, Any] = {"transpose": True, "length": shape[1]} if transpose else {}
    found = product(m.data, m.indices, m.indptr, x, operators=pair, **form)
    expected = looped(m, x, pair, transpose=transpose).astype(np.float32)
    reference.assert_equal(np.asarray(found), expected)
    run = jax.jit(lambda *given: product(*given, operators=pair, **form))
    reference.assert_equal(np.asarray(run(m.data, m.indices, m.indptr, x)), expected)


@pytest.mark.parametrize("dtype", ["int8", "uint32", "int32", "float16", "bfloat16", "complex64"])
def test_dtypes(dtype):
    m = matrix(13, 9)
    x = jnp.arange(9).astype(dtype)
    found = jscan.csr_matvec(jnp.asarray(m.data).astype(dtype), m.indices, m.indptr, x)
    assert found.dtype == dtype
    expected = jnp.asarray(looped(m, np.arange(9))).astype(dtype)
    np.testing.assert_array_equal(np.asarray(found), np.asarray(expected))


def test_halves_are_rounded_once():
    ones, columns = np.ones(4096, np.float16), np.zeros(4096, np.int32)
    x = jnp.array([1.0009765625], jnp.float16)
    found = jscan.csr_matvec(ones, columns, np.array([0, 4096]), x)
    np.testing.assert_array_equal(found, [np.float16(4096 * 1.0009765625)])


def test_reachable_places():
    m = matrix(20, 20, seed=3)
    here = np.zeros(20, bool)
    here[[4, 7]] = True
    found = jscan.csr_matvec(m.data, m.indices, m.indptr, here, operators="or-and")
    reference.assert_equal(np.asarray(found), (m.toarray() != 0) @ here)
    form: dict[str, Any] = {"operators": "or-and", "transpose": True, "length": 20}
    found = jscan.csr_matvec(m.data, m.indices, m.indptr, here, **form)
    reference.assert_equal(np.asarray(found), (m.toarray().T != 0) @ here)


def test_the_matrices_of_other_packages():
    m, x = matrix(13, 9), np.arange(9, dtype=np.float32)
    found = jscan.csr_matvec(m.data, m.indices, m.indptr, x)
    np.testing.assert_array_equal(found, m @ x)
    sparse = BCSR.from_scipy_sparse(m)
    given = sparse.data, sparse.indices, sparse.indptr
    np.testing.assert_array_equal(jscan.csr_matvec(*given, x), m @ x)

    @jax.jit
    def product(sparse: BCSR, x: jax.Array) -> jax.Array:
        return jscan.csr_matvec(sparse.data, sparse.indices, sparse.indptr, x)

    np.testing.assert_array_equal(product(sparse, x), m @ x)


def test_matrices_for_other_packages():
    values = jnp.array([2.0, 1.0, 3.0])
    indices, offsets = jnp.array([1, 2, 0]), jnp.array([0, 2, 2, 3])
    x = jnp.array([1.0, 10.0, 100.0])
    expected = np.array([120, 0, 3], np.float32)
    np.testing.assert_array_equal(jscan.csr_matvec(values, indices, offsets, x), expected)
    np.testing.assert_array_equal(BCSR((values, indices, offsets), shape=(3, 3)) @ x, expected)
    arrays = tuple(map(np.asarray, (values, indices, offsets)))
    found = scipy.sparse.csr_array(arrays, shape=(3, 3)) @ np.asarray(x)
    np.testing.assert_array_equal(found, expected)


def test_columns_that_do_not_exist_are_dropped():
    offsets = np.array([0, 3, 3, 5])
    columns = np.array([0, -1, 2, 3, 1], np.int32)  # of three columns
    values, x = np.array([1.0, 10, 100, 1000, 10000], np.float32), np.ones(3, np.float32)
    found = jscan.csr_matvec(values, columns, offsets, x)
    reference.assert_equal(np.asarray(found), np.array([101, 0, 10000], np.float32))
    found = jscan.csr_matvec(values, columns, offsets, x, transpose=True, length=3)
    reference.assert_equal(np.asarray(found), np.array([1, 10000, 100], np.float32))


def test_entries_past_the_last_offset_are_dropped():
    @jax.jit
    def run(offsets, x):
        return jscan.csr_matvec(jnp.ones(6), jnp.zeros(6, int), offsets, x)

    reference.assert_equal(
        np.asarray(run(np.array([0, 2, 4]), np.ones(1))), np.array([2, 2.0], "f4")
    )


@pytest.mark.parametrize("transpose", [False, True])
@pytest.mark.parametrize("shape", [(0, 4), (4, 0), (3, 3)])
def test_no_entries(shape, transpose):
    offsets, none = np.zeros(shape[0] + 1, np.int32), np.zeros(0, np.int32)
    x = np.ones(shape[0] if transpose else shape[1], np.float32)
    form: dict[str, Any] = {"transpose": True, "length": shape[1]} if transpose else {}
    found = jscan.csr_matvec(np.zeros(0, np.float32), none, offsets, x, **form)
    reference.assert_equal(np.asarray(found), np.zeros(shape[int(transpose)], np.float32))


@pytest.mark.parametrize("transpose", [False, True])
def test_derivatives(transpose):
    m = matrix(7, 5)
    x = np.random.default_rng(0).normal(size=7 if transpose else 5).astype(np.float32)
    form: dict[str, Any] = {"transpose": True, "length": 5} if transpose else {}

    def product(values: Any, x: Any) -> Any:
        return jnp.sin(jscan.csr_matvec(values, m.indices, m.indptr, x, **form))

    check_grads(jax.jit(product), (m.data / 4, x / 4), order=2, atol=2e-2, rtol=2e-2)


def test_vmap_over_each_operand():
    m, x = matrix(13, 9), np.arange(18, dtype=np.float32).reshape(2, 9)
    single = jscan.csr_matvec
    values = np.stack([m.data, 2 * m.data])
    columns = np.stack([m.indices, m.indices[::-1]])
    offsets = np.stack([m.indptr, np.minimum(m.indptr, m.indptr[-1] // 2)])
    given = [values, columns, offsets, x]
    for mapped in ([0], [1], [2], [3], [0, 3], [0, 1, 2, 3]):
        axes = [0 if i in mapped else None for i in range(4)]
        operands = [a if i in mapped else a[0] for i, a in enumerate(given)]
        found = jax.vmap(single, axes)(*operands)
        for row in range(2):
            one = [a[row] if i in mapped else a for i, a in enumerate(operands)]
            traced = jax.jit(single)(*one)
            np.testing.assert_array_equal(found[row], traced)


def test_what_does_not_fit():
    m, x = matrix(4, 3), np.ones(3, np.float32)
    given = m.data, m.indices, m.indptr

    def raises(kind: type[Exception], match: str, *operands: Any, **form: Any) -> None:
        with pytest.raises(kind, match=match):
            jscan.csr_matvec(*operands, **form)

    raises(ValueError, "operators must be one of", *given, x, operators="plus")
    raises(ValueError, "length, the number of columns, is needed", *given, x, transpose=True)
    raises(ValueError, "length goes with transpose", *given, x, length=3)
    raises(ValueError, "x must have a length of 4", *given, x, transpose=True, length=3)
    raises(ValueError, "x must have 1 dimensions", *given, np.ones((3, 1), np.float32))
    raises(ValueError, "values must have the shape of indices", m.data[1:], *given[1:], x)
    raises(ValueError, "indices must be one-dimensional", m.data, m.indices[None], m.indptr, x)
    raises(TypeError, "indices", m.data, m.data, m.indptr, x)
    raises(TypeError, "offsets", m.data, m.indices, m.data, x)
    raises(ValueError, "offsets", m.data, m.indices, m.indptr[::-1].copy(), x)
    wide = m.data.astype(np.complex64), *given[1:], x.astype(np.complex64)
    raises(TypeError, "do not take complex64", *wide, operators="max-plus")
    raises(TypeError, "do not take bool", m.data > 0, *given[1:], x > 0)
