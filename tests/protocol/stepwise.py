"""Kernels, one access to their words at a time: an engine whose programs can be stopped.

    Engine       a launch becomes an equation of the function that launches
    Code         a jaxpr, cut where a program may be stopped
    Interpreter  one program, or the function around the launches

Each program of a kernel is a generator that yields whenever it wants to publish, to peek or to take
a ticket, and goes on with the answer. What is between is compiled, and touches no other program.
"""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Callable, Generator, Iterator, Sequence
from typing import Any

import jax
import numpy as np
from jax.extend import core

from jscan.kernels.language import Body
from jscan.kernels.steps import Step


@dataclasses.dataclass(frozen=True)
class Request:
    """What a program wants of the words before it can go on."""

    kind: str  # "publish", "peek" or "take_ticket"
    step: Step | None
    addresses: np.ndarray[Any, Any]
    mask: np.ndarray[Any, Any]  # of the addresses
    tags: np.ndarray[Any, Any] | None = None
    values: np.ndarray[Any, Any] | None = None

    @property
    def writes_nothing(self) -> bool:
        """Whether it is one to publish that all of its words are masked out of."""
        return self.kind == "publish" and not self.mask.any()


@dataclasses.dataclass(frozen=True)
class Call:
    """A kernel that a function wants to be launched."""

    code: Code  # of a program's number and of references to the operands and the results
    operands: Sequence[Any]
    starts: Sequence[Any]  # what the last results start as
    results: Sequence[Any]  # their avals
    programs: int


launch_p = core.Primitive("launch")
"""A launch, between the operations around it."""
launch_p.multiple_results = True


@launch_p.def_abstract_eval
def _launch_abstract_eval(*operands: Any, results: Sequence[Any], **params: Any) -> list[Any]:
    del operands, params
    return list(results)


class Engine:
    """The `jscan.kernels.engines.Engine` that leaves launches to an `Interpreter`'s caller."""

    NAME = "the stepwise interpreter"

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
        """Binds a launch of the traced body."""
        del warps, name, interpret
        described: list[jax.Array | jax.ShapeDtypeStruct] = [*operands, *results]
        arrays = [jax.ShapeDtypeStruct(x.shape, x.dtype) for x in described]

        def traced(program: jax.Array, *arrays: jax.Array) -> None:
            body(program, [jax.new_ref(x) for x in arrays])

        jaxpr = jax.make_jaxpr(traced)(jax.ShapeDtypeStruct((), np.int32), *arrays)
        avals = tuple(jax.core.ShapedArray(x.shape, x.dtype) for x in results)
        count = len(operands)
        return launch_p.bind(
            *(*operands, *starts), jaxpr=jaxpr, results=avals, count=count, programs=programs
        )

    def why_inexpressible(self, jaxpr: core.ClosedJaxpr) -> None:
        """Nothing is."""
        del jaxpr


Running = Generator[Request | Call, Any, list[Any]]

MEMORY = ("jscan_load", "jscan_store", "jscan_publish", "jscan_peek", "jscan_take_ticket")
NEW_REF = ("new_ref", "ref", "mutable_array")  # by different versions of jax


def _opened(jaxpr: Any) -> tuple[core.Jaxpr, Sequence[Any]]:
    """A jaxpr and its constants, closed or not."""
    if isinstance(jaxpr, core.ClosedJaxpr):
        return jaxpr.jaxpr, jaxpr.consts
    return jaxpr, ()


def _stops(eqn: core.JaxprEqn) -> bool:
    """Whether an equation does more than to compute."""
    if eqn.primitive.name in (*MEMORY, *NEW_REF, launch_p.name):
        return True
    inner = core.jaxprs_in_params(eqn.params)
    return any(_stops(e) for jaxpr in inner for e in _opened(jaxpr)[0].eqns)


def _step(eqn: core.JaxprEqn, outer: Step | None) -> Step | None:
    """The step that an equation is marked as part of."""
    parts = str(eqn.source_info.name_stack).split("/")
    return next((step for step in Step if step.value in parts), outer)


