"""Programs in Triton's language, run by its own interpreter, in NumPy.

The interpreter knows neither instructions of the hardware nor CUDA's library: what the kernels take
of these stands here. It has no arithmetic in bfloat16, and counts `~` of unsigned numbers as an
error.
"""

from __future__ import annotations

import contextlib
import functools
import linecache
from collections.abc import Callable, Iterator, Sequence
from types import SimpleNamespace
from typing import Any

import jax
import numpy as np
import pytest
from jax.extend import core

from jscan.kernels.engines import source
from jscan.kernels.language import Body

triton = pytest.importorskip("triton", reason="Triton's wheel is not installed")
tl = pytest.importorskip("triton.language")
runtime = pytest.importorskip("triton.runtime.interpreter")


def _bits(x: Any) -> Any:
    return x.view(f"u{x.dtype.itemsize}")


def _leading_zeros(x: Any) -> Any:
    width = x.dtype.itemsize * 8
    lengths = [width - int(v).bit_length() for v in _bits(x).ravel()]
    return np.asarray(lengths, np.int32).reshape(x.shape)


FUNCTIONS: dict[str, Callable[..., Any]] = {
    **{name: getattr(np, name) for name in ("exp", "exp2", "expm1", "log", "log2", "log1p")},
    **{name: getattr(np, name) for name in ("sin", "cos", "tan", "sinh", "cosh", "tanh")},
    **{name: getattr(np, name) for name in ("sqrt", "cbrt", "fmod", "rint", "ceil", "floor")},
    **{f"a{name}": getattr(np, f"arc{name}") for name in ("sin", "cos", "tan", "tan2")},
    **{f"a{name}": getattr(np, f"arc{name}") for name in ("sinh", "cosh", "tanh")},
    "nextafter": np.nextafter,
    "pow": np.power,
    "rsqrt": lambda x: 1 / np.sqrt(x),
    "round": lambda x: np.trunc(x + np.copysign(0.5, x)),
    "erf": jax.scipy.special.erf,
    "erfc": jax.scipy.special.erfc,
    "erfinv": jax.scipy.special.erfinv,
    "lgamma": jax.scipy.special.gammaln,
    "popc": lambda x: np.bitwise_count(_bits(x)).astype(np.int32),
    "clz": _leading_zeros,
}
"""CUDA's library, by names."""


def _library(name: str) -> Callable[..., Any]:
    def call(*arguments: Any) -> Any:
        arrays = np.broadcast_arrays(*(x.handle.data for x in arguments))
        found = np.asarray(FUNCTIONS[name](*arrays))
        dtype = arguments[0].dtype if found.dtype.kind == "f" else tl.int32
        found = found.astype(runtime._get_np_dtype(dtype))
        largest = max(arguments, key=lambda x: x.handle.data.size).type
        kind = largest.with_element_ty(dtype) if largest.is_block() else dtype
        return tl.core.tensor(runtime.TensorHandle(found, dtype), kind)

    return call


def _assembly(builder: Any, text: str, constraints: str, values: Any, *others: Any) -> Any:
    """What an instruction makes of its operand; for moves and pauses, the operand."""
    del builder, constraints, others
    [operand] = values
    data = operand.data
    if "popc" in text:
        handle = runtime.TensorHandle(_in_words(text, data), tl.int32)
        return SimpleNamespace(get_result=[handle].__getitem__)
    if text.startswith("ex2"):
        data = np.exp2(data)
    elif text.startswith("lg2"):
        data = np.log2(data)
    elif text.startswith("prmt"):
        data = _permuted(text, data)
    handle = runtime.TensorHandle(data.copy(), operand.dtype.scalar)
    return SimpleNamespace(get_result=[handle].__getitem__)


WORDS: dict[str, Callable[..., Any]] = {
    "and.b32": np.bitwise_and,
    "or.b32": np.bitwise_or,
    "add.u32": np.add,
    "popc.b32": np.bitwise_count,
    "mov.b32": np.asarray,
}


def _in_words(text: str, data: Any) -> Any:
    """What instructions make of four bytes at once, which are a word of 32 bits."""
    words = np.ascontiguousarray(data).view(np.uint32)
    names = {"$4": words}
    for line in text.strip("{} ;").split(";")[1:]:
        name, into, *given = line.replace(",", "").split()
        read = [names[x] if x in names else np.uint32(int(x, 0)) for x in given]
        names[into] = WORDS[name](*read)
    *results, _ = np.broadcast_arrays(*(names[f"${place}"] for place in range(4)), words)
    return np.stack(results, -1).astype(np.int32).reshape(data.shape)


