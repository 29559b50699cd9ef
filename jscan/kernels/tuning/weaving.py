"""The choice of a cut for tiles of few lanes that are woven (`jscan.kernels.weaving`)."""

from __future__ import annotations

from jscan import extent
from jscan.kernels.tuning import chunks
from jscan.kernels.tuning.cut import HEAVY, LIGHT, THREADS, Shape, Tuning, next_power_of_2

ENOUGH = 2**22
"""So many elements are cut so: fewer keep no device busy."""


def of_few_lanes(shape: Shape) -> Tuning | None:
    """The woven tile of a row of 2 to 16 lanes; None where another is faster.

    Microseconds as cut before, and now; a copy (H100, 2026-11-26):

        bfloat16 products of (29337556, 2)                             112    95    79
        float32 products of (16050358, 3), by flags of each lane       286   174   145
        the place of the greatest of (16983932, 3), float32            331   280   203
        int64 bits of (17829928, 4), by segments                       580   503   383
        bfloat16 sums of (6265889, 11), reversed                       175   145    93
        bfloat16 logaddexp of (14999659, 5), exclusive, by segments    702   498   120
        bfloat16 logaddexp of (5278044, 10), by segments               333   246    73
        the greatest by size of (4, 1970873, 7), float16               242   191    95
        uint8 recurrences of (7139141, 7), by segments                 205    88    52
        bfloat16 recurrences of (8388608, 7), by segments              264   189   118
        int8 products of (6434419, 10), exclusive                      149    91    44

    The last three are read twice, as recurrences of bytes are without segments: int8 of 5, 7, 11
    and 13 lanes 0.21, 0.18, 0.19 and 0.18 of copy speed, and 0.44, 0.41, 0.36 and 0.37; float16 of
    5 lanes 0.38 and 0.53, of 11 0.44 and 0.40 (H100, 2026-11-28). Others lost: the farther a
    thread's words are from the next thread's, the more sectors an access takes. Pairs that are
    selected by flags of their own 658 and 708, int32 of 16 lanes 183 and 271, bfloat16 maxima of 14
    149 and 185, float64 minima of 15 524 and 1014. float16 recurrences of 7, 211 and 197, are left.
    """
    size = shape.outer * shape.n * shape.inner
    if size < ENOUGH or shape.inner > 16 or shape.leaves > 2:
        return None
    each = shape.width // shape.leaves
    if shape.inner <= 4:
        return _of_four(shape, each)
    if shape.inner in (8, 16):  # what an access takes at once anyway
        return None
    if each == 4:
        return _of_words(shape)
    if each > 2:
        return None
    if shape.leaves == 1 and shape.long_steps:
        return _at_once(shape, 8) if shape.inner < (12 if shape.segmented else 8) else None
    if (shape.leaves, each, shape.segmented) == (2, 2, False) and shape.selects and shape.inner < 8:
        return _at_once(shape, 8)
    pairs = shape.segmented or (shape.even and (each == 1 or shape.inner == 5))
    if (shape.leaves == 2 and pairs and not shape.selects) or shape.width == 1:
        return _twice(shape)
    return _of_halves(shape) if (shape.leaves, each) == (1, 2) else None


