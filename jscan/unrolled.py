"""Jaxprs of small arrays as operations on scalars: unrolled, and nothing done twice.

A value is an array of scalars. Each of its dimensions is a *leading* one, which the operations do
not mix, and which is of size 1 here; or it belongs to a block; or it is *alike*, of size 1 here,
where what is spread along it is the same everywhere.
"""

from __future__ import annotations

import dataclasses
import functools
import math
from collections.abc import Callable, Hashable, Iterator, Sequence
from typing import Any

import jax
import numpy as np
from jax import lax
from jax.extend import core

from jscan.jaxprs import ELEMENTWISE, aval, param_structure

MOST_STEPS = 2000
"""The most operations on scalars."""

BLOCK, ALIKE = -1, -2
"""Kinds of dimensions; a leading one is known by its number."""


Operation = Callable[[Any, Any], Any]
"""An operation of `jax.lax` on two operands, which is one primitive."""


class Unfit(Exception):
    """Why an operator is not taken apart."""


@dataclasses.dataclass(frozen=True, eq=False)
class Scalars:
    """A value of the operator: an array of scalars, and what its dimensions are."""

    scalars: np.ndarray
    kinds: tuple[int, ...]

    def real(self, dimension: int, size: int) -> Scalars:
        """The same with a dimension of the block where it was alike. Raises `Unfit`."""
        if self.kinds[dimension] == BLOCK:
            return self
        if self.kinds[dimension] != ALIKE:
            raise Unfit("it mixes what is in leading dimensions")
        shape = [*self.scalars.shape]
        shape[dimension] = size
        kinds = [*self.kinds]
        kinds[dimension] = BLOCK
        return Scalars(np.broadcast_to(self.scalars, shape), tuple(kinds))


def constant(value: Any) -> Scalars:
    """A known array or scalar."""
    array: Any = np.asarray(value)
    scalars = np.empty(array.shape, object)
    for index in np.ndindex(scalars.shape):
        scalars[index] = array[index]
    return Scalars(scalars, (BLOCK,) * array.ndim)


class Walk:
    """The way through a jaxpr: operations on scalars, each of which is done once."""

    def __init__(self, given: Iterator[Any]):
        self.given = given
        self.done: dict[Hashable, Any] = {}
        self.kept: list[Any] = []  # so that what a key names by its address stays alive

    def operand(self, shape: tuple[int, ...], leading: int) -> Scalars:
        """The next of the scalars, as an operand of such a shape."""
        scalars = np.empty((*[1] * leading, *shape[leading:]), object)
        for index in np.ndindex(scalars.shape):
            scalars[index] = next(self.given)
        return Scalars(scalars, (*range(leading), *[BLOCK] * (len(shape) - leading)))

    def step(self, eqn: core.JaxprEqn, operands: Sequence[Scalars]) -> list[Scalars]:
        """The rule of every equation. Raises `Unfit`."""
        name = eqn.primitive.name
        if name in ELEMENTWISE:
            return [self._elementwise(eqn, operands)]
        rule = _RULES.get(name)
        if rule is None:
            raise Unfit(f"it calls {name}")
        return rule(self, eqn, operands)

    def bind(self, primitive: core.Primitive, params: dict[str, Any], *scalars: Any) -> Any:
        """An operation on scalars, or what it was before; known ones are computed."""
        key = (
            primitive.name,
            tuple((k, param_structure(v)) for k, v in sorted(params.items())),
            *(_named(x) for x in scalars),
        )
        try:
            if key in self.done:
                return self.done[key]
        except TypeError:
            raise Unfit(f"{primitive.name} has parameters that do not compare") from None
        if len(self.done) > MOST_STEPS:
            raise Unfit(f"it is more than {MOST_STEPS} operations on scalars")
        if any(isinstance(x, jax.core.Tracer) for x in scalars):
            result = primitive.bind(*scalars, **params)
        else:
            with jax.ensure_compile_time_eval():
                result = np.asarray(primitive.bind(*scalars, **params))[()]
        self.done[key] = result
        self.kept += [result, *scalars]
        return result

    def apply(self, operation: Operation, x: Any, y: Any) -> Any:
        """An operation on two scalars of one dtype, in the primitive to which JAX takes it."""
        eqn = _equation(operation, x.dtype)
        return self.bind(eqn.primitive, eqn.params, x, y)

    def fold(self, operation: Operation, terms: Sequence[Any]) -> Any:
        """The terms combined by an operation, from the left."""
        return functools.reduce(lambda x, y: self.apply(operation, x, y), terms)

    def _elementwise(self, eqn: core.JaxprEqn, operands: Sequence[Scalars]) -> Scalars:
        made = aval(eqn.outvars[0])
        rank = len(made.shape)
        full = [x if x.scalars.ndim else _spread(x, rank) for x in operands]
        kinds = tuple(_together([x.kinds[d] for x in full]) for d in range(rank))
        shape = np.broadcast_shapes(*(x.scalars.shape for x in full))
        arrays = [np.broadcast_to(x.scalars, shape) for x in full]
        scalars = np.empty(shape, object)
        for index in np.ndindex(shape):
            picked: list[Any] = [x[index] for x in arrays]
            if eqn.primitive is lax.select_n_p and isinstance(picked[0], np.generic):
                scalars[index] = picked[1 + int(picked[0])]
            else:
                scalars[index] = self.bind(eqn.primitive, eqn.params, *picked)
        return Scalars(scalars, kinds)


