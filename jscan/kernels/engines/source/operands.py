"""Values as they stand in the text of a program: names, numbers, calls and sums.

Every value has the dtype and the shape that it has in the jaxpr. Triton gives a bare number the
type of its neighbour, but of a constant alone it makes what suits the number: hence constants are
written with their type, but for numbers of 32 bits beside something that is none.
"""

from __future__ import annotations

import dataclasses
import enum
import math
from typing import Any

import jax.numpy as jnp
import numpy as np
from jax.extend import core

from jscan.jaxprs import aval

TYPES = {
    **{f"float{bits}": f"tl.float{bits}" for bits in (16, 32, 64)},
    **{f"int{bits}": f"tl.int{bits}" for bits in (8, 16, 32, 64)},
    **{f"uint{bits}": f"tl.uint{bits}" for bits in (8, 16, 32, 64)},
    "bfloat16": "tl.bfloat16",
    "bool": "tl.int1",
}
"""Triton's names of dtypes."""

I32, I64, F32 = np.dtype(np.int32), np.dtype(np.int64), np.dtype(np.float32)
BOOL, U64 = np.dtype(np.bool_), np.dtype(np.uint64)


class Unwritable(Exception):
    """Raised for what Triton's language cannot say; the text says what."""


class Form(enum.Enum):
    """What a text is, which says where it may stand as it is."""

    NAME = enum.auto()
    NUMBER = enum.auto()  # takes the type of its neighbour
    CALL = enum.auto()
    OPERATION = enum.auto()  # needs parentheses beside another one


@dataclasses.dataclass(frozen=True)
class Operand:
    """A value: what it is called, or how it is computed."""

    text: str
    dtype: np.dtype
    shape: tuple[int, ...] = ()
    form: Form = Form.NAME
    value: Any = None  # of a constant: a NumPy scalar
    predicate: Operand | None = None  # the boolean that it was converted from

    @property
    def typed(self) -> str:
        """The value as an argument of a call, where it may have no neighbour."""
        return full((), self.text, self.dtype) if self.form is Form.NUMBER else self.text

    @property
    def tight(self) -> str:
        """The value as an operand, a number being one that knows its type."""
        return f"({self.text})" if self.form is Form.OPERATION else self.typed

    @property
    def beside(self) -> str:
        """The value as an operand, beside one that is no number."""
        return self.text if self.form is Form.NUMBER else self.tight

    @property
    def kind(self) -> str:
        """The kind of the dtype: a float, a signed or an unsigned integer, or a boolean."""
        return kind(self.dtype)

    @property
    def bits(self) -> int:
        """The width of the dtype."""
        return self.dtype.itemsize * 8


def kind(dtype: np.dtype) -> str:
    """The kind of a dtype as NumPy writes it, bfloat16 being a float."""
    return "f" if jnp.issubdtype(dtype, jnp.floating) else dtype.kind


def type_name(dtype: np.dtype) -> str:
    """Triton's name of a dtype. Raises `Unwritable`."""
    found = TYPES.get(dtype.name)
    if found is None:
        raise Unwritable(f"Triton has no {dtype.name}")
    return found


def full(shape: tuple[int, ...], value: str, dtype: np.dtype) -> str:
    """The call that makes a tensor of one value."""
    return f"tl.full({tuple_of(shape)}, {value}, {type_name(dtype)})"


def tuple_of(shape: tuple[int, ...]) -> str:
    """A shape as it is written."""
    return str(tuple(map(int, shape)))


def operand_of(atom: core.Literal | core.Var, value: object) -> Operand:
    """The constant that ``atom`` stands for, exactly."""
    return constant(value, np.dtype(aval(atom).dtype))


def constant(value: object, dtype: np.dtype) -> Operand:
    """A constant of this dtype, exactly. Raises `Unwritable` for an array."""
    array: Any = np.asarray(value).astype(dtype)
    if array.ndim:
        raise Unwritable("it holds constants that are not scalars")
    exact = array[()]
    number = number_text(exact)
    if number is None:
        width = np.dtype(f"int{dtype.itemsize * 8}")
        bits = full((), str(int(exact.view(width))), width)
        text = f"{bits}.to({type_name(dtype)}, bitcast=True)"
        return Operand(text, dtype, form=Form.CALL, value=exact)
    # A bare number that is subnormal in 32 bits would count as one of 64.
    if dtype == I32 or (dtype == F32 and not 0 < abs(exact) < 2.0**-126):
        return Operand(number, dtype, form=Form.NUMBER, value=exact)
    return Operand(full((), number, dtype), dtype, form=Form.CALL, value=exact)


def number_text(value: Any) -> str | None:
    """The number as ``tl.full`` takes it; None for a negative zero, which loses its sign there."""
    dtype = value.dtype
    if dtype == BOOL:
        return str(bool(value))
    return str(int(value)) if kind(dtype) in "iu" else _float_text(value)


def _float_text(exact: Any) -> str | None:
    value, dtype = float(exact), exact.dtype
    if math.isnan(value):
        return 'float("nan")'
    if math.isinf(value):
        return f'float("{value}")'
    if value == 0:
        return None if math.copysign(1, value) < 0 else "0.0"
    short = str(exact)
    return short if np.asarray(float(short)).astype(dtype) == exact else repr(value)


def is_narrow(dtype: np.dtype) -> bool:
    """Whether a dtype is one of floats of 16 bits."""
    return kind(dtype) == "f" and dtype.itemsize == 2


def as_type(operand: Operand, dtype: np.dtype, *, bitcast: bool = False) -> Operand:
    """The operand in another type, or its bits as that type."""
    if operand.dtype == dtype:
        return operand
    text = f"{operand.tight}.to({type_name(dtype)}{', bitcast=True' if bitcast else ''})"
    return Operand(text, dtype, operand.shape, Form.CALL)


def signed(width: int) -> np.dtype:
    """The signed integers of so many bits."""
    return np.dtype(f"int{width}")


def unsigned(width: int) -> np.dtype:
    """The unsigned integers of so many bits."""
    return np.dtype(f"uint{width}")
