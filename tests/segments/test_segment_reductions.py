"""segment_sum and its like: every dtype of data and ids, every layout of segments, every engine."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import jscan
from tests import reference
from tests.cases import (
    COMPLEX,
    FLOATS,
    INTEGERS,
    NUMBERS,
    REAL,
    highest,
    lowest,
    sorted_or_not,
    values,
)


@dataclass(frozen=True)
class SegmentReduction:
    """A public segment reduction and what it should compute."""

    name: str
    combine: Callable[[Any, Any], Any]
    identity: Callable[[Any], Any]
    dtypes: tuple[str, ...]

    @property
    def function(self) -> Callable[..., jax.Array]:
        """The function under test."""
        return getattr(jscan, self.name)

    @property
    def model(self) -> Callable[..., jax.Array]:
        """The function of jax that it takes the place of."""
        return getattr(jax.ops, self.name)

    def expected(self, x: Any, ids: Any, num_segments: int) -> Any:
        """The sequential reduction of x, in a wide type."""
        identity = self.identity(np.asarray(x).dtype)
        return reference.reduce_by_segments(self.combine, x, ids, num_segments, identity=identity)

    def check(self, x: Any, ids: Any, num_segments: int, *arguments: Any, **options: Any) -> None:
        """Asserts that x, of which every order of combination is exact, is reduced as it should."""
        actual = self.function(x, ids, num_segments, *arguments, **options)
        assert isinstance(actual, jax.Array)
        assert actual.dtype == np.asarray(x).dtype
        reference.assert_equal(actual, self.expected(x, ids, num_segments))


SUM = SegmentReduction("segment_sum", np.add, lambda _: 0, NUMBERS)
PROD = SegmentReduction("segment_prod", np.multiply, lambda _: 1, NUMBERS)
MAX = SegmentReduction("segment_max", np.maximum, lowest, (*REAL, "bool"))
MIN = SegmentReduction("segment_min", np.minimum, highest, (*REAL, "bool"))
REDUCTIONS = (SUM, PROD, MAX, MIN)

every_reduction = pytest.mark.parametrize("reduction", REDUCTIONS, ids=lambda r: r.name)
every_dtype = pytest.mark.parametrize(
    ("reduction", "dtype"),
    [pytest.param(r, d, id=f"{r.name}-{d}") for r in REDUCTIONS for d in r.dtypes],
)


def exact(reduction: SegmentReduction, shape: tuple[int, ...], dtype: str, seed: int = 0) -> Any:
    """Random data that no order of combination rounds; integers of products may well wrap."""
    rng = np.random.default_rng([seed, *shape])
    if dtype == "bool":
        return rng.random(shape) < 0.5
    if dtype in INTEGERS:
        return values("cumsum", shape, dtype, seed)
    units = (1, -1, 1j, -1j) if dtype in COMPLEX else (1, -1)
    numbers = units if reduction is PROD else tuple(range(-9, 10))
    return rng.choice(numbers, shape).astype(jnp.dtype(dtype))


def ascending(n: int, num_segments: int, dtype: str = "int32", seed: int = 0) -> Any:
    """Sorted ids, of which a few are negative and a few not below num_segments."""
    rng = np.random.default_rng([seed, n])
    low = 0 if dtype.startswith("u") else -3
    return np.sort(rng.integers(low, num_segments + 3, n)).astype(dtype)


def layouts(n: int) -> dict[str, Any]:
    """Ids of n elements, with n segments or fewer, in the ways that segments can lie."""
    element = np.arange(n)
    rng = np.random.default_rng(n)
    # One long segment between short ones, some of them dropped, and no order among the numbers.
    cuts = np.sort(rng.choice(n // 4, min(n // 8, 12), replace=False))
    runs = np.searchsorted(cuts, element, side="right")
    shuffled = rng.permutation(np.arange(-3, n))[: len(cuts) + 1]
    return {
        "one segment": np.zeros(n),
        "the last segment": np.full(n, n - 1),
        "three elements each": element // 3,
        "one element each": element,
        "one element each, backwards": element[::-1],
        "most of them empty": np.sort(rng.choice(n, n // 16 + 1))[element // 17],
        "dropped at both ends": element - n // 3 + (element > n // 2) * n,
        "all negative": np.full(n, -1),
        "all beyond": np.full(n, n),
        "one long among short ones": shuffled[runs],
    }


def test_layouts(engine):
    n = engine.longest
    x = exact(SUM, (n,), "float32")
    # Neither may leave its segment.
    x[n // 3], x[n // 2 + 1] = np.nan, np.inf
    # Of one shape, so that they are one program.
    for ids in layouts(n).values():
        SUM.check(x, ids.astype("int32"), n, True, method=engine.method)


@pytest.mark.sweep
@every_reduction
@pytest.mark.parametrize("layout", layouts(300))
def test_every_reduction_in_every_layout(reduction, layout, engine):
    ids = layouts(300)[layout].astype("int64")
    for dtype in ("uint16", "float32"):
        x = exact(reduction, (300,), dtype)
        reduction.check(x, ids, 300, True, method=engine.method)
        reduction.check(x, ids, 300, False)


def test_sizes(engine, size):
    num_segments = size // 4 + 1
    x, ids = exact(SUM, (size,), "int32"), ascending(size, num_segments)
    SUM.check(x, ids, num_segments, True, method=engine.method)


@pytest.mark.sweep
@every_dtype
def test_every_dtype_equals_that_of_jax(reduction, dtype, engine):
    x = exact(reduction, (70, 2), dtype)
    ids = ascending(70, 30)
    theirs = reduction.model(x, ids, 30)
    order = np.random.default_rng(0).permutation(70)
    for ours in (
        reduction.function(x, ids, 30, True, method=engine.method),
        reduction.function(x, ids, 30),
        reduction.function(x[order], ids[order], num_segments=30),
    ):
        assert (ours.dtype, ours.shape) == (theirs.dtype, theirs.shape)
        np.testing.assert_array_equal(ours, theirs)
    assert len(np.unique(ids)) < 30  # so that some of the segments are empty
    reference.assert_equal(theirs, reduction.expected(x, ids, 30))


@pytest.mark.sweep
@pytest.mark.parametrize("dtype", FLOATS + COMPLEX)
@pytest.mark.parametrize("reduction", [SUM, PROD], ids=lambda r: r.name)
def test_rounding_is_within_its_bound(reduction, dtype, engine):
    x = values("cumprod" if reduction is PROD else "cumsum", (300,), dtype)
    ids = np.sort(np.random.default_rng(1).integers(0, 4, 300))
    expected = reduction.expected(x, ids, 4)
    magnitude = reduction.expected(np.abs(reference.widen(x)), ids, 4)
    error = reference.bound(magnitude, expected, x.dtype, n=300, steps=3 if dtype in COMPLEX else 1)
    reference.assert_within(
        reduction.function(x, ids, 4, True, method=engine.method), expected, error
    )
    reference.assert_within(reduction.function(x, ids, 4), expected, error)


def eight_bits(*shape: int) -> Any:
    """Odd integers of eight bits: float32 adds thousands exactly, bfloat16 hardly two of them."""
    return np.random.default_rng(shape).choice(np.arange(129, 256, 2), shape)


def check_half_precision(dtype: str, **options: Any) -> None:
    n = 1024
    for x, ids in (
        (eight_bits(n), np.arange(n) // 64),
        (eight_bits(n) / 256, np.zeros(n, int)),
        (np.ones(n), np.zeros(n, int)),
    ):
        SUM.check(x.astype(jnp.dtype(dtype)), ids, 64, **options)


@pytest.mark.sweep
@pytest.mark.parametrize("dtype", ["float16", "bfloat16"])
def test_half_precision_is_added_in_float32(dtype, engine):
    check_half_precision(dtype, indices_are_sorted=True, method=engine.method)


@pytest.mark.parametrize("dtype", ["float16", "bfloat16"])
def test_half_precision_is_added_in_float32_where_ids_are_not_sorted(dtype):
    check_half_precision(dtype)


def not_finite() -> tuple[Any, Any]:
    """Pairs of values, each a segment, of which most are infinite or no number."""
    pairs = [(np.nan, 1), (1, np.nan), (np.inf, -np.inf), (np.inf, 1), (1, -np.inf), (0, np.inf)]
    x = np.array([*pairs, (2, 3), (np.nan, np.inf), (-0.5, 4)] * 16, np.float32)
    return x.reshape(-1), np.arange(x.size) // 2


@pytest.mark.sweep
@every_reduction
def test_infinities_and_nans(reduction, engine):
    x, ids = not_finite()
    reduction.check(x, ids, x.size, True, method=engine.method)
    reduction.check(x, ids, x.size)


def test_trailing_dimensions_in_half_precision(engine):
    n = min(engine.longest, 300)
    x = eight_bits(n, 2, 5).astype(jnp.bfloat16)
    SUM.check(x, ascending(n, 20), 20, True, method=engine.method)


@pytest.mark.sweep
@pytest.mark.parametrize("trailing", [(), (1,), (3,), (2, 5), (40,), (0,), (4, 0, 2)])
def test_maximum_with_trailing_dimensions(trailing, engine):
    x, ids = exact(MAX, (50, *trailing), "float32"), ascending(50, 20)
    MAX.check(x, ids, 20, True, method=engine.method)
    MAX.check(x, ids, 20)


def extreme_ids(dtype: str, num_segments: int) -> Any:
    """Sorted ids, with the ends of their dtype and the ends of what is kept."""
    info = np.iinfo(dtype)
    wanted = {-1, 0, 1, 126, 127, 128, 254, 255, 256, num_segments - 1, num_segments}
    # Words of 32 bits would take these for the first segment, the second and the last.
    wanted |= {2**32, 2**32 + 1, 2**32 + num_segments - 1}
    inside = [i for i in wanted | {info.min, info.max} if info.min <= i <= info.max]
    return np.repeat(np.array(sorted(inside), dtype), 3)


@pytest.mark.parametrize("dtype", ["uint8", "int64"])
def test_ids_as_narrow_or_as_wide_as_can_be(dtype, engine):
    ids = extreme_ids(dtype, 300)
    SUM.check(np.arange(1, 1 + ids.size), ids, 300, True, method=engine.method)


@pytest.mark.sweep
@sorted_or_not
@pytest.mark.parametrize("num_segments", [100, 256])
@pytest.mark.parametrize("dtype", INTEGERS)
def test_every_dtype_of_ids(dtype, num_segments, indices_are_sorted, engine):
    ids = extreme_ids(dtype, num_segments)
    method = engine.method if indices_are_sorted else "auto"
    x = np.arange(1, 1 + ids.size)
    SUM.check(x, ids, num_segments, indices_are_sorted, method=method)


@pytest.mark.sweep
def test_ids_that_break_their_promise_lose_elements_only(engine):
    # Every element is a bit of its own, so that a total tells of what it is one.
    ids = np.random.default_rng(0).integers(-1, 3, 60)
    total = jscan.segment_sum(1 << np.arange(60), ids, 3, True, method=engine.method)
    for segment, bits in enumerate(np.asarray(total).tolist()):
        own = sum(1 << i for i in np.flatnonzero(ids == segment).tolist())
        assert bits
        assert bits & ~own == 0


@sorted_or_not
def test_the_number_of_segments_left_out(indices_are_sorted):
    def shape(ids):
        x = np.ones((len(ids), 2), np.float32)
        return jscan.segment_sum(x, ids, indices_are_sorted=indices_are_sorted).shape

    assert shape(np.array([0, 1, 1, 6])) == (7, 2)
    assert shape(jnp.array([-5, -1, 2])) == (3, 2)
    assert shape(np.array([3, 255], np.uint8)) == (256, 2)
    assert shape(np.array([-3, 127], np.int8)) == (128, 2)
    assert shape(np.array([], np.int32)) == (0, 2)


@sorted_or_not
def test_no_segments_where_the_highest_id_left_to_count_is_minus_one(indices_are_sorted):
    ids = np.array([-4, -1, -1])
    assert jax.ops.segment_sum(np.ones(3), ids).shape == (0,)
    assert jscan.segment_sum(np.ones(3), ids, None, indices_are_sorted).shape == (0,)


@pytest.mark.sweep
@sorted_or_not
@pytest.mark.parametrize(("n", "num_segments"), [(0, 0), (0, 3), (1, 0), (1, 1), (1, 3), (5, 0)])
def test_nothing_and_next_to_nothing(n, num_segments, indices_are_sorted, engine):
    method = engine.method if indices_are_sorted else "auto"
    for trailing in ((), (2,)):
        x, ids = exact(MAX, (n, *trailing), "float32"), np.arange(n, dtype="int16")
        MAX.check(x, ids, num_segments, indices_are_sorted, method=method)


def test_large_reductions(engine, large_size):
    x = jnp.arange(large_size)
    total = jscan.segment_sum(x, x // 3, -(-large_size // 3), True, method=engine.method)
    triples = np.arange(large_size // 3)
    np.testing.assert_array_equal(total[: len(triples)], 9 * triples + 3)
    left = np.arange(3 * len(triples), large_size)
    assert np.sum(total[len(triples) :]) == np.sum(left)


def test_accepts_lists_and_numpy_integers():
    arguments: tuple[Any, ...] = np.int64(4), np.True_
    total = jscan.segment_sum([1, 2, 3], [0, 2, 2], *arguments)
    np.testing.assert_array_equal(total, [1, 0, 5, 0])


@every_reduction
@sorted_or_not
def test_without_64_bit_types(reduction, indices_are_sorted):
    with jax.enable_x64(False):
        reduction.check(
            exact(reduction, (40,), "int32"), ascending(40, 9, "int16"), 9, indices_are_sorted
        )


# laws


@st.composite
def problems(draw: Any, lengths: tuple[int, ...]) -> tuple[SegmentReduction, Any, Any, int]:
    """A reduction of random data by groups that are empty, tiny, giant or dropped."""
    n, num_segments = draw(st.sampled_from(lengths)), draw(st.sampled_from((1, 5, 40)))
    reduction = draw(st.sampled_from(REDUCTIONS))
    dtype = draw(st.sampled_from([d for d in reduction.dtypes if d in ("int8", "float32", "bool")]))
    numbers = draw(st.permutations(range(-2, num_segments + 2)))
    sizes = draw(
        st.lists(
            st.sampled_from((0, 1, 2, 3, n // 2)), min_size=len(numbers), max_size=len(numbers)
        )
    )
    ids = np.repeat(numbers, sizes)[:n]
    ids = np.concatenate(
        [ids, np.full(n - len(ids), draw(st.sampled_from((-7, num_segments + 7))))]
    )
    x = exact(reduction, (n,), dtype, draw(st.integers(0, 2**32 - 1)))
    return reduction, x, ids.astype(draw(st.sampled_from(("int8", "int32", "int64")))), num_segments


@given(problems((1, 2, 7, 33)))
def test_groups_in_any_order(problem):
    reduction, x, ids, num_segments = problem
    reduction.check(x, ids, num_segments, True)
    reduction.check(x, ids, num_segments, False)


@pytest.mark.gpu
@pytest.mark.parametrize("method", ["block", "lookback"])
@given(problem=problems((7, 33, 1000, 4097)))
def test_groups_in_any_order_on_a_gpu(method, problem):
    reduction, x, ids, num_segments = problem
    reduction.check(x, ids, num_segments, True, method=method)
