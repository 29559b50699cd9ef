"""Elements grouped by segment ids, which functions of segments reduce and spread over and over."""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

from jscan import by_ids, heads, made, meshes, operators, plans, primitives, summaries
from jscan.arguments import arrays, choices, descriptors, scalars
from jscan.derivatives.recurrence import sum_of
from jscan.eager import compiled, elements, tree
from jscan.plans import SegmentPlan
from jscan.segments import Segments


@functools.partial(
    jax.tree_util.register_dataclass,
    data_fields=["ids", "plan"],
    meta_fields=["count", "are_neighbours", "method"],
)
@dataclasses.dataclass(frozen=True)
class Groups:
    """Which segment each element of a first axis is in.

    Attributes:
      ids: the segment of each element; one outside of the segments is dropped.
      plan: the order of the ids, or None.
      count: how many segments there are.
      are_neighbours: whether equal ids are neighbours.
      method: which implementation totals run on.
    """

    ids: jax.Array
    plan: SegmentPlan | None
    count: int
    are_neighbours: bool
    method: str

    @property
    def places(self) -> jax.Array:
        """The segments, int32, and ``count`` for each element that is dropped."""
        return heads.places_of(self.ids, self.count)

    def total(
        self, operator: operators.Operator, x: jax.Array, *, exact: bool = False
    ) -> jax.Array:
        """The totals of each segment; an ``exact`` sum of halves is left in float32."""
        if self.are_neighbours or self.plan is not None:
            given = operator, x, self.ids, self.plan, self.count, self.method
            return by_ids.in_order(*given, exact=exact)
        return by_ids.scattered(operator, x, self.ids, self.count, exact=exact)

    def neighbours(self, rank: int) -> jax.Array | None:
        """The segment of each element of data of this rank, where equal ones are neighbours."""
        if self.plan is not None:
            numbers, *order = plans.operands(self.plan, rank)
            return None if order else numbers
        return lax.expand_dims(self.ids, range(1, rank)) if self.are_neighbours else None

    def summary(self, name: str, data: jax.Array, *values: jax.Array) -> list[jax.Array]:
        """The totals of what `jscan.made` makes of each element, and of the value of its segment.

        They have the dtypes in which they are combined.
        """
        ids = self.neighbours(data.ndim)
        if ids is None:
            joined = made.SUMMARIES[name].joined
            if joined is not None:
                [total] = self.summary(joined.first, data)
                return [total, *self.summary(joined.then, data, total.astype(data.dtype))]
            spread = [self.spread(value) for value in values]
            elements = made.made(data, spread, name=name, dtype=data.dtype, axis=0)
            pairs = zip(made.SUMMARIES[name].operators, elements, strict=True)
            return [self.total(operator, x, exact=True) for operator, x in pairs]
        how: dict[str, Any] = {"dtype": data.dtype, "num_segments": self.count}
        return summaries.summary(data, values, ids, axis=0, summary=name, method=self.method, **how)

    def lengths(self, rank: int) -> jax.Array:
        """How many elements each segment has, int32, to go with totals of this rank."""
        ones = lax.full_like(self.ids, 1, np.dtype(np.int32))
        return lax.expand_dims(self.total(operators.add, ones), range(1, rank))

    def spread(self, values: jax.Array) -> jax.Array:
        """The value of its segment for each element, and zero where an element is dropped."""
        if self.plan is not None:
            numbers, *order = plans.operands(self.plan, values.ndim)
            if order:
                how: dict[str, Any] = {"emit": "elements", "num_segments": self.count}
                how |= {"combine": sum_of(values.dtype), "method": "auto", "exact": False}
                return primitives.collect(values, [numbers, *order], axis=0, **how)
            return primitives.spread(values, numbers, axis=0)
        if self.are_neighbours:
            ids = lax.expand_dims(self.ids, range(1, values.ndim))
            return primitives.spread(values, ids, axis=0)
        if self.count == 0:
            return jnp.zeros((self.ids.shape[0], *values.shape[1:]), values.dtype)
        return jnp.take(values, self.places, axis=0, mode="fill", fill_value=0)

    def holds(self, x: jax.Array) -> jax.Array:
        """Which elements of ``x`` are in a segment."""
        inside = self.places < self.count
        return jnp.broadcast_to(lax.expand_dims(inside, range(1, x.ndim)), x.shape)


Function = Callable[..., Any]


