"""The compiled parts of a case: what builds its operands, runs it and checks its answer."""

from __future__ import annotations

import concurrent.futures
import contextlib
import dataclasses
import functools
import os
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any

import jax
import jax.numpy as jnp

from benchmarks.cases.case import Case, Operation
from benchmarks.measuring import machine, outside
from jscan import primitives
from jscan.kernels.tuning import Tuning


@dataclasses.dataclass(frozen=True)
class Program:
    """A function and the shapes it is compiled for; equal ones are compiled once.

    ``tuning`` is forced on every scan in it, unless it is None.
    """

    fn: Operation
    operands: tuple[Any, ...]
    x64: bool = False
    tuning: Tuning | None = None

    def compile(self) -> jax.stages.Compiled:
        """The program for the default backend."""
        with self._settings():
            return jax.jit(self.fn).lower(*self.operands).compile()

    def lower_for_cuda(self) -> jax.stages.Lowered:
        """The program for a CUDA GPU that need not exist."""
        with self._settings():
            return machine.lower_for_cuda(self.fn, self.operands)

    @contextlib.contextmanager
    def _settings(self) -> Iterator[None]:
        with jax.enable_x64(self.x64), primitives.tiled(self.tuning):
            yield


@dataclasses.dataclass(frozen=True)
class Plan:
    """The programs of one case; that of the distance is there if libraries outside JAX are.

    It compares the first result, where there are several.
    """

    build: Program
    run: Program
    check: Program
    peers: Mapping[str, Program]
    distance: Program | None

    def programs(self) -> list[Program]:
        """All programs of the case."""
        distance = [] if self.distance is None else [self.distance]
        return [self.build, self.run, self.check, *self.peers.values(), *distance]


def plan(case: Case) -> Plan:
    """Traces a case for its shapes; nothing is computed."""
    x64 = case.inputs.x64
    scalars = tuple(jax.ShapeDtypeStruct((), jnp.float32) for _ in case.inputs.args)
    operands = _results(case.inputs.build, scalars, x64)
    result = _results(case.run, operands, x64)
    first = jax.tree.leaves(result)[0]
    return Plan(
        Program(case.inputs.build, scalars, x64),
        Program(case.run, operands, x64, case.tuning),
        Program(case.check.error, (result, *operands), case.check.x64),
        {name: Program(peer, operands, x64) for name, peer in case.peers.items()},
        Program(outside.distance, (first, first), x64=True) if case.outside else None,
    )


def programs_of(cases: Iterable[Case]) -> list[Program]:
    """The programs of all cases that can be traced; `measure.run_all` reports the others."""
    programs = []
    for case in cases:
        with contextlib.suppress(Exception):
            programs += plan(case).programs()
    return programs


@functools.cache
def _results(fn: Operation, operands: tuple[Any, ...], x64: bool) -> Any:
    with jax.enable_x64(x64):
        shapes = jax.eval_shape(fn, *operands)
    return jax.tree.map(lambda x: jax.ShapeDtypeStruct(x.shape, x.dtype), shapes)


def add_one(x: jax.Array) -> jax.Array:
    """The copy: every word is read once and written once."""
    return x + 1


def copy_program(words: int) -> Program:
    """The copy of so many 32-bit words."""
    return Program(add_one, (jax.ShapeDtypeStruct((words,), jnp.int32),))


Executables = Mapping[Program, jax.stages.Compiled | Exception]


def compile_all(programs: Iterable[Program], advance: Callable[[], None]) -> Executables:
    """Compiles every distinct program on as many threads as there are processors, at most 16."""

    def compiled(program: Program) -> jax.stages.Compiled | Exception:
        try:
            return program.compile()
        except Exception as error:  # reported with the case, whatever it is
            return error
        finally:
            advance()

    distinct = list(dict.fromkeys(programs))
    with concurrent.futures.ThreadPoolExecutor(min(16, os.cpu_count() or 1)) as pool:
        return dict(zip(distinct, pool.map(compiled, distinct), strict=True))


def found(executables: Executables, program: Program) -> jax.stages.Compiled:
    """What a program was compiled to; raises what its compilation did."""
    executable = executables[program]
    if isinstance(executable, Exception):
        raise executable
    return executable
