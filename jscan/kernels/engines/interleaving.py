"""Tiles by their elements' places modulo a power of two, in Triton's IR.

A dimension of two for each bit of a place, the lowest one last: ``tt.split`` takes the last one
away, and ``tt.join`` adds one. Where a thread holds neighbours, neither moves anything.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, TypeAlias

from jscan.kernels.internals import ir, triton, tt

Value: TypeAlias = "ir.Value[Any]"


def apart(x: Value, shape: tuple[int, ...], count: int) -> list[Value]:
    """The elements at places 0, 1, ... modulo ``count`` along the last dimension."""
    bits = count.bit_length() - 1
    by_bits = (*shape[:-1], shape[-1] // count, *[2] * bits)
    parts: list[Value] = [
        tt.reshape(ir.RankedTensorType.get(by_bits, triton._element_type(x.type)), x)
    ]
    for _ in range(bits):
        pairs = [tt.split(part) for part in parts]
        parts = [part for side in zip(*pairs, strict=True) for part in side]
    return parts


def together(parts: Sequence[Value], shape: tuple[int, ...]) -> Value:
    """The inverse of `apart`, of parts of this shape."""
    element, count = triton._element_type(parts[0].type), len(parts)
    by_bits = shape
    while len(parts) > 1:
        by_bits, half = (*by_bits, 2), len(parts) // 2
        pair = ir.RankedTensorType.get(by_bits, element)
        sides = zip(parts[:half], parts[half:], strict=True)
        parts = [tt.join(pair, first, second) for first, second in sides]
    whole = (*shape[:-1], shape[-1] * count)
    return tt.reshape(ir.RankedTensorType.get(whole, element), parts[0])
