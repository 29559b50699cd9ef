"""Rows of the table: products of sparse matrices."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import jax.numpy as jnp
import numpy as np

import jscan
from tests.walk.row import LENGTH, Row

ROWS, COLUMNS, WIDTH = 5, 6, 3
OFFSETS = np.array([0, 3, 3, 4, LENGTH - 1, LENGTH], np.int32)
PLACES = np.repeat(np.arange(ROWS), np.diff(OFFSETS))


def _draw(*trailing: int, transpose: bool) -> Callable[[np.random.Generator], list[Any]]:
    def draw(rng: np.random.Generator) -> list[Any]:
        columns = rng.integers(-1, COLUMNS + 1, LENGTH)
        dense = rng.normal(size=(ROWS if transpose else COLUMNS, *trailing))
        return [rng.normal(size=LENGTH), columns, OFFSETS, dense]

    return draw


def _product(pair: str, *, transpose: bool, width: bool) -> Row:
    name = "csr_matmat" if width else "csr_matvec"
    form: dict[str, Any] = {"transpose": True, "length": COLUMNS} if transpose else {}

    def function(values: Any, indices: Any, offsets: Any, x: Any) -> Any:
        return getattr(jscan, name)(values, indices, offsets, x, operators=pair, **form)

    def by(xp: Any) -> Callable[..., Any]:
        fold, empty = {"sum-product": (xp.sum, 0.0), "max-plus": (xp.max, -np.inf)}[pair]

        def run(values: Any, indices: Any, _: Any, x: Any) -> Any:
            exists = (indices >= 0) & (indices < COLUMNS)
            into, of = (indices, PLACES) if transpose else (PLACES, indices)
            taken = xp.asarray(x)[xp.where(exists, of, 0)]
            over = (slice(None),) + (None,) * (taken.ndim - 1)
            entries = xp.asarray(values)[over]
            made = entries * taken if pair == "sum-product" else entries + taken
            count = COLUMNS if transpose else ROWS
            among = [(exists & (into == s))[over] for s in range(count)]
            return xp.stack([fold(xp.where(members, made, empty), 0) for members in among])

        return run

    return Row(
        f"{name} {pair}{' transposed' * transpose}",
        (name,),
        function,
        _draw(*(WIDTH,) * width, transpose=transpose),
        ("n", "n", ".", ".." if width else "."),
        (".." if width else ".",),
        by(np),
        by(jnp),
        linear=((0,), (3,)) if pair == "sum-product" else (),
        undecided=() if pair == "sum-product" else (0, 3),
    )


PRODUCTS = (
    _product("sum-product", transpose=False, width=False),
    _product("sum-product", transpose=True, width=False),
    _product("max-plus", transpose=False, width=False),
    _product("sum-product", transpose=False, width=True),
)
