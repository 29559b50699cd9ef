"""Whether what ``identity=`` gives is an identity: ``f(identity, x) = x`` for every x.

``identity=`` is a promise. A kernel relies on it: an exclusive scan begins with the identity and
combines it with what follows. Where the promise can be proved from the operator, by evaluating it
on the identity and an unknown, kernels are handed the identity. Where it cannot, the identity is
kept apart from what is combined, so that a wrong one is folded into no result.
"""

from __future__ import annotations

import contextlib
import functools
import math
from collections.abc import Iterator, Sequence
from typing import Any, TypeAlias

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax
from jax.extend import core
from jax.sharding import AbstractMesh, use_abstract_mesh

from jscan import heads, operators
from jscan.arguments.identity import Neutral
from jscan.called import Function, checked
from jscan.combine import Combine, accumulation_dtype, trace
from jscan.jaxprs import aval, evaluate
from jscan.logsums import is_complex_logaddexp, is_logaddexp
from jscan.plain.scan import flattened

SAMPLE = 2**16
"""The number of elements that an identity is tried on."""

Value: TypeAlias = Any
"""A NumPy scalar; or, of the unknown right operand, an expression: a tuple of a name and values."""


def stays_apart(combine: Combine) -> bool:
    """Whether ``scan_p`` takes the identity as one that is not combined (`Combine.apart`).

    Not under a sum, whose derivatives are scans by the same identity, nor under logaddexp, which
    kernels sum beside a maximum.
    """
    summed = combine.is_sum or is_logaddexp(combine) or is_complex_logaddexp(combine)
    return combine.identity is not None and not summed


@functools.lru_cache(maxsize=1024)
def is_proved(combine: Combine, *, both_sides: bool = False) -> bool:
    """Whether it is proved that the operator returns every right operand, given the identity.

    Of ``both_sides`` every left one, too: what keeps its right operand has identities on the left.
    The proof takes zero times an element to be zero, though of infinity it is not, and no element
    to be NaN.
    """
    identity, jaxpr = combine.identity, combine.jaxpr.jaxpr
    if identity is None:
        return False
    is_log_of_zero = combine.num_leaves == 1 and identity[0] == -math.inf
    if is_log_of_zero and combine == _logaddexp(combine.dtypes[0]):
        return True
    others: list[Value] = [("right", i) for i in range(combine.num_leaves)]
    for operands in ([*identity, *others], [*others, *identity])[: 1 + both_sides]:
        results = evaluate(jaxpr, operands, rules=[_simplified])
        if not all(_is_same(result, x) for result, x in zip(results, others, strict=True)):
            return False
    return True


def _logaddexp(dtype: np.dtype) -> Combine | None:
    """``jnp.logaddexp``, whose guard against minus infinity is beyond this proof."""
    operator = operators.logaddexp
    if not operator.takes(dtype):
        return None
    leaf = jax.ShapeDtypeStruct((1,), dtype)
    return trace(operator, [leaf], jax.tree.structure(0), 0, operator.identities([dtype]))


def check(
    caller: str,
    fn: Function,
    leaves: Sequence[jax.Array],
    treedef: jax.tree_util.PyTreeDef,
    axis: int,
    identity: Sequence[Neutral],
) -> None:
    """Raise where ``fn(identity, x)`` is not ``x``, unless any of these is traced.

    It is tried on the first elements along the axis, about `SAMPLE` of them.
    """
    if any(isinstance(x, jax.core.Tracer) for x in (*leaves, *identity)):
        return
    if not all(len(leaf.devices()) == 1 for leaf in leaves):
        return  # to try it would move data between devices
    some = _sample(leaves, axis)
    if not some:
        return
    with jax.ensure_compile_time_eval(), jax.debug_nans(False), jax.debug_infs(False):
        wide = [
            lax.convert_element_type(
                lax.slice_in_dim(x, 0, some, axis=axis),
                accumulation_dtype(x.dtype),
            )
            for x in leaves
        ]
        before = [
            jnp.broadcast_to(heads.spread_element(jnp.asarray(i, x.dtype), x, axis), x.shape)
            for i, x in zip(identity, wide, strict=True)
        ]
        called = checked(caller, fn, leaves, treedef)
        results = flattened(called, leaves, treedef)(before, wide)
    if any(isinstance(result, jax.core.Tracer) for result in results):
        return  # the operator closes over what is traced
    for i, (result, x) in enumerate(zip(results, wide, strict=True)):
        if not _is_near(np.asarray(result), np.asarray(x)):
            _raise_wrong(caller, i, identity)


