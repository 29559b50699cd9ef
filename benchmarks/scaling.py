"""How a scan scales with the programs that run: forced numbers of parts, and growing arrays."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator

from benchmarks import subjects
from benchmarks.case import Case, length
from benchmarks.subjects import number, shrunk
from jscan.kernels.tuning import Tuning

PROGRAMS = (33, 66, 132, 264, 528, 1056, 2112, 4224)
"""From a quarter of a program on each of an H200's 132 multiprocessors to 32."""
STRIP = 1024
TILE = 4096


def cases(shrink: int = 0) -> list[Case]:
    """All of them, with sizes divided by about 2^shrink."""
    return [*_parts(shrink), *_tiles(shrink)]


def _parts(shrink: int) -> Iterator[Case]:
    """One array in so many parts."""
    n, size = length(27, shrink)
    subject = subjects.plain_sum(n)
    for programs in PROGRAMS:
        part = -(-n // (programs * STRIP)) * STRIP
        method = "reduce_then_scan"
        name = f"sum, float32, {size}, {method}, {programs} parts"
        case = subject.case(name, method, group="one array in parts", at=programs)
        yield dataclasses.replace(case, tuning=Tuning(part, 1, 1, 1, strip=STRIP))


def _tiles(shrink: int) -> Iterator[Case]:
    """Arrays of so many tiles."""
    for programs in PROGRAMS:
        n = shrunk(programs * TILE, shrink)
        subject = subjects.plain_sum(n)
        name = f"sum, float32, {number(n)}, lookback, {programs} tiles"
        case = subject.case(name, "lookback", group="arrays of so many tiles", at=programs)
        yield dataclasses.replace(case, tuning=Tuning(TILE, 1, 1, 32))
