"""Sums of exponentials, known by their logarithms: logaddexp, and reductions by it."""

from __future__ import annotations

import functools
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

from jscan import operators
from jscan.combine import Combine, trace
from jscan.jaxprs import structure


def is_logaddexp(combine: Combine) -> bool:
    """Whether ``combine`` is ``logaddexp`` of one real leaf."""
    return _is_of(combine, np.float32, np.float64)


def is_complex_logaddexp(combine: Combine) -> bool:
    """Whether ``combine`` is ``logaddexp`` of one complex leaf."""
    return _is_of(combine, np.complex64, np.complex128)


def _is_of(combine: Combine, *dtypes: type) -> bool:
    avals = combine.jaxpr.out_avals
    return len(avals) == 1 and avals[0].dtype in dtypes and _same(combine, avals[0].dtype)


@functools.lru_cache(maxsize=1024)
def _same(combine: Combine, dtype: np.dtype) -> bool:
    return structure(combine.jaxpr.jaxpr) in _references(dtype)


@functools.cache
def _references(dtype: np.dtype) -> list[Any]:
    """What the operator looks like: JAX's own, and the one that is associative."""
    leaf = jax.ShapeDtypeStruct((2,), dtype)
    traced = (
        trace(fn, [leaf], jax.tree.structure(0), 0, None)
        for fn in (jnp.logaddexp, operators.logaddexp)
    )
    return [structure(combine.jaxpr.jaxpr) for combine in traced if combine is not None]


def reduced(x: jax.Array, *, axis: int) -> jax.Array:
    """The logarithm of the sum of exponentials along ``axis``, which is kept with size 1.

    The terms are at most 1: exponentials of what is left of the largest element.
    """
    largest = lax.expand_dims(lax.reduce_max(x, (axis,)), (axis,))
    finite = lax.select(lax.is_finite(largest), largest, lax.full_like(largest, 0))
    terms = lax.exp(x - finite)
    return lax.log(lax.expand_dims(lax.reduce_sum(terms, (axis,)), (axis,))) + finite
