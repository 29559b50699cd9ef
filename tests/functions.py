"""Associative functions that many tests scan with, none of which commutes.

They work on JAX's arrays and on NumPy's, so that the loop that a result is compared with takes the
same function.
"""

from __future__ import annotations

from typing import Any

import jax.numpy as jnp
import numpy as np


def affine(p: Any, q: Any) -> Any:
    """The composition of maps x -> a·x + b, the first operand first."""
    return q[0] * p[0], q[0] * p[1] + q[1]


def multiply_matrices(p: Any, q: Any) -> Any:
    """The product of 2x2 matrices held as four leaves: each output depends on two of each."""
    return (
        p[0] * q[0] + p[1] * q[2],
        p[0] * q[1] + p[1] * q[3],
        p[2] * q[0] + p[3] * q[2],
        p[2] * q[1] + p[3] * q[3],
    )


def last_write(p: Any, q: Any) -> Any:
    """The later element, unless it is zero."""
    return jnp.where(q == 0, p, q)


def last_flagged(p: Any, q: Any) -> Any:
    """The latest of the values that are written, as pairs (written, value)."""
    xp = np if isinstance(q[0], np.ndarray | np.generic) else jnp
    return p[0] | q[0], xp.where(q[0], q[1], p[1])


def welford(p: Any, q: Any) -> Any:
    """The count, mean and sum of squared differences of two parts together."""
    n, d = p[0] + q[0], q[1] - p[1]
    return n, p[1] + d * q[0] / n, p[2] + q[2] + d * d * p[0] * q[0] / n