def check_combine(
    caller: str,
    combine: Combine,
    scalars: Sequence[Any],
    leaves: Sequence[Any],
    axis: int,
    identity: Sequence[Neutral],
) -> None:
    """Raise as `check` does, for an operator as data and arrays that are not traced."""
    if any(isinstance(x, jax.Array) and len(x.devices()) > 1 for x in leaves):
        return
    with jax.debug_nans(False), jax.debug_infs(False):
        given = list(leaves), list(scalars), list(identity)
        near = jax.device_get(_are_near(combine, axis, *given))
    for i, is_near in enumerate(near):
        if not is_near:
            _raise_wrong(caller, i, identity)


@functools.partial(jax.jit, static_argnums=(0, 1))
def _are_near(
    combine: Combine,
    axis: int,
    leaves: list[jax.Array],
    scalars: list[jax.Array],
    identity: list[jax.Array],
) -> list[jax.Array]:
    """For each leaf, whether the identity leaves its first elements as they are."""
    some = _sample(leaves, axis)
    if not some:
        return [jnp.bool_(True)] * len(leaves)
    x = [lax.slice_in_dim(leaf, 0, some, axis=axis) for leaf in leaves]
    wide = [lax.convert_element_type(y, d) for y, d in zip(x, combine.dtypes, strict=False)]
    before = [
        jnp.broadcast_to(heads.spread_element(i, y, axis), y.shape)
        for i, y in zip(identity, wide, strict=True)
    ]
    held = [lax.full_like(wide[0], k, k.dtype) for k in scalars]
    results = combine([*before, *held], [*wide, *held])
    return [_near(r, y) for r, y in zip(results, wide, strict=False)]


def _near(found: jax.Array, expected: jax.Array) -> jax.Array:
    """As `_is_near`, in the dtype of the arrays."""
    if not jnp.issubdtype(expected.dtype, jnp.inexact):
        return jnp.all(found == expected)
    tolerance = float(operators.float_limits(expected.dtype).eps) ** 0.5
    near = jnp.isclose(found, expected, rtol=tolerance, atol=tolerance)
    return jnp.all(near | jnp.isnan(found) | jnp.isnan(expected))