def apply(
    caller: str,
    function: Function,
    takes: Callable[[np.dtype], bool],
    data: Any,
    segment_ids: Any,
    num_segments: Any,
    indices_are_sorted: Any,
    method: Any = "auto",
    dimensions: meshes.Dimensions = meshes.same,
    options: tuple[Any, ...] = (),
    others: Any = None,
) -> Any:
    """``function`` of the checked data and its `Groups`, then the ``options``, which are static.

    Results are laid out in a mesh as ``data`` is in the ``dimensions``. Where there is a pytree of
    ``others``, whose leaves have the dimensions of ``data`` in front, it is the last argument.
    """
    if isinstance(segment_ids, Segments):
        num_segments = _count_of(caller, num_segments, segment_ids)
        segment_ids, indices_are_sorted = segment_ids.ids, True
    elif num_segments is None and isinstance(segment_ids, SegmentPlan):
        num_segments = segment_ids.num_segments
    elif num_segments is None:
        ids = arrays.as_integers(caller, "segment_ids", segment_ids, allow_bool=False)
        num_segments = descriptors.count_segments(caller, num_segments, ids)
    given = data, segment_ids, num_segments, indices_are_sorted, method
    return _apply(caller, function, takes, dimensions, *given, options, others)


_FUNCTION = (type(lambda: None),)


@compiled(
    *(str, _FUNCTION, _FUNCTION, _FUNCTION),
    *(elements, by_ids.known_ids, int, bool, str, tuple, tree),
)
def _apply(
    caller: str,
    function: Function,
    takes: Callable[[np.dtype], bool],
    dimensions: meshes.Dimensions,
    data: Any,
    segment_ids: Any,
    num_segments: Any,
    indices_are_sorted: Any,
    method: Any,
    options: tuple[Any, ...],
    others: Any,
) -> Any:
    """The same of segments by ids or by a plan."""
    choices.check_method(caller, method)
    plan = segment_ids if isinstance(segment_ids, SegmentPlan) else None
    if plan is not None:
        segment_ids = plan.ids
    ids = arrays.as_integers(caller, "segment_ids", segment_ids, allow_bool=False)
    array = by_ids.one_for_each_id(caller, arrays.as_array(caller, "data", data), ids)
    if not takes(array.dtype):
        raise TypeError(f"{caller}: data has dtype {array.dtype}, which it does not take")
    if plan is None:
        count = descriptors.count_segments(caller, num_segments, ids)
    else:
        count = by_ids.count_of(caller, num_segments, plan)
    is_sorted = scalars.as_switch(caller, "indices_are_sorted", indices_are_sorted)
    if plan is not None:
        by_ids.check_suits_plan(caller, {"indices_are_sorted=True": is_sorted})
    if method not in ("auto", "xla"):
        orders = is_sorted or plan is not None
        by_ids.check_suits_kernels(caller, f"method={method!r}", None, orders)
    numbers = jnp.asarray(descriptors.narrow_numbers(ids, count))

    more = jax.tree.leaves(others)

    def run(array: jax.Array, ids: jax.Array, plan: SegmentPlan | None, others: Any) -> Any:
        behind = options if others is None else (*options, others)
        return function(array, Groups(ids, plan, count, is_sorted, method), *behind)

    given = array, numbers, plan, others
    return meshes.automatically(run, *given, like=[array, *more], dimensions=dimensions)


def _count_of(caller: str, num_segments: Any, segments: Segments) -> int:
    """The number of segments that is given, or that `Segments` know."""
    count = scalars.as_count(caller, "num_segments", num_segments)
    count = segments.num_segments if count is None else count
    if count is None:
        raise ValueError(
            f"{caller}: num_segments is required where segment_ids are Segments of traced flags or "
            "ids"
        )
    return count


def by_segment(dimension: int) -> int | None:
    """Dimensions of results with an element for each segment."""
    return None if dimension == 0 else dimension


def is_number(dtype: np.dtype) -> bool:
    """Whether elements are added: all but those that have no zero."""
    return operators.add.takes(dtype) or dtype == np.bool_


def is_real(dtype: np.dtype) -> bool:
    """Whether elements have an order."""
    return operators.max.takes(dtype)


def in_floats(dtype: np.dtype) -> np.dtype:
    """The dtype of results that are not integers: that of floats, or JAX's own for the others."""
    if jnp.issubdtype(dtype, jnp.inexact):
        return dtype
    return np.dtype(jax.dtypes.canonicalize_dtype(np.float64))


def widened(x: jax.Array) -> jax.Array:
    """``x`` in floats of 32 bits or more, in which quotients and exponentials are computed."""
    dtype = in_floats(x.dtype)
    return x.astype(np.float32 if dtype.itemsize < 4 else dtype)
