"""Kernels as programs in Triton's language, which the packages triton and jax-triton run.

    body ──► source.program: text ──► triton.jit ──► jax_triton.triton_call

A program of the same text is one function, so that jax-triton compiles it once. jax-triton is asked
for in two ways: from 0.4 on what is written in place is a reference, and its parameter serves input
and output; before, an output has a parameter of its own, which is the same memory.
"""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Sequence
from typing import Any, TypeAlias

import jax
import jax.numpy as jnp
import numpy as np
from jax.extend import core
from jax.interpreters import mlir

from jscan import capabilities, engines
from jscan.advice import WITHOUT_GPU, advise
from jscan.kernels.engines import grid, source
from jscan.kernels.engines.source import compiling
from jscan.kernels.engines.source import why_inexpressible as why_inexpressible
from jscan.kernels.language import Body

NAME = "Triton"


def run(
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
    """Runs ``body`` in so many programs: see `jscan.kernels.engines.Engine`."""
    if interpret:
        return grid.run(
            *(body, operands, starts, results), programs=programs, name=name, interpret=True
        )
    inputs = [jax.ShapeDtypeStruct(x.shape, x.dtype) for x in operands]
    outputs = [jax.ShapeDtypeStruct(x.shape, x.dtype) for x in results]
    program = source.program(
        *(body, inputs, len(starts), outputs), programs=programs, warps=warps, name=name
    )
    written = engines.being_written()
    if written is not None:
        written.programs.append(program)
        return [jnp.zeros(x.shape, x.dtype) for x in outputs]
    described = tuple((x.shape, x.dtype) for x in outputs)
    launched: list[jax.Array]
    launched = launch_p.bind(
        *operands, *starts, program=program, results=described, count=len(operands)
    )
    return launched


launch_p = core.Primitive("launch_program")
"""A launch of a program, which becomes jax-triton's when it is lowered: rules that jax-triton 0.4
has for its own do not fit every jax that it takes."""
launch_p.multiple_results = True

Described: TypeAlias = tuple[tuple[tuple[int, ...], np.dtype], ...]
"""Shapes and dtypes."""


def _launch_abstract_eval(*arrays: Any, results: Described, **params: Any) -> list[Any]:
    del arrays, params
    return [jax.core.ShapedArray(shape, dtype) for shape, dtype in results]


def _launch_now(*arrays: jax.Array, **params: Any) -> list[jax.Array]:
    launched: list[jax.Array] = jax.jit(functools.partial(launch_p.bind, **params))(*arrays)
    return launched


def _launch_lowering(ctx: mlir.LoweringRuleContext, *arrays: Any, **params: Any) -> Sequence[Any]:
    capability = capabilities.of_program(_devices(ctx.module_context.axis_context))
    if capability is None:
        error = RuntimeError(
            "jscan: there is no GPU to compile a kernel for; name one by an abstract mesh with a "
            "jax.sharding.AbstractDevice in jax.sharding.use_abstract_mesh"
        )
        raise advise(error, WITHOUT_GPU)
    launch = functools.partial(_launch, capability=capability, **params)
    return mlir.lower_fun(launch, multiple_results=True)(ctx, *arrays)


def _devices(context: Any) -> Sequence[Any]:
    """The devices of a program, as far as they are known while it is lowered."""
    mesh = getattr(context, "mesh", None)  # inside of a shard_map
    if isinstance(mesh, jax.sharding.Mesh):
        return [*mesh.devices.flat]
    return getattr(context, "device_assignment", None) or ()


def _launch(
    *arrays: jax.Array,
    program: source.Program,
    results: Described,
    count: int,
    capability: int,
) -> list[jax.Array]:
    """The results of a program: see `run`."""
    operands, starts = arrays[:count], arrays[count:]
    outputs = [jax.ShapeDtypeStruct(shape, dtype) for shape, dtype in results]
    # Not installed with this package, and it takes time to import.
    import jax_triton

    # Its table has no complex numbers, whose memory is that of real ones.
    jax_triton.triton_lib._JAX_TO_TRITON_TYPE_MAP.setdefault(jnp.dtype(jnp.complex64), "fp32")
    how: dict[str, Any] = {
        "grid": (program.programs,),
        "name": program.name,
        "num_warps": program.warps,
        "num_stages": compiling.COMMON["num_stages"],
        "compute_capability": capability,
    }
    fresh = len(outputs) - len(starts)
    if jax_triton.__version_info__ >= (0, 4):
        refs = [jax.new_ref(x) for x in starts]
        written = jax_triton.triton_call(
            *(*operands, *refs),
            kernel=compiling.function(program),
            out_type=outputs[:fresh],
            backend_options=dict(compiling.OPTIONS),
            **how,
        )
        return [*written, *(ref[...] for ref in refs)]
    written_in_place = program.parameters[count:][: len(starts)]
    again = tuple(dataclasses.replace(p, name=f"again{i}") for i, p in enumerate(written_in_place))
    program = dataclasses.replace(program, parameters=program.parameters + again)
    return list(
        jax_triton.triton_call(
            *(*operands, *starts),
            kernel=compiling.function(program),
            out_shape=outputs,
            input_output_aliases={len(operands) + i: fresh + i for i in range(len(starts))},
            **compiling.OPTIONS,
            **how,
        )
    )


launch_p.def_abstract_eval(_launch_abstract_eval)
launch_p.def_impl(_launch_now)
mlir.register_lowering(launch_p, _launch_lowering, platform="cuda")
