"""The devices that were measured, and which one's figures hold here."""

from __future__ import annotations

import functools

import jax

from jscan.kernels.tuning import h100, h200
from jscan.kernels.tuning.figures import Device

MEASURED = {"NVIDIA H200": h200.DEVICE, "NVIDIA H100 80GB HBM3": h100.DEVICE}


@functools.cache
def device() -> Device:
    """The figures of the first GPU, or those of an H200 where there is no GPU.

    Kernels are interpreted then, or lowered for another machine. A GPU that was not measured takes
    the H200's, resized to its multiprocessors.
    """
    try:
        gpu = jax.devices("gpu")[0]
    except RuntimeError:
        return h200.DEVICE
    measured = MEASURED.get(gpu.device_kind)
    return measured or h200.DEVICE.resized(getattr(gpu, "core_count", h200.DEVICE.processors))
