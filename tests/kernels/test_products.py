"""Products of sparse matrices by the kernel that makes them as it reduces, against loops."""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import scipy.sparse

import jscan
from jscan import extent, primitives
from jscan.kernels import tuning
from tests import reference
from tests.engines import on_engines
from tests.kernels.test_lowering import array, calls, cuda_program

PAIRS: dict[str, tuple[Any, Any]] = {
    "sum-product": (np.add, np.multiply),
    "max-plus": (np.maximum, np.add),
    "min-plus": (np.minimum, np.add),
    "or-and": (np.logical_or, np.logical_and),
}
ROWS, COLUMNS, ENTRIES = 13, 9, 70


def drawn(dtype: str, *, width: int | None, seed: int = 0) -> tuple[Any, Any, Any, Any]:
    """Entries, columns of which some do not exist, rows of which some are empty, and elements."""
    rng = np.random.default_rng(seed)

    def numbers(*shape: int) -> Any:
        low = 0 if dtype[0] in "ub" else -4
        high = 2 if dtype == "bool" else 5
        return np.asarray(jnp.asarray(rng.integers(low, high, shape)).astype(dtype))

    ends = np.sort(rng.choice([0, 3, 20, 21, 60, ENTRIES], ROWS - 1))
    offsets = np.array([0, *ends, ENTRIES], np.int32)
    columns = rng.integers(-2, COLUMNS + 2, ENTRIES).astype(np.int32)
    x = numbers(COLUMNS) if width is None else numbers(COLUMNS, width)
    return numbers(ENTRIES), columns, offsets, x


def looped(values: Any, columns: Any, offsets: Any, x: Any, pair: str) -> Any:
    """The product, one entry at a time, of numbers that neither round nor wrap."""
    add, multiply = PAIRS[pair]
    dtype = np.result_type(np.float64, x.dtype) if x.dtype.kind in "fcV" else x.dtype
    operator = {"sum-product": "add", "max-plus": "max", "min-plus": "min", "or-and": "bitwise_or"}
    kind = np.dtype(bool) if pair == "or-and" else jnp.dtype(x.dtype)
    empty = np.asarray(getattr(jscan.operators, operator[pair]).identity(kind))
    values, dense = (np.asarray(given).astype(dtype) for given in (values, x))
    y = np.full((len(offsets) - 1, *x.shape[1:]), empty, kind if pair == "or-and" else dtype)
    for row in range(len(y)):
        for k in range(offsets[row], offsets[row + 1]):
            if 0 <= columns[k] < len(x):
                y[row] = add(y[row], multiply(values[k], dense[columns[k]]))
    return np.asarray(jnp.asarray(y).astype(kind))


def product(*given: Any, **how: Any) -> jax.Array:
    """The product with a vector or a matrix."""
    return (jscan.csr_matvec if given[-1].ndim == 1 else jscan.csr_matmat)(*given, **how)


CASES = (
    *(("float32", None, "sum-product"), ("bfloat16", 3, "sum-product")),
    *(("int8", None, "max-plus"), ("float32", 3, "min-plus"), ("complex64", 3, "sum-product")),
    *(("bool", None, "or-and"), ("float64", None, "sum-product")),
)


@pytest.mark.parametrize(("dtype", "width", "pair"), CASES)
def test_products_in_small_tiles(dtype, width, pair):
    lanes = 1 if width is None else 4
    tile = tuning.Tuning(length=16, lanes=lanes, warps=1, window=4, strip=8)
    with jax.enable_x64(dtype == "float64"):
        given = drawn(dtype, width=width)
        with primitives.interpreted(), primitives.tiled(tile):
            found = product(*given, operators=pair)
        expected = looped(*given, pair=pair)
    assert found.dtype == expected.dtype
    np.testing.assert_array_equal(np.asarray(found), expected)


@pytest.mark.parametrize("dtype", ["int8", "uint16", "uint32", "int64", "uint64"])
def test_columns_of_any_width(dtype):
    values, columns, offsets, x = drawn("float32", width=None)
    expected = looped(values, columns, offsets, x, pair="sum-product")
    with primitives.interpreted(), jax.enable_x64(dtype.endswith("64")):
        found = product(values, columns.astype(dtype), offsets, x)
    reference.assert_equal(np.asarray(found), expected)


