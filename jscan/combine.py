"""The operator of a scan as data: a jaxpr of scalars that compares by what it computes.

A kernel cannot call Python, and a cache must not depend on which lambda object it is handed.
``trace`` therefore turns an operator into a ``Combine``: a flat jaxpr from 2K scalars (the K leaves
of the left operand, then those of the right) to K scalars. Two traces of the same lambda are equal,
so calls outside ``jit`` compile once.
"""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Callable, Hashable, Sequence
from typing import Any, Protocol, TypeAlias

import jax
import numpy as np
from jax import lax
from jax.extend import core
from jax.interpreters import partial_eval as pe
from jax.typing import DTypeLike

from jscan.arguments.arrays import as_numbers
from jscan.jaxprs import (
    evaluate,
    has_custom_rules,
    is_elementwise,
    scalar_structure,
    spread,
    structure,
)
from jscan.operators import Operator

TRACED_LENGTH = 3
"""The scanned axis's length while an operator is examined; operators may not depend on it."""


class Leaf(Protocol):
    """A leaf of an operand: an array, or what is known of one."""

    @property
    def shape(self) -> tuple[int, ...]:
        """The sizes of its dimensions."""

    @property
    def dtype(self) -> np.dtype:
        """The dtype of its elements."""


PyTree: TypeAlias = Any
"""A pytree of arrays."""

Function: TypeAlias = Callable[[PyTree, PyTree], PyTree]
"""An operator as it is written: a function of two pytrees that returns another."""

Scalar: TypeAlias = Any
"""What is combined: an element while it is traced, a number, or an array of elements."""


def accumulation_dtype(dtype: DTypeLike) -> np.dtype:
    """The dtype in which leaves are combined: float32 for float16 and bfloat16, else their own."""
    own = np.dtype(dtype)
    return np.dtype(np.float32) if own.name in ("float16", "bfloat16") else own


@dataclasses.dataclass(frozen=True, eq=False, repr=False)
class Combine:
    """An associative operator on K scalar leaves; equal and hashed by what it computes.

    Attributes:
      jaxpr: 2K scalars (left leaves, then right leaves) to K scalars in the accumulation dtypes;
        flat (no nested calls), no constants, no effects.
      identity: K NumPy scalars in the accumulation dtypes, or None where no identity is known.
      name: what messages call the operator; no part of its equality.
      rules: the same function of scalars with its ``custom_jvp`` and ``custom_vjp`` calls, for
        derivatives, or None where it has none. No part of its equality either, so nothing that is
        derived from it may be cached by the operator's equality.
    """

    jaxpr: core.ClosedJaxpr
    identity: tuple[np.generic, ...] | None
    name: str
    rules: Callable[..., list[Scalar]] | None
    key: Hashable = dataclasses.field(init=False)
    key_hash: int = dataclasses.field(init=False)

    def __post_init__(self) -> None:
        identity = None if self.identity is None else tuple(map(scalar_structure, self.identity))
        object.__setattr__(self, "key", (structure(self.jaxpr.jaxpr), identity))
        object.__setattr__(self, "key_hash", hash(self.key))

    def __eq__(self, other: object) -> bool:
        if self is other:
            return True
        if not isinstance(other, Combine):
            return NotImplemented
        return self.key_hash == other.key_hash and self.key == other.key

    def __hash__(self) -> int:
        return self.key_hash

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
        needed = {*outputs}
        while True:
            _, used = pe.dce_jaxpr(self.jaxpr.jaxpr, [i in needed for i in range(self.num_leaves)])
            more = {i for i, is_used in enumerate(used[: self.num_leaves]) if is_used}
            if more <= needed:
                return sorted(needed)
            needed |= more

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

        jaxpr = _trace_scalars(
            functools.partial(swapped, lambda *full: evaluate(self.jaxpr.jaxpr, full)),
            [aval.dtype for aval in self.jaxpr.in_avals],
        )
        rules = None if self.rules is None else functools.partial(swapped, self.rules)
        return Combine(jaxpr, self.identity, self.name, rules)

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

        jaxpr = _trace_scalars(
            functools.partial(restricted, lambda *full: evaluate(self.jaxpr.jaxpr, full)),
            [self.jaxpr.in_avals[i].dtype for i in inputs],
        )
        identity = None if self.identity is None else tuple(self.identity[i] for i in kept)
        rules = None if self.rules is None else functools.partial(restricted, self.rules)
        return Combine(jaxpr, identity, self.name, rules)


