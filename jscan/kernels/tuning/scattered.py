"""The tiles of scans that write elsewhere than they read."""

from __future__ import annotations

import dataclasses

from jscan.kernels.tuning import choose, measured
from jscan.kernels.tuning.cut import Shape, Tuning, first_match, next_power_of_2

STRIP = 512
"""The positions of a warp that are counted, or sent, at once."""


KEPT = 40
"""The bytes that an element costs which is gathered: a sector of memory, its place and its place
read."""


def suits_gather(n: int, size: int, width: int) -> bool:
    """Whether ``size`` of ``n`` elements of this width are better gathered than all of them read.

    Of 2^26 float32 1 % take 97 MB then, and 340 MB where all are read.
    """
    return size * KEPT < n * width


MOST_COUNTS = 512
"""The most numbers whose keys a program counts by itself. Triton 3.7 takes 54 instructions a key
for 256 of them, and half of that for half as many; Triton 3.9 takes 11 for any (sm_90)."""
COUNTED = 4096
"""The keys that four warps count at once: they wait for each other once a strip."""
FEWEST_KEYS = 1024
"""Rows of fewer are not worth a program of four warps."""


def suits_counts(n: int, inner: int, num_keys: int) -> bool:
    """Whether programs count so many numbers, each those in its part of a row."""
    return inner == 1 and n >= FEWEST_KEYS and 0 < num_keys <= MOST_COUNTS


def counts(outer: int, n: int, tile: Tuning | None) -> Tuning:
    """The part of a row whose keys a program counts: longer ones leave fewer counts to add up."""
    if tile is not None:
        return dataclasses.replace(tile, rows=1, lanes=1)
    length = strip = min(COUNTED, next_power_of_2(n))
    while length < n and outer * -(-n // (2 * length)) >= measured.device().programs:
        length *= 2
    return Tuning(length=length, lanes=1, warps=4, window=32, strip=strip)


def sends(shape: Shape, *, size: int, width: int = 1, moves: int = 0) -> Tuning:
    """The tile of a scan that sends what it finds to ``size`` places elsewhere.

    It ``moves`` elements of so many bytes, if any. Marks have a ``width`` in bytes; wider ones than
    1 are elements that differ from neighbours, and those of bytes are cut as flags are. Stores need
    registers too: with 64 positions a thread a scan needs all and spills 1068 bytes, by strips of
    16 it needs 96 (benchmarks/results/static-sm-90.json).
    """
    chosen = choose.chosen(shape, "auto", choose.SCAN)
    if shape.tile is not None:
        return chosen
    if chosen.length >= shape.n:
        walks = shape.inner == 1 and chosen.rows == 1 and chosen.length > 2 * STRIP * chosen.warps
        return dataclasses.replace(chosen, strip=STRIP * chosen.warps) if walks else chosen
    if shape.inner > 1 or first_match(measured.device().few, shape) is not None:
        most = 1024 if 1 < chosen.lanes < 32 else 2048
        return dataclasses.replace(chosen, length=min(chosen.length, most // chosen.lanes))
    longest = _longest(shape.n, size, width, moves > 0)
    # 2^26 elements, half of them marked: float32 packed in 182 µs, 188 by strips of 512, int8 145
    # and 129, float16 189 and 143, float64 (2^25) 214 and 184 (H100, 2026-11-27).
    in_long_strips = moves == 4 and width == 1 and not _are_few(shape.n, size)
    return _in_strips(shape.outer, shape.n, longest, STRIP * (1 + in_long_strips))


def _are_few(n: int, size: int) -> bool:
    """Whether few of the places of a row can be marked."""
    return 8 * size <= n


def _longest(n: int, size: int, width: int, moves: bool) -> int:
    """The longest tile of many whose elements are sent.

    Longer ones look back less often; what is read twice, marks or elements, leaves the cache behind
    shorter ones. 2^26 elements, 1 %, 6 % and 50 % of them marked, microseconds (H100, 2026-11-27):

        tile    nonzero           pack              split        unique_sorted, int32
        8192    36    61   235    54   145   220          280
        4096    39    63   217    52   107   194          276
        2048    58    82   222    70   112   188          263    132   160   238
        1024    98   120   247   104   131   198          258    132   145   214
    """
    if width > 1:
        return max(4096 // width, 1024)
    few = _are_few(n, size)
    return (4096 if few else 2048) if moves else (8192 if few else 4096)


def _in_strips(outer: int, n: int, longest: int, strip: int = STRIP) -> Tuning:
    """Long tiles of a row; shorter ones keep a device busy."""
    length = longest
    while length > 2 * STRIP and outer * -(-n // length) < measured.device().programs:
        length //= 2
    return Tuning(length=length, lanes=1, warps=1, window=32, strip=min(strip, length // 2))


def suits_parts(outer: int, n: int, inner: int) -> bool:
    """Whether rows are parted by their signs in one pass: a strip is no longer than one of many."""
    return inner == 1 and (outer == 1 or n >= STRIP)


def parts_by_signs(outer: int, n: int, tile: Tuning | None) -> Tuning:
    """The tile of rows that are parted in one pass.

    2^26 float32 by int8 signs: 317 µs with 8192 places, 311 with 4096, 298 with 2048, 307 with 1024
    (H100, 2026-11-27).
    """
    if tile is not None:
        return dataclasses.replace(tile, rows=1, lanes=1)
    return _in_strips(outer, n, 2048)
