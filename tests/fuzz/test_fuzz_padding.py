"""No result depends on what a kernel finds where there is no element.

A tile that reaches past the end of a row, of the rows or of the lanes loads nothing there, and an
operator is applied to whatever the registers hold: what is promised is not that an operator never
sees it, but that nothing comes out of it. On the interpreter such lanes read garbage here, NaN or
bytes of 0x5a, and flags that are set or not; so they do in the interpreted kernels of
test_fuzz.py. The operator `marks` carries all ones beside its sums, of which garbage would
clear bits for good.
"""

from __future__ import annotations

import itertools

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax.experimental import pallas as pl

from jscan.kernels import language, tuning
from tests.fuzz import programs as fuzz_programs
from tests.fuzz.examples import METHODS, Data, Form, form_of

SHAPES = {"row": ((21,), 0), "rows": ((3, 21), 1), "lanes": ((2, 21, 3), 1)}
DATA = tuple(Data(seed, "any", heads) for seed, heads in enumerate(("some", "none", "all", "ends")))


def form(method: str, function: str, lying: str, segmented: bool, number: int) -> Form:
    """A scan or a reduction of marked sums, in short tiles that the axis does not fill."""
    shape, axis = SHAPES[lying]
    lanes = 4 if lying == "lanes" else 1
    tile = tuning.Tuning(length=8, lanes=lanes, warps=1, window=4, strip=4)
    some = form_of("scans", "interpreted", number)
    return Form(
        **{
            **vars(some),
            "subject": "marks",
            "function": function,
            "dtypes": ("int32", "int32"),
            "mapped": (True, True, True),
            "shape": shape,
            "axis": axis,
            "segments": "flags" if segmented else "none",
            "reverse": number % 2 == 1,
            "exclusive": number % 3 == 1,
            "wanted": 7,
            "source": "whole",
            "identity": "scalars",
            "method": method,
            "tile": None if method == "block" else tile,
        }
    )


@pytest.mark.thorough
@pytest.mark.parametrize("segmented", [False, True])
@pytest.mark.parametrize("lying", SHAPES)
@pytest.mark.parametrize(
    ("number", "function", "method"),
    [
        (number, *case)
        for number, case in enumerate(itertools.product(("associative_scan", "reduce"), METHODS))
    ],
)
def test_no_result_depends_on_padding(number, function, method, lying, segmented):
    for data in DATA:
        fuzz_programs.check(form(method, function, lying, segmented, number), data, "interpreted")


@pytest.mark.parametrize("dtype", ["float32", "int32", "uint8", "bool", "uint64", "bfloat16"])
def test_lanes_without_an_element_read_garbage(dtype):
    x = np.ones(4, jnp.dtype(dtype))

    def kernel(x, y):
        lane = jnp.arange(8, dtype=jnp.int32)
        loaded = language.load(x, [(lane, 1)], mask=lane < 4)
        y[...] = loaded != jnp.ones_like(loaded)

    with fuzz_programs.surroundings(form("lookback", "reduce", "row", False, 0), "interpreted"):
        result = jax.ShapeDtypeStruct((8,), jnp.bool_)
        seen = pl.pallas_call(kernel, out_shape=result, interpret=True)(x)
    np.testing.assert_array_equal(seen, np.arange(8) >= 4)
