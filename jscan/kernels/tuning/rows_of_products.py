"""The choice of rows and lanes for a sparse matrix whose rows are taken several to a program.

H200, 2026-11-23, 2^26 entries, float32, µs with rows and with tiles of entries alone: 5-point
stencil 247 and 398; rows whose lengths are a power law, 16 on average, 859 and 599; every other row
empty, the others of 16, 1885 and 765; rows of four entries at random and one dense row, 1709 and
some 1180. So rows are for short ones, and best for columns near each other, which nothing tells
beforehand.
"""

from __future__ import annotations

import dataclasses

from jscan.kernels.tuning import measured
from jscan.kernels.tuning.cut import next_power_of_2


@dataclasses.dataclass(frozen=True)
class ByRows:
    """The rows of a program, and how they are shared among its threads."""

    rows: int  # of a program
    width: int  # lanes of a row
    steps: int  # entries that a lane takes in a turn
    warps: int
    alone: int  # entries of a turn of the whole program in one row
    long: int  # rows of more entries are left to programs of equal numbers of entries


SINGLE = 8
"""Up to so many entries a row have one lane, which takes them in one turn: reads of neighbouring
lanes are in the same sectors."""

STEPS = 4
"""Entries that a lane takes in a turn, where several lanes share a row."""

MEAN = 7
"""Rows that are longer on average are taken by tiles of entries."""

LEAST = 2**20
"""So are fewer entries: another kernel, for rows that may be long, takes 3 to 4 µs."""

ELEMENTS, WARPS, ALONE = 128, 4, 512
"""Rows times lanes of a program; its warps; entries of a turn in one row. A 5-point stencil of 2^26
entries takes 196 µs with a row a thread, 217 with two, 235 with four (H200, 2026-11-23)."""

LONG = (1024, 16384)
"""The least and the most entries of a row that are left to others. A row of the most is 32 turns of
one program, of perhaps a microsecond each; where there are fewer entries, so many would be left
waiting for it."""


def by_rows(entries: int, rows: int, lanes: int) -> ByRows | None:
    """The choice for so many entries in so many rows; None where rows are too long for it."""
    mean = -(-entries // rows)
    if mean > MEAN or entries < LEAST:
        return None
    width, steps = 1, STEPS
    if lanes == 1 and mean > SINGLE:
        width = min(32, next_power_of_2(-(-mean // STEPS)))
    elif mean <= SINGLE:
        steps = mean
    least, most = LONG
    share = next_power_of_2(4 * entries // measured.device().programs)
    return ByRows(
        rows=max(1, ELEMENTS // width),
        width=width,
        steps=steps,
        warps=WARPS,
        alone=ALONE,
        long=min(max(least, share), most),
    )
