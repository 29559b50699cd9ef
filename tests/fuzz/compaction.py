"""Fuzzing: compaction, each function with its loop."""

from __future__ import annotations

from typing import Any

import jax.numpy as jnp
import numpy as np

import jscan
from tests.fuzz.examples import Form

NAMES = ("nonzero", "run_length_encode", "run_length_decode", "unique_sorted")


def call(form: Form, mask: Any, x: Any) -> list[Any]:
    """The function under test, on a mask and an array; a row is all that the array holds."""
    size, row = form.wanted, jnp.ravel(x)
    if form.function == "nonzero":
        return list(jscan.nonzero(mask, size=size, fill_value=-1))
    if form.function == "run_length_encode":
        return list(jscan.run_length_encode(row, size=size))
    if form.function == "unique_sorted":
        return list(jscan.unique_sorted(row, size=size, fill_value=1))
    lengths = 3 * jnp.ravel(mask != 0).astype(jnp.int32) - 1
    return [jscan.run_length_decode(row, lengths, size=size, fill_value=1)]


def expected(form: Form, mask: Any, x: Any) -> list[Any]:
    """The same of one example of a batch, by NumPy."""
    size, row = form.wanted, x.ravel()
    if form.function == "nonzero":
        return [_cut(place, size, -1, np.int32) for place in np.nonzero(mask)]
    if form.function == "run_length_decode":
        return [_cut(np.repeat(row, 2 * mask.ravel()), size, 1, x.dtype)]
    begins = [t for t in range(row.size) if t == 0 or not _equal(row[t - 1], row[t])]
    lengths, count = np.diff([*begins, row.size]), np.int32(len(begins))
    if form.function == "unique_sorted":
        return [_cut(row[begins], size, 1, x.dtype), count]
    return [_cut(row[begins], size, 0, x.dtype), _cut(lengths, size, 0, np.int32), count]


def _equal(a: Any, b: Any) -> bool:
    return bool(a == b) or bool(a != a and b != b)


def _cut(values: Any, size: int, fill: int, dtype: Any) -> Any:
    row = np.full(size, fill, dtype)
    row[: len(values)] = values[:size]
    return row
