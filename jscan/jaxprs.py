"""Jaxprs of elementwise functions: recognised, evaluated, compared by structure.

An operator is kept as a jaxpr, and much is asked of it: its values, on scalars and on arrays; a
form of it that a kernel can run; its derivative, its linearity; whether its identity is one. Each
of these is a walk along the equations that differs from the others in what stands for a value, and
in what an equation makes of such values. `evaluate` is the walk, and takes the rest as rules.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Hashable, Iterator, Sequence
from typing import Any, TypeAlias, TypeVar

import jax
import numpy as np
from jax import lax
from jax.extend import core

from jscan import extent

Value = TypeVar("Value")

Atom: TypeAlias = core.Var | core.Literal
"""What an equation reads."""

Rule: TypeAlias = Callable[[core.JaxprEqn, Sequence[Value]], Sequence[Value] | None]
"""The results of an equation, given its operands; None where the rule does not cover it."""

# fmt: off
ELEMENTWISE = frozenset({
    "abs", "acos", "acosh", "add", "add_any", "and", "asin", "asinh", "atan", "atan2", "atanh",
    "bessel_i0e", "bessel_i1e", "bitcast_convert_type", "cbrt", "ceil", "clamp", "clz",
    "complex", "conj", "convert_element_type", "copy", "copy_p", "cos", "cosh", "digamma",
    "div", "eq", "eq_to", "erf", "erf_inv", "erfc", "exp", "exp2", "expm1", "floor", "ge", "gt",
    "igamma", "igamma_grad_a", "igammac", "imag", "integer_pow", "is_finite", "le", "le_to",
    "lgamma", "log", "log1p", "logistic", "lt", "lt_to", "max", "min", "mul", "mulhi", "ne",
    "neg", "nextafter", "not", "or", "polygamma", "population_count", "pow", "real",
    "reduce_precision", "regularized_incomplete_beta", "rem", "round", "rsqrt", "select_n",
    "shift_left", "shift_right_arithmetic", "shift_right_logical", "sign", "sin", "sinh",
    "sqrt", "square", "stop_gradient", "sub", "tan", "tanh", "xor", "zeta",
})
# fmt: on
"""Primitives whose result at an index depends on their operands at that index alone."""

RESHAPING = frozenset({"broadcast_in_dim", "reshape", "squeeze"})
"""Primitives that leave a scalar as it is."""

CUSTOM_CALLS = frozenset({"custom_jvp_call", "custom_vjp_call", "custom_vjp_call_jaxpr"})
CALLS = CUSTOM_CALLS | {"jit", "pjit", "closed_call", "core_call", "checkpoint", "remat", "remat2"}


def is_elementwise(closed: core.ClosedJaxpr, shape: tuple[int, ...]) -> bool:
    """Whether every equation works element by element on values of ``shape`` or on scalars.

    Constants are scalars; those of the whole, not of calls inside of it, may be traced.
    """
    if closed.effects:
        return False
    constants = [x for x in closed.consts if not _is_traced_scalar(x)]
    for eqn in equations(closed.jaxpr):
        name = eqn.primitive.name
        if name in CALLS:
            constants += _called(eqn)[1]
        elif name in RESHAPING:
            # Only a scalar may be spread; anything else could move elements about.
            if any(aval(v).shape != () for v in eqn.invars):
                return False
        elif name not in ELEMENTWISE:
            return False
        constants += [v.val for v in eqn.invars if isinstance(v, core.Literal)]
        if any(aval(v).shape not in (shape, ()) for v in eqn.outvars):
            return False
    return all(_is_concrete_scalar(constant) for constant in constants)


def has_custom_rules(jaxpr: core.Jaxpr) -> bool:
    """Whether a function with a derivative rule of its own is called anywhere in ``jaxpr``."""
    return any(eqn.primitive.name in CUSTOM_CALLS for eqn in equations(jaxpr))


def equations(jaxpr: core.Jaxpr) -> Iterator[core.JaxprEqn]:
    """The equations of ``jaxpr`` and of every jaxpr that it calls."""
    for eqn in jaxpr.eqns:
        yield eqn
        if eqn.primitive.name in CALLS:
            yield from equations(_called(eqn)[0])


# --- evaluation ---------------------------------------------------------------------------------


def bound(eqn: core.JaxprEqn, operands: Sequence[Any]) -> list[Any]:
    """The rule that binds an equation's primitive as it stands."""
    results = eqn.primitive.bind(*operands, **eqn.params)
    return results if eqn.primitive.multiple_results else [results]


def elementwise(eqn: core.JaxprEqn, operands: Sequence[Any]) -> list[Any]:
    """The rule that computes on scalars or on arrays of one shape, whatever was traced on.

    A primitive that holds jaxprs of scalars, as loops, branches and linear solves do, is mapped
    over the elements of arrays.
    """
    if eqn.primitive.name in RESHAPING:
        return [lax.convert_element_type(operands[0], aval(eqn.outvars[0]).dtype)]
    wide = next((x for x in operands if np.ndim(x) > 0), None)
    if wide is None:
        return bound(eqn, operands)
    run: Callable[[Sequence[Any]], list[Any]] = functools.partial(bound, eqn)
    if holds_jaxprs(eqn):
        for _ in range(np.ndim(wide)):
            run = _mapped(run)
    return run(extent.vary_alike([spread(x, wide) for x in operands]))


def holds_jaxprs(eqn: core.JaxprEqn) -> bool:
    """Whether an equation runs others, as loops and branches do."""
    return any(core.jaxprs_in_params(eqn.params))


