"""Data and tables that several test files share: dtypes, the cumulative functions, random input."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import jax.numpy as jnp
import numpy as np
import pytest

import jscan
from tests import reference

SIGNED = ("int8", "int16", "int32", "int64")
UNSIGNED = ("uint8", "uint16", "uint32", "uint64")
FLOATS = ("float16", "bfloat16", "float32", "float64")
COMPLEX = ("complex64", "complex128")
INTEGERS = SIGNED + UNSIGNED
REAL = INTEGERS + FLOATS
NUMBERS = REAL + COMPLEX
FLAG_DTYPES = ("bool", "uint8", "int32", "int64")

# A form says whether a scan is reverse, whether exclusive, and whether segmented.
FORMS = tuple(itertools.product((False, True), repeat=3))
PLAIN, FULL = FORMS[0], FORMS[-1]
SEGMENTED_FORMS = tuple(form for form in FORMS if form[2])


def form_name(form: tuple[bool, bool, bool]) -> str:
    """A readable test id for an element of FORMS."""
    reverse, exclusive, segmented = form
    return "-".join(
        (
            "reverse" if reverse else "forward",
            "exclusive" if exclusive else "inclusive",
            "segmented" if segmented else "whole",
        )
    )


every_form = pytest.mark.parametrize("form", FORMS, ids=form_name)
# Each two of the three meet in every way; the other four forms are left to the thorough.
every_two = pytest.mark.parametrize(
    "form",
    [f if sum(f) % 2 == 0 else pytest.param(f, marks=pytest.mark.thorough) for f in FORMS],
    ids=form_name,
)
sorted_or_not = pytest.mark.parametrize("indices_are_sorted", [True, False], ids=["sorted", "not"])


def lowest(dtype: Any) -> Any:
    """The identity of max."""
    dtype = jnp.dtype(dtype)
    if jnp.issubdtype(dtype, jnp.bool_):
        return False
    return jnp.iinfo(dtype).min if jnp.issubdtype(dtype, jnp.integer) else -np.inf


def highest(dtype: Any) -> Any:
    """The identity of min."""
    dtype = jnp.dtype(dtype)
    if jnp.issubdtype(dtype, jnp.bool_):
        return True
    return jnp.iinfo(dtype).max if jnp.issubdtype(dtype, jnp.integer) else np.inf


@dataclass(frozen=True)
class Cumulative:
    """A public cumulative function, what it should compute, and how wrong rounding can make it."""

    name: str
    combine: Callable[[Any, Any], Any]
    identity: Callable[[Any], Any]
    dtypes: tuple[str, ...]

    @property
    def function(self) -> Callable[..., Any]:
        """The function under test."""
        return getattr(jscan, self.name)

    def expected(self, x: Any, **form: Any) -> Any:
        """The sequential scan of x, in a wide type."""
        identity = self.identity(np.asarray(x).dtype)
        return reference.scan(self.combine, x, identity=identity, **form)

    def error(self, x: Any, expected: Any, **form: Any) -> Any:
        """The bound of reference.bound for this function; zero where nothing is rounded."""
        dtype = np.asarray(x).dtype
        n = np.shape(x)[form.get("axis", 0)]
        exact = self.name in ("cummax", "cummin") or jnp.issubdtype(dtype, jnp.integer)
        if exact or n == 0:
            return 0.0
        if self.name == "cumlogsumexp":
            # The log-sum-exp of two numbers is a mean of its operands' errors plus its own, which
            # is a few roundings (exp, log1p and a sum, each within 2 ulp) of a number no larger
            # than the result's size plus the largest magnitude met.
            size = np.max(np.abs(reference.widen(x)), axis=form.get("axis", 0), keepdims=True)
            size = np.where(np.isfinite(size), size, 0.0) + np.log(n) + 1
            return reference.bound(size, expected, dtype, n=n, steps=8)
        wide = np.abs(reference.widen(x))
        magnitude = self.expected(wide, **form)
        # A product of complex numbers rounds its six operations to within sqrt(5) unit roundoffs.
        steps = 3 if jnp.issubdtype(dtype, jnp.complexfloating) else 1
        return reference.bound(magnitude, expected, dtype, n=n, steps=steps)

    def check(self, actual: Any, x: Any, **form: Any) -> None:
        """Asserts that `actual` is this function's scan of x, in x's dtype and shape."""
        assert actual.dtype == np.asarray(x).dtype
        expected = self.expected(x, **form)
        if np.asarray(x).dtype.kind in "iub":
            reference.assert_equal(actual, expected)
        else:
            reference.assert_within(actual, expected, self.error(x, expected, **form))


CUMULATIVES = (
    Cumulative("cumsum", np.add, lambda _: 0, NUMBERS),
    Cumulative("cumprod", np.multiply, lambda _: 1, NUMBERS),
    Cumulative("cummax", np.maximum, lowest, REAL),
    Cumulative("cummin", np.minimum, highest, REAL),
    Cumulative("cumlogsumexp", np.logaddexp, lambda _: -np.inf, FLOATS),
)
every_cumulative = pytest.mark.parametrize("cumulative", CUMULATIVES, ids=lambda c: c.name)
BY_NAME = {cumulative.name: cumulative for cumulative in CUMULATIVES}


def values(name: str, shape: tuple[int, ...], dtype: Any, seed: int = 0) -> Any:
    """Random input for a cumulative function, kept where its results stay finite."""
    rng = np.random.default_rng([seed, *shape])
    dtype = jnp.dtype(dtype)
    if jnp.issubdtype(dtype, jnp.bool_):
        return rng.random(shape) < 0.5
    if jnp.issubdtype(dtype, jnp.integer):
        info = jnp.iinfo(dtype)
        return rng.integers(info.min, info.max, shape, dtype=dtype, endpoint=True)
    x = rng.uniform(0.95, 1.05, shape) if name == "cumprod" else rng.normal(size=shape)
    sign = rng.choice((-1.0, 1.0), shape)
    if jnp.issubdtype(dtype, jnp.complexfloating):
        return (x * np.exp(1j * rng.uniform(0, 6, shape))).astype(dtype)
    return (x * sign).astype(dtype)


def head_flags(shape: tuple[int, ...], dtype: Any = bool, seed: int = 0, share: float = 0.1) -> Any:
    """Random head flags; the nonzero ones of an integer dtype are not all equal to one."""
    rng = np.random.default_rng([seed + 1, *shape])
    flags = rng.random(shape) < share
    if jnp.issubdtype(dtype, jnp.bool_):
        return flags
    return (flags * rng.integers(1, 100, shape)).astype(dtype)
