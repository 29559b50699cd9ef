"""The choice of tiles that share lanes, so that each writes whole sectors (`kernels.sliding`).

Rows that begin inside of sectors have sectors of two tiles where tiles end; of narrow elements
every access begins and ends inside of one.
"""

from __future__ import annotations

import dataclasses

from jscan.kernels.tuning.cut import LONG, SECTOR, Shape, Tuning


def suits_walks(shape: Shape) -> bool:
    """Whether tiles share lanes, so that each writes whole sectors (`kernels.sliding`).

    Not where a tile has all lanes: float16 sqrt(a² + b²) of (1536, 256, 143) 0.81 and 0.53 of copy
    speed. Nor (H100, 2026-11-27): float32 logaddexp of (209, 350585) 0.79 and 0.74; beside flags of
    each lane's own float32 sums of (1259, 67103) 0.90 and 0.83, Welford of (2048, 30522) 0.90 and
    0.66, but of (1024, 50257) 0.43 and 0.72; int8 maxima of (17, 751, 5005), by segments, 0.51 and
    0.39.
    """
    each = shape.each
    if not shape.even or shape.inner <= 256 or shape.inner * each % SECTOR == 0:
        return False
    if each == 4:
        if shape.segmented and shape.own_flags:
            return shape.leaves == 2 or (shape.leaves == 3 and shape.inner % 2 == 1)
        return shape.segmented or not shape.long_steps
    return not (each == 1 and shape.segmented and shape.n > 128)


