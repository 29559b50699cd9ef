"""segment_argmax and its like, segment_sort and segment_top_k: dtypes, layouts, equals and NaN."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax import export
from jax.test_util import check_grads

import jscan
from tests import reference
from tests.cases import COMPLEX, INTEGERS, REAL, lowest
from tests.segments.test_segment_reductions import layouts
from tests.segments.test_statistics import COUNT, IDS

K = 3
DTYPES = (*REAL, "bool")
ASCENDING = np.sort(IDS)


def drawn(shape: tuple[int, ...], dtype: str = "float32", seed: int = 0) -> Any:
    """Few different numbers, so that many are equal, and NaN among floats."""
    rng = np.random.default_rng([seed, *shape])
    low = 0 if dtype == "bool" or dtype.startswith("u") else -3
    x = rng.integers(low, 2 if dtype == "bool" else 4, shape).astype(jnp.dtype(dtype))
    if dtype in INTEGERS or dtype == "bool":
        return x
    x[rng.random(shape) < 0.05] = np.nan
    x[rng.random(shape) < 0.1] = -np.inf
    x[rng.random(shape) < 0.1] = np.inf
    return x


def members_of(ids: Any, count: int) -> Iterator[tuple[int, Any]]:
    """The places of each segment's elements."""
    return ((s, np.flatnonzero(np.asarray(ids) == s)) for s in range(count))


def columns(x: Any) -> Iterator[tuple[Any, ...]]:
    """The indices behind the first axis."""
    return np.ndindex(x.shape[1:])


def is_before(a: Any, b: Any) -> bool:
    """Whether one number is less than another, where NaN is the greatest."""
    return bool(a < b or (b != b and a == a))


def sorted_places(x: Any, places: Any) -> list[int]:
    """The places in ascending order of what is there, by insertion."""
    found: list[int] = []
    for place in places:
        at = len(found)
        while at and is_before(x[place], x[found[at - 1]]):
            at -= 1
        found.insert(at, place)
    return found


def extremum(x: Any, ids: Any, count: int, sign: int) -> Any:
    """The place of the greatest element of each segment, or of the least; NaN is either."""
    result = np.full((count, *x.shape[1:]), -1, np.int32)
    for s, members in members_of(ids, count):
        for column in columns(x):
            best = -1
            for place in members:
                new = x[(place, *column)]
                old = x[(best, *column)]
                better = new > old if sign > 0 else new < old
                if best < 0 or (old == old and (better or new != new)):
                    best = place
            result[(s, *column)] = best
    return result


def sorted_by_segment(x: Any, ids: Any, count: int) -> Any:
    """For each element of the result, the place that it comes from."""
    result = np.array(np.broadcast_to(np.arange(len(x)).reshape(-1, *[1] * (x.ndim - 1)), x.shape))
    for _, members in members_of(ids, count):
        for column in columns(x):
            found = sorted_places(x[(slice(None), *column)], members)
            result[(members, *column)] = found
    return result


def greatest(x: Any, ids: Any, count: int, k: int) -> tuple[Any, Any]:
    """The k greatest elements, the first of equals first."""
    values = np.full((count, k, *x.shape[1:]), lowest(x.dtype), x.dtype)
    places = np.full(values.shape, -1, np.int32)
    for s, members in members_of(ids, count):
        for column in columns(x):
            line = x[(slice(None), *column)]
            ascending = sorted_places(line, members[::-1])
            for j, place in enumerate(ascending[::-1][:k]):
                places[(s, j, *column)] = place
                values[(s, j, *column)] = line[place]
    return values, places


def check(x: Any, ids: Any, count: int, *given: Any, **how: Any) -> None:
    """Asserts what all four are; the segments may be given otherwise than by ids."""
    first, *rest = given or (ids, count)
    payload = {"place": np.array(np.broadcast_to(np.arange(len(x)), x.T.shape).T)}

    @jax.jit
    def run(x: Any, first: Any) -> Any:
        by: Any = (first, *rest)
        largest = jscan.segment_argmax(x, *by, **how)
        least = jscan.segment_argmin(x, *by, **how)
        in_order = jscan.segment_sort(x, *by, payload=payload, **how)
        return largest, least, in_order, jscan.segment_top_k(x, *by, k=K, **how)

    largest, least, (y, moved), (values, places) = run(x, first)
    assert largest.dtype == least.dtype == places.dtype == np.int32
    assert y.dtype == values.dtype == x.dtype
    np.testing.assert_array_equal(largest, extremum(x, ids, count, 1))
    np.testing.assert_array_equal(least, extremum(x, ids, count, -1))
    order = sorted_by_segment(x, ids, count)
    reference.assert_equal(y, np.take_along_axis(x, order, 0))
    np.testing.assert_array_equal(moved["place"], order)
    for got, want in zip((values, places), greatest(x, ids, count, K), strict=True):
        reference.assert_equal(got, want)


