"""Words of 64 bits in Triton's IR that hold two float32, as complex numbers lie in memory."""

from __future__ import annotations

from typing import Any, TypeAlias

from jscan.kernels.internals import arith, ir, triton, tt

Value: TypeAlias = "ir.Value[Any]"


def half(word: Value, *, high: bool) -> Value:
    """The float32 whose bits are one half of a word of 64 bits."""
    if high:
        word = arith.shrui(word, triton._full(word.type, 32))
    bits = triton._ir_cast(word, ir.IntegerType.get_signless(32), signed=False)
    return tt.bitcast(like(bits, ir.F32Type.get()), bits)


def word(low: Value, high: Value) -> Value:
    """The word of 64 bits whose halves are the bits of two float32."""
    i32, i64 = ir.IntegerType.get_signless(32), ir.IntegerType.get_signless(64)
    halves = [triton._ir_cast(tt.bitcast(like(x, i32), x), i64, signed=False) for x in (low, high)]
    shift = triton._full(halves[1].type, 32)
    return arith.ori(halves[0], arith.shli(halves[1], shift))


def like(value: Value, element: ir.Type) -> ir.Type:
    """The type of ``value`` with elements of another type."""
    if triton._element_type(value.type) == value.type:
        return element
    tensor = ir.RankedTensorType(value.type)
    return ir.RankedTensorType.get(tensor.shape, element, tensor.encoding)
