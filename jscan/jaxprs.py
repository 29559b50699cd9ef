"""Jaxprs of elementwise functions: recognised, run on scalars or arrays, compared by structure."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import jax
import numpy as np
from jax import lax
from jax.extend import core

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
"""Primitives that do nothing to a scalar."""

CUSTOM_CALLS = frozenset({"custom_jvp_call", "custom_vjp_call", "custom_vjp_call_jaxpr"})
CALLS = CUSTOM_CALLS | {"jit", "pjit", "closed_call", "core_call", "checkpoint", "remat", "remat2"}


def is_elementwise(closed: core.ClosedJaxpr, shape: tuple[int, ...]) -> bool:
    """Whether every equation works element by element on values of ``shape`` or on scalars."""
    if closed.effects:
        return False
    constants = list(closed.consts)
    for eqn in equations(closed.jaxpr):
        name = eqn.primitive.name
        if name in CALLS:
            constants += _called(eqn)[1]
        elif name in RESHAPING:
            # Only a scalar may be spread; anything else could move elements about.
            if any(_shape(v) != () for v in eqn.invars):
                return False
        elif name not in ELEMENTWISE:
            return False
        constants += [v.val for v in eqn.invars if isinstance(v, core.Literal)]
        if any(_shape(v) not in (shape, ()) for v in eqn.outvars):
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


def evaluate(jaxpr: core.Jaxpr, operands: Sequence[Any]) -> list[Any]:
    """Run an elementwise jaxpr on scalars or arrays of one shape, whatever it was traced on.

    Constants come first among the operands. Calls are inlined. The equations' contexts (mesh,
    compute type) are not restored: an operator is traced apart from the place where it is used.
    """
    values = dict(zip([*jaxpr.constvars, *jaxpr.invars], operands, strict=True))

    def read(v: Any) -> Any:
        # A literal may be a bare Python number.
        return np.asarray(v.val, _dtype(v))[()] if isinstance(v, core.Literal) else values[v]

    for eqn in jaxpr.eqns:
        inputs = [read(v) for v in eqn.invars]
        name = eqn.primitive.name
        results: list[Any]
        if name in RESHAPING:
            results = [lax.convert_element_type(inputs[0], _dtype(eqn.outvars[0]))]
        elif name in CALLS:
            called, constants = _called(eqn)
            scalars = [np.asarray(constant)[()] for constant in constants]
            results = evaluate(called, [*scalars, *inputs])
        else:
            results = eqn.primitive.bind(*_spread_all(inputs), **eqn.params)
            results = results if eqn.primitive.multiple_results else [results]
        values.update(zip(eqn.outvars, results, strict=True))
    return [read(v) for v in jaxpr.outvars]


def spread(value: Any, like: jax.Array) -> jax.Array:
    """``value``, where it is a scalar, with the shape, sharding and varying axes of ``like``."""
    return value if np.ndim(value) == np.ndim(like) else lax.full_like(like, value, value.dtype)


def _spread_all(inputs: Sequence[Any]) -> Sequence[Any]:
    wide = next((x for x in inputs if np.ndim(x) > 0), None)
    return inputs if wide is None else [spread(x, wide) for x in inputs]


def _called(eqn: core.JaxprEqn) -> tuple[core.Jaxpr, list[Any]]:
    """The jaxpr that a call equation runs, and its constants."""
    inner = next(eqn.params[k] for k in ("jaxpr", "call_jaxpr", "fun_jaxpr") if k in eqn.params)
    return (inner.jaxpr, list(inner.consts)) if isinstance(inner, core.ClosedJaxpr) else (inner, [])


def _shape(v: Any) -> tuple[int, ...]:
    shape: tuple[int, ...] = v.aval.shape
    return shape


def _dtype(v: Any) -> Any:
    return v.aval.dtype


def _is_concrete_scalar(value: Any) -> bool:
    if isinstance(value, jax.core.Tracer) or np.shape(value) != ():
        return False
    return not isinstance(value, jax.Array) or value.is_fully_addressable


def structure(jaxpr: core.Jaxpr) -> tuple[Any, ...]:
    """A flat jaxpr as a hashable value; equal for equal programs, whatever their variables."""
    numbers: dict[Any, int] = {}

    def atom(v: Any) -> Any:
        if isinstance(v, core.Literal):
            return scalar_structure(np.asarray(v.val, _dtype(v)))
        return numbers.setdefault(v, len(numbers))

    def typed(v: Any) -> tuple[Any, ...]:
        return atom(v), _shape(v), _dtype(v)

    inputs = tuple(typed(v) for v in jaxpr.invars)
    body = tuple(
        (
            eqn.primitive.name,
            tuple((name, _param_structure(value)) for name, value in sorted(eqn.params.items())),
            tuple(atom(v) for v in eqn.invars),
            tuple(typed(v) for v in eqn.outvars),
        )
        for eqn in jaxpr.eqns
    )
    return inputs, body, tuple(atom(v) for v in jaxpr.outvars)


def _param_structure(value: Any) -> Any:
    if isinstance(value, (tuple, list)):
        return tuple(_param_structure(item) for item in value)
    return scalar_structure(value) if isinstance(value, np.ndarray) else value


def scalar_structure(value: Any) -> tuple[Any, ...]:
    """A value by its dtype and bytes, so that 0.0 and -0.0 differ and NaN equals itself."""
    array = np.asarray(value)
    return array.dtype, array.shape, array.tobytes()
