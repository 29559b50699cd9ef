"""Sorts by segments and keys, one key after another as a GPU makes them, beside one sort."""

from __future__ import annotations

import functools
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import jscan
from jscan import primitives, sorting
from jscan.plain import sorts
from tests.cases import COMPLEX, INTEGERS, REAL

DTYPES = (*REAL, *COMPLEX, "float8_e4m3fn")


@pytest.fixture
def always(monkeypatch: pytest.MonkeyPatch) -> None:
    """However few elements there are, one key after another."""
    monkeypatch.setattr(sorts, "MANY", 1)
    monkeypatch.setattr(sorts, "SHORT", 0)


def drawn(shape: tuple[int, ...], dtype: str) -> Any:
    """Numbers of which many are equal, with both zeros, infinities and NaN of both signs."""
    rng = np.random.default_rng([*shape, len(dtype)])
    kind = jnp.dtype(dtype)
    if dtype in INTEGERS:
        limits = np.iinfo(dtype)
        special = np.array([limits.min, limits.min + 1, 0, 1, limits.max - 1, limits.max], kind)
        return special[rng.integers(0, len(special), shape)]
    special = np.array([-2, -1, -0.0, 0.0, 1, 2, np.nan, -np.nan, np.inf, -np.inf])
    x = special[rng.integers(0, len(special), shape)]
    if dtype in COMPLEX:
        x = x + 0j
        x.imag = special[rng.integers(0, len(special), shape)]
    return x.astype(kind)


def as_bits(x: Any) -> Any:
    """What tells zeros apart; what is not a number has any bits."""
    x = np.asarray(x)
    if x.dtype.kind == "c":
        return np.stack([as_bits(x.real), as_bits(x.imag)])
    return np.where(x != x, 1, x.view(f"uint{8 * x.dtype.itemsize}"))


@pytest.mark.parametrize(("shape", "axis"), [((29,), 0), ((2, 13, 3), 1)])
@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.usefixtures("always")
def test_one_key_after_another_is_one_sort(dtype: str, shape: tuple[int, ...], axis: int) -> None:
    """For shared numbers and those of each element, by places and by keys, both ways."""
    with jax.enable_x64(True):
        keys = jnp.asarray(drawn(shape, dtype))
        for shared in (True, False):
            sizes = [n if d == axis or not shared else 1 for d, n in enumerate(shape)]
            numbers = jnp.asarray(np.random.default_rng(3).integers(0, 4, sizes), jnp.int32)
            for emit, descending in (("places", False), ("places", True), ("keys", False)):
                how: dict[str, Any] = {"axis": axis, "emit": emit, "count": 3}
                how["descending"] = descending
                [expected] = sorts.sort_in_plain_jax(numbers, keys, **how)
                [found] = jax.jit(functools.partial(sorts.sort_on_gpu, **how))(numbers, keys)
                assert found.dtype == expected.dtype
                np.testing.assert_array_equal(as_bits(found), as_bits(expected))


@pytest.mark.parametrize("dtype", ["float8_e4m3fnuz", "float8_e5m2fnuz", "float8_e4m3fn"])
def test_what_is_not_a_number_is_last(dtype: str) -> None:
    """Of floats of 8 bits, too, in some of which it has the bits of a negative zero."""
    keys = jnp.asarray(np.array([1, np.nan, -2, 0], np.float32).astype(jnp.dtype(dtype)))
    found = jscan.segment_sort(keys, jnp.zeros(4, jnp.int32), 1, True)
    np.testing.assert_array_equal(found.astype(jnp.float32), [-2, 0, 1, np.nan])


@pytest.mark.parametrize("descending", [False, True])
def test_orders_are_those_of_a_loop(descending: bool) -> None:
    """A stable sort by pairs in Python."""
    rng = np.random.default_rng(5)
    numbers, keys = rng.integers(0, 3, 40), rng.integers(-4, 4, 40)
    sign = -1 if descending else 1
    expected = sorted(range(40), key=lambda i: (numbers[i], sign * keys[i]))
    how: dict[str, Any] = {"axis": 0, "count": 2, "emit": "places", "descending": descending}
    found = sorting.sort(jnp.asarray(numbers), jnp.asarray(keys, jnp.float32), **how)
    assert found.tolist() == expected


