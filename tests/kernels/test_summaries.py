"""Functions of segments whose elements are made in the kernel that reduces them, against loops."""

from __future__ import annotations

import dataclasses
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import jscan
from jscan import extent, primitives
from jscan.kernels import tuning
from tests.kernels.test_lowering import array, calls, cuda_program
from tests.segments.test_statistics import MEAN, STATISTICS, drawn

COUNT = 40
IDS = np.sort(np.random.default_rng(2).integers(-2, COUNT + 3, 150)).astype(np.int32)

SMALL = tuning.Tuning(length=16, lanes=1, warps=1, window=4, strip=8)

every_statistic = pytest.mark.parametrize("statistic", STATISTICS, ids=lambda s: s.name)


def first_place(x: Any, ids: Any, num_segments: int) -> Any:
    """The place of the greatest element of each segment, one segment at a time."""
    places = np.full((num_segments, *x.shape[1:]), -1)
    for s in range(num_segments):
        inside = np.flatnonzero(ids == s)
        if len(inside):
            places[s] = inside[np.argmax(x[inside], 0)]
    return places


@pytest.mark.product
@every_statistic
@pytest.mark.parametrize(
    ("dtype", "trailing"),
    [("float32", ()), ("float16", (3,)), ("int8", ()), ("bool", ()), ("float64", ())],
)
def test_statistics_in_small_tiles(statistic, dtype, trailing):
    if dtype not in statistic.dtypes:
        pytest.skip("not a dtype of this function")
    tile = None if trailing else SMALL
    with jax.enable_x64(dtype == "float64"), primitives.interpreted(), primitives.tiled(tile):
        statistic.check(drawn((150, *trailing), dtype), IDS, COUNT, indices_are_sorted=True)


@pytest.mark.parametrize(
    ("dtype", "trailing"), [("float32", ()), ("bfloat16", (3,)), ("int32", ()), ("bool", ())]
)
def test_first_places_in_small_tiles(dtype, trailing):
    tile = dataclasses.replace(SMALL, lanes=4) if trailing else SMALL
    x = drawn((150, *trailing), dtype)
    if dtype == "float32":
        x[[20, 90, 91]] = np.nan
    with primitives.interpreted(), primitives.tiled(tile):
        found = jscan.segment_argmax(x, IDS, COUNT, True)
    np.testing.assert_array_equal(found, first_place(np.asarray(x), IDS, COUNT))


@pytest.mark.parametrize("name", ["argmax", "argmin"])
@pytest.mark.parametrize("dtype", ["float32", "int32", "uint8"])
def test_places_of_what_is_an_identity(name, dtype):
    """A segment of nothing but the least numbers has a first place, as has one of the greatest."""
    info = np.finfo if dtype == "float32" else np.iinfo
    least, most = info(dtype).min, info(dtype).max
    if dtype == "float32":
        least, most = -np.inf, np.inf
    x = np.where(IDS % 2 == 0, least, most).astype(dtype)
    function = getattr(jscan, f"segment_{name}")
    with primitives.interpreted(), primitives.tiled(SMALL):
        found = function(x, IDS, COUNT, True)
    np.testing.assert_array_equal(found, first_place(x, IDS, COUNT))


@pytest.mark.parametrize("name", ["logsumexp", "softmax"])
def test_exponentials_of_what_is_not_finite(name):
    x = drawn((150,))
    x[10:30], x[60], x[80], x[100:104] = -np.inf, np.inf, np.nan, [-np.inf, 3, np.inf, -np.inf]
    function = getattr(jscan, f"segment_{name}")
    with primitives.interpreted(), primitives.tiled(SMALL):
        found = function(x, IDS, COUNT, True)
    np.testing.assert_allclose(found, function(x, IDS, COUNT), rtol=1e-6)


def test_exponentials_of_what_rises_are_as_exact_as_their_sum():
    """Sums are scaled at every step where each element is a little greater than the last."""
    x = np.linspace(-1, 1, 4096, dtype=np.float32)
    ids = np.zeros(4096, np.int32)
    with primitives.interpreted(), primitives.tiled(SMALL):
        found = jscan.segment_logsumexp(x, ids, 1, True)
    expected = np.log(np.sum(np.exp(x.astype(np.float64))))
    np.testing.assert_allclose(found, [expected], rtol=2e-6)


@pytest.mark.product
@every_statistic
@pytest.mark.parametrize("dtype", ["int8", "uint8", "uint32"])
def test_ids_that_do_not_reach_the_last_segment(statistic, dtype):
    ids = np.arange(150).astype(dtype)
    with primitives.interpreted():
        numbers = ids.astype(np.int64)
        statistic.check(drawn((150,)), numbers, 300, ids, 300, indices_are_sorted=True)


@pytest.mark.parametrize("name", ["segment_mean", "segment_norm", "segment_logsumexp"])
def test_gradients_and_batches(name):
    x = jnp.asarray(drawn((2, 150)))

    def total(x: jax.Array, is_sorted: bool) -> jax.Array:
        return jnp.sum(jnp.sin(getattr(jscan, name)(x, IDS, COUNT, is_sorted)))

    with primitives.interpreted():
        found = jax.vmap(jax.grad(partial(total, is_sorted=True)))(x)
    expected = [jax.grad(partial(total, is_sorted=False))(row) for row in x]
    np.testing.assert_allclose(found, np.stack(expected), rtol=1e-4, atol=1e-5)


def test_places_that_do_not_fit_are_those_of_plain_jax(monkeypatch):
    monkeypatch.setattr(extent, "FAR", 149)
    with primitives.interpreted():
        MEAN.check(drawn((150,)), IDS, COUNT, indices_are_sorted=True)


@pytest.mark.parametrize(
    ("name", "kernels"),
    [("mean", 1), ("norm", 1), ("logsumexp", 1), ("softmax", 1), ("argmax", 1)],
)
def test_elements_are_not_in_memory(name, kernels):
    """All reductions are one kernel, beside those that fill results."""
    n, segments = 1 << 20, 1 << 14
    run = partial(getattr(jscan, f"segment_{name}"), num_segments=segments, indices_are_sorted=True)
    program = cuda_program(run, array(n), array(n, "int32"))
    assert calls(program) == kernels
    assert ("stablehlo.gather" in program) == (name == "softmax")
