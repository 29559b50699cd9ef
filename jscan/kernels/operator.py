"""The operator as Triton can run it.

A complex leaf becomes two real ones (real and imaginary part); ``max`` and ``min`` become what XLA
means by them; Schwartz's transform turns an operator on values into one on (head flag, values),
which makes a scan segmented.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax
from jax.extend import core
from jax.sharding import AbstractMesh, use_abstract_mesh

from jscan.kernels import engines, language

FLAG = np.dtype(np.int32)


class Inexpressible(Exception):
    """The operator cannot become a kernel's; the text says why."""


def real_dtypes(dtype: Any) -> list[np.dtype]:
    """The dtypes that one leaf of ``dtype`` has inside a kernel."""
    dtype = np.dtype(dtype)
    if dtype.kind != "c":
        return [dtype]
    return [np.dtype(np.float32 if dtype == np.complex64 else np.float64)] * 2


def real_identity(identity: Sequence[Any]) -> list[Any]:
    """The identity's scalars as the kernel's leaves."""
    parts: list[Any] = []
    for scalar in identity:
        scalar = np.asarray(scalar)[()]
        parts += [scalar.real, scalar.imag] if scalar.dtype.kind == "c" else [scalar]
    return parts


def trace_scalars(function: Callable[..., Any], dtypes: Sequence[np.dtype]) -> core.ClosedJaxpr:
    """The flat jaxpr of a function of scalars, whatever mesh and promotion rules are in force."""
    scalars = [jax.ShapeDtypeStruct((), d) for d in dtypes]
    with use_abstract_mesh(AbstractMesh((), ())), jax.numpy_dtype_promotion("standard"):
        traced = jax.make_jaxpr(function)(*scalars)
        while any(_inner_jaxpr(equation) for equation in traced.jaxpr.eqns):
            inlined = functools.partial(_evaluate, traced.jaxpr, traced.consts)
            traced = jax.make_jaxpr(lambda *x, inlined=inlined: inlined(x))(*scalars)
    return traced


@functools.lru_cache(maxsize=1024)
def prepare(combine: Any) -> core.ClosedJaxpr:
    """``combine``'s scalar jaxpr over real leaves. Raises `Inexpressible`."""
    source = combine.jaxpr
    count = len(source.out_avals)
    dtypes = [d for a in source.out_avals for d in real_dtypes(a.dtype)]

    def operator(*scalars: Any) -> list[Any]:
        outputs = _evaluate(source.jaxpr, source.consts, _pack(scalars, source.in_avals))
        return _unpack(outputs[:count])

    prepared = trace_scalars(operator, dtypes * 2)
    if (
        commuting_identity(prepared) is not None
        and dtypes[0].kind in "iu"
        and dtypes[0].itemsize < 4
    ):
        # The low bits of a 32-bit result are the narrow one, and the hardware has no narrow
        # registers.
        wide = np.dtype(np.int32 if dtypes[0].kind == "i" else np.uint32)
        prepared = trace_scalars(operator, [wide] * 2)
    if prepared.consts:
        raise Inexpressible("the operator holds constants that are not scalars")
    reason = engines.running().why_inexpressible(prepared)
    if reason is not None:
        raise Inexpressible(f"Triton cannot express the operator: {reason}")
    return prepared


def expressible(jaxpr: core.ClosedJaxpr) -> core.ClosedJaxpr:
    """A function of real scalars as Triton can compute it. Raises `Inexpressible`."""
    if any(a.dtype.kind == "c" for a in (*jaxpr.in_avals, *jaxpr.out_avals)):
        raise Inexpressible("the function is of complex numbers")
    prepared = trace_scalars(
        lambda *scalars: _evaluate(jaxpr.jaxpr, jaxpr.consts, scalars),
        [np.dtype(a.dtype) for a in jaxpr.in_avals],
    )
    reason = engines.running().why_inexpressible(prepared)
    if prepared.consts or reason is not None:
        raise Inexpressible(f"Triton cannot express the function: {reason}")
    return prepared


def commuting_identity(operator: core.ClosedJaxpr) -> Any:
    """The identity of an operator that is one of the commutative machine operations, else None.

    Such an operator may be reduced in any order, which is cheaper than a scan.
    """
    jaxpr = operator.jaxpr
    if len(jaxpr.invars) != 2 or len(jaxpr.eqns) != 1:
        return None
    [equation] = jaxpr.eqns
    if set(equation.invars) != set(jaxpr.invars) or equation.outvars != jaxpr.outvars:
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


