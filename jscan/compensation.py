"""Sums in compensated pairs: a number, and what its roundings have lost.

    a + b = s + e exactly        s = fl(a + b), e by five more operations (Knuth's two-sum)

A pair is added to another one by adding what both have lost to e, and putting s and that in order
again (Dekker 1971; Shewchuk 1997): twice the digits but two bits or so, for 13 operations. The
first number of a pair is the sum, rounded once.

No operation may be left out or put in another order: XLA, Triton and ptxas change none of floats,
unless they are told to, and there is no multiplication to fuse with an addition.
"""

from __future__ import annotations

import dataclasses
import functools

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

from jscan import operators
from jscan.combine import Combine, accumulation_dtype, trace

ADD: operators.Operator = dataclasses.replace(operators.add, name="add with precise=True")
"""Sums of which `pairs` are to be taken."""

Pair = tuple[jax.Array, jax.Array]
"""A sum, and what is to be added to it."""


def added(left: Pair, right: Pair) -> Pair:
    """The sum of two pairs."""
    (x, x_lost), (y, y_lost) = left, right
    total = x + y
    back = total - x
    lost = (x - (total - back)) + (y - back) + (x_lost + y_lost)
    both = total + lost
    # Next to infinity a step may overflow where the total does not. If the last one does, both
    # numbers are kept as they are; if the first one does, what is lost is not a number from there
    # on, and sums are plain ones.
    both = jnp.where(jnp.abs(both) < np.inf, both, total)
    return both, lost - (both - total)


def pairs(dtype: np.dtype) -> Combine:
    """The sum of pairs of elements of ``dtype``, in the dtype in which they are combined."""
    return _pairs(accumulation_dtype(dtype))


@functools.cache
def _pairs(dtype: np.dtype) -> Combine:
    leaf, zero = jax.ShapeDtypeStruct((1,), dtype), dtype.type(0)
    found = trace(added, [leaf, leaf], jax.tree.structure((0, 0)), 0, (zero, zero))
    assert found is not None
    return found


def linked(left: Pair, right: Pair) -> Pair:
    """The sum of two pairs, whose zeros keep the sign that plain sums give them."""
    total, lost = added(left, right)
    plain = left[0] + right[0]
    return jnp.where((total == 0) & (plain == 0), plain, total), lost


@functools.cache
def links(dtype: np.dtype) -> Combine:
    """`linked` on totals of ``dtype``, which is one in which elements are combined."""
    leaf = jax.ShapeDtypeStruct((1,), dtype)
    found = trace(linked, [leaf, leaf], jax.tree.structure((0, 0)), 0, None)
    assert found is not None
    return found


def adds_pairs(combine: Combine) -> bool:
    """Whether ``combine`` is the sum of pairs."""
    dtypes = combine.dtypes
    return len(dtypes) == 2 and dtypes[0].kind == "f" and combine == _pairs(dtypes[0])


def nothing_lost(x: jax.Array) -> jax.Array:
    """What is lost of elements as they are given: one zero for all of them."""
    return lax.full((1,) * x.ndim, 0, x.dtype)
