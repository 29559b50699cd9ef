"""The choice of a cut for rows one behind the other, and for segments from two sides."""

from __future__ import annotations

import dataclasses

from jscan.kernels.tuning import choose, measured, neighbours, pressure
from jscan.kernels.tuning.cut import HEAVY, LIGHT, Shape, Tuning, first_match
from jscan.kernels.tuning.folds import FEWEST, LONG, SHORT
from jscan.kernels.tuning.long_steps import (
    is_complex_logaddexp,
    is_heavy_double,
    is_heavy_half,
)


def suits_one_row(shape: Shape) -> bool:
    """Whether rows that begin inside of words are better scanned one behind the other.

    Not those that fill a tile of whole rows without segments. Sum, of copy speed, as rows and one
    behind the other (H200, 2026-11-23): float32, rows of 671 0.93 and 0.76, of 1023 0.94 and 0.83,
    of 65 0.79 and 0.93, of 16381 0.71 and 0.83; bfloat16, of 671 0.85 and 0.61, of 3 0.57 and 0.64,
    of 65 0.30 and 0.61, of 16381 0.36 and 0.62.
    """
    if is_heavy_double(shape) and not shape.segmented and shape.n > 4096:
        # logaddexp of (1602, 50265), float64, 5100 µs one behind the other: tiles in which a row
        # begins are walked, and spill 5500 bytes (H100, 2026-11-26).
        return False
    tile = choose.block(shape)
    if tile is None or shape.segmented or shape.n > 4096:
        return True
    if shape.width >= 8:
        return shape.n < 32
    if shape.leaves == 2 and shape.width % 2 and shape.n > 1024:
        # Flags and numbers by an operator of one's own, rows of 1933, bfloat16: 957 µs as rows, 385
        # by eight warps, 296 one behind the other (H100, 2026-11-26).
        return True
    # Flags cost an operator of many steps more than empty places do.
    filled = 5 * shape.n > 3 * tile.length or shape.equations > 4
    return not filled or (shape.width < 4 and shape.n < 256)


def suits_bits_of_words(shape: Shape) -> bool:
    """Whether rows that begin inside of words had better read a bit a flag, and not a byte.

    Bytes of a row's own place are read one by one (H100, 2026-11-26): int8 recurrences of (31,
    2257609) 0.40 and 0.43, last writes of (7, 7585481), float32, 0.62 and 0.88; pairs of uint64
    (528, 100277) 0.72 and 0.79. But int64 of (4243, 15823) 0.84 and 0.81, complex products of (474,
    100277) 0.90 and 0.84.
    """
    return shape.width < 8 or (shape.leaves > 1 and not shape.complex)


def suits_repeated_flags(shape: Shape) -> bool:
    """Whether flags that rows share are repeated in words, so that rows lie one behind the other.

    Rows of narrow elements, single accesses before, and one behind the other without the words
    (H100, 2026-11-26): 3619827 of 21, float16, 321 µs and 202; 2354762 of 33, bfloat16, 266 and
    162; 697948 of 75, 386 and 243; 123494 of 631, uint8, 151 and 125; but 19507 of 3779, int8, 109
    and 125, 13999 of 5563, uint16 recurrences, 187 and 209. Tiles of rows of a power of two are
    whole already: 37740163 of 2, bfloat16, 103 and 138.
    """
    whole = shape.n & (shape.n - 1) == 0
    narrow = shape.inner == 1 and shape.width <= 2 * shape.leaves
    return narrow and shape.n <= 1024 and not whole


