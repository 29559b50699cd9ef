"""The operator as kernels can run it: a flat jaxpr of real scalars.

A complex leaf becomes two real ones; ``max`` and ``min`` become what XLA means by them; Schwartz's
transform turns an operator on values into one on (head flag, values), which makes a scan segmented.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from typing import Any, TypeAlias

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax
from jax.extend import core
from jax.sharding import AbstractMesh, use_abstract_mesh

from jscan.combine import Combine
from jscan.jaxprs import CALLS, aval, bound, equations, evaluate, holds_jaxprs
from jscan.kernels import engines, language, phasors
from jscan.kernels.complex import Pair, complex_result, pairs, parts, real_dtypes
from jscan.kernels.contraction import contracted
from jscan.kernels.engines import Engine
from jscan.kernels.narrow import in_words
from jscan.logsums import is_complex_logaddexp

FLAG = np.dtype(np.int32)
"""The dtype of head flags inside a kernel."""

Scalar: TypeAlias = Any
"""A scalar while it is traced, or a NumPy scalar where it is a literal."""


class Inexpressible(Exception):
    """Raised for an operator that no kernel can run; the text says why."""


def trace_scalars(function: Callable[..., Any], dtypes: Sequence[np.dtype]) -> core.ClosedJaxpr:
    """The flat jaxpr of a function of scalars, traced in no mesh and by standard promotion."""
    scalars = [jax.ShapeDtypeStruct((), d) for d in dtypes]
    with use_abstract_mesh(AbstractMesh((), ())), jax.numpy_dtype_promotion("standard"):
        traced = jax.make_jaxpr(function)(*scalars)
        while any(equation.primitive.name in CALLS for equation in traced.jaxpr.eqns):
            inlined = functools.partial(_evaluate, traced.jaxpr, traced.consts)
            traced = jax.make_jaxpr(lambda *x, inlined=inlined: inlined(x))(*scalars)
    return traced


def prepare(combine: Combine) -> core.ClosedJaxpr:
    """The operator's jaxpr over real leaves. Raises `Inexpressible`."""
    return _prepare(combine, engines.running())


@functools.lru_cache(maxsize=1024)
def _prepare(combine: Combine, engine: Engine) -> core.ClosedJaxpr:
    source = combine.jaxpr
    count = len(source.out_avals)
    dtypes = [d for a in source.out_avals for d in real_dtypes(a.dtype)]

    def operator(*scalars: Scalar) -> Sequence[Scalar]:
        if is_complex_logaddexp(combine):
            return phasors.combined(*scalars)
        outputs = _evaluate(source.jaxpr, source.consts, pairs(scalars, source.in_avals))
        return parts(outputs[:count])

    prepared = trace_scalars(operator, dtypes * 2)
    prepared = contracted(in_words(prepared, trace_scalars), trace_scalars)
    prepared = _computed(prepared)
    _check(prepared, "the operator", engine)
    return prepared


def _computed(operator: core.ClosedJaxpr) -> core.ClosedJaxpr:
    """The operator with results of equations alone: Pallas lowers no bits of a constant float."""
    jaxpr = operator.jaxpr
    if not any(isinstance(v, core.Literal) for v in jaxpr.outvars):
        return operator

    def made(result: Scalar) -> Scalar:
        if not isinstance(result, np.floating):
            return result
        bits = language.unsigned(result.view(f"uint{8 * result.itemsize}"))
        return lax.bitcast_convert_type(bits, result.dtype)

    def run(*scalars: Scalar) -> list[Scalar]:
        return [made(x) for x in evaluate(jaxpr, scalars, (bound,))]

    return trace_scalars(run, [np.dtype(a.dtype) for a in operator.in_avals])


def expressible(jaxpr: core.ClosedJaxpr, engine: Engine) -> core.ClosedJaxpr:
    """A function of real scalars as the engine can compute it. Raises `Inexpressible`."""
    if any(a.dtype.kind == "c" for a in (*jaxpr.in_avals, *jaxpr.out_avals)):
        raise Inexpressible("the function is of complex numbers")
    prepared = trace_scalars(
        lambda *scalars: _evaluate(jaxpr.jaxpr, jaxpr.consts, scalars),
        [np.dtype(a.dtype) for a in jaxpr.in_avals],
    )
    _check(prepared, "the function", engine)
    return prepared


def prepared_function(jaxpr: core.ClosedJaxpr, what: str, engine: Engine) -> core.ClosedJaxpr:
    """A function of scalars as one of real scalars. Raises `Inexpressible`."""

    def function(*scalars: Scalar) -> list[Scalar]:
        return parts(_evaluate(jaxpr.jaxpr, jaxpr.consts, pairs(scalars, jaxpr.in_avals)))

    prepared = trace_scalars(function, [d for a in jaxpr.in_avals for d in real_dtypes(a.dtype)])
    _check(prepared, what, engine)
    return prepared


