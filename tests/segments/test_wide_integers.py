"""Integers wider than 32 bits that describe segments, where JAX has no 64-bit types."""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import jscan
from jscan import Segments

HIGH = 2**32  # what JAX would take for 0
WIDE = {
    "int64": lambda values: np.array(values, np.int64),
    "uint64": lambda values: np.array(values, np.uint64),
    "Python": list,
}
wide = pytest.mark.parametrize("wide", WIDE.values(), ids=WIDE.keys())


@pytest.fixture(params=[False, True], ids=["x32", "x64"], autouse=True)
def x64(request):
    """With 64-bit types and without: results are the same."""
    with jax.enable_x64(request.param):
        yield request.param


# Segments


@wide
def test_flags_are_compared_with_zero_as_wide_as_they_are(wide):
    segments = Segments.from_flags(wide([0, 0, HIGH, 0, 3 * HIGH]))
    np.testing.assert_array_equal(segments.ids, [0, 0, 1, 1, 2])
    y = jax.jit(lambda x: jscan.cumsum(x, segments=segments))(np.ones(5, np.float32))
    np.testing.assert_array_equal(y, [1, 2, 1, 2, 1])
    assert segments == Segments.from_lengths([2, 2, 1])


@wide
def test_ids_are_compared_as_wide_as_they_are(wide):
    segments = Segments.from_ids(wide([0, HIGH, 0, 0, 2 * HIGH, 2 * HIGH]))
    np.testing.assert_array_equal(segments.ids, [0, 1, 2, 2, 3, 3])
    assert segments.num_segments == 4
    y = jax.jit(lambda x: jscan.cumsum(x, segments=segments))(np.ones(6, np.float32))
    np.testing.assert_array_equal(y, [1, 1, 1, 2, 1, 2])


def test_ids_that_no_dtype_holds():
    for ids in ([0, 2**70, 2**70, -(2**70)], [2**63, -1, -1, 0], [2**64 - 1, 5, 5, -5]):
        np.testing.assert_array_equal(Segments.from_ids(ids).lengths(), [1, 2, 1])
    np.testing.assert_array_equal(Segments.from_flags([0, 2**70, 0]).ids, [0, 1, 1])
    rows = [[2**70, 2**70, 1], [-1, 1, 1]]
    np.testing.assert_array_equal(Segments.from_ids(rows).ids, [[0, 0, 1], [0, 1, 1]])


@wide
def test_ids_of_the_same_low_words_over_rows(wide):
    rows = np.stack([wide([1, HIGH + 1, 1]), wide([7, 7, HIGH + 7])])
    np.testing.assert_array_equal(Segments.from_ids(rows).ids, [[0, 1, 2], [0, 0, 1]])


@pytest.mark.parametrize(
    ("lengths", "total"),
    [
        ([HIGH, 2], HIGH + 2),
        ([2**31 - 1], 2**31 - 1),
        ([2**30] * 4, 2**32),
        ([2**62] * 4, 2**64),
        ([2**63, 2**63 + 5], 2**64 + 5),
        ([2**70], 2**70),
    ],
)
def test_lengths_that_int32_cannot_count(lengths, total):
    made: list[Any] = [lengths]
    if max(lengths) < 2**63:
        made.append(np.array(lengths, np.int64))
    if max(lengths) < 2**64:
        made.append(np.array(lengths, np.uint64))
    for each in made:
        with pytest.raises(ValueError, match=rf"from_lengths: lengths must add up .*got {total}\n"):
            Segments.from_lengths(each)
        with pytest.raises(ValueError, match=rf"lengths add up to {total}, not to total=7"):
            Segments.from_lengths(each, 7)


