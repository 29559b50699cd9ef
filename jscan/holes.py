"""Numbers that an operator reads, as operands: where they can be, and in which dtypes.

A number becomes an operand where the operator is the same program without knowing it. It is traced
both ways, with the number and with a tracer in its place, and the two jaxprs are compared: each
literal that the number made must be where the other jaxpr reads the tracer. A number that decides
what is computed (an exponent, a branch), or that is computed with before it meets an element, stays
a constant.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import jax
import numpy as np
from jax import lax
from jax.extend import core

from jscan.combine import Combine, scalar_jaxpr
from jscan.jaxprs import aval, bound, evaluate, param_structure, scalar_structure


def as_dtype(scalar: Any, dtype: np.dtype) -> Any:
    """A scalar in the dtype in which it meets elements. Raises `OverflowError`."""
    if type(scalar) is float and dtype.kind == "f" and abs(scalar) < 1e38:
        return dtype.type(scalar)
    if isinstance(scalar, jax.Array):
        return scalar if scalar.dtype == dtype else lax.convert_element_type(scalar, dtype)
    if np.issubdtype(dtype, np.integer) and not isinstance(scalar, np.generic):
        limits = np.iinfo(dtype)
        if not limits.min <= scalar <= limits.max:
            raise OverflowError
    with np.errstate(all="ignore"):
        return np.asarray(scalar).astype(dtype)[()]


def matched(plain: Combine, opened: Combine, scalars: Sequence[Any]) -> list[np.dtype] | None:
    """The dtypes in which scalars meet elements; None if the operators are not the same program.

    ``plain`` has literals where ``opened`` has the leaves of its right operand behind the others.
    """
    count, held = plain.num_leaves, len(scalars)
    theirs, ours = plain.jaxpr.jaxpr, opened.jaxpr.jaxpr
    left, right = ours.invars[:count], ours.invars[count + held : 2 * count + held]
    same: dict[Any, Any] = dict(zip([*left, *right], theirs.invars, strict=True))
    which = {v: i for i, v in enumerate(ours.invars[2 * count + held :])}
    dtypes: dict[int, np.dtype] = {}

    def agree(mine: Any, other: Any) -> bool:
        is_literal = isinstance(mine, core.Literal)
        if not is_literal and mine not in which:
            return same.get(mine) is other
        if not isinstance(other, core.Literal):
            return False
        dtype = aval(other).dtype
        if is_literal:
            value, fits = mine.val, aval(mine).dtype == dtype
        else:
            place = which[mine]
            value, fits = as_dtype(scalars[place], dtype), dtypes.setdefault(place, dtype) == dtype
        return fits and _as_bytes(value, dtype) == _as_bytes(other.val, dtype)

    rest = iter(theirs.eqns)
    for equation in ours.eqns:
        if _converts(equation) and not isinstance(equation.invars[0], core.Literal):
            place = which.get(equation.invars[0], -1)
            if place >= 0:
                which[equation.outvars[0]] = place
                continue
        other = next(rest, None)
        if other is None or other.primitive is not equation.primitive:
            return None
        if _parameters(other) != _parameters(equation):
            return None
        if not all(map(agree, equation.invars, other.invars)):
            return None
        same.update(zip(equation.outvars, other.outvars, strict=True))
    if next(rest, None) is not None:
        return None
    if not all(map(agree, ours.outvars[:count], theirs.outvars)):
        return None
    return [dtypes[i] for i in range(held)] if len(dtypes) == held else None


def retyped(opened: Combine, dtypes: Sequence[np.dtype]) -> Combine:
    """The operator whose last leaves have the dtypes to which it converts them."""
    held, whole = len(dtypes), opened.dtypes
    count = len(whole) - held
    if whole[count:] == [*dtypes]:
        return opened
    holding: list[Any] = []

    def as_it_is(equation: core.JaxprEqn, operands: Sequence[Any]) -> list[Any] | None:
        is_held = any(operands[0] is x for x in holding)
        return [operands[0]] if _converts(equation) and is_held else None

    def run(*operands: Any) -> list[Any]:
        holding[:] = operands[2 * count + held :]
        results = evaluate(opened.jaxpr.jaxpr, operands, rules=(as_it_is, bound))
        return [*results[:count], *holding]

    jaxpr = scalar_jaxpr(run, [*whole[:count], *dtypes] * 2)
    return Combine(jaxpr, None, opened.name, None)


def _converts(equation: core.JaxprEqn) -> bool:
    return equation.primitive is lax.convert_element_type_p


def _parameters(equation: core.JaxprEqn) -> dict[str, Any]:
    return {name: param_structure(value) for name, value in equation.params.items()}


def _as_bytes(value: Any, dtype: np.dtype) -> Any:
    return scalar_structure(np.asarray(value, dtype))