def _permuted(text: str, data: Any) -> Any:
    """What a permutation of bytes makes of words: each a byte, or its sign."""
    selector = int(text.rstrip("; ").split(",")[-1], 0)
    octets = np.ascontiguousarray(data).view(np.int8).reshape(*data.shape, 4)
    chosen = [(selector >> 4 * place) & 15 for place in range(4)]
    found = [octets[..., c & 3] >> 7 if c & 8 else octets[..., c & 3] for c in chosen]
    return np.stack(found, -1).view(np.int32).reshape(data.shape)


def _splat(builder: Any, kind: Any, operand: Any) -> Any:
    """A scalar as a tensor of the same type: of comparisons, Triton 3.9's own makes numbers."""
    del builder
    return runtime.TensorHandle(np.full(kind.shape, operand.data.ravel()[0]), operand.dtype.scalar)


class Pointer:
    """An array as an argument of a kernel."""

    def __init__(self, array: np.ndarray[Any, Any]):
        self._array = array
        name = array.dtype.name
        # Complex numbers are in memory what their parts are.
        self.dtype = {"bool": "int1", "complex64": "float32"}.get(name, name)

    def data_ptr(self) -> int:
        """Where the array is in memory."""
        return self._array.ctypes.data


def _as_they_are(executor: Any, *arguments: Any) -> Any:
    """Arguments are on the host already, and stay there."""
    del executor
    return arguments


@contextlib.contextmanager
def interpreting() -> Iterator[None]:
    """A context in which the interpreter takes instructions, and arrays of NumPy."""
    with pytest.MonkeyPatch.context() as patched, np.errstate(all="ignore"):
        patched.setattr(runtime.InterpreterBuilder, "create_inline_asm", _assembly)
        patched.setattr(runtime.InterpreterBuilder, "create_splat", _splat)
        patched.setattr(runtime.GridExecutor, "_init_args_hst", _as_they_are)
        patched.setattr(runtime.GridExecutor, "_restore_args_dev", _as_they_are)
        patched.setattr(triton.knobs.runtime, "interpret", True)
        yield


@functools.lru_cache(maxsize=256)
def _function(name: str, text: str) -> Any:
    text = text.replace("from triton.language.extra import libdevice\n", "")
    file = f"<interpreted {hash(text)}>"
    linecache.cache[file] = (len(text), None, text.splitlines(True), file)
    library = SimpleNamespace(**{name: _library(name) for name in FUNCTIONS})
    names: dict[str, Any] = {"__name__": "interpreted", "libdevice": library}
    exec(compile(text, file, "exec"), names)
    return names[name]


AROUND = 4096
"""Bytes of ones on both sides of an array: numbers that are none, or -1."""


def run(program: source.Program, arrays: Sequence[np.ndarray[Any, Any]]) -> None:
    """Runs a program on the arrays that are its parameters, in place.

    What it reads beside an array is seen in the results, and what it writes there is an error.
    """
    memory = [np.full(x.nbytes + 2 * AROUND, 0xFF, np.uint8) for x in arrays]
    inside = []
    for x, around in zip(arrays, memory, strict=True):
        inside.append(around[AROUND : AROUND + x.nbytes].view(x.dtype).reshape(x.shape))
        inside[-1][...] = x
    with interpreting():
        function = _function(program.name, program.text)
        function[(program.programs,)](*map(Pointer, inside))
    for x, found, around in zip(arrays, inside, memory, strict=True):
        sides = around[:AROUND], around[AROUND + x.nbytes :]
        assert all((side == 0xFF).all() for side in sides), f"{program.name} writes beside an array"
        if x.flags.writeable:
            x[...] = found


class Engine:
    """The `jscan.kernels.engines.Engine` that writes programs and has them interpreted."""

    NAME = "Triton's interpreter"

    def run(
        self,
        body: Body,
        operands: Sequence[jax.Array],
        starts: Sequence[jax.Array],
        results: Sequence[jax.ShapeDtypeStruct],
        *,
        programs: int,
        warps: int,
        name: str,
        interpret: bool,
    ) -> list[jax.Array]:
        """Runs the program when the arrays are there."""
        del interpret
        inputs = [jax.ShapeDtypeStruct(x.shape, x.dtype) for x in operands]
        outputs = [jax.ShapeDtypeStruct(x.shape, x.dtype) for x in results]
        program = source.program(
            *(body, inputs, len(starts), outputs), programs=programs, warps=warps, name=name
        )
        fresh = outputs[: len(results) - len(starts)]

        def call(*given: Any) -> tuple[Any, ...]:
            arrays = [np.array(x) for x in given]
            undefined = [np.ones(x.shape, x.dtype) for x in fresh]
            run(program, [*arrays, *undefined])
            return (*undefined, *arrays[len(operands) :])

        return list(jax.pure_callback(call, tuple(outputs), *operands, *starts))

    def why_inexpressible(self, jaxpr: core.ClosedJaxpr) -> str | None:
        """What `engines.Engine` says."""
        return source.why_inexpressible(jaxpr)
