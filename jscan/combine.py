"""The operator of a scan as data: a scalar jaxpr that compares by what it computes.

A kernel cannot call Python, and a cache must not ask which lambda object it was handed. ``trace`` therefore turns an
operator into a ``Combine``: a flat jaxpr from 2K scalars (the K leaves of the left operand, then those of the right) to
K scalars. Two traces of the same lambda are equal, so calls outside ``jit`` compile once.
"""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Callable, Iterator, Sequence
from typing import Any, Protocol

import jax
import numpy as np
from jax import lax
from jax.extend import core
from jax.interpreters import partial_eval as pe

ELEMENTWISE = frozenset(
    """
    abs acos acosh add add_any and asin asinh atan atan2 atanh bessel_i0e bessel_i1e bitcast_convert_type cbrt ceil
    clamp clz complex conj convert_element_type copy copy_p cos cosh digamma div eq eq_to erf erf_inv erfc exp exp2
    expm1 floor ge gt igamma igamma_grad_a igammac imag integer_pow is_finite le le_to lgamma log log1p logistic lt
    lt_to max min mul mulhi ne neg nextafter not optimization_barrier or polygamma population_count pow real
    reduce_precision regularized_incomplete_beta rem round rsqrt select_n shift_left shift_right_arithmetic
    shift_right_logical sign sin sinh sqrt square sub tan tanh xor zeta
    """.split()
)
"""Primitives whose result at an index depends on their operands at that index alone."""

RESHAPING = frozenset({"broadcast_in_dim", "reshape", "squeeze"})
"""Primitives that are the identity on a scalar."""

CUSTOM_CALLS = frozenset({"custom_jvp_call", "custom_vjp_call", "custom_vjp_call_jaxpr"})
CALLS = CUSTOM_CALLS | {"jit", "pjit", "closed_call", "core_call", "checkpoint", "remat", "remat2"}

TRACED_LENGTH = 3
"""The length the scanned axis is given while an operator is examined; operators may not depend on it."""


class Leaf(Protocol):
    """What ``trace`` needs to know of an operand."""

    @property
    def shape(self) -> tuple[int, ...]: ...

    @property
    def dtype(self) -> Any: ...


def accumulation_dtype(dtype: Any) -> np.dtype:
    """The dtype in which leaves of ``dtype`` are combined: float32 for float16 and bfloat16, else ``dtype``."""
    dtype = np.dtype(dtype)
    return np.dtype(np.float32) if dtype.name in ("float16", "bfloat16") else dtype


