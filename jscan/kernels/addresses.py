"""Addresses: how a sum of terms is formed, the same for every engine.

    ref + program × 4096 + iota × 1             program: a scalar, moves the base
                                                iota: a tensor, one offset a lane

An address is a sum of int32 values with static multipliers. Scalars are added to the pointer before
it is spread over the lanes, so that a thread holds one wide number and not one a lane. Tensors are
offsets from there. A constant that comes behind the tensors is added last: of addresses that differ
by one alone it is a part of the access. Products are formed in 64 bits only where 32 would not hold
them: wide offsets cost registers.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import jax
import numpy as np

WIDE = 2**31
"""From so many elements on, an array has places that 32 bits do not hold."""

Terms = Sequence[tuple[jax.Array, int]]
"""An address: int32 scalars and tensors with static multipliers, to be summed."""


class Term(NamedTuple):
    """What becomes of one term, in the order of the address."""

    multiplier: int
    bits: int  # 32 or 64: in which the product is formed; a sum has its wider operand's
    moves_base: bool  # a scalar is added to the pointer, a tensor is an offset from it
    is_displacement: bool = False  # a scalar behind the tensors: a constant is added to the sum


def shape_of_sum(shapes: Sequence[tuple[int, ...]]) -> tuple[int, ...]:
    """The shape that an address's terms have together."""
    return np.broadcast_shapes(*shapes)


def plan(
    size: int,
    shapes: Sequence[tuple[int, ...]],
    multipliers: Sequence[int],
    spread: tuple[int, ...],
    *,
    scattered: bool = False,
) -> list[Term]:
    """How to address an array of ``size`` elements, by lanes of the shape ``spread``.

    ``shapes`` and ``multipliers`` are those of the address's terms. Tensors count places within
    the tile, but for the last one where the address is ``scattered``: that may reach any place.
    """
    wide = size >= WIDE
    terms: list[Term] = []
    for number, (shape, multiplier) in enumerate(zip(shapes, multipliers, strict=True)):
        anywhere = scattered and number == len(shapes) - 1
        far = not shape or anywhere or multiplier * max(spread) >= WIDE
        bits, behind = 64 if wide and far else 32, any(map(bool, shapes[:number]))
        last = behind and not any(map(bool, shapes[number:]))
        terms.append(Term(multiplier, bits, moves_base=not shape, is_displacement=last))
    return terms
