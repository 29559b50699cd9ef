"""The cut of what is read strip by strip: scans in two passes, and reductions.

parts                two passes over parts of a row
down_lanes           one pass over a whole axis, where there are lanes enough for all threads
strips, tree, walks  reductions in one pass, level by level, and by resident programs
alone                the first of these, where tiles look at one tile at a time
"""

from __future__ import annotations

import dataclasses
import math

from jscan.kernels.tuning import long_steps, measured, sharing, slow_doubles, walked_parts
from jscan.kernels.tuning.cut import HEAVY, LIGHT, THREADS, Shape, Tuning, next_power_of_2
from jscan.kernels.tuning.long_steps import is_heavy_double


def suits_levels(shape: Shape) -> bool:
    """Whether a long axis is better reduced by resident programs.

    They do not wait for each other: affine, 2^28, 507 µs, and by looking back 521 to 586; float32,
    2^23, 9.3 and 12.3, 2^28, 251 and 259 (H200). The second kernel takes what a launch takes.
    """
    alone = shape.outer * shape.inner == 1 and not shape.segmented
    return alone and shape.tile is None and shape.n >= 2**22


def suits_two_passes(shape: Shape, results: int) -> bool:
    """Whether two passes are better than one: where operands stay in the cache between them.

    And of elements of many words, of which one pass combines a window of tiles as well: float64
    products of 4 x 4, 2^20, 255 µs and 439 (H100, 2026-11-26).
    """
    if shape.large or (shape.walked and shape.outer * shape.n >= MANY):
        return True
    if shape.inner > 1:
        return walked_parts.of_lanes(shape) is not None
    two_words = (shape.leaves, shape.width, results) == (2, 8, 1)
    least, most = measured.device().two_passes
    few = least < shape.outer * shape.n <= most
    return two_words and few and not shape.segmented


