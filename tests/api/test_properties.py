"""Laws that hold for random operators, shapes and segments, searched by hypothesis."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np
from hypothesis import given
from hypothesis import strategies as st

import jscan
from jscan import Segments, operators
from tests import reference
from tests.functions import affine, last_flagged, multiply_matrices
from tests.reference import assert_tree_equal

# Few lengths, so that few programs are compiled; many values and flags.
LENGTHS = st.sampled_from((1, 2, 7, 33))
SEEDS = st.integers(0, 2**32 - 1)
BOOLS = st.booleans()


def words(seed, n, leaves):
    """Random 32-bit words."""
    rng = np.random.default_rng(seed)
    return tuple(rng.integers(0, 2**32, n, dtype=np.uint32) for _ in range(leaves))


def heads(seed, n):
    """Random head flags at a random density."""
    rng = np.random.default_rng([seed, 1])
    return rng.random(n) < rng.choice([0.0, 0.05, 0.3, 1.0])


@given(SEEDS, LENGTHS, BOOLS, BOOLS, BOOLS)
def test_affine_operators(seed, n, reverse, exclusive, segmented):
    elems = words(seed, n, 2)
    flags = heads(seed, n) if segmented else None
    options = {"reverse": reverse, "exclusive": exclusive, "identity": (1, 0)}
    actual = jscan.associative_scan(operators.affine, elems, segments=flags, **options)
    assert_tree_equal(actual, reference.scan(affine, elems, flags=flags, **options))


@given(SEEDS, LENGTHS, BOOLS, BOOLS, BOOLS)
def test_matrices_modulo_a_power_of_two(seed, n, reverse, exclusive, segmented):
    elems = words(seed, n, 4)
    flags = heads(seed, n) if segmented else None
    options = {"reverse": reverse, "exclusive": exclusive, "identity": (1, 0, 0, 1)}
    actual = jscan.associative_scan(multiply_matrices, elems, segments=flags, **options)
    assert_tree_equal(actual, reference.scan(multiply_matrices, elems, flags=flags, **options))


@given(SEEDS, LENGTHS, BOOLS, BOOLS)
def test_last_write(seed, n, reverse, segmented):
    (value,) = words(seed, n, 1)
    elems = (heads(seed + 1, n), value)
    flags = heads(seed, n) if segmented else None
    actual = jscan.associative_scan(last_flagged, elems, reverse=reverse, segments=flags)
    assert_tree_equal(actual, reference.scan(last_flagged, elems, reverse=reverse, flags=flags))


@given(SEEDS, LENGTHS, BOOLS)
def test_exclusive_then_one_combination_is_inclusive(seed, n, reverse):
    elems = words(seed, n, 2)
    options = {"reverse": reverse, "segments": heads(seed, n)}
    before = jscan.associative_scan(operators.affine, elems, exclusive=True, **options)
    after = jscan.associative_scan(operators.affine, elems, **options)
    assert_tree_equal(operators.affine(before, jax.tree.map(jnp.asarray, elems)), after)


@given(SEEDS, LENGTHS)
def test_reversing_is_scanning_the_reversed_array(seed, n):
    elems, flags = words(seed, n, 4), heads(seed, n)
    backwards = jscan.associative_scan(multiply_matrices, elems, reverse=True, segments=flags)
    # A head in the mirrored array is what followed the last element of a segment.
    mirrored = np.concatenate([[True], flags[::-1][:-1]])
    forwards = jscan.associative_scan(
        multiply_matrices, jax.tree.map(lambda leaf: leaf[::-1], elems), segments=mirrored
    )
    assert_tree_equal(backwards, jax.tree.map(lambda leaf: np.asarray(leaf)[::-1], forwards))


@given(SEEDS, LENGTHS)
def test_a_segmented_scan_is_the_scan_of_each_segment(seed, n):
    (x,), flags = words(seed, n, 1), heads(seed, n)
    parts = np.split(x, np.flatnonzero(flags[1:]) + 1)
    expected = np.concatenate([np.add.accumulate(part, dtype=x.dtype) for part in parts])
    np.testing.assert_array_equal(jscan.cumsum(x, segments=flags), expected)


@given(SEEDS, LENGTHS)
def test_a_permutation_of_rows_permutes_the_result(seed, n):
    x = np.stack(words(seed, n, 5))
    order = np.random.default_rng(seed).permutation(5)
    np.testing.assert_array_equal(jscan.cumsum(x[order], 1), np.asarray(jscan.cumsum(x, 1))[order])


@given(SEEDS, st.lists(st.integers(0, 20), min_size=5, max_size=5))
def test_segments_describe_the_same_thing_four_ways(seed, cuts):
    total = 20
    counts = np.diff([0, *sorted(cuts), total])
    (x,) = words(seed, total, 1)
    ids = np.repeat(np.arange(len(counts)), counts)
    by_lengths = Segments.from_lengths(counts)
    np.testing.assert_array_equal(by_lengths.ids, ids)
    np.testing.assert_array_equal(by_lengths.lengths(len(counts)), counts)
    expected = reference.scan(np.add, x, flags=np.diff(ids, prepend=-1) != 0)
    for segments in (
        by_lengths,
        Segments.from_offsets(np.concatenate([[0], np.cumsum(counts)])),
        Segments.from_ids(ids),
        Segments.from_flags(np.diff(ids, prepend=-1) != 0),
    ):
        reference.assert_equal(jscan.cumsum(x, segments=segments), expected)


@given(SEEDS, LENGTHS, st.integers(0, 2))
def test_an_axis_is_a_transposition(seed, n, axis):
    x = np.random.default_rng(seed).integers(-99, 99, (2, 3, n), dtype=np.int32)
    moved = np.moveaxis(x, 2, axis)
    actual = np.moveaxis(np.asarray(jscan.cumsum(moved, axis)), axis, 2)
    np.testing.assert_array_equal(actual, np.cumsum(x, 2, dtype=np.int32))


@given(SEEDS, LENGTHS)
def test_a_scan_is_linear(seed, n):
    x, y = (leaf.view(np.int32) for leaf in words(seed, n, 2))
    left = jscan.cumsum(jnp.asarray(x) * 3 + jnp.asarray(y))
    np.testing.assert_array_equal(left, jscan.cumsum(x) * 3 + jscan.cumsum(y))


# the vector primitives


def truths(seed, n):
    """A random mask at a random density."""
    return heads(seed + 2, n)


split = jax.jit(jscan.split)
pack = jax.jit(jscan.pack, static_argnames="size")
split_and_segment = jax.jit(jscan.split_and_segment)


@given(SEEDS, LENGTHS)
def test_a_split_is_a_stable_partition(seed, n):
    mask = truths(seed, n)
    moved, place = (np.asarray(leaf) for leaf in split((mask, np.arange(n)), mask))
    assert sorted(place) == list(range(n))
    np.testing.assert_array_equal(moved, mask[place])
    rises = np.diff(place) > 0
    changes = np.diff(moved.astype(int))
    assert (changes >= 0).all()
    assert rises[changes == 0].all()


@given(SEEDS, LENGTHS)
def test_packs_by_a_mask_and_by_its_opposite_are_a_permutation(seed, n):
    mask = truths(seed, n)
    kept, dropped = (np.asarray(pack(np.arange(n), m, size=n, fill_value=n)) for m in (mask, ~mask))
    count = np.count_nonzero(mask)
    assert sorted([*kept[:count], *dropped[: n - count]]) == list(range(n))
    assert (kept[count:] == n).all()
    assert (dropped[n - count :] == n).all()


@given(SEEDS, LENGTHS)
def test_enumerations_from_both_ends_and_the_mask_add_up_to_the_count(seed, n):
    mask, flags = truths(seed, n), heads(seed, n)
    before, behind = (
        np.asarray(jscan.enumerate(mask, reverse=reverse, segments=flags))
        for reverse in (False, True)
    )
    ids = np.cumsum(flags | (np.arange(n) == 0)) - 1
    np.testing.assert_array_equal(before + mask + behind, np.bincount(ids, mask)[ids])


@given(SEEDS, LENGTHS)
def test_segments_of_a_split_hold_masks_of_one_kind(seed, n):
    mask, flags = truths(seed, n), heads(seed, n)
    old = np.cumsum(flags | (np.arange(n) == 0)) - 1
    (moved, home), parts = split_and_segment((mask, old), mask, flags)
    np.testing.assert_array_equal(home, old)
    kinds = set(zip(np.asarray(parts.ids).tolist(), np.asarray(moved).tolist(), strict=True))
    assert len(kinds) == len({part for part, _ in kinds})
    assert len(kinds) == len(set(zip(old, mask, strict=True)))


@given(SEEDS, LENGTHS, BOOLS)
def test_to_distribute_twice_changes_nothing(seed, n, reverse):
    (x,), flags = words(seed, n, 1), heads(seed, n)
    once = jscan.distribute(x, segments=flags, reverse=reverse)
    twice = jscan.distribute(once, segments=flags, reverse=reverse)
    np.testing.assert_array_equal(once, twice)
    np.testing.assert_array_equal(once, jscan.distribute(once, segments=flags, reverse=not reverse))
