"""Words of head flags of a bit each, from where segments begin.

bounds   0  3  3  35  40            sorted, so that those of a word are neighbours
words    0  0  0   1   1
bits     1  0  8   8 256            a segment without elements has none
sums     9        264
"""

from __future__ import annotations

import functools

import jax
import numpy as np

from jscan import bits, operators, pairs
from jscan.kernels import reducing

LEAST = 2**16
"""From so many bounds on. XLA scatters 1.3 million in 203 µs and 13 million in 828, each by an
atomic of its own (H200, 2026-11-23)."""


def words_of_bounds(bounds: jax.Array, *, axis: int, n: int, interpret: bool) -> jax.Array:
    """The words (uint32) of ``n`` elements, of which segments begin at ``bounds``, in int32."""
    added = functools.partial(_added, interpret=interpret) if bounds.size >= LEAST else None
    return bits.of_bounds(bounds, axis=axis, n=n, added=added)


def _added(marks: jax.Array, word: jax.Array, words: int, *, interpret: bool) -> jax.Array:
    """The sum of the marks of each word: both lie along the last axis, and words ascend."""
    [found] = reducing.reduce(
        [marks],
        word,
        combine=pairs.operator_on(operators.add, np.dtype(np.uint32)),
        axis=marks.ndim - 1,
        kind="ids",
        num_segments=words,
        method="auto",
        interpret=interpret,
    )
    return found