def parts(shape: Shape, *, of_lanes: bool = True) -> Tuning:
    """The parts of a scan in two passes: their number depends on the shape and the device alone.

    Those `of_lanes` are for scans, and not for what needs totals alone.
    """
    if shape.tile is not None:
        return dataclasses.replace(shape.tile, rows=1, strip=shape.tile.strip_or_tile)
    lanes, warps, strip = 1, 1, 1024
    if shape.walked:
        return _chunks(shape)
    walked = walked_parts.of_lanes(shape) if of_lanes else None
    if walked is not None:
        return walked
    if shape.large:
        strip = THREADS
    elif shape.inner > 1:
        lanes = min(32, next_power_of_2(shape.inner))
        strip = max(16, 1024 // lanes // shape.words)
    else:
        if shape.segmented:
            warps, strip = 2, 512
        if shape.width > 16:
            strip = max(128, strip * 4 // shape.words)
    return Tuning(_part(shape, lanes, strip), lanes, warps, 1, strip=strip)


ENOUGH_LANES = 64000
"""So many lanes of 32-bit words keep a device busy, a thread for each.

Of (204, 1024, 320), 65,280 lanes, of copy speed in tiles and walked: sums of int8 by flags of each
row 0.45 and 0.63, recurrences of bfloat16 0.49 and 0.78, of int8 0.44 and 0.65; but float64
products of (1913, 31649) 0.84 and 0.80 (H100, 2026-11-28).
"""
FEWER = 45000
"""So many do so where other tiles hold flags beside what they read."""


def down_lanes(shape: Shape) -> Tuning | None:
    """The strips of an axis that threads walk, which have lanes of their own; None where they wait.

    An element is read once and combined once, and nobody looks back. Of copy speed, as cut before
    and so (H100, 2026-11-26):

        float32 minima of (16, 128, 36178)                            0.64   0.79
        int32 recurrences of (1024, 50265), reversed                  0.76   0.90
        Welford of (2048, 30522), by segments                         0.67   0.92
        float64 recurrences of (1875, 49152), by segments             0.80   0.95
        float16 sums of (2, 512, 72021), reversed                     0.70   0.80
        float16 sqrt(a² + b²) of (1536, 256, 143)                     0.43   0.81
        bfloat16 recurrences of (47, 1244543), reversed               0.52   0.77
        int8 minima of (641, 131072), reversed                        0.58   0.80
        uint8 maxima of (8, 512, 20800), reversed, by segments        0.28   0.82
        int8 recurrences of (101, 634270)                             0.42   0.60
        float16 logaddexp of (52, 942113), by segments                0.35   0.51

    But float32 sums of (1259, 55673) 0.81 and 0.79, pairs that are selected of (2389, 28996) 0.85
    and 0.79, logaddexp of (541, 149953) by segments 0.56 and 0.48.
    """
    if shape.tile is not None:
        given = shape.tile
        walks = given.strip and given.window == 1 and given.length >= shape.n and shape.inner > 1
        walks = walks and given.length % given.strip == 0 and given.rows == 1
        return given if walks and not (given.woven or given.chunk) else None
    return _strips_of_lanes(shape) if _suits_walks(shape) else None


def _suits_walks(shape: Shape) -> bool:
    """Whether there are lanes enough, and few enough positions for a thread."""
    logaddexp = shape.complex and shape.equations > 64
    # logaddexp of (128, 262144), float64, by segments, 0.05 of copy speed walked; in tiles, (32003,
    # 1024) and (267557, 271) ran at 0.60 and 0.48 (H100, 2026-11-28), and this was not timed.
    logaddexp |= shape.segmented and shape.long_steps and (shape.leaves, shape.width) == (1, 8)
    measured_so_far = shape.width <= 16 and shape.leaves <= 4
    if logaddexp or not measured_so_far or shape.inner < 32:
        return False
    if not 8 < shape.n <= (512 if shape.long_steps else 4096):
        return False
    enough = FEWER if shape.segmented and not _is_narrow(shape) else ENOUGH_LANES
    if shape.outer * shape.inner * max(1, shape.width // 4) < enough:
        return False
    # (108, 41, 16384), float32 sums, 0.98 in one tile, and 0.94.
    sectors = shape.inner * shape.width // shape.leaves % 32 == 0
    plain = shape.leaves == 1 and not shape.segmented and sectors
    in_one_tile = (plain and shape.n <= 64) or (shape.exclusive and shape.n <= 16)
    # logaddexp of (31, 2248155), float64, 0.51, and 0.74 (H200, 2026-11-29).
    in_one_tile |= is_heavy_double(shape) and shape.n <= slow_doubles.WHOLE
    return _is_narrow(shape) or not in_one_tile


def _is_narrow(shape: Shape) -> bool:
    """Whether a register holds several of each leaf's elements."""
    return shape.leaves <= 2 and shape.width <= 2 * shape.leaves


def _strips_of_lanes(shape: Shape) -> Tuning:
    """The strips that a warp has under way at once: as many bytes as keep memory busy."""
    each, narrow = shape.width // shape.leaves, _is_narrow(shape)
    lanes, warps = 128, 1
    if each >= 8 or shape.width > 8 or (shape.long_steps and shape.segmented and not narrow):
        lanes = 32 if shape.long_steps or shape.width == 12 else 64
    elif narrow and not shape.long_steps:
        aligned = shape.inner * each % 8 == 0
        if shape.inner <= 256 or (shape.leaves == 1) == aligned:
            # A thread takes 8 bytes; or there are two warps, so that fewer sectors at the ends of
            # rows are another program's too.
            lanes, warps = 256, 1 if aligned else 2
    there = max(THREADS, next_power_of_2(shape.inner))
    if lanes > there:
        lanes, warps = there, 1
    programs = 1400 if shape.width >= 16 else 700
    # Leaves of int32, float32 and int8, (2048, 36108), 0.39 of copy speed by 32 lanes, 0.71 by 64
    # (H200, 2026-11-28).
    fewest = 2 * THREADS if shape.words_and_byte else THREADS
    while lanes > fewest and shape.outer * -(-shape.inner // lanes) < programs:
        lanes, warps = lanes // 2, 1
    few = shape.outer * -(-shape.inner // lanes) < 2 * programs
    if lanes == 256 and few and _are_halves_by_segments(shape):
        lanes, warps = lanes // 2, 1
    strip = 8 if lanes > 128 or (each >= 8 and not shape.segmented) else 16
    whole_halves = (shape.leaves, each) == (1, 2) and shape.inner % 16 == 0
    whole_halves &= shape.equations <= LIGHT and not (shape.segmented or shape.long_steps)
    if lanes == 128 and shape.n > 16 and not whole_halves and (shape.leaves, each) != (1, 1):
        # Halves of whole sectors, of copy speed so and by 16 positions (H200, 2026-11-29): uint16
        # xor of (458, 128256), exclusive, 0.78 and 0.90, a + b + a b of (8, 512, 17392) 0.75 and
        # 0.89.
        strip = 8
    tuned = Tuning(0, lanes, warps, window=1, strip=strip, ahead=_suits_ahead(shape))
    if sharing.suits_walks(shape):
        tuned = sharing.walks(shape, tuned)
    whole = shape.logaddexp and not shape.segmented
    if whole and long_steps.sums_walks(shape.n, shape.inner, shape.width):
        # A strip of 128 lanes of float32 0.84, 0.69 and 0.85, of halves by 8 places 0.52.
        lanes, strip = (min(tuned.lanes, 64), 8) if shape.width == 4 else (tuned.lanes, 16)
        tuned = dataclasses.replace(tuned, lanes=lanes, strip=strip)
    return dataclasses.replace(tuned, length=-(-shape.n // tuned.strip) * tuned.strip)


def _suits_ahead(shape: Shape) -> bool:
    """Whether a strip is read while the one before it is worked through.

    It takes the registers of a strip. Of copy speed, read as it is needed and ahead (H100,
    2026-11-26): bfloat16 logaddexp of (512, 4, 27143), by segments, 0.21 and 0.43, since the
    compiler puts the reads of a long chain off until each is needed; of (435, 128256) 0.63 and
    0.77; float16 recurrences of (36, 1981909) 0.65 and 0.79; complex ones of (181, 505201) 0.78 and
    0.86. But float16 sqrt(a² + b²) of (1536, 256, 143) 0.80 and 0.55, Welford of (1024, 50265) 0.80
    and 0.69, float32 logaddexp of (209, 70117, 5) 0.82 and 0.73, least and greatest numbers alike.
    """
    each = shape.width // shape.leaves
    long = shape.long_steps and each == 2
    return shape.leaves == 2 or shape.width == 8 or long or _are_halves_by_segments(shape)


def _are_halves_by_segments(shape: Shape) -> bool:
    """Whether there is one leaf of two bytes beside flags, under a light operator.

    bfloat16 sums of (312, 218800), by shared flags, of copy speed: 855 programs of 256 lanes 0.49,
    and 0.87 read ahead; 1710 of 128 lanes 0.74, and 0.91 (H100, 2026-11-28).
    """
    halves = (shape.leaves, shape.width) == (1, 2) and shape.equations <= 2 and shape.n > 16
    return halves and shape.segmented and not (shape.exclusive or shape.long_steps)


MANY = 2**18
"""So many elements are enough for threads that walk."""


def _chunks(shape: Shape) -> Tuning:
    """The chunks that threads walk.

    Recurrences of 4 x 4 matrices, 2^20, chunks of 32: 95 µs by two elements at once, 126 by one,
    118 by four; of 16 107, of 64 110; in one pass 208. Elements of a filter with 56 numbers, 2^16,
    chunks of 4: 70 µs, of 8 75, by strips 97; products of 8 x 8, 2^18, of 4, 8 and 16: 180, 141 and
    134, by strips 195; but of 6 x 6 116, 97 and 92, by strips 78 (H100, 2026-11-26).
    """
    together = shape.together
    enough, longest = 7 * together * measured.device().programs, 16 * together
    chunk, total = 4, shape.outer * shape.n
    while chunk < longest and total >= 2 * chunk * enough and shape.n >= 2 * chunk * THREADS:
        chunk *= 2
    return Tuning(chunk * THREADS, lanes=1, warps=1, window=1, chunk=chunk, together=together)


def _part(shape: Shape, lanes: int, strip: int) -> int:
    """The length of a part, a multiple of the strip's: parts are as many as resident programs."""
    columns = shape.outer * -(-shape.inner // lanes)
    strips, parts = -(-shape.n // strip), max(1, measured.device().programs // columns)
    return -(-strips // parts) * strip


# --- reductions: in one pass, by levels, by resident programs ----------------------------------

MANY_LANES = 2**13
"""So many lanes of all rows are enough for programs of 128 that do not wait for each other long."""

LEVEL = 16
"""The fewest positions that a level reduces to one, or to two where there are segments."""

ENTRIES = 8192
"""So many entries of resident programs are one strip of one program; others are walked by one."""


def suits_words_of(shape: Shape) -> bool:
    """Whether rows that begin inside of words are reduced along these.

    Read singly and so, a + b + a b (H100, 2026-11-28): bfloat16 (100, 335539) 49 µs and 39, (4370,
    30523) 190 and 129, float32 (1280, 50257) 105 and 91, float16 (16, 2097153) 50 and 33, int8
    (8001, 5003) 40 and 35, complex64 (1001, 20001) 76 and 71; but int16 (30001, 2001) 42 and 50,
    int8 (130001, 257) 41 and 67, float64 (3001, 10007) 94 and 104.
    """
    return shape.outer > 1 and shape.n >= 2**12 and shape.even and shape.each <= 4


def strips(shape: Shape) -> Tuning:
    """The tile of a reduction in one pass.

    Tiles of more strips wait less, and too few programs leave multiprocessors idle.
    """
    if shape.tile is not None:
        return shape.tile
    together = 1
    if shape.inner > 1:
        # A thread takes 16 bytes of lanes at once where rows are multiples of that, and a warp
        # those of 32 threads: an address and a condition are for several elements.
        widest = 16 // next_power_of_2(-(-shape.width // shape.leaves))
        aligned = math.gcd(shape.inner, max(1, min(8, widest)))
        lanes = min(32 * max(2, aligned), next_power_of_2(shape.inner))
        together = max(1, min(aligned, lanes // 32))
        registers = max(shape.words, shape.leaves if together > 2 else 1)
        elements = measured.device().strip_elements * (2 if together > 2 else 1)
        if not shape.segmented:
            # Without keys there is room for more: (13381, 317), float32, 9 µs with 2048, 14 with
            # 512; (2^20, 64) 76 and 101; (146609, 10), bfloat16, 13 µs with 8 lanes, 16 with 16
            # (H200, 2026-11-23).
            lanes, together = min(lanes, 8 if shape.inner < 32 else 32), 1
            are_many = shape.inner % 128 == 0 and shape.outer * shape.inner >= MANY_LANES
            if shape.width == 1 and are_many:
                # Of bytes a word: (8, 4096, 2048), uint8, 53 µs by 32 lanes, 35 so; (2^20, 64),
                # int8, 65 and 75 (H100, 2026-11-27).
                lanes, together = 128, 4
            elements = 4 * measured.device().strip_elements
        strip = max(2, elements // lanes // registers)
        window = 2 if lanes > 16 else 8 if lanes > 8 else 16
        # Strips are read one behind the other: (1940, 7) into 3 segments, 5 µs by tiles of one, 15
        # by tiles of eight; (2077, 100) by a plan, float32, 5.2 µs by tiles of 32 positions, 6.8 of
        # 64 (H100, 2026-11-27).
        most, least = 32 * strip, max(strip if shape.segmented else 2 * strip, 32)
    else:
        lanes, window = 1, 32
        # Without keys there is room for more: affine, 2^28, 634 µs with 512 elements, 521 with
        # 1024; its bytes take 528; an operator of four equations, 2^23, float32, 12.5 with 2048, 15
        # with 512 (H200).
        strip = _strip(shape) * (1 if shape.segmented else 4 if shape.words == 1 else 2)
        most, least = 8 * strip, strip
    columns = shape.outer * -(-shape.inner // lanes)
    length, enough = most, measured.device().programs
    if shape.inner == 1 and not shape.segmented:
        enough //= 2  # a strip is that of four programs
    while length > least and columns * -(-shape.n // length) < enough:
        length //= 2
    if length == 32 and most >= 64 and columns * -(-shape.n // 64) >= enough // 4:
        # (12123, 1024), float32, in 1520 programs 29.8 µs, in 3032 of 32 positions 32.8 (H200,
        # 2026-11-22 and 29).
        length = 64
    return Tuning(length, lanes, warps=1, window=window, strip=strip, together=together)


def whole(shape: Shape, rows: Tuning) -> Tuning:
    """The tile in which whole ``rows`` are reduced, which nothing has to hold.

    a + b + a b of (8, 256, 32768), int16, 122 µs by 32 lanes and two warps, 47 so; of more than 512
    elements a thread spills: (100, 500, 1000), uint8, 320 µs so (H100, 2026-11-27).
    """
    narrow = shape.width <= 2 and shape.leaves == 1 and not shape.segmented
    if not narrow or shape.inner < 64 or rows.warps == 1 or shape.tile is not None:
        return rows
    fits = rows.length * 64 <= 512 * THREADS
    return dataclasses.replace(rows, lanes=64, warps=1) if fits else rows


def _strip(shape: Shape) -> int:
    """The positions that are read at once of a row whose elements are neighbours, beside keys."""
    heavy = 2 if shape.equations > HEAVY else 1
    return max(128, measured.device().strip_elements // shape.words // heavy)


def alone(shape: Shape) -> Tuning:
    """The tile of a reduction whose tiles look at one tile at a time.

    Every warp reads a lone word for itself, and would go its own way.
    """
    return dataclasses.replace(strips(shape), window=1, warps=1)


def tree(shape: Shape) -> Tuning:
    """The tile of a reduction in several levels: one strip."""
    tuned = _level(shape)
    length = tuned.strip_or_tile
    return dataclasses.replace(tuned, length=length, rows=1, strip=length)


def walks(shape: Shape) -> Tuning:
    """The parts of a reduction by resident programs."""
    tuned = _level(shape)
    if shape.tile is not None:
        return dataclasses.replace(tuned, rows=1, strip=tuned.strip_or_tile)
    return dataclasses.replace(tuned, length=_part(shape, tuned.lanes, tuned.strip))


def _level(shape: Shape) -> Tuning:
    """The strip of a level: four times as long where there are no keys.

    A warp of shorter ones has too few bytes under way: sum of 2^28 by resident programs 522 µs with
    512 elements, 248 with 2048; by a tree 321 and 239 (H200, 2026-11-22).
    """
    tuned = strips(shape)
    if shape.tile is not None:
        return tuned
    lanes, strip = tuned.lanes, tuned.strip
    if shape.inner > 1:
        # A tile leaves two entries, so that a strip of two would be no step forward.
        strip = max(strip, LEVEL)
        lanes = min(lanes, 64, next_power_of_2(2**14 // (strip * shape.width)))
    elif not shape.segmented:
        strip = 4 * _strip(shape)
    together = max(1, min(tuned.together, lanes // 32))
    length = max(tuned.length, strip)
    return dataclasses.replace(tuned, strip=strip, lanes=lanes, length=length, together=together)


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
