"""Tile sizes and warps by device kind, bytes per element and number of leaves."""

from __future__ import annotations

import contextlib
import contextvars
import dataclasses
from collections.abc import Iterator


@dataclasses.dataclass(frozen=True)
class Tuning:
    """How to cut one scan: tile length along the axis, tile lanes, warps a program, tiles a window."""

    length: int
    lanes: int
    warps: int
    window: int


_forced: contextvars.ContextVar[Tuning | None] = contextvars.ContextVar("tuning", default=None)


@contextlib.contextmanager
def forced(tuning: Tuning) -> Iterator[None]:
    """Uses ``tuning`` for every scan traced inside; for tests and for measuring."""
    token = _forced.set(tuning)
    try:
        yield
    finally:
        _forced.reset(token)


def next_power_of_2(n: int) -> int:
    return 1 << max(n - 1, 0).bit_length()


def lookback(n: int, outer: int, inner: int, width: int, leaves: int, segmented: bool) -> Tuning:
    """``width``: the bytes of one element over all leaves, as accumulated."""
    chosen = _forced.get()
    if chosen is not None:
        return chosen
    if inner > 1:
        return Tuning(length=128, lanes=min(32, next_power_of_2(inner)), warps=1, window=8)
    length = 4096 if width <= 4 and not segmented else 2048 if width <= 8 else 1024
    return Tuning(length=length, lanes=1, warps=1, window=32)


BLOCK_BYTES = 32768  # the largest tile that one program takes, over all leaves, as accumulated


def block(n: int, outer: int, inner: int, width: int) -> tuple[int, Tuning] | None:
    """Rows per program and the tuning, or None when a row does not fit a tile."""
    length = next_power_of_2(n)
    if length * width > BLOCK_BYTES:
        return None
    lanes = 1
    if inner > 1:
        lanes = min(next_power_of_2(inner), max(2, min(128, BLOCK_BYTES // 2 // (length * width))))
    rows = 1
    if inner == 1 or lanes >= inner:
        elements = length * lanes
        while rows * elements * width < 8192 and rows * 2 <= next_power_of_2(outer):
            rows *= 2
    elements = rows * length * lanes
    warps = max(1, min(8, elements // 1024))
    return rows, Tuning(length=length, lanes=lanes, warps=warps, window=1)
