"""Arithmetic, comparisons, extrema, choices and shifts: what `jax.lax` says that they are."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable

import numpy as np

from jscan.kernels.engines.source.function import Equation, Rule
from jscan.kernels.engines.source.library import library
from jscan.kernels.engines.source.operands import (
    BOOL,
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


def pair(x: Operand, y: Operand, *, on_left: bool = True) -> tuple[str, str]:
    """Two operands beside each other, of which one at most is a bare number."""
    if y.form is Form.NUMBER or not on_left:
        return x.tight, y.beside if x.form is not Form.NUMBER else y.tight
    return x.beside, y.tight


# --- arithmetic ---------------------------------------------------------------------------------


_NEUTRAL = {"+": 0, "-": 0, "*": 1, "//": 1, "<<": 0, ">>": 0, "|": 0, "^": 0}
"""What changes nothing as the operand on the right."""
_COMMUTING = "+*|^"


def _simplified(symbol: str, x: Operand, y: Operand) -> Operand | None:
    """The result of an operation on integers that needs none."""
    if x.kind not in "iu":
        return None
    for one, other in ((x, y), (y, x)) if symbol in _COMMUTING else ((x, y),):
        if other.value is not None and other.value == _NEUTRAL.get(symbol):
            # What is spread over the lanes by the other operand stays as it is written.
            return one if len(one.shape) >= len(other.shape) else None
    if symbol == "%" and y.value == 1 and not x.shape:
        return constant(0, x.dtype)
    if symbol == "*" and not (x.shape or y.shape) and 0 in (x.value, y.value):
        return constant(0, x.dtype)
    return None


def _operation(symbol: str, kinds: str) -> Rule:
    """A binary operation of Python's, for operands of these kinds."""

    def rule(at: Equation) -> list[Operand]:
        x, y = at.operands
        if x.kind not in kinds:
            raise at.unwritable()
        simplified = _simplified(symbol, x, y)
        if simplified is not None:
            return [simplified]
        left, right = pair(x, y, on_left=symbol in "+-*")
        return at.result(f"{left} {symbol} {right}", Form.OPERATION)

    return rule


def _comparison(symbol: str) -> Rule:
    def rule(at: Equation) -> list[Operand]:
        x, y = at.operands
        if x.predicate is not None and y.value == 0 and symbol in ("==", "!=", ">"):
            truth = x.predicate
            if symbol == "==":
                return at.result(f"~{truth.tight}", Form.OPERATION)
            return [truth]
        if x.dtype == BOOL and symbol not in ("==", "!="):  # one bit, which would count as a sign
            x, y = as_type(x, I32), as_type(y, I32)
        left, right = pair(x, y, on_left=False)
        return at.result(f"{left} {symbol} {right}", Form.OPERATION)

    return rule


def _div(at: Equation) -> list[Operand]:
    x, y = at.operands
    if x.kind in "iu":
        return _operation("//", "iu")(at)
    if x.kind != "f":
        raise at.unwritable()
    left, right = pair(x, y)
    if is_narrow(x.dtype):  # which Triton divides in 32 bits, and leaves there
        return at.result(f"({left} / {right}).to({type_name(x.dtype)})")
    return at.result(f"{left} / {right}", Form.OPERATION)


def _rem(at: Equation) -> list[Operand]:
    if at.operands[0].kind in "iu":
        return _operation("%", "iu")(at)
    return library("fmod")(at)


def _neg(at: Equation) -> list[Operand]:
    [x] = at.operands
    if x.kind == "f":  # Triton's own is 0 - x, which takes its sign from a negative zero
        return at.result(f"{x.tight} * {constant(-1, x.dtype).beside}", Form.OPERATION)
    return at.result(f"-{x.tight}", Form.OPERATION)


def _not(at: Equation) -> list[Operand]:
    return at.result(f"~{at.operands[0].tight}", Form.OPERATION)


def _abs(at: Equation) -> list[Operand]:
    [x] = at.operands
    return list(at.operands) if x.kind in "ub" else at.result(f"tl.abs({x.typed})")


def _sign(at: Equation) -> list[Operand]:
    x = at.function.named(at.operands[0])
    zero, one = constant(0, x.dtype), constant(1, x.dtype)
    if x.kind == "u":
        return at.result(f"({x.text} != {zero.tight}).to({type_name(x.dtype)})")
    minus = constant(-1, x.dtype)
    signs = f"tl.where({x.text} < {zero.tight}, {minus.typed}, {one.typed})"
    same = f"{x.text} == {zero.tight}"
    if x.kind == "f":  # of zeros and of NaN the value itself
        same = f"({same}) | ({x.text} != {x.text})"
    return at.result(f"tl.where({same}, {x.text}, {signs})")


def _square(at: Equation) -> list[Operand]:
    x = at.function.named(at.operands[0])
    return at.result(f"{x.text} * {x.text}", Form.OPERATION)


def _one_minus_square(at: Equation) -> list[Operand]:
    x = at.function.named(at.operands[0])
    one = constant(1, x.dtype)
    return at.result(f"({one.beside} + {x.text}) * ({one.beside} - {x.text})", Form.OPERATION)


def _integer_pow(at: Equation) -> list[Operand]:
    """x^y by squares, in the order of the first engine."""
    x, power = at.function.named(at.operands[0]), at.params["y"]
    one, left = constant(1, x.dtype), abs(power)
    if power == 0:
        text = f"tl.where({x.text} == {x.text}, {one.typed}, {one.typed})"
        return at.result(text if x.shape else one.typed)
    product: Operand | None = None
    while left:
        if left % 2:
            product = x if product is None else _times(at, product, x)
        left //= 2
        if left:
            x = _times(at, x, x)
    assert product is not None
    if power > 0:
        return [product]
    return _div(dataclasses.replace(at, operands=[one, product]))