def sorts_in(text: str) -> list[str]:
    """The shapes of what each sort of a program takes first."""
    lines = text.splitlines()
    begins = [i for i, line in enumerate(lines) if "stablehlo.sort" in line]
    ends = [next(line for line in lines[i:] if line.strip().startswith("}) : (")) for i in begins]
    return [line.split("tensor<")[1].split(">")[0] for line in ends]


def lowered(function: Any, *shapes: jax.ShapeDtypeStruct, platform: str = "cuda") -> str:
    return jax.jit(function).trace(*shapes).lower(lowering_platforms=(platform,)).as_text()


def test_a_gpu_sorts_rows_of_a_batch_as_one() -> None:
    """By the keys, then by row and segment; a CPU, and short rows, by both at once."""
    rows, n = 4, 2**18
    keys, ids = jax.ShapeDtypeStruct((rows, n), "float32"), jax.ShapeDtypeStruct((n,), "int32")

    def in_segments(x: Any, ids: Any) -> Any:
        return jscan.segment_sort(x, ids, 64, indices_are_sorted=True)

    batch = jax.vmap(in_segments, (0, None))
    assert sorts_in(lowered(batch, keys, ids)) == [f"{rows * n}xui32"] * 2
    assert sorts_in(lowered(batch, keys, ids, platform="cpu")) == [f"{rows}x{n}xi32"]
    short = jax.ShapeDtypeStruct((2**12, 2**9), "float32"), jax.ShapeDtypeStruct((2**9,), "int32")
    assert sorts_in(lowered(batch, *short)) == [f"{2**12}x{2**9}xi32"]
    few = jax.ShapeDtypeStruct((1, 2**10), "float32"), jax.ShapeDtypeStruct((2**10,), "int32")
    assert sorts_in(lowered(batch, *few)) == ["1x1024xi32"]


def test_numbers_are_as_narrow_as_they_can_be() -> None:
    """A radix sort takes a pass for each byte."""
    keys, ids = jax.ShapeDtypeStruct((2**20,), "float16"), jax.ShapeDtypeStruct((2**20,), "int32")
    for count, width in ((2**8 - 1, 8), (2**8, 16), (2**16 - 1, 16), (2**16, 32)):
        text = lowered(lambda x, i, n=count: jscan.segment_top_k(x, i, n, k=2), keys, ids)
        assert sorts_in(text) == ["1048576xui16", f"1048576xui{width}"]
        text = lowered(lambda i, n=count: jscan.SegmentPlan(i, n), ids)
        assert sorts_in(text) == [f"1048576xui{width}"]


@pytest.mark.parametrize("dtype", ["float32", "int8", "bfloat16"])
def test_large_batches_are_sorted_in_their_rows(dtype: str) -> None:
    """As a GPU sorts them, run here."""
    rows, n = 2, 2**18 + 3
    rng = np.random.default_rng(7)
    keys = jnp.asarray(rng.integers(-100, 100, (rows, n)), dtype)
    ids = jnp.asarray(np.sort(rng.integers(0, 1000, n)), jnp.int32)

    def in_segments(x: Any) -> Any:
        return jscan.segment_sort(x, ids, 1000, indices_are_sorted=True, payload=jnp.arange(n))

    run = jax.jit(jax.vmap(in_segments))
    with primitives.interpreted():
        assert [shape.split("x")[0] for shape in sorts_in(run.lower(keys).as_text())] == [
            str(rows * n)
        ] * 2
        found, places = run(keys)
    for row in range(rows):
        numbers = np.asarray(keys[row].astype(jnp.float32))
        expected = np.lexsort((numbers, np.asarray(ids)))
        np.testing.assert_array_equal(places[row], expected)
        np.testing.assert_array_equal(found[row].astype(jnp.float32), numbers[expected])


@pytest.mark.gpu
@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("emit", ["places", "keys"])
def test_large_sorts_on_a_gpu(dtype: str, emit: str) -> None:
    """By radix sorts, of one row and of several, beside one sort that compares."""
    with jax.enable_x64(True):
        for shape in ((2**19 + 5,), (3, 2**18 - 1)):
            keys = jnp.asarray(drawn(shape, dtype))
            axis = len(shape) - 1
            numbers = jnp.asarray(np.random.default_rng(3).integers(0, 300, shape), jnp.int32)
            how: dict[str, Any] = {"axis": axis, "count": 299, "emit": emit, "descending": False}
            found = sorting.sort(numbers, keys, **how)
            [expected] = sorts.sort_in_plain_jax(numbers, keys, **how)
            np.testing.assert_array_equal(as_bits(found), as_bits(expected))
