"""Functions of floats, and counts of bits, from CUDA's library.

Of those that Triton has itself some are approximations, and others are missing: all come from the
library, as they do in XLA. It has none of 16 bits: these are computed in 32.
"""

from __future__ import annotations

import numpy as np

from jscan.kernels.engines.source.function import Equation, Rule
from jscan.kernels.engines.source.operands import (
    F32,
    I32,
    Form,
    Operand,
    as_type,
    constant,
    is_narrow,
    signed,
    type_name,
    unsigned,
)


def library(name: str) -> Rule:
    """A function of floats, from CUDA's library."""

    def rule(at: Equation) -> list[Operand]:
        if any(x.kind != "f" for x in at.operands):
            raise at.unwritable()
        dtype = at.operands[0].dtype
        wide = [as_type(x, F32) if is_narrow(x.dtype) else x for x in at.operands]
        found = f"libdevice.{name}({', '.join(x.typed for x in wide)})"
        return at.result(f"{found}.to({type_name(dtype)})" if is_narrow(dtype) else found)

    return rule


def _wide_only(name: str) -> Rule:
    """A function that has no meaning in 32 bits for operands of 16."""

    def rule(at: Equation) -> list[Operand]:
        if is_narrow(at.operands[0].dtype):
            raise at.unwritable()
        return library(name)(at)

    return rule


def _pow(at: Equation) -> list[Operand]:
    x, y = at.operands
    if x.kind != "f":
        raise at.unwritable()
    dtype = x.dtype
    if is_narrow(dtype):
        x = as_type(x, F32)
    if y.kind in "iu" and y.bits <= 32 and y.dtype.name != "uint32":
        y = as_type(y, I32)  # by multiplications
    else:
        y = as_type(y, x.dtype)
    found = Operand(f"libdevice.pow({x.typed}, {y.typed})", x.dtype, x.shape, Form.CALL)
    return at.result(as_type(found, dtype).text)


def _logistic(at: Equation) -> list[Operand]:
    [x] = at.operands
    dtype = x.dtype
    x = as_type(x, F32) if is_narrow(dtype) else x
    if x.kind != "f":
        raise at.unwritable()
    one, minus = constant(1, x.dtype), constant(-1, x.dtype)
    text = f"{one.beside} / ({one.beside} + libdevice.exp({x.tight} * {minus.beside}))"
    found = Operand(text, x.dtype, x.shape, Form.OPERATION)
    narrowed = as_type(found, dtype)
    return at.result(narrowed.text, narrowed.form)


def _is_finite(at: Equation) -> list[Operand]:
    [x] = at.operands
    return at.result(f"tl.abs({x.typed}) < {constant(np.inf, x.dtype).tight}", Form.OPERATION)


def _round(at: Equation) -> list[Operand]:
    to_even = int(at.params["rounding_method"]) == 1
    return library("rint" if to_even else "round")(at)


def _count_bits(name: str) -> Rule:
    """A count of bits, which the library has of 32 and 64 of them, and signed."""

    def rule(at: Equation) -> list[Operand]:
        [x] = at.operands
        if x.kind not in "iu":
            raise at.unwritable()
        width, dtype = max(x.bits, 32), x.dtype
        wide = as_type(as_type(x, unsigned(x.bits), bitcast=True), unsigned(width))
        text = f"libdevice.{name}({as_type(wide, signed(width), bitcast=True).typed})"
        if name == "clz" and x.bits < 32:
            text = f"({text} - {32 - x.bits})"
        return at.result(as_type(Operand(text, I32, x.shape, Form.CALL), dtype).text)

    return rule


_SAME_NAME = (
    *("ceil", "floor", "exp", "exp2", "expm1", "log", "log1p", "sqrt", "rsqrt", "cbrt"),
    *("sin", "cos", "tan", "asin", "acos", "atan", "atan2", "sinh", "cosh", "tanh"),
    *("asinh", "acosh", "atanh", "erf", "erfc", "lgamma", "log2"),
)

RULES: dict[str, Rule] = {
    **{name: library(name) for name in _SAME_NAME},
    "erf_inv": library("erfinv"),
    "nextafter": _wide_only("nextafter"),
    "pow": _pow,
    "logistic": _logistic,
    "is_finite": _is_finite,
    "round": _round,
    "population_count": _count_bits("popc"),
    "clz": _count_bits("clz"),
}
