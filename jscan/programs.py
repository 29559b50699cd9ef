"""The programs of kernels as text."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

import jax
import numpy as np

from jscan import capabilities, engines
from jscan.advice import ENGINES, advise, advised

WITHOUT_GPU = 90
"""The compute capability for which kernels are compiled where there is no GPU: that of the H200,
for which they are cut there, too."""


@advised
def triton_source(fn: Callable[..., Any], /, *args: Any, ptx: bool = False, **kwargs: Any) -> str:
    """The programs in Triton's language that the kernels of a call compile to.

    They are what the engine "jax-triton" runs, see `jscan.engine`, and each of them is a Python
    module by itself: to read, to teach with, to take elsewhere. Nothing is run, and no GPU is
    needed. Without one, kernels are cut for an H200, and compiled for the GPU that an abstract mesh
    names, or for an H200.

    A program that is launched several times is there once. One that XLA makes of the code around
    the kernels is not there. Of arrays that are sharded over several devices, programs are those of
    each device, where `jax.shard_map` or a mesh of explicit axes says how they are divided. Where
    that is left to XLA, programs are made when it compiles, and a comment says so.

    Args:
      fn: a function that calls functions of this package, compiled by `jax.jit` or not.
      *args: its arguments, in any pytrees. Arrays are those of `jax` and NumPy, or
        `jax.ShapeDtypeStruct` in their place. All else is static: axes, names, operators.
      ptx: whether to compile the programs, and to return the GPU's instructions instead. Needs the
        package triton.
      **kwargs: its arguments by name, but for one named ``ptx``.

    Returns:
      The text. Above each program stand its name, the number of programs that run it and their
      warps, the launch in Triton's language, and the shape and dtype of each array: whether it is
      read or written, and what it has to hold at launch.

    Raises:
      TypeError: ``fn`` cannot be called.
      ValueError: ``fn`` launches no kernel on a GPU, or leaves it to XLA to divide arrays among
        devices.
      ImportError: ``ptx`` is asked for, and triton is not installed.
      RuntimeError: ``ptx`` is asked for, and an abstract mesh names a GPU of which no compute
        capability is known.

    Example:
      >>> import jax
      >>> import jax.numpy as jnp
      >>> import jscan
      >>> x = jax.ShapeDtypeStruct((64,), jnp.int32)
      >>> print(jscan.triton_source(jscan.cumsum, x, axis=0))
      # jscan_block: 1 program of 1 warp
      # launch: jscan_block[(1,)](in0, out0, num_warps=1, num_stages=1, enable_fp_fusion=True)
      # in0: int32[64], read
      # out0: int32[64], written, whatever it holds at launch
      <BLANKLINE>
      import triton
      import triton.language as tl
      <BLANKLINE>
      <BLANKLINE>
      @triton.jit
      def add(x, y):
          return x + y
      <BLANKLINE>
      <BLANKLINE>
      @triton.jit
      def jscan_block(in0, out0):
          t1 = tl.load(in0 + tl.arange(0, 64))
          t2 = tl.associative_scan(t1, 0, add)
          t3 = tl.inline_asm_elementwise("mov.b32 $0, $1;", "=r,r", [t2],
                                         dtype=tl.int32, is_pure=False, pack=1)
          tl.store(out0 + tl.arange(0, 64), t3)
      <BLANKLINE>
    """
    if not callable(fn):
        raise TypeError(f"jscan.triton_source: fn must be callable; got {type(fn).__name__}")
    if ptx:
        reason = engines.why_no_triton()
        if reason is not None:
            raise advise(ImportError(f"jscan.triton_source: {reason}"), ENGINES)
    leaves, tree = jax.tree.flatten((args, kwargs))
    arrays = {i: leaf for i, leaf in enumerate(leaves) if isinstance(leaf, _ARRAYS)}

    def call(arrays: dict[int, Any]) -> Any:  # new for jax, which lowers a function once
        given = [arrays.get(i, leaf) for i, leaf in enumerate(leaves)]
        args, kwargs = jax.tree.unflatten(tree, given)
        return fn(*args, **kwargs)

    with engines.writing() as written:
        jax.jit(call).trace(arrays).lower(lowering_platforms=("cuda",))
    programs = list(dict.fromkeys(written.programs))
    left = _why_left(written.left)
    if not programs:
        reason = left or "fn launches no kernel on a GPU, with these arguments"
        raise ValueError(f"jscan.triton_source: {reason}")
    texts = [_titled(program, arrays.values(), ptx=ptx) for program in programs]
    if left:
        texts.append(f"{_comment(ptx=ptx)} There are more: {left}\n")
    return "\n\n".join(texts)


_ARRAYS = (jax.Array, np.ndarray, jax.ShapeDtypeStruct)
"""What is traced. A NumPy scalar is not: it may be an axis."""


def _why_left(devices: int) -> str | None:
    """Why there are no programs of calls that XLA divides among so many devices."""
    if not devices:
        return None
    return (
        f"arrays are sharded over {devices} devices, and XLA divides them when it compiles; say "
        "how they are divided, by jax.shard_map or by a mesh of explicit axes, or give arrays of "
        "the shape that one device holds"
    )


def _titled(program: Any, arrays: Iterable[Any], *, ptx: bool) -> str:
    """A program below a comment on how it is launched."""
    count, warps = _counted(program.programs, "program"), _counted(program.warps, "warp")
    if ptx:
        capability = capabilities.of_program(_devices(arrays)) or WITHOUT_GPU
        compiled = program.compiled(capability)
        text, shared = compiled.asm["ptx"], compiled.metadata.shared
        launch = (
            f"{32 * program.warps} threads, {shared} bytes of shared memory, for sm_{capability}"
        )
    else:
        text, launch = program.text, program.launch
    title = [f"{program.name}: {count} of {warps}", f"launch: {launch}", *program.parameters]
    return "\n".join(f"{_comment(ptx=ptx)} {line}" for line in title) + f"\n\n{text}"


def _comment(*, ptx: bool) -> str:
    return "//" if ptx else "#"


def _devices(arrays: Iterable[Any]) -> list[jax.Device]:
    """The devices of arrays that have some."""
    return [d for array in arrays if isinstance(array, jax.Array) for d in array.devices()]


def _counted(number: int, what: str) -> str:
    return f"{number} {what}{'' if number == 1 else 's'}"
