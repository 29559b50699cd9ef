"""Pairs of operators by name, and what an entry of a sparse matrix makes of an element by them."""

from __future__ import annotations

import contextlib
import functools
from collections.abc import Callable
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax.typing import DTypeLike

from jscan import operators
from jscan.combine import Combine, accumulation_dtype, trace
from jscan.heads import as_bool
from jscan.operators import Operator


class Pair(NamedTuple):
    """Two operators: what the second makes of entries is added up by the first."""

    add: Operator
    multiply: Callable[[jax.Array, jax.Array], jax.Array]


PAIRS = {
    "sum-product": Pair(operators.add, jnp.multiply),
    "max-plus": Pair(operators.max, jnp.add),
    "min-plus": Pair(operators.min, jnp.add),
    "or-and": Pair(operators.bitwise_or, jnp.logical_and),
}
"""The pairs by name."""


def combine_of(pair: str, dtype: DTypeLike) -> Combine:
    """The operator that adds up products in a result of ``dtype``."""
    return operator_on(PAIRS[pair].add, accumulation_dtype(dtype))


@functools.cache
def operator_on(operator: Operator, dtype: np.dtype) -> Combine:
    """An operator of this package on one leaf of a dtype in which leaves are combined."""
    wide = dtype.itemsize >= 8 and dtype.name != "complex64"
    with jax.enable_x64(True) if wide else contextlib.nullcontext():
        leaf = jax.ShapeDtypeStruct((1,), dtype)
        traced = trace(operator, [leaf], jax.tree.structure(0), 0, (operator.identity(dtype),))
    assert traced is not None
    return traced


def widened(x: jax.Array, dtype: np.dtype) -> jax.Array:
    """An operand of a product in the dtype in which those are combined."""
    return as_bool(x) if dtype == np.bool_ else x.astype(dtype)


def multiplied(pair: str, entry: jax.Array, element: jax.Array, dtype: np.dtype) -> jax.Array:
    """The product of operands of any dtype, in the one in which products are combined."""
    return PAIRS[pair].multiply(widened(entry, dtype), widened(element, dtype))
