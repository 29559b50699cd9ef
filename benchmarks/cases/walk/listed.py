"""Calls that a walk found slow once, each kind with what is hoped for: the same in every run."""

from __future__ import annotations

import functools
from collections.abc import Iterator

from benchmarks.cases.case import Aim
from benchmarks.cases.walk.calls import Division, Drawn, Way, flagged
from benchmarks.cases.walk.operators import LAMBDAS, NUMBERS
from benchmarks.cases.walk.reductions import reduction
from benchmarks.cases.walk.scans import cumulative, recurrence
from benchmarks.cases.walk.shapes import Shape
from benchmarks.cases.walk.steps import Step, step_of

VOCABULARIES = ((1280, 50257), (64, 50257), (64, 128256))
ODD_ROWS = (
    *[("bfloat16", (100, 335539)), ("bfloat16", (4370, 30523)), ("float16", (16, 2097153))],
    *[("float32", (1280, 50257)), ("int8", (8001, 5003)), ("int16", (30001, 2001))],
    *[("float64", (3001, 10007)), ("float32", (65537, 301))],
)
HELD_WHOLE = ((8192, 4096), (11184, 3000))
BESIDE_BYTES = (
    *[("cumsum", "int8", (50265, 1024)), ("cumsum", "uint8", (49152, 1196))],
    *[("cumsum", "uint8", (35617, 2243)), ("cumsum", "int8", (2732, 30522))],
    *[("cummax", "int8", (111257, 683)), ("cumprod", "int8", (4129, 14797))],
    *[("cumsum", "uint16", (2048, 16384)), ("cummax", "int16", (161731, 479))],
)
BACK_BESIDE_LANES = (
    *[("bfloat16", (2, 1024, 32768)), ("float32", (1, 1696, 32000)), ("float16", (64, 8192, 94))],
    *[("complex64", (2939, 12, 2278)), ("float64", (1, 128, 262144))],
)
FEW_LANES = (
    *[("sum", "bfloat16", 14, True), ("sum", "int32", 16, False), ("sum", "float64", 12, True)],
    *[("sum", "float16", 32, None), ("sum", "int64", 55, None), ("sum", "float16", 7, False)],
    *[("recurrence", "float32", 26, None), ("recurrence", "float64", 29, None)],
    *[("recurrence", "int32", 32, False), ("recurrence", "bfloat16", 4, None)],
)
"""What is scanned, its dtype, lanes, and whether these have flags of their own; None for none."""
LONG = 2**26
ROWS = (
    *[
        ("cumlogsumexp", "bfloat16", (467, 151936), False),
        ("cumsum", "float16", (20, 4698735), False),
    ],
    *[
        ("cumlogsumexp", "float32", (633, 80954), False),
        ("cummax", "bfloat16", (16, 4767809), False),
    ],
    *[("cumlogsumexp", "float32", (868, 100277), True), ("cummax", "uint64", (1, LONG), True)],
    *[("cumlogsumexp", "complex64", (1, LONG), True), ("cummin", "uint64", (1024, 32000), False)],
)
"""Rows, some in reverse, whose tiles were too long or too short for an H200."""
FEW_POSITIONS = (
    *[("cumlogsumexp", "float64", (3, 3)), ("cumlogsumexp", "bfloat16", (8, 2))],
    *[("cumlogsumexp", "float32", (4, 2)), ("cumlogsumexp", "float64", (3, 1))],
    *[("cumlogsumexp", "bfloat16", (5, 1)), ("cumlogsumexp", "float64", (2, 1))],
    *[("cummax", "int8", (3, 4)), ("cummax", "float16", (3, 4)), ("cumsum", "int8", (2, 7))],
    *[("cumsum", "int32", (2, 1)), ("cumsum", "float32", (2, 2)), ("cumsum", "float32", (3, 2))],
)
"""What is scanned along so many positions, beside so many lanes."""
PERIOD = 100
"""How long segments are on average."""
BACKWARDS = (False, True)


@functools.cache
def steps(largest: int) -> tuple[Step, ...]:
    """All of them; longer ones than ``largest`` are cut."""
    found = enumerate(_calls(largest))
    return tuple(step_of(number, call, kind, aim) for number, (kind, aim, call) in found)


def step(number: int, largest: int) -> Step:
    """The one of this number."""
    return steps(largest)[number]


