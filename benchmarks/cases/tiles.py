"""Forced tiles, windows and numbers of programs: the orderings that the literature reports."""

from __future__ import annotations

import dataclasses
import itertools
from collections.abc import Iterator

from benchmarks.cases import conditional
from benchmarks.cases.case import Case, Operation, call, length, number, shrunk
from benchmarks.cases.strategies import plain_sum, segmented_recurrence, sum_by_heads
from jscan.kernels.tuning import Tuning

CUTS = ((512, 1), (1024, 1), (2048, 1), (4096, 1), (8192, 1), (8192, 2))
WINDOWS = (1, 4, 8, 16, 32)
CONDITIONALLY: dict[str, Operation] = {
    "segmented sum": conditional.segmented_sum,
    "segmented affine": conditional.recurrence,
}
WAYS = ("operator transformation", "conditional indexing")
LANES = 32  # of a warp: a window has one word for each

PROGRAMS = (33, 66, 132, 264, 528, 1056, 2112, 4224)
"""From a quarter of a program on each of an H200's 132 multiprocessors to 32."""
STRIP = 1024
TILE = 4096


def cases(shrink: int = 0) -> list[Case]:
    """Tiles and windows, with sizes divided by about 2^shrink."""
    return [*_lengths(shrink), *_windows(shrink), *_guarded(shrink)]


def _plural(warps: int) -> str:
    return "1 warp" if warps == 1 else f"{warps} warps"


def _lengths(shrink: int) -> Iterator[Case]:
    n, size = length(27, shrink)
    for method, (tile, warps) in itertools.product(
        ("chained", "lookback", "serial_lookback"), CUTS
    ):
        if method == "serial_lookback" and warps > 1:
            continue  # each warp would read the one word for itself
        name = f"sum, float32, {size}, {method}, tiles of {tile}, {_plural(warps)}"
        line = method if warps == 1 else f"{method}, {_plural(warps)}"
        cut = Tuning(tile, 1, warps, LANES * warps if method == "lookback" else 1)
        yield plain_sum(n).by(method, name, "sum", tile, line, tuning=cut)


def _windows(shrink: int) -> Iterator[Case]:
    n, size = length(27, shrink)
    for tile, window in itertools.product((2048, 4096), WINDOWS):
        name = f"sum, float32, {size}, lookback, tiles of {tile}, window of {window}"
        place, cut = ("window", window, f"tiles of {tile}"), Tuning(tile, 1, 1, window)
        yield plain_sum(n).by("lookback", name, *place, tuning=cut)


def _guarded(shrink: int) -> Iterator[Case]:
    """The flag-value operator against steps that are guarded by where the last head is."""
    n, size = length(26, shrink)
    for density, heads in ((0.01, "1 %"), (0.3, "30 %")):
        for subject, tile, warps, way in itertools.product(
            (sum_by_heads(n, density), segmented_recurrence(n, density)),
            (512, 1024, 2048),
            (1, 4),
            WAYS,
        ):
            what = f"{subject.name}, heads {heads}"
            name = f"{what}, {size}, {way}, tiles of {tile}, {_plural(warps)}"
            cut = Tuning(tile, 1, warps, LANES * warps)
            case = subject.by("lookback", name, f"{what}, {_plural(warps)}", tile, way, tuning=cut)
            if way == WAYS[1]:
                run = call(CONDITIONALLY[subject.name], tile=cut)
                case = dataclasses.replace(case, run=run, tuning=None)
            yield case


def scaling(shrink: int = 0) -> list[Case]:
    """How a scan scales with the programs that run: one array in parts, arrays of so many tiles."""
    n, size = length(27, shrink)
    result = []
    for programs in PROGRAMS:
        name = f"sum, float32, {size}, reduce_then_scan, {programs} parts"
        cut = Tuning(-(-n // (programs * STRIP)) * STRIP, 1, 1, 1, strip=STRIP)
        place = "one array in parts", programs
        result.append(plain_sum(n).by("reduce_then_scan", name, *place, tuning=cut))
    for programs in PROGRAMS:
        n = shrunk(programs * TILE, shrink)
        name = f"sum, float32, {number(n)}, lookback, {programs} tiles"
        place, cut = ("arrays of so many tiles", programs), Tuning(TILE, 1, 1, 32)
        result.append(plain_sum(n).by("lookback", name, *place, tuning=cut))
    return result
