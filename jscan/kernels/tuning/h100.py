"""NVIDIA H100 with HBM3, which takes the cuts of the H200.

Its multiprocessors are the H200's, as many of them; its memory is slower, so that a tile's own time
shows less. No cut of its own has been looked for.
"""

from __future__ import annotations

from jscan.kernels.tuning import h200

DEVICE = h200.DEVICE
