"""CUB's own algorithms, compiled from cub.cu by nvcc where there is one, and called by ctypes."""

from __future__ import annotations

import contextlib
import ctypes
import dataclasses
import functools
import pathlib
import re
import shutil
import subprocess
import tempfile
from collections.abc import Callable, Sequence

import jax
import jax.numpy as jnp

SOURCE = pathlib.Path(__file__).with_name("cub.cu")
USUAL_PLACE = "/usr/local/cuda/bin/nvcc"
PATIENCE = 300.0  # seconds that nvcc may take


@dataclasses.dataclass
class Build:
    """nvcc at work in a folder of its own, and the shared object that it makes there."""

    folder: tempfile.TemporaryDirectory[str]
    target: pathlib.Path
    process: subprocess.Popen[bytes]

    def finished(self) -> ctypes.CDLL:
        """Waits, and loads what was built, whose file is not needed any more then."""
        with self.folder:
            _, said = self.process.communicate(timeout=PATIENCE)
            if self.process.returncode != 0:
                raise RuntimeError(f"nvcc: {said.decode(errors='replace').strip()[:150]}")
            loaded = ctypes.CDLL(str(self.target))
        loaded.explain.restype = ctypes.c_char_p
        return loaded


def nvcc() -> str | None:
    """The compiler; None where there is none."""
    return shutil.which("nvcc") or shutil.which(USUAL_PLACE)


@functools.cache
def nvcc_version() -> str | None:
    """Its version, which is that of the toolkit that CUB came with; None where there is none."""
    compiler = nvcc()
    if compiler is None:
        return None
    with contextlib.suppress(OSError, subprocess.SubprocessError):
        said = subprocess.run(
            [compiler, "--version"], capture_output=True, text=True, check=True, timeout=20
        ).stdout
        found = re.search(r"V(\d+(\.\d+)+)", said)
        return found.group(1) if found else None
    return None


def capability() -> str:
    """The GPU's compute capability, without its point."""
    return str(jax.devices()[0].compute_capability).replace(".", "")


class Cub:
    """CUB, one of the libraries of `benchmarks.measuring.outside`."""

    def __init__(self) -> None:
        self._build: Build | None = None
        self._loaded: ctypes.CDLL | Exception | None = None

    def version(self) -> str | None:
        """The version of the compiler; None where there is none."""
        return nvcc_version()

    def start(self) -> None:
        """Begins to compile, which takes some twenty seconds of one processor."""
        compiler = nvcc()
        if self._build is not None or compiler is None:
            return
        folder = tempfile.TemporaryDirectory(prefix="jscan-cub-")
        target = pathlib.Path(folder.name, "cub.so")
        command = [compiler, "-O3", "-std=c++17", f"-arch=sm_{capability()}", "-shared"]
        command += ["-Xcompiler", "-fPIC", "-o", str(target), str(SOURCE)]
        process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE)
        self._build = Build(folder, target, process)

    def time(
        self,
        operation: str,
        axis: int,
        operands: Sequence[jax.Array],
        like: jax.Array,
        iterations: int,
    ) -> tuple[list[float], jax.Array]:
        """Microseconds of each call, and the result."""
        if axis != 0 or operands[0].ndim != 1:
            raise ValueError(f"cub.{operation} takes one row")
        function = getattr(self._library(), f"{operation}_{like.dtype.name}")
        read = [operands[0], *_DESCRIPTORS.get(operation, _as_they_are)(like, *operands[1:])]
        segments = read[1].size - 1 if operation in _BETWEEN_OFFSETS else like.size
        out = jnp.zeros(like.shape, like.dtype)
        jax.block_until_ready((read, out))
        milliseconds = (ctypes.c_float * iterations)()
        calls = ctypes.c_int(iterations)
        status = function(
            (ctypes.c_void_p * len(read))(*(x.unsafe_buffer_pointer() for x in read)),
            ctypes.c_void_p(out.unsafe_buffer_pointer()),
            ctypes.c_int(operands[0].size),
            ctypes.c_int(segments),
            ctypes.byref(calls),
            milliseconds,
        )
        if status:
            raise RuntimeError(f"cub.{operation}: {self._library().explain(status).decode()}")
        return [1e3 * ms for ms in milliseconds[: calls.value]], out

    def release(self) -> None:
        """Does nothing: it keeps no memory of the GPU."""

    def _library(self) -> ctypes.CDLL:
        """What was built, or once more the error that it ended with."""
        if self._loaded is None:
            self.start()
            try:
                assert self._build is not None
                self._loaded = self._build.finished()
            except Exception as error:
                self._loaded = error
        if isinstance(self._loaded, Exception):
            raise self._loaded
        return self._loaded


@jax.jit
def keys_of(heads: jax.Array) -> jax.Array:
    """A number for each segment, from head flags."""
    return jnp.cumsum(heads != 0, dtype=jnp.int32)


@functools.partial(jax.jit, static_argnums=1)
def offsets_of(ids: jax.Array, count: int) -> jax.Array:
    """Where each of ``count`` segments of sorted ids begins, and the last one ends."""
    return jnp.searchsorted(ids, jnp.arange(count + 1, dtype=ids.dtype)).astype(jnp.int32)


def _as_they_are(like: jax.Array, *described: jax.Array) -> list[jax.Array]:
    del like
    return [*described]


def _keys(like: jax.Array, heads: jax.Array) -> list[jax.Array]:
    del like
    return [keys_of(heads)]


def _offsets(like: jax.Array, ids: jax.Array) -> list[jax.Array]:
    return [offsets_of(ids, like.size)]


def _known_offsets(like: jax.Array, ids: jax.Array) -> list[jax.Array]:
    """Of as many segments as sorted ids tell."""
    del like
    return [offsets_of(ids, int(ids[-1]) + 1)]


_BETWEEN_OFFSETS = ("SegmentedSum", "SegmentedSort")
"""What takes segments that are between offsets."""

_DESCRIPTORS: dict[str, Callable[..., list[jax.Array]]] = {
    "InclusiveSumByKey": _keys,
    "SegmentedSum": _offsets,
    "SegmentedSort": _known_offsets,
}
"""What an operation reads beside the values, in the form that CUB takes; made before it is timed.
The keys that others take are what they are."""
