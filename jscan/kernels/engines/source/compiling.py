"""A program: its text, and what Triton makes of it, which is not imported before that is wanted."""

from __future__ import annotations

import dataclasses
import functools
import hashlib
import linecache
from collections.abc import Mapping
from typing import Any

HEADER = "import triton\nimport triton.language as tl\n"
LIBRARY = "from triton.language.extra import libdevice\n"

OPTIONS: Mapping[str, bool] = {"enable_fp_fusion": True}
"""As in the first engine, where XLA lets a multiplication and an addition become one instruction.
Triton's default is to change."""

COMMON: Mapping[str, int] = {"num_stages": 1, **OPTIONS}
"""The options of all programs."""

_POINTERS = {
    **{f"float{bits}": f"*fp{bits}" for bits in (16, 32, 64)},
    **{f"int{bits}": f"*i{bits}" for bits in (8, 16, 32, 64)},
    **{f"uint{bits}": f"*u{bits}" for bits in (8, 16, 32, 64)},
    "bfloat16": "*bf16",
    "bool": "*i1",
    "complex64": "*fp32",
}


@dataclasses.dataclass(frozen=True)
class Parameter:
    """A parameter of a program: the address of an array. A program is one for arrays of any shape.

    Attributes:
      name: what the text calls it.
      dtype: that of the array.
      shape: that of the array at one launch.
      purpose: what the array is for, and what it has to hold at launch.
    """

    name: str
    dtype: str
    shape: tuple[int, ...] = dataclasses.field(compare=False)
    purpose: str = dataclasses.field(compare=False)

    def __str__(self) -> str:
        return f"{self.name}: {self.dtype}{[*self.shape]}, {self.purpose}"


@dataclasses.dataclass(frozen=True)
class Program:
    """A kernel as text, and what a launch needs to know besides.

    The parameters of the function ``name`` are the operands, then the arrays that results start as,
    which are written in place, then the other results.
    """

    name: str
    parameters: tuple[Parameter, ...]
    functions: str  # those that it calls
    lines: tuple[str, ...]
    programs: int
    warps: int

    @property
    def text(self) -> str:
        """All of it, as a module."""
        names = ", ".join(parameter.name for parameter in self.parameters)
        lines = "\n".join(self.lines)
        text = f"{self.functions}@triton.jit\ndef {self.name}({names}):\n{lines}\n"
        return f"{HEADER}{LIBRARY if 'libdevice.' in text else ''}\n\n{text}"

    def compiled(self, capability: int) -> Any:
        """What Triton makes of it: see `compiled`."""
        return compiled(self, capability)

    @property
    def launch(self) -> str:
        """A launch in Triton's language."""
        names = [parameter.name for parameter in self.parameters]
        options = {"num_warps": self.warps, **COMMON}
        told = ", ".join([*names, *(f"{name}={value}" for name, value in options.items())])
        return f"{self.name}[({self.programs},)]({told})"


def function(program: Program) -> Any:
    """The function of a program, the same for the same text, so that it is compiled once."""
    return _function(program.name, program.text)


@functools.lru_cache(maxsize=4096)
def _function(name: str, text: str) -> Any:
    # Triton reads a function from the lines of its file.
    file = f"<{name} {hashlib.sha256(text.encode()).hexdigest()[:16]}>"
    linecache.cache[file] = (len(text), None, text.splitlines(keepends=True), file)
    names: dict[str, Any] = {"__name__": "jscan.kernels.generated"}
    exec(compile(text, file, "exec"), names)
    return names[name]


def compiled(program: Program, capability: int) -> Any:
    """What Triton makes of a program for a compute capability; no GPU is needed.

    Its ``asm`` holds the stages, "ptx" and "cubin" among them.
    """
    import triton
    from triton.backends.compiler import GPUTarget
    from triton.compiler import ASTSource

    signature = {p.name: _POINTERS[p.dtype] for p in program.parameters}
    aligned = {(i,): [["tt.divisibility", 16]] for i in range(len(signature))}
    source = ASTSource(function(program), signature, {}, aligned)
    options = {"num_warps": program.warps, **COMMON}
    return triton.compile(source, target=GPUTarget("cuda", capability, 32), options=options)
