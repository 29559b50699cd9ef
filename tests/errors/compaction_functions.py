"""Functions that compact arrays, and what can be wrong with calls of them."""

from __future__ import annotations

import numpy as np

import jscan
from tests.errors import wrong_values as wrong
from tests.errors.function import Function, Misuse
from tests.errors.wrong_values import FLAGS, X

ROW = [
    *wrong.NUMBERS,
    *wrong.SCALAR,
    *wrong.values({"more axes": X, "no elements in two axes": np.zeros((0, 2))}),
]
MISFITS = tuple(
    Misuse(
        f"{value} into {dtype}",
        "fill_value",
        ValueError,
        {"values": FLAGS.astype(dtype), "fill_value": value},
    )
    for dtype, value in (("int32", 0.5), ("int8", 300), ("uint8", -1), ("bool", 2))
)
COMPACTION = (
    Function(
        "nonzero",
        jscan.nonzero,
        {"mask": FLAGS, "size": 4, "fill_value": 0},
        {
            "mask": wrong.MARKS,
            "size": wrong.COUNT,
            "fill_value": [
                *wrong.FILL,
                *wrong.values({"two for one dimension": (0, 1), "none": ()}),
                *wrong.known({"a fraction": 0.5, "wide": 2**31, "wide in a tuple": (2**31,)}),
            ],
        },
    ),
    Function(
        "histogram",
        jscan.histogram,
        {"keys": FLAGS, "length": 4},
        {
            "keys": [*wrong.NUMBERED, *wrong.values({"a scalar": np.array(1)})],
            "length": wrong.COUNT,
        },
    ),
    Function(
        "partition",
        jscan.partition,
        {"x": X, "signs": FLAGS, "axis": 0},
        {"x": wrong.LEAVES, "signs": wrong.MASK, "axis": wrong.AXIS},
    ),
    Function(
        "run_length_encode",
        jscan.run_length_encode,
        {"x": FLAGS, "size": 4},
        {"x": ROW, "size": wrong.COUNT},
    ),
    Function(
        "run_length_decode",
        jscan.run_length_decode,
        {"values": X, "lengths": FLAGS, "size": 4, "fill_value": 0},
        {
            "values": [*wrong.NUMBERS, *wrong.SCALAR, *wrong.FIVE_ROWS],
            "lengths": [*wrong.BOUNDS, *wrong.values({"five lengths": FLAGS[:5]})],
            "size": wrong.COUNT,
            "fill_value": wrong.FILL,
        },
        MISFITS,
    ),
    Function(
        "unique_sorted",
        jscan.unique_sorted,
        {"x": X[:, 0], "size": 4, "fill_value": 0},
        {"x": ROW, "size": wrong.COUNT, "fill_value": wrong.FILL},
    ),
)