def rows(shape: Shape, row: int, *, walks: bool, exclusive: bool, reverse: bool) -> Tuning:
    """The tile of rows of so many elements, one behind the other.

    Long rows begin in few tiles, and a kernel that ``walks`` takes these by strips. Short ones
    begin in most, and restarts take registers.
    """
    if shape.tile is not None:
        return dataclasses.replace(shape.tile, rows=1)
    plain, flagged = (dataclasses.replace(shape, segmented=s) for s in (False, True))
    tuned = neighbours.cut(shape, neighbours.full_rule(plain))
    # Longer ones spill beside what walks.
    tuned = dataclasses.replace(tuned, length=min(tuned.length, 4096))
    few = first_match(measured.device().few, flagged)
    if few is None and _fits_short_tiles(shape, row, exclusive=exclusive):
        length = 512 if shape.leaves == 2 else 1024
        return Tuning(length=length, lanes=1, warps=1, window=32)
    if _restarts_in_every_tile(shape, row):
        # A program that reads elements beside and walks, too, outgrows the instruction cache.
        # Others by two warps and by one (2026-11-28): (512, 100277), float16, 0.61 and 0.66, (2064,
        # 32003) 0.64 and 0.71, (283, 201337) 0.56 and 0.65; in reverse (2570, 32003) 0.58 and 0.53,
        # (839, 64633) 0.56 and 0.51.
        length, warps = ((512 if reverse else 1024), 1) if exclusive else (2048, 1 + reverse)
        return Tuning(length=length, lanes=1, warps=warps, window=32 * warps)
    long_enough = few is None and SHORT <= row < LONG
    if is_complex_logaddexp(shape) and long_enough and not shape.segmented:
        # Walked where a row begins and so (H200, 2026-11-29): (4079, 15971) 0.12 and 0.39,
        # exclusive (2905, 32003) 0.18 and 0.34.
        return Tuning(length=512, lanes=1, warps=1, window=32)
    held = _held(shape, row, exclusive=exclusive)
    short = 2**14 <= row < (LONG if reverse else shape.n) and few is None
    if shape.long_steps and (shape.width, shape.leaves) == (4, 1) and short:
        # logaddexp of float32, of copy speed with 4096 places and so (H200, 2026-11-28): (633,
        # 80954) 0.59 and 0.86, in reverse (1303, 50291) 0.48 and 0.85, (868, 100277) 0.63 and 0.88,
        # (8, 6476827) 0.67 and 0.70; but in reverse (3, 18304233) 0.80 and 0.70, one row 0.92 and
        # 0.71.
        tuned = dataclasses.replace(tuned, length=1024, warps=1, window=32)
    # Rows of 16381, uint8, 73 µs with tiles of 4096 that are walked, 96 with restarts in each.
    if walks and row >= 3 * (held or tuned.length):
        length = held or tuned.length
        wide = shape.width == 8 and (shape.complex or (shape.leaves == 1 and not exclusive))
        if wide and row < LONG and shape.n >= FEWEST:
            # Of 64 bits with 2048 places and so (H200, 2026-11-29): int64 sums of (1024, 32003)
            # 0.79 and 0.90, float64 ones of (7549, 6427) 0.67 and 0.90, in reverse products of
            # (1327, 51691), int64, 0.74 and 0.90; sums of complex64, (2080, 32003), 0.67 and 0.89,
            # exclusive, in reverse, (1024, 32003), 0.82 and 0.88. But float64 exclusive of (2048,
            # 32003) 0.92 and 0.91, of very long rows (14, 5587279) 0.90 and 0.89.
            length = min(length, 1024)
        return dataclasses.replace(tuned, length=length, strip=512, held=512 if held else 0)
    tuned = neighbours.cut(shape, few or neighbours.full_rule(flagged))
    if few is None and (shape.width, shape.leaves) == (1, 1) and shape.equations > LIGHT:
        # The greatest by size of 55 million int8, from the other end, 183 µs, 215 with 1024 places;
        # but or of rows of 69 150 and 115, with 217 registers and 96 (H100, 2026-11-25).
        return dataclasses.replace(tuned, length=2048)
    length = min(tuned.length, 1024 * tuned.warps)
    return dataclasses.replace(tuned, length=pressure.of_restarts(shape, length))


def _fits_short_tiles(shape: Shape, row: int, *, exclusive: bool) -> bool:
    """Whether rows had better restart in short tiles, than be walked in long ones.

    Of copy speed, walked where a row begins, and so (H100, 2026-11-28): int64 recurrences of (256,
    100277) 0.65 and 0.73; logaddexp of (2221, 21863), float32, exclusive, 0.51 and 0.92; a + b + a
    b / 2 of (6, 5203901), float64, exclusive, 0.70 with 512 positions, 0.75 with 1024.
    """
    if shape.segmented or row < SHORT:
        return False
    if shape.long_steps:
        alone = (shape.width, shape.leaves) == (4, 1)
        return alone and exclusive and row < LONG
    if shape.complex:
        return False
    several = shape.leaves == 1 and 2 < shape.equations <= HEAVY
    pair = (shape.width, shape.leaves) == (16, 2) and shape.equations <= LIGHT and row < LONG
    return pair or (shape.width == 8 and several and row < shape.n)


