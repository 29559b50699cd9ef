"""What runs here: versions, devices, the engine, and whether there are kernels."""

from __future__ import annotations

import importlib.metadata
import os
import platform
import re
import warnings
from pathlib import Path

import jax
import jax.numpy as jnp

import jscan
from jscan import capabilities, engines

PACKAGES = ("jax", "jaxlib", "jax-cuda13-plugin", "jax-cuda12-plugin", "jax-triton", "triton")
SETTINGS = ("JSCAN_ENGINE", "JAX_PLATFORMS", "XLA_FLAGS", "CUDA_VISIBLE_DEVICES")
"""Variables of the environment that say where and how programs run."""

DRIVER = Path("/proc/driver/nvidia/version")
KERNEL_CALLS = ("@__gpu$xla.gpu.triton", "@triton_kernel_call")
"""What a lowered program calls to run a kernel, by either engine."""


def described() -> dict[str, str]:
    """Everything by its name, in the order in which it is told."""
    return {
        "jscan": jscan.__version__,
        "python": f"{platform.python_version()} on {platform.platform()}",
        "numpy": importlib.metadata.version("numpy"),
        **{name: found for name in PACKAGES if (found := _version(name)) is not None},
        "devices": _devices(),
        **({"driver": found} if (found := _driver()) is not None else {}),
        "engine": str(engines.choice()),
        "kernels": kernels(),
        **{name: os.environ[name] for name in SETTINGS if name in os.environ},
        "64-bit types": "on" if jax.config.read("jax_enable_x64") else "off",
    }


def kernels() -> str:
    """Whether a scan compiled for the default device calls a kernel; where it does not, why."""
    backend = jax.default_backend()
    if backend != "gpu":
        return f"no, plain JAX runs on the {backend}: {_why_no_gpu()}"
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # the report says what they would
        try:
            program = jax.jit(jscan.cumsum).lower(jnp.zeros(8192, jnp.float32)).as_text()
        except ImportError as error:  # of an engine that is named and not there
            return f"no, they raise: {error}"
    if any(call in program for call in KERNEL_CALLS):
        number = capabilities.of_program()
        return "yes" if number is None else f"yes, for sm_{number}"
    reason = engines.choice()
    return f"no, plain JAX runs: {reason.reason if reason.name is None else 'jax has no CUDA GPU'}"


def _why_no_gpu() -> str:
    driver = _driver()
    if driver is None:
        return "there is no driver of an NVIDIA GPU"
    platforms = os.environ.get("JAX_PLATFORMS")
    if platforms and not re.search("cuda|gpu", platforms):
        return f"there is an NVIDIA GPU, and JAX_PLATFORMS={platforms} leaves it out"
    return f"there is an NVIDIA GPU, and jax does not find it: {engines.INSTALL}"


def _driver() -> str | None:
    """The version of NVIDIA's driver, if it is loaded."""
    try:
        found = re.search(r"(\d+\.\d+(\.\d+)?)", DRIVER.read_text())
    except OSError:
        return None
    return found[0] if found else None


def _devices() -> str:
    """How many there are of each kind."""
    kinds = [f"{device.platform}: {device.device_kind}" for device in jax.devices()]
    return ", ".join(f"{kinds.count(kind)} {kind}" for kind in dict.fromkeys(kinds))


def _version(package: str) -> str | None:
    try:
        return importlib.metadata.version(package)
    except importlib.metadata.PackageNotFoundError:
        return None
