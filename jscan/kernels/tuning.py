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

    Reductions, and scans in two passes, read a tile in strips of so many positions; 0 stands for
    the whole tile.
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
    tile: Tuning | None = None  # the cut to take instead of a chosen one


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
        (16, 4, False): 512,
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


def forced_tile() -> Tuning | None:
    """The cut that this context forces; None where it leaves the choice to the table."""
    return _forced.get()


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
    if shape.tile is not None or shape.inner > 1:
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
    if shape.tile is not None:
        return dataclasses.replace(shape.tile, length=length, strip=0)
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


def serial(shape: Shape) -> Tuning:
    """The tile of a walk by single tiles: of one warp, since every warp would read for itself."""
    return dataclasses.replace(lookback(shape, few=False), window=1, warps=1)


def lookback(shape: Shape, *, few: bool = True) -> Tuning:
    """The tile of a row that several programs share; cut for ``few`` elements where they are."""
    if shape.tile is not None:
        return shape.tile
    entries = table()
    if shape.inner > 1:
        lanes = min(32, next_power_of_2(shape.inner))
        length = entries.lane_elements // lanes * 4 // max(4, next_power_of_2(shape.width))
        length = min(length, 1024) // (2 if shape.segmented or shape.equations > 4 else 1)
        # A word is a lane's, so a window of many lanes is dear, and one of few lanes has a long way
        # to go.
        window = {32: 2, 16: 8}.get(lanes, 16)
        return Tuning(length=max(length, 16), lanes=lanes, warps=1, window=window)
    length, warps = _along(shape, few)
    if shape.equations > HEAVY:
        length = max(length // 2, 256)
    return Tuning(length=length, lanes=1, warps=warps, window=32 * warps)


def _along(shape: Shape, few: bool) -> tuple[int, int]:
    """Length and warps of a tile of a row, where elements of a row are neighbours in memory."""
    elements = shape.outer * shape.n
    cuts = () if not few else SEGMENTED if shape.segmented else _few(shape.width)
    for most, length, warps in cuts:
        if elements <= most:
            return length, warps
    length = table().lookback.get((shape.width, shape.leaves, shape.segmented), 0)
    if not length:
        length = 8192 // next_power_of_2(max(shape.width, 4)) // (2 if shape.segmented else 1)
    # Where tiles have rows enough to begin with, the way back is short, and small tiles hold fewer
    # registers: (12288, 16384) affine 0.94 of copy speed with 1024 positions, 0.91 with 2048.
    if shape.outer >= MANY and shape.leaves == 2:
        length //= 2
    # The last tile's accesses, one by one, are part of the kernel then (`Scan.on_tile`), and take
    # registers: 253 of them with 2048 positions.
    if shape.segmented and shape.outer == 1 and shape.n % 8:
        length //= 2
    return max(length, 256), 1


def _few(width: int) -> tuple[tuple[int, int, int], ...]:
    return next((cuts for most, cuts in FEW.items() if width <= most), ())


def chain(shape: Shape) -> Tuning:
    """The tile of a row whose tiles wait for their neighbours: fat, because every one of them does.

    A hop from tile to tile takes 0.4 µs, whatever its length: sum of 2^26, 16384 tiles 6.6 ms, 2048
    tiles 1.06 ms (H200, 2026-11-22). Segments cut the chain.
    """
    tuned = lookback(shape, few=False)
    if shape.tile is not None or shape.segmented or shape.inner > 1:
        return tuned
    fat = 1
    while fat < 8 and tuned.length * fat * 16 <= shape.n:
        fat *= 2
    return dataclasses.replace(tuned, length=tuned.length * fat, warps=fat)


def strips(shape: Shape) -> Tuning:
    """The tile of a reduction (H200, 2026-11-22: benchmarks/NOTES.md, "Segment reductions")."""
    if shape.tile is not None:
        return shape.tile
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


def tree(shape: Shape) -> Tuning:
    """The tile of a reduction in several levels: one strip."""
    tuned = _level(shape)
    length = min(tuned.strip or tuned.length, tuned.length)
    return dataclasses.replace(tuned, length=length, rows=1, strip=length)


def walks(shape: Shape) -> Tuning:
    """The parts of a reduction by resident programs."""
    tuned = _level(shape)
    if shape.tile is not None:
        strip = min(tuned.strip or tuned.length, tuned.length)
        return dataclasses.replace(tuned, rows=1, strip=strip)
    return dataclasses.replace(tuned, length=_part(shape, tuned.lanes, tuned.strip))


def _level(shape: Shape) -> Tuning:
    """The strip of a level: four times as long where there are no keys.

    A warp of shorter ones has too few bytes under way: sum of 2^28 by resident programs 522 µs with
    512 elements, 248 with 2048; by a tree 321 and 239 (H200, 2026-11-22).
    """
    tuned = strips(shape)
    if shape.tile is not None:
        return tuned
    if shape.inner > 1:
        # A tile leaves two entries, so that a strip of two would be no step forward.
        strip = max(tuned.strip, LEVEL)
        lanes = min(tuned.lanes, next_power_of_2(2**14 // (strip * shape.width)))
        length = max(tuned.length, strip)
        return dataclasses.replace(tuned, strip=strip, lanes=lanes, length=length)
    if shape.segmented:
        return tuned
    return dataclasses.replace(
        tuned, strip=4 * tuned.strip, length=max(4 * tuned.strip, tuned.length)
    )


def entries(extent: int, tuned: Tuning) -> Tuning:
    """The next level of a reduction, of so many entries a row, behind tiles that were ``tuned``."""
    length = next_power_of_2(extent)
    if tuned.strip == tuned.length:
        fits = length <= tuned.length
        return dataclasses.replace(tuned, length=length, strip=length) if fits else tuned
    if tuned.lanes == 1 and length <= ENTRIES:
        return Tuning(length, lanes=1, warps=max(1, length // 1024), window=1, strip=length)
    strips = -(-extent // tuned.strip)
    return dataclasses.replace(tuned, length=strips * tuned.strip)


def parts(shape: Shape) -> Tuning:
    """The parts of a scan in two passes: their number depends on nothing but the shape."""
    if shape.tile is not None:
        strip = min(shape.tile.strip or shape.tile.length, shape.tile.length)
        return dataclasses.replace(shape.tile, rows=1, strip=strip)
    wide = next_power_of_2(max(shape.width, 4)) // 4
    lanes, warps, strip = 1, 1, 1024
    if shape.inner > 1:
        lanes = min(32, next_power_of_2(shape.inner))
        strip = max(16, 1024 // lanes // wide)
    else:
        if shape.segmented:
            warps, strip = 2, 512
        if shape.width > 16:
            strip = max(128, strip * 4 // wide)
    return Tuning(_part(shape, lanes, strip), lanes, warps, 1, strip=strip)


def _part(shape: Shape, lanes: int, strip: int) -> int:
    """The length of one of `PARTS`, a multiple of the strip's."""
    columns = shape.outer * -(-shape.inner // lanes)
    strips, parts = -(-shape.n // strip), max(1, PARTS // columns)
    return -(-strips // parts) * strip


PARTS = 2112
"""Parts of a scan in two passes: sixteen on each of 132 multiprocessors (H200, 2026-11-22:
benchmarks/NOTES.md)."""

LEVEL = 16
"""The fewest positions that a level reduces to one, or to two where there are segments."""

ENTRIES = 8192
"""So many entries of resident programs are one strip of one program; more, or entries of several
lanes, are walked by one."""

PER_GPU = 2112
"""Fewer programs of a reduction than this take shorter tiles: 16 on each of 132 multiprocessors."""

FEW = {
    4: ((2**17, 2048, 1), (2**19, 4096, 4)),
    8: ((2**15, 512, 1), (2**17, 1024, 2), (2**18, 2048, 4), (2**20, 4096, 4)),
    16: ((2**15, 512, 2), (2**17, 1024, 4), (2**18, 2048, 4), (2**20, 4096, 4)),
}
SEGMENTED = ((2**19, 512, 1), (2**20, 1024, 1))
"""Tiles where there are few elements: by the most bytes of one and by the most elements, length and
warps. Full tiles would be too few to fill the machine, and a tile's own time shows (H200,
2026-11-22: benchmarks/NOTES.md, "Few elements"). Wider elements would not fit the registers."""

MANY = 256
"""So many rows keep the machine busy by themselves."""

HEAVY = 40
"""Operators of more equations than this take half the tile: a tile's program is unrolled, and would
outgrow the instruction cache."""


def suits_block(shape: Shape, tile: Tuning) -> bool:
    """Whether block is better for a row that fits.

    Not if its tiles are slivers of the lanes, nor for a lone segmented row of more than 4096
    elements: short tiles scan it sooner, since few of them wait. Nor for a row that is longer than
    a forced tile.
    """
    if shape.tile is not None:
        return shape.n <= shape.tile.length
    lone = shape.segmented and shape.outer * shape.inner == 1 and shape.n > 4096
    return tile.lanes >= min(32, next_power_of_2(shape.inner)) and not lone


def suits_two_passes(shape: Shape, results: int) -> bool:
    """Whether two passes are better than one: where operands stay in the L2 cache between them.

    One of two results of the affine operator, 2^22: 18.6 µs in two passes, 20.8 in one; both
    results 25.4 and 22.9 (H200, 2026-11-22).
    """
    two_words = (shape.leaves, shape.width, results) == (2, 8, 1)
    few = 2**19 < shape.outer * shape.n <= 2**22
    return two_words and few and shape.inner == 1 and not shape.segmented