@dataclasses.dataclass(frozen=True, eq=False, repr=False)
class Combine:
    """An associative operator on K scalar leaves.

    Attributes:
      jaxpr: 2K scalars (left leaves, then right leaves) to K scalars in the accumulation dtypes; flat (no nested
        calls), no constants, no effects.
      identity: K NumPy scalars in the accumulation dtypes, or None where no identity is known.
      name: what to call the operator in messages; no part of its equality.
      differentiable: the same function with ``custom_jvp`` and ``custom_vjp`` calls kept, for derivatives. No part of
        equality either, so nothing derived from it may be cached by the operator's equality.
    """

    jaxpr: core.ClosedJaxpr
    identity: tuple[np.generic, ...] | None
    name: str
    differentiable: core.ClosedJaxpr
    key: tuple[Any, ...] = dataclasses.field(init=False)
    key_hash: int = dataclasses.field(init=False)

    def __post_init__(self) -> None:
        identity = (
            None if self.identity is None else tuple(_value_key(value) for value in self.identity)
        )
        object.__setattr__(self, "key", (_jaxpr_key(self.jaxpr.jaxpr), identity))
        object.__setattr__(self, "key_hash", hash(self.key))

    def __eq__(self, other: object) -> bool:
        if self is other:
            return True
        return (
            isinstance(other, Combine) and self.key_hash == other.key_hash and self.key == other.key
        )

    def __hash__(self) -> int:
        return self.key_hash

    def __repr__(self) -> str:
        return f"Combine({self.name})"

    @property
    def num_leaves(self) -> int:
        return len(self.jaxpr.out_avals)

    def __call__(
        self, left: Sequence[jax.Array], right: Sequence[jax.Array], *, differentiable: bool = False
    ) -> list[jax.Array]:
        """Combine arrays of one shape elementwise; ``differentiable`` keeps the operator's own derivative rules."""
        jaxpr = self.differentiable if differentiable else self.jaxpr
        results = _evaluate(jaxpr.jaxpr, [*left, *right], inline_custom=not differentiable)
        return [_spread(result, like) for result, like in zip(results, left, strict=True)]

    @functools.cached_property
    def dependencies(self) -> tuple[frozenset[int], ...]:
        """For each output, the leaves (of either operand) that it reads directly."""
        k = self.num_leaves
        needs = []
        for output in range(k):
            _, used = pe.dce_jaxpr(self.jaxpr.jaxpr, [i == output for i in range(k)])
            needs.append(frozenset(i % k for i, is_used in enumerate(used) if is_used))
        return tuple(needs)

    def closure(self, outputs: Sequence[int]) -> list[int]:
        """The leaves that a scan must carry so that ``outputs`` can be computed, in order."""
        needed = set(outputs)
        waiting = list(outputs)
        while waiting:
            new = self.dependencies[waiting.pop()] - needed
            needed |= new
            waiting.extend(new)
        return sorted(needed)

    def restrict(self, kept: Sequence[int]) -> Combine:
        """The operator on the leaves ``kept`` alone, which must be closed under ``dependencies``."""
        k = self.num_leaves
        inputs = [*kept, *(k + i for i in kept)]

        def restricted(jaxpr: core.ClosedJaxpr, inline_custom: bool) -> core.ClosedJaxpr:
            def fn(*operands: jax.Array) -> list[Any]:
                full: list[Any] = [np.zeros((), aval.dtype)[()] for aval in jaxpr.in_avals]
                for position, operand in zip(inputs, operands, strict=True):
                    full[position] = operand
                results = _evaluate(jaxpr.jaxpr, full, inline_custom=inline_custom)
                return [results[i] for i in kept]

            return _make_flat(fn, [jaxpr.in_avals[i] for i in inputs])

        identity = None if self.identity is None else tuple(self.identity[i] for i in kept)
        return Combine(
            restricted(self.jaxpr, True),
            identity,
            self.name,
            restricted(self.differentiable, False),
        )


def trace(
    fn: Callable[[Any, Any], Any],
    leaves: Sequence[Leaf],
    treedef: jax.tree_util.PyTreeDef,
    axis: int,
    identity: tuple[np.generic, ...] | None,
) -> Combine | None:
    """The ``Combine`` of ``fn``, or None where ``fn`` is no elementwise function of scalars.

    None is also the answer for leaves of unequal shape and for operators that close over traced values or arrays.
    Errors that ``fn`` itself raises on arrays pass through.

    Raises:
      TypeError: ``fn`` returns other dtypes than it is given.
      ValueError: ``fn`` returns another number of leaves or other shapes than it is given.
    """
    num_leaves = len(leaves)
    shape = list(leaves[0].shape)
    shape[axis] = TRACED_LENGTH
    dtypes = [accumulation_dtype(leaf.dtype) for leaf in leaves]

    def flat(*operands: jax.Array) -> list[jax.Array]:
        left = jax.tree.unflatten(treedef, operands[:num_leaves])
        right = jax.tree.unflatten(treedef, operands[num_leaves:])
        return jax.tree.leaves(fn(left, right))

    if any(leaf.shape != leaves[0].shape for leaf in leaves):
        return None
    arrays = [jax.ShapeDtypeStruct(tuple(shape), dtype) for dtype in dtypes] * 2
    on_arrays = jax.make_jaxpr(flat)(*arrays)
    check_results(on_arrays.out_avals, arrays[:num_leaves], [leaf.dtype for leaf in leaves])
    if not _is_elementwise(on_arrays, tuple(shape)):
        return None

    def rounded(*operands: jax.Array) -> list[jax.Array]:
        return [
            lax.convert_element_type(r, d) for r, d in zip(flat(*operands), dtypes, strict=True)
        ]

    scalars = [jax.ShapeDtypeStruct((), dtype) for dtype in dtypes] * 2
    try:
        on_scalars = jax.make_jaxpr(rounded)(*scalars)
    except (TypeError, ValueError, IndexError):
        return None
    if any(aval.shape != () for aval in on_scalars.out_avals) or not _is_elementwise(
        on_scalars, ()
    ):
        return None
    constants = [np.asarray(constant)[()] for constant in on_scalars.consts]

    def evaluated(*operands: jax.Array, inline_custom: bool) -> list[Any]:
        return _evaluate(on_scalars.jaxpr, [*constants, *operands], inline_custom=inline_custom)

    jaxpr = _make_flat(functools.partial(evaluated, inline_custom=True), scalars)
    differentiable = jaxpr
    if any(eqn.primitive.name in CUSTOM_CALLS for eqn in _equations(on_scalars.jaxpr)):
        differentiable = _make_flat(functools.partial(evaluated, inline_custom=False), scalars)
    return Combine(jaxpr, identity, getattr(fn, "__name__", type(fn).__name__), differentiable)


