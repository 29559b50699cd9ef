"""What jscan takes from inside jax: the one file that names ``jax._src``.

A new version of jax that moves any of it is met here.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Sequence
from typing import Any

import jax
import numpy as np
from jax._src import core as core_internals
from jax._src.state import ReadEffect, WriteEffect
from jax._src.state.discharge import register_discharge_rule
from jax.extend import core

# What Pallas on Triton needs, and its engine alone imports. The effects above are every engine's:
# they are there in a jax that has no Triton.
with contextlib.suppress(ImportError):
    from jax._src.interpreters.mlir import TracebackCaches as TracebackCaches
    from jax._src.lib.mlir import ir as ir
    from jax._src.lib.mlir.dialects import arith as arith
    from jax._src.lib.mlir.dialects import math
    from jax._src.lib.triton import dialect
    from jax._src.pallas.triton import lowering

    tt, mlir_math = dialect, math
    tt_constructors: Any = dialect  # those in Python, which checkers take for the generated ones
    triton = lowering
    ModuleContext: Any = lowering.ModuleContext  # a lone function needs neither grid nor module

    _type_of = lowering._dtype_to_ir_type

    def _real_type_of(dtype: np.dtype) -> ir.Type:
        """The type of what a pointer points at: Triton takes none to complex numbers."""
        return _type_of(np.dtype(np.float32) if dtype == np.complex64 else dtype)

    lowering._dtype_to_ir_type = _real_type_of  # type: ignore[assignment]


def outside_of_vmap() -> contextlib.AbstractContextManager[None]:
    """A context in which no mesh axis counts as that of a dimension that ``vmap`` maps."""
    mapped = core_internals.get_axis_env().explicit_mesh_axis_names
    context: contextlib.AbstractContextManager[None]
    context = core_internals.remove_explicit_mesh_axis_names(mapped)
    return context


def register_access(
    primitive: core.Primitive,
    abstract_eval: Callable[..., Any],
    meaning: Callable[..., Any],
    *,
    reads: bool = False,
    writes: bool = False,
) -> None:
    """Tells jax what ``primitive`` does to the reference that is its first operand.

    ``abstract_eval`` gives the abstract result (a list of them, where the primitive has several).
    ``meaning`` takes the array behind the reference in its place. It returns the array afterwards
    if the primitive ``writes``, the result if it ``reads``, and a pair of these if it does both.
    """
    effects: set[Any] = set()
    if reads:
        effects.add(ReadEffect(0))
    if writes:
        effects.add(WriteEffect(0))

    def effectful(*operands: Any, **params: Any) -> tuple[Any, set[Any]]:
        return abstract_eval(*operands, **params), effects

    def discharge(*arguments: Any, **params: Any) -> tuple[Sequence[Any], Any]:
        # Behind what jax passes first: a context, or two lists of abstract values in 0.10.
        operands = arguments[1 if jax.__version_info__ >= (0, 11) else 2 :]
        told = meaning(*operands, **params)
        if reads and writes:
            after, result = told
        elif writes:
            after, result = told, []
        else:
            after, result = operands[0], told
        return (after, *[None] * (len(operands) - 1)), result

    primitive.def_effectful_abstract_eval(effectful)
    register_discharge_rule(primitive)(discharge)
