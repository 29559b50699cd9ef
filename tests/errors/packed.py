"""Head flags of one bit an element: calls that work, and the values that are wrong."""

from __future__ import annotations

import numpy as np

from jscan import Segments
from tests.errors import wrong_values as wrong
from tests.errors.function import Function
from tests.errors.wrong_values import FLAGS, known, types, values

WORD = types(
    {
        "None": None,
        "another dtype": np.int32,
        "a wide one": "uint64",
        "no name": "bits",
        "a size": 8,
    }
)
WORDS = [
    *wrong.HEADS,
    *types({"booleans": FLAGS > 0, "signed": FLAGS.astype(np.int8), "a list": [5]}),
    *values({"two words": np.zeros(2, np.uint8), "no words": np.zeros(0, np.uint32)}),
]
PACKED = (
    Function(
        "Segments.from_packed",
        Segments.from_packed,
        {"words": np.array([5], np.uint8), "total": 6},
        {"words": WORDS, "total": [*wrong.COUNT, *known({"more words": 9})]},
    ),
    Function(
        "Segments.packed",
        Segments.from_flags(FLAGS).packed,
        {"dtype": np.uint8},
        {"dtype": WORD},
    ),
)