def check_results(results: Sequence[Leaf], operands: Sequence[Leaf], dtypes: Sequence[Any]) -> None:
    """Raise where an operator's results do not have the operands' number, shapes and dtypes.

    ``dtypes`` are those of the scanned leaves, which the results may have in place of the accumulation dtypes.
    """
    if len(results) != len(operands):
        raise ValueError(
            f"fn must return as many leaves as elems has, {len(operands)}, not {len(results)}"
        )
    for i, (result, operand, dtype) in enumerate(zip(results, operands, dtypes, strict=True)):
        if tuple(result.shape) != tuple(operand.shape):
            raise ValueError(
                f"fn must return leaves of the shapes it is given; leaf {i} went in as {tuple(operand.shape)} "
                f"and came out as {tuple(result.shape)}"
            )
        if result.dtype != operand.dtype and result.dtype != dtype:
            raise TypeError(
                f"fn must return leaves of the dtypes it is given; leaf {i} went in as {operand.dtype} "
                f"and came out as {result.dtype}"
            )


def _make_flat(fn: Callable[..., Any], scalars: Sequence[Any]) -> core.ClosedJaxpr:
    """Trace ``fn`` on scalars and drop equations that no result depends on."""
    closed = jax.make_jaxpr(fn)(*[jax.ShapeDtypeStruct((), s.dtype) for s in scalars])
    jaxpr, _ = pe.dce_jaxpr(closed.jaxpr, [True] * len(closed.out_avals), instantiate=True)
    return core.ClosedJaxpr(jaxpr, closed.consts)


def _inner(eqn: core.JaxprEqn) -> core.Jaxpr:
    """The jaxpr that a call equation runs; its own constants must have been lifted or be scalars."""
    names = ("jaxpr", "call_jaxpr", "fun_jaxpr")
    inner = next(eqn.params[name] for name in names if name in eqn.params)
    return inner.jaxpr if isinstance(inner, core.ClosedJaxpr) else inner


def _inner_constants(eqn: core.JaxprEqn) -> list[Any]:
    inner = next(
        eqn.params[name] for name in ("jaxpr", "call_jaxpr", "fun_jaxpr") if name in eqn.params
    )
    return list(inner.consts) if isinstance(inner, core.ClosedJaxpr) else []


def _equations(jaxpr: core.Jaxpr) -> Iterator[core.JaxprEqn]:
    for eqn in jaxpr.eqns:
        yield eqn
        if eqn.primitive.name in CALLS:
            yield from _equations(_inner(eqn))


def _is_elementwise(closed: core.ClosedJaxpr, shape: tuple[int, ...]) -> bool:
    """Whether every equation works element by element on values of ``shape`` or on scalars."""
    if closed.effects:
        return False
    constants = list(closed.consts)
    for eqn in _equations(closed.jaxpr):
        name = eqn.primitive.name
        if name in CALLS:
            constants += _inner_constants(eqn)
        elif name in RESHAPING:
            # Only a scalar may be spread; anything else could move elements about.
            if any(v.aval.shape != () for v in eqn.invars):
                return False
        elif name not in ELEMENTWISE:
            return False
        constants += [v.val for v in eqn.invars if isinstance(v, core.Literal)]
        if any(v.aval.shape not in (shape, ()) for v in eqn.outvars):
            return False
    return all(_is_concrete_scalar(constant) for constant in constants)


