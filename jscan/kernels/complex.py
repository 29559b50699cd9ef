"""Complex numbers in kernels: pairs of real ones.

Triton has no complex numbers. While an operator is rewritten, a complex value is the pair of its
real and its imaginary part, and `complex_result` has what each primitive makes of pairs. A leaf of
complex numbers becomes two leaves of real ones. In memory complex64 stays as it is, read and
written by words of 64 bits; an array of complex128 becomes two real ones around a kernel.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from typing import Any, TypeAlias

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax
from jax.extend import core
from jax.typing import DTypeLike

from jscan.kernels import language

Pair: TypeAlias = tuple[jax.Array, jax.Array]
"""The real and the imaginary part of a complex number."""

Part: TypeAlias = Any
"""A real number: an operand's, a literal's, or a part of a complex one."""


def real_dtypes(dtype: DTypeLike) -> list[np.dtype]:
    """The dtypes of the kernel's leaves that stand for one leaf of ``dtype``."""
    dtype = np.dtype(dtype)
    if dtype.kind != "c":
        return [dtype]
    return [np.dtype(np.float32 if dtype == np.complex64 else np.float64)] * 2


def read_dtypes(dtype: DTypeLike) -> list[np.dtype]:
    """The dtypes of the arrays that kernels read and write for one leaf of ``dtype``."""
    return [np.dtype(dtype)] if np.dtype(dtype) == np.complex64 else real_dtypes(dtype)


def real_identity(identity: Sequence[np.generic]) -> list[np.generic]:
    """The identity's scalars as those of the kernel's leaves."""
    found: list[np.generic] = []
    for scalar in identity:
        found += [scalar.real, scalar.imag] if scalar.dtype.kind == "c" else [scalar]
    return found


def pairs(scalars: Sequence[Part], avals: Sequence[jax.core.ShapedArray]) -> list[Part | Pair]:
    """The values whose parts ``scalars`` are: pairs where ``avals`` are complex."""
    rest = iter(scalars)
    return [(next(rest), next(rest)) if a.dtype.kind == "c" else next(rest) for a in avals]


def parts(values: Sequence[Part | Pair]) -> list[Part]:
    """The real numbers that values consist of."""
    return [part for v in values for part in (v if isinstance(v, tuple) else (v,))]


def complex_result(equation: core.JaxprEqn, operands: Sequence[Part | Pair]) -> Part | Pair | None:
    """The result of an equation that reads or makes pairs; None where there is no form for it."""
    name, params = equation.primitive.name, equation.params
    if name == "convert_element_type":
        return _convert(operands[0], params["new_dtype"])
    if name == "integer_pow":
        return _power(operands[0], params["y"]) if params["y"] > 0 else None
    rule = _RULES.get(name)
    return None if rule is None else rule(*operands)


def _multiply(x: Pair, y: Pair) -> Pair:
    fma = language.fma
    return (fma(x[1], y[1], x[0] * y[0], minus=True), fma(x[0], y[1], x[1] * y[0]))


def _divide(x: Pair, y: Pair) -> Pair:
    """The quotient by Smith's algorithm, which forms no squared modulus that could overflow."""
    swap = abs(y[0]) < abs(y[1])
    big, small = lax.select(swap, y[1], y[0]), lax.select(swap, y[0], y[1])
    ratio = small / big
    scale = big + small * ratio
    u, v = lax.select(swap, x[1], x[0]), lax.select(swap, x[0], x[1])
    imaginary = (v - u * ratio) / scale
    by_zero = big == 0
    size = abs(big)
    return (
        lax.select(by_zero, x[0] / size, (u + v * ratio) / scale),
        lax.select(by_zero, x[1] / size, lax.select(swap, -imaginary, imaginary)),
    )


def _convert(x: Part | Pair, new_dtype: DTypeLike) -> Pair:
    dtype = real_dtypes(new_dtype)[0]
    if isinstance(x, tuple):
        re, im = x
        return lax.convert_element_type(re, dtype), lax.convert_element_type(im, dtype)
    real = lax.convert_element_type(x, dtype)
    return (real, lax.full_like(real, 0))


def _power(x: Pair, y: int) -> Pair:
    return functools.reduce(_multiply, [x] * y)


def _select(which: jax.Array, *cases: Pair) -> Pair:
    re, im = zip(*cases, strict=True)
    return lax.select_n(which, *re), lax.select_n(which, *im)


def _exp(x: Pair) -> Pair:
    size = jnp.exp(x[0])
    # The product of an infinite or zero size with a zero sine is zero, as for real numbers.
    real_only = x[1] == 0
    sine = lax.select(real_only, jnp.zeros_like(size), size * jnp.sin(x[1]))
    return (lax.select(real_only, size, size * jnp.cos(x[1])), sine)


def _abs(x: Pair) -> jax.Array:
    big, small = jnp.maximum(abs(x[0]), abs(x[1])), jnp.minimum(abs(x[0]), abs(x[1]))
    plain = (big != 0) & (big < np.inf)
    ratio = small / lax.select(plain, big, jnp.ones_like(big))
    return lax.select(plain, big * jnp.sqrt(1 + ratio * ratio), big)


def _log1p(x: Pair) -> Pair:
    size = jnp.log1p(x[0] * (x[0] + 2) + x[1] * x[1])
    return (size / 2, jnp.arctan2(x[1], 1 + x[0]))


def _conjugate(x: Part | Pair) -> Pair:
    """The conjugate, which is complex of real numbers, too."""
    return (x[0], -x[1]) if isinstance(x, tuple) else (x, lax.full_like(x, 0))


def _greater(x: Pair, y: Pair) -> jax.Array:
    """Whether x > y in the lexicographic order, which is XLA's."""
    return (x[0] > y[0]) | ((x[0] == y[0]) & (x[1] > y[1]))


_RULES: dict[str, Callable[..., Any]] = {
    "add": lambda x, y: (x[0] + y[0], x[1] + y[1]),
    "add_any": lambda x, y: (x[0] + y[0], x[1] + y[1]),
    "sub": lambda x, y: (x[0] - y[0], x[1] - y[1]),
    "mul": _multiply,
    "div": _divide,
    "max": lambda x, y: _select(_greater(x, y), y, x),
    "min": lambda x, y: _select(_greater(y, x), y, x),
    "neg": lambda x: (-x[0], -x[1]),
    "abs": _abs,
    "conj": _conjugate,
    "exp": _exp,
    "log": lambda x: (jnp.log(_abs(x)), jnp.arctan2(x[1], x[0])),
    "log1p": _log1p,
    "real": lambda x: x[0],
    "imag": lambda x: x[1],
    "complex": lambda re, im: (re, im),
    "square": lambda x: _multiply(x, x),
    "eq": lambda x, y: (x[0] == y[0]) & (x[1] == y[1]),
    "ne": lambda x, y: (x[0] != y[0]) | (x[1] != y[1]),
    "select_n": _select,
    "copy": lambda x: x,
}
