"""The operator of a scan as data: a jaxpr of scalars that compares by what it computes.

A kernel cannot call Python, and a cache must not depend on which lambda object it is handed.
``trace`` therefore turns an operator into a ``Combine``: a flat jaxpr from 2K scalars (the K leaves
of the left operand, then those of the right) to K scalars. Two traces of the same lambda are equal,
so calls outside ``jit`` compile once.
"""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple, TypeAlias

import jax
import numpy as np
from jax import lax
from jax.extend import core
from jax.interpreters import partial_eval as pe
from jax.typing import DTypeLike

from jscan.called import Function, Leaf, apply, check_results
from jscan.jaxprs import (
    Keyed,
    evaluate,
    has_custom_rules,
    is_elementwise,
    scalar_structure,
    spread,
    structure,
)

TRACED_LENGTH = 3
"""The scanned axis's length while an operator is examined; operators may not depend on it."""

Scalar: TypeAlias = Any
"""What is combined: an element while it is traced, a number, or an array of elements."""


def accumulation_dtype(dtype: DTypeLike) -> np.dtype:
    """The dtype in which leaves are combined: float32 for float16 and bfloat16, else their own."""
    own = np.dtype(dtype)
    return np.dtype(np.float32) if own.name in ("float16", "bfloat16") else own


