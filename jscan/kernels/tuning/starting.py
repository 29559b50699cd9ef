"""What a program of whole rows moves, beside what it takes to start it."""

from __future__ import annotations

from jscan.kernels.tuning.cut import Shape


def are_many_programs(shape: Shape, length: int, elements: int) -> bool:
    """Whether programs of so many elements would be started more slowly than they end.

    An H100 starts 1.6 programs in the time in which it copies 3 kB, and an H200 copies 1.4 times as
    fast. Of copy speed so, and with twice the rows (H100, 2026-11-27): xor of rows of 256 bools
    0.58 and 0.99, sqrt(a² + b²) of 328, bfloat16, 0.72 and 0.99, the greatest of 184, int16, 0.81
    and 0.99, sums of 96, uint8, 0.43 and 0.70, of 368, float16, 0.81 and 1.00; recurrences of 512,
    uint8, 0.84 and 1.00, of 482, int8, 0.65 and 0.78. On an H200 (2026-11-29) products of 256,
    float16, 0.79 and 0.99, sums of 4 by segments 0.78 and 0.98; by two rows maxima of 512, int16,
    1.00, where sums of as many, bfloat16, were at 0.79 by one. No faster: logaddexp of 271,
    bfloat16, 0.50 and 0.42, recurrences of 110, uint8, 0.52 and 0.44.
    """
    rows = max(1, elements // length)
    of_bytes = (shape.width, shape.leaves) == (2, 2) and length == elements
    light = shape.leaves == 1 and shape.width <= 2 and not shape.long_steps
    many = shape.outer >= 2**15 * rows
    return many and (of_bytes or light)
