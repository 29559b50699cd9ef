"""What comes before the first element: whether it belongs to the first segment."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import jscan
from tests import reference
from tests.cases import every_form

SEGMENTS: dict[str, Callable[[np.ndarray], Any]] = {
    "flags": lambda flags: flags,
    "from_flags": jscan.Segments.from_flags,
    "from_packed": lambda flags: jscan.Segments.from_packed(
        np.packbits(flags, axis=-1, bitorder="little"), flags.shape[-1]
    ),
}


@pytest.mark.product
@pytest.mark.parametrize("name", SEGMENTS)
@pytest.mark.parametrize("first", [0, 1])
@every_form
def test_flags_tell_whether_the_first_segment_is_open(name, first, form):
    reverse, exclusive, _ = form
    flags = np.array([[first, 0, 1, 0], [0, 0, 0, 1]], np.int32)
    x, how = np.arange(1, 9).reshape(2, 4), {"reverse": reverse, "exclusive": exclusive}
    want = reference.scan(np.add, x, init=np.array(100), flags=flags, identity=0, axis=1, **how)
    segments = SEGMENTS[name]

    def run(x, segments):
        return jscan.cumsum(x, 1, init=100, segments=segments, **how)

    np.testing.assert_array_equal(run(x, segments(flags)), want)
    np.testing.assert_array_equal(jax.jit(run)(x, segments(flags)), want)
    np.testing.assert_array_equal(jax.jit(lambda x: run(x, segments(flags)))(x), want)
    for row, heads in enumerate(flags):
        found = jscan.cumsum(x[row], init=100, segments=segments(heads), **how)
        np.testing.assert_array_equal(found, want[row])


def test_segments_of_an_open_first_one_count_from_it():
    for name in ("from_flags", "from_packed"):
        segments = SEGMENTS[name](np.array([0, 0, 1, 0]))
        for found in (segments.flags, jax.jit(lambda s: s.flags)(segments)):
            assert found.tolist() == [True, False, True, False]
        assert segments.ids.tolist() == [0, 0, 1, 1]
        assert segments.offsets().tolist() == [0, 2, 4]
        assert segments.num_segments == 2
        assert segments == jscan.Segments.from_lengths([2, 2])


@pytest.mark.parametrize("reverse", [False, True])
def test_other_descriptions_begin_with_a_head(reverse):
    x, given = jnp.arange(1, 5), (jnp.array([7, 7, 2, 2]), jnp.array([2, 2]), jnp.array([0, 2, 4]))

    def run(ids, lengths, offsets):
        forms = (
            jscan.Segments.from_ids(ids),
            jscan.Segments.from_lengths(lengths, 4),
            jscan.Segments.from_offsets(offsets, 4),
        )
        return [jscan.cumsum(x, init=100, segments=s, reverse=reverse) for s in forms]

    for found in (*run(*given), *jax.jit(run)(*given)):
        assert found.tolist() == ([3, 2, 107, 104] if reverse else [1, 3, 3, 7])