def _check(prepared: core.ClosedJaxpr, what: str, engine: Engine) -> None:
    """Raises `Inexpressible` where the engine cannot run a function of scalars."""
    if prepared.consts:
        raise Inexpressible(f"{what} holds constants that are not scalars")
    if any(map(holds_jaxprs, prepared.jaxpr.eqns)):  # a kernel computes on tiles, not on scalars
        raise Inexpressible(f"{what} holds loops or branches")
    reason = engine.why_inexpressible(prepared)
    if reason is not None:
        raise Inexpressible(f"{engine.NAME} cannot express {what}: {reason}")


def commuting_identity(operator: core.ClosedJaxpr) -> Scalar | None:
    """The identity of an operator that is one of the commutative machine operations, else None.

    Such an operator may be reduced in any order, which is cheaper than a scan.
    """
    jaxpr = operator.jaxpr
    if len(jaxpr.invars) != 2 or len(jaxpr.eqns) != 1:
        return None
    [equation] = jaxpr.eqns
    pair = list(jaxpr.invars)
    if list(equation.invars) not in (pair, pair[::-1]) or equation.outvars != jaxpr.outvars:
        return None
    dtype = np.dtype(operator.out_avals[0].dtype)
    name = equation.primitive.name
    if name == "add" and dtype.kind == "f":
        return np.asarray(-0.0, dtype)[()]  # 0.0 would take the sign of a sum of negative zeros
    if name in ("add", "xor", "or"):
        return np.zeros((), dtype)[()]
    if name == "mul":
        return np.ones((), dtype)[()]
    if name == "and":
        return np.invert(np.zeros((), dtype))[()]
    if name in ("max", "min", "jscan_nan_max", "jscan_nan_min"):
        low = "max" in name
        if dtype.kind == "f":
            return np.asarray(-np.inf if low else np.inf, dtype)[()]
        info = np.iinfo(dtype)
        return np.asarray(info.min if low else info.max, dtype)[()]
    return None


def is_float32_sum(operator: core.ClosedJaxpr) -> bool:
    """Whether an operator is the addition of two numbers of float32, and nothing else."""
    if commuting_identity(operator) is None or operator.out_avals[0].dtype != np.float32:
        return False
    return bool(operator.jaxpr.eqns[0].primitive.name == "add")


@functools.lru_cache(maxsize=1024)
def front(
    operator: core.ClosedJaxpr, used: tuple[bool, ...]
) -> tuple[tuple[Scalar, bool], ...] | None:
    """What may stand in front of a row without a trace in the results that are ``used``.

    For each leaf: a scalar, and whether it stands in the place of the row's first element, too. It
    is exact: no result differs in a bit. None where nothing is known to be.
    """
    leaves = len(operator.out_avals)
    if _is_affine(operator) and not used[0]:
        # Nothing comes before a row's first slope, and it may be infinite.
        slope, offset = (a.dtype.type for a in operator.out_avals)
        return (slope(1), True), (offset(-0.0 if offset(0).dtype.kind == "f" else 0), False)
    found = []
    for i in range(leaves):
        jaxpr = operator.jaxpr
        made = [e for e in jaxpr.eqns if e.outvars == [jaxpr.outvars[i]]]
        invars = [jaxpr.invars[i], jaxpr.invars[leaves + i]]
        if len(made) != 1 or list(made[0].invars) not in (invars, invars[::-1]):
            return None
        alone = jaxpr.replace(invars=invars, outvars=[jaxpr.outvars[i]], eqns=made)
        identity = commuting_identity(core.ClosedJaxpr(alone, ()))
        if identity is None:
            return None
        found.append((identity, False))
    return tuple(found)


def _is_affine(operator: core.ClosedJaxpr) -> bool:
    """Whether it is (a, b) ⊕ (c, d) = (a c, c b + d)."""
    jaxpr = operator.jaxpr
    if len(jaxpr.invars) != 4 or any(
        isinstance(x, core.Literal) for e in jaxpr.eqns for x in e.invars
    ):
        return False
    a, b, c, d = jaxpr.invars
    slopes = [e for e in jaxpr.eqns if e.primitive.name == "mul" and set(e.invars) == {a, c}]
    if len(slopes) != 1 or jaxpr.outvars[0] != slopes[0].outvars[0]:
        return False
    rest = [e for e in jaxpr.eqns if e is not slopes[0]]
    names = [e.primitive.name for e in rest]
    if names == ["jscan_fma"] and not rest[0].params["minus"]:
        x, y, z = rest[0].invars
        return {x, y} == {b, c} and z == d and jaxpr.outvars[1] == rest[0].outvars[0]
    if names != ["mul", "add"]:
        return False
    product, total = rest
    return (
        set(product.invars) == {b, c}
        and set(total.invars) == {product.outvars[0], d}
        and jaxpr.outvars[1] == total.outvars[0]
    )


