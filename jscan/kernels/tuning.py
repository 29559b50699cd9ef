"""Tile sizes, warps and windows: a table by device kind, bytes per element and number of leaves.

The figures behind the entries are in benchmarks/NOTES.md. A device kind that has no table of its
own takes the H200's.
"""

from __future__ import annotations

import contextlib
import contextvars
import dataclasses
import functools
from collections.abc import Iterator

import jax


@dataclasses.dataclass(frozen=True)
class Tuning:
    """How to cut a scan: rows, positions and lanes of a tile, warps a program, tiles a window.

    A reduction reads a tile in strips of so many positions; 0 stands for the whole tile.
    """

    length: int
    lanes: int
    warps: int
    window: int
    rows: int = 1
    strip: int = 0


@dataclasses.dataclass(frozen=True)
class Shape:
    """What a choice depends on: (outer, n, inner), and the operands of one element."""

    outer: int
    n: int
    inner: int
    width: int  # bytes of one element, over all leaves, in memory
    leaves: int
    segmented: bool
    equations: int  # of the operator: what one combination costs


@dataclasses.dataclass(frozen=True)
class Table:
    """One device kind's entries."""

    lookback: dict[tuple[int, int, bool], int]  # (bytes, leaves, segmented) to tile length
    lane_elements: (
        int  # elements of a lookback tile whose scanned axis is not the last, for 4 bytes
    )
    block_elements: int  # elements that make a block program worth its launch, where there are many
    block_bytes: int  # the largest block tile
    programs: int  # fewer programs than this leave multiprocessors idle


H200 = Table(  # 2026-11-20, driver 580, jax 0.11.2: benchmarks/results/core-nvidia-h200.json
    lookback={
        (1, 1, False): 8192,
        (2, 1, False): 4096,
        (4, 1, False): 4096,
        (8, 1, False): 2048,
        (8, 2, False): 2048,
        (12, 3, False): 1024,
        (16, 1, False): 1024,
        (16, 2, False): 1024,
        (1, 1, True): 2048,
        (2, 1, True): 2048,
        (4, 1, True): 2048,
        (8, 1, True): 1024,
        (8, 2, True): 1024,
    },
    lane_elements=4096,
    block_elements=512,
    block_bytes=32768,
    programs=264,
)
TABLES = {"NVIDIA H200": H200}

_forced: contextvars.ContextVar[Tuning | None] = contextvars.ContextVar("tuning", default=None)


@contextlib.contextmanager
def forced(tuning: Tuning) -> Iterator[None]:
    """Uses ``tuning`` for every scan lowered inside; for tests and for measuring."""
    token = _forced.set(tuning)
    try:
        yield
    finally:
        _forced.reset(token)


@functools.cache
def table() -> Table:
    """The table of the first GPU's kind."""
    try:
        kind = jax.devices("gpu")[0].device_kind
    except RuntimeError:  # no GPU: the kernel is lowered for elsewhere, or interpreted
        return H200
    return TABLES.get(kind, H200)


def scatter(shape: Shape) -> Tuning:
    """The tile of a scan that scatters what it finds: its stores need registers too."""
    chosen = lookback(shape)
    if _forced.get() is not None or shape.inner > 1:
        return chosen
    return dataclasses.replace(chosen, length=min(chosen.length, 2048))


def next_power_of_2(n: int) -> int:
    """The smallest power of two that is at least ``n``."""
    return 1 << max(n - 1, 0).bit_length()