def _mapped(run: Callable[[Sequence[Any]], list[Any]]) -> Callable[[Sequence[Any]], list[Any]]:
    """``run`` on each element of the operands' first axis."""
    return lambda operands: jax.vmap(lambda *given: run(given))(*operands)


def evaluate(
    jaxpr: core.Jaxpr,
    operands: Sequence[Value],
    rules: Sequence[Rule[Value]] = (elementwise,),
    number: Callable[[Any], Value] = lambda scalar: scalar,
) -> list[Value]:
    """The results of ``jaxpr``, equation by equation.

    Calls are inlined. The equations' contexts (mesh, compute type) are not restored: an operator is
    traced apart from the place where it is used.

    Args:
      jaxpr: what is evaluated.
      operands: what its constants, then its inputs, stand for.
      rules: asked in turn for the results of an equation, until one covers it.
      number: what a literal, or a constant of a call, stands for. It is given a NumPy scalar of the
        literal's dtype, which may be written as a bare Python number.

    Raises:
      NotImplementedError: no rule covers an equation; the error names its primitive.
    """
    values = dict(zip([*jaxpr.constvars, *jaxpr.invars], operands, strict=True))

    def read(v: Atom) -> Value:
        if isinstance(v, core.Literal):
            return number(np.asarray(v.val, aval(v).dtype)[()])
        return values[v]

    for eqn in jaxpr.eqns:
        inputs = [read(v) for v in eqn.invars]
        results: Sequence[Value] | None
        if eqn.primitive.name in CALLS:
            called, constants = _called(eqn)
            scalars = [number(np.asarray(constant)[()]) for constant in constants]
            results = evaluate(called, [*scalars, *inputs], rules, number)
        else:
            results = next((r for rule in rules if (r := rule(eqn, inputs)) is not None), None)
        if results is None:
            raise NotImplementedError(f"jscan: no rule covers {eqn.primitive.name} in an operator")
        values.update(zip(eqn.outvars, results, strict=True))
    return [read(v) for v in jaxpr.outvars]


def spread(value: Any, like: jax.Array) -> jax.Array:
    """``value``, where it is a scalar, with the shape, sharding and varying axes of ``like``."""
    return value if np.ndim(value) == np.ndim(like) else lax.full_like(like, value, value.dtype)


def aval(v: Atom) -> jax.core.ShapedArray:
    """The shape and dtype of what an equation reads or makes."""
    found: Any = v.aval  # of a type that has neither, as far as JAX says
    return found


def _called(eqn: core.JaxprEqn) -> tuple[core.Jaxpr, list[Any]]:
    """The jaxpr that a call runs, and its constants."""
    inner = next(eqn.params[k] for k in ("jaxpr", "call_jaxpr", "fun_jaxpr") if k in eqn.params)
    return (inner.jaxpr, list(inner.consts)) if isinstance(inner, core.ClosedJaxpr) else (inner, [])


def _is_traced_scalar(value: Any) -> bool:
    if not isinstance(value, jax.core.Tracer) or value.shape != ():
        return False
    return isinstance(value.dtype, np.dtype) and value.dtype != jax.dtypes.float0


def _is_concrete_scalar(value: Any) -> bool:
    if isinstance(value, jax.core.Tracer) or np.shape(value) != ():
        return False
    return not isinstance(value, jax.Array) or value.is_fully_addressable


# --- comparison ---------------------------------------------------------------------------------


class Keyed:
    """What is equal and hashed by a ``key``, which `keep_key` keeps with its hash."""

    key: Hashable
    key_hash: int

    def keep_key(self, key: Hashable) -> None:
        """Keeps the key of an object that is frozen otherwise."""
        object.__setattr__(self, "key", key)
        object.__setattr__(self, "key_hash", hash(key))

    def __eq__(self, other: object) -> bool:
        if self is other:
            return True
        if not isinstance(other, type(self)):
            return NotImplemented
        return self.key_hash == other.key_hash and self.key == other.key

    def __hash__(self) -> int:
        return self.key_hash


def structure(jaxpr: core.Jaxpr) -> Hashable:
    """A flat jaxpr as a hashable value; equal for equal programs, whatever their variables."""
    numbers: dict[core.Var, int] = {}

    def atom(v: Atom) -> Hashable:
        if isinstance(v, core.Literal):
            return scalar_structure(np.asarray(v.val, aval(v).dtype))
        return numbers.setdefault(v, len(numbers))

    def typed(v: Atom) -> Hashable:
        return atom(v), aval(v).shape, aval(v).dtype

    inputs = tuple(typed(v) for v in [*jaxpr.constvars, *jaxpr.invars])
    body = tuple(
        (
            eqn.primitive.name,
            tuple((name, param_structure(value)) for name, value in sorted(eqn.params.items())),
            tuple(atom(v) for v in eqn.invars),
            tuple(typed(v) for v in eqn.outvars),
        )
        for eqn in jaxpr.eqns
    )
    return inputs, body, tuple(atom(v) for v in jaxpr.outvars)


def param_structure(value: Any) -> Hashable:
    """A parameter of an equation as a hashable value."""
    if isinstance(value, (tuple, list)):
        return tuple(param_structure(item) for item in value)
    return scalar_structure(value) if isinstance(value, np.ndarray) else value


def scalar_structure(value: Any) -> Hashable:
    """A value by its dtype and bytes, so that 0.0 and -0.0 differ and NaN equals itself."""
    array = np.asarray(value)
    return array.dtype, array.shape, array.tobytes()
