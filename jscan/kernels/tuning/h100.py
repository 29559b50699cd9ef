"""NVIDIA H100 with HBM3, measured 2026-11-22 with the cuts of the H200.

Its multiprocessors are the H200's, as many of them; its memory is slower. Shares of copy speed
(2.96 TB/s) are those of the H200 or better: sums 0.99, 2^24 0.98, logaddexp 0.98, halves 0.94, int8
0.81, affine 0.93, segmented int32 0.88, Welford's 0.66. So memory is the limit, and no cut of its
own was looked for.
"""

from __future__ import annotations

from jscan.kernels.tuning import h200

DEVICE = h200.DEVICE