@functools.lru_cache(maxsize=1024)
def flag_value(operator: core.ClosedJaxpr) -> core.ClosedJaxpr:
    """(fx, x) ⊕s (fy, y) = (fx | fy, y if fy else x ⊕ y)  (Schwartz 1980)."""
    count = len(operator.out_avals)
    apply = core.jaxpr_as_fun(operator)

    def segmented(*scalars: Any) -> tuple[Any, ...]:
        (fx, *x), (fy, *y) = scalars[: count + 1], scalars[count + 1 :]
        combined = apply(*x, *y)
        values = [lax.select(fy != FLAG.type(0), b, c) for b, c in zip(y, combined, strict=True)]
        return fx | fy, *values

    dtypes = [FLAG, *(np.dtype(a.dtype) for a in operator.out_avals)]
    return trace_scalars(segmented, dtypes * 2)


# --- rewriting ----------------------------------------------------------------------------------


def _pack(scalars: Sequence[Any], avals: Sequence[Any]) -> list[Any]:
    """Pairs the parts of complex numbers, which are (re, im) tuples while they are rewritten."""
    values, rest = [], iter(scalars)
    for aval in avals:
        values.append((next(rest), next(rest)) if aval.dtype.kind == "c" else next(rest))
    return values


def _unpack(values: Sequence[Any]) -> list[Any]:
    return [part for v in values for part in (v if isinstance(v, tuple) else (v,))]


def _evaluate(jaxpr: Any, consts: Sequence[Any], arguments: Sequence[Any]) -> list[Any]:
    environment: dict[Any, Any] = {}

    def read(atom: Any) -> Any:
        if not isinstance(atom, core.Literal):
            return environment[atom]
        aval: Any = atom.aval
        value: Any = np.asarray(atom.val, aval.dtype)[()]
        if value.dtype.kind == "u":
            return language.unsigned(value)
        return (value.real, value.imag) if value.dtype.kind == "c" else value

    environment.update(zip(jaxpr.constvars, consts, strict=True))
    environment.update(zip(jaxpr.invars, arguments, strict=True))
    signs: dict[Any, str] = {}  # what is known of a variable: "positive", "negative", "fraction"
    for equation in jaxpr.eqns:
        operands = [read(a) for a in equation.invars]
        if _is_log1p_of_fraction(equation, signs):
            results = [_log1p_of_fraction(*operands)]
        else:
            results = _apply(equation, operands)
        _note_sign(equation, signs)
        environment.update(zip(equation.outvars, results, strict=True))
    return [read(a) for a in jaxpr.outvars]


def _apply(equation: Any, operands: list[Any]) -> list[Any]:
    name = equation.primitive.name
    inner = _inner_jaxpr(equation)
    if inner is not None:
        return _evaluate(inner.jaxpr, inner.consts, operands)
    if name == "stop_gradient":
        return operands
    complex_result = any(v.aval.dtype.kind == "c" for v in equation.outvars)
    if complex_result or any(isinstance(x, tuple) for x in operands):
        rule = _COMPLEX_RULES.get(name)
        if rule is None:
            raise Inexpressible(f"no kernel form of {name} on complex numbers")
        return [rule(*operands, **_complex_parameters(equation))]
    if name in ("max", "min"):
        return [_extremum(name, *operands)]
    result = equation.primitive.bind(*operands, **equation.params)
    return list(result) if equation.primitive.multiple_results else [result]


def _note_sign(equation: Any, signs: dict[Any, str]) -> None:
    source = equation.invars[0] if equation.invars else None
    known = None if isinstance(source, core.Literal) else signs.get(source)
    after = {
        ("abs", None): "positive",
        ("neg", "positive"): "negative",
        ("exp", "negative"): "fraction",
    }
    found = after.get(
        (equation.primitive.name, None if equation.primitive.name == "abs" else known)
    )
    if found is not None:
        signs[equation.outvars[0]] = found


def _is_log1p_of_fraction(equation: Any, signs: dict[Any, str]) -> bool:
    return (
        equation.primitive.name == "log1p"
        and equation.outvars[0].aval.dtype == jnp.float32
        and not isinstance(equation.invars[0], core.Literal)
        and signs.get(equation.invars[0]) == "fraction"
    )


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


def _log1p_of_fraction(t: Any) -> Any:
    quotient = jnp.float32(_LOG1P[0])
    for coefficient in _LOG1P[1:]:
        quotient = quotient * t + jnp.float32(coefficient)
    return quotient * t


def _inner_jaxpr(equation: Any) -> core.ClosedJaxpr | None:
    """The body of a call such as ``jit`` or a function with a custom derivative."""
    for key in ("jaxpr", "call_jaxpr", "fun_jaxpr"):
        inner = equation.params.get(key)
        if isinstance(inner, core.ClosedJaxpr):
            return inner
        if isinstance(inner, core.Jaxpr):
            return core.ClosedJaxpr(inner, ())
    return None