@dataclasses.dataclass(frozen=True, eq=False, repr=False)
class Combine(Keyed):
    """An associative operator on K scalar leaves; equal and hashed by what it computes.

    Attributes:
      jaxpr: 2K scalars (left leaves, then right leaves) to K scalars in the accumulation dtypes;
        flat (no nested calls), no constants, no effects.
      identity: K NumPy scalars in the accumulation dtypes, or None where no identity is known.
      name: what messages call the operator; no part of its equality.
      rules: the same function of scalars with its ``custom_jvp`` and ``custom_vjp`` calls, for
        derivatives, or None where it has none. No part of its equality either, so nothing that is
        derived from it may be cached by the operator's equality.
      apart: whether exclusive scans keep the identity apart: it is where they begin, and is not
        combined with what comes behind.
    """

    jaxpr: core.ClosedJaxpr
    identity: tuple[np.generic, ...] | None
    name: str
    rules: Callable[..., list[Scalar]] | None
    apart: bool = False

    def __post_init__(self) -> None:
        identity = None if self.identity is None else tuple(map(scalar_structure, self.identity))
        self.keep_key((structure(self.jaxpr.jaxpr), identity, self.apart))

    def __repr__(self) -> str:
        return f"Combine({self.name})"

    @property
    def num_leaves(self) -> int:
        """K."""
        return len(self.jaxpr.out_avals)

    @property
    def dtypes(self) -> list[np.dtype]:
        """The dtypes in which leaves are combined."""
        return [np.dtype(aval.dtype) for aval in self.jaxpr.out_avals]

    def result_dtypes(self, leaves: Sequence[DTypeLike]) -> list[np.dtype]:
        """The dtypes of results, given the dtypes of leaves.

        They are the leaves' own, unless leaves are narrower than what they are combined in, as are
        the elements of a mask that are counted.
        """
        return [
            np.dtype(given) if accumulation_dtype(given) == dtype else dtype
            for given, dtype in zip(leaves, self.dtypes, strict=True)
        ]

    def __call__(
        self, left: Sequence[jax.Array], right: Sequence[jax.Array], *, differentiable: bool = False
    ) -> list[jax.Array]:
        """Combine leaves of one shape; ``differentiable`` keeps the operator's derivative rules."""
        if differentiable and self.rules is not None:
            rules = self.rules
            for _ in range(left[0].ndim):
                rules = jax.vmap(rules)
            return rules(*left, *right)
        results = evaluate(self.jaxpr.jaxpr, [*left, *right])
        return [spread(result, like) for result, like in zip(results, left, strict=True)]

    @functools.cached_property
    def dependencies(self) -> tuple[frozenset[int], ...]:
        """For each output, the leaves (of either operand) that it reads directly."""
        k = self.num_leaves
        needs = []
        for output in range(k):
            _, used = pe.dce_jaxpr(self.jaxpr.jaxpr, [i == output for i in range(k)])
            needs.append(frozenset(i % k for i, is_used in enumerate(used) if is_used))
        return tuple(needs)

    def carried(self, outputs: Sequence[int]) -> list[int]:
        """The leaves, in order, of what comes before an element, that ``outputs`` depend on.

        A recurrence h = a h + b carries h, and no product of slopes.
        """
        return carried(self.jaxpr, outputs)

    @property
    def is_sum(self) -> bool:
        """Whether every leaf is added up, so that a scan is linear."""
        return self.rules is None and all(name == "add" for name in self.monoids)

    @functools.cached_property
    def monoids(self) -> tuple[str | None, ...]:
        """For each leaf the one primitive that combines it, as in ``add(x, y)``; None if several.

        Its operands are the leaf on the left and the same leaf on the right, in either order.
        """
        jaxpr, k = self.jaxpr.jaxpr, self.num_leaves
        made = {equation.outvars[0]: equation for equation in jaxpr.eqns}
        names: list[str | None] = []
        for i, result in enumerate(jaxpr.outvars):
            equation = None if isinstance(result, core.Literal) else made.get(result)
            pair = [jaxpr.invars[i], jaxpr.invars[k + i]]
            simple = equation is not None and list(equation.invars) in (pair, pair[::-1])
            names.append(equation.primitive.name if simple and equation is not None else None)
        return tuple(names)

    def closure(self, outputs: Sequence[int]) -> list[int]:
        """The leaves, in order, that a scan must carry so that ``outputs`` can be computed."""
        needed = set(outputs)
        waiting = list(outputs)
        while waiting:
            new = self.dependencies[waiting.pop()] - needed
            needed |= new
            waiting.extend(new)
        return sorted(needed)

    def reversed(self) -> Combine:
        """The operator with its operands the other way round."""
        if self.rules is None and all(name is not None for name in self.monoids):
            return self
        k = self.num_leaves

        def swapped(whole: Callable[..., list[Scalar]], *operands: Scalar) -> list[Scalar]:
            return whole(*operands[k:], *operands[:k])

        jaxpr = scalar_jaxpr(
            functools.partial(swapped, lambda *full: evaluate(self.jaxpr.jaxpr, full)),
            [aval.dtype for aval in self.jaxpr.in_avals],
        )
        rules = None if self.rules is None else functools.partial(swapped, self.rules)
        return Combine(jaxpr, self.identity, self.name, rules, self.apart)

    def restrict(self, kept: Sequence[int]) -> Combine:
        """The operator on the leaves ``kept`` alone; ``closure(kept)`` must be ``kept``."""
        k = self.num_leaves
        inputs = [*kept, *(k + i for i in kept)]

        def restricted(whole: Callable[..., list[Scalar]], *operands: Scalar) -> list[Scalar]:
            full: list[Scalar] = [np.zeros((), aval.dtype)[()] for aval in self.jaxpr.in_avals]
            for position, operand in zip(inputs, operands, strict=True):
                full[position] = operand
            results = whole(*full)
            return [results[i] for i in kept]

        jaxpr = scalar_jaxpr(
            functools.partial(restricted, lambda *full: evaluate(self.jaxpr.jaxpr, full)),
            [self.jaxpr.in_avals[i].dtype for i in inputs],
        )
        identity = None if self.identity is None else tuple(self.identity[i] for i in kept)
        rules = None if self.rules is None else functools.partial(restricted, self.rules)
        return Combine(jaxpr, identity, self.name, rules, self.apart)


def carried(operator: core.ClosedJaxpr, outputs: Sequence[int]) -> list[int]:
    """`Combine.carried` of an operator on scalars."""
    needed, count = {*outputs}, len(operator.out_avals)
    while True:
        _, used = pe.dce_jaxpr(operator.jaxpr, [i in needed for i in range(count)])
        more = {i for i, is_used in enumerate(used[:count]) if is_used}
        if more <= needed:
            return sorted(needed)
        needed |= more


class Traced(NamedTuple):
    """An operator as data, and what it reads beside its operands.

    Attributes:
      combine: the operator. It has a leaf more for each of the ``scalars``, which its right operand
        brings along and which no result of another leaf takes from the left.
      scalars: traced scalars, each the same for all elements.
    """

    combine: Combine
    scalars: tuple[jax.Array, ...] = ()


