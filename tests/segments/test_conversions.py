"""Segments from each descriptor to each form: flags, ids, lengths and offsets, on every engine."""

from __future__ import annotations

import itertools

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from jscan import Segments
from tests.cases import INTEGERS, head_flags
from tests.engines import on_engines

pytestmark = pytest.mark.automatic
KINDS = ("flags", "ids", "lengths", "offsets")
every_kind = pytest.mark.parametrize("kind", KINDS)

TOTAL = 12
ASKED = (3, 9)  # how many segments lengths and offsets are asked for; there are five
LENGTHS = {
    "plain": [2, 3, 1, 4, 2],
    "empty first": [0, 0, 5, 3, 4],
    "empty in the middle": [4, 0, 0, 1, 7],
    "empty last": [1, 11, 0, 0, 0],
    "empty around": [0, 3, 0, 9, 0],
    "one holds all": [0, 0, 12, 0, 0],
}


def described(kind, lengths):
    """One of the four descriptors of segments of some lengths."""
    numbers = np.repeat(np.arange(len(lengths)), lengths)
    descriptors = {
        "flags": np.diff(numbers, prepend=-1) != 0,
        "ids": 7 - 2 * numbers,  # ids may decrease, and be negative
        "lengths": np.array(lengths, int),
        "offsets": np.cumsum([0, *lengths]),
    }
    return descriptors[kind]


def build(kind, descriptor, total=TOTAL):
    """Segments from a descriptor, which may be traced."""
    constructor = getattr(Segments, f"from_{kind}")
    return (
        constructor(descriptor, total)
        if kind in ("lengths", "offsets")
        else constructor(descriptor)
    )


def views(segments, asked=ASKED):
    """The four forms, two of them for each number of segments that is asked for."""
    lengths, offsets = (
        [form(count) for count in asked] for form in (segments.lengths, segments.offsets)
    )
    return segments.flags, segments.ids, lengths, offsets


def expected_views(kind, lengths, asked=ASKED):
    """What `views` should give: flags and ids know of no empty segments."""
    kept = list(lengths) if kind in ("lengths", "offsets") else [size for size in lengths if size]
    flags = [t == 0 for size in kept for t in range(size)]
    ids = [number for number, size in enumerate(kept) for _ in range(size)]
    padded = [(kept + [0] * count)[:count] for count in asked]
    return flags, ids, padded, [[0, *itertools.accumulate(sizes)] for sizes in padded]


def check(actual, expected):
    """Compares the four forms, and their dtypes."""
    for got, want in zip(actual[:2], expected[:2], strict=True):
        np.testing.assert_array_equal(got, want)
    for got, want in zip(jax.tree.leaves(actual[2:]), expected[2] + expected[3], strict=True):
        np.testing.assert_array_equal(got, want)
    assert actual[0].dtype == bool
    assert {form.dtype for form in jax.tree.leaves(actual[1:])} == {np.dtype("int32")}


# one row


@every_kind
def test_segments_built_outside_of_jit(kind):
    program = jax.jit(views)
    for lengths in LENGTHS.values():
        check(program(build(kind, described(kind, lengths))), expected_views(kind, lengths))


@on_engines
@every_kind
def test_segments_built_inside_of_jit(kind):
    program = jax.jit(lambda descriptor: views(build(kind, descriptor)))
    for lengths in LENGTHS.values():
        check(program(described(kind, lengths)), expected_views(kind, lengths))


@every_kind
def test_without_jit(kind):
    lengths, asked = LENGTHS["empty around"], (0, 3, 5, 9)
    segments = build(kind, described(kind, lengths))
    check(views(segments, asked), expected_views(kind, lengths, asked))


@on_engines
@every_kind
@pytest.mark.parametrize("lengths", [[], [0, 0, 0], [0, 1, 0]], ids=str)
def test_no_elements_and_one(kind, lengths):
    def convert(descriptor):
        return views(build(kind, descriptor, sum(lengths)), asked=(0, 1, 4))

    actual = jax.jit(convert)(described(kind, lengths))
    check(actual, expected_views(kind, lengths, asked=(0, 1, 4)))


