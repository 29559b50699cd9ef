"""Transposes of scans and reductions in the operands that they are linear in.

A scan S is linear in some of its leaves if S(x + x') = S(x) + S(x') there. It is then its own
derivative, dS = S, at zero as anywhere else; so its transpose is that of its tangents, which the
derivative rules have. An operator f makes a scan linear in the leaves L if f is linear in the
states, of both its operands together, that depend on L, with coefficients that depend on the other
leaves alone: a y + b is linear in b, but not in a.

``jax.linear_transpose`` hands a transpose rule whatever operands its caller says are linear, and
believes what the rule returns. So the operator's jaxpr is asked first, and an error says why a scan
is not linear.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax.core import ShapedArray
from jax.extend import core
from jax.interpreters import ad

from jscan import extent
from jscan.combine import Combine
from jscan.derivatives.tangents import Tangent, zero_of
from jscan.jaxprs import aval, evaluate


def undefined(operands: Sequence[Any]) -> tuple[int, ...]:
    """The numbers of the operands in which a primitive is transposed."""
    return tuple(i for i, x in enumerate(operands) if ad.is_undefined_primal(x))


def check_linear(
    what: str, combine: Combine, moving: tuple[int, ...], wanted: tuple[int, ...], *, identity: bool
) -> None:
    """Raise where a scan or reduction is not linear in the operands ``moving``."""
    reason: str | None = "it is not linear in segments"
    if all(i < combine.num_leaves for i in moving):
        reason = "its operator has a derivative rule of its own, and no transpose"
        # Operators that differ in their rules alone are equal, so what follows from rules must not
        # be cached by the operator.
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
    cotangents: Sequence[Tangent],
    operands: Sequence[Any],
    **params: Any,
) -> list[Any]:
    """The cotangents of the undefined operands of a primitive that is linear in them.

    Its tangents in them, by ``jvp``, are the primitive itself. Integers have no tangents: for them
    it is its ``plain`` form that is transposed.

    Raises:
      TypeError: of integers whose axis goes on across devices JAX transposes no collective.
    """
    moving = undefined(operands)

    def tangents(*moved: jax.Array) -> list[Any]:
        primals, directions = at_zero(operands, moving, moved)
        if jnp.issubdtype(moved[0].dtype, jnp.integer):
            if params["axis_name"]:
                raise TypeError(
                    f"jscan: by {params['combine'].name}, integers have no transpose across "
                    f"axis_name={params['axis_name']!r}; float64 holds those up to 2**53"
                )
            return plain(*directions, **params)
        tangents = [x if i in moving else zero_of(x) for i, x in enumerate(directions)]
        return [ad.instantiate_zeros(t) for t in jvp(primals, tangents, **params)[1]]

    return transposed(tangents, cotangents, operands, params["combine"].dtypes)


def transposed(
    tangents: Callable[..., Any],
    cotangents: Sequence[Tangent],
    operands: Sequence[Any],
    dtypes: Sequence[Any],
) -> list[Any]:
    """The cotangents of the undefined operands; None for the others.

    ``tangents`` is a linear function of these operands. ``dtypes`` are those of the leaves: JAX
    describes undefined integers by the aval of their tangents, float0, which does not tell.
    """
    moving = undefined(operands)
    avals = [
        x.aval.update(dtype=dtypes[i]) if x.aval.dtype == jax.dtypes.float0 else x.aval
        for i, x in enumerate(operands)
        if i in moving
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


def as_wide_as(cotangent: jax.Array, operand: ShapedArray) -> jax.Array:
    """The cotangent in the dtype of its operand.

    That of an exact sum is as wide as it is combined. Integers, whose avals do not tell, are
    combined in their own dtype.
    """
    if operand.dtype == jax.dtypes.float0:
        return cotangent
    return cotangent.astype(operand.dtype)


def _is_of_integers(cotangent: Tangent) -> bool:
    if not isinstance(cotangent, ad.Zero):
        return False
    described: Any = cotangent.aval
    return described.dtype == jax.dtypes.float0


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