def walks(shape: Shape, tuned: Tuning) -> Tuning:
    """The strips of tiles that share lanes, read ahead: loads would wait for what is written.

    Of copy speed, as cut before and so (H100, 2026-11-27): float16 sums of (4, 37, 440514) 0.71 and
    0.91, bfloat16 products of (16, 1024, 5305) 0.59 and 0.87, complex ones of (983, 77543) 0.43 and
    0.82; uint8 minima of (13, 7205443) 0.63 and 0.87, maxima of (607, 100277) 0.61 and 0.76;
    float32 last writes of (43, 1989193) 0.74 and 0.91, int64 products of (167, 364393) 0.78 and
    0.86. By segments: bfloat16 minima of (16, 32, 76404) 0.60 and 0.97, float32 a + b + a b of
    (293, 251791) 0.37 and 0.85, logaddexp of (116, 557599) 0.59 and 0.83, float64 sums of (1669,
    41143) 0.66 and 0.81. But bfloat16 a + b + a b of (439, 130171) 0.79 and 0.75.
    """
    each = shape.each
    tuned = dataclasses.replace(tuned, shared=SECTOR // each, ahead=True)
    if each > 2:
        # Segments, by strips of 8 and so, of copy speed (H200, 2026-11-28): float32 sums of (131,
        # 578953) 0.69 and 0.80, int32 recurrences of (23, 2317171), in reverse, 0.73 and 0.87, but
        # sums of (172, 374843) 0.83 and 0.79. Whole, int32 sums of (239, 278237) 0.74 and 0.91, but
        # float32 ones of (46, 1447137), in reverse, 0.86 and 0.81; eight others were as before.
        odd = shape.inner % 2 == 1 and shape.outer == 1 and shape.segmented
        four = odd and each == 4 and tuned.lanes == 128 and shape.n > 16 and not shape.exclusive
        return dataclasses.replace(tuned, strip=4) if four else tuned
    strip = tuned.strip
    if each == 1 and shape.leaves == 1 and not shape.segmented:
        strip = 32
    elif shape.leaves == 2 and shape.equations > 4:
        strip = 8
    elif each == 2 and shape.leaves == 1 and not (shape.long_steps or shape.segmented):
        # Halves by strips of 8 and so, of copy speed (H200, 2026-11-29): float16 sums of (17,
        # 4241509) 0.66 and 0.83, products of (606, 100277) in reverse 0.71 and 0.83, bfloat16
        # maxima of (19, 4509019) 0.57 and 0.82, exclusive in reverse of (540, 100277) 0.72 and
        # 0.83, last writes of (811, 90107) 0.55 and 0.76. By segments sums of (23, 3191493) 0.69
        # and 0.77, but of (859, 92479) 0.61 and 0.51, products of (35, 1965965) 0.84 and 0.73.
        strip = 16
    return dataclasses.replace(tuned, lanes=128 // each, warps=1, strip=strip)


def words(shape: Shape, tuned: Tuning) -> Tuning:
    """The tile of words, which shares lanes where it has few, and few tiles wait for each other.

    Of copy speed, as cut before and so (H100, 2026-11-27): int32 maxima of (64, 8192, 177) by flags
    of each row 0.64 and 0.84, int64 affine of (16, 8192, 713) 0.67 and 0.80, float32 recurrences of
    (64, 16384, 81) 0.66 and 0.81, int32 sums of (16, 8192, 585) by segments 0.61 and 0.66; but
    float32 products of (129607, 373) 0.71 and 0.65, int64 maxima of (17989, 3533) 0.81 and 0.70,
    Welford's and exponentials of float64 0.56 and 0.52, 0.58 and 0.56.
    """
    each = shape.each
    columns = shape.outer * -(-shape.inner // tuned.lanes)
    light = shape.leaves <= 2 and shape.equations <= 4 and not shape.long_steps
    few = tuned.lanes <= 64 and columns >= 128 and tuned.length < shape.n <= LONG
    aligned = shape.inner * each % SECTOR == 0 or shape.inner <= tuned.lanes
    # Held tiles of 32 lanes are as they were measured: by segments, uint64 recurrences of (8389,
    # 9151) 0.81, and 0.53 so (H100, 2026-11-28).
    held = tuned.held and (each == 8 or (shape.segmented and shape.leaves == 2))
    suits = few and light and shape.even and not held
    if each < 4 or aligned or not suits or tuned.chunk or tuned.strip:
        return tuned
    return dataclasses.replace(tuned, shared=SECTOR // each)


def suits_halves(shape: Shape) -> bool:
    """Whether tiles of two bytes share lanes, so that each writes whole sectors.

    Where many tiles wait for each other, what they tell each other of more lanes costs more. Of
    copy speed, as cut before and so (H100, 2026-11-27): bfloat16 sums of (8, 1024, 6950) 0.60 and
    0.80, maxima of (1483, 50257) 0.63 and 0.85, float16 products of (1024, 50257) 0.71 and 0.86,
    uint16 maxima of (32, 8192, 213) 0.50 and 0.62; bfloat16 sums of (2048, 28996), by shared flags,
    0.63 and 0.82; float16 recurrences of (8, 1024, 6175), by shared flags, 0.54 and 0.67, bfloat16
    ones of (8, 4096, 1931) 0.53 and 0.61. But bfloat16 recurrences of (4663, 15307), whole, 0.71
    and 0.63, int16 sums of (50257, 1444) 0.75 and 0.61, bfloat16 sqrt(a² + b²) of (512, 50257) 0.62
    and 0.46. By segments (2026-11-28): uint16 maxima of (28996, 2093) 0.49 and 0.54; by flags of
    each row float16 sums of (2474, 30522) 0.54 and 0.69, last writes of (64, 4096, 346) 0.57 and
    0.61, bfloat16 recurrences of (5237, 11969) 0.61 and 0.64.
    """
    narrow = (shape.leaves, shape.width) in ((1, 2), (2, 4)) and shape.even and shape.inner > 128
    light = shape.equations <= 3 and not shape.long_steps
    if not (narrow and light) or shape.inner * shape.each % SECTOR == 0:
        return False
    if shape.segmented:
        pairs = 8192 if shape.own_flags else 4096
        return shape.n <= (2 * LONG if shape.leaves == 1 else pairs)
    return shape.n <= 8192 and shape.leaves == 1


def length_of_words(shape: Shape) -> int:
    """The positions of a tile of 64 lanes of four bytes that shares eight; 0 where others suit.

    Of copy speed, as cut before and so (H100, 2026-11-28). By segments: int32 minima of (1699,
    32507) 0.74 and 0.83, float32 products of (32003, 2647) 0.73 and 0.76, by flags of each row
    (2341, 32003) 0.77 and 0.82, uint32 minima of (100003, 671) 0.69 and 0.74; exclusive maxima of
    (1471, 34273) 0.74, 0.71 with 64 positions and 0.85 with 32. Whole: float32 minima of (10399,
    8741) 0.79 and 0.84, int32 a + b + a b of (26479, 2477) 0.77 and 0.80, but sums of (100003, 671)
    0.76 and 0.71. Pairs: sum and maximum of (33, 2048, 999) 0.59 and 0.80, an affine operator's
    0.56 and 0.78, places of the greatest of (6133, 8017) 0.77 and 0.79, but recurrences of (76303,
    1061) 0.73 and 0.63.
    """
    light = shape.equations <= 4 and not shape.long_steps and not shape.complex
    apart = shape.each == 4 and shape.even and shape.inner * 4 % SECTOR != 0
    if not (light and apart) or shape.inner < 200:
        return 0
    if shape.leaves == 1 and shape.segmented:
        # The greatest by size of (15193, 3823), exclusive, 0.64 and 0.52; no other operator of more
        # equations was measured by segments.
        return 0 if shape.equations > 2 else 32 if shape.exclusive else 64
    beside = shape.inner >= 900 and not shape.segmented
    if shape.leaves == 1:
        return 64 if beside and shape.n <= 2 * LONG else 0
    many = shape.outer * -(-shape.inner // 64) >= 100 and shape.n <= LONG
    return 32 if shape.leaves == 2 and beside and many else 0