@pytest.mark.parametrize("end", [2**31 - 1, HIGH + 5, 2**63 + 5, 2**70])
def test_offsets_that_int32_cannot_count(end):
    made: list[Any] = [[0, 2, end]]
    if end < 2**63:
        made.append(np.array([0, 2, end], np.int64))
    if end < 2**64:
        made.append(np.array([0, 2, end], np.uint64))
    for each in made:
        with pytest.raises(ValueError, match=rf"from_offsets: offsets must end below.*got {end}\n"):
            Segments.from_offsets(each)
        with pytest.raises(ValueError, match=rf"offsets end with {end}, not with total=5"):
            Segments.from_offsets(each, 5)


def test_wide_offsets_that_decrease():
    for dtype in (np.int64, np.uint64):
        with pytest.raises(ValueError, match=r"from_offsets: offsets must not decrease"):
            Segments.from_offsets(np.array([0, HIGH + 1, 4], dtype))
    with pytest.raises(
        ValueError, match=r"from_offsets: offsets must start with 0; got 4294967296"
    ):
        Segments.from_offsets([HIGH, HIGH + 5])


@wide
def test_wide_lengths_and_offsets_that_fit(wide):
    assert Segments.from_lengths(wide([2, 0, 3])) == Segments.from_offsets(wide([0, 2, 2, 5]))


def test_the_longest_axis_is_described():
    end = 2**31 - 2
    assert Segments.from_lengths([end, 0]).num_segments == 2
    assert repr(Segments.from_offsets([0, 7, end])).endswith(
        "offsets=[         0          7 2147483646])"
    )


@pytest.mark.parametrize("total", [2**31 - 1, HIGH + 2])
def test_a_total_that_int32_cannot_count(total):
    with pytest.raises(ValueError, match=r"from_lengths: total must be in \[0, 2\*\*31 - 1\)"):
        jax.jit(lambda v: Segments.from_lengths(v, total).ids)(np.array([1, 2], np.int32))


# segment_sum and its like


@pytest.mark.product
@wide
@pytest.mark.parametrize("is_sorted", [False, True])
def test_ids_that_do_not_fit_are_dropped(wide, is_sorted):
    x = np.array([1, 2, 4, 8], np.float32)
    ids = wide([0, 1, HIGH, HIGH + 1])
    np.testing.assert_array_equal(jscan.segment_sum(x, ids, 4, is_sorted), [1, 2, 0, 0])
    np.testing.assert_array_equal(jscan.segment_max(x, ids, 2, is_sorted), [1, 2])
    np.testing.assert_array_equal(jax.jit(lambda x: jscan.segment_sum(x, ids, 3))(x), [1, 2, 0])


@pytest.mark.parametrize("is_sorted", [False, True])
def test_ids_below_zero_that_do_not_fit_are_dropped(is_sorted):
    x = np.array([1, 2, 4, 8], np.float32)
    for ids in (np.array([-HIGH, 1 - HIGH, 0, 1]), [-(2**70), -1, 0, 1], [-1, -1, 0, 2**63]):
        y = jscan.segment_sum(x, ids, 2, is_sorted)
        np.testing.assert_array_equal(y, [4, 8 if ids[3] == 1 else 0])


def test_a_number_of_segments_left_out_that_does_not_fit_is_named():
    with pytest.raises(ValueError, match=r"jscan\.segment_sum: .*num_segments.*4294967298"):
        jscan.segment_sum(np.ones(2, np.float32), np.array([0, HIGH + 1]))


def test_lists_of_traced_ids():
    sums = jax.jit(lambda x, i: jscan.segment_sum(x, [i, 0, i], 3))
    np.testing.assert_array_equal(sums(jnp.arange(3.0), np.int32(2)), [1, 0, 2])


def test_lists_that_are_no_ids_are_named():
    for ids in ([0, "a", 1], [0, None, 1], [[0], [1, 2]]):
        with pytest.raises((TypeError, ValueError), match=r"jscan\.segment_sum: segment_ids must"):
            jscan.segment_sum(np.ones(3, np.float32), ids, 3)
        with pytest.raises((TypeError, ValueError), match=r"jscan\.Segments\.from_ids: ids must"):
            Segments.from_ids(ids)
