"""Tridiagonal systems: the primitive that solves them, and the function that binds it."""

from __future__ import annotations

from typing import Any

import jax
from jax.extend import core

from jscan import extent
from jscan.primitives import settings_for

__all__ = ["eliminate", "eliminate_p"]

eliminate_p = core.Primitive("jscan_eliminate")
"""Solutions of tridiagonal systems.

Operands: the diagonal below the middle, whose first element is not read; the middle; the one above,
whose last element is not read; and the right-hand sides. Each has a float or complex dtype, the
same for all.
Result: x, for which T x = b along the ``axis``; x T = b where ``transposed``. It has no derivative:
who solves knows that of solutions.
Parameter: ``axis_name``, which lowerings alone bind. Each device has the whole axis.
"""
eliminate_p.multiple_results = True


def eliminate(
    below: jax.Array,
    middle: jax.Array,
    above: jax.Array,
    right: jax.Array,
    *,
    axis: int,
    transposed: bool,
) -> jax.Array:
    """Bind ``eliminate_p``."""
    operands = extent.vary_alike([below, middle, above, right])
    how: dict[str, Any] = {"axis": axis, "transposed": transposed, "axis_name": ()}
    [x] = eliminate_p.bind(*operands, **how, **settings_for(extent.full_shape(operands)))
    return x
