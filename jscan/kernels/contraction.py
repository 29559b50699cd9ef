"""Operators in which a product and its addition are one instruction, rounded once.

A GPU multiplies and adds in one instruction, which compilers take where they may change the
rounding. The engines differ in that; so it is said here. A recurrence, (a c, c b + d), takes two
instructions an application for three.

Sums of two products are left alone: one of them would be rounded and the other not, so that x y - y
x were no longer zero.
"""

from __future__ import annotations

import collections
import dataclasses
from collections.abc import Callable, Sequence
from typing import Any, TypeAlias

import numpy as np
from jax.extend import core

from jscan.jaxprs import aval, bound, evaluate
from jscan.kernels import language

DTYPES = (np.float32, np.float64)


@dataclasses.dataclass(frozen=True)
class Product:
    """A product that waits for the sum that it is a part of."""

    x: Any
    y: Any


Value: TypeAlias = Any
"""A scalar, or a product of two."""


def contracted(
    operator: core.ClosedJaxpr, trace: Callable[..., core.ClosedJaxpr]
) -> core.ClosedJaxpr:
    """The operator with its products added up so; the same one where there are none.

    Args:
      operator: flat, on real scalars, without constants.
      trace: makes a jaxpr of a function and dtypes.
    """
    waiting = _waiting(operator.jaxpr)
    if not waiting:
        return operator

    def delayed(equation: core.JaxprEqn, operands: Sequence[Value]) -> list[Value] | None:
        return [Product(*operands)] if equation.outvars[0] in waiting else None

    def run(*scalars: Any) -> list[Any]:
        return evaluate(operator.jaxpr, scalars, (delayed, _added, bound))

    return trace(run, [np.dtype(a.dtype) for a in operator.in_avals])


def _waiting(jaxpr: core.Jaxpr) -> set[core.Var]:
    """The products that are used once, in a sum with what is none."""
    uses = collections.Counter(
        v for e in jaxpr.eqns for v in e.invars if not isinstance(v, core.Literal)
    )
    uses.update(v for v in jaxpr.outvars if not isinstance(v, core.Literal))
    products = {e.outvars[0] for e in jaxpr.eqns if e.primitive.name == "mul"}
    found: set[core.Var] = set()
    for equation in jaxpr.eqns:
        name, dtype = equation.primitive.name, aval(equation.outvars[0]).dtype
        if name not in ("add", "sub") or dtype not in DTYPES:
            continue
        parts = [v for v in equation.invars if not isinstance(v, core.Literal) and v in products]
        # What is taken from a product would have to be negated, which takes as much.
        negated = name == "sub" and parts == [equation.invars[0]]
        if len(parts) == 1 and uses[parts[0]] == 1 and not negated:
            found.update(parts)
    return found


def _added(equation: core.JaxprEqn, operands: Sequence[Value]) -> list[Value] | None:
    """The rule for sums and differences with a product that waits."""
    if not any(isinstance(x, Product) for x in operands):
        return None
    [product, other] = sorted(operands, key=lambda x: not isinstance(x, Product))
    minus = equation.primitive.name == "sub"
    return [language.fma(product.x, product.y, other, minus=minus)]
