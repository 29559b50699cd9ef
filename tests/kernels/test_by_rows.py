"""Products by kernels that take several rows to a program, against loops."""

from __future__ import annotations

from typing import Any

import jax
import numpy as np
import pytest

import jscan
from jscan import primitives, traced_bounds
from jscan.kernels import tuning
from jscan.kernels.tuning import rows_of_products as choice
from tests import reference
from tests.kernels.test_products import CASES, COLUMNS, drawn, looped, product

SMALL: dict[str, dict[str, Any]] = {
    # Lanes take whole rows, or what is left of a row is taken by the program; and no row is long.
    "one lane": {"SINGLE": 8, "ALONE": 64, "LONG": (10**6, 10**6)},
    "several lanes": {"SINGLE": 1, "STEPS": 2, "ALONE": 8, "LONG": (10**6, 10**6)},
    "long rows": {"SINGLE": 8, "ALONE": 8, "LONG": (16, 16)},
    "hardly any short ones": {"SINGLE": 1, "STEPS": 1, "ALONE": 8, "LONG": (2, 2)},
}


@pytest.fixture(params=SMALL, autouse=True)
def small(request, monkeypatch):
    """Programs of few rows, and tiles of few entries for those that are long."""
    for name, value in {"ELEMENTS": 8, "LEAST": 0, **SMALL[request.param]}.items():
        monkeypatch.setattr(choice, name, value)

    def chosen(shape, method, ways):
        del method, ways
        lanes = 1 if shape.inner == 1 else 4
        return tuning.Tuning(length=16, lanes=lanes, warps=1, window=4, strip=8)

    monkeypatch.setattr(tuning, "chosen", chosen)
    jax.clear_caches()  # a program does not know of constants that were other ones
    yield
    jax.clear_caches()


@pytest.mark.product
@pytest.mark.parametrize(("dtype", "width", "pair"), CASES)
def test_rows_of_small_programs(dtype, width, pair):
    with jax.enable_x64(dtype == "float64"):
        given = drawn(dtype, width=width)
        with primitives.interpreted():
            found = product(*given, operators=pair)
        expected = looped(*given, pair=pair)
    assert found.dtype == expected.dtype
    np.testing.assert_array_equal(np.asarray(found), expected)


@pytest.mark.product
@pytest.mark.parametrize("lengths", [[0] * 9, [100], [0, 40, 33, 0, 17, 50, 1], [1, 0, 2] * 11])
def test_rows_of_any_length(lengths):
    offsets = np.append(0, np.cumsum(lengths)).astype(np.int32)
    entries = int(offsets[-1]) + 5  # what is behind the last offset is in no row
    rng = np.random.default_rng(len(lengths))
    columns = rng.integers(-1, COLUMNS + 1, entries).astype(np.int32)
    values = rng.integers(-4, 5, entries).astype(np.float32)
    x = rng.integers(-4, 5, COLUMNS).astype(np.float32)
    with primitives.interpreted():
        found = jax.jit(lambda *given: product(*given))(values, columns, offsets, x)
    reference.assert_equal(
        np.asarray(found), looped(values, columns, offsets, x, pair="sum-product")
    )


@pytest.mark.product
@pytest.mark.parametrize("mapped", [(0, 0, 0, 0), (None, None, None, 0), (0, None, None, None)])
@pytest.mark.parametrize("width", [None, 3])
def test_batches(mapped, width):
    drawn_ones = [drawn("float32", width=width, seed=seed) for seed in range(3)]
    given = [
        np.stack(each) if axis == 0 else each[0]
        for each, axis in zip(zip(*drawn_ones, strict=True), mapped, strict=True)
    ]
    with primitives.interpreted():
        found = jax.vmap(product, in_axes=mapped)(*given)
    for number, result in enumerate(np.asarray(found)):
        own = [x[number] if axis == 0 else x for x, axis in zip(given, mapped, strict=True)]
        values, columns, offsets, x = own
        reference.assert_equal(result, looped(values, columns, offsets, x, pair="sum-product"))


@pytest.mark.product
@pytest.mark.parametrize("many", [0, traced_bounds.MANY])
def test_offsets_that_misfit_read_nothing_out_of_bounds(monkeypatch, many):
    monkeypatch.setattr(traced_bounds, "MANY", many)
    values, columns, _, x = drawn("float32", width=None)
    offsets = np.array([5, -3, 8, 4, 10**6, 30], np.int32)
    risen = np.array([0, 4, 4, 4, 30, 30], np.int32)
    with primitives.interpreted():
        found = jax.jit(lambda *given: jscan.csr_matvec(*given))(values, columns, offsets, x)
    expected = looped(values, columns, risen, x, pair="sum-product")
    reference.assert_equal(np.asarray(found), expected)