def _sample(leaves: Sequence[jax.Array], axis: int) -> int:
    """How many elements along the axis an identity is tried on."""
    n = leaves[0].shape[axis]
    some = min(n, max(1, SAMPLE * n // max(math.prod(leaves[0].shape), 1)))
    return 0 if any(leaf.size == 0 for leaf in leaves) else some


def _raise_wrong(caller: str, leaf: int, identity: Sequence[Neutral]) -> None:
    raise ValueError(
        f"{caller}: identity must be an identity of fn, so that fn(identity, x) is x; for leaf "
        f"{leaf} of elems, where identity is {identity[leaf]}, it is not"
    )


def _is_near(found: np.ndarray, expected: np.ndarray) -> bool:
    """Whether two arrays are equal, but for rounding and for NaN.

    An infinite identity may give inf / inf or inf - inf, which says nothing.
    """
    if not jnp.issubdtype(expected.dtype, jnp.inexact):
        return bool((found == expected).all())
    wide = np.complex128 if jnp.issubdtype(expected.dtype, jnp.complexfloating) else np.float64
    finfo: Any = jnp.finfo
    tolerance = float(finfo(expected.dtype).eps) ** 0.5
    left, right = found.astype(wide), expected.astype(wide)
    near = np.isclose(left, right, rtol=tolerance, atol=tolerance)
    return bool((near | np.isnan(left)).all())


def _simplified(equation: core.JaxprEqn, operands: Sequence[Value]) -> list[Value]:
    """The rule that keeps an equation as an expression, or simplifies it to an operand or number.

    Elementwise primitives have one result.
    """
    name = equation.primitive.name
    if all(isinstance(x, np.generic) for x in operands):
        with _apart():
            return [np.asarray(equation.primitive.bind(*operands, **equation.params))[()]]
    dtype = aval(equation.outvars[0]).dtype
    found: Value | None = None
    if name == "select_n":
        which, *cases = operands
        if isinstance(which, np.generic):
            found = cases[int(which)]
        elif all(_is_same(cases[0], case) for case in cases):
            found = cases[0]
        else:
            found = _unless_equal(which, cases)
    elif name in ("copy", "copy_p"):
        found = operands[0]
    elif name == "convert_element_type":
        found = operands[0] if aval(equation.invars[0]).dtype == dtype else None
    elif name == "integer_pow" and equation.params["y"] == 1:
        found = operands[0]
    elif len(operands) == 2:
        found = _with_constant(name, operands[0], operands[1], dtype)
    return [(name, str(equation.params), *operands) if found is None else found]


@contextlib.contextmanager
def _apart() -> Iterator[None]:
    """A context that computes at once, in no mesh, and reports no NaN."""
    with (
        use_abstract_mesh(AbstractMesh((), ())),
        jax.ensure_compile_time_eval(),
        jax.debug_nans(False),
        jax.debug_infs(False),
    ):
        yield


def _unless_equal(which: Value, cases: Sequence[Value]) -> Value | None:
    """``x``, which ``select(x == c, c, x)`` always is; None if the cases are other ones."""
    name, _, x, c = which if len(which) == 4 else (None, None, None, None)
    if name not in ("eq", "ne") or len(cases) != 2:
        return None
    x, c = (c, x) if isinstance(x, np.generic) else (x, c)
    equal, other = cases[::-1] if name == "eq" else cases
    known = isinstance(equal, np.generic) and isinstance(c, np.generic)
    return x if known and bool(equal == c) and _is_same(other, x) else None


def _with_constant(name: str, x: Value, y: Value, dtype: np.dtype) -> Value | None:
    """The result of two operands where a number among them decides it: an operand or a number."""
    absorbing, right_only = name in ("mul", "and"), name in ("sub", "div")
    for number, other, is_right in ((x, y, False), (y, x, True)):
        if not isinstance(number, np.generic):
            continue
        if name in _COMPARISONS:
            return _compared(_COMPARISONS[name][is_right], number)
        if (is_right or not right_only) and _leaves_alone(name, number, dtype):
            return other
        if absorbing and number == 0:
            return np.zeros((), dtype)[()]
    return None


_COMPARISONS = {"lt": "<>", "gt": "><", "le": "≤≥", "ge": "≥≤"}
"""The relation of a number to the other operand that is asked for, as left and as right operand."""


def _compared(relation: str, number: np.generic) -> Value | None:
    """The result of a comparison with the least or greatest number of a dtype; None if open."""
    dtype = number.dtype
    least, greatest = operators.max, operators.min
    if dtype == np.bool_ or not least.takes(dtype):
        return None
    is_least, is_greatest = (bool(number == op.identity(dtype)) for op in (least, greatest))
    below, above = relation in "<≤", relation in ">≥"
    # The element may equal the number.
    if ((is_least and below) or (is_greatest and above)) and relation in "≤≥":
        return np.True_
    if ((is_least and above) or (is_greatest and below)) and relation in "<>":
        return np.False_
    return None


def _leaves_alone(name: str, number: np.generic, dtype: np.dtype) -> bool:
    """Whether the result is the other operand."""
    if name in ("add", "add_any", "sub"):
        return bool(number == 0)
    if name in ("mul", "div"):
        return bool(number == 1)
    neutral = _NEUTRAL.get(name)
    return neutral is not None and neutral.takes(dtype) and bool(number == neutral.identity(dtype))


_NEUTRAL = {
    "max": operators.max,
    "min": operators.min,
    "and": operators.bitwise_and,
    "or": operators.bitwise_or,
    "xor": operators.bitwise_xor,
}


def _is_same(x: Value, y: Value) -> bool:
    """Whether two values are the same number or the same expression."""
    if isinstance(x, tuple) and isinstance(y, tuple):
        return len(x) == len(y) and all(map(_is_same, x, y))
    if isinstance(x, np.generic) and isinstance(y, np.generic):
        return x.dtype == y.dtype and x.tobytes() == y.tobytes()
    return type(x) is type(y) and not isinstance(x, (tuple, np.generic)) and bool(x == y)
