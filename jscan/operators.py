"""Associative operators whose identity is known, on arrays or pytrees of arrays."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

# Without max and min: a star import leaves Python's own alone.
__all__ = [
    "Affine",
    "Operator",
    "add",
    "affine",
    "bitwise_and",
    "bitwise_or",
    "bitwise_xor",
    "logaddexp",
    "mul",
]

integer_limits: Any = jnp.iinfo
float_limits: Any = jnp.finfo
"""JAX leaves both without types."""


@dataclasses.dataclass(frozen=True)
class Operator:
    """An associative operator that is called as ``op(a, b)`` and knows its identity for each dtype.

    Attributes:
      name: what the operator is called.
      combine: the operator on two arrays of one dtype.
      neutral: the identity as a function of the dtype, or None for a dtype without one.

    It is taken for unchangeable. Programs that were compiled for it are kept, so what ``combine``
    and ``neutral`` read beside their arguments must not change.

    Types of few bits may lack infinity: the identity of ``max`` and ``min`` is then the least or
    the greatest number. No operator takes a type that lacks 0, nor one that lacks its identity.
    """

    name: str
    combine: Callable[[jax.Array, jax.Array], jax.Array]
    neutral: Callable[[np.dtype], Any]

    def __call__(self, a: Any, b: Any) -> Any:
        """Combine ``a``, the earlier elements, with ``b``."""
        return jax.tree.map(self.combine, a, b)

    def takes(self, dtype: Any) -> bool:
        """Whether the operator is defined on elements of ``dtype``."""
        return self._held_neutral(np.dtype(dtype)) is not None

    def _held_neutral(self, dtype: np.dtype) -> Any:
        """The identity, or None where ``dtype`` cannot hold it."""
        value = self.neutral(dtype)
        # Scans in plain JAX pad with zeros.
        return value if value is not None and _holds(dtype, 0) and _holds(dtype, value) else None

    def identity(self, dtype: Any) -> Any:
        """The NumPy scalar of ``dtype`` that leaves every element unchanged.

        Raises:
          TypeError: the operator does not take elements of ``dtype``.
        """
        dtype = np.dtype(dtype)
        value = self._held_neutral(dtype)
        if value is None:
            raise TypeError(f"jscan.operators.{self.name} does not take elements of dtype {dtype}")
        return np.asarray(value, dtype)[()]

    def identities(self, dtypes: Sequence[Any]) -> tuple[Any, ...]:
        """The identity of each leaf of a pytree whose leaves have ``dtypes``."""
        return tuple(self.identity(dtype) for dtype in dtypes)


class Affine(Operator):
    """Composition of x -> a x + b, on pairs (a, b)."""

    def __call__(self, a: Any, b: Any) -> Any:
        """The map ``a`` followed by the map ``b``, each a pair of pytrees."""
        if not all(isinstance(x, (tuple, list)) and len(x) == 2 for x in (a, b)):
            raise TypeError(
                f"jscan.operators.{self.name} combines pairs (a, b) of slope and offset"
            )
        (a1, b1), (a2, b2) = a, b
        try:
            return (
                jax.tree.map(lax.mul, a2, a1),
                jax.tree.map(lambda slope, x, y: lax.add(lax.mul(slope, x), y), a2, b1, b2),
            )
        except (TypeError, ValueError) as error:
            dtypes = {jnp.result_type(x) for x in jax.tree.leaves((a, b))}
            kind = TypeError if len(dtypes) > 1 else ValueError
            raise kind(
                f"jscan.operators.{self.name}: a and b must be alike in structure, shape and "
                f"dtype; {error}"
            ) from error

    def identity(self, dtype: Any) -> tuple[Any, Any]:
        """The pair (1, 0) in ``dtype``.

        Raises:
          TypeError: the operator does not take elements of ``dtype``.
        """
        return super().identity(dtype), np.zeros((), dtype)[()]

    def identities(self, dtypes: Sequence[Any]) -> tuple[Any, ...]:
        """The identity of each leaf: ones for the first half, the slopes, then zeros."""
        half = len(dtypes) // 2
        return tuple(self.identity(dtype)[i >= half] for i, dtype in enumerate(dtypes))


KINDS = (Operator, Affine)
"""The types of operators that are what they say, and no more."""


def _holds(dtype: np.dtype, value: Any) -> bool:
    """Whether ``dtype`` can hold ``value``; types of few bits may lack infinity, or 0."""
    held = np.asarray(value, dtype)
    if _is(dtype, jnp.floating):
        return float(held) == value
    return int(held) == int(value) if _is(dtype, jnp.integer) else bool(held == value)


def _is(dtype: np.dtype, *kinds: Any) -> bool:
    """Whether a dtype is of one of the kinds."""
    return any(jnp.issubdtype(dtype, kind) for kind in kinds)


def _number(value: int) -> Callable[[np.dtype], int | None]:
    """``value`` as the identity of every numeric dtype."""
    return lambda dtype: value if _is(dtype, jnp.number) else None


def _lowest(dtype: np.dtype) -> float | None:
    if _is(dtype, jnp.bool_):
        return False
    if _is(dtype, jnp.integer):
        return integer_limits(dtype).min
    return _infinity(dtype, -np.inf, "min") if _is(dtype, jnp.floating) else None


def _highest(dtype: np.dtype) -> float | None:
    if _is(dtype, jnp.bool_):
        return True
    if _is(dtype, jnp.integer):
        return integer_limits(dtype).max
    return _infinity(dtype, np.inf, "max") if _is(dtype, jnp.floating) else None


def _infinity(dtype: np.dtype, infinity: float, limit: str) -> float:
    """Infinity, or the limit of a dtype that lacks it: its "min" or its "max"."""
    return infinity if _holds(dtype, infinity) else getattr(float_limits(dtype), limit)


def _no_bits(dtype: np.dtype) -> int | None:
    return 0 if _is(dtype, jnp.bool_, jnp.integer) else None


def _all_bits(dtype: np.dtype) -> int | bool | None:
    if _is(dtype, jnp.bool_):
        return True
    if _is(dtype, jnp.unsignedinteger):
        return integer_limits(dtype).max
    return -1 if _is(dtype, jnp.signedinteger) else None


def _log_of_zero(dtype: np.dtype) -> float | None:
    return -np.inf if _is(dtype, jnp.floating, jnp.complexfloating) else None


def _log_of_sum(a: jax.Array, b: jax.Array) -> jax.Array:
    """The operator ``jnp.logaddexp``, which of complex numbers has NaN for a sum of two zeros.

    It would not be associative: what is masked by minus infinity would be NaN from there on.
    """
    total = jnp.logaddexp(a, b)
    if not jnp.iscomplexobj(total):
        return total
    nothing = (jnp.real(a) == -np.inf) & (jnp.real(b) == -np.inf)
    return jnp.where(nothing, jnp.full_like(total, -np.inf), total)


add: Operator = Operator("add", lax.add, _number(0))
mul: Operator = Operator("mul", lax.mul, _number(1))
max: Operator = Operator("max", lax.max, _lowest)
min: Operator = Operator("min", lax.min, _highest)
bitwise_and: Operator = Operator("bitwise_and", lax.bitwise_and, _all_bits)
bitwise_or: Operator = Operator("bitwise_or", lax.bitwise_or, _no_bits)
bitwise_xor: Operator = Operator("bitwise_xor", lax.bitwise_xor, _no_bits)
logaddexp: Operator = Operator("logaddexp", _log_of_sum, _log_of_zero)
affine: Affine = Affine("affine", lax.mul, _number(1))