def block(shape: Shape) -> Tuning | None:
    """The tile of whole rows, or None where a row does not fit."""
    entries = table()
    length = next_power_of_2(shape.n)
    if length * shape.width > entries.block_bytes:
        return None
    chosen = _forced.get()
    if chosen is not None:
        return dataclasses.replace(chosen, length=length)
    lanes = 1
    if shape.inner > 1:
        lanes = min(next_power_of_2(shape.inner), 64)
        while lanes > 2 and length * lanes * shape.width > entries.block_bytes // 2:
            lanes //= 2
    rows = 1
    if lanes >= shape.inner:
        while rows * length * lanes < entries.block_elements and rows < shape.outer:
            rows *= 2
    elements = rows * length * lanes
    programs = -(-shape.outer // rows) * -(-shape.inner // lanes)
    spread = programs < entries.programs
    warps = min(16, max(1, elements // 1024)) if spread else max(1, elements // 4096)
    return Tuning(length=length, lanes=lanes, warps=warps, window=1, rows=rows)


def lookback(shape: Shape) -> Tuning:
    """The tile of a row that several programs share."""
    chosen = _forced.get()
    if chosen is not None:
        return chosen
    entries = table()
    if shape.inner > 1:
        lanes = min(32, next_power_of_2(shape.inner))
        length = entries.lane_elements // lanes * 4 // max(4, next_power_of_2(shape.width))
        length = min(length, 1024) // (2 if shape.segmented or shape.equations > 4 else 1)
        # A word is a lane's, so a window of many lanes is dear, and one of few lanes has a long way
        # to go.
        window = {32: 2, 16: 8}.get(lanes, 16)
        return Tuning(length=max(length, 16), lanes=lanes, warps=1, window=window)
    length = entries.lookback.get((shape.width, shape.leaves, shape.segmented), 0)
    if not length:
        length = 8192 // next_power_of_2(max(shape.width, 4)) // (2 if shape.segmented else 1)
    few = shape.outer * shape.n <= SMALL
    # Where tiles have rows enough to begin with, the way back is short, and small tiles hold fewer
    # registers: (12288, 16384) affine 0.94 of copy speed with 1024 positions, 0.91 with 2048.
    many = shape.outer >= MANY and shape.leaves == 2
    if few or many or shape.equations > HEAVY:
        length //= 2
    warps = 2 if shape.leaves > 2 and shape.equations <= HEAVY else 1
    return Tuning(length=max(length, 256), lanes=1, warps=warps, window=32 * warps)


def strips(shape: Shape) -> Tuning:
    """The tile of a reduction (H200, 2026-11-22: benchmarks/NOTES.md, "Segment reductions")."""
    chosen = _forced.get()
    if chosen is not None:
        return chosen
    wide = next_power_of_2(max(shape.width, 4)) // 4
    if shape.inner > 1:
        lanes = min(64, next_power_of_2(shape.inner))
        strip = max(2, 512 // lanes // wide)
        # Tiles of more strips wait less; too few programs leave multiprocessors idle.
        length = 32 * strip
        columns = shape.outer * -(-shape.inner // lanes)
        while length > 8 * strip and columns * -(-shape.n // length) < PER_GPU:
            length //= 2
        window = 2 if lanes > 16 else 8
        return Tuning(length=length, lanes=lanes, warps=1, window=window, strip=strip)
    strip = max(128, 512 // wide // (2 if shape.equations > HEAVY else 1))
    length = 8 * strip
    while length > strip and shape.outer * -(-shape.n // length) < PER_GPU:
        length //= 2
    return Tuning(length=length, lanes=1, warps=1, window=32, strip=strip)


def parts(shape: Shape) -> Tuning:
    """The parts of a scan in two passes: their number depends on nothing but the shape."""
    chosen = _forced.get()
    if chosen is not None:
        return dataclasses.replace(
            chosen, rows=1, strip=min(chosen.strip or chosen.length, chosen.length)
        )
    wide = next_power_of_2(max(shape.width, 4)) // 4
    warps, count = (4, PARTS // 2) if shape.segmented else (1, PARTS)
    if shape.inner > 1:
        lanes, warps = min(32, next_power_of_2(shape.inner)), 1
        strip = max(16, 1024 // lanes // wide)
    else:
        lanes, strip = 1, 1024
    columns = shape.outer * -(-shape.inner // lanes)
    strips = -(-shape.n // strip)
    return Tuning(-(-strips // max(1, count // columns)) * strip, lanes, warps, 1, strip=strip)


PARTS = 2112
"""Parts of a scan in two passes: sixteen on each of 132 multiprocessors, half of them where it is
segmented (H200, 2026-11-22: benchmarks/NOTES.md)."""

PER_GPU = 2112
"""Fewer programs of a reduction than this take shorter tiles: 16 on each of 132 multiprocessors."""

SMALL = 2**17
"""Up to so many elements, tiles of half the length: full ones are too few to fill the machine."""

MANY = 256
"""So many rows keep the machine busy by themselves."""

HEAVY = 40
"""Operators of more equations than this take half the tile: a tile's program is unrolled, and would
outgrow the instruction cache."""


def suits_block(shape: Shape, tile: Tuning) -> bool:
    """Whether block is better for a row that fits: not if its tiles are slivers of the lanes."""
    return tile.lanes >= min(32, next_power_of_2(shape.inner))
