"""`SegmentPlan`: the order of elements by segment, found once for ids that stay."""

from __future__ import annotations

import functools
import json
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import export, lax

from jscan import heads, meshes, primitives
from jscan.advice import advised
from jscan.arguments import arrays, descriptors
from jscan.derivatives.recurrence import sum_of
from jscan.remembered import Remembered
from jscan.sorting import unsigned

__all__ = ["SegmentPlan"]

Parts = tuple[Any, Any, Any]
"""The segment of each element, their order by segment, and the segments in this order.

The latter two are None where the elements lie in order."""


@jax.tree_util.register_pytree_node_class
class SegmentPlan:
    """Segment ids that are sorted once, to reduce by them any number of times.

    ``order`` is a permutation with ``segment_ids[order[i]] <= segment_ids[order[i + 1]]``, in which
    equal ids keep their order. A plan takes the place of ``segment_ids`` in ``jscan.segment_sum``
    and its like, for ids in any order: a graph's edges, tokens of experts. On a CUDA GPU
    elements are then read in the plan's order, and neither totals nor their derivatives scatter:
    the derivative of a sum by a plan is ``SegmentPlan.gather``, and that of the gather is the sum.
    Elsewhere the scatter of ``jax.ops`` runs, which needs no order.

    Args:
      segment_ids: ``(n,)``, any integer dtype. Elements whose id is negative or not below
        ``num_segments`` are dropped.
      num_segments: how many segments there are, static. Where it is left out it is
        ``max(segment_ids) + 1``, and the ids must be concrete.

    Raises:
      TypeError: ``segment_ids`` is not of an integer dtype, or ``num_segments`` not an integer.
      ValueError: ``segment_ids`` is not one-dimensional or has 2**31 - 1 elements or more;
        ``num_segments`` is negative, or missing where the ids are traced.

    A plan is a pytree: it may be passed into ``jit``, mapped by ``vmap``, closed over, carried by
    ``lax.scan`` and exported by ``jax.export``. Ids that are known when it is built, also inside
    ``jit``, are sorted by NumPy, and not at all where they ascend; elements are then read as they
    lie. Traced ids are sorted wherever the plan is built: build it outside of what runs often. It
    holds up to 12 bytes an element.

    Of arrays that are divided among devices along the axis that is reduced, each device gathers the
    whole; ids that are promised to be sorted need not be.

    Example:
      >>> import jax
      >>> import jax.numpy as jnp
      >>> import jscan
      >>> receivers = jnp.array([2, 0, 2, 0, 2])
      >>> plan = jscan.SegmentPlan(receivers, 4)
      >>> plan
      SegmentPlan(num_segments=4, n=5)
      >>> messages = jnp.array([3, 5, 4, 1, 2])
      >>> print(jscan.segment_sum(messages, plan))
      [6 0 9 0]
      >>> print(jscan.segment_max(messages, plan))
      [          5 -2147483648           4 -2147483648]
      >>> print(plan.gather(jnp.array([10, 11, 12, 13])))
      [12 10 12 10 12]
      >>> @jax.jit
      ... def total(x, plan):
      ...     return jnp.sum(jscan.segment_sum(x, plan) ** 2)
      >>> print(jax.grad(total)(messages.astype(float), plan))
      [18. 12. 18. 12. 18.]
    """

    @advised
    def __init__(self, segment_ids: Any, num_segments: int | None = None) -> None:
        caller = "jscan.SegmentPlan"
        ids = arrays.as_integers(caller, "segment_ids", segment_ids, allow_bool=False)
        if ids.ndim != 1:
            raise ValueError(
                f"{caller}: segment_ids must be one-dimensional; got shape {ids.shape}"
            )
        if ids.shape[0] >= descriptors.LIMIT:
            raise ValueError(
                f"{caller}: segment_ids must have fewer than 2**31 - 1 elements, since their "
                f"places are counted in int32; got {ids.shape[0]}"
            )
        count = descriptors.count_segments(caller, num_segments, ids)
        self._num_segments = count
        self._parts: Parts
        if descriptors.is_known(ids):
            self._parts = descriptors.sorted_numbers(ids, count)
        else:
            narrow = jnp.asarray(descriptors.narrow_numbers(ids, count))
            find = functools.partial(_sorted, num_segments=count)
            self._parts = meshes.automatically(find, narrow, like=[])
        self._placed = (Remembered(), Remembered(), Remembered())

    @property
    def num_segments(self) -> int:
        """How many segments there are, empty ones included."""
        return self._num_segments

    @property
    def ids(self) -> jax.Array:
        """The segment of each element, int32; ``num_segments`` where the element is dropped."""
        ids: jax.Array = self._arrays[0]
        return ids

    @advised
    def gather(self, values: Any) -> jax.Array:
        """The value of its segment for each element, as ``values[ids]``.

        ``y[i] = values[ids[i]]``, and 0 where an element is dropped. Its derivative is a
        ``jscan.segment_sum`` by the plan, where that of indexing is a scatter.

        Args:
          values: ``(num_segments, ...)``, any dtype.

        Returns:
          An array ``(n, ...)`` of the dtype of ``values``.

        Raises:
          TypeError: ``values`` is not an array of numbers.
          ValueError: its first dimension is not ``num_segments``, or the plan is of several rows of
            ids, as ``jax.vmap`` makes one.
        """
        caller = "jscan.SegmentPlan.gather"
        array = arrays.as_array(caller, "values", values)
        if np.ndim(self._parts[0]) != 1:
            raise ValueError(
                f"{caller}: the plan's ids must be one-dimensional; got shape "
                f"{np.shape(self._parts[0])}, as of plans that jax.vmap made"
            )
        if array.shape[:1] != (self.num_segments,):
            raise ValueError(
                f"{caller}: values must have one value for each of {self.num_segments} segments "
                f"along its first axis; got shape {array.shape}"
            )

        def run(array: jax.Array, plan: SegmentPlan) -> jax.Array:
            numbers, *order = operands(plan, array.ndim)
            if not order:
                return primitives.spread(array, numbers, axis=0)
            how: dict[str, Any] = {"emit": "elements", "num_segments": self.num_segments}
            how |= {"combine": sum_of(array.dtype), "method": "auto", "exact": False}
            return primitives.collect(array, [numbers, *order], axis=0, **how)

        dimensions = meshes.instead_of(0)
        return meshes.automatically(run, array, self, like=[array], dimensions=dimensions)

    @property
    def _arrays(self) -> Parts:
        """The parts on a device, where known ones are moved once, or in this trace."""
        if not isinstance(self._parts[0], np.ndarray):
            return self._parts
        pairs = zip(self._parts, self._placed, strict=True)
        numbers, order, in_order = (
            None if part is None else placed.array(functools.partial(_placed, part))
            for part, placed in pairs
        )
        return numbers, order, in_order

    def tree_flatten(self) -> tuple[Parts, int]:
        """The arrays, and the number of segments."""
        return self._arrays, self._num_segments

    @classmethod
    def tree_unflatten(cls, num_segments: int, parts: Any) -> SegmentPlan:
        """The plan that was flattened; nothing is checked."""
        plan = object.__new__(cls)
        plan._num_segments, plan._parts = num_segments, tuple(parts)
        plan._placed = (Remembered(), Remembered(), Remembered())
        return plan

    def __reduce__(self) -> tuple[Any, ...]:
        return SegmentPlan.tree_unflatten, (self._num_segments, self._parts)

    def __repr__(self) -> str:
        numbers = self._parts[0]
        length = numbers.shape[-1] if hasattr(numbers, "shape") else numbers
        return f"SegmentPlan(num_segments={self._num_segments}, n={length})"


