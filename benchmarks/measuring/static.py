"""What a compiler says of kernels, on a machine without a GPU.

    call ──► lowered for CUDA ──► the engine's form of each kernel ──► Triton ──► PTX ──► ptxas

Both engines' forms are compiled by the compiler in the triton wheel: the first engine's is Triton's
IR, which XLA compiles by a Triton of its own when the program runs, and the second engine's is a
program in Triton's language, which runs as it is compiled here.
"""

from __future__ import annotations

import collections
import concurrent.futures
import contextlib
import dataclasses
import functools
import hashlib
import importlib.metadata
import io
import multiprocessing
import os
import pathlib
import re
import tempfile
from collections.abc import Callable, Iterator, Sequence
from typing import Any, TypeVar

import jax
import jax.numpy as jnp

import jscan
from benchmarks.cases import static as cases
from benchmarks.cases.static import Call
from benchmarks.measuring import machine, triton_ir
from jscan import engines
from jscan.kernels.engines.source import compiling
from jscan.programs import WITHOUT_GPU

ENGINES = ("pallas", "jax-triton")
GLOBAL, SHARED = "global", "shared"


@dataclasses.dataclass(frozen=True)
class Looks:
    """What a kernel of a call looks like to the GPU.

    Attributes:
      number: its place among kernels of its name in the call.
      loads: accesses to the GPU's memory in the program, each once even if it is in a loop, by the
        bytes that a thread reads in one.
      stores: the same of writes, atomic operations among them.
      shared_loads: accesses to memory that a program's warps share.
      shared_stores: the same of writes.
      shared: bytes of that memory.
      instructions: lines of PTX that are one.
      text: a digest of the kernel as the engine puts it, from which the rest follows.
    """

    call: str
    engine: str
    kernel: str
    number: int
    warps: int
    registers: int
    spilled: int
    loads: dict[str, int]
    stores: dict[str, int]
    shared_loads: int
    shared_stores: int
    shared: int
    instructions: int
    text: str = ""

    @property
    def key(self) -> tuple[str, str, str, int]:
        """What tells it from the others of a report."""
        return self.call, self.engine, self.kernel, self.number


# --- one kernel ---------------------------------------------------------------------------------


def compiled_ir(kernel: triton_ir.Kernel, capability: int) -> Any:
    """What Triton makes of a kernel in its IR, as `compiling.compiled` does of a program."""
    import triton
    from triton._C.libtriton import ir
    from triton.backends.compiler import GPUTarget, Language
    from triton.compiler.compiler import make_backend

    target = GPUTarget("cuda", capability, 32)
    backend = make_backend(target)
    told = {"num_warps": kernel.warps, "num_stages": 1, **compiling.OPTIONS}
    with tempfile.TemporaryDirectory() as folder:
        path = pathlib.Path(folder, "kernel.ttir")
        path.write_text(kernel.text)
        context = ir.context()
        ir.load_dialects(context)
        backend.load_dialects(context)
        module = ir.parse_mlir_module(str(path), context)
        module.context = context
        # Triton takes a file for what comes behind this stage, so that it has to be done before.
        stages: dict[str, Callable[..., Any]] = {}
        backend.add_stages(stages, backend.parse_options(told), Language.TRITON)
        path.write_text(str(stages["ttir"](module, {})))
        return triton.compile(str(path), target=target, options=told)


def with_resources(compile_it: Callable[[], Any]) -> tuple[Any, int, int]:
    """What is compiled, with the registers of a thread and the bytes that it spills."""
    import triton

    said = io.StringIO()
    with contextlib.ExitStack() as stack:
        stack.enter_context(triton.knobs.nvidia.scope())
        stack.enter_context(triton.knobs.cache.scope())
        stack.enter_context(contextlib.redirect_stdout(said))
        triton.knobs.nvidia.dump_ptxas_log = True
        # What is found in a cache is not compiled, and ptxas says nothing of it.
        triton.knobs.cache.dir = stack.enter_context(tempfile.TemporaryDirectory())
        found = compile_it()
    registers, spilled = (
        re.search(pattern, said.getvalue())
        for pattern in (r"Used (\d+) registers", r"(\d+) bytes spill stores")
    )
    if registers is None or spilled is None:
        raise RuntimeError(f"ptxas says nothing of registers: {said.getvalue()!r}")
    return found, int(registers[1]), int(spilled[1])


_ACCESS = re.compile(
    r"\b(ld|st|atom|red|ldmatrix|stmatrix)(?:\.\w+)*?\.(global|shared)\b[\w.:]*?(?:\.v([248]))?\.[a-z]+(\d+)\s"
)
_INSTRUCTION = re.compile(r"^\s*(?:@!?%p\d+\s+)?[a-z][\w.:]*\s.*;", re.MULTILINE)


