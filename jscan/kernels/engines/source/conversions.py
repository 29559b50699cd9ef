"""From one dtype to another, as XLA does it: by value, saturated, or by bits."""

from __future__ import annotations

import numpy as np
from jax.extend import core

from jscan.kernels.engines.source.function import Equation, Rule
from jscan.kernels.engines.source.operands import (
    BOOL,
    F32,
    Form,
    Operand,
    Unwritable,
    as_type,
    constant,
    is_narrow,
    kind,
    type_name,
)


def _convert(at: Equation) -> list[Operand]:
    [x], target = at.operands, np.dtype(at.params["new_dtype"])
    if x.dtype == target:
        return [x]
    if x.form is Form.NUMBER:
        x = Operand(x.typed, x.dtype, x.shape, Form.CALL)
    if x.kind == "f" and kind(target) in "iu":
        return at.result(_to_integer(at, x, target))
    direct = not (target.name == "bfloat16" and x.dtype != F32)
    # To bfloat16 there is one instruction, from 32 bits, as in XLA.
    found = as_type(x if direct else as_type(x, F32), target)
    predicate = x if x.dtype == BOOL else None
    return at.result(found.text, found.form, predicate=predicate)


def _to_integer(at: Equation, x: Operand, target: np.dtype) -> str:
    """The nearest integer towards zero that there is; 0 for NaN."""
    x = at.function.named(as_type(x, F32) if is_narrow(x.dtype) else x)
    least, greatest = _bounds(target)
    low, beyond, zero = (constant(float(b), x.dtype).typed for b in (least, greatest + 1, 0))
    inside = f"tl.maximum(tl.where({x.text} < {beyond}, {x.text}, {zero}), {low})"
    most = constant(greatest, target).typed
    return f"tl.where({x.text} >= {beyond}, {most}, {inside}.to({type_name(target)}))"


def _bounds(dtype: np.dtype) -> tuple[int, int]:
    info = np.iinfo(dtype)
    return int(info.min), int(info.max)


def _bitcast(at: Equation) -> list[Operand]:
    [x], target = at.operands, np.dtype(at.params["new_dtype"])
    if x.dtype.itemsize != target.itemsize or BOOL in (x.dtype, target):
        raise Unwritable(f"Triton cannot take the bits of {x.dtype.name} as {target.name}")
    found = as_type(x, target, bitcast=True)
    return at.result(found.text, found.form)


def _unsigned_constant(at: Equation) -> list[Operand]:
    """`jscan.kernels.language.unsigned`, of a literal that holds the bits."""
    [x], dtype = at.operands, np.dtype(at.params["dtype"])
    [atom] = at.eqn.invars
    if isinstance(atom, core.Literal):
        bits = np.asarray(atom.val).astype(x.dtype)
        return [constant(bits.view(dtype), dtype)]
    return at.result(as_type(x, dtype, bitcast=True).text)


def _itself(at: Equation) -> list[Operand]:
    return list(at.operands)


RULES: dict[str, Rule] = {
    "convert_element_type": _convert,
    "bitcast_convert_type": _bitcast,
    "jscan_unsigned": _unsigned_constant,
    "copy": _itself,
    "copy_p": _itself,
}
