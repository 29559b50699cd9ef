"""Fuzzing: compaction, each function with its loop."""

from __future__ import annotations

from typing import Any

import jax.numpy as jnp
import numpy as np

import jscan
from tests.fuzz.examples import Form

NAMES = (
    *("histogram", "nonzero", "partition"),
    *("run_length_decode", "run_length_encode", "unique_sorted"),
)
OF_MASKS = ("histogram", "nonzero")


def call(form: Form, mask: Any, x: Any) -> list[Any]:
    """The function under test, on a mask and an array; a row is all that the array holds."""
    size, row = form.wanted, jnp.ravel(x)
    if form.function == "histogram":
        return [jscan.histogram(mask.astype(jnp.int32) % 9 - 1, size)]
    if form.function == "partition":
        return list(jscan.partition(x, mask, form.axis))
    if form.function == "nonzero":
        return list(jscan.nonzero(mask, size=size, fill_value=-1))
    if form.function == "run_length_encode":
        return list(jscan.run_length_encode(row, size=size))
    if form.function == "unique_sorted":
        return list(jscan.unique_sorted(row, size=size, fill_value=1))
    lengths = 3 * jnp.ravel(mask.astype(bool)).astype(jnp.int32) - 1
    return [jscan.run_length_decode(row, lengths, size=size, fill_value=1)]


def expected(form: Form, mask: Any, x: Any) -> list[Any]:
    """The same of one example of a batch, by NumPy."""
    size, row = form.wanted, x.ravel()
    if form.function == "histogram":
        keys = mask.astype(np.int32) % 9 - 1
        return [np.array([np.sum(keys == k) for k in range(size)], np.int32)]
    if form.function == "partition":
        sign = (mask > 0).astype(int) - (mask < 0).astype(int)
        lengths = [(sign == k).sum(form.along, dtype=np.int32) for k in (-1, 0, 1)]
        order = np.argsort(sign, axis=form.along, kind="stable")
        return [np.take_along_axis(x, order, form.along), np.stack(lengths, form.along)]
    if form.function == "nonzero":
        return [_cut(place, size, -1, np.int32) for place in np.nonzero(mask)]
    if form.function == "run_length_decode":
        return [_cut(np.repeat(row, 2 * (mask != 0).ravel()), size, 1, x.dtype)]
    begins = [t for t in range(row.size) if t == 0 or not _equal(row[t - 1], row[t])]
    long, count = np.diff([*begins, row.size]), np.int32(len(begins))
    if form.function == "unique_sorted":
        return [_cut(row[begins], size, 1, x.dtype), count]
    return [_cut(row[begins], size, 0, x.dtype), _cut(long, size, 0, np.int32), count]


def _equal(a: Any, b: Any) -> bool:
    return bool(a == b) or bool(a != a and b != b)


def _cut(values: Any, size: int, fill: int, dtype: Any) -> Any:
    row = np.full(size, fill, dtype)
    row[: len(values)] = values[:size]
    return row