def _of_four(shape: Shape, each: int) -> Tuning | None:
    """The tile of 2 to 4 lanes.

    Without segments, of four lanes, not woven and woven, of copy speed (H100, 2026-11-28): bfloat16
    recurrences 0.43 and 0.58, sums in reverse 0.61 and 0.75, float16 logaddexp 0.43 and 0.55, int16
    maxima 0.73 and 0.75; float32 sqrt(a² + b²) 0.41 and 0.69, int32 a + b + a b 0.62 and 0.79. But
    float32 sums 0.95 and 0.75, recurrences 0.67 and 0.57, float64 a + b + a b / 2 0.72 and 0.64.
    """
    whole = shape.inner != 3 and each * shape.inner >= 8 and not shape.segmented
    if whole and each == 4 and shape.inner == 4 and shape.leaves == 1:
        return _at_once(shape, 8) if shape.equations > 2 and not shape.long_steps else None
    if whole and ((each, shape.inner) != (2, 4) or not shape.even):
        return None
    return _at_once(shape, max(4, min(16, _below(96 // (each * shape.inner)))))


def suits_unwoven(shape: Shape) -> bool:
    """Whether tiles of four lanes that cannot be woven are cut as if they were.

    In reverse, of four lanes, by one warp and so, of copy speed (H100, 2026-11-28): float16
    recurrences 0.38 and 0.58, bfloat16 affine 0.43 and 0.54, int32 a + b + a b 0.62 and 0.79,
    float32 sqrt(a² + b²) 0.40 and 0.54.
    """
    near = shape.n < extent.FAR and shape.equations <= HEAVY
    return near and shape.inner == 4 and not (shape.segmented or shape.long_steps)


def _of_words(shape: Shape) -> Tuning | None:
    """The tile of 5 to 15 lanes of four bytes that is faster than chunks.

    In chunks and woven, of copy speed (H100, 2026-11-28): by segments, float32 sums of 9 lanes 0.43
    and 0.61, maxima 0.53 and 0.65, int32 ones 0.51 and 0.66; exclusive, float32 sums of 7 0.64 and
    0.73, int32 a + b + a b 0.53 and 0.61; without segments, exclusive, affine lambdas of 5 and 6
    lanes 0.50 and 0.65, 0.59 and 0.66. Not exclusive, of 6 and 7 lanes, they are alike by segments.
    """
    if shape.long_steps or not shape.even:
        return None
    nine = shape.inner == 9 and shape.equations <= 2
    shifted = shape.exclusive and shape.inner < 8
    suits = shape.leaves == 1 and shape.segmented and (nine or shifted)
    suits |= shape.leaves == 2 and shifted and not shape.segmented and not shape.complex
    return _at_once(shape, 4) if suits else None


def _of_halves(shape: Shape) -> Tuning | None:
    """The tile of 5 to 15 lanes of two bytes.

    By four warps, of 4 positions by segments and 8 without, and by two warps of 8, of copy speed
    (H100, 2026-11-28): by segments, uint16 maxima of 5 lanes 0.47 and 0.61, float16 of 7 0.47 and
    0.61, 0.57 and 0.69, bfloat16 a + b + a b / 2 of 6 0.45 and 0.59, maxima of 11 0.45 and 0.58,
    the greatest by size of 9 0.41 and 0.52; without, bfloat16 products of 13 0.51 and 0.60, but
    sums of 5 0.69 and 0.61, int16 minima of 9 0.65 and 0.58. More lanes by segments are in chunks.
    """
    if shape.segmented:
        if shape.inner < 8 or (shape.inner % 2 == 1 and shape.inner < 15):
            return _at_once(shape, 8, warps=2)
        in_chunks = shape.inner % 2 == 0 and shape.equations <= LIGHT
        if in_chunks or chunks.long_tiles(shape) is not None:
            return None
        return _at_once(shape, 4)
    if shape.inner % 2 == 0:
        return None
    return _at_once(shape, 8, warps=2 if shape.inner > 11 else 4)


def _below(number: int) -> int:
    """The greatest power of two that is not above."""
    return 1 << max(number, 1).bit_length() - 1


def _at_once(shape: Shape, positions: int, warps: int = 4) -> Tuning:
    """A tile of so many positions a thread."""
    lanes = next_power_of_2(shape.inner)
    window = max(THREADS, THREADS * warps // lanes)
    return Tuning(THREADS * warps * positions, lanes, warps, window, woven=positions)


def _twice(shape: Shape) -> Tuning:
    """A tile of sixteen strips, which are read again behind what came before."""
    strip = THREADS * 4
    return Tuning(16 * strip, next_power_of_2(shape.inner), 1, 16, strip=strip, woven=4)
