"""The programs of kernels as text."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import jax

from jscan import engines

WITHOUT_GPU = 90
"""The compute capability for which kernels are compiled where there is no GPU: that of the H200,
for which they are cut there, too."""


def triton_source(fn: Callable[..., Any], *args: Any, ptx: bool = False) -> str:
    """The programs in Triton's language that the kernels of a call compile to.

    They are what the engine "jax-triton" runs, see `jscan.engine`, and each of them is a Python
    module by itself: to read, to teach with, to take elsewhere. Nothing is run, and no GPU is
    needed. Without one, kernels are cut for an H200.

    A program that is launched several times is there once. One that XLA makes of the code around
    the kernels is not there, nor are those of arrays that are sharded over several devices.

    Args:
      fn: a function of arrays that calls functions of this package.
      *args: its arguments: arrays, or `jax.ShapeDtypeStruct` in their place, in any pytrees.
      ptx: whether to compile the programs, and to return the GPU's instructions instead. Needs the
        package triton.

    Returns:
      The text. Above each program stand its name, the number of programs that run it and their
      warps.

    Raises:
      TypeError: ``fn`` cannot be called.
      ValueError: ``fn`` launches no kernel on a GPU.
      ImportError: ``ptx`` is asked for, and triton is not installed.

    Example:
      >>> import jax
      >>> import jax.numpy as jnp
      >>> import jscan
      >>> text = jscan.triton_source(jscan.cumsum, jax.ShapeDtypeStruct((64,), jnp.int32))
      >>> print(text[text.index("def jscan_block") :])
      def jscan_block(in0, out0):
          t1 = tl.load(in0 + tl.arange(0, 64))
          t2 = tl.associative_scan(t1, 0, add)
          t3 = tl.inline_asm_elementwise("mov.b32 $0, $1;", "=r,r", [t2],
                                         dtype=tl.int32, is_pure=False, pack=1)
          tl.store(out0 + tl.arange(0, 64), t3)
      <BLANKLINE>
    """
    if not callable(fn):
        raise TypeError(f"triton_source: fn must be callable; got {type(fn).__name__}")
    if ptx:
        reason = engines.why_no_triton()
        if reason is not None:
            raise ImportError(f"triton_source: {reason}")

    def call(*args: Any) -> Any:  # new for jax, which would not lower what it has lowered
        return fn(*args)

    with engines.writing() as written:
        jax.jit(call).trace(*args).lower(lowering_platforms=("cuda",))
    programs = list(dict.fromkeys(written.programs))
    if not programs:
        raise ValueError("triton_source: fn launches no kernel on a GPU, with these arguments")
    return "\n\n".join(_titled(program, ptx=ptx) for program in programs)


def _titled(program: Any, *, ptx: bool) -> str:
    count, warps = _counted(program.programs, "program"), _counted(program.warps, "warp")
    text = program.ptx(_capability()) if ptx else program.text
    return f"{'//' if ptx else '#'} {program.name}: {count} of {warps}\n\n{text}"


def _counted(number: int, what: str) -> str:
    return f"{number} {what}{'' if number == 1 else 's'}"


def _capability() -> int:
    """The compute capability of the first GPU, if there is one."""
    try:
        gpu = jax.devices("gpu")[0]
    except RuntimeError:
        return WITHOUT_GPU
    return int(gpu.compute_capability.replace(".", ""))