def trace(
    fn: Function,
    leaves: Sequence[Leaf],
    treedef: jax.tree_util.PyTreeDef,
    axis: int,
    identity: tuple[np.generic, ...] | None,
    *,
    caller: str = "jscan",
) -> Combine | None:
    """The ``Combine`` of an operator that closes over no traced scalars; else as `trace_open`."""
    traced = trace_open(fn, leaves, treedef, axis, identity, caller=caller)
    return None if traced is None or traced.scalars else traced.combine


def trace_open(
    fn: Function,
    leaves: Sequence[Leaf],
    treedef: jax.tree_util.PyTreeDef,
    axis: int,
    identity: tuple[np.generic, ...] | None,
    *,
    caller: str = "jscan",
    differentiable: bool = True,
) -> Traced | None:
    """``fn`` as data, or None where it is no elementwise function of scalars.

    None is also the answer for leaves of unequal shape and for operators that close over arrays, or
    over traced scalars beside derivative rules of their own, unless none is ``differentiable``.
    Errors that ``fn`` itself raises pass through; others name ``caller``.

    Raises:
      TypeError: ``fn`` returns other dtypes than it is given, or what is no array; it does not take
        two arguments; or it calls NumPy on them.
      ValueError: ``fn`` returns another structure or other shapes than it is given.
    """
    if any(leaf.shape != leaves[0].shape for leaf in leaves):
        return None
    num_leaves = len(leaves)
    shape = list(leaves[0].shape)
    shape[axis] = TRACED_LENGTH
    dtypes = [accumulation_dtype(leaf.dtype) for leaf in leaves]

    def flat(*operands: Scalar) -> list[Scalar]:
        return apply(caller, fn, operands[:num_leaves], operands[num_leaves:], treedef)

    def rounded(results: Sequence[Scalar]) -> list[Scalar]:
        return [lax.convert_element_type(r, d) for r, d in zip(results, dtypes, strict=True)]

    arrays = [jax.ShapeDtypeStruct(tuple(shape), dtype) for dtype in dtypes]
    closed = jax.make_jaxpr(flat)(*arrays, *arrays)
    check_results(caller, closed.out_avals, arrays, [leaf.dtype for leaf in leaves])
    if not is_elementwise(closed, tuple(shape)):
        return None
    scalars = tuple(x for x in closed.consts if isinstance(x, jax.core.Tracer))
    dtypes_of_scalars = [accumulation_dtype(x.dtype) for x in scalars]
    rules = None
    if differentiable and has_custom_rules(closed.jaxpr):
        # A derivative rule is written for the shapes that its function is called on: scalars here.
        whole = [jax.ShapeDtypeStruct((), dtype) for dtype in dtypes]
        try:
            traced = jax.make_jaxpr(flat)(*whole, *whole)
        except (TypeError, ValueError, IndexError):
            return None
        if scalars or not is_elementwise(traced, ()):
            return None

        def with_rules(*operands: Scalar) -> list[Scalar]:
            return rounded(flat(*operands))

        rules = with_rules

    def on_scalars(*operands: Scalar) -> list[Scalar]:
        left, right = operands[:num_leaves], operands[num_leaves + len(scalars) :]
        right, held = right[:num_leaves], right[num_leaves:]
        given = iter(held)
        constants = [
            lax.convert_element_type(next(given), x.dtype)
            if isinstance(x, jax.core.Tracer)
            else np.asarray(x)[()]
            for x in closed.consts
        ]
        return [*rounded(evaluate(closed.jaxpr, [*constants, *left, *right])), *held]

    if identity is not None:
        zeros: list[Any] = [np.zeros((), dtype)[()] for dtype in dtypes_of_scalars]
        identity = (*identity, *zeros)
    name = getattr(fn, "__name__", getattr(fn, "name", type(fn).__name__))
    jaxpr = scalar_jaxpr(on_scalars, [*dtypes, *dtypes_of_scalars] * 2)
    return Traced(Combine(jaxpr, identity, name, rules), scalars)


def scalar_jaxpr(fn: Callable[..., list[Scalar]], dtypes: Sequence[DTypeLike]) -> core.ClosedJaxpr:
    """The jaxpr of ``fn`` on scalars, without equations that no result depends on."""
    closed = jax.make_jaxpr(fn)(*[jax.ShapeDtypeStruct((), dtype) for dtype in dtypes])
    jaxpr, _ = pe.dce_jaxpr(closed.jaxpr, [True] * len(closed.out_avals), instantiate=True)
    return core.ClosedJaxpr(jaxpr, closed.consts)
