"""Tridiagonal systems: the primitive that solves them, and the function that binds it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import jax
from jax.extend import core

from jscan import extent
from jscan.primitives import settings_for

__all__ = ["eliminate", "eliminate_p"]

eliminate_p = core.Primitive("jscan_eliminate")
"""Solutions of tridiagonal systems.

Operands: the diagonal below the middle, whose first element is not read; the middle; the one above,
whose last element is not read; the right-hand sides; and, for who does not solve a system at once,
what follows from the matrix: what its rows are multiplied by, what a row of the solution takes of
the one before it and of the one behind it, and the pivots. All have one dtype, float or complex.
Result: x, for which T x = b along the ``axis``; x T = b where ``transposed``. It has no derivative:
who solves knows that of solutions.
Parameter: ``axis_name``, which lowerings alone bind, of an axis that goes on across mesh axes.
"""
eliminate_p.multiple_results = True


def eliminate(
    matrix: Sequence[jax.Array],
    right: jax.Array,
    factors: Sequence[jax.Array],
    *,
    axis: int,
    transposed: bool,
) -> jax.Array:
    """Bind ``eliminate_p``: what is read of three diagonals and four factors is known later."""
    operands = extent.vary_alike([*matrix, right, *factors])
    how: dict[str, Any] = {"axis": axis, "transposed": transposed, "axis_name": ()}
    [x] = eliminate_p.bind(*operands, **how, **settings_for(extent.full_shape(operands)))
    return x
