"""Head flags of one bit an element."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import jscan
from jscan import Segments
from tests.cases import head_flags

every_word = pytest.mark.parametrize("word", [np.uint8, np.uint32])


def words_of(flags, word):
    """The words of flags, by NumPy."""
    size = np.dtype(word).itemsize
    octets = np.packbits(flags, axis=-1, bitorder="little")
    behind = [(0, 0)] * (flags.ndim - 1) + [(0, -octets.shape[-1] % size)]
    whole = np.pad(octets, behind).astype(np.int64)
    parts = whole.reshape(*flags.shape[:-1], -1, size) << (8 * np.arange(size))
    return parts.sum(-1).astype(word)


@every_word
@pytest.mark.parametrize("shape", [(0,), (1,), (7,), (8,), (33,), (3, 70)])
def test_packed_flags_are_flags(shape, word):
    flags = np.array(head_flags(shape, share=0.3))
    first = flags.copy()
    first[..., :1] = True
    given, by_flags = words_of(flags, word), Segments.from_flags(flags)
    behind = word(255) << word(shape[-1] % 8) if shape[-1] % 8 and shape == (7,) else word(0)
    known = Segments.from_packed(given | behind, shape[-1])
    moved = Segments.from_packed(jnp.asarray(given), shape[-1])
    for segments in (known, moved):
        assert segments == by_flags
        assert segments.num_segments == by_flags.num_segments
        np.testing.assert_array_equal(segments.flags, first)
        np.testing.assert_array_equal(segments.ids, by_flags.ids)
        np.testing.assert_array_equal(segments.offsets(4), by_flags.offsets(4))
        np.testing.assert_array_equal(segments.packed(word), words_of(first, word))
    traced = jax.jit(lambda words: Segments.from_packed(words, shape[-1]).flags)(given)
    np.testing.assert_array_equal(traced, first)


@every_word
def test_scans_and_reductions_take_packed_flags(word):
    x = np.arange(3 * 70, dtype=np.int32).reshape(3, 70)
    for flags in (head_flags((70,), share=0.2), head_flags((3, 70), share=0.2)):
        flags = np.array(flags)
        packed = Segments.from_packed(words_of(flags, word), 70)
        same = Segments.from_flags(flags)
        for reverse in (False, True):
            y, z = (jscan.cumsum(x, axis=1, reverse=reverse, segments=s) for s in (packed, same))
            np.testing.assert_array_equal(y, z)
        y, z = (
            jscan.reduce(jscan.operators.add, x, axis=1, segments=s, num_segments=9)
            for s in (packed, same)
        )
        np.testing.assert_array_equal(y, z)


def test_any_segments_can_be_packed():
    segments = Segments.from_lengths([2, 0, 3])
    np.testing.assert_array_equal(segments.packed(), np.array([0b101], np.uint32))
    assert segments.packed("uint8").dtype == np.uint8
    assert repr(Segments.from_packed(segments.packed(), 5)) == "Segments(bits=uint32[1], total=5)"