@functools.lru_cache(maxsize=256)
def _equation(operation: Operation, dtype: np.dtype) -> core.JaxprEqn:
    """An operation as JAX writes it: its primitive may have parameters that derivatives ask for."""
    operand = jax.ShapeDtypeStruct((), dtype)
    [eqn] = jax.make_jaxpr(operation)(operand, operand).jaxpr.eqns
    return eqn


def _named(x: Any) -> Hashable:
    """What equal scalars share."""
    return id(x) if isinstance(x, jax.core.Tracer) else (x.dtype, x.tobytes())


def _spread(x: Scalars, rank: int) -> Scalars:
    return Scalars(x.scalars.reshape([1] * rank), (ALIKE,) * rank)


def _together(kinds: Sequence[int]) -> int:
    """What a dimension is that is each of these in some operand."""
    found = {kind for kind in kinds if kind != ALIKE}
    if len(found) > 1:
        raise Unfit("it mixes what is in leading dimensions")
    return found.pop() if found else ALIKE


def _broadcast(_: Walk, eqn: core.JaxprEqn, operands: Sequence[Scalars]) -> list[Scalars]:
    [x] = operands[:1]
    before, shape = aval(eqn.invars[0]).shape, eqn.params["shape"]
    sizes, kinds = [1] * len(shape), [ALIKE] * len(shape)
    for d, to in enumerate(eqn.params["broadcast_dimensions"]):
        if before[d] == shape[to]:
            sizes[to], kinds[to] = x.scalars.shape[d], x.kinds[d]
        elif x.kinds[d] >= 0:
            raise Unfit("it spreads leading dimensions")
    return [Scalars(x.scalars.reshape(sizes), tuple(kinds))]


def _reshape(_: Walk, eqn: core.JaxprEqn, operands: Sequence[Scalars]) -> list[Scalars]:
    [x] = operands[:1]
    before, after = aval(eqn.invars[0]).shape, aval(eqn.outvars[0]).shape
    if eqn.params.get("dimensions") is not None:
        raise Unfit("it calls reshape with an order")
    sizes, kinds = [*after], [BLOCK] * len(after)
    for d, kind in enumerate(x.kinds):
        if kind < 0:
            x = x.real(d, before[d])
            continue
        place = [math.prod(before[:d]), before[d]]
        fits = [e for e, n in enumerate(after) if [math.prod(after[:e]), n] == place]
        free = [e for e in fits if kinds[e] == BLOCK]
        if not free:
            raise Unfit("it reshapes leading dimensions")
        sizes[free[0]], kinds[free[0]] = 1, kind
    return [Scalars(x.scalars.reshape(sizes), tuple(kinds))]