def _times(at: Equation, x: Operand, y: Operand) -> Operand:
    product = Operand(f"{x.text} * {y.text}", x.dtype, x.shape, Form.OPERATION)
    return at.function.named(product)


def _fma(at: Equation) -> list[Operand]:
    """Triton contracts by itself, and its negation would be an instruction of its own."""
    x, y, z = at.operands
    sign = "-" if at.params["minus"] else "+"
    return at.result(f"{z.tight} {sign} {x.tight} * {y.tight}", Form.OPERATION)


# --- extrema ------------------------------------------------------------------------------------


def extremum_text(name: str, x: Operand, y: Operand) -> str:
    """The call of ``tl.maximum`` or ``tl.minimum`` that is NaN where either operand is."""
    nan = ", propagate_nan=tl.PropagateNan.ALL" if x.kind == "f" else ""
    text = f"tl.{name}({x.typed}, {y.typed}{nan})"
    return f"{text}.to({type_name(x.dtype)})" if x.dtype.name == "bfloat16" else text


def _extremum(name: str) -> Rule:
    def rule(at: Equation) -> list[Operand]:
        x, y = at.operands
        if x.dtype == BOOL:
            return _operation("|" if name == "maximum" else "&", "b")(at)
        if x.dtype == np.float64:
            return at.result(_of_doubles(name, *map(at.function.named, (x, y))))
        return at.result(extremum_text(name, x, y))

    return rule


def _of_doubles(name: str, x: Operand, y: Operand) -> str:
    """`extremum_text` of float64 in half the instructions that Triton makes of the call."""
    sign, bits = (">", "&") if name == "maximum" else ("<", "|")
    x_bits, y_bits = (f"{v.text}.to(tl.int64, bitcast=True)" for v in (x, y))
    both = f"({x_bits} {bits} {y_bits}).to(tl.float64, bitcast=True)"
    chosen = f"tl.where(({x.text} {sign} {y.text}) | ({x.text} != {x.text}), {x.text}, {y.text})"
    return f"tl.where({x.text} == {y.text}, {both}, {chosen})"


def _clamp(at: Equation) -> list[Operand]:
    low, x, high = at.operands
    raised = Operand(extremum_text("maximum", low, x), x.dtype, x.shape, Form.CALL)
    return at.result(extremum_text("minimum", raised, high))


def _select_n(at: Equation) -> list[Operand]:
    which, first, *others = at.operands
    if which.dtype == BOOL:
        [other] = others
        return at.result(f"tl.where({which.text}, {other.typed}, {first.typed})")
    which, text = at.function.named(which), first.typed
    for number, other in enumerate(others, start=1):
        text = f"tl.where({which.text} == {number}, {other.typed}, {text})"
    return at.result(text)


# --- shifts -------------------------------------------------------------------------------------


def _shift(symbol: str, kind_of_bits: Callable[[int], np.dtype] | None) -> Rule:
    """A shift of the bits in a type of its own; by the width or more it leaves none, or the sign.

    Triton leaves it to the hardware what that is.
    """

    def rule(at: Equation) -> list[Operand]:
        x, by = at.operands
        dtype, width = x.dtype, x.bits
        if kind_of_bits is not None:
            x = as_type(x, kind_of_bits(width), bitcast=True)
        if by.value is not None and 0 <= by.value < width:
            number = int(by.value)
            count = str(number) if width >= 32 else constant(number, x.dtype).tight
            text = f"{x.tight} {symbol} {count}"
            shifted = Operand(text, x.dtype, x.shape or by.shape, Form.OPERATION)
        else:
            x, by = at.function.named(x), at.function.named(by)
            text = f"{x.text} {symbol} {as_type(by, x.dtype, bitcast=True).text}"
            inside = as_type(by, unsigned(by.bits), bitcast=True)
            width_text = constant(width, inside.dtype).tight
            beyond = constant(0, x.dtype).typed
            if symbol == ">>" and x.kind == "i":
                beyond = f"{x.text} {symbol} {constant(width - 1, x.dtype).tight}"
            text = f"tl.where({inside.text} < {width_text}, {text}, {beyond})"
            shifted = Operand(text, x.dtype, by.shape or x.shape, Form.CALL)
        found = as_type(shifted, dtype, bitcast=True)
        return at.result(found.text, found.form)

    return rule


RULES: dict[str, Rule] = {
    "add": _operation("+", "fiu"),
    "add_any": _operation("+", "fiu"),
    "sub": _operation("-", "fiu"),
    "mul": _operation("*", "fiu"),
    "div": _div,
    "rem": _rem,
    "neg": _neg,
    "abs": _abs,
    "sign": _sign,
    "jscan_fma": _fma,
    "square": _square,
    "one_minus_square": _one_minus_square,
    "integer_pow": _integer_pow,
    "and": _operation("&", "iub"),
    "or": _operation("|", "iub"),
    "xor": _operation("^", "iub"),
    "not": _not,
    "eq": _comparison("=="),
    "ne": _comparison("!="),
    "lt": _comparison("<"),
    "le": _comparison("<="),
    "gt": _comparison(">"),
    "ge": _comparison(">="),
    "max": _extremum("maximum"),
    "min": _extremum("minimum"),
    "jscan_nan_max": _extremum("maximum"),
    "jscan_nan_min": _extremum("minimum"),
    "clamp": _clamp,
    "select_n": _select_n,
    "shift_left": _shift("<<", None),
    "shift_right_arithmetic": _shift(">>", signed),
    "shift_right_logical": _shift(">>", unsigned),
}