def _is_concrete_scalar(value: Any) -> bool:
    if isinstance(value, jax.core.Tracer) or np.shape(value) != ():
        return False
    return not isinstance(value, jax.Array) or value.is_fully_addressable


def _evaluate(jaxpr: core.Jaxpr, operands: Sequence[Any], *, inline_custom: bool) -> list[Any]:
    """Run a scalar jaxpr on arrays of one shape, or on scalars; calls are inlined.

    Constants come before the operands. The equations' own contexts (mesh, compute type) are not restored: the
    operator was traced apart from the place where it is used.
    """
    values: dict[Any, Any] = dict(zip([*jaxpr.constvars, *jaxpr.invars], operands, strict=True))

    def read(v: Any) -> Any:
        return v.val if isinstance(v, core.Literal) else values[v]

    for eqn in jaxpr.eqns:
        inputs = [read(v) for v in eqn.invars]
        name = eqn.primitive.name
        if name in RESHAPING:
            results = inputs
        elif name in CUSTOM_CALLS and not inline_custom:
            results = _custom_call(eqn, inputs)
        elif name in CALLS:
            constants = [np.asarray(c)[()] for c in _inner_constants(eqn)]
            results = _evaluate(_inner(eqn), [*constants, *inputs], inline_custom=inline_custom)
        else:
            wide = next((x for x in inputs if np.ndim(x) > 0), None)
            if wide is not None:
                inputs = [_spread(x, wide) for x in inputs]
            results = eqn.primitive.bind(*inputs, **eqn.params)
            results = results if eqn.primitive.multiple_results else [results]
        values.update(zip(eqn.outvars, results, strict=True))
    return [read(v) for v in jaxpr.outvars]


def _custom_call(eqn: core.JaxprEqn, inputs: Sequence[Any]) -> list[Any]:
    """Bind a custom_jvp or custom_vjp call, whose rules are written for scalars, under one vmap per dimension."""

    def call(*scalars: jax.Array) -> list[jax.Array]:
        return eqn.primitive.bind(*scalars, **eqn.primitive.get_bind_params(eqn.params))

    wide = next((x for x in inputs if np.ndim(x) > 0), None)
    if wide is None:
        return call(*inputs)
    for _ in range(np.ndim(wide)):
        call = jax.vmap(call)
    return call(*[_spread(x, wide) for x in inputs])


def _spread(value: Any, like: Any) -> Any:
    """``value`` with the shape, sharding and varying axes of ``like`` where it is a scalar."""
    if np.ndim(value) == np.ndim(like):
        return value
    return lax.full_like(like, value, dtype=value.dtype)


def _jaxpr_key(jaxpr: core.Jaxpr) -> tuple[Any, ...]:
    """A hashable description of a jaxpr that is equal for equal programs, whatever their variables are called."""
    numbers: dict[Any, int] = {}

    def number(v: Any) -> Any:
        if isinstance(v, core.Literal):
            return _value_key(np.asarray(v.val, v.aval.dtype))
        return numbers.setdefault(v, len(numbers))

    def aval_key(v: Any) -> tuple[Any, ...]:
        return (v.aval.shape, v.aval.dtype)

    inputs = tuple((number(v), aval_key(v)) for v in [*jaxpr.constvars, *jaxpr.invars])
    equations = tuple(
        (
            eqn.primitive.name,
            tuple((name, _param_key(value)) for name, value in sorted(eqn.params.items())),
            tuple(number(v) for v in eqn.invars),
            tuple((number(v), aval_key(v)) for v in eqn.outvars),
        )
        for eqn in jaxpr.eqns
    )
    return inputs, equations, tuple(number(v) for v in jaxpr.outvars)


def _param_key(value: Any) -> Any:
    if isinstance(value, core.ClosedJaxpr):
        return _jaxpr_key(value.jaxpr), tuple(_value_key(constant) for constant in value.consts)
    if isinstance(value, core.Jaxpr):
        return _jaxpr_key(value)
    if isinstance(value, (tuple, list)):
        return tuple(_param_key(item) for item in value)
    if isinstance(value, np.ndarray):
        return _value_key(value)
    return value


def _value_key(value: Any) -> tuple[Any, ...]:
    array = np.asarray(value)
    return array.dtype, array.shape, array.tobytes()
