"""segment_mean and its like: every dtype, layout and description of segments, and pathologies."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax import export
from jax.test_util import check_grads

import jscan
from tests import reference
from tests.cases import COMPLEX, FLOATS, INTEGERS, NUMBERS, REAL
from tests.segments.test_segment_reductions import ascending, layouts

COUNT = 9
IDS = np.random.default_rng(0).integers(-2, COUNT + 2, 70).astype(np.int32)
IDS[IDS == 3] = 4  # the third is empty
IDS[10:14] = 0


@dataclass(frozen=True)
class Statistic:
    """A public function of segments and the same of the elements of one segment, in float64."""

    name: str
    of_elements: Callable[[Any], Any]
    dtypes: tuple[str, ...]
    empty: float = 0.0
    each: bool = False

    @property
    def function(self) -> Callable[..., jax.Array]:
        """The function under test."""
        return getattr(jscan, self.name)

    def expected(self, x: Any, ids: Any, num_segments: int) -> Any:
        """One segment after another."""
        wide = reference.widen(x)
        wide = wide if wide.dtype.kind == "c" else wide.astype(np.float64)
        shape = wide.shape if self.each else (num_segments, *wide.shape[1:])
        result = np.full(shape, 0.0 if self.each else self.empty, wide.dtype)
        with np.errstate(all="ignore"):
            for s in range(num_segments):
                members = wide[ids == s]
                if len(members):
                    result[ids == s if self.each else s] = self.of_elements(members)
        return result

    def check(self, x: Any, ids: Any, num_segments: int, *given: Any, **how: Any) -> None:
        """Asserts dtype and values; the segments may be given otherwise than by ids."""
        by = given or (ids, num_segments)
        actual = self.function(x, *by, **how)
        dtype = np.asarray(x).dtype
        if is_of_parts := self.name == "segment_norm" and dtype.kind == "c":
            dtype = np.asarray(x).real.dtype
        inexact = jnp.issubdtype(dtype, jnp.inexact)
        assert actual.dtype == (dtype if inexact else jnp.asarray(1.0).dtype)
        expected = self.expected(x, ids, num_segments)
        expected = expected.real if is_of_parts else expected
        finite = np.abs(expected[np.isfinite(expected)])
        eps = float(jnp.finfo(actual.dtype).eps)
        reference.assert_within(actual, expected, 30 * eps * max(1.0, finite.max(initial=0.0)))


def _mean(x: Any) -> Any:
    return sum(x) / len(x)


def _norm(x: Any) -> Any:
    return np.sqrt(sum(np.abs(x) ** 2))


def _logsumexp(x: Any) -> Any:
    largest = np.where(np.isfinite(x.max(0)), x.max(0), 0)
    return np.log(sum(np.exp(x - largest))) + largest


def _softmax(x: Any) -> Any:
    terms = np.exp(x - x.max(0))
    return terms / sum(terms)


MEAN = Statistic("segment_mean", _mean, (*NUMBERS, "bool"))
NORM = Statistic("segment_norm", _norm, (*NUMBERS, "bool"))
LOGSUMEXP = Statistic("segment_logsumexp", _logsumexp, (*REAL, "bool"), empty=-np.inf)
SOFTMAX = Statistic("segment_softmax", _softmax, (*REAL, "bool"), each=True)
STATISTICS = (MEAN, NORM, LOGSUMEXP, SOFTMAX)

every_statistic = pytest.mark.parametrize("statistic", STATISTICS, ids=lambda s: s.name)
every_dtype = pytest.mark.parametrize(
    ("statistic", "dtype"),
    [pytest.param(s, d, id=f"{s.name}-{d}") for s in STATISTICS for d in s.dtypes],
)


def drawn(shape: tuple[int, ...], dtype: str = "float32", seed: int = 0) -> Any:
    """Numbers of both signs where the dtype has them."""
    rng = np.random.default_rng([seed, *shape])
    if dtype == "bool":
        return rng.random(shape) < 0.5
    if dtype in INTEGERS:
        return rng.integers(0, 9, shape).astype(dtype)
    x = 3 * rng.normal(size=shape)
    x = x + 1j * rng.normal(size=shape) if dtype in COMPLEX else x
    return x.astype(jnp.dtype(dtype))


def check_all_forms(statistic: Statistic, x: Any, ids: Any, num_segments: int) -> None:
    """Ids in any order, sorted ones, plans of both, known and traced, and segments."""
    statistic.check(x, ids, num_segments)
    statistic.check(x, ids, num_segments, jscan.SegmentPlan(ids, num_segments))
    opaque = jax.jit(lambda ids: jscan.SegmentPlan(ids, num_segments))(ids)
    statistic.check(x, ids, num_segments, opaque)
    ascending = np.sort(ids)
    statistic.check(x, ascending, num_segments, indices_are_sorted=True)
    statistic.check(x, ascending, num_segments, jscan.SegmentPlan(ascending, num_segments))
    lengths = np.bincount(np.clip(ascending, 0, num_segments), minlength=num_segments + 1)
    segments = jscan.Segments.from_lengths(lengths)
    numbers = np.repeat(np.arange(len(lengths)), lengths)
    statistic.check(x, numbers, num_segments + 1, segments)
    statistic.check(x, numbers, num_segments, segments, num_segments)


@pytest.mark.sweep
@every_dtype
def test_every_dtype(statistic, dtype):
    check_all_forms(statistic, drawn((70, 2), dtype), IDS, COUNT)


@pytest.mark.product
@every_statistic
@pytest.mark.parametrize("trailing", [(), (1,), (5, 2), (0,)])
def test_trailing_dimensions(statistic, trailing):
    check_all_forms(statistic, drawn((70, *trailing)), IDS, COUNT)


@pytest.mark.product
@every_statistic
@pytest.mark.parametrize("layout", layouts(60))
def test_every_layout(statistic, layout):
    ids = layouts(60)[layout].astype("int64")
    x = drawn((60,))
    statistic.check(x, ids, 60, indices_are_sorted=True)
    statistic.check(x, ids, 60)
    statistic.check(x, ids, 60, jscan.SegmentPlan(ids, 60))


@pytest.mark.sweep
@every_statistic
@pytest.mark.parametrize("n", [0, 1, 2])
def test_few_elements(statistic, n):
    for num_segments in (0, 1, COUNT):
        for trailing in ((), (2,)):
            x = drawn((n, *trailing))
            statistic.check(x, IDS[:n], num_segments)
            statistic.check(x, IDS[:n], num_segments, jscan.SegmentPlan(IDS[:n], num_segments))
            statistic.check(x, np.sort(IDS[:n]), num_segments, indices_are_sorted=True)


@every_statistic
def test_one_element_goes_to_all_ids(statistic):
    for x in (2.0, np.ones(1)):
        actual = statistic.function(x, IDS, COUNT)
        np.testing.assert_array_equal(actual, statistic.function(np.full(70, x), IDS, COUNT))


@every_statistic
def test_ids_of_other_dtypes(statistic):
    x = drawn((70,))
    for ids in (IDS.astype("int8"), IDS.astype("uint8"), IDS.astype("int64"), list(map(int, IDS))):
        statistic.check(x, np.asarray(ids), COUNT, jscan.SegmentPlan(ids, COUNT))
        actual = statistic.function(x, ids, COUNT)
        np.testing.assert_array_equal(actual, statistic.function(x, np.asarray(ids), COUNT))
    far = np.where(IDS < 0, 2**40, IDS.astype("int64"))
    statistic.check(x, far, COUNT)


@every_statistic
def test_the_number_of_segments_is_found(statistic):
    x, ids = drawn((5,)), np.array([0, 0, 2, 1, 2])
    statistic.check(x, ids, 3, ids)
    with pytest.raises(ValueError, match="num_segments is required"):
        jax.jit(statistic.function)(x, ids)
    flags = jnp.array([1, 0, 1, 0, 1])
    with pytest.raises(ValueError, match="num_segments is required"):
        jax.jit(lambda x, f: statistic.function(x, jscan.Segments.from_flags(f)))(x, flags)


@pytest.mark.product
@every_statistic
def test_engines(statistic, engine):
    n = engine.longest
    ids = ascending(n, n // 5)
    statistic.check(drawn((n,)), ids, n // 5, indices_are_sorted=True, method=engine.method)


# --- what is not finite, and what would overflow ------------------------------------------------


@every_statistic
@pytest.mark.parametrize("value", [np.nan, np.inf, -np.inf])
def test_what_is_not_finite_stays_in_its_segment(statistic, value):
    x = drawn((70,))
    x[np.flatnonzero(IDS == 5)[1]] = value
    x[np.flatnonzero(IDS < 0)[0]] = value
    check_all_forms(statistic, x, IDS, COUNT)


def test_segments_of_infinities_alone():
    ids = np.array([0, 0, 1, 1, 2, 2])
    x = np.array([-np.inf, -np.inf, np.inf, np.inf, np.inf, -np.inf])
    for given in (ids, jscan.SegmentPlan(ids, 3), jscan.Segments.from_ids(ids)):
        sums = jscan.segment_logsumexp(x, given, 3)
        np.testing.assert_array_equal(sums, [-np.inf, np.inf, np.inf])
        assert np.isnan(jscan.segment_softmax(x, given, 3)).all()
        assert np.isnan(jax.nn.softmax(x[:2])).all()


@pytest.mark.parametrize("dtype", FLOATS)
def test_nothing_overflows(dtype):
    top = float(jnp.finfo(dtype).max) / 2
    x = np.array([top, top, -top, -top, top, -top]).astype(jnp.dtype(dtype))
    ids = np.array([0, 0, 1, 1, 2, 2])
    np.testing.assert_array_equal(jscan.segment_logsumexp(x, ids), x[[0, 2, 4]])
    np.testing.assert_array_equal(jscan.segment_softmax(x, ids), [0.5, 0.5, 0.5, 0.5, 1, 0])


def test_means_of_halves_are_of_sums_that_halves_cannot_hold():
    x = np.full(600, 60000, np.float16)
    ids = np.resize([1, 0], 600)
    for given in (ids, jscan.SegmentPlan(ids), jscan.Segments.from_lengths([300, 300])):
        np.testing.assert_array_equal(jscan.segment_mean(x, given, 2), x[:2])


def test_means_of_integers_do_not_wrap():
    x = np.full(300, 2**31 - 1, np.int32)
    np.testing.assert_allclose(jscan.segment_mean(x, np.zeros(300, int), 1), [2**31 - 1])


# --- derivatives --------------------------------------------------------------------------------


def described(form: str) -> Any:
    """The segments of IDS, and whether these had to be sorted."""
    return {
        "any": (IDS, COUNT),
        "sorted": (np.sort(IDS), COUNT, True),
        "planned": (jscan.SegmentPlan(IDS, COUNT),),
        "segments": (jscan.Segments.from_lengths([20, 0, 30, 20]),),
    }[form]


every_description = pytest.mark.parametrize("form", ["any", "sorted", "planned", "segments"])


@pytest.mark.sweep
@every_statistic
@every_description
def test_derivatives(statistic, form):
    def function(x):
        y = statistic.function(x, *described(form))
        return jnp.where(jnp.isfinite(y), y, 0)

    check_grads(jax.jit(function), (drawn((70, 2), "float64"),), order=2)


@pytest.mark.sweep
@pytest.mark.parametrize("dtype", ["float16", "bfloat16", "float32"])
@every_description
@every_statistic
def test_derivatives_of_narrow_floats(statistic, form, dtype):
    x = drawn((70,), dtype)

    def total(x):
        y = statistic.function(x, *described(form))
        weights = jnp.arange(1, y.size + 1, dtype=y.dtype) / y.size
        return jnp.sum(jnp.where(jnp.isfinite(y), y * weights, 0).astype(x.dtype))

    slopes = jax.jit(jax.grad(total))
    gradient, wide = slopes(x), slopes(x.astype("float64"))
    assert gradient.dtype == x.dtype
    np.testing.assert_allclose(
        gradient.astype("float64"), wide, rtol=8 * float(jnp.finfo(dtype).eps), atol=1e-3
    )


@every_description
def test_derivatives_where_elements_are_infinite(form):
    x = drawn((70,), "float64")
    given = described(form)
    places = np.asarray(given[0].ids if hasattr(given[0], "ids") else given[0])
    x[places == 2] = -np.inf
    x[np.flatnonzero(places == 0)[:2]] = -np.inf
    of_all = jax.jit(jax.grad(lambda x: jnp.sum(jscan.segment_logsumexp(x, *given))))
    of_one = jax.jit(jax.grad(lambda x: jnp.sum(jscan.segment_logsumexp(x, *given)[:1])))
    gradient = of_one(x)
    assert np.isfinite(gradient).all()
    np.testing.assert_allclose(jnp.sum(gradient), 1)
    np.testing.assert_array_equal(gradient[places != 0], 0)
    whole = of_all(x)
    np.testing.assert_array_equal(whole[places == 2], 0)
    assert np.isfinite(whole).all()
    softmax = jax.jit(lambda x: jnp.sum(jscan.segment_softmax(x, *given) * np.arange(70.0)))
    assert np.isfinite(jax.grad(softmax)(x)[places != 2]).all()
    x[np.flatnonzero(places == 0)[-1]] = np.inf
    members = of_all(x)[places == 0]
    np.testing.assert_array_equal(members, np.arange(len(members)) == len(members) - 1)


# --- transformations ----------------------------------------------------------------------------


@every_statistic
def test_vmap_of_data_of_ids_and_of_plans(statistic):
    x = drawn((3, 70, 2))
    rows = np.stack([IDS, np.roll(IDS, 5), np.sort(IDS)])
    plans = [jscan.SegmentPlan(ids, COUNT) for ids in rows[:2]]
    stacked = jax.tree.map(lambda *parts: jnp.stack(parts), *plans)
    each = [statistic.expected(x[i], rows[i], COUNT) for i in range(3)]

    @jax.jit
    def run(x, ids):
        return statistic.function(x, ids, COUNT)

    for actual, expected in (
        (jax.vmap(run)(x, rows), each),
        (jax.vmap(run)(x[:2], stacked), each[:2]),
        (
            jax.vmap(run, in_axes=(None, 0))(x[0], rows),
            [statistic.expected(x[0], ids, COUNT) for ids in rows],
        ),
        (
            jax.vmap(run, in_axes=(0, None), out_axes=1)(x, plans[0]).swapaxes(0, 1),
            [statistic.expected(row, IDS, COUNT) for row in x],
        ),
    ):
        np.testing.assert_allclose(actual, np.stack(expected), rtol=2e-5, atol=2e-5)


@every_statistic
def test_export(statistic):
    x = drawn((70,))
    for given in (IDS, jscan.SegmentPlan(IDS, COUNT)):
        program = jax.jit(lambda x, given: statistic.function(x, given, COUNT))
        again = export.deserialize(export.export(program)(x, given).serialize())
        expected = statistic.function(x, given, COUNT)
        np.testing.assert_allclose(again.call(x, given), expected, rtol=1e-6)


@pytest.mark.sweep
@every_statistic
def test_other_dtypes_are_named(statistic):
    wrong = jax.random.key(0)
    with pytest.raises(TypeError, match="data"):
        statistic.function(wrong, np.zeros(1, int), 1)
    if statistic not in (MEAN, NORM):
        with pytest.raises(TypeError, match="data has dtype complex64"):
            statistic.function(drawn((70,), "complex64"), IDS, COUNT)


@pytest.mark.parametrize("is_sorted", [False, True])
def test_a_segment_without_elements_makes_no_nan(is_sorted):
    x, ids = jnp.array([1.0, 2.0, 3.0, 4.0]), jnp.array([0, 0, 2, 2])

    def first(x: jax.Array) -> jax.Array:
        return jscan.segment_softmax(x, ids, 3, is_sorted)[0]

    with jax.debug_nans(True):
        found = jax.grad(first)(x)
        rows = jax.vmap(first)(jnp.stack([x, x]))
    share = float(jax.nn.softmax(x[:2])[0])
    np.testing.assert_allclose(found[:2], [share * (1 - share), -share * (1 - share)], rtol=1e-5)
    np.testing.assert_allclose(rows, [share, share], rtol=1e-5)
