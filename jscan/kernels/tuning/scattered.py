"""The tiles of scans that write elsewhere than they read."""

from __future__ import annotations

import dataclasses

from jscan.kernels.tuning import choose
from jscan.kernels.tuning.cut import Shape, Tuning

STRIP = 512
"""The positions that are counted, and sent, at once."""


def scatter(shape: Shape) -> Tuning:
    """The tile of a scan that scatters what it finds.

    Its stores need registers too: with 4096 positions it spills 1300 bytes (benchmarks/NOTES.md,
    "Ranks, packing, conversions").
    """
    chosen = choose.lookback(shape)
    if shape.tile is not None or shape.inner > 1:
        return chosen
    return dataclasses.replace(chosen, length=min(chosen.length, 2048))


def sends(shape: Shape) -> Tuning:
    """The tile of a scan that sends elements elsewhere, which it walks by strips.

    Longer tiles look back less often; shorter ones keep more of a device busy.
    """
    chosen = scatter(shape)
    if shape.tile is not None or shape.inner > 1:
        return chosen
    length = 16 * STRIP
    while length > 2 * STRIP and shape.outer * -(-shape.n // length) < choose.device().programs:
        length //= 2
    return dataclasses.replace(chosen, length=length, strip=STRIP)