@pytest.mark.parametrize("width", [None, 2, 40])
def test_one_value_for_all_entries(width):
    _, columns, offsets, x = drawn("float32", width=width)
    expected = looped(np.full(ENTRIES, 3.0), columns, offsets, x, pair="min-plus")
    with primitives.interpreted():
        found = product(np.float32(3), columns, offsets, x, operators="min-plus")
    reference.assert_equal(np.asarray(found), expected)


def test_operands_of_different_dtypes():
    values, columns, offsets, x = drawn("float32", width=None)
    expected = looped(values, columns, offsets, x, pair="sum-product")
    with primitives.interpreted(), jax.numpy_dtype_promotion("standard"):
        found = product(values.astype(np.int8), columns, offsets, x.astype(np.float16))
        assert found.dtype == np.float16
        np.testing.assert_array_equal(found, expected)
        reached = product(values, columns, offsets, x.astype(np.int32), operators="or-and")
        np.testing.assert_array_equal(reached, looped(values, columns, offsets, x, pair="or-and"))


def test_a_vector_too_long_for_places_is_gathered_before(monkeypatch):
    given = drawn("float32", width=None)
    monkeypatch.setattr(extent, "FAR", COLUMNS)
    with primitives.interpreted():
        found = jax.jit(lambda *given: product(*given))(*given)
    reference.assert_equal(np.asarray(found), looped(*given, pair="sum-product"))


@pytest.mark.product
@pytest.mark.parametrize("width", [None, 4])
@pytest.mark.parametrize("pair", ["sum-product", "max-plus"])
@pytest.mark.parametrize(("mean", "kernels"), [(4, 3), (16, 2)])
def test_neither_gathered_elements_nor_products_are_in_memory(mean, kernels, pair, width):
    n, rows = 1 << 20, (1 << 20) // mean
    x = jax.ShapeDtypeStruct((rows, *(() if width is None else (width,))), jnp.float32)
    operands = array(n), array(n, "int32"), array(rows + 1, "int32"), x
    program = cuda_program(lambda *given: product(*given, operators=pair), *operands)
    assert "jscan_reduce" in program
    assert "stablehlo.gather" not in program
    # A scan makes offsets rise that are traced; then come short rows, and those that are long.
    assert calls(program) == kernels


@pytest.mark.parametrize(("mean", "kernels"), [(4, 7), (16, 4)])
def test_tangents_of_sums_are_products(mean, kernels):
    n, rows = 1 << 20, (1 << 20) // mean
    operands = array(n), array(n, "int32"), array(rows + 1, "int32"), array(rows)

    def pushed(values: Any, columns: Any, offsets: Any, x: Any) -> Any:
        run = lambda values, x: jscan.csr_matvec(values, columns, offsets, x)  # noqa: E731
        return jax.jvp(run, (values, x), (jnp.sin(values), jnp.cos(x)))

    program = cuda_program(pushed, *operands)
    assert "stablehlo.gather" not in program
    assert calls(program) == kernels


@pytest.mark.automatic
@on_engines
@pytest.mark.parametrize("width", [None, 4])
@pytest.mark.parametrize("longest", [7, 5000])
def test_rows_of_any_length(longest, width):
    rng = np.random.default_rng(longest)
    lengths = rng.integers(0, 7, 800)
    lengths[123] = longest
    offsets = np.concatenate([[0], np.cumsum(lengths)]).astype(np.int32)
    columns = rng.integers(0, 500, offsets[-1]).astype(np.int32)
    values = rng.integers(-4, 5, len(columns)).astype(np.float32)
    x = rng.integers(-4, 5, (500,) if width is None else (500, width)).astype(np.float32)
    matrix = scipy.sparse.csr_array((values, columns, offsets), shape=(800, 500))
    reference.assert_equal(np.asarray(product(values, columns, offsets, x)), matrix @ x)
