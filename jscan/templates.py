"""Operators of the user in calls outside of ``jit``: traced once for each way they are written.

A call that is not traced hands in a Python function, often a new object each time. If it is one
that `jscan.written` describes, what it was traced to serves again, and the numbers that it reads
become operands of the program that is compiled for the call: another number compiles nothing. Any
other function is traced in each call, and programs are found again by what it computes.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple, TypeVar

import jax
import numpy as np
from jax import lax

from jscan import identities, meshes
from jscan.arguments.arrays import is_held, is_sparse
from jscan.arguments.identity import Neutral, as_identity
from jscan.combine import Combine, Traced, accumulation_dtype, trace_open
from jscan.eager import UNFIT, elements, is_untraced
from jscan.holes import as_dtype, matched, retyped
from jscan.jaxprs import scalar_structure
from jscan.operators import Operator
from jscan.written import Unreadable, Written, constant, rewritten, written

T = TypeVar("T")


@jax.tree_util.register_pytree_node_class
class Bound:
    """An operator as data, beside the numbers that it reads. A pytree: the operator is static.

    Attributes:
      combine: the operator, with a leaf more for each number, and its identity where it is proved.
      scalars: the numbers.
      neutral: the identity of each leaf where one is needed, and was tried instead.
    """

    __slots__ = ("combine", "neutral", "scalars")

    def __init__(
        self,
        combine: Combine,
        scalars: tuple[Any, ...] = (),
        neutral: tuple[Any, ...] | None = None,
    ):
        self.combine, self.scalars, self.neutral = combine, scalars, neutral

    def __call__(self, a: Any, b: Any) -> Any:
        """Combine flat lists of leaves."""
        count = len(a)
        held = [lax.full_like(a[0], k, k.dtype) for k in self.scalars]
        return self.combine([*a, *held], [*b, *held])[:count]

    @property
    def identity(self) -> Sequence[Neutral] | None:
        """The identity of each leaf, if there is one."""
        known = self.combine.identity
        count = self.combine.num_leaves - len(self.scalars)
        return self.neutral if known is None else known[:count]

    def tree_flatten(self) -> tuple[tuple[Any, ...], Combine]:
        """The numbers, and the operator."""
        return (self.scalars, self.neutral), self.combine

    @classmethod
    def tree_unflatten(cls, combine: Combine, children: tuple[Any, ...]) -> Bound:
        """What was flattened."""
        return cls(combine, *children)


def as_bound(argument: Any) -> Any:
    """The kind of an argument of `jscan.eager` that is an operator as data."""
    return argument if isinstance(argument, Bound) else UNFIT


def as_data(
    caller: str, fn: Any, elems: Any, axis: Any, identity: Any, *, needs_identity: bool
) -> tuple[Any, Any]:
    """``fn`` and ``identity``, or, where nothing is traced, a `Bound` that has both, and None.

    An operator on whole arrays stays as it is, and so do wrong arguments, about which what they are
    handed to has more to say.

    Raises:
      ValueError: the identity was tried, and is none.
    """
    bound = _bound(caller, fn, elems, axis, identity, needs_identity=needs_identity)
    return (fn, identity) if bound is None else (bound, None)


def _bound(
    caller: str, fn: Any, elems: Any, axis: Any, identity: Any, *, needs_identity: bool
) -> Bound | None:
    if not (callable(fn) and is_untraced()) or (isinstance(fn, Operator) and identity is None):
        return None
    operand = _Operand.of(elems, axis)
    if operand is None:
        return None
    try:
        found = _found(caller, fn, operand)
        if found is None:
            return None
        combine, scalars = found
        neutral = None
        if identity is not None:
            dtypes = [accumulation_dtype(dtype) for dtype in operand.dtypes]
            given = operand.leaves, dtypes, operand.axis
            neutral = as_identity(caller, identity, operand.treedef, *given)
    except Exception:  # the long way raises it again, and in its place
        return None
    needs_identity = needs_identity or operand.leaves[0].shape[operand.axis] == 0
    if neutral is None or not needs_identity:
        return Bound(combine, scalars)
    proved = _with_identity(combine, neutral)
    if proved is not None:
        return Bound(proved, scalars)
    identities.check_combine(caller, combine, scalars, operand.leaves, operand.axis, neutral)
    return Bound(combine, scalars, tuple(neutral))


class _Operand(NamedTuple):
    """What is combined: arrays of one shape, in no mesh, none of which is traced."""

    leaves: list[Any]
    dtypes: tuple[np.dtype, ...]
    treedef: jax.tree_util.PyTreeDef
    axis: int

    @classmethod
    def of(cls, elems: Any, axis: Any) -> _Operand | None:
        """The arrays of a pytree, or None where they are other ones."""
        leaves, treedef = [elems], _ONE_LEAF
        if not isinstance(elems, jax.Array):
            try:
                leaves, treedef = jax.tree.flatten(elems, is_leaf=is_sparse)
            except (TypeError, ValueError):  # keys of a dict that have no order
                return None
        if not leaves or type(axis) is not int or not jax.sharding.get_abstract_mesh().empty:
            return None
        dtypes = []
        for leaf in leaves:
            if elements(leaf) is UNFIT or leaf.shape != leaves[0].shape:
                return None
            dtype = leaf.dtype
            if not isinstance(dtype, np.dtype) or dtype == jax.dtypes.float0:
                return None
            if dtype.itemsize >= 8 and not is_held(dtype):
                if isinstance(leaf, jax.Array):
                    return None
                dtype = jax.dtypes.canonicalize_dtype(dtype)
            dtypes.append(dtype)
        rank = len(leaves[0].shape)
        if not -rank <= axis < rank or not all(map(_is_in_no_mesh, leaves)):
            return None
        return cls(leaves, tuple(dtypes), treedef, axis % rank)

    @property
    def key(self) -> Any:
        """Equal where an operator is traced to the same."""
        config: Any = jax.config
        strictness = config.jax_numpy_dtype_promotion, config.jax_numpy_rank_promotion
        shape = self.leaves[0].shape
        return self.treedef, self.axis, shape, self.dtypes, config.jax_enable_x64, strictness


_ONE_LEAF = jax.tree.structure(0)


def _is_in_no_mesh(leaf: Any) -> bool:
    """Whether an array is in no mesh of Explicit axes; on one device it seldom is in any."""
    if isinstance(getattr(leaf, "sharding", None), jax.sharding.SingleDeviceSharding):
        return True
    return meshes.explicit_mesh(leaf) is None


# --- what is kept -------------------------------------------------------------------------------


class _Kept(dict[Any, T]):
    """What was found last; the oldest is dropped."""

    SIZE = 1024

    def keep(self, key: Any, value: T) -> T:
        """``value``, which is kept."""
        while len(self) >= self.SIZE:
            self.pop(next(iter(self)), None)
        self[key] = value
        return value


@dataclasses.dataclass(frozen=True)
class _Template:
    """What an operator is traced to, with holes for some of the scalars that it reads.

    Attributes:
      combine: the operator, with a leaf more for each hole, or None if it works on whole arrays.
      holes: the number of each such scalar, and the dtype that it has there.
    """

    combine: Combine | None
    holes: tuple[tuple[int, np.dtype], ...] = ()

    def filled(self, scalars: Sequence[Any]) -> tuple[Any, ...]:
        """The scalars for the holes. Raises `OverflowError` for an integer that does not fit."""
        return tuple(as_dtype(scalars[i], dtype) for i, dtype in self.holes)


@dataclasses.dataclass(frozen=True)
class _Family:
    """The templates of functions that are written alike, for one kind of operands.

    Attributes:
      holes: the scalars that become operands.
      templates: by the scalars that stay constants.
    """

    holes: tuple[int, ...]
    templates: _Kept[_Template]

    def constants(self, scalars: Sequence[Any]) -> tuple[Any, ...]:
        """The scalars that stay constants. Raises `Unreadable` where one is on a device."""
        if len(self.holes) == len(scalars):
            return ()
        return tuple(constant(x) for i, x in enumerate(scalars) if i not in self.holes)


_families: _Kept[_Family] = _Kept()
"""By how a function is written and what it is applied to."""

_same: _Kept[Combine] = _Kept()
"""Operators by what they compute, so that those that are alike are one object."""

_proved: _Kept[Combine | None] = _Kept()
"""Operators with an identity that is proved, by the operator and the identity."""


def _found(caller: str, fn: Any, operand: _Operand) -> tuple[Combine, tuple[Any, ...]] | None:
    """An operator as data and the scalars that it is given; None if it works on whole arrays."""
    described = written(fn)
    if described is not None:
        try:
            template = _template(caller, fn, described, operand)
            if template.combine is None:
                return None
            return template.combine, template.filled(described.scalars)
        except (Unreadable, OverflowError):
            pass
    traced = _traced(caller, fn, operand)
    if traced is None or traced.scalars:  # scalars of a trace that is over
        return None
    return _one(traced.combine), ()


def _template(caller: str, fn: Any, described: Written, operand: _Operand) -> _Template:
    """The template of a function that is described. Raises `Unreadable`."""
    key, scalars = (described.key, operand.key), described.scalars
    family = _families.get(key)
    constants = None if family is None else family.constants(scalars)
    if family is not None and constants in family.templates:
        return family.templates[constants]
    template = _new_template(caller, fn, scalars, operand)
    holes = tuple(i for i, _ in template.holes)
    if family is None:
        family = _families.keep(key, _Family(holes, _Kept()))
    if family.holes != holes:
        raise Unreadable  # other constants leave other scalars free
    return family.templates.keep(family.constants(scalars), template)


def _one(combine: Combine) -> Combine:
    """The operator, or the one that was found first and computes the same."""
    found = _same.get(combine)
    return _same.keep(combine, combine) if found is None else found


def _constants(scalars: Sequence[Any], holes: Sequence[int]) -> tuple[Any, ...]:
    return tuple(constant(x) for i, x in enumerate(scalars) if i not in holes)


def _with_identity(combine: Combine, neutral: Sequence[Neutral]) -> Combine | None:
    """The operator with an identity that is proved, or None."""
    if not all(isinstance(value, np.generic) for value in neutral):
        return None
    key = combine, tuple(map(scalar_structure, neutral))
    if key in _proved:
        return _proved[key]
    zeros = [np.zeros((), dtype)[()] for dtype in combine.dtypes[len(neutral) :]]
    known: Any = (*neutral, *zeros)
    candidate = dataclasses.replace(combine, identity=known)
    return _proved.keep(key, candidate if identities.is_proved(candidate) else None)


# --- holes --------------------------------------------------------------------------------------


def _traced(caller: str, fn: Any, operand: _Operand) -> Traced | None:
    shape = operand.leaves[0].shape
    leaves = [jax.ShapeDtypeStruct(shape, dtype) for dtype in operand.dtypes]
    given = leaves, operand.treedef, operand.axis, None
    return trace_open(fn, *given, caller=caller, differentiable=False)


def _new_template(caller: str, fn: Any, scalars: Sequence[Any], operand: _Operand) -> _Template:
    """The template with as many holes as can be."""
    plain = _traced(caller, fn, operand)
    if plain is None:
        return _Template(None)

    def opened(chosen: Sequence[int]) -> _Template | None:
        return _opened(lambda fn: _traced(caller, fn, operand), fn, scalars, chosen, plain.combine)

    every = range(len(scalars))
    found = opened(every) if scalars else None
    if found is None and len(scalars) > 1:
        found = opened([i for i in every if opened([i]) is not None])
    return _Template(_one(plain.combine)) if found is None else found


def _opened(
    trace: Callable[[Any], Traced | None],
    fn: Any,
    scalars: Sequence[Any],
    chosen: Sequence[int],
    plain: Combine,
) -> _Template | None:
    """The template with holes for the ``chosen`` scalars, or None if it is not ``plain`` then."""
    found: list[tuple[Combine, list[int]]] = []

    def run(*tracers: Any) -> None:
        given = list(scalars)
        for i, tracer in zip(chosen, tracers, strict=True):
            given[i] = tracer
        traced = trace(rewritten(fn, given))
        if traced is not None:  # what is kept holds no tracer
            places = [next(i for i in chosen if given[i] is x) for x in traced.scalars]
            found.append((traced.combine, places))

    try:
        jax.make_jaxpr(run)(*(scalars[i] for i in chosen))
    except Exception:  # it asks for the value
        return None
    if not found:
        return None
    [(combine, places)] = found
    if not places:
        return None
    dtypes = matched(plain, combine, [scalars[i] for i in places])
    if dtypes is None:
        return None
    return _Template(_one(retyped(combine, dtypes)), tuple(zip(places, dtypes, strict=True)))
