"""Lanes of narrow integers that are scanned abreast: a lane of a tile is a word of several.

    memory    │ a b c d │ e f g h │ i j k l │ ...     the lanes of a row, bytes
    tile         abcd      efgh      ijkl             a thread's lane is a word of them

What is combined, selected by flags, told to other tiles and written are words (`kernels.places`).
By single elements one of a byte took 20 to 30 instructions, most of them to take it out of a word
and to put it back, and 7 to 14 so (sm_90). Where rows begin inside of words, these are shifted as
they are read and as they are written (`kernels.sliding`).
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Sequence

import numpy as np
from jax.extend import core

from jscan.called import Leaf
from jscan.combine import Combine
from jscan.kernels import tuning
from jscan.kernels.description import Scan
from jscan.kernels.places import WORD, identity, in_places, places
from jscan.kernels.tuning import Shape, Tuning

PRODUCTS = ("mul", "integer_pow", "square")
"""What takes many instructions."""


@dataclasses.dataclass(frozen=True)
class Lanes:
    """How the lanes of a scan lie abreast.

    Attributes:
      operator: on words of elements.
      count: how many lanes are in a word.
      identity: the operator's, as words, if it is known.
      tuned: the cut, in which a lane is a word.
    """

    operator: core.ClosedJaxpr
    count: int
    identity: tuple[np.generic, ...] | None
    tuned: Tuning

    def of(self, scan: Scan) -> Scan:
        """The scan of words."""
        words = dataclasses.replace(scan, operator=self.operator, identity=self.identity)
        return dataclasses.replace(words, dtypes=(WORD,) * len(scan.dtypes))


def lanes(
    combine: Combine,
    operands: Sequence[Leaf],
    results: Sequence[np.dtype],
    shape: Shape,
    *,
    walks: bool,
) -> Lanes | None:
    """How lanes are scanned abreast, if they are; threads may walk down them.

    Not where operands are broadcast, lanes have flags of their own, or an identity is kept apart.
    """
    dtypes = [np.dtype(x.dtype) for x in operands]
    divided, size = places(dtypes), shape.outer * shape.n * shape.inner
    whole = all(math.prod(x.shape) == size for x in operands)
    plain = whole and not combine.apart and dtypes == combine.dtypes == [*results]
    products = any(e.primitive.name in PRODUCTS for e in combine.jaxpr.jaxpr.eqns)
    if divided is None or not plain or shape.own_flags or shape.inner <= divided.count:
        return None
    if not tuning.suits_words_of_lanes(shape, walks=walks, products=products):
        return None
    words, count = in_places(combine), divided.count
    if words is None:
        return None
    row, shape = shape.inner * shape.each, shape.abreast(count)
    tuned: Tuning | None = tuning.words_of_lanes(shape, count, row=row, products=products)
    if walks:
        down = tuning.down_lanes(shape)
        tuned = down and tuning.walked_words(shape, down, odd=row % WORD.itemsize > 0)
    if tuned is None or tuned.lanes == 1:
        return None
    return Lanes(words, count, identity(combine), tuned)