def _squeeze(_: Walk, eqn: core.JaxprEqn, operands: Sequence[Scalars]) -> list[Scalars]:
    [x] = operands
    gone = [d % x.scalars.ndim for d in eqn.params["dimensions"]]
    if any(x.kinds[d] >= 0 for d in gone):
        raise Unfit("it drops leading dimensions")
    kinds = tuple(k for d, k in enumerate(x.kinds) if d not in gone)
    return [Scalars(x.scalars.squeeze(tuple(gone)), kinds)]


def _transpose(_: Walk, eqn: core.JaxprEqn, operands: Sequence[Scalars]) -> list[Scalars]:
    [x], order = operands, eqn.params["permutation"]
    return [Scalars(x.scalars.transpose(order), tuple(x.kinds[d] for d in order))]


def _slice(_: Walk, eqn: core.JaxprEqn, operands: Sequence[Scalars]) -> list[Scalars]:
    [x], before = operands, aval(eqn.invars[0]).shape
    starts, limits = eqn.params["start_indices"], eqn.params["limit_indices"]
    strides = eqn.params["strides"] or (1,) * len(before)
    places = []
    for d, (start, limit, stride) in enumerate(zip(starts, limits, strides, strict=True)):
        whole = (start, limit, stride) == (0, before[d], 1)
        if x.kinds[d] >= 0 and not whole:
            raise Unfit("it slices leading dimensions")
        places.append(slice(start, limit, stride) if x.kinds[d] == BLOCK else slice(None))
    return [Scalars(x.scalars[tuple(places)], x.kinds)]


def _reverse(_: Walk, eqn: core.JaxprEqn, operands: Sequence[Scalars]) -> list[Scalars]:
    [x], turned = operands, eqn.params["dimensions"]
    if any(x.kinds[d] >= 0 for d in turned):
        raise Unfit("it reverses leading dimensions")
    return [Scalars(np.flip(x.scalars, turned), x.kinds)]


def _concatenate(_: Walk, eqn: core.JaxprEqn, operands: Sequence[Scalars]) -> list[Scalars]:
    at = eqn.params["dimension"]
    sizes = [aval(v).shape[at] for v in eqn.invars]
    return [_side_by_side([x.real(at, n) for x, n in zip(operands, sizes, strict=True)], at)]


def _stack(_: Walk, eqn: core.JaxprEqn, operands: Sequence[Scalars]) -> list[Scalars]:
    at = eqn.params["axis"]
    apart = [
        Scalars(np.expand_dims(x.scalars, at), (*x.kinds[:at], BLOCK, *x.kinds[at:]))
        for x in operands
    ]
    return [_side_by_side(apart, at)]


def _side_by_side(parts: Sequence[Scalars], at: int) -> Scalars:
    rank = parts[0].scalars.ndim
    kinds = tuple(_together([x.kinds[d] for x in parts]) for d in range(rank))
    shape = [max(x.scalars.shape[d] for x in parts) for d in range(rank)]
    whole = []
    for x in parts:
        shape[at] = x.scalars.shape[at]
        whole.append(np.broadcast_to(x.scalars, shape))
    return Scalars(np.concatenate(whole, at), kinds)


def _reduced(operation: Operation) -> Callable[..., list[Scalars]]:
    def rule(walk: Walk, eqn: core.JaxprEqn, operands: Sequence[Scalars]) -> list[Scalars]:
        [x], axes, before = operands, eqn.params["axes"], aval(eqn.invars[0]).shape
        for d in axes:
            x = x.real(d, before[d])
        kept = [d for d in range(x.scalars.ndim) if d not in axes]
        rows = x.scalars.transpose([*kept, *axes]).reshape(*(x.scalars.shape[d] for d in kept), -1)
        if rows.shape[-1] == 0:
            raise Unfit("it reduces nothing")
        made = np.empty(rows.shape[:-1], object)
        for index in np.ndindex(made.shape):
            made[index] = walk.fold(operation, [*rows[index]])
        return [Scalars(made, tuple(x.kinds[d] for d in kept))]

    return rule