class Code:
    """A jaxpr, cut at the equations that stop; what is between them is compiled."""

    def __init__(self, jaxpr: Any, outer: Step | None = None):
        self.jaxpr, self.constants = _opened(jaxpr)
        self.parts: list[Stop | Compiled] = []
        eqns = self.jaxpr.eqns
        start = 0
        while start < len(eqns):
            step = _step(eqns[start], outer)
            if _stops(eqns[start]):
                inner = [Code(j, step) for j in _inner(eqns[start])]
                self.parts.append(Stop(eqns[start], step, inner))
                start += 1
                continue
            end = start
            while end < len(eqns) and not _stops(eqns[end]):
                end += 1
            later = {*_variables(self.jaxpr.outvars)}
            later.update(v for eqn in eqns[end:] for v in _variables(eqn.invars))
            steps = [_step(eqn, outer) for eqn in eqns[start:end]]
            self.parts.append(Compiled(eqns[start:end], steps, later))
            start = end


@dataclasses.dataclass(frozen=True)
class Stop:
    """An equation that does more than to compute, or runs others that do."""

    eqn: core.JaxprEqn
    step: Step | None
    inner: Sequence[Code]


def _inner(eqn: core.JaxprEqn) -> Sequence[Any]:
    """The jaxprs that an equation runs, in the order in which `_evaluate` takes them."""
    name, params = eqn.primitive.name, eqn.params
    if name == "while":
        return params["cond_jaxpr"], params["body_jaxpr"]
    if name == "cond":
        return params["branches"]
    return [params["jaxpr"]] if "jaxpr" in params else []


class Compiled:
    """Equations that only compute."""

    def __init__(
        self, eqns: Sequence[core.JaxprEqn], steps: Sequence[Step | None], later: set[core.Var]
    ):
        made = {v: None for eqn in eqns for v in eqn.outvars}
        used = {v: None for eqn in eqns for v in _variables(eqn.invars)}
        self.steps = steps
        self.takes = [v for v in used if v not in made]
        self.gives = [v for v in made if v in later]
        key = _text(eqns, self.takes, self.gives)
        if key not in _compiled:
            _compiled[key] = jax.jit(functools.partial(_compute, eqns, self.takes, self.gives))
        self.compute = _compiled[key]


_compiled: dict[str, Callable[..., list[Any]]] = {}
"""By what is computed: polls are the same wherever they are, and compilation takes the time."""


def _text(
    eqns: Sequence[core.JaxprEqn], takes: Sequence[core.Var], gives: Sequence[core.Var]
) -> str:
    names = {v: f"{number}:{v.aval}" for number, v in enumerate(takes)}
    lines = []
    for eqn in eqns:
        for v in eqn.outvars:
            names[v] = f"{len(names)}:{v.aval}"
        inputs = [repr(v) if isinstance(v, core.Literal) else names[v] for v in eqn.invars]
        outputs = [names[v] for v in eqn.outvars]
        lines.append(f"{outputs} = {eqn.primitive} {inputs} {eqn.params}")
    return "\n".join([*lines, str([names[v] for v in gives])])


def _compute(
    eqns: Sequence[core.JaxprEqn],
    takes: Sequence[core.Var],
    gives: Sequence[core.Var],
    *operands: Any,
) -> list[Any]:
    values = dict(zip(takes, operands, strict=True))
    for eqn in eqns:
        inputs = [v.val if isinstance(v, core.Literal) else values[v] for v in eqn.invars]
        results = eqn.primitive.bind(*inputs, **eqn.primitive.get_bind_params(eqn.params))
        results = results if eqn.primitive.multiple_results else [results]
        values.update(zip(eqn.outvars, results, strict=True))
    return [values[v] for v in gives]


def _variables(atoms: Sequence[Any]) -> Iterator[core.Var]:
    return (v for v in atoms if not isinstance(v, core.Literal))