def trace(
    fn: Function,
    leaves: Sequence[Leaf],
    treedef: jax.tree_util.PyTreeDef,
    axis: int,
    identity: tuple[np.generic, ...] | None,
    *,
    caller: str = "jscan",
) -> Combine | None:
    """The ``Combine`` of ``fn``, or None where ``fn`` is no elementwise function of scalars.

    None is also the answer for leaves of unequal shape and for operators that close over traced
    values or arrays. Errors that ``fn`` itself raises pass through; others name ``caller``.

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
    dtypes = [accumulation_dtype(leaf.dtype) for leaf in leaves] * 2

    def flat(*operands: Scalar) -> list[Scalar]:
        return apply(caller, fn, operands[:num_leaves], operands[num_leaves:], treedef)

    arrays = [jax.ShapeDtypeStruct(tuple(shape), dtype) for dtype in dtypes]
    closed = jax.make_jaxpr(flat)(*arrays)
    check_results(caller, closed.out_avals, arrays[:num_leaves], [leaf.dtype for leaf in leaves])
    if not is_elementwise(closed, tuple(shape)):
        return None
    constants = [np.asarray(constant)[()] for constant in closed.consts]

    def on_scalars(*operands: Scalar) -> list[Scalar]:
        return rounded(evaluate(closed.jaxpr, [*constants, *operands]))

    def with_rules(*operands: Scalar) -> list[Scalar]:
        return rounded(flat(*operands))

    def rounded(results: Sequence[Scalar]) -> list[Scalar]:
        return [lax.convert_element_type(r, d) for r, d in zip(results, dtypes, strict=False)]

    rules = None
    if has_custom_rules(closed.jaxpr):
        # A derivative rule is written for the shapes that its function is called on: scalars here.
        try:
            traced = jax.make_jaxpr(flat)(*[jax.ShapeDtypeStruct((), dtype) for dtype in dtypes])
        except (TypeError, ValueError, IndexError):
            return None
        if not is_elementwise(traced, ()):
            return None
        rules = with_rules
    name = getattr(fn, "__name__", getattr(fn, "name", type(fn).__name__))
    return Combine(_trace_scalars(on_scalars, dtypes), identity, name, rules)


def _trace_scalars(
    fn: Callable[..., list[Scalar]], dtypes: Sequence[DTypeLike]
) -> core.ClosedJaxpr:
    """The jaxpr of ``fn`` on scalars, without equations that no result depends on."""
    closed = jax.make_jaxpr(fn)(*[jax.ShapeDtypeStruct((), dtype) for dtype in dtypes])
    jaxpr, _ = pe.dce_jaxpr(closed.jaxpr, [True] * len(closed.out_avals), instantiate=True)
    return core.ClosedJaxpr(jaxpr, closed.consts)


def apply(
    caller: str,
    fn: Function,
    left: Sequence[Scalar],
    right: Sequence[Scalar],
    treedef: jax.tree_util.PyTreeDef,
) -> list[Scalar]:
    """The leaves of what ``fn`` makes of two pytrees, given their leaves.

    Errors that ``fn`` itself raises pass through. Results that are no arrays, or no pytree like the
    operands, raise.
    """
    operands = jax.tree.unflatten(treedef, left), jax.tree.unflatten(treedef, right)
    try:
        result = fn(*operands)
    except jax.errors.TracerArrayConversionError as error:
        name = getattr(fn, "__name__", type(fn).__name__)
        if isinstance(fn, np.ufunc):
            message = f"fn is numpy.{name}, which takes no traced arrays; use jax.numpy.{name}"
        else:
            message = f"fn, {name}, calls NumPy on its arguments, which are traced; use jax.numpy"
        raise TypeError(f"{caller}: {message}") from error
    except (TypeError, ValueError) as error:
        if isinstance(fn, Operator):
            kind = ValueError if isinstance(error, ValueError) else TypeError
            raise kind(f"{caller}: elems does not suit fn; {error}") from error
        if error.__traceback__ is not None and error.__traceback__.tb_next is None:
            # The call itself failed: no frame of fn is in the traceback.
            raise TypeError(f"{caller}: fn must take two pytrees like elems; {error}") from error
        raise
    values, structure = jax.tree.flatten(result)
    if not _corresponds(structure, treedef):
        raise ValueError(
            f"{caller}: fn must return a pytree like elems, {treedef}; it returned {structure}"
        )
    for i, value in enumerate(values):
        if isinstance(value, (bool, int, float, complex)) and not isinstance(value, np.generic):
            raise ValueError(
                f"{caller}: fn must return arrays of the shapes it is given; leaf {i} is the "
                f"number {value!r}"
            )
        if not isinstance(value, jax.Array):
            as_numbers(caller, f"what fn returns, leaf {i},", value)
    return values


def _corresponds(left: jax.tree_util.PyTreeDef, right: jax.tree_util.PyTreeDef) -> bool:
    """Whether two pytrees have the same structure; lists and tuples of any kind are alike."""
    if left == right:
        return True
    nodes = left.node_data(), right.node_data()
    if not all(node is not None and issubclass(node[0], (list, tuple)) for node in nodes):
        return False
    children = left.children(), right.children()
    return len(children[0]) == len(children[1]) and all(map(_corresponds, *children))


def checked(
    caller: str,
    fn: Function,
    leaves: Sequence[Leaf],
    treedef: jax.tree_util.PyTreeDef,
) -> Function:
    """``fn`` on whole arrays, with its results checked at every call."""
    dtypes = [leaf.dtype for leaf in leaves]

    def call(left: PyTree, right: PyTree) -> PyTree:
        operands = jax.tree.leaves(left)
        results = apply(caller, fn, operands, jax.tree.leaves(right), treedef)
        check_results(caller, [jax.typeof(x) for x in results], operands, dtypes)
        return jax.tree.unflatten(treedef, results)

    return call


def check_results(
    caller: str, results: Sequence[Leaf], operands: Sequence[Leaf], dtypes: Sequence[DTypeLike]
) -> None:
    """Raise where an operator's results do not match its operands.

    ``dtypes`` are those of the scanned leaves: a result may have the dtype of its leaf, too, where
    operands have the accumulation dtype.
    """
    for i, (result, operand, dtype) in enumerate(zip(results, operands, dtypes, strict=True)):
        if result.shape != operand.shape:
            raise ValueError(
                f"{caller}: fn must return leaves of the shapes it is given; leaf {i} went in as "
                f"{operand.shape} and came out as {result.shape}"
            )
        if result.dtype not in (operand.dtype, dtype):
            raise TypeError(
                f"{caller}: fn must return leaves of the dtypes it is given; leaf {i} went in as "
                f"{operand.dtype} and came out as {result.dtype}"
            )
