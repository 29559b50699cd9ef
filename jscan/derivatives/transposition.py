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
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax.extend import core
from jax.interpreters import ad

from jscan import extent
from jscan.combine import Combine
from jscan.jaxprs import aval, evaluate


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


class _Term(NamedTuple):
    """A value inside an operator, as a function of the states.

    Attributes:
      moves: whether it depends on the states.
      is_zero: whether it is the number zero.
      fault: why it is no linear function of them, or None if it is one.
    """

    moves: bool
    is_zero: bool = False
    fault: str | None = None


def _why_nonlinear(combine: Combine, states: set[int], needed: Sequence[int]) -> str | None:
    """The reason why the operator is not linear in the states of both operands together."""
    k = combine.num_leaves
    operands = [_Term(moves=i % k in states) for i in range(2 * k)]
    results = evaluate(
        combine.jaxpr.jaxpr,
        operands,
        rules=[_term],
        number=lambda scalar: _Term(moves=False, is_zero=not scalar),
    )
    for i in needed:
        result = results[i]
        if result.fault is not None:
            return result.fault
        if not (result.moves or result.is_zero):
            return f"leaf {i} of its operator's result does not depend on them"
    return None


def _term(equation: core.JaxprEqn, operands: Sequence[_Term]) -> list[_Term]:
    """The rule that follows the states through an equation."""
    if not any(x.moves for x in operands):
        return [_Term(moves=False)] * len(equation.outvars)
    fault = next((x.fault for x in operands if x.fault is not None), None)
    if fault is None and not _keeps_linear(equation, operands):
        fault = f"its operator is not linear in them: {equation.primitive.name}"
    return [_Term(moves=True, fault=fault)] * len(equation.outvars)


def _keeps_linear(equation: core.JaxprEqn, operands: Sequence[_Term]) -> bool:
    """Whether the equation's result is linear in those of its operands that move."""
    name = equation.primitive.name
    moves = [x.moves for x in operands]
    if name in ("neg", "copy", "copy_p", "real", "imag", "conj"):
        return True
    if name == "convert_element_type":
        source, made = aval(equation.invars[0]).dtype, aval(equation.outvars[0]).dtype
        exact = [jnp.issubdtype(dtype, jnp.inexact) for dtype in (source, made)]
        return exact[0] == exact[1] and made != np.bool_
    if name == "mul":
        return moves.count(True) == 1
    if name == "div":
        dtype = aval(equation.outvars[0]).dtype
        return moves == [True, False] and bool(jnp.issubdtype(dtype, jnp.inexact))
    if name in ("add", "add_any", "sub", "complex"):
        return all(x.moves or x.is_zero for x in operands)
    if name == "select_n":
        which, *cases = operands
        return not which.moves and all(x.moves or x.is_zero for x in cases)
    return False
