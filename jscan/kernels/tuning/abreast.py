"""The choice of lanes that are scanned abreast, several in a word (`kernels.abreast`).

Of copy speed, as cut before and so (H100, 2026-11-28). Rows of whole words, uint8 and int8: sums of
(50265, 1024) 0.59 and 0.85, `and` of (4, 2048, 4096) 0.68 and 0.90, sums of (49152, 1196) by
segments 0.35 and 0.74; uint16 sums of (2, 32768, 512) by segments 0.76 and 0.86, recurrences of
(28996, 1024) 0.71 and 0.76. Of others: int8 sums of (2732, 30522) by segments 0.55 and 0.77, uint8
ones of (1763, 50265) 0.65 and 0.83, (35617, 2243) 0.51 and 0.69; int16 `and` of (8, 8192, 1307)
0.71 and 0.76; int8 products of (4423, 15971) by segments 0.53 and 0.71.
"""

from __future__ import annotations

import dataclasses

from jscan import extent
from jscan.kernels.tuning.cut import SECTOR, THREADS, Shape, Tuning

WORD = 4
"""Bytes of a word."""
LEAST = 400
"""Bytes of a row: of 61 to 166 nothing is gained, and int16 sums of (413753, 167) 0.59 and 0.53."""
FEW = 64
"""Columns of tiles, of which many wait for each other where there are fewer."""
WALKED = range(33, 64)
"""Positions of an axis whose lanes threads walk down; fewer by segments."""
HELD = 16
"""Positions of a strip."""


def suits_words_of_lanes(shape: Shape, *, walks: bool, products: bool) -> bool:
    """Whether lanes of narrow integers are scanned abreast.

    Where threads walk down lanes, bytes of few positions alone: sums of (36, 2106579), by segments,
    0.60 and 0.77, minima of (43, 2109685) 0.62 and 0.74, of (31, 2613901) 0.85 and 0.80;
    recurrences of (47, 1426922) 0.85 and 0.75, minima of uint16 (199, 383029) 0.89 and 0.76, int8
    affine ones of (90, 646765) by segments 0.64 and 0.51.
    """
    if shape.tile is not None:
        return shape.tile.abreast and shape.inner > 1
    row = shape.inner * shape.each
    fits = max(shape.n, shape.outer, row) < extent.FAR // 8
    if row < LEAST or not fits or shape.leaves > 2:
        return False
    if walks:
        few = shape.n in WALKED or (shape.segmented and shape.n < WALKED.stop)
        return shape.each == 1 and shape.leaves == 1 and few and not products
    return shape.n >= 256


def words_of_lanes(shape: Shape, count: int, *, row: int, products: bool) -> Tuning:
    """The tile of words of so many lanes, where a ``row`` has so many bytes.

    Rows that begin inside of sectors share lanes with the next tile, so that each writes whole
    sectors: uint8 sums of (49152, 1196) by segments 0.61 and 0.74. Where they begin inside of
    words, and tiles are in few columns, these share a word: uint8 sums of (35617, 2243) 0.63 by
    sectors, 0.71 so, but of (1763, 50265) 0.83 and 0.61. Products of bytes take many instructions,
    and are in strips that are read twice: (4129, 14797) 0.56 held, 0.65 so.
    """
    odd = row % WORD > 0
    if shape.tile is not None:
        return shared_words(shape.tile, odd=odd)
    few = shape.outer * -(-shape.inner // (THREADS - SECTOR // WORD)) < FEW
    length, shared, of_bytes = 64, SECTOR // WORD, count == WORD
    if odd and of_bytes and products and shape.leaves == 1:
        tile = Tuning(128, THREADS, warps=1, window=2, strip=HELD, abreast=True)
        return dataclasses.replace(tile, shared=shared)
    if odd and shape.leaves == 2:
        alone = shape.few_results and not shape.segmented
        shared = 1 if alone else shared
        length = 64 if alone and not of_bytes else 32
    elif odd and few:
        shared, length = 1, 32 if shape.segmented else 64
    elif shape.leaves == 2 and shape.segmented:
        # An affine lambda of (1024, 28996), uint16, 0.69 by 64 positions, 0.78 so.
        length = 32
    tile = Tuning(length, THREADS, warps=1, window=2, held=HELD, abreast=True)
    return dataclasses.replace(tile, shared=shared if row % SECTOR else 0)


def walked_words(shape: Shape, down: Tuning, *, odd: bool) -> Tuning:
    """The strips of words that threads walk ``down``, shorter where tiles share lanes.

    By strips of 8 and so, of copy speed (H200, 2026-11-28): int8 xor of (47, 3, 324014), in
    reverse, 0.64 and 0.74; by segments min(a + b, 100) of (41, 2126755), uint8, 0.57 and 0.64, xor
    of (33, 2270969), uint8, 0.61 and 0.66, sums of (36, 2106579), int8, in reverse, 0.65 and 0.71.
    """
    tuned = shared_words(down, odd=odd)
    shares = tuned.shared and tuned.lanes == 4 * THREADS and shape.tile is None
    return dataclasses.replace(tuned, strip=4) if shares else tuned


def shared_words(tuned: Tuning, *, odd: bool) -> Tuning:
    """The cut with as many lanes shared as tiles need whose rows begin inside of words."""
    if not odd:
        return tuned
    least = SECTOR // WORD if tuned.lanes > SECTOR // WORD else 1
    return dataclasses.replace(tuned, shared=tuned.shared or least, chunk=0, woven=0, rows=1)
