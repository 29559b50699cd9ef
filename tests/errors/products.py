"""Products of sparse matrices, as tests of errors see them."""

from __future__ import annotations

import numpy as np

import jscan
from tests.errors import wrong_values as wrong
from tests.errors.function import Function, Misuse
from tests.errors.wrong_values import FLAGS, X, values

PRODUCTS = tuple(
    Function(
        name,
        product,
        {
            "values": X[:, 0],
            "indices": FLAGS,
            "offsets": np.array([0, 2, 2, 6]),
            "x": x,
            "operators": "max-plus",
            "transpose": True,
            "length": 4,
        },
        {
            "values": [*wrong.NUMBERS, *values({"five": X[:5, 0], "rows": X})],
            "indices": [*wrong.NUMBERED, *values({"five": FLAGS[:5], "a scalar": np.array(0)})],
            "offsets": wrong.OFFSETS,
            "x": [*wrong.NUMBERS, *wrong.FIVE_ROWS, *wrong.SCALAR],
            "operators": wrong.PAIR,
            "transpose": wrong.SWITCH,
            "length": [*wrong.OPTIONAL_COUNT, *values({"none": None})],
        },
        (Misuse("a length beside columns", "length", ValueError, {"transpose": False}),),
    )
    for name, product, x in (
        ("csr_matvec", jscan.csr_matvec, X[:3, 0]),
        ("csr_matmat", jscan.csr_matmat, X[:3]),
    )
)