class Interpreter:
    """One program, on its way through the kernel."""

    def __init__(self, rng: np.random.Generator):
        self._rng = rng
        self.steps: list[Step] = []

    def run(self, code: Code, operands: Sequence[Any]) -> Running:
        """Runs a jaxpr; yields what it wants of the words, and takes the answers."""
        names = [*code.jaxpr.constvars, *code.jaxpr.invars]
        values = dict(zip(names, [*code.constants, *operands], strict=True))

        def read(v: Any) -> Any:
            return v.val if isinstance(v, core.Literal) else values[v]

        for part in code.parts:
            if isinstance(part, Compiled):
                self._pass(part.steps)
                results = part.compute(*map(read, part.takes))
                values.update(zip(part.gives, results, strict=True))
            else:
                if not part.inner:
                    self._pass([part.step])
                results = yield from self._evaluate(part, [*map(read, part.eqn.invars)])
                values.update(zip(part.eqn.outvars, results, strict=True))
        return [*map(read, code.jaxpr.outvars)]

    def _pass(self, steps: Sequence[Step | None]) -> None:
        for step in steps:
            if step is not None and self.steps[-1:] != [step]:
                self.steps.append(step)

    def _evaluate(self, stop: Stop, inputs: list[Any]) -> Running:
        name, params, inner = stop.eqn.primitive.name, stop.eqn.params, stop.inner
        if name in NEW_REF:
            return inputs  # an array that is written in place
        if name == "while":
            first, second = params["cond_nconsts"], params["body_nconsts"]
            for_test, for_body = inputs[:first], inputs[first : first + second]
            carry, (test, body) = inputs[first + second :], inner
            while True:
                [goes_on] = yield from self.run(test, [*for_test, *carry])
                if not goes_on:
                    return carry
                carry = yield from self.run(body, [*for_body, *carry])
        if name == "cond":
            chosen = min(max(int(inputs[0]), 0), len(inner) - 1)
            return (yield from self.run(inner[chosen], inputs[1:]))
        if name in MEMORY:
            return (yield from self._access(stop, inputs))
        [called] = inner
        if name == launch_p.name:
            operands, starts = inputs[: params["count"]], inputs[params["count"] :]
            return (yield Call(called, operands, starts, params["results"], params["programs"]))
        return (yield from self.run(called, inputs))

    def _access(self, stop: Stop, inputs: list[Any]) -> Running:
        multipliers = stop.eqn.params["multipliers"]
        array, *operands = map(np.asarray, inputs)
        terms, rest = operands[: len(multipliers)], operands[len(multipliers) :]
        address = sum(t.astype(np.int64) * m for t, m in zip(terms, multipliers, strict=True))
        kind = stop.eqn.primitive.name.removeprefix("jscan_")
        values = rest[: {"store": 1, "publish": 2}.get(kind, 0)]
        address, *values = np.broadcast_arrays(address, *values)
        mask = np.broadcast_to(rest[-1] if len(rest) > len(values) else True, address.shape)
        if kind == "load":
            flat = array.reshape(-1)
            flat = flat.astype(np.uint8) if flat.dtype == np.bool_ else flat
            # What is outside of the mask is not defined.
            other = anything(self._rng, address.shape, flat.dtype)
            return [np.where(mask, flat[np.where(mask, address, 0)], other)]
        if kind == "store":
            array.reshape(-1)[address[mask]] = values[0][mask]
            return []
        answer = yield Request(kind, stop.step, address, mask, *values)
        return answer if isinstance(answer, list) else [answer]


def anything(rng: np.random.Generator, shape: Sequence[int], dtype: Any) -> np.ndarray[Any, Any]:
    """An array of no defined values."""
    if dtype == np.bool_:
        return rng.random(shape) < 0.5
    count = int(np.prod(shape)) * np.dtype(dtype).itemsize
    return np.frombuffer(bytearray(rng.bytes(count)), dtype).reshape(shape)
