"""The text of a function, written along a jaxpr, and of the module that it is part of."""

from __future__ import annotations

import collections
import contextlib
import dataclasses
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, TypeAlias

import numpy as np
from jax.extend import core

from jscan.jaxprs import aval
from jscan.kernels.engines.source.operands import Form, Operand, Unwritable, operand_of
from jscan.kernels.steps import Step

LONGEST = 60
"""The most letters of an expression that stands in another one, and has no name of its own."""

Rule: TypeAlias = "Callable[[Equation], list[Operand]]"
"""The results of an equation. What may not move, the rule gives a name itself."""


@dataclasses.dataclass(frozen=True)
class Equation:
    """An equation that is being written."""

    function: Function
    eqn: core.JaxprEqn
    operands: list[Operand]

    @property
    def params(self) -> dict[str, Any]:
        """The parameters."""
        return self.eqn.params

    @property
    def dtype(self) -> np.dtype:
        """The dtype of the first result."""
        return np.dtype(aval(self.eqn.outvars[0]).dtype)

    @property
    def shape(self) -> tuple[int, ...]:
        """The shape of the first result."""
        return tuple(aval(self.eqn.outvars[0]).shape)

    def result(
        self, text: str, form: Form = Form.CALL, *, predicate: Operand | None = None
    ) -> list[Operand]:
        """The one result, as an expression."""
        return [Operand(text, self.dtype, self.shape, form, predicate=predicate)]

    def named(self, text: str) -> list[Operand]:
        """The one result, under a name."""
        return [self.function.named(self.result(text)[0])]

    def names(self) -> list[Operand]:
        """New names for the results."""
        avals = [aval(v) for v in self.eqn.outvars]
        return [self.function.new(np.dtype(a.dtype), tuple(a.shape)) for a in avals]

    def unwritable(self) -> Unwritable:
        """What to raise where there is no such thing for operands of these types."""
        types = ", ".join(x.dtype.name for x in self.operands)
        return Unwritable(f"Triton's language has no {self.eqn.primitive.name} of {types}")


class Module:
    """The functions that a program calls, each once, whatever number of times it is needed."""

    def __init__(self, rules: Mapping[str, Rule]):
        self.rules = rules
        self._names: dict[tuple[str, ...], str] = {}

    @property
    def text(self) -> str:
        """The functions, in the order in which one calls another."""
        return "".join(
            f"@triton.jit\ndef {name}{lines[0]}:\n" + "\n".join(lines[1:]) + "\n\n\n"
            for lines, name in self._names.items()
        )

    def function(self, jaxpr: core.ClosedJaxpr, name: str, parameters: Sequence[Operand]) -> str:
        """The name of a function that computes ``jaxpr`` of these parameters."""
        function = Function(self)
        results = function.write(jaxpr.jaxpr, jaxpr.consts, parameters)
        function.line("return " + ", ".join(r.typed for r in results))
        return self._kept(name, (f"({_names(parameters)})", *function.lines))

    def returning(self, text: str, name: str, parameters: Sequence[Operand]) -> str:
        """The name of a function that returns an expression."""
        return self._kept(name, (f"({_names(parameters)})", f"    return {text}"))

    def _kept(self, name: str, lines: tuple[str, ...]) -> str:
        """The name of the function with these lines, the same for all that want it."""
        if lines not in self._names:
            taken = set(self._names.values())
            candidates = (name, *(f"{name}{number}" for number in range(2, len(taken) + 3)))
            self._names[lines] = next(c for c in candidates if c not in taken)
        return self._names[lines]


class Function:
    """The lines of one function."""

    def __init__(self, module: Module, like: Function | None = None):
        """Begins a function, or a part of another one, whose names and place are those of it."""
        self.module = module
        self.lines: list[str] = []
        self._indent: str = "    " if like is None else like._indent
        self._counts: collections.Counter[str]
        self._counts = collections.Counter() if like is None else like._counts
        self._step: Step | None = None

    def line(self, text: str) -> None:
        """Adds a line."""
        self.lines.append(self._indent + text)

    @contextlib.contextmanager
    def block(self, opening: str) -> Iterator[None]:
        """Adds lines in a block of their own."""
        outside, step = self._indent, self._step
        self.line(opening)
        self._indent += "    "
        before = len(self.lines)
        yield
        if len(self.lines) == before:
            self.line("pass")
        self._indent, self._step = outside, step

    def new(self, dtype: np.dtype, shape: tuple[int, ...]) -> Operand:
        """A name that nothing has: m for masks and conditions, t for tiles, s for scalars."""
        letter = "m" if dtype == np.bool_ else "t" if shape else "s"
        self._counts[letter] += 1
        return Operand(f"{letter}{self._counts[letter]}", dtype, shape)

    def named(self, operand: Operand) -> Operand:
        """The operand under a name."""
        if operand.form is Form.NAME:
            return operand
        name = self.new(operand.dtype, operand.shape)
        self.line(f"{name.text} = {operand.typed}")
        return dataclasses.replace(name, predicate=operand.predicate)

    def write(
        self, jaxpr: core.Jaxpr, consts: Sequence[Any], operands: Sequence[Operand]
    ) -> list[Operand]:
        """Writes the equations; returns the results."""
        eqns = _needed(jaxpr)
        values = {v: operand_of(v, c) for v, c in zip(jaxpr.constvars, consts, strict=True)}
        values.update(zip(jaxpr.invars, operands, strict=True))
        uses = collections.Counter(
            v
            for eqn in eqns
            for v in (*eqn.invars, *_needing_names(eqn))
            if not isinstance(v, core.Literal)
        )
        uses.update(v for v in jaxpr.outvars if not isinstance(v, core.Literal))

        def read(atom: Any) -> Operand:
            return operand_of(atom, atom.val) if isinstance(atom, core.Literal) else values[atom]

        for eqn in eqns:
            rule = self.module.rules.get(eqn.primitive.name)
            if rule is None:
                raise Unwritable(f"Triton's language has no {eqn.primitive.name}")
            self._mark(eqn)
            results = rule(Equation(self, eqn, [read(v) for v in eqn.invars]))
            for variable, result in zip(eqn.outvars, results, strict=True):
                if uses[variable]:
                    once = uses[variable] == 1 and len(result.text) <= LONGEST
                    stays = once or result.value is not None
                    values[variable] = result if stays else self.named(result)
        return [read(v) for v in jaxpr.outvars]

    def _mark(self, eqn: core.JaxprEqn) -> None:
        """Writes the step that an equation is part of, where it is the first of it."""
        parts = str(eqn.source_info.name_stack).split("/")
        step = next((step for step in Step if step.value in parts), None)
        if step is not None and step is not self._step:
            self.line(f"# {step.value}")
            self._step = step


def _needed(jaxpr: core.Jaxpr) -> list[core.JaxprEqn]:
    """The equations that do something, or whose results are used."""
    used = {v for v in jaxpr.outvars if not isinstance(v, core.Literal)}
    found = []
    for eqn in reversed(jaxpr.eqns):
        if eqn.effects or used.intersection(eqn.outvars):
            used.update(v for v in eqn.invars if not isinstance(v, core.Literal))
            found.append(eqn)
    return found[::-1]


def _names(parameters: Sequence[Operand]) -> str:
    return ", ".join(p.text for p in parameters)


def _needing_names(eqn: core.JaxprEqn) -> Sequence[Any]:
    """The operands that other equations read inside of this one, who knows how often."""
    if eqn.primitive.name == "cond":
        return eqn.invars[1:]
    return eqn.invars if any(True for _ in core.jaxprs_in_params(eqn.params)) else ()
