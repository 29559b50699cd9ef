"""Programs in Triton's language, from the bodies of kernels."""

from __future__ import annotations

from collections.abc import Sequence

import jax
import numpy as np
from jax.extend import core
from jax.sharding import AbstractMesh, use_abstract_mesh

from jscan.kernels.engines.source import (
    arithmetic,
    control,
    conversions,
    funnels,
    library,
    memory,
    tiles,
)
from jscan.kernels.engines.source.compiling import Parameter, Program
from jscan.kernels.engines.source.function import Equation, Function, Module, Rule
from jscan.kernels.engines.source.operands import Operand, Unwritable, constant
from jscan.kernels.language import Body


def _reference(at: Equation) -> list[Operand]:
    """The reference to an array, which is what stands for the array already."""
    return list(at.operands)


RULES: dict[str, Rule] = {
    **control.RULES,
    **arithmetic.RULES,
    **library.RULES,
    **conversions.RULES,
    **tiles.RULES,
    **funnels.RULES,
    **memory.RULES,
    **dict.fromkeys(("new_ref", "ref", "mutable_array"), _reference),  # by versions of jax
}


def program(
    body: Body,
    operands: Sequence[jax.ShapeDtypeStruct],
    starts: int,
    results: Sequence[jax.ShapeDtypeStruct],
    *,
    programs: int,
    warps: int,
    name: str,
) -> Program:
    """The text of a kernel, of whose ``results`` the last ``starts`` are written in place."""
    arrays = [*operands, *results]
    jaxpr = traced(body, arrays)
    module = Module(RULES)
    function = Function(module)
    fresh = len(results) - starts
    names = [f"in{i}" for i in range(len(operands))]
    outs = [*(f"out{i}" for i in range(fresh)), *(f"inout{i}" for i in range(starts))]
    number = Operand("program", np.dtype(np.int32))
    if programs == 1:
        number = constant(0, number.dtype)
    else:
        function.line("program = tl.program_id(0)")
    refs = [
        Operand(ref, np.dtype(array.dtype), tuple(array.shape))
        for ref, array in zip([*names, *outs], arrays, strict=True)
    ]
    function.write(jaxpr.jaxpr, jaxpr.consts, [number, *refs])
    order = [*refs[: len(names)], *refs[len(names) + fresh :], *refs[len(names) :][:fresh]]
    purposes = [READ] * len(names) + [_started(ref) for ref in order[len(names) :][:starts]]
    purposes += [WRITTEN] * fresh
    parameters = tuple(
        Parameter(ref.text, ref.dtype.name, ref.shape, purpose)
        for ref, purpose in zip(order, purposes, strict=True)
    )
    return Program(name, parameters, module.text, tuple(function.lines), programs, warps)


READ, WRITTEN = "read", "written, whatever it holds at launch"


def _started(array: Operand) -> str:
    """The purpose of an array that is written in place: tile state, or else a result."""
    if len(array.shape) > 1:
        return "zero at launch: the words by which programs tell each other of their tiles"
    return "written in part: holds at launch what stays where no program writes"


def traced(body: Body, arrays: Sequence[jax.ShapeDtypeStruct]) -> core.ClosedJaxpr:
    """The jaxpr of a body: of the number of a program, and of arrays that it writes in place."""

    def of_arrays(number: jax.Array, *arrays: jax.Array) -> None:
        body(number, [jax.new_ref(x) for x in arrays])

    with use_abstract_mesh(AbstractMesh((), ())):  # a kernel knows nothing of meshes
        found: core.ClosedJaxpr
        found = jax.make_jaxpr(of_arrays)(jax.ShapeDtypeStruct((), np.int32), *arrays)
    return found


def why_inexpressible(jaxpr: core.ClosedJaxpr) -> str | None:
    """Why no program can hold this function of scalars; None if one can."""
    parameters = [Operand(f"x{i}", np.dtype(aval.dtype)) for i, aval in enumerate(jaxpr.in_avals)]
    try:
        Module(RULES).function(jaxpr, "operator", parameters)
    except Unwritable as reason:
        return str(reason)
    return None
