"""Fuzzing: products of sparse matrices, with their loop."""

from __future__ import annotations

from typing import Any

import jax.numpy as jnp
import numpy as np

import jscan
from tests import reference
from tests.fuzz.examples import Form

NAMES = ("csr_matvec", "csr_matmat")
WIDTH = 3


def _indices(form: Form, xp: Any, marks: Any) -> Any:
    """A column of each entry, some of which there are not."""
    return (7 * xp.arange(marks.size) + marks.astype("int64")) % (form.wanted + 3) - 1


def _dense(form: Form, xp: Any, entries: Any) -> Any:
    """What the matrix is multiplied by."""
    rows = entries.size + 1 if form.reverse else form.wanted + 1
    beside = () if form.function == "csr_matvec" else (WIDTH,)
    numbers = xp.arange(rows * (WIDTH if beside else 1)) % 5
    return numbers.reshape(rows, *beside).astype(entries.dtype)


def call(form: Form, mask: Any, x: Any) -> list[Any]:
    """A product with the entries of an array, of which the marked ones begin a row."""
    marks, entries = jnp.ravel(mask != 0), jnp.ravel(x)
    n = entries.size
    starts = jnp.nonzero(marks, size=n, fill_value=n)[0]
    offsets = jnp.concatenate([jnp.array([0]), starts, jnp.array([n])])
    dense, pair = _dense(form, jnp, entries), "or-and" if x.dtype == bool else "sum-product"
    how: dict[str, Any] = {"operators": pair, "transpose": form.reverse}
    length = form.wanted + 1 if form.reverse else None
    product = getattr(jscan, form.function)
    return [product(entries, _indices(form, jnp, marks), offsets, dense, length=length, **how)]


def expected(form: Form, marks: Any, x: Any) -> list[Any]:
    """The same of one example of a batch, by NumPy."""
    marks, entries = marks.ravel(), x.ravel()
    rows, columns = np.cumsum(marks), _indices(form, np, marks)
    dense, wide = reference.widen(_dense(form, np, entries)), reference.widen(entries)
    count = form.wanted + 1
    results = np.zeros((count if form.reverse else entries.size + 1, *dense.shape[1:]), wide.dtype)
    for value, row, column in zip(wide, rows, columns, strict=True):
        if 0 <= column < count:
            read, written = (row, column) if form.reverse else (column, row)
            results[written] += value * dense[read]
    return [results]