def _calls(largest: int) -> Iterator[tuple[str, Aim, Drawn]]:
    """Calls, with the kind of each and its aim."""
    for extents in VOCABULARIES:
        rows = Shape("vocabulary", (min(extents[0], max(largest // extents[1], 1)), extents[1]), 1)
        aim = Aim(0.88, 0.80) if rows.size >= 2**24 else Aim(0.88, None)
        for dtype in NUMBERS:
            for reverse in BACKWARDS:
                for segments in (Division(), flagged(rows, PERIOD, own=True)):
                    way = Way(reverse, False, segments)
                    kind = f"rows {extents[0]} × {extents[1]}"
                    yield kind, aim, cumulative("cumsum", dtype, rows, way)
    yield from _long(min(LONG, largest))
    yield from _beside_lanes(min(LONG, largest))
    yield from _reduced(largest)
    yield from _held_whole(largest)
    yield from _bytes_beside_lanes(largest)
    yield from _backwards_beside_lanes(largest)
    yield from _few_lanes(min(LONG, largest))
    yield from _plain_rows(largest)
    yield from _few_positions(min(LONG, largest))


def _few_positions(size: int) -> Iterator[tuple[str, Aim, Drawn]]:
    """Axes of few positions with few lanes, whole and by flags of each element's."""
    for name, dtype, (n, lanes) in FEW_POSITIONS:
        # So many rows that XLA takes elements by fours, where it is left to XLA.
        shape = Shape("lanes", (max(size // (n * lanes * 4), 1) * 4, n, lanes), 1)
        for division in (Division(), flagged(shape, max(n // 2, 1), own=True)):
            way = Way(False, False, division)
            yield "few positions", Aim(0.60, None), cumulative(name, dtype, shape, way)


def _plain_rows(largest: int) -> Iterator[tuple[str, Aim, Drawn]]:
    """Rows without segments."""
    for name, dtype, (rows, whole), reverse in ROWS:
        n = min(whole, largest)
        shape = Shape("rows", (min(rows, max(largest // n, 1)), n), 1)
        way = Way(reverse, False, Division())
        yield "rows of plain scans", Aim(0.88, None), cumulative(name, dtype, shape, way)


def _held_whole(largest: int) -> Iterator[tuple[str, Aim, Drawn]]:
    """Rows that a program holds whole, by segments that rows share, of what took too few warps."""
    for rows, n in HELD_WHOLE:
        shape = Shape("rows", (min(rows, max(largest // n, 1)), n), 1)
        for reverse in BACKWARDS:
            way = Way(reverse, False, flagged(shape, PERIOD))
            for dtype in ("float32", "float16", "int64"):
                yield "rows held whole", Aim(0.88, None), recurrence(dtype, shape, way)
                yield "rows held whole", Aim(0.88, None), cumulative("cumsum", dtype, shape, way)


def _bytes_beside_lanes(largest: int) -> Iterator[tuple[str, Aim, Drawn]]:
    """Narrow integers whose lanes are scanned abreast, whole and by segments that lanes share."""
    for name, dtype, (n, lanes) in BESIDE_BYTES:
        shape = Shape("lanes", (min(n, max(largest // lanes, 1)), lanes), 0)
        for division in (Division(), flagged(shape, 10)):
            way = Way(False, False, division)
            yield "bytes beside lanes", Aim(0.80, None), cumulative(name, dtype, shape, way)


def _backwards_beside_lanes(largest: int) -> Iterator[tuple[str, Aim, Drawn]]:
    """Reversed logaddexp by segments that lanes share, and recurrences of halves by their own."""
    aim = Aim(0.80, None)
    for dtype, extents in BACK_BESIDE_LANES:
        shape = _of_lanes(largest, *extents)
        way = Way(True, False, flagged(shape, 2))
        yield "logaddexp backwards beside lanes", aim, cumulative("cumlogsumexp", dtype, shape, way)
    for extents in ((8, 8192, 1024), (52, 2500, 512)):
        shape = _of_lanes(largest, *extents)
        for own in (False, True):
            way = Way(False, False, flagged(shape, PERIOD, own=own))
            yield "recurrences of halves beside lanes", aim, recurrence("bfloat16", shape, way)


def _few_lanes(size: int) -> Iterator[tuple[str, Aim, Drawn]]:
    """A long axis of few lanes."""
    for what, dtype, lanes, own in FEW_LANES:
        shape = Shape("few lanes", (max(size // lanes, 2), lanes), 0)
        division = Division() if own is None else flagged(shape, PERIOD, own=own)
        way = Way(False, False, division)
        if what == "sum":
            yield "few lanes", Aim(0.80, None), cumulative("cumsum", dtype, shape, way)
        else:
            yield "few lanes", Aim(0.80, None), recurrence(dtype, shape, way)


def _of_lanes(largest: int, outer: int, n: int, lanes: int) -> Shape:
    """Rows beside lanes, shorter and fewer where there would be more elements than ``largest``."""
    n = min(n, max(largest // lanes, 2))
    return Shape("lanes", (min(outer, max(largest // (n * lanes), 1)), n, lanes), 1)


def _reduced(largest: int) -> Iterator[tuple[str, Aim, Drawn]]:
    """Reductions of rows that begin inside of memory's words, by an operator of one's own."""
    named = {operator.name: operator for operator in LAMBDAS}
    for dtype, (rows, n) in ODD_ROWS:
        shape = Shape("odd rows", (min(rows, max(largest // n, 1)), n), 1)
        operator = named["a + b + a b" if "int" in dtype else "a + b + a b / 2"]
        yield (
            "reductions of odd rows",
            Aim(0.88, None),
            reduction(operator, dtype, shape, Division()),
        )


def _long(n: int) -> Iterator[tuple[str, Aim, Drawn]]:
    """One row."""
    row, segments = Shape("one row", (n,), 0), flagged(Shape("one row", (n,), 0), PERIOD)
    forwards = Way(False, False, Division())
    for call in (
        cumulative("cumsum", "complex64", row, forwards),
        recurrence("complex64", row, forwards),
    ):
        yield "complex64", Aim(0.88, 0.80), call
    for dtype in ("uint8", "int8"):
        for name in ("cumsum", "cummax"):
            for reverse in BACKWARDS:
                way = Way(reverse, False, Division())
                yield "bytes", Aim(0.80, 0.72), cumulative(name, dtype, row, way)
    for reverse, exclusive in ((False, False), (False, True), (True, False), (True, True)):
        way = Way(reverse, exclusive, segments)
        if way.how:
            call = cumulative("cumsum", "float32", row, way)
            yield "segmented, exclusive or reversed", Aim(0.92, 0.85), call
        else:
            yield "segmented int32", Aim(0.95, 0.90), cumulative("cumsum", "int32", row, way)
            call = cumulative("cumlogsumexp", "float32", row, way)
            yield "segmented logaddexp", Aim(0.80, 0.65), call


def _beside_lanes(size: int) -> Iterator[tuple[str, Aim, Drawn]]:
    """Long axes beside few lanes, whole and by segments of either kind."""
    aim = Aim(0.50, 0.35)
    for lanes in (19, 28, 41):
        kind = f"long axes of {lanes} lanes"
        for dtype, name in (("bfloat16", "cumsum"), ("int8", "cumprod"), ("float64", "cummax")):
            for way, shape in _ways(size, lanes):
                yield kind, aim, cumulative(name, dtype, shape, way)
        for way, shape in _ways(size, lanes):
            yield kind, aim, cumulative("cumlogsumexp", "bfloat16", shape, way)
            yield kind, aim, recurrence("bfloat16", shape, way)
    for lanes, dtype in ((6, "int64"), (15, "int64"), (11, "complex64"), (8, "bfloat16")):
        for way, shape in _ways(size // 2, lanes):
            yield "long axes of a few lanes", aim, recurrence(dtype, shape, way)
    for outer, lanes in ((1, 64), (1, 671), (33, 999)):
        kind = f"{lanes} lanes"
        for way, shape in _ways(size, lanes, outer):
            for dtype in ("int8", "bfloat16", "float32", "int64"):
                yield kind, aim, cumulative("cumsum", dtype, shape, way)
                yield kind, aim, recurrence(dtype, shape, way)
            yield kind, aim, cumulative("cumlogsumexp", "bfloat16", shape, way)


def _ways(size: int, lanes: int, outer: int = 1) -> Iterator[tuple[Way, Shape]]:
    """No segments, short ones that each lane has for itself, and long ones that all share."""
    batch = (outer,) if outer > 1 else ()
    extents = (*batch, max(size // lanes // outer, 1), lanes)
    shape = Shape("lanes", extents, len(batch))
    parted = flagged(shape, 30, own=True), flagged(shape, 10**4)
    for division in (Division(), *parted):
        yield Way(False, False, division), shape