@functools.lru_cache(maxsize=1024)
def flag_value(operator: core.ClosedJaxpr) -> core.ClosedJaxpr:
    """(fx, x) ⊕s (fy, y) = (fx | fy, y if fy else x ⊕ y)  (Schwartz 1980)."""
    count = len(operator.out_avals)
    apply = core.jaxpr_as_fun(operator)

    def segmented(*scalars: Scalar) -> tuple[Scalar, ...]:
        (fx, *x), (fy, *y) = scalars[: count + 1], scalars[count + 1 :]
        combined = apply(*x, *y)
        values = [lax.select(fy != FLAG.type(0), b, c) for b, c in zip(y, combined, strict=True)]
        return fx | fy, *values

    dtypes = [FLAG, *(np.dtype(a.dtype) for a in operator.out_avals)]
    return trace_scalars(segmented, dtypes * 2)


# --- rules --------------------------------------------------------------------------------------

Value: TypeAlias = Scalar | Pair
"""What stands for a value while the operator is rewritten."""


def _evaluate(
    jaxpr: core.Jaxpr, consts: Sequence[Scalar], operands: Sequence[Value]
) -> list[Value]:
    """The results of ``jaxpr``, in terms of primitives that kernels have."""
    makers = {v: eqn for eqn in equations(jaxpr) for v in eqn.outvars}

    def short_log1p(equation: core.JaxprEqn, operands: Sequence[Value]) -> list[Value] | None:
        return [_log1p_of_fraction(*operands)] if _takes_fraction(equation, makers) else None

    rules = (short_log1p, _unchanged, _chosen_by_number, _on_pairs, _extremum, bound)
    return evaluate(jaxpr, [*consts, *operands], rules, _number)


def _number(scalar: np.generic) -> Value:
    """A literal as an operand."""
    if scalar.dtype.kind == "u":
        return language.unsigned(scalar)
    return (scalar.real, scalar.imag) if scalar.dtype.kind == "c" else scalar


def _unchanged(equation: core.JaxprEqn, operands: Sequence[Value]) -> Sequence[Value] | None:
    """The rule for primitives that do nothing to a value."""
    return operands if equation.primitive.name == "stop_gradient" else None


def _chosen_by_number(equation: core.JaxprEqn, operands: Sequence[Value]) -> list[Value] | None:
    """The rule for a choice by a number, in place of which engines take some by bools."""
    if equation.primitive.name != "select_n" or aval(equation.invars[0]).dtype == np.bool_:
        return None
    which, *cases = operands

    def chosen(found: Scalar, *others: Scalar) -> Scalar:
        for number, other in enumerate(others, 1):
            found = lax.select(which >= np.int32(number), other, found)
        return found

    if isinstance(cases[0], tuple):
        return [(chosen(*(x for x, _ in cases)), chosen(*(y for _, y in cases)))]
    return [chosen(*cases)]


def _on_pairs(equation: core.JaxprEqn, operands: Sequence[Value]) -> list[Value] | None:
    """The rule for equations that read or make complex numbers."""
    makes = any(aval(v).dtype.kind == "c" for v in equation.outvars)
    if not (makes or any(isinstance(x, tuple) for x in operands)):
        return None
    result = complex_result(equation, operands)
    if result is None:
        raise Inexpressible(f"no kernel form of {equation.primitive.name} on complex numbers")
    return [result]


def _extremum(equation: core.JaxprEqn, operands: Sequence[Value]) -> list[Value] | None:
    """The rule for ``max`` and ``min``, which of floats are NaN where either operand is."""
    name = equation.primitive.name
    if name not in ("max", "min"):
        return None
    x, y = map(jnp.asarray, operands)
    if x.dtype == jnp.bool_:
        return [x | y if name == "max" else x & y]
    if not jnp.issubdtype(x.dtype, jnp.floating):
        return [lax.max(x, y) if name == "max" else lax.min(x, y)]
    return [language.nan_max(x, y) if name == "max" else language.nan_min(x, y)]


def _takes_fraction(equation: core.JaxprEqn, makers: dict[core.Var, core.JaxprEqn]) -> bool:
    """Whether the equation is log1p(exp(-|x|)) in float32, as in ``logaddexp``."""
    if equation.primitive.name != "log1p" or aval(equation.outvars[0]).dtype != jnp.float32:
        return False
    for name in ("exp", "neg", "abs"):
        [source] = equation.invars
        if isinstance(source, core.Literal) or source not in makers:
            return False
        equation = makers[source]
        if equation.primitive.name != name:
            return False
    return True


# log1p(t) / t on [0, 1], highest power first: a Chebyshev fit, relative error 1.8e-7 when evaluated
# in float32. The library's log1p takes some 40 instructions for all arguments; `logaddexp` needs it
# between 0 and 1.
_LOG1P = (
    0.005253457929939032,
    -0.02958850748836994,
    0.07836166769266129,
    -0.13674770295619965,
    0.19111430644989014,
    -0.24844369292259216,
    0.33319270610809326,
    -0.49999502301216125,
    1.0,
)


def _log1p_of_fraction(t: Scalar) -> jax.Array:
    """log1p(t) for t in [0, 1]."""
    quotient = jnp.float32(_LOG1P[0])
    for coefficient in _LOG1P[1:]:
        quotient = quotient * t + jnp.float32(coefficient)
    return quotient * t
