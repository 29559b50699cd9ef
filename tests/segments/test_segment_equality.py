"""What Segments say of themselves: their repr, equality, counts, and their form in an export."""

from __future__ import annotations

import jax
import jax.export
import jax.numpy as jnp
import numpy as np
import pytest

import jscan
from jscan import Segments

ROWS = np.array([[1, 0, 1, 0, 0], [1, 1, 0, 0, 0]])


def batch(lengths, total):
    """Segments of rows of lengths."""
    return jax.vmap(lambda row: Segments.from_lengths(row, total))(np.array(lengths))


# equality

SAME = {
    "two segments": [
        Segments.from_lengths([2, 3]),
        Segments.from_lengths(np.array([2, 3], "uint8")),
        Segments.from_offsets([0, 2, 5]),
        Segments.from_flags([1, 0, 1, 0, 0]),
        Segments.from_flags(np.array([False, False, True, False, False])),
        Segments.from_flags([0, 0, -7, 0, 0]),
        Segments.from_ids([9, 9, -1, -1, -1]),
        Segments.from_packed(np.array([0b11100100], "uint8"), 5),
        Segments.from_packed(np.array([0b00101], "uint32"), 5),
    ],
    "one behind": [Segments.from_lengths([2, 3, 0]), Segments.from_offsets([0, 2, 5, 5])],
    "one between": [Segments.from_lengths([2, 0, 3]), Segments.from_offsets([0, 2, 2, 5])],
    "one before": [Segments.from_lengths([0, 2, 3])],
    "longer": [Segments.from_lengths([2, 4]), Segments.from_ids([0, 0, 1, 1, 1, 1])],
    "elsewhere": [Segments.from_lengths([3, 2]), Segments.from_flags([1, 0, 0, 1, 0])],
    "one segment": [Segments.from_lengths([5]), Segments.from_flags([0] * 5)],
    "nothing": [Segments.from_lengths([]), Segments.from_flags([]), Segments.from_ids([])],
    "one without elements": [Segments.from_lengths([0]), Segments.from_offsets([0, 0])],
    "rows": [
        Segments.from_flags(ROWS),
        Segments.from_ids(np.cumsum(ROWS, 1)),
        batch([[2, 3], [1, 4]], 5),
    ],
    "rows, one with a segment less": [Segments.from_flags([[1, 0, 1], [1, 0, 0]])],
    "rows, one with an empty segment": [batch([[2, 1], [3, 0]], 3)],
    "a row": [Segments.from_flags(ROWS[:1]), batch([[2, 3]], 5)],
    "no rows": [Segments.from_flags(ROWS[:0]), Segments.from_ids(ROWS[:0])],
    "elements behind the last": [batch([[2, 1]], 5)],
}


def test_segments_are_equal_where_they_divide_alike():
    every = [(name, segments) for name, group in SAME.items() for segments in group]
    for name, segments in every:
        for other_name, other in every:
            assert (segments == other) is (name == other_name), (name, other_name)
            assert (segments != other) is (name != other_name)


def test_segments_of_jit_are_equal_to_what_went_in():
    for segments in (group[0] for group in SAME.values()):
        assert jax.jit(lambda s: s)(segments) == segments


def test_other_things_are_not_equal_to_segments():
    segments = Segments.from_lengths([2, 3])
    assert segments.__eq__([2, 3]) is NotImplemented
    assert segments != "segments"
    assert segments is not None


def test_segments_have_no_hash():
    with pytest.raises(TypeError, match="unhashable type: 'Segments'"):
        hash(Segments.from_lengths([2, 3]))


@pytest.mark.parametrize("form", ["flags", "lengths"])
def test_traced_segments_are_not_compared(form):
    def compare(array):
        total = (5,) if form == "lengths" else ()
        return getattr(Segments, f"from_{form}")(array, *total) == Segments.from_lengths([2, 3])

    with pytest.raises(TypeError, match=r"jscan\.Segments: == needs .* traced"):
        jax.jit(compare)(np.array([2, 3]))


# repr


