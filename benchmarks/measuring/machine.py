"""What a measurement ran on, and a GPU to lower for where there is none."""

from __future__ import annotations

import contextlib
import datetime
import importlib.metadata
import os
import pathlib
import platform
import re
import subprocess
from collections.abc import Iterator, Sequence
from typing import Any

import jax
import jax.monitoring
import numpy as np

import jscan
from benchmarks.measuring import outside

REPOSITORY = pathlib.Path(__file__).resolve().parents[2]


def has_gpu() -> bool:
    """Whether JAX's default backend is a CUDA GPU."""
    return jax.default_backend() == "gpu" and "cuda" in _platform_version()


def device_name() -> str:
    """The kind of the first device, as part of a file's name."""
    return re.sub(r"[^a-z0-9]+", "-", jax.devices()[0].device_kind.lower()).strip("-")


def record(commit: str | None = None) -> dict[str, Any]:
    """Device, versions, commit and date. ``commit`` stands in where there is no git to ask."""
    cuda = re.search(r"cuda (\d+)", _platform_version())
    number = int(cuda.group(1)) if cuda else 0
    changed = _output("git", "status", "--porcelain", "--", "jscan", "benchmarks")
    return {
        "device": jax.devices()[0].device_kind,
        "driver": _output(
            "nvidia-smi", "--query-gpu=driver_version", "--format=csv,noheader", "--id=0"
        )
        if has_gpu()
        else None,
        "cuda": f"{number // 1000}.{number % 1000 // 10}" if number else None,
        "python": platform.python_version(),
        "jax": jax.__version__,
        "jaxlib": importlib.metadata.version("jaxlib"),
        "numpy": np.__version__,
        "jscan": jscan.__version__,
        **_others(),
        "commit": commit or _output("git", "rev-parse", "HEAD"),
        "uncommitted_changes": None if changed is None else bool(changed),
        "date": datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds"),
    }


def company() -> dict[str, Any]:
    """The processor, how many there are for this process, and how much else ran on the machine.

    The load is that of the minutes before the measurement.
    """
    processors = len(os.sched_getaffinity(0))
    load = os.getloadavg()[1]
    return {
        "processor": _processor(),
        "processors": processors,
        "of": os.cpu_count(),
        "load_before": round(load, 2),
        "shared": load > 0.5,
    }


def _processor() -> str | None:
    """The processor's name, where Linux tells it."""
    with contextlib.suppress(OSError):
        told = pathlib.Path("/proc/cpuinfo").read_text(encoding="utf-8")
        named = re.search(r"^model name\s*: (.+)$", told, re.MULTILINE)
        return named.group(1).strip() if named else None
    return None


def _others() -> dict[str, str | None]:
    """Versions of the libraries outside JAX; CUB's is that of the compiler it came with."""
    found = outside.versions()
    return {"nvcc" if name == "cub" else name: version for name, version in found.items()}


@contextlib.contextmanager
def abstract_gpus(count: int = 1) -> Iterator[None]:
    """GPUs that programs can be lowered for, and that need not exist: a mesh of one axis, x."""
    device = jax.sharding.AbstractDevice(device_kind="NVIDIA H200", num_cores=None, platform="gpu")
    auto = (jax.sharding.AxisType.Auto,)
    mesh = jax.sharding.AbstractMesh((count,), ("x",), axis_types=auto, abstract_device=device)
    with jax.sharding.use_abstract_mesh(mesh):
        yield


def kernel_calls(program: str) -> int:
    """How many kernels a lowered program calls, by whichever engine."""
    return program.count("@__gpu$xla.gpu.triton") + program.count("@triton_kernel_call")


def lower_for_cuda(fn: Any, operands: Sequence[Any]) -> jax.stages.Lowered:
    """Lowers ``fn`` for a CUDA GPU, on any machine."""
    with contextlib.nullcontext() if has_gpu() else abstract_gpus():
        return jax.jit(fn).trace(*operands).lower(lowering_platforms=("cuda",))


_compiled: list[str] = []


def _count(event: str, duration_secs: float, **_: str | int) -> None:
    del duration_secs
    if event == "/jax/core/compile/backend_compile_duration":
        _compiled.append(event)


jax.monitoring.register_event_duration_secs_listener(_count)


@contextlib.contextmanager
def compilations() -> Iterator[list[str]]:
    """The programs that are compiled in a block, as JAX counts them."""
    found: list[str] = []
    before = len(_compiled)
    yield found
    found += _compiled[before:]


def _platform_version() -> str:
    return str(jax.devices()[0].client.platform_version)


def _output(*command: str) -> str | None:
    """What a command prints; None where there is no such command or it fails."""
    try:
        done = subprocess.run(
            command, capture_output=True, text=True, check=True, cwd=REPOSITORY, timeout=20
        )
    except (OSError, subprocess.SubprocessError):
        return None
    return done.stdout.strip()


def told(error: Exception, most: int = 500) -> str:
    """An error as results keep it: its type and message, without the folders of this machine."""
    message = re.sub(r"(?<![\w.])(?:/[\w.+-]+)+/(?=[\w.+-])", "", str(error))
    return f"{type(error).__name__}: {message}"[:most]
