"""Operators in which one of two exponentials is of zero: the other one alone is computed.

    exp(x - max(x, y)), exp(y - max(x, y))        where x >= y: 1, exp(y - x); else exp(x - y), 1

So sums of exponentials are kept in range, as in a softmax that is accumulated. An exponential of
float64 is some hundred instructions; of float32 it is few. Results are the same: what would be NaN,
where numbers are or where a difference is one of infinities, is NaN.
"""

from __future__ import annotations

import functools
from collections.abc import Sequence
from typing import Any, TypeAlias

import numpy as np
from jax import lax
from jax.extend import core

from jscan.jaxprs import bound, evaluate
from jscan.kernels.operator import trace_scalars

GREATEST = ("max", "jscan_nan_max")


@functools.lru_cache(maxsize=1024)
def once(operator: core.ClosedJaxpr) -> core.ClosedJaxpr:
    """The operator, of scalars, with one exponential for two; the same one where there are none.

    Maximum and sum of exponentials, of copy speed, with two and with one (H100, 2026-11-27): of
    float64, 50 million 0.24 and 0.30, rows of 317 0.21 and 0.32, of 1024 0.46 and 0.63; of float32,
    (1024, 50265), 0.68 and 0.65, others as before, so that those are left as they are.
    """
    pairs = _pairs(operator.jaxpr)
    double = any(np.dtype(a.dtype) == np.float64 for a in operator.in_avals)
    if not (pairs and double):
        return operator

    unused = _of_pairs_alone(operator.jaxpr, pairs)

    def run(*scalars: Any) -> list[Any]:
        known: dict[core.Var, Any] = {}

        def paired(equation: core.JaxprEqn, operands: Sequence[Any]) -> list[Any] | None:
            [result] = equation.outvars
            if result in pairs:
                x, y = operands
                [greatest] = bound(equation, operands)
                is_first = lax.ge(x, y)
                first, second = pairs[result]
                [other] = bound(first, [lax.select(is_first, y, x) - greatest])
                one = (greatest - greatest) + np.ones((), greatest.dtype)[()]
                known[first.outvars[0]] = lax.select(is_first, one, other)
                known[second.outvars[0]] = lax.select(is_first, other, one)
                return [greatest]
            if result in unused:
                return [None]
            return [known[result]] if result in known else None

        return evaluate(operator.jaxpr, scalars, (paired, bound))

    return trace_scalars(run, [np.dtype(a.dtype) for a in operator.in_avals])


Pairs: TypeAlias = dict[core.Var, tuple[core.JaxprEqn, core.JaxprEqn]]


def _of_pairs_alone(jaxpr: core.Jaxpr, pairs: Pairs) -> set[core.Var]:
    """The differences that nothing but the exponentials of pairs reads."""
    of_pairs = [equation for both in pairs.values() for equation in both]
    read = [v for e in jaxpr.eqns if e not in of_pairs for v in e.invars]
    others = {v for v in (*read, *jaxpr.outvars) if not isinstance(v, core.Literal)}
    differences = [v for e in of_pairs for v in e.invars if not isinstance(v, core.Literal)]
    return set(differences) - others


def _pairs(jaxpr: core.Jaxpr) -> Pairs:
    """By the greatest of two numbers, the exponentials of the first less it, and of the second."""
    made = {e.outvars[0]: e for e in jaxpr.eqns if len(e.outvars) == 1}
    exponentials: dict[tuple[Any, Any], core.JaxprEqn] = {}
    for equation in jaxpr.eqns:
        [of, *_] = equation.invars
        if equation.primitive.name != "exp" or isinstance(of, core.Literal) or of not in made:
            continue
        difference = made[of]
        if difference.primitive.name == "sub":
            number, greatest = difference.invars
            if not isinstance(number, core.Literal) and not isinstance(greatest, core.Literal):
                exponentials.setdefault((greatest, number), equation)
    found = {}
    for result, equation in made.items():
        if equation.primitive.name in GREATEST:
            numbers = [v for v in equation.invars if not isinstance(v, core.Literal)]
            both = [exponentials[result, v] for v in numbers if (result, v) in exponentials]
            if len(both) == 2 and both[0] is not both[1]:
                found[result] = (both[0], both[1])
    return found
