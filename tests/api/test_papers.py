"""The worked examples of the papers, and the sorts that they build from vector primitives.

Blelloch, "Prefix Sums and Their Applications" (1990), and Sengupta, Harris, Zhang and Owens, "Scan
Primitives for GPU Computing" (2007).
"""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import jscan
from jscan import Segments
from tests.cases import values
from tests.engines import on_engines

pytestmark = pytest.mark.automatic

KEYS = np.array([5, 7, 3, 1, 4, 2, 7, 2])


def letters(text):
    """The truth values of a row of t and f."""
    return np.array([letter == "t" for letter in text])


@on_engines
def test_enumerate_of_the_paper():
    np.testing.assert_array_equal(jscan.enumerate(letters("tfftftt")), [0, 1, 1, 1, 2, 2, 3])


@on_engines
def test_both_enumerations_of_a_split():
    odd = KEYS % 2
    down = jscan.enumerate(1 - odd)
    up = len(KEYS) - 1 - np.asarray(jscan.enumerate(odd, reverse=True))
    np.testing.assert_array_equal(down, [0, 0, 0, 0, 0, 1, 2, 2])
    np.testing.assert_array_equal(up, [3, 4, 5, 6, 6, 6, 7, 7])
    np.testing.assert_array_equal(np.where(odd, up, down), [3, 4, 5, 6, 0, 1, 7, 2])


@on_engines
def test_split_radix_sort():
    keys, passes = jnp.asarray(KEYS), []
    for bit in range(3):
        keys = jscan.split(keys, np.asarray(keys) >> bit & 1)
        passes.append(keys.tolist())
    assert passes == [[4, 2, 2, 5, 7, 3, 1, 7], [4, 5, 1, 2, 2, 7, 3, 7], [1, 2, 2, 3, 4, 5, 7, 7]]


def test_segmented_scans_of_the_paper():
    x, flags = np.array([5, 1, 3, 4, 3, 9, 2, 6], "uint32"), np.array([1, 0, 1, 0, 0, 0, 1, 0])
    options: dict[str, Any] = {"exclusive": True, "segments": flags}
    np.testing.assert_array_equal(jscan.cumsum(x, **options), [0, 5, 0, 3, 7, 10, 0, 2])
    np.testing.assert_array_equal(jscan.cummax(x, **options), [0, 5, 0, 3, 4, 4, 0, 2])


def test_pack_deletes_what_is_not_marked():
    np.testing.assert_array_equal(jscan.pack(KEYS, letters("tfftttff")), [5, 1, 4, 2])


def test_processors_are_allocated_by_offsets_and_a_copy():
    # Each value asks for so many elements; it is written to the first and copied to the others.
    wanted = np.array([4, 1, 3])
    first = np.asarray(jscan.cumsum(wanted, exclusive=True))
    np.testing.assert_array_equal(first, [0, 4, 5])
    written = np.zeros(8, int)
    written[first] = [7, 8, 9]
    copied = jscan.distribute(written, segments=Segments.from_lengths(wanted))
    np.testing.assert_array_equal(copied, [7, 7, 7, 7, 8, 9, 9, 9])


def test_distribute_copies_either_end_of_each_segment():
    x, heads = np.array([3, 1, 7, 0, 4]), np.array([1, 0, 0, 1, 0])
    np.testing.assert_array_equal(jscan.distribute(x, segments=heads), [3, 3, 3, 0, 0])
    np.testing.assert_array_equal(
        jscan.distribute(x, segments=heads, reverse=True), [7, 7, 7, 4, 4]
    )


def quicksort_step(x, segments, strictly):
    """Splits each segment around its first element, by > or by >=."""
    pivot = jscan.distribute(x, segments=segments)
    return jscan.split_and_segment(x, jnp.where(strictly, x > pivot, x >= pivot), segments)


def test_three_way_split_around_a_pivot():
    # Two binary splits make one step of Blelloch's quicksort, whose pivot is the first key.
    keys = np.array([6.4, 9.2, 3.4, 1.6, 8.7, 4.1, 9.2, 3.4])
    split = jax.jit(jscan.split_and_segment)
    one, parts = split(keys, keys >= keys[0], Segments.from_flags(np.arange(8) == 0))
    two, parts = split(one, one > keys[0], parts)
    np.testing.assert_array_equal(two, [3.4, 1.6, 4.1, 3.4, 6.4, 9.2, 8.7, 9.2])
    np.testing.assert_array_equal(parts.flags, [1, 0, 0, 0, 1, 1, 0, 0])


def test_quicksort_of_five_keys():
    keys, segments = np.array([5, 3, 7, 4, 6]), Segments.from_flags(np.arange(5) == 0)
    step = jax.jit(quicksort_step)
    one, parts = step(keys, segments, True)
    np.testing.assert_array_equal(one, [5, 3, 4, 7, 6])
    np.testing.assert_array_equal(parts.ids, [0, 0, 0, 1, 1])
    two, parts = step(one, parts, False)
    np.testing.assert_array_equal(two, [3, 4, 5, 6, 7])
    np.testing.assert_array_equal(parts.ids, [0, 0, 1, 2, 3])


@on_engines
def test_quicksort_of_random_keys():
    @jax.jit
    def sort(x):
        def unsorted(state):
            x, _, steps = state
            return jnp.any(x[1:] < x[:-1]) & (steps < 2 * len(x))

        def step(state):
            # One of the two comparisons cuts a segment whose elements are not all equal.
            x, segments, steps = state
            return *quicksort_step(x, segments, steps % 2 == 0), steps + 1

        whole = Segments.from_flags(jnp.arange(len(x)) == 0)
        return jax.lax.while_loop(unsorted, step, (x, whole, jnp.int32(0)))[0]

    x = np.round(values("cumsum", (200,), "float32") * 20)
    np.testing.assert_array_equal(sort(x), np.sort(x))


@on_engines
def test_radix_sort_of_words_and_what_they_carry():
    @jax.jit
    def sort(pair):
        def by_bit(bit, pair):
            return jscan.split(pair, pair[0] >> bit.astype("uint8") & 1)

        return jax.lax.fori_loop(0, 8, by_bit, pair)

    keys = values("cumsum", (200,), "uint8")
    ordered, origin = sort((keys, np.arange(200)))
    np.testing.assert_array_equal(ordered, np.sort(keys))
    np.testing.assert_array_equal(origin, np.argsort(keys, stable=True))