def given_as(form: str, x: Any) -> tuple[Any, ...]:
    """Elements, their segments and how these are given: what `check` takes."""
    if form in ("any", "plan", "traced plan"):
        ids = IDS
    elif form == "segments":
        ids = ASCENDING[(ASCENDING >= 0) & (ASCENDING < COUNT)]
    else:
        ids = ASCENDING
    given: dict[str, Callable[[], tuple[Any, ...]]] = {
        "any": tuple,
        "sorted": tuple,
        "plan": lambda: (jscan.SegmentPlan(ids, COUNT),),
        "sorted plan": lambda: (jscan.SegmentPlan(ids, COUNT),),
        "traced plan": lambda: (jax.jit(lambda ids: jscan.SegmentPlan(ids, COUNT))(ids),),
        "segments": lambda: (jscan.Segments.from_lengths(np.bincount(ids, minlength=COUNT)),),
    }
    return x[: len(ids)], ids, COUNT, *given[form]()


every_form = pytest.mark.parametrize(
    "form", ["any", "sorted", "plan", "sorted plan", "traced plan", "segments"]
)


@pytest.mark.product
@pytest.mark.parametrize("dtype", DTYPES)
@every_form
def test_every_dtype(form, dtype):
    check(*given_as(form, drawn((70, 2), dtype)), indices_are_sorted=form == "sorted")


@pytest.mark.product
@pytest.mark.parametrize("trailing", [(), (1,), (3, 2), (0,)])
@every_form
def test_trailing_dimensions(form, trailing):
    check(*given_as(form, drawn((70, *trailing))), indices_are_sorted=form == "sorted")


@pytest.mark.sweep
@pytest.mark.parametrize("layout", layouts(60))
def test_every_layout(layout):
    ids, x = layouts(60)[layout].astype("int64"), drawn((60,))
    check(x, ids, 60, indices_are_sorted=True)
    check(x, ids, 60)
    check(x, ids, 60, jscan.SegmentPlan(ids, 60))


@pytest.mark.parametrize("n", [0, 1, 2])
def test_few_elements(n):
    for count in (0, 1, COUNT):
        for trailing in ((), (2,)):
            x = drawn((n, *trailing))
            check(x, IDS[:n], count)
            check(x, IDS[:n], count, jscan.SegmentPlan(IDS[:n], count))
            check(x, np.sort(IDS[:n]), count, indices_are_sorted=True)


@pytest.mark.parametrize("k", [0, 1, 5, 100])
def test_any_number_of_greatest_elements(k):
    x = drawn((70,))
    found = jscan.segment_top_k(x, IDS, COUNT, k=k)
    for got, want in zip(found, greatest(x, IDS, COUNT, k), strict=True):
        np.testing.assert_array_equal(got, want)


@pytest.mark.parametrize("dtype", ["int2", "uint2", "int4", "uint4"])
def test_narrow_integers(dtype):
    x, ids = jnp.array([1, 0, 1, 1, 0], dtype), np.array([0, 0, 1, 1, 1])
    np.testing.assert_array_equal(jscan.segment_sort(x, ids, 2).astype(int), [0, 1, 0, 1, 1])
    np.testing.assert_array_equal(jscan.segment_argmax(x, ids, 2), [0, 2])
    np.testing.assert_array_equal(jscan.segment_argmin(x, ids, 2), [1, 4])
    values, places = jscan.segment_top_k(x, ids, 2, k=2)
    assert values.dtype == x.dtype
    np.testing.assert_array_equal(values.astype(int), [[1, 0], [1, 1]])
    np.testing.assert_array_equal(places, [[0, 1], [2, 3]])


@pytest.mark.parametrize("dtype", COMPLEX)
def test_complex_keys_are_sorted_by_their_parts(dtype):
    x = np.array([1 + 2j, 1 + 1j, 0 + 5j, 3, 2], dtype)
    found = jscan.segment_sort(x, np.array([0, 0, 0, 1, 1]), 2)
    np.testing.assert_array_equal(found, x[[2, 1, 0, 4, 3]])
    for function in (jscan.segment_argmax, jscan.segment_argmin):
        with pytest.raises(TypeError, match="data has dtype complex"):
            function(x, np.zeros(5, int), 1)
    with pytest.raises(TypeError, match="data has dtype complex"):
        jscan.segment_top_k(x, np.zeros(5, int), 1, k=1)


