"""How near results have to be: as near as rounding allows for axes of eight elements."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

# The results of the table are of magnitude one to a hundred. A dozen roundings, each of which is
# passed on by slopes of that size, stay below this many eps.
ROUNDINGS = 2000


def assert_close(actual: Any, expected: Any) -> None:
    """Asserts that one array is another, in shape and up to rounding; no NaN is in either."""
    assert actual.shape == expected.shape, f"shape {actual.shape}, expected {expected.shape}"
    if not jnp.issubdtype(actual.dtype, jnp.inexact):
        np.testing.assert_array_equal(actual, expected)
        return
    eps = float(jnp.finfo(actual.dtype).eps)
    # Half precision is rounded once, at the end.
    tolerance = eps * (4 if jnp.finfo(actual.dtype).bits < 32 else ROUNDINGS)
    wide = np.complex128 if jnp.issubdtype(actual.dtype, jnp.complexfloating) else np.float64
    expected = np.asarray(expected).astype(wide)
    finite = np.abs(expected[np.isfinite(expected)])
    np.testing.assert_allclose(
        np.asarray(actual).astype(wide),
        expected,
        rtol=tolerance,
        atol=tolerance * float(finite.max(initial=1.0)),
        equal_nan=False,
    )


def assert_all_close(actual: Sequence[Any], expected: Sequence[Any]) -> None:
    """Asserts it of one array after another."""
    assert len(actual) == len(expected)
    for got, want in zip(actual, expected, strict=True):
        assert_close(got, want)


def assert_results(actual: Sequence[Any], shapes: Sequence[jax.ShapeDtypeStruct]) -> None:
    """Asserts shapes and dtypes."""
    found = [(y.shape, y.dtype) for y in actual]
    assert found == [(y.shape, y.dtype) for y in shapes]
