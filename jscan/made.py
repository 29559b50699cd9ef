"""Elements that are made of data, by name: how, and by which operator they are combined."""

from __future__ import annotations

import contextlib
import functools
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

from jscan import extent, operators
from jscan.combine import Combine, trace
from jscan.operators import Operator


class Joined(NamedTuple):
    """A summary, and another that takes its total: a kernel has both by one operator."""

    first: str
    then: str
    combine: Callable[[Sequence[jax.Array], Sequence[jax.Array]], tuple[jax.Array, ...]]


class Summary(NamedTuple):
    """How elements are made, and by which operator each of them is reduced.

    ``make`` takes an element of the data, its place along the axis, and the value of its segment if
    the summary ``takes_value``. If elements are ``joined``, one operator reduces them together, and
    ``operators`` tell the identities.
    """

    make: Callable[..., tuple[jax.Array, ...]]
    operators: tuple[Operator, ...]
    takes_value: bool = False
    joined: Joined | None = None


def _itself(x: jax.Array, place: jax.Array) -> tuple[jax.Array, ...]:
    del place
    return (x,)


def _one_and_all(x: jax.Array, place: jax.Array) -> tuple[jax.Array, ...]:
    return x, lax.full_like(place, 1)


def _square(x: jax.Array, place: jax.Array) -> tuple[jax.Array, ...]:
    del place
    return (lax.mul(x, x),)


def _exponential(x: jax.Array, place: jax.Array, largest: jax.Array) -> tuple[jax.Array, ...]:
    """exp(x - largest), which is 1 for the largest itself, infinite or not."""
    del place
    is_largest = lax.eq(x, largest)
    return (lax.exp(lax.select(is_largest, lax.full_like(x, 0), lax.sub(x, largest))),)


def _largest_alone(x: jax.Array, place: jax.Array) -> tuple[jax.Array, ...]:
    del place
    return x, lax.full_like(x, 1)


def _exponentials_together(
    left: Sequence[jax.Array], right: Sequence[jax.Array]
) -> tuple[jax.Array, ...]:
    """Sums of exp(x - largest), of which that of the lesser one is scaled."""
    (a, below_a), (b, below_b) = left, right
    rises = lax.lt(a, b)
    largest = operators.max(a, b)
    distance = lax.sub(lax.select(rises, a, b), largest)
    scale = lax.exp(lax.select(lax.eq(a, b), lax.full_like(a, 0), distance))
    lesser, greater = lax.select(rises, below_a, below_b), lax.select(rises, below_b, below_a)
    return largest, lax.add(lax.mul(lesser, scale), greater)


def _place_of(x: jax.Array, place: jax.Array, total: jax.Array) -> tuple[jax.Array, ...]:
    is_total = lax.eq(x, total)
    if jnp.issubdtype(x.dtype, jnp.floating):
        is_total = lax.bitwise_or(is_total, lax.ne(x, x))  # a total is NaN where an element is
    return (lax.select(is_total, place, lax.full_like(place, NOWHERE)),)


def _with_place(x: jax.Array, place: jax.Array) -> tuple[jax.Array, ...]:
    return x, place


def _first_of(
    exceeds: Callable[[jax.Array, jax.Array], jax.Array],
    left: Sequence[jax.Array],
    right: Sequence[jax.Array],
) -> tuple[jax.Array, ...]:
    """The right one if it exceeds the left one, which comes first, or if there is none there."""
    (x, place), (y, _) = left, right
    taken = exceeds(y, x)
    if jnp.issubdtype(x.dtype, jnp.floating):  # NaN exceeds all but NaN
        is_number = lax.eq(x, x)
        taken = lax.bitwise_and(lax.bitwise_or(taken, lax.ne(y, y)), is_number)
    taken = lax.bitwise_or(taken, lax.eq(place, lax.full_like(place, NOWHERE)))
    return tuple(lax.select(taken, b, a) for a, b in zip(left, right, strict=True))


NOWHERE = np.iinfo(np.int32).max
"""Where the first element is that is the total of its segment, if there is none."""

GREATEST_AND_PLACE = "greatest and its first place"
LEAST_AND_PLACE = "least and its first place"
GREATEST_AND_EXPONENTIALS = "greatest and sum of exponentials"

SUMMARIES = {
    "greatest": Summary(_itself, (operators.max,)),
    "least": Summary(_itself, (operators.min,)),
    "sum and count": Summary(_one_and_all, (operators.add, operators.add)),
    "squares": Summary(_square, (operators.add,)),
    "exponentials": Summary(_exponential, (operators.add,), takes_value=True),
    "first place": Summary(_place_of, (operators.min,), takes_value=True),
    GREATEST_AND_EXPONENTIALS: Summary(
        _largest_alone,
        (operators.max, operators.add),
        joined=Joined("greatest", "exponentials", _exponentials_together),
    ),
    GREATEST_AND_PLACE: Summary(
        _with_place,
        (operators.max, operators.min),
        joined=Joined("greatest", "first place", functools.partial(_first_of, lax.gt)),
    ),
    LEAST_AND_PLACE: Summary(
        _with_place,
        (operators.min, operators.min),
        joined=Joined("least", "first place", functools.partial(_first_of, lax.lt)),
    ),
}


def combine_of(name: str, dtype: np.dtype) -> Combine:
    """The operator on the elements that are made of data of a ``dtype``."""
    return _combine_of(name, np.dtype(dtype))


@functools.cache
def _combine_of(name: str, dtype: np.dtype) -> Combine:
    summary = SUMMARIES[name]
    with jax.enable_x64(True) if dtype.itemsize >= 8 else contextlib.nullcontext():
        data, place = jax.ShapeDtypeStruct((1,), dtype), jax.ShapeDtypeStruct((1,), np.int32)
        leaves = jax.eval_shape(summary.make, data, place, *([data] * summary.takes_value))

        def combined(left: Sequence[Any], right: Sequence[Any]) -> list[Any]:
            if summary.joined is not None:
                return [*summary.joined.combine(left, right)]
            pairs = zip(summary.operators, left, right, strict=True)
            return [operator(x, y) for operator, x, y in pairs]

        zeros = zip(summary.operators, leaves, strict=True)
        identity = tuple(operator.identity(leaf.dtype) for operator, leaf in zeros)
        found = trace(combined, leaves, jax.tree.structure([0] * len(leaves)), 0, identity)
    assert found is not None
    return found


def made(
    data: jax.Array, values: Sequence[jax.Array], *, name: str, dtype: np.dtype, axis: int
) -> list[jax.Array]:
    """The elements, of data and of ``values`` for each of them."""
    shape = extent.full_shape([data, *values])
    x = jnp.broadcast_to(data.astype(dtype), shape)
    spread = [jnp.broadcast_to(value, shape) for value in values]
    place = lax.broadcasted_iota(jnp.int32, shape, axis)
    return [*SUMMARIES[name].make(x, place, *spread)]
