"""Operands that repeat their lanes: (n, 1, d) beside (n, b, d), or (n, b, 1), read in place."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

from jscan.kernels import language
from jscan.kernels.layout import Geometry, Period, View
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


def lanes_of_rows(
    g: Geometry, along: Address, block: jax.Array, lane: jax.Array, view: View
) -> Address:
    """The address of each element where a tile's lanes are those of all rows.

    The terms ``along`` the axis end with places in the tile. Positions of a lane alone are
    neighbours in memory: were that known, a thread had positions of several lanes.
    """
    *terms, (position, step) = along
    terms.append((position * language.opaque(jnp.int32(1)) if g.of_row == 1 else position, step))
    number = lane if g.lanes == 1 else block * np.int32(g.lanes) + lane
    row = lax.div(number, np.int32(g.of_row))
    within = number - row * np.int32(g.of_row)
    row_stride, _, lane_stride = view.strides
    for place, count, period, stride in (
        (row, g.inner // g.of_row, view.row_period, row_stride),
        (within, g.of_row, view.lane_period or (1, g.of_row), lane_stride),
    ):
        repeat, own = period
        if own > 1 and stride:
            whole = period == (1, count)
            found = place if whole else lax.rem(lax.div(place, np.int32(repeat)), np.int32(own))
            terms.append((found, stride))
    return terms
