"""Elements in the order of their segments, and of keys within each: the primitive, and its call."""

from __future__ import annotations

from typing import Any

import jax
import numpy as np
from jax.extend import core

from jscan import extent
from jscan.primitives import settings_for

__all__ = ["sort", "sort_p", "unsigned"]

sort_p = core.Primitive("jscan_sort")
"""Elements by the number of their segment, then by their key; of equal ones the first is first.

Operands: the number of each element's segment, from 0 to ``count``, and its key.
Result: to ``emit`` "places", int32, the place along the ``axis`` from which each element comes; to
emit "keys", the keys. Keys are sorted as by ``lax.sort``, but that what is not a number comes last;
where places are of ``descending`` keys, first.
Parameter: ``axis_name``, which lowerings alone bind. Each device has the whole axis.
"""
sort_p.multiple_results = True


def sort(
    numbers: jax.Array,
    keys: jax.Array,
    *,
    axis: int,
    count: int,
    emit: str,
    descending: bool = False,
) -> jax.Array:
    """Bind ``sort_p``."""
    operands = extent.vary_alike([numbers, keys])
    how: dict[str, Any] = {"axis": axis, "count": count, "emit": emit, "descending": descending}
    settings = settings_for(extent.full_shape(operands))
    [result] = sort_p.bind(*operands, **how, axis_name=(), **settings)
    return result


def unsigned(last: int) -> np.dtype[Any]:
    """The least dtype without a sign that holds a number: each byte is a pass of a radix sort."""
    return np.dtype(next(f"uint{bits}" for bits in (8, 16, 32) if last < 2**bits))
