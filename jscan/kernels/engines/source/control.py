"""Branches, loops and calls."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from jax.extend import core

from jscan.kernels.engines.source.function import Equation, Function, Rule
from jscan.kernels.engines.source.operands import BOOL, Operand


def _opened(jaxpr: Any) -> tuple[core.Jaxpr, Sequence[Any]]:
    """A jaxpr and its constants, closed or not."""
    if isinstance(jaxpr, core.ClosedJaxpr):
        return jaxpr.jaxpr, jaxpr.consts
    return jaxpr, ()


def assign(function: Function, names: Sequence[Operand], values: Sequence[Operand]) -> None:
    """Gives the names these values, all at once."""
    moved = [(n.text, v.typed) for n, v in zip(names, values, strict=True) if n.text != v.typed]
    if moved:
        lefts, rights = zip(*moved, strict=True)
        function.line(f"{', '.join(lefts)} = {', '.join(rights)}")


def call(at: Equation) -> list[Operand]:
    """The equations of what is called, in its place."""
    params = at.params
    jaxpr, consts = _opened(params.get("jaxpr") or params.get("call_jaxpr"))
    return at.function.write(jaxpr, consts, at.operands)


def branch(at: Equation) -> list[Operand]:
    """``lax.cond`` and ``lax.switch``."""
    function, branches = at.function, at.params["branches"]
    index, *given = at.operands
    names = at.names()
    for number, (test, jaxpr) in enumerate(_tests(index, branches)):
        last = number == len(branches) - 1
        if last and not names and not _opened(jaxpr)[0].eqns:
            continue
        opening = "else:" if last else f"{'elif' if number else 'if'} {test}:"
        with function.block(opening):
            assign(function, names, function.write(*_opened(jaxpr), given))
    return names


def _tests(index: Operand, branches: Sequence[Any]) -> list[tuple[str, Any]]:
    """The branches, each with the condition on which it is taken where none before it is."""
    if len(branches) > 2:
        return [(f"{index.beside} == {number}", b) for number, b in enumerate(branches)]
    when_false, when_true = branches
    truth = index if index.dtype == BOOL else index.predicate
    condition = f"{index.beside} != 0" if truth is None else truth.tight
    return [(condition, when_true), ("", when_false)]


def loop(at: Equation) -> list[Operand]:
    """``lax.while_loop``."""
    function, params, operands = at.function, at.params, at.operands
    first, second = params["cond_nconsts"], params["cond_nconsts"] + params["body_nconsts"]
    for_test, for_body, start = operands[:first], operands[first:second], operands[second:]
    carried = at.names()
    for name, value in zip(carried, start, strict=True):
        function.line(f"{name.text} = {value.typed}")
    test = _condition(function, params["cond_jaxpr"], [*for_test, *carried])
    with function.block(f"while {test}:"):
        after = function.write(*_opened(params["body_jaxpr"]), [*for_body, *carried])
        assign(function, carried, after)
    return carried


def _condition(function: Function, jaxpr: Any, operands: Sequence[Operand]) -> str:
    """Whether a loop goes on, as an expression: a call where it takes several lines."""
    jaxpr, consts = _opened(jaxpr)
    inline = Function(function.module, like=function)
    [result] = inline.write(jaxpr, consts, operands)
    if not inline.lines:
        return result.typed
    parameters = [
        Operand(f"x{i}", operand.dtype, operand.shape) for i, operand in enumerate(operands)
    ]
    closed = core.ClosedJaxpr(jaxpr, consts)
    name = function.module.function(closed, "goes_on", parameters)
    return f"{name}({', '.join(o.typed for o in operands)})"


RULES: dict[str, Rule] = {
    "cond": branch,
    "while": loop,
    **dict.fromkeys(
        ("jit", "pjit", "closed_call", "core_call", "custom_jvp_call", "custom_vjp_call"), call
    ),
}
