"""The same operations by libraries other than JAX, in the same process and on the same arrays.

Arrays go to them through DLPack or as pointers, without a copy. They are timed by CUDA events, one
before and one behind each call, in a queue that is kept full: what an event measures is the GPU's
work and what is around it, 6 microseconds in all at the least. Whatever goes wrong in a library,
its absence included, is an answer: why there are no times.
"""

from __future__ import annotations

import contextlib
import functools
import importlib
import importlib.metadata
import warnings
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Protocol

import jax
import jax.numpy as jnp
import numpy as np

from benchmarks.cases.case import Peer
from benchmarks.measuring import cub

NOT_INSTALLED = "not installed"
LONGEST = 200.0  # milliseconds of all calls together, beyond which there are fewer of them
FILLS = 20  # of `SCRATCH` bytes each: more than a millisecond, in which all calls are queued
SCRATCH = 2**28

Prepared = Callable[..., Callable[[], Any]]
"""The call to time, of the library, the shape of the result, and the operands."""

Measured = tuple[list[float], Any]
"""Microseconds of each call, and the last one's result, as JAX can take it."""


class Library(Protocol):
    """What this module asks of a library; any of it may raise."""

    def version(self) -> str | None:
        """Its version; None where it is not installed."""

    def start(self) -> None:
        """Begins whatever takes long before a first call, and does not wait for it."""

    def time(
        self,
        operation: str,
        axis: int,
        operands: Sequence[jax.Array],
        like: jax.Array,
        iterations: int,
    ) -> Measured:
        """Times calls on ``operands``, whose result has the shape and dtype of ``like``."""

    def release(self) -> None:
        """Gives memory that it keeps for later back to the GPU."""


def available(name: str) -> bool:
    """Whether a library is installed."""
    return versions()[name] is not None


def versions() -> dict[str, str | None]:
    """Versions of the libraries that are installed, None for the others."""
    return {name: library.version() for name, library in LIBRARIES.items()}


def start(peers: Sequence[Peer]) -> None:
    """Lets the libraries of ``peers`` begin with what takes long."""
    for name in {peer.library for peer in peers}:
        with contextlib.suppress(Exception):  # the same error comes back from the first call
            LIBRARIES[name].start()


def measure(
    peer: Peer,
    operands: Sequence[jax.Array],
    like: jax.Array,
    error: Callable[[jax.Array, jax.Array], Any],
    iterations: int,
) -> tuple[list[float], float] | str:
    """Microseconds of each call and how far its result is from ``like``, or why there are none."""
    library = LIBRARIES[peer.library]
    try:
        if library.version() is None:
            return NOT_INSTALLED
        times, result = library.time(peer.operation, peer.axis, operands, like, iterations)
        if not isinstance(result, jax.Array):
            with jax.enable_x64(True):  # libraries count in 64 bits
                result = jnp.from_dlpack(result).astype(like.dtype)
        return times, float(error(result.astype(like.dtype).reshape(like.shape), like))
    except Exception as failure:  # a library's failure is not the case's
        return f"{type(failure).__name__}: {failure}"[:200]
    finally:
        with contextlib.suppress(Exception):
            library.release()


def distance(result: jax.Array, like: jax.Array) -> jax.Array:
    """The largest absolute difference; equal infinities have none."""
    is_complex = jnp.issubdtype(like.dtype, jnp.complexfloating)
    with jax.enable_x64(True):
        wide = jnp.complex128 if is_complex else jnp.float64
        gaps = jnp.abs(result.astype(wide) - like.astype(wide))
        return jnp.max(jnp.where(result == like, jnp.zeros_like(gaps), gaps))


