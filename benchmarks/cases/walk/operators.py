"""Operators to draw from: those of jscan, and functions of one to three leaves as users write."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from benchmarks.cases.case import Operation
from benchmarks.cases.operations import join_moments, latest
from jscan import operators

DTYPES: Mapping[str, int] = {
    "float32": 9,
    "bfloat16": 5,
    "float16": 4,
    "int32": 4,
    "float64": 2,
    "complex64": 2,
    "int8": 2,
    "uint8": 2,
    "int64": 2,
    "int16": 1,
    "uint16": 1,
    "uint32": 1,
    "uint64": 1,
    "bool": 1,
}
"""How often a dtype is drawn where it may be."""
FLOATS = ("float16", "bfloat16", "float32", "float64")
INTEGERS = ("int8", "uint8", "int16", "uint16", "int32", "uint32", "int64", "uint64")
REALS = (*INTEGERS, *FLOATS)
NUMBERS = (*REALS, "complex64")
SINGLE = ("float32", "float64")

Leaves = tuple[Any, ...]


@dataclasses.dataclass(frozen=True)
class Drawable:
    """An operator with what it is to be drawn with.

    Attributes:
      name: of the operator.
      combine: the operator itself.
      dtypes: what it takes.
      values: the values of its leaves, by the names in `benchmarks.cases.walk.values`.
      own: the dtypes of leaves that are not of the drawn dtype, by the leaf's number.
      identity: of a function that is none of jscan's, by the drawn dtype.
      slopes: which leaves the second pass of a gradient reads, and "results" where it reads those.
    """

    name: str
    combine: Operation
    dtypes: tuple[str, ...]
    values: tuple[str, ...]
    own: tuple[tuple[int, str], ...] = ()
    identity: Callable[[str], tuple[Any, ...]] | None = None
    slopes: tuple[int | str, ...] = ()

    def leaf_dtypes(self, dtype: str) -> tuple[str, ...]:
        """The dtypes of the leaves."""
        return tuple(dict(self.own).get(leaf, dtype) for leaf in range(len(self.values)))

    def identities(self, dtype: str) -> tuple[Any, ...]:
        """The identity of each leaf, as plain numbers."""
        if self.identity is not None:
            return self.identity(dtype)
        operator: Any = self.combine
        dtypes = [jnp.dtype(own) for own in self.leaf_dtypes(dtype)]
        return tuple(value.item() for value in operator.identities(dtypes))

    def neutral(self, dtype: str) -> Any:
        """The identity as `jscan.associative_scan` takes it: None where it knows it itself."""
        if self.identity is None:
            return None
        found = self.identity(dtype)
        return found if len(found) > 1 else found[0]


def _jscan(name: str, dtypes: tuple[str, ...], values: str, *slopes: int | str) -> Drawable:
    return Drawable(name, getattr(operators, name), dtypes, (values,), slopes=slopes)


ADD = _jscan("add", NUMBERS, "signs")
MUL = _jscan("mul", NUMBERS, "factors", 0, "results")
MAX = _jscan("max", REALS, "numbers", 0, "results")
MIN = _jscan("min", REALS, "numbers", 0, "results")
LOGADDEXP = _jscan("logaddexp", (*FLOATS, "complex64"), "exponents", 0, "results")
AND = _jscan("bitwise_and", ("bool", *INTEGERS), "numbers")
OR = _jscan("bitwise_or", ("bool", *INTEGERS), "rare")
XOR = _jscan("bitwise_xor", ("bool", *INTEGERS), "numbers")
AFFINE = Drawable(
    "affine", operators.affine, NUMBERS, ("factors", "signs"), slopes=(0, 1, "results")
)

CUMULATIVE = {
    "cumsum": (ADD, 10),
    "cumprod": (MUL, 4),
    "cummax": (MAX, 4),
    "cummin": (MIN, 3),
    "cumlogsumexp": (LOGADDEXP, 4),
}
"""The cumulative operations: their operators, and how often they are drawn."""


# --- what users write ---------------------------------------------------------------------------


def _compound(a: jax.Array, b: jax.Array) -> jax.Array:
    return a + b + a * b


def _compound_by_half(a: jax.Array, b: jax.Array) -> jax.Array:
    return a + b + a * b * 0.5


def _capped(a: jax.Array, b: jax.Array) -> jax.Array:
    return jnp.minimum(a + b, 100)


def _hypotenuse(a: jax.Array, b: jax.Array) -> jax.Array:
    return jnp.sqrt(a * a + b * b)


def _largest_size(a: jax.Array, b: jax.Array) -> jax.Array:
    return jnp.where(jnp.abs(b) >= jnp.abs(a), b, a)


def _argmax(a: Leaves, b: Leaves) -> Leaves:
    later = b[0] > a[0]
    return jnp.where(later, b[0], a[0]), jnp.where(later, b[1], a[1])


def _turn(a: Leaves, b: Leaves) -> Leaves:
    return a[0] * b[0] - a[1] * b[1], a[0] * b[1] + a[1] * b[0]


def _sum_and_max(a: Leaves, b: Leaves) -> Leaves:
    return a[0] + b[0], jnp.maximum(a[1], b[1])


def _own_affine(a: Leaves, b: Leaves) -> Leaves:
    return a[0] * b[0], b[0] * a[1] + b[1]


def _own_segments(a: Leaves, b: Leaves) -> Leaves:
    return a[0] | b[0], jnp.where(b[0], b[1], a[1] + b[1])


def _soft_maximum(a: Leaves, b: Leaves) -> Leaves:
    top = jnp.maximum(a[0], b[0])
    return top, a[1] * jnp.exp(a[0] - top) + b[1] * jnp.exp(b[0] - top)


def _sum_least_greatest(a: Leaves, b: Leaves) -> Leaves:
    return a[0] + b[0], jnp.minimum(a[1], b[1]), jnp.maximum(a[2], b[2])


def _always(*values: Any) -> Callable[[str], tuple[Any, ...]]:
    """The identity that is the same in every dtype."""
    return lambda _: values


def _of(operator: operators.Operator, dtype: str) -> Any:
    """The identity of an operator as a plain number."""
    return operator.identity(np.dtype(jnp.dtype(dtype))).item()


LAMBDAS = (
    Drawable("last write", latest, NUMBERS, ("rare",), identity=_always(0), slopes=(0,)),
    Drawable(
        *("a + b + a b", _compound, INTEGERS, ("numbers",)),
        identity=_always(0),
        slopes=(0, "results"),
    ),
    Drawable(
        *("a + b + a b / 2", _compound_by_half, FLOATS, ("minus fours",)),
        identity=_always(0),
        slopes=(0, "results"),
    ),
    Drawable(
        *("min(a + b, 100)", _capped, ("uint8", "uint32", "float32", "bfloat16"), ("ones",)),
        identity=_always(0),
        slopes=(0, "results"),
    ),
    Drawable(
        *("sqrt(a² + b²)", _hypotenuse, FLOATS, ("slopes",)),  # 0 is no identity below 0
        identity=_always(0),
        slopes=(0, "results"),
    ),
    Drawable(
        *("greatest size", _largest_size, (*FLOATS, "int8", "int16", "int32"), ("sizes",)),
        identity=_always(0),
        slopes=(0, "results"),
    ),
    Drawable(
        *("argmax", _argmax, REALS, ("numbers", "numbers")),
        own=((1, "int32"),),
        identity=lambda dtype: (_of(operators.max, dtype), 0),
        slopes=(0, "results"),
    ),
    Drawable(
        *("complex product", _turn, FLOATS, ("factors", "zeros")),
        identity=_always(1, 0),
        slopes=(0, 1, "results"),
    ),
    Drawable(
        *("sum and maximum", _sum_and_max, REALS, ("signs", "numbers")),
        identity=lambda dtype: (0, _of(operators.max, dtype)),
        slopes=(1, "results"),
    ),
    Drawable(
        *("own affine", _own_affine, NUMBERS, ("factors", "signs")),
        identity=_always(1, 0),
        slopes=(0, 1, "results"),
    ),
    Drawable(
        *("own segments", _own_segments, NUMBERS, ("rare", "signs")),
        own=((0, "bool"),),
        identity=_always(False, 0),
        slopes=(0,),
    ),
    Drawable(
        *("maximum and sum of exponentials", _soft_maximum, SINGLE, ("exponents", "ones")),
        identity=_always(-1e30, 0.0),
        slopes=(0, 1, "results"),
    ),
    Drawable(
        *("Welford", join_moments, SINGLE, ("ones", "signs", "zeros")),
        identity=_always(0, 0, 0),
        slopes=(0, 1, 2, "results"),
    ),
    Drawable(
        *("sum, least, greatest", _sum_least_greatest, REALS, ("signs", "numbers", "numbers")),
        identity=lambda dtype: (0, _of(operators.min, dtype), _of(operators.max, dtype)),
        slopes=(1, 2, "results"),
    ),
    Drawable(
        *("mixed dtypes", _sum_least_greatest, FLOATS, ("signs", "numbers", "numbers")),
        own=((0, "int32"), (2, "int8")),
        identity=lambda dtype: (0, _of(operators.min, dtype), -128),
        slopes=(1, "results"),
    ),
)
"""Functions of one to three leaves."""