export.register_pytree_node_serialization(
    SegmentPlan,
    serialized_name="jscan.SegmentPlan",
    serialize_auxdata=lambda aux: json.dumps(aux).encode(),
    deserialize_auxdata=lambda data: int(json.loads(data)),
)


def _placed(part: np.ndarray) -> jax.Array:
    """A known array on the device, or in a trace behind a barrier.

    XLA folds what is computed from a constant as it compiles.
    """
    array = jnp.asarray(part)
    held: jax.Array = (
        lax.optimization_barrier(array) if isinstance(array, jax.core.Tracer) else array
    )
    return held


def operands(plan: SegmentPlan, rank: int) -> list[jax.Array]:
    """The arrays of a plan beside an array of this rank that it divides along the first axis.

    They are those of ``collect_p``, or the numbers alone where elements lie in order.
    """
    there = [x for x in plan._arrays if x is not None]
    return [lax.expand_dims(x, range(1, rank)) for x in there]


def _sorted(ids: jax.Array, num_segments: int) -> Parts:
    numbers = heads.places_of(ids, num_segments)
    places = lax.broadcasted_iota(jnp.int32, numbers.shape, 0)
    keys = numbers.astype(unsigned(num_segments))
    in_order, order = lax.sort((keys, places), num_keys=1, is_stable=True)
    return numbers, order, in_order.astype(numbers.dtype)