def timed(
    call: Callable[[], Any],
    record: Callable[[], Any],
    elapsed: Callable[[Any, Any], float],
    keep_busy: Callable[[], None],
    iterations: int,
) -> Measured:
    """Times calls by events.

    ``record`` puts an event into the queue; ``elapsed`` waits for the later of two and returns the
    milliseconds between them.
    """
    call()  # compiles, and allocates
    begin, result, end = record(), call(), record()
    affordable = int(LONGEST / max(elapsed(begin, end), 1e-3))
    keep_busy()
    events = []
    for _ in range(max(1, min(iterations, affordable))):
        begin = record()
        result = call()
        events.append((begin, record()))
    return [1e3 * elapsed(*pair) for pair in events], result


class Arrays:
    """A library of arrays that DLPack hands over, by the packages that install it."""

    module: str
    packages: tuple[str, ...]
    operations: Mapping[str, Callable[[Any, Any, int], Any]]
    of_several: Mapping[str, Prepared]
    """Operations of several operands, or of more than an axis."""

    def version(self) -> str | None:
        """That of the first of these packages that is installed."""
        for name in self.packages:
            with contextlib.suppress(importlib.metadata.PackageNotFoundError):
                return importlib.metadata.version(name)
        return None

    def start(self) -> None:
        """Does nothing: no call takes long to prepare."""

    def time(
        self,
        operation: str,
        axis: int,
        operands: Sequence[jax.Array],
        like: jax.Array,
        iterations: int,
    ) -> Measured:
        """See `Library`."""
        library: Any = importlib.import_module(self.module)
        call = self.prepared(library, operation, axis, operands, like)
        record, elapsed, fill = self.clock(library)

        def keep_busy() -> None:
            for _ in range(FILLS):
                fill()

        return timed(call, record, elapsed, keep_busy, iterations)

    def prepared(
        self,
        library: Any,
        operation: str,
        axis: int,
        operands: Sequence[jax.Array],
        like: jax.Array,
    ) -> Callable[[], Any]:
        """The call that is timed."""
        arrays = [library.from_dlpack(x) for x in operands]
        if operation in self.of_several:
            return self.of_several[operation](library, like.shape, *arrays)
        return functools.partial(self.operations[operation], library, arrays[0], axis)

    def clock(self, library: Any) -> tuple[Callable[..., Any], ...]:
        """`timed`'s ``record`` and ``elapsed``, and what occupies the GPU for a while."""
        raise NotImplementedError


def _torch_product(torch: Any, shape: Any, values: Any, indices: Any, offsets: Any, x: Any) -> Any:
    shape = (shape[0], x.shape[0])
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", "Sparse", UserWarning)  # unchecked, and a beta
        matrix = torch.sparse_csr_tensor(offsets, indices, values, shape, check_invariants=False)
    return lambda: matrix @ x


def _cupy_product(cupy: Any, shape: Any, values: Any, indices: Any, offsets: Any, x: Any) -> Any:
    del cupy
    sparse: Any = importlib.import_module("cupyx.scipy.sparse")
    matrix = sparse.csr_matrix((values, indices, offsets), (shape[0], x.shape[0]))
    return lambda: matrix @ x


class Torch(Arrays):
    """PyTorch."""

    module = "torch"
    packages = ("torch",)
    operations: Mapping[str, Callable[[Any, Any, int], Any]] = {
        "cumsum": lambda torch, x, axis: torch.cumsum(x, axis, dtype=x.dtype),
        "cumprod": lambda torch, x, axis: torch.cumprod(x, axis, dtype=x.dtype),
        "cummax": lambda torch, x, axis: torch.cummax(x, axis).values,
        "cummin": lambda torch, x, axis: torch.cummin(x, axis).values,
        "logcumsumexp": lambda torch, x, axis: torch.logcumsumexp(x, axis),
        "sum": lambda torch, x, axis: torch.sum(x, axis, dtype=x.dtype),
    }
    of_several: Mapping[str, Prepared] = {
        "csr_matvec": _torch_product,
        "nonzero_static": lambda torch, shape, mask: functools.partial(
            torch.nonzero_static, mask, size=shape[0], fill_value=0
        ),
        "bincount": lambda torch, shape, keys: functools.partial(
            torch.bincount, keys, minlength=shape[0]
        ),
    }

    def clock(self, library: Any) -> tuple[Callable[..., Any], ...]:
        """Events of PyTorch's stream."""
        scratch = library.empty(SCRATCH, dtype=library.uint8, device="cuda")

        def record() -> Any:
            event = library.cuda.Event(enable_timing=True)
            event.record()
            return event

        def elapsed(begin: Any, end: Any) -> float:
            end.synchronize()
            milliseconds: float = begin.elapsed_time(end)
            return milliseconds

        return record, elapsed, scratch.zero_

    def release(self) -> None:
        """Gives PyTorch's cached blocks back."""
        importlib.import_module("torch").cuda.empty_cache()