def test_repr_of_known_segments():
    expected = "Segments(num_segments=3, total=5, offsets=[0 2 2 5])"
    assert repr(Segments.from_lengths([2, 0, 3])) == expected
    assert repr(Segments.from_offsets(jnp.array([0, 2, 2, 5]))) == expected
    assert repr(jax.jit(lambda s: s)(Segments.from_lengths([2, 0, 3]))) == expected
    assert repr(Segments.from_flags([True, False])) == "Segments(flags=bool[2])"
    assert repr(Segments.from_ids(np.ones((2, 3), "int8"))) == "Segments(ids=int8[2,3])"
    many = repr(Segments.from_lengths(np.ones(10**6, int)))
    assert many.startswith("Segments(num_segments=1000000, total=1000000, offsets=[")
    assert "..." in many
    assert len(many) < 130


def test_repr_of_traced_segments():
    seen = []

    def look(lengths, flags):
        seen.append(repr(Segments.from_lengths(lengths, total=5)))
        seen.append(repr(Segments.from_flags(flags)))

    jax.jit(look)(np.array([2, 3]), np.ones(5, bool))
    jax.vmap(look)(np.array([[2, 3]]), np.ones((1, 5), bool))
    assert (
        seen
        == [
            "Segments(num_segments=2, total=5, offsets=int32[3])",
            "Segments(flags=bool[5])",
        ]
        * 2
    )
    assert repr(batch([[2, 3]], 5)) == "Segments(num_segments=2, total=5, offsets=int32[1,3])"


def test_repr_of_a_pytree_of_no_arrays():
    nothing = jax.tree.map(lambda _: None, Segments.from_lengths([2, 3]))
    assert repr(nothing) == "Segments(bounds=None)"


# counts


@pytest.mark.parametrize("segments", SAME["two segments"], ids=repr)
def test_the_count_may_be_left_out_where_it_is_known(segments):
    np.testing.assert_array_equal(segments.lengths(), [2, 3])
    np.testing.assert_array_equal(jax.jit(lambda: segments.offsets())(), [0, 2, 5])


def test_the_count_may_be_left_out_where_it_is_static():
    def views(lengths):
        segments = Segments.from_lengths(lengths, total=5)
        return segments.lengths(), segments.offsets()

    lengths, offsets = jax.jit(views)(np.array([2, 0, 3]))
    np.testing.assert_array_equal(lengths, [2, 0, 3])
    np.testing.assert_array_equal(offsets, [0, 2, 2, 5])
    by_row = batch([[2, 3], [5, 0]], 5)
    np.testing.assert_array_equal(by_row.lengths(), [[2, 3], [5, 0]])
    np.testing.assert_array_equal(Segments.from_flags(ROWS).offsets(), [[0, 2, 5], [0, 1, 5]])


@pytest.mark.parametrize("form", ["flags", "ids"])
@pytest.mark.parametrize("view", ["lengths", "offsets"])
def test_the_count_is_asked_for_where_it_is_not_static(form, view):
    def count(array):
        return getattr(getattr(Segments, f"from_{form}")(array), view)()

    with pytest.raises(ValueError, match=rf"jscan\.Segments\.{view}: num_segments is required"):
        jax.jit(count)(np.array([1, 0, 1]))


# export


def exported(fn, *arguments):
    """A function after a round trip through bytes."""
    pytest.importorskip("flatbuffers")
    # For a GPU it is exported with a check less: tests/kernels/test_lowering.py.
    export = jax.export.export(jax.jit(fn), platforms=["cpu"])
    program = jax.export.deserialize(export(*arguments).serialize())

    def call(*arguments):
        with jax.default_device(jax.devices("cpu")[0]):
            return program.call(*arguments)

    return call


@pytest.mark.parametrize(
    "segments", [group[0] for name, group in SAME.items() if name != "nothing"], ids=repr
)
def test_export_of_segments(segments):
    program = exported(lambda s: (s, s.flags), segments)
    back, flags = program(segments)
    assert back == segments
    np.testing.assert_array_equal(flags, segments.flags)


def test_an_export_runs_on_other_segments_of_the_same_sizes():
    def sums(x, segments):
        return jscan.cumsum(x, segments=segments), Segments.from_flags(segments.flags)

    program = exported(sums, np.ones(5), Segments.from_lengths([2, 3]))
    y, segments = program(np.ones(5), Segments.from_offsets([0, 4, 5]))
    np.testing.assert_array_equal(y, [1, 2, 3, 4, 1])
    assert segments == Segments.from_lengths([4, 1])
