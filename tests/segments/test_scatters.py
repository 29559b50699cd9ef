"""Scatters into copies of few places, as a GPU makes them, beside those that all wait at one."""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax.test_util import check_grads

import jscan
from jscan import operators
from jscan.plain import scatters
from tests.segments.test_sorts import lowered

OPERATORS = {"add": operators.add, "mul": operators.mul, "max": operators.max, "min": operators.min}


def given(dtype: str, shape: tuple[int, ...]) -> tuple[Any, Any]:
    """Small numbers, and places of which some are behind the end, and some in front."""
    rng = np.random.default_rng(len(shape))
    x = jnp.asarray(rng.integers(1, 4, shape), dtype)
    beyond = np.asarray([2**31 - 1, 5, -1, -(2**31)])
    places = rng.integers(0, 5 + beyond.size, shape[0])
    places = np.where(places < 5, places, beyond[np.maximum(places - 5, 0)])
    return x, jnp.asarray(places, jnp.int32)


@pytest.mark.parametrize("name", OPERATORS)
@pytest.mark.parametrize("dtype", ["int32", "uint32", "float32"])
@pytest.mark.parametrize("beside", [(), (3,)])
@pytest.mark.parametrize("copies", [2, 16, 64])
def test_copies_are_combined(name, dtype, beside, copies):
    x, places = given(dtype, (41, *beside))
    how: dict[str, Any] = {"shape": (5, *beside)}
    how["identity"] = OPERATORS[name].identity(np.dtype(dtype))
    expected = scatters.updated(name, x, places, **how)
    found = scatters.in_copies(name, x, places, **how, copies=copies)
    np.testing.assert_array_equal(found, expected)


def test_sums_in_copies_have_derivatives():
    with jax.enable_x64(True):
        x, places = given("float64", (41, 2))

        def total(x: Any) -> Any:
            how: dict[str, Any] = {"shape": (5, 2), "identity": 0, "copies": 8}
            return scatters.in_copies("add", x, places, **how)

        check_grads(total, (x,), order=2)


@pytest.mark.parametrize(
    ("size", "places", "copies"),
    [
        (2**26, 1, 2**18),
        (2**26, 256, 2**10),
        (2**26, 2**16, 32),
        (2**26, 2**20, 4),
        (2**26, 2**22, 1),
        (2**24, 1344, 2**7),
        (2**24, 167774, 16),
        (2**20, 2**18, 1),
        (2**14, 16, 2**8),
        (2**14 - 1, 16, 1),
        (10, 0, 1),
    ],
)
def test_copies_for_a_size(size, places, copies):
    assert scatters.copies_of(size, places) == copies


def scattered_to(text: str) -> list[str]:
    """What is scattered to."""
    lines = [line for line in text.splitlines() if line.strip().startswith("}) : (")]
    return [line.split("tensor<")[1].split(">")[0] for line in lines if line.count("tensor<") == 4]


def test_a_gpu_scatters_to_copies():
    """Where places wait for each other, and in the derivative of a gather not."""
    x, ids = jax.ShapeDtypeStruct((2**20,), "float32"), jax.ShapeDtypeStruct((2**20,), "int32")

    def of(name: str) -> Any:
        return lambda x, ids: getattr(jscan, name)(x, ids, 16)

    assert scattered_to(lowered(of("segment_sum"), x, ids)) == [f"{2**18}xf32"]
    assert scattered_to(lowered(of("segment_prod"), x, ids)) == [f"{2**18}xf32"]
    assert scattered_to(lowered(of("segment_sum"), x, ids, platform="cpu")) == ["16xf32"]
    assert scattered_to(lowered(of("segment_max"), x, ids)) == ["16xf32"]
    narrow = jax.ShapeDtypeStruct((2**20,), "int8")
    assert scattered_to(lowered(of("segment_max"), narrow, ids)) == [f"{2**18}xi32"]

    def loss(x: Any, ids: Any) -> Any:
        return jnp.sum(jnp.sin(of("segment_sum")(x, ids)))

    assert scattered_to(lowered(jax.grad(loss), x, ids)) == [f"{2**18}xf32"]


@pytest.mark.gpu
@pytest.mark.parametrize("name", ["sum", "prod", "max", "min"])
@pytest.mark.parametrize("dtype", ["float32", "float64", "int8", "bfloat16", "int32"])
@pytest.mark.parametrize(("count", "beside"), [(1, ()), (7, (3,)), (1344, ())])
def test_many_elements_of_few_segments_on_a_gpu(name, dtype, count, beside):
    with jax.enable_x64(True):
        rng = np.random.default_rng(count)
        ids = rng.integers(-1, count + 1, 2**18 + 5).astype("int32")
        ids[::1001] = -(2**31)
        low, high = (1, 3) if name == "prod" else (-3, 4)
        x = rng.integers(low, high, (len(ids), *beside))
        if name == "prod":
            x = np.where(rng.random(x.shape) < 1e-4, 2, 1)
        reduced = getattr(np, name)
        every = np.stack([reduced(x[ids == s], axis=0) for s in range(count)])
        found = getattr(jscan, f"segment_{name}")(jnp.asarray(x, dtype), jnp.asarray(ids), count)
        np.testing.assert_array_equal(found, every.astype(jnp.dtype(dtype)))
