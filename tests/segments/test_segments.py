"""Segments: its four constructors, its conversions, and scans over pathological segments."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import jscan
from jscan import Segments
from tests import reference
from tests.cases import FLAG_DTYPES, SEGMENTED_FORMS, form_name, head_flags, values

every_form = pytest.mark.parametrize("form", SEGMENTED_FORMS, ids=form_name)

# Each row: lengths of the segments of one array. Empty ones stand first, last and in the middle.
LENGTHS = {
    "one": [6],
    "one per element": [1, 1, 1, 1, 1],
    "plain": [2, 3, 1],
    "empty in the middle": [2, 0, 0, 3],
    "empty first": [0, 0, 4],
    "empty last": [4, 0, 0],
    "empty around": [0, 3, 0, 2, 0],
    "single then long": [1, 40],
    "all empty": [0, 0, 0],
}
every_lengths = pytest.mark.parametrize("lengths", LENGTHS.values(), ids=LENGTHS.keys())


def of_lengths(lengths):
    """Flags, ids and offsets of segments of given lengths, in NumPy."""
    lengths = np.array(lengths, int)
    ids = np.repeat(np.arange(len(lengths)), lengths)
    flags = np.diff(ids, prepend=-1) != 0
    return flags, ids, np.concatenate([[0], np.cumsum(lengths)])


# conversions


@every_lengths
def test_from_lengths(lengths):
    flags, ids, offsets = of_lengths(lengths)
    segments = Segments.from_lengths(np.array(lengths))
    np.testing.assert_array_equal(np.asarray(segments.flags) != 0, flags)
    np.testing.assert_array_equal(segments.ids, ids)
    np.testing.assert_array_equal(segments.lengths(len(lengths)), lengths)
    np.testing.assert_array_equal(segments.offsets(len(lengths)), offsets)


@every_lengths
def test_from_offsets(lengths):
    flags, ids, offsets = of_lengths(lengths)
    segments = Segments.from_offsets(offsets)
    np.testing.assert_array_equal(np.asarray(segments.flags) != 0, flags)
    np.testing.assert_array_equal(segments.ids, ids)
    np.testing.assert_array_equal(segments.lengths(len(lengths)), lengths)
    np.testing.assert_array_equal(segments.offsets(len(lengths)), offsets)


@every_lengths
def test_conversions_under_jit(lengths):
    flags, ids, offsets = of_lengths(lengths)
    total, count = int(offsets[-1]), len(lengths)

    def views(segments):
        return segments.flags, segments.ids, segments.lengths(count), segments.offsets(count)

    by_lengths = jax.jit(lambda v: views(Segments.from_lengths(v, total)))(np.array(lengths))
    by_offsets = jax.jit(lambda v: views(Segments.from_offsets(v, total)))(offsets)
    for got_flags, got_ids, got_lengths, got_offsets in (by_lengths, by_offsets):
        np.testing.assert_array_equal(np.asarray(got_flags) != 0, flags)
        np.testing.assert_array_equal(got_ids, ids)
        np.testing.assert_array_equal(got_lengths, lengths)
        np.testing.assert_array_equal(got_offsets, offsets)


@pytest.mark.parametrize("dtype", FLAG_DTYPES)
def test_from_flags(dtype):
    flags = head_flags((60,), dtype, share=0.2)
    segments = Segments.from_flags(flags)
    heads = flags != 0
    heads[0] = True
    ids = np.cumsum(heads) - 1
    count = int(ids[-1]) + 1
    np.testing.assert_array_equal(segments.ids, ids)
    np.testing.assert_array_equal(segments.lengths(count), np.bincount(ids))
    starts = [*np.flatnonzero(heads), 60]
    np.testing.assert_array_equal(segments.offsets(count), starts)


def test_the_first_element_starts_a_segment_flagged_or_not():
    for flags in ([0, 0, 1, 0], [1, 0, 1, 0]):
        segments = Segments.from_flags(np.array(flags))
        np.testing.assert_array_equal(segments.ids, [0, 0, 1, 1])
        np.testing.assert_array_equal(segments.lengths(2), [2, 2])


def test_from_ids_that_recur_make_new_segments():
    ids = np.array([4, 4, 2, 2, 4, 4, 4, -1])
    segments = Segments.from_ids(ids)
    heads = np.asarray(segments.flags) != 0
    np.testing.assert_array_equal(heads[1:], [0, 1, 0, 1, 0, 0, 1])
    y = jscan.cumsum(np.ones(8, np.int32), segments=segments)
    np.testing.assert_array_equal(y, [1, 2, 1, 2, 1, 2, 3, 1])


def test_flags_of_many_rows():
    flags = head_flags((4, 30), share=0.2)
    ids = np.cumsum(flags | (np.arange(30) == 0), axis=1) - 1
    np.testing.assert_array_equal(Segments.from_flags(flags).ids, ids)


def test_more_segments_asked_for_than_exist_are_empty():
    segments = Segments.from_flags(np.array([1, 0, 1]))
    np.testing.assert_array_equal(segments.lengths(4), [2, 1, 0, 0])
    np.testing.assert_array_equal(segments.offsets(4), [0, 2, 3, 3, 3])


# a pytree


@every_lengths
def test_segments_pass_through_jit(lengths):
    flags, _, offsets = of_lengths(lengths)
    x = values("cumsum", (int(offsets[-1]),), "int32")
    run = jax.jit(lambda x, segments: jscan.cumsum(x, segments=segments))
    for segments in (Segments.from_lengths(np.array(lengths)), Segments.from_offsets(offsets)):
        reference.assert_equal(run(x, segments), reference.scan(np.add, x, flags=flags))


def test_segments_are_a_pytree_that_rebuilds():
    segments = Segments.from_lengths(np.array([2, 0, 3]))
    leaves, tree = jax.tree.flatten(segments)
    rebuilt = jax.tree.unflatten(tree, leaves)
    assert isinstance(rebuilt, Segments)
    np.testing.assert_array_equal(rebuilt.lengths(3), [2, 0, 3])


@pytest.mark.parametrize("kind", ["flags", "ids", "lengths", "offsets"])
def test_vmap_of_segments(kind):
    lengths = np.array([[4, 6, 0], [1, 1, 8], [0, 10, 0], [0, 0, 10]])
    described = [of_lengths(row) for row in lengths]
    flags, ids, offsets = (np.stack(part) for part in zip(*described, strict=True))
    data = {"flags": flags, "ids": ids, "lengths": lengths, "offsets": offsets}[kind]
    x = values("cumsum", (4, 10), "int32")

    def build(row):
        constructor = getattr(Segments, f"from_{kind}")
        return constructor(row, total=10) if kind in ("lengths", "offsets") else constructor(row)

    expected = reference.scan(np.add, x, axis=1, flags=flags)
    inside = jax.jit(jax.vmap(lambda x, row: jscan.cumsum(x, segments=build(row))))(x, data)
    reference.assert_equal(inside, expected)
    batched = jax.jit(jax.vmap(build))(data)
    outside = jax.jit(jax.vmap(lambda x, segments: jscan.cumsum(x, segments=segments)))(x, batched)
    reference.assert_equal(outside, expected)


@pytest.mark.parametrize("unmapped", ["x", "segments"])
def test_vmap_with_one_operand_shared(unmapped):
    lengths = np.array([[4, 6, 0], [1, 1, 8], [0, 10, 0]])
    x = values("cumsum", (3, 10), "int32")
    x, lengths = (x[0], lengths) if unmapped == "x" else (x, lengths[0])
    run = jax.vmap(
        lambda x, v: jscan.cumsum(x, segments=Segments.from_lengths(v, total=10)),
        (None, 0) if unmapped == "x" else (0, None),
    )
    for i, row in enumerate(run(x, lengths)):
        flags, _, _ = of_lengths(lengths[i] if unmapped == "x" else lengths)
        want = reference.scan(np.add, x if unmapped == "x" else x[i], flags=flags)
        reference.assert_equal(row, want)


# traced descriptors that do not fit


def test_elements_past_the_last_traced_segment_form_one_of_their_own():
    run = jax.jit(lambda x, v: jscan.cumsum(x, segments=Segments.from_lengths(v, total=8)))
    np.testing.assert_array_equal(run(jnp.ones(8), np.array([2, 3])), [1, 2, 1, 2, 3, 1, 2, 3])


def test_traced_starts_beyond_the_end_are_dropped():
    run = jax.jit(lambda x, v: jscan.cumsum(x, segments=Segments.from_lengths(v, total=5)))
    np.testing.assert_array_equal(run(jnp.ones(5), np.array([2, 30, 4])), [1, 2, 1, 2, 3])
    np.testing.assert_array_equal(run(jnp.ones(5), np.array([2**40, 1, 1])), [1, 2, 3, 4, 5])


# scans over pathological segments


def check_flags(dtype, engine):
    """Scans with flags of one dtype, over several tiles where the engine has tiles."""
    n = min(engine.longest, 5000)
    flags = head_flags((n,), dtype, share=0.01)
    x = values("cumsum", (n,), "int32")
    y = jscan.cumsum(x, segments=flags, method=engine.method)
    reference.assert_equal(y, reference.scan(np.add, x, flags=flags))


@pytest.mark.product
@pytest.mark.parametrize("dtype", ["bool", "int64"])
def test_narrow_and_wide_flags(dtype, engine):
    check_flags(dtype, engine)


@pytest.mark.sweep
@pytest.mark.parametrize("dtype", FLAG_DTYPES)
def test_dtypes_of_flags(dtype, engine):
    check_flags(dtype, engine)


@pytest.mark.sweep
@pytest.mark.parametrize(
    "dtype", ["int8", "int16", "uint16", "uint32", "uint64", "bool", "uint8", "int64"]
)
@pytest.mark.parametrize("reverse", [False, True])
def test_high_bits_of_flags_count(dtype, reverse, engine):
    # A flag whose low byte (or sign) is all that differs from zero is a head all the same.
    heads = head_flags((80,))
    top = 1 if dtype == "bool" else np.iinfo(dtype).min or np.iinfo(dtype).max // 2 + 1
    flags = (heads * np.array(top, dtype)).astype(dtype)
    x = values("cumsum", (80,), "int32")
    options = {"reverse": reverse, "exclusive": reverse}
    y = jscan.cumsum(x, segments=flags, method=engine.method, **options)
    reference.assert_equal(y, reference.scan(np.add, x, identity=0, flags=heads, **options))


PATHOLOGIES = {
    "all heads": lambda n: np.ones(n, bool),
    "no heads": lambda n: np.zeros(n, bool),
    "first only": lambda n: np.arange(n) == 0,
    "last only": lambda n: np.arange(n) == n - 1,
    "every second": lambda n: np.arange(n) % 2 == 0,
    "around a warp": lambda n: np.isin(np.arange(n) % 32, (0, 31)),
    "one in the middle": lambda n: np.arange(n) == n // 2,
}


@pytest.mark.sweep
@pytest.mark.parametrize("pathology", PATHOLOGIES.values(), ids=PATHOLOGIES.keys())
@every_form
@pytest.mark.parametrize("n", [64, 1000])
def test_pathologies(pathology, form, n, engine):
    reverse, exclusive, _ = form
    x, flags = values("cumsum", (n,), "int32"), pathology(n)
    options = {"reverse": reverse, "exclusive": exclusive}
    y = jscan.cumsum(x, segments=flags, method=engine.method, **options)
    reference.assert_equal(y, reference.scan(np.add, x, identity=0, flags=flags, **options))


@pytest.mark.parametrize("pathology", ["all heads", "no heads", "last only", "one in the middle"])
def test_pathologies_over_several_tiles(pathology, engine):
    n = min(engine.longest, 10_000)
    x, flags = values("cumsum", (n,), "int32"), PATHOLOGIES[pathology](n)
    y = jscan.cumsum(x, segments=flags, exclusive=True, method=engine.method)
    reference.assert_equal(y, reference.scan(np.add, x, identity=0, exclusive=True, flags=flags))


@pytest.mark.sweep
@pytest.mark.parametrize("share", [0.3, 0.01, 0.0001])
@pytest.mark.parametrize("reverse", [False, True])
def test_random_segments_over_many_tiles(share, reverse, engine):
    n = engine.longest
    x, flags = values("cummax", (n,), "int32"), head_flags((n,), "uint8", share=share)
    y = jscan.cummax(x, reverse=reverse, segments=flags, method=engine.method)
    reference.assert_equal(y, reference.scan(np.maximum, x, reverse=reverse, flags=flags))


def test_rows_of_one_array_have_segments_of_their_own(engine):
    x = values("cumsum", (7, 90), "int32")
    flags = head_flags(x.shape, "int32", share=0.1)
    flags[1], flags[4] = 0, 1
    y = jscan.cumsum(x, 1, reverse=True, segments=Segments.from_flags(flags), method=engine.method)
    reference.assert_equal(y, reference.scan(np.add, x, axis=1, reverse=True, flags=flags))


def test_flags_of_a_leading_axis(engine):
    x = values("cumsum", (90, 4), "int32")
    flags = head_flags(x.shape, "uint8", share=0.1)
    y = jscan.cumsum(x, 0, segments=flags, method=engine.method)
    reference.assert_equal(y, reference.scan(np.add, x, flags=flags))


@pytest.mark.parametrize("total", [0, 1])
def test_no_elements_and_one(total):
    x = np.arange(5, 5 + total)
    segments = Segments.from_lengths(np.array([0, total, 0]), total)
    np.testing.assert_array_equal(jscan.cumsum(x, segments=segments), x)
    np.testing.assert_array_equal(
        jscan.cumsum(x, segments=segments, exclusive=True), np.zeros(total)
    )