def _restarts_in_every_tile(shape: Shape, row: int) -> bool:
    """Whether rows, of halves under exponentials, had better restart in every tile.

    Of copy speed, walked where a row begins, and so (H100, 2026-11-26): (2774, 28996), float16,
    0.41 and 0.59; (1781, 50257), bfloat16, reversed, 0.41 and 0.50. Exclusive, float16, with 2048,
    1024 and 512 places (2026-11-27): (1024, 50265) 0.39, and 0.60, 0.64, 0.57, (1885, 28996) 0.35,
    and 0.56, 0.68, 0.65; in reverse (1024, 32003) 0.32, and 0.36, 0.56, 0.59, (1581, 50257) 0.39,
    and 0.31, 0.34, 0.45. But (8, 6206413), exclusive, 0.57 and 0.44, rows of 9 0.50 and 0.47.
    """
    return is_heavy_half(shape) and SHORT <= row < LONG


def _held(shape: Shape, row: int, *, exclusive: bool) -> int:
    """The length of a tile that is held as it was read, of narrow elements; 0 for others.

    Rows of 50257, of copy speed, not held and held (H200, 2026-11-23): int8 sum 0.63 and 0.72,
    reversed maximum 0.57 and 0.65; float16 0.73 and 0.85, 0.72 and 0.81. Rows of 2^20 + 1, int8,
    0.49 and 0.64; exclusive sums of these spill 412 bytes with 8192 places, reversed 2062.
    """
    if shape.leaves > 1 or shape.width > 2 or shape.equations > LIGHT:
        return 0
    if shape.width == 2:
        return 2048
    return 8192 if row >= 2**19 and not exclusive else 4096


def moved(shape: Shape, chosen: Tuning, steps: int) -> Tuning:
    """The tile of a segmented scan whose flags come from so many places to one side, singly.

    Sum, float32, 2^27, of copy speed: reversed 0.85 with 1024 positions, 0.66 with 2048; exclusive
    0.87 and 0.69; both 0.71 with 1024, 0.84 with 512 (H200, 2026-11-23).
    """
    if shape.tile is not None or not shape.segmented or shape.inner > 1 or chosen.rows > 1:
        return chosen
    return dataclasses.replace(chosen, length=min(chosen.length, 2048 // 2**steps * chosen.warps))


def forwards(shape: Shape, chosen: Tuning) -> Tuning:
    """The tile of one row of float64, of an odd length, of which the greatest or least is sought.

    With 512 places and so, of copy speed (H200, 2026-11-29): (87497747,) 0.64 and 0.71, (71776435,)
    0.63 and 0.72, minima of (78225377,) 0.63 and 0.71; but of (72764360,) 0.63 and 0.62, in reverse
    of 50 million 0.65 and 0.54.
    """
    one = shape.wide_extrema and shape.outer == shape.inner == 1 and shape.n % 2 == 1
    given = shape.tile is not None or shape.segmented or shape.exclusive
    if not one or given or chosen.length != 512 or shape.n < FEWEST:
        return chosen
    return dataclasses.replace(chosen, length=1024)


def backwards(shape: Shape, chosen: Tuning) -> Tuning:
    """The tile of rows of one leaf of eight bytes, scanned from their ends, whose words are turned.

    Sums with 2048 places and so, of copy speed (H100, 2026-11-28): uint64 (34, 1853326) 0.65 and
    0.93, (4, 2048, 7076) 0.62 and 0.88. Of one row, with 2048, 1024 and 512 places (H200): sums of
    50 million int64 0.68, 0.77 and 0.77, maxima of uint64 0.59, 0.88 and 0.77. Few elements were
    not measured.
    """
    alone = (shape.width, shape.leaves) == (8, 1) and shape.inner == 1
    alone = alone and (shape.outer > 1 or (shape.integers and not chosen.strip))
    given = shape.tile is not None or shape.segmented or shape.long_steps or chosen.rows > 1
    given = given or shape.outer * shape.n < FEWEST
    if given or not alone or chosen.length > 2048 or shape.equations > 2:
        return chosen
    length = min(chosen.length, 512 if shape.outer > 1 else 1024)
    return dataclasses.replace(chosen, length=length, warps=1, window=32)