def _extremum(name: str, x: Any, y: Any) -> Any:
    x, y = jnp.asarray(x), jnp.asarray(y)
    if x.dtype == jnp.bool_:
        return x | y if name == "max" else x & y
    if not jnp.issubdtype(x.dtype, jnp.floating):
        return lax.max(x, y) if name == "max" else lax.min(x, y)
    return language.nan_max(x, y) if name == "max" else language.nan_min(x, y)


def _complex_parameters(equation: Any) -> dict[str, Any]:
    if equation.primitive.name == "convert_element_type":
        return {"new_dtype": equation.params["new_dtype"]}
    if equation.primitive.name == "integer_pow":
        return {"y": equation.params["y"]}
    return {}


def _multiply(x: Any, y: Any) -> Any:
    return (x[0] * y[0] - x[1] * y[1], x[0] * y[1] + x[1] * y[0])


def _divide(x: Any, y: Any) -> Any:
    """Smith's algorithm: no overflow in the squared modulus."""
    swap = abs(y[0]) < abs(y[1])
    big, small = lax.select(swap, y[1], y[0]), lax.select(swap, y[0], y[1])
    ratio = small / big
    scale = big + small * ratio
    u, v = lax.select(swap, x[1], x[0]), lax.select(swap, x[0], x[1])
    imaginary = (v - u * ratio) / scale
    by_zero = big == 0
    size = abs(big)
    return (
        lax.select(by_zero, x[0] / size, (u + v * ratio) / scale),
        lax.select(by_zero, x[1] / size, lax.select(swap, -imaginary, imaginary)),
    )


def _convert(x: Any, new_dtype: Any) -> Any:
    dtype = real_dtypes(new_dtype)[0]
    if isinstance(x, tuple):
        return tuple(lax.convert_element_type(part, dtype) for part in x)
    real = lax.convert_element_type(x, dtype)
    return (real, lax.full_like(real, 0))


def _power(x: Any, y: int) -> Any:
    if y < 1:
        raise Inexpressible("no kernel form of a complex power below 1")
    return functools.reduce(_multiply, [x] * y)


def _select(which: Any, *cases: Any) -> Any:
    return tuple(lax.select_n(which, *parts) for parts in zip(*cases, strict=True))


def _exp(x: Any) -> Any:
    size = jnp.exp(x[0])
    # The product of an infinite or zero size with a zero sine is zero, as for real numbers.
    real_only = x[1] == 0
    sine = lax.select(real_only, jnp.zeros_like(size), size * jnp.sin(x[1]))
    return (lax.select(real_only, size, size * jnp.cos(x[1])), sine)


def _abs(x: Any) -> Any:
    big, small = jnp.maximum(abs(x[0]), abs(x[1])), jnp.minimum(abs(x[0]), abs(x[1]))
    plain = (big != 0) & (big < np.inf)
    ratio = small / lax.select(plain, big, jnp.ones_like(big))
    return lax.select(plain, big * jnp.sqrt(1 + ratio * ratio), big)


def _log1p(x: Any) -> Any:
    size = jnp.log1p(x[0] * (x[0] + 2) + x[1] * x[1])
    return (size / 2, jnp.arctan2(x[1], 1 + x[0]))


def _greater(x: Any, y: Any) -> Any:
    """Lexicographic order, as XLA has it."""
    return (x[0] > y[0]) | ((x[0] == y[0]) & (x[1] > y[1]))


_COMPLEX_RULES: dict[str, Callable[..., Any]] = {
    "add": lambda x, y: (x[0] + y[0], x[1] + y[1]),
    "add_any": lambda x, y: (x[0] + y[0], x[1] + y[1]),
    "sub": lambda x, y: (x[0] - y[0], x[1] - y[1]),
    "mul": _multiply,
    "div": _divide,
    "max": lambda x, y: _select(_greater(x, y), y, x),
    "min": lambda x, y: _select(_greater(y, x), y, x),
    "neg": lambda x: (-x[0], -x[1]),
    "abs": _abs,
    "conj": lambda x: (x[0], -x[1]),
    "exp": _exp,
    "log": lambda x: (jnp.log(_abs(x)), jnp.arctan2(x[1], x[0])),
    "log1p": _log1p,
    "real": lambda x: x[0],
    "imag": lambda x: x[1],
    "complex": lambda re, im: (re, im),
    "square": lambda x: _multiply(x, x),
    "integer_pow": _power,
    "eq": lambda x, y: (x[0] == y[0]) & (x[1] == y[1]),
    "ne": lambda x, y: (x[0] != y[0]) | (x[1] != y[1]),
    "select_n": _select,
    "convert_element_type": _convert,
    "copy": lambda x: x,
}