def accesses(ptx: str) -> dict[tuple[str, str], dict[str, int]]:
    """Accesses by what they are ("loads" or "stores") and the memory, counted by width in bytes."""
    counts: collections.Counter[tuple[str, str, int]] = collections.Counter()
    for what, memory, times, bits in _ACCESS.findall(ptx):
        width = int(times or 1) * int(bits) // 8
        counts["loads" if what.startswith("ld") else "stores", memory, width] += 1
    found: dict[tuple[str, str], dict[str, int]] = {}
    for (what, memory, width), count in sorted(counts.items(), reverse=True):
        found.setdefault((what, memory), {})[str(width)] = count
    return found


def digest(kernel: Any) -> str:
    """Of all that a compiler is told of a kernel."""
    return hashlib.sha256(repr(kernel).encode()).hexdigest()[:16]


def _looks(call: str, engine: str, number: int, kernel: Any) -> Looks:
    def compile_it() -> Any:
        compile_form = compiling.compiled if engine == "jax-triton" else compiled_ir
        return compile_form(kernel, WITHOUT_GPU)

    found, registers, spilled = with_resources(compile_it)
    ptx = found.asm["ptx"]
    counts = accesses(ptx)
    return Looks(
        *(call, engine, kernel.name, number, kernel.warps, registers, spilled),
        loads=counts.get(("loads", GLOBAL), {}),
        stores=counts.get(("stores", GLOBAL), {}),
        shared_loads=sum(counts.get(("loads", SHARED), {}).values()),
        shared_stores=sum(counts.get(("stores", SHARED), {}).values()),
        shared=found.metadata.shared,
        instructions=len(_INSTRUCTION.findall(ptx)),
        text=digest(kernel),
    )


# --- calls --------------------------------------------------------------------------------------


def forms(call: Call, engine: str) -> list[Any]:
    """The kernels of a call as an engine puts them, each once."""

    def program(*arrays: Any) -> Any:  # new for jax, which would not lower what it has lowered
        return call.fn(*arrays)

    operands = [jax.ShapeDtypeStruct(shape, jnp.dtype(d)) for shape, d in call.operands]
    with jax.enable_x64(call.takes_64_bits), machine.abstract_gpus(call.devices):
        traced = functools.partial(jax.jit(program).trace, *operands)
        found: list[Any]
        if engine == "jax-triton":
            with engines.writing() as written:
                traced().lower(lowering_platforms=("cuda",))
            found = written.programs
        else:
            with engines.named(engine):
                found = triton_ir.kernels_of(traced().lower(lowering_platforms=("cuda",)))
    return list(dict.fromkeys(found))


def here() -> list[str]:
    """The engines whose kernels can be had as text: those of the second, on any jax."""
    return [name for name in ENGINES if name != "pallas" or engines.why_missing(name) is None]


def turns(*, by_turns: bool) -> dict[str, tuple[str, ...]]:
    """The engines that each call is looked at by: those that are here, or one of them in turn."""
    every = tuple(here())
    return {
        name: (every[place % len(every)],) if by_turns else every
        for place, name in enumerate(cases.calls())
    }


def looks_of(told: tuple[str, Sequence[str]], known: Sequence[Looks] = ()) -> list[Looks]:
    """The kernels of the call of this name, in the forms of these engines."""
    name, names_of_engines = told
    return looks_at(cases.calls()[name], names_of_engines, known)


def looks_at(call: Call, engines: Sequence[str], known: Sequence[Looks] = ()) -> list[Looks]:
    """The kernels of a call, in the forms of these engines; those that are ``known`` as they were.

    That is by their text, and the versions are those that they were compiled with.
    """
    before = {looks.key: looks for looks in known}
    found = []
    for engine in engines:
        numbers: collections.Counter[str] = collections.Counter()
        for kernel in forms(call, engine):
            place = numbers[kernel.name]
            same = before.get((call.name, engine, kernel.name, place))
            if same is None or same.text != digest(kernel):
                same = _looks(call.name, engine, place, kernel)
            found.append(same)
            numbers[kernel.name] += 1
    return found


Told = TypeVar("Told")
Found = TypeVar("Found")


def measured(calls: Sequence[Told], jobs: int, look: Callable[[Told], Found]) -> Iterator[Found]:
    """`look` at each call, by so many processes.

    They see no GPU, so that kernels are cut as for an H200 on every machine.
    """
    spawn = multiprocessing.get_context("spawn")
    before = os.environ.get("JAX_PLATFORMS")
    os.environ["JAX_PLATFORMS"] = "cpu"
    try:
        with concurrent.futures.ProcessPoolExecutor(jobs, mp_context=spawn) as pool:
            yield from pool.map(look, calls)
    finally:
        if before is None:
            del os.environ["JAX_PLATFORMS"]
        else:
            os.environ["JAX_PLATFORMS"] = before


def versions() -> dict[str, str]:
    """Of what kernels depend on."""
    named = {name: importlib.metadata.version(name) for name in ("jax", "triton")}
    return {"jscan": jscan.__version__, **named, "target": f"sm_{WITHOUT_GPU}"}