def test_a_payload_may_have_more_dimensions_than_its_keys():
    for shape in ((70,), (70, 2)):
        keys = drawn(shape)
        payload = (drawn((*shape, 3), "int32"), drawn((*shape, 1, 2), "bfloat16"))
        order = sorted_by_segment(keys, IDS, COUNT)
        _, moved = jscan.segment_sort(keys, IDS, COUNT, payload=payload)
        for got, want in zip(moved, payload, strict=True):
            beside = order.reshape(order.shape + (1,) * (want.ndim - order.ndim))
            beside = np.broadcast_to(beside, want.shape)
            reference.assert_equal(got, np.take_along_axis(want, beside, 0))


def test_one_element_goes_to_all_ids():
    ids = np.array([1, 0, 1])
    np.testing.assert_array_equal(jscan.segment_argmax(7, ids), [1, 0])
    np.testing.assert_array_equal(jscan.segment_sort(7, ids), [7, 7, 7])
    np.testing.assert_array_equal(jscan.segment_top_k(7, ids, k=1)[1], [[1], [0]])


def test_engines(engine):
    n = engine.longest
    ids, x = np.sort(np.random.default_rng(0).integers(0, n // 5, n)), drawn((n,))
    for function, sign in ((jscan.segment_argmax, 1), (jscan.segment_argmin, -1)):
        found = function(x, ids, n // 5, True, method=engine.method)
        np.testing.assert_array_equal(found, extremum(x, ids, n // 5, sign))


@pytest.mark.sweep
@pytest.mark.parametrize("form", ["any", "sorted", "planned"])
def test_derivatives(form):
    x = np.random.default_rng(0).permutation(140).reshape(70, 2) / 10.0
    forms: dict[str, Any] = {
        "any": (IDS, COUNT),
        "sorted": (np.sort(IDS), COUNT, True),
        "planned": (jscan.SegmentPlan(IDS, COUNT),),
    }
    given = forms[form]
    weights = np.random.default_rng(1).normal(size=(70, 2))

    def of_sorted(x):
        y, z = jscan.segment_sort(x, *given, payload=x * x)
        return jnp.sin(y) * weights + z

    def of_greatest(x):
        values, _ = jscan.segment_top_k(x, *given, k=K)
        return jnp.where(jnp.isfinite(values), jnp.sin(values), 0)

    for function in (of_sorted, of_greatest):
        check_grads(jax.jit(function), (x,), order=2, rtol=1e-4, atol=1e-4)


def test_vmap_of_data_of_ids_and_of_plans():
    x = drawn((3, 70, 2))
    rows = np.stack([IDS, np.roll(IDS, 5), np.sort(IDS)])
    plans = [jscan.SegmentPlan(ids, COUNT) for ids in rows[:2]]
    stacked = jax.tree.map(lambda *parts: jnp.stack(parts), *plans)

    def run(x, ids):
        values, places = jscan.segment_top_k(x, ids, COUNT, k=K)
        least = jscan.segment_argmin(x, ids, COUNT)
        return jscan.segment_sort(x, ids, COUNT), values, places, least

    for in_axes, given in (((0, 0), (x, rows)), ((0, 0), (x[:2], stacked))):
        found = jax.jit(jax.vmap(run, in_axes))(*given)
        for i in range(len(given[0])):
            order = sorted_by_segment(x[i], rows[i], COUNT)
            expected = (
                np.take_along_axis(x[i], order, 0),
                *greatest(x[i], rows[i], COUNT, K),
                extremum(x[i], rows[i], COUNT, -1),
            )
            for got, want in zip(found, expected, strict=True):
                np.testing.assert_array_equal(got[i], want)


def test_export():
    def run(x, given):
        return (
            jscan.segment_argmax(x, given, COUNT),
            jscan.segment_sort(x, given, COUNT),
            *jscan.segment_top_k(x, given, COUNT, k=K),
        )

    x = drawn((70,))
    for given in (IDS, jscan.SegmentPlan(IDS, COUNT)):
        exported = export.deserialize(export.export(jax.jit(run))(x, given).serialize())
        for got, want in zip(exported.call(x, given), run(x, given), strict=True):
            np.testing.assert_array_equal(got, want)
