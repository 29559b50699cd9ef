"""Totals of segments in compensated pairs, against sums of fractions."""

from __future__ import annotations

from fractions import Fraction
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax.sharding import Mesh, NamedSharding
from jax.sharding import PartitionSpec as P

import jscan
from tests.api.test_precise import IN_KERNELS, assert_rounded_once, interpreted, wide

__all__ = ["interpreted"]  # a fixture


def ids_of(n: int, count: int) -> np.ndarray[Any, Any]:
    """Ids in any order, of which some are no segment's."""
    return np.random.default_rng(n).integers(-1, count + 1, n)


def exact_totals(x: Any, ids: Any, count: int) -> list[Fraction]:
    """The totals, as fractions."""
    totals = [Fraction(0)] * count
    for value, number in zip(x, ids, strict=True):
        if 0 <= number < count:
            totals[number] += Fraction(float(value))
    return totals


BY_IDS = ("sorted", "any", "plan", "plan of sorted ids")


def totals_of(x: Any, ids: Any, count: int, order: str, **how: Any) -> Any:
    """The totals of elements of which the ids are said to lie so."""
    if order == "any":
        return jscan.segment_sum(x, ids, count, precise=True, **how)
    if order.startswith("plan"):
        return jscan.segment_sum(x, jscan.SegmentPlan(ids, count), precise=True, **how)
    return jscan.segment_sum(x, ids, count, True, precise=True, **how)


def given(order: str, n: int, count: int) -> tuple[Any, Any]:
    """Elements, and ids that lie as the order says."""
    ids = ids_of(n, count)
    return wide(n), np.sort(ids) if "sorted" in order else ids


@pytest.mark.product
@pytest.mark.parametrize("order", BY_IDS)
@pytest.mark.parametrize("method", ["auto", "xla"])
def test_each_total_is_rounded_once(method, order):
    if order == "any" and method == "xla":
        method = "auto"
    x, ids = given(order, 700, 9)
    found = totals_of(x, ids, 9, order, method=method)
    assert_rounded_once(found, exact_totals(x, ids, 9))
    plain = np.asarray(jscan.segment_sum(x, ids, 9))
    assert not np.array_equal(plain, found)


@pytest.mark.usefixtures("interpreted")
@pytest.mark.parametrize("order", [order for order in BY_IDS if order != "any"])
@pytest.mark.parametrize("method", IN_KERNELS)
def test_each_total_is_rounded_once_in_kernels(method, order):
    x, ids = given(order, 200, 5)
    found = totals_of(x, ids, 5, order, method=method)
    assert_rounded_once(found, exact_totals(x, ids, 5))


@pytest.mark.usefixtures("interpreted")
@pytest.mark.parametrize("order", ["sorted", "plan"])
def test_totals_of_lanes_in_kernels(order):
    _, ids = given(order, 70, 4)
    x = np.stack([wide(70, seed) for seed in range(3)], 1)
    found = np.asarray(totals_of(x, ids, 4, order, method="repeatable"))
    for lane, totals in zip(x.T, found.T, strict=True):
        assert_rounded_once(totals, exact_totals(lane, ids, 4))


@pytest.mark.parametrize("order", BY_IDS)
def test_totals_of_other_floats(order):
    x, ids = given(order, 99, 4)
    found = totals_of(x + np.complex64(1j) * x[::-1], ids, 4, order)
    assert_rounded_once(np.real(found), exact_totals(x, ids, 4))
    assert_rounded_once(np.imag(found), exact_totals(x[::-1], ids, 4))
    halves = jnp.asarray(x / 2**20, jnp.bfloat16)
    right = [float(s) for s in exact_totals(np.asarray(halves, np.float32), ids, 4)]
    once = jnp.asarray(np.asarray(right, np.float32), jnp.bfloat16)
    np.testing.assert_array_equal(totals_of(halves, ids, 4, order), once)
    with jax.enable_x64(True):
        doubles = x.astype(np.float64) / 3
        found = totals_of(doubles, ids, 4, order)
        assert found.dtype == np.float64
        assert_rounded_once(found, exact_totals(doubles, ids, 4))


def test_totals_of_integers_are_exact_anyway():
    x, ids = np.arange(9), np.sort(ids_of(9, 3))

    def totals(**how: Any) -> str:
        return str(jax.make_jaxpr(lambda x: jscan.segment_sum(x, ids, 3, True, **how))(x))

    assert totals(precise=True) == totals()


@pytest.mark.parametrize("order", BY_IDS)
def test_derivatives_of_totals_are_those_of_plain_ones(order):
    x, ids = given(order, 60, 5)
    weights = np.arange(5, dtype=np.float32)

    def plain(x: Any) -> Any:
        return jscan.segment_sum(x, ids, 5)

    def precise(x: Any) -> Any:
        return totals_of(x, ids, 5, order)

    def squares(fn: Any, x: Any) -> Any:
        return jnp.sum(weights * fn(x * x))

    for of in (jax.grad, lambda f: jax.grad(lambda x: jnp.sum(jax.grad(f)(x) ** 2))):
        found, right = (of(lambda x, fn=fn: squares(fn, x))(x / 2**10) for fn in (precise, plain))
        np.testing.assert_allclose(found, right, rtol=1e-6)
    [back] = jax.linear_transpose(precise, x)(weights)
    np.testing.assert_array_equal(back, jax.linear_transpose(plain, x)(weights)[0])


@pytest.mark.parametrize("order", BY_IDS)
def test_totals_by_vmap(order):
    x, ids = given(order, 80, 4)
    both = np.stack([x, wide(80, 1)])
    found = jax.jit(jax.vmap(lambda x: totals_of(x, ids, 4, order)))(both)
    for row, totals in zip(both, found, strict=True):
        assert_rounded_once(totals, exact_totals(row, ids, 4))


def test_totals_of_an_axis_that_devices_share():
    mesh = Mesh(jax.devices(), ("i",))
    n = 16 * mesh.size
    x, ids = given("sorted", n, 5)
    right = exact_totals(x, ids, 5)

    def totals(x: Any, ids: Any, **how: Any) -> Any:
        return totals_of(x, ids, 5, "sorted", **how)

    by_hand = jax.shard_map(
        lambda x, ids: totals(x, ids, axis_name="i"), mesh=mesh, in_specs=P("i"), out_specs=P()
    )
    assert_rounded_once(by_hand(x, ids), right)
    parts = [jax.device_put(each, NamedSharding(mesh, P("i"))) for each in (x, ids)]
    assert_rounded_once(jax.jit(totals)(*parts), right)


@pytest.mark.parametrize("order", BY_IDS)
@pytest.mark.parametrize(("n", "count"), [(0, 3), (4, 0), (1, 2)])
def test_totals_of_nothing_and_of_one(order, n, count):
    x, ids = np.ones((n, 2), np.float32), np.zeros(n, int)
    right = np.zeros((count, 2), np.float32)
    right[:1] = n
    np.testing.assert_array_equal(totals_of(x, ids, count, order), right)