@every_kind
def test_many_segments_over_several_tiles(kind, engine):
    rng = np.random.default_rng(5)
    n = engine.longest
    cuts = np.sort(rng.integers(0, n + 1, n // 9))
    cuts[n // 30 : n // 20] = cuts[n // 30]  # many empty ones next to each other
    cuts[-n // 90 :] = n
    lengths = np.diff(cuts, prepend=0, append=n).tolist()
    asked = (len(lengths) + 3,)
    segments = build(kind, described(kind, lengths), n)
    program = jax.jit(lambda segments: views(segments, asked))
    check(program(segments), expected_views(kind, lengths, asked))


# rows


@on_engines
@every_kind
def test_vmap_builds_and_converts_rows(kind):
    rows = np.stack([described(kind, lengths) for lengths in LENGTHS.values()])
    inside = jax.jit(jax.vmap(lambda descriptor: views(build(kind, descriptor))))(rows)
    for i, lengths in enumerate(LENGTHS.values()):
        check(jax.tree.map(lambda form, i=i: form[i], inside), expected_views(kind, lengths))


@every_kind
def test_vmap_of_a_batch_of_segments(kind):
    rows = np.stack([described(kind, lengths) for lengths in LENGTHS.values()]).reshape(2, 3, -1)
    batch = jax.jit(jax.vmap(jax.vmap(lambda descriptor: build(kind, descriptor))))(rows)
    outside = jax.jit(jax.vmap(jax.vmap(views), 0, 1))(batch)
    for i, lengths in enumerate(LENGTHS.values()):
        one = jax.tree.map(lambda form, i=i: form[i % 3, i // 3], outside)
        check(one, expected_views(kind, lengths))


@pytest.mark.sweep
@on_engines
@pytest.mark.parametrize("kind", ["flags", "ids"])
def test_rows_of_one_array(kind):
    rows = np.stack([described(kind, lengths) for lengths in LENGTHS.values()]).reshape(2, 3, -1)
    forms = jax.jit(lambda rows: views(build(kind, rows)))(rows)
    for i, lengths in enumerate(LENGTHS.values()):
        check(
            jax.tree.map(lambda form, i=i: form[i // 3, i % 3], forms),
            expected_views(kind, lengths),
        )


@pytest.mark.parametrize("shape", [(0, 4), (3, 0), (0, 0)])
@pytest.mark.parametrize("kind", ["flags", "ids"])
def test_rows_of_nothing(kind, shape):
    segments = build(kind, np.ones(shape, int))
    assert segments.flags.shape == segments.ids.shape == shape
    np.testing.assert_array_equal(segments.lengths(2), np.zeros((shape[0], 2)))
    np.testing.assert_array_equal(segments.offsets(2), np.zeros((shape[0], 3)))


# dtypes


@on_engines
@pytest.mark.parametrize("kind", ["flags", "ids"])
def test_every_dtype_of_flags_and_ids(kind):
    given = {"bool": head_flags((70,), share=0.4)}
    for dtype in INTEGERS:
        given[dtype] = head_flags((70,), dtype, share=0.4)
        given[dtype][::5] = np.iinfo(dtype).min or np.iinfo(dtype).max // 2 + 1  # one high bit
    numbers = jax.jit(lambda given: jax.tree.map(lambda each: build(kind, each).ids, given))(given)
    for dtype, each in given.items():
        starts = each != 0 if kind == "flags" else np.append(True, each[1:] != each[:-1])
        starts[0] = True
        np.testing.assert_array_equal(numbers[dtype], np.cumsum(starts) - 1)


@pytest.mark.parametrize("kind", ["lengths", "offsets"])
def test_every_dtype_of_lengths_and_offsets(kind):
    lengths = LENGTHS["empty around"]
    given = {dtype: described(kind, lengths).astype(dtype) for dtype in INTEGERS}
    ids = jax.jit(lambda given: jax.tree.map(lambda each: build(kind, each).ids, given))(given)
    for dtype in INTEGERS:
        np.testing.assert_array_equal(ids[dtype], expected_views(kind, lengths)[1])


# traced descriptors that do not fit


MISFITS = {
    "lengths": (
        ([2, 3, 0], [2, 3, 0, 7]),  # what is left is a segment of its own
        ([0, 0, 0], [0, 0, 0, 12]),
        ([2, 30, 4], [2, 10, 0]),
        ([2**40, 2**40, 1], [12, 0, 0]),
        ([5, -3, 7], [5, 0, 7]),
    ),
    "offsets": (
        ([0, 2, 2, 5], [2, 0, 3, 7]),
        ([4, 6, 6, 12], [6, 0, 6]),  # what comes before the first is in segment 0
        ([-4, 6, 6, 12], [6, 0, 6]),
        ([0, 5, 90, 95], [5, 7, 0]),
        ([0, 7, 2**40, 2**40], [7, 5, 0]),
    ),
}


@on_engines
@pytest.mark.parametrize("kind", MISFITS)
def test_traced_descriptors_that_do_not_fit(kind):
    program = jax.jit(lambda descriptor: views(build(kind, descriptor)))
    for descriptor, meant in MISFITS[kind]:
        check(program(np.array(descriptor)), expected_views("lengths", meant))


# how many segments there are


@every_kind
def test_the_number_of_segments(kind):
    descriptor = described(kind, LENGTHS["empty around"])
    known = kind in ("lengths", "offsets")
    assert build(kind, descriptor).num_segments == (5 if known else 2)
    counts = []
    jax.jit(lambda descriptor: counts.append(build(kind, descriptor).num_segments))(descriptor)
    assert counts == [5 if known else None]


@pytest.mark.parametrize("kind", ["flags", "ids"])
def test_the_number_of_segments_of_rows_is_the_largest(kind):
    rows = np.stack([described(kind, lengths) for lengths in LENGTHS.values()])
    assert build(kind, rows).num_segments == 5
    assert build(kind, rows[:0]).num_segments == 0


# round trips


@jax.jit
def around(lengths):
    """Segments of lengths, and those made of each of their forms."""
    segments = Segments.from_lengths(lengths, 20)
    count = len(lengths)
    first = [
        segments,
        Segments.from_lengths(segments.lengths(count), 20),
        Segments.from_offsets(segments.offsets(count), 20),
    ]
    second = [Segments.from_ids(segments.ids), Segments.from_flags(segments.flags)]
    second += [Segments.from_flags(second[0].flags), Segments.from_ids(second[1].ids)]
    return [[views(each, (count,)) for each in group] for group in (first, second)]


@given(st.lists(st.integers(0, 20), min_size=6, max_size=6))
def test_round_trips(cuts):
    lengths = np.diff([0, *sorted(cuts), 20])
    with_empty, without_empty = around(jnp.asarray(lengths))
    for actual in with_empty:
        check(actual, expected_views("lengths", lengths, (7,)))
    for actual in without_empty:
        check(actual, expected_views("flags", lengths, (7,)))