def _dot(walk: Walk, eqn: core.JaxprEqn, operands: Sequence[Scalars]) -> list[Scalars]:
    """Sums of products, in the order of the contracted dimensions."""
    (contracted, batch), made = eqn.params["dimension_numbers"], aval(eqn.outvars[0]).dtype
    sides = []
    for side, (x, v) in enumerate(zip(operands, eqn.invars, strict=True)):
        for d in contracted[side]:
            x = x.real(d, aval(v).shape[d])
        used = (*batch[side], *contracted[side])
        free = [d for d in range(x.scalars.ndim) if d not in used]
        order = [*batch[side], *free, *contracted[side]]
        shape = [x.scalars.shape[d] for d in order[: len(order) - len(contracted[side])]]
        scalars = x.scalars.transpose(order).reshape(*shape, -1)
        sides.append((scalars, [x.kinds[d] for d in order], len(free)))
    (left, left_kinds, rows), (right, right_kinds, columns) = sides
    shared = len(batch[0])
    kinds = [
        _together(pair) for pair in zip(left_kinds[:shared], right_kinds[:shared], strict=True)
    ]
    kinds += [*left_kinds[shared : shared + rows], *right_kinds[shared : shared + columns]]
    if len({k for k in kinds if k >= 0}) < sum(k >= 0 for k in kinds):
        raise Unfit("it multiplies leading dimensions with each other")
    head = left.shape[:shared]
    left = left.reshape(*head, *left.shape[shared:-1], *[1] * columns, left.shape[-1])
    right = right.reshape(*head, *[1] * rows, *right.shape[shared:-1], right.shape[-1])
    full = np.broadcast_shapes(left.shape, right.shape)
    left, right = np.broadcast_to(left, full), np.broadcast_to(right, full)
    found = np.empty(full[:-1], object)
    for index in np.ndindex(found.shape):
        pairs = zip(left[index], right[index], strict=True)
        terms = [walk.apply(lax.mul, _as(x, made), _as(y, made)) for x, y in pairs]
        found[index] = walk.fold(lax.add, terms)
    return [Scalars(found, tuple(kinds))]


def _as(x: Any, dtype: np.dtype) -> Any:
    return x if x.dtype == dtype else lax.convert_element_type(x, dtype)


def _count(_: Walk, eqn: core.JaxprEqn, operands: Sequence[Scalars]) -> list[Scalars]:
    del operands
    shape, at = eqn.params["shape"], eqn.params["dimension"]
    line = constant(np.arange(shape[at]).astype(eqn.params["dtype"])).scalars
    sizes = [n if d == at else 1 for d, n in enumerate(shape)]
    return [
        Scalars(line.reshape(sizes), tuple(BLOCK if d == at else ALIKE for d in range(len(shape))))
    ]


_RULES: dict[str, Callable[..., list[Scalars]]] = {
    "broadcast_in_dim": _broadcast,
    "concatenate": _concatenate,
    "dot_general": _dot,
    "iota": _count,
    "reduce_and": _reduced(lax.bitwise_and),
    "reduce_max": _reduced(lax.max),
    "reduce_min": _reduced(lax.min),
    "reduce_or": _reduced(lax.bitwise_or),
    "reduce_prod": _reduced(lax.mul),
    "reduce_sum": _reduced(lax.add),
    "reshape": _reshape,
    "rev": _reverse,
    "slice": _slice,
    "squeeze": _squeeze,
    "stack": _stack,
    "transpose": _transpose,
}
