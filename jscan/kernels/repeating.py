"""Operands that repeat their lanes: (n, 1, d) beside (n, b, d), or (n, b, 1), read in place."""

from __future__ import annotations

import jax
import numpy as np
from jax import lax

from jscan.kernels import language
from jscan.kernels.layout import Geometry, Period
from jscan.kernels.words import Address


def lanes(g: Geometry, block: jax.Array, lane: jax.Array, stride: int, period: Period) -> Address:
    """The term of an address that tells the lanes of a tile apart, which is in this ``block``.

    Where a tile's lanes are neighbours in the operand, or one and the same, the compiler is to know
    it.
    """
    repeat, count = period
    assert not g.far_lanes, "lanes do not fit 32 bits"
    if g.lanes == 1:
        one = lax.div(block, np.int32(repeat))
        return [(lax.rem(one, np.int32(count)), stride)]
    if not g.shared and repeat == 1 and count % g.lanes == 0:
        first = lax.rem(block, np.int32(count // g.lanes))
        return [(language.opaque(first), g.lanes * stride), (lane, stride)]
    if not g.shared and repeat % g.lanes == 0:
        one = lax.div(block, np.int32(repeat // g.lanes))
        return [(lax.rem(one, np.int32(count)), stride)]
    number = block * np.int32(g.lane_step) + lane
    return [(lax.rem(lax.div(number, np.int32(repeat)), np.int32(count)), stride)]
