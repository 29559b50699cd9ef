"""NVIDIA H200, measured 2026-11-20 to 2026-11-22 with driver 580 and jax 0.11.2.

The figures are in benchmarks/results/core-nvidia-h200.json; what was tried and rejected is in
benchmarks/NOTES.md.
"""

from __future__ import annotations

from jscan.kernels.tuning.cut import Rule
from jscan.kernels.tuning.figures import Device

DEVICE = Device(
    processors=132,
    # Full tiles would be too few to fill the device, and a tile's own time shows; more warps
    # shorten it (NOTES.md, "Few elements": within 8 % of the best cut of each). Elements of more
    # than 16 bytes would not fit the registers.
    few=(
        Rule(512, elements=2**19, segmented=True),
        Rule(1024, elements=2**20, segmented=True),
        Rule(2048, elements=2**17, widths=(1, 4), segmented=False),
        Rule(4096, warps=4, elements=2**19, widths=(1, 4), segmented=False),
        Rule(512, elements=2**15, widths=(5, 8), segmented=False),
        Rule(1024, warps=2, elements=2**17, widths=(5, 8), segmented=False),
        Rule(2048, warps=4, elements=2**18, widths=(5, 8), segmented=False),
        Rule(4096, warps=4, elements=2**20, widths=(5, 8), segmented=False),
        Rule(512, warps=2, elements=2**15, widths=(9, 16), segmented=False),
        Rule(1024, warps=4, elements=2**17, widths=(9, 16), segmented=False),
        Rule(2048, warps=4, elements=2**18, widths=(9, 16), segmented=False),
        Rule(4096, warps=4, elements=2**20, widths=(9, 16), segmented=False),
    ),
    full=(
        # One leaf, and the operands of the benchmarks: the best of several cuts each (NOTES.md,
        # "The tile state" and "Where it stands, and why"). Flags take registers, so that segmented
        # tiles are half as long.
        # Minima of 2^26 float64, 542 µs with 512 positions, 655 with 2048; maxima of (1024, 49152),
        # 267 and 475.
        Rule(512, operands=((8, 1),), wide_extrema=True),
        # Bytes that are added as words: int8, 2^29, 358 µs with 8192 positions, 404 with 4096.
        # Others spill: uint8 maxima from the other end, 2^29, 0.45 and 0.60 of copy speed.
        Rule(8192, operands=((1, 1),), segmented=False, widened_sums=True),
        Rule(4096, operands=((1, 1), (2, 1), (4, 1)), segmented=False),
        # uint8 recurrence of 36 million elements, 81 µs; 2048 positions and one warp 124.
        Rule(4096, warps=2, operands=((2, 2),), segmented=False),
        Rule(2048, operands=((8, 1), (8, 2)), segmented=False),
        # Welford of 2^26 elements, all three results: 575 µs, 609 by two warps. Of one result two
        # warps take 427, which no rule can tell.
        Rule(1024, operands=((12, 3), (16, 2)), segmented=False),
        # 2^27, 1 % heads, 1024 and 2048 positions: int32 0.88 and 0.78 of copy speed; bfloat16 0.80
        # and 0.80, exclusive 0.70 and 0.55; int8 0.54 and 0.50. float32, one segment, 0.87 and
        # 0.97.
        # Integers take more registers. On an H100: uint64 sums of (23, 2102360) by segments, from
        # the other end, 368 µs and 466 with 1024 positions, int64 ones of rows of 17 557 and 645;
        # 67 million int32 recurrences by segments, from the other end, 367 and 455.
        Rule(512, operands=((8, 1), (8, 2)), segmented=True, integers=True),
        # Maxima of 50 million float32 by flags 0.71 of copy speed with 2048 positions, 0.93 so.
        Rule(1024, operands=((4, 1),), segmented=True, extrema=True),
        Rule(2048, operands=((4, 1),), segmented=True, integers=False),
        Rule(1024, operands=((1, 1), (2, 1), (4, 1), (8, 1), (8, 2)), segmented=True),
        # Other operands were not measured, and take half: a tile that spills costs more than one
        # that is short.
        Rule(2048, widths=(1, 4), segmented=False),
        Rule(1024, widths=(5, 8), segmented=False),
        Rule(512, widths=(9, 16), segmented=False),
        Rule(1024, widths=(1, 4), segmented=True),
        Rule(512, widths=(5, 8), segmented=True),
        # complex64 recurrences of one row from the other end 0.53 of copy speed with 256 places,
        # 0.73 so, of (113, 787907) 0.59 and 0.73, by segments 0.80 and 0.87 (H100, 2026-11-27).
        Rule(512, operands=((16, 4),), segmented=True),
        Rule(256),
    ),
    many_rows=256,
    # 128 × 32 elements 0.79 of copy speed, 64 × 64 0.78, 32 × 128 and 256 × 16 0.63 (NOTES.md, "The
    # tile").
    lane_elements=4096,
    block_bytes=32768,
    # Rows of 64: 0.98 of copy speed with 512 elements, 0.96 with 4096 (NOTES.md, "The tile").
    block_elements=512,
    block_programs=264,  # two on each multiprocessor
    # Sixteen on each multiprocessor (NOTES.md, "Two passes").
    programs=2112,
    # 256 elements 0.91 of copy speed, 512 0.96, 1024 0.94 (NOTES.md, "Segment reductions").
    strip_elements=512,
    # One of two results of the affine operator, 2^22: 18.6 µs in two passes, 20.8 in one; both
    # results 25.4 and 22.9. 2^22 elements of 8 bytes are 32 of the cache's 50 MiB.
    two_passes=(2**19, 2**22),
)
