"""Transposes of scans and reductions: what they are linear in, and of what they are not, why.

``jax.linear_transpose`` hands a primitive's transpose rule whatever operands are called linear,
and believes what it returns. A recurrence is linear in its terms and not in its coefficients, a
product in neither, so the operator is asked first.

An operator ``f(left, right)`` makes a scan linear in the leaves L where the states that depend on L
are linear functions of those states, with coefficients that depend on the other leaves alone. The
scan is then its own tangent in these leaves, which the derivative rules know how to transpose.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax.extend import core
from jax.interpreters import ad

from jscan import extent
from jscan.combine import Combine


def undefined(operands: Sequence[Any]) -> tuple[int, ...]:
    """The numbers of the operands in which a primitive is to be transposed."""
    return tuple(i for i, x in enumerate(operands) if ad.is_undefined_primal(x))


def check_linear(
    what: str, combine: Combine, moving: tuple[int, ...], wanted: tuple[int, ...], *, identity: bool
) -> None:
    """Raise where a scan or reduction is not linear in what it is to be transposed in."""
    reason: str | None = "segments are no operand that it is linear in"
    if all(i < combine.num_leaves for i in moving):
        reason = "its operator has a derivative rule of its own, and no transpose"
        # What follows from rules is not kept: operators that differ in them alone are equal.
        if combine.rules is None:
            reason = _why_not_linear(combine, moving, wanted, identity=identity)
    if reason is not None:
        raise TypeError(
            f"jscan: this {what} by {combine.name} is not linear in leaves {list(moving)}, so it "
            f"has no transpose: {reason}"
        )


def at_zero(
    operands: Sequence[Any], moving: Sequence[int], moved: Sequence[jax.Array]
) -> tuple[list[jax.Array], list[jax.Array]]:
    """The operands with zeros in the places ``moving``, and with ``moved`` there."""
    zeros = [jnp.zeros_like(x) for x in moved]
    found = []
    for values in (zeros, moved):
        there = dict(zip(moving, values, strict=True))
        found.append(extent.vary_alike([there.get(i, x) for i, x in enumerate(operands)]))
    return found[0], found[1]


def by_tangents(
    plain: Callable[..., list[Any]],
    jvp: Callable[..., tuple[list[Any], list[Any]]],
    cotangents: Sequence[Any],
    operands: Sequence[Any],
    **params: Any,
) -> list[Any]:
    """What a primitive transposes to that is linear in its undefined operands.

    It is its own tangent there, at zero as anywhere. Integers have no tangents, and take its
    ``plain`` form.
    """
    moving = undefined(operands)

    def tangents(*moved: jax.Array) -> list[Any]:
        primals, slopes = at_zero(operands, moving, moved)
        if jnp.issubdtype(moved[0].dtype, jnp.integer):
            return plain(*slopes, **params)
        tangents = [x if i in moving else zero_of(x) for i, x in enumerate(slopes)]
        return [ad.instantiate_zeros(t) for t in jvp(primals, tangents, **params)[1]]

    return transposed(tangents, cotangents, operands, params["combine"].dtypes)


def transposed(
    tangents: Callable[..., Any],
    cotangents: Sequence[Any],
    operands: Sequence[Any],
    dtypes: Sequence[Any],
) -> list[Any]:
    """The cotangents of the operands that are undefined, by the transpose of their tangents.

    ``dtypes`` are the leaves'. JAX describes integers by their tangents, which have no dtype.
    """
    moving = undefined(operands)
    avals = [operands[i].aval for i in moving]
    avals = [
        aval.update(dtype=dtypes[i]) if aval.dtype == jax.dtypes.float0 else aval
        for i, aval in zip(moving, avals, strict=True)
    ]
    backwards = jax.linear_transpose(tangents, *avals)
    given = [ad.instantiate_zeros(c) for c in cotangents]
    if any(map(_is_of_integers, cotangents)):
        outputs = jax.eval_shape(tangents, *avals)
        given = [
            jnp.zeros(out.shape, out.dtype) if _is_of_integers(c) else x
            for c, x, out in zip(cotangents, given, outputs, strict=True)
        ]
    back = backwards(given)
    there = dict(zip(moving, back, strict=True))
    return [there.get(i) for i in range(len(operands))]


def _is_of_integers(cotangent: Any) -> bool:
    aval: Any = cotangent.aval if type(cotangent) is ad.Zero else None
    return aval is not None and aval.dtype == jax.dtypes.float0


def zero_of(x: Any) -> Any:
    """The tangent of what does not move."""
    return ad.Zero(jax.typeof(x).to_tangent_aval())


@functools.lru_cache(maxsize=256)
def _why_not_linear(
    combine: Combine, moving: tuple[int, ...], wanted: tuple[int, ...], *, identity: bool
) -> str | None:
    """The reason why the results ``wanted`` are not linear in the leaves ``moving``, or None.

    Where ``identity`` is set, some results hold the operator's identity and nothing else.
    """
    states = {*moving}
    while more := {i for i, d in enumerate(combine.dependencies) if d & states} - states:
        states |= more
    needed = [i for i in combine.closure(wanted) if i in states]
    apart = [i for i in needed if i not in moving]
    if apart:
        return f"leaf {apart[0]} depends on them, and its own elements are added to that"
    known = combine.identity
    if identity and known is not None and any(known[i] != 0 for i in needed):
        return "its identity is not zero"
    return _why_nonlinear(combine, states, needed)


def _why_nonlinear(combine: Combine, states: set[int], needed: Sequence[int]) -> str | None:
    """The reason why the operator is not linear in the states of both operands together."""
    jaxpr, k = combine.jaxpr.jaxpr, combine.num_leaves
    linear = {v for i, v in enumerate(jaxpr.invars) if i % k in states}
    faults: dict[Any, str] = {}

    def fault_of(v: Any) -> str | None:
        return None if isinstance(v, core.Literal) else faults.get(v)

    for equation in jaxpr.eqns:
        moved = [not isinstance(v, core.Literal) and v in linear for v in equation.invars]
        if not any(moved):
            continue
        linear.update(equation.outvars)
        inherited = next(filter(None, map(fault_of, equation.invars)), None)
        name = equation.primitive.name
        if inherited is None and not _keeps_linear(equation, moved):
            inherited = f"its operator is not linear in them: {name}"
        if inherited is not None:
            faults.update(dict.fromkeys(equation.outvars, inherited))
    for i in needed:
        result = jaxpr.outvars[i]
        fault = fault_of(result)
        if fault is not None:
            return fault
        if (isinstance(result, core.Literal) or result not in linear) and not _is_zero(result):
            return f"leaf {i} of its operator's result does not depend on them"
    return None


def _keeps_linear(equation: core.JaxprEqn, moved: Sequence[bool]) -> bool:
    """Whether the equation's result is linear in those of its operands that are."""
    name = equation.primitive.name
    if name in ("neg", "copy", "copy_p", "real", "imag", "conj"):
        return True
    if name == "convert_element_type":
        avals: list[Any] = [equation.invars[0].aval, equation.outvars[0].aval]
        exact = [jnp.issubdtype(aval.dtype, jnp.inexact) for aval in avals]
        return exact[0] == exact[1] and avals[1].dtype != np.bool_
    if name == "mul":
        return moved.count(True) == 1
    if name == "div":
        aval: Any = equation.outvars[0].aval
        return list(moved) == [True, False] and bool(jnp.issubdtype(aval.dtype, jnp.inexact))
    if name in ("add", "add_any", "sub", "complex"):
        terms = zip(equation.invars, moved, strict=True)
        return all(is_linear or _is_zero(v) for v, is_linear in terms)
    if name == "select_n":
        cases = zip(equation.invars[1:], moved[1:], strict=True)
        return not moved[0] and all(is_linear or _is_zero(v) for v, is_linear in cases)
    return False


def _is_zero(v: Any) -> bool:
    return isinstance(v, core.Literal) and not np.any(np.asarray(v.val))