class Compute(Torch):
    """CUB through ``cuda.compute`` of the package cuda-cccl, on PyTorch's memory and events."""

    packages = ("cuda-cccl",)

    def version(self) -> str | None:
        """Its version; None where it or PyTorch is not installed."""
        return super().version() if Torch().version() else None

    def prepared(
        self,
        library: Any,
        operation: str,
        axis: int,
        operands: Sequence[jax.Array],
        like: jax.Array,
    ) -> Callable[[], Any]:
        """A sum, by an algorithm that is built before and has its temporary storage."""
        del axis
        compute: Any = importlib.import_module("cuda.compute")
        x = library.from_dlpack(operands[0])
        out = library.empty(tuple(like.shape) or (1,), dtype=x.dtype, device=x.device)
        fixed = {"d_in": x, "d_out": out, "op": compute.OpKind.PLUS}
        if operation == "inclusive_scan":
            algorithm = compute.make_inclusive_scan(**fixed)
            fixed["init_value"] = None
        else:
            zero = np.zeros(1, like.dtype)
            algorithm = compute.make_reduce_into(**fixed, h_init=zero)
            fixed["h_init"] = zero
        run = functools.partial(algorithm, **fixed, num_items=x.numel())
        storage = library.empty(run(temp_storage=None), dtype=library.uint8, device=x.device)

        def call() -> Any:
            run(temp_storage=storage)
            return out

        return call


class CuPy(Arrays):
    """CuPy."""

    module = "cupy"
    packages = ("cupy", "cupy-cuda13x", "cupy-cuda12x")
    operations: Mapping[str, Callable[[Any, Any, int], Any]] = {
        "cumsum": lambda cupy, x, axis: cupy.cumsum(x, axis, dtype=x.dtype),
        "cumprod": lambda cupy, x, axis: cupy.cumprod(x, axis, dtype=x.dtype),
        "sum": lambda cupy, x, axis: cupy.sum(x, axis, dtype=x.dtype),
    }
    of_several: Mapping[str, Prepared] = {
        "csr_matvec": _cupy_product,
        "bincount": lambda cupy, shape, keys: functools.partial(
            cupy.bincount, keys, minlength=shape[0]
        ),
    }

    def clock(self, library: Any) -> tuple[Callable[..., Any], ...]:
        """Events of CuPy's stream."""
        scratch = library.empty(SCRATCH, library.uint8)

        def record() -> Any:
            event = library.cuda.Event()
            event.record()
            return event

        def elapsed(begin: Any, end: Any) -> float:
            end.synchronize()
            milliseconds: float = library.cuda.get_elapsed_time(begin, end)
            return milliseconds

        return record, elapsed, functools.partial(scratch.fill, 0)

    def release(self) -> None:
        """Gives CuPy's pooled blocks back."""
        importlib.import_module("cupy").get_default_memory_pool().free_all_blocks()


LIBRARIES: dict[str, Library] = {
    "torch": Torch(),
    "cupy": CuPy(),
    "cuda.compute": Compute(),
    "cub": cub.Cub(),
}
"""By the names that they have among peers."""
