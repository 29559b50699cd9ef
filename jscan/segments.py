"""Where segments begin and end, in whichever of four forms the caller has it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

from jscan import fallback, primitive
from jscan.combine import trace
from jscan.fallback import as_bool
from jscan.locate_primitive import locate
from jscan.rank_primitive import rank


@jax.tree_util.register_pytree_node_class
class Segments:
    """A division of an axis into consecutive segments.

    Built by ``from_flags``, ``from_ids``, ``from_lengths`` or ``from_offsets``. Flags and ids may
    have rows: segments run along their last axis. Lengths and offsets are one-dimensional (use
    ``jax.vmap`` for rows). A ``Segments`` is a pytree: it may be passed into ``jit`` and mapped by
    ``vmap``.

    Lengths and offsets keep their empty segments: ``lengths`` and ``offsets`` give them back, and
    ``ids`` counts them. Head flags and ids cannot express an empty segment.

    Lengths and offsets are searched for head flags once, when they are given: a fill and a scatter
    on a GPU, which ``jit`` drops where nothing uses the flags.

    Example:
      >>> segments = Segments.from_lengths([2, 0, 3])
      >>> print(segments.flags)
      [ True False  True False False]
      >>> print(segments.ids)
      [0 0 2 2 2]
      >>> print(segments.offsets(3))
      [0 2 2 5]
    """

    def __init__(
        self, kind: str, descriptor: Any, total: int | None, found: tuple[Any, Any] | None = None
    ) -> None:
        self._kind = kind
        self._descriptor = descriptor
        self._total = total
        # Several scans over the same segments search for them once.
        self._found = self._find() if found is None else found

    @classmethod
    def from_flags(cls, flags: Any) -> Segments:
        """Segments that start where ``flags`` is not zero, and at the first element in any case.

        Args:
          flags: ``(..., n)``, bool or any integer dtype.

        Raises:
          TypeError: ``flags`` has another dtype.
          ValueError: ``flags`` is a scalar.
        """
        return cls("flags", _discrete("Segments.from_flags", "flags", flags, allow_bool=True), None)

    @classmethod
    def from_ids(cls, ids: Any) -> Segments:
        """Segments of equal neighbours: one starts wherever an id differs from the one before it.

        Ids need not be sorted. Equal ids that are not adjacent belong to different segments.

        Args:
          ids: ``(..., n)``, bool or any integer dtype.

        Raises:
          TypeError: ``ids`` has another dtype.
          ValueError: ``ids`` is a scalar.
        """
        return cls("ids", _discrete("Segments.from_ids", "ids", ids, allow_bool=True), None)

    @classmethod
    def from_lengths(cls, lengths: Any, total: int | None = None) -> Segments:
        """Segments of the given lengths, one after another.

        Args:
          lengths: ``(num_segments,)``, any integer dtype, not negative.
          total: the length of the axis. It may be left out where ``lengths`` is concrete.

        Traced lengths are not checked: elements past the last segment form one segment of their
        own, whatever begins at or beyond ``total`` is dropped, and a negative length counts as 0.

        Raises:
          TypeError: ``lengths`` is no integer array or ``total`` no integer.
          ValueError: ``lengths`` is not one-dimensional, has a negative entry, or does not add up
            to ``total``; or ``total`` is missing where ``lengths`` is traced.
        """
        where = "Segments.from_lengths"
        array = _one_dimensional(where, "lengths", lengths)
        total = _total(where, total)
        if _is_traced(array):
            return cls("lengths", array, _required_total(where, "lengths", total))
        values = np.asarray(array).astype(np.int64)
        if (values < 0).any():
            raise ValueError(
                f"jscan.{where}: lengths must not be negative; got {int(values.min())}"
            )
        if total is not None and int(values.sum()) != total:
            raise ValueError(
                f"jscan.{where}: lengths add up to {int(values.sum())}, not to total={total}"
            )
        return cls("lengths", array, int(values.sum()))

    @classmethod
    def from_offsets(cls, offsets: Any, total: int | None = None) -> Segments:
        """Segments between consecutive offsets, as in the row pointers of a CSR matrix.

        Args:
          offsets: ``(num_segments + 1,)``, any integer dtype: segment i is ``offsets[i]`` up to,
            not including, ``offsets[i + 1]``. The first is 0, the last the length of the axis.
          total: the length of the axis. It may be left out where ``offsets`` is concrete.

        Traced offsets are not checked: elements past the last offset form a segment of their own,
        elements before the first belong to segment 0, an offset that is negative or above
        ``total`` counts as ``total``, and one that exceeds a later one counts as that.

        Raises:
          TypeError: ``offsets`` is no integer array or ``total`` no integer.
          ValueError: ``offsets`` is empty, not one-dimensional, decreases, or does not run from 0
            to ``total``; or ``total`` is missing where ``offsets`` is traced.
        """
        where = "Segments.from_offsets"
        array = _one_dimensional(where, "offsets", offsets)
        total = _total(where, total)
        if array.shape[0] == 0:
            raise ValueError(f"jscan.{where}: offsets must have num_segments + 1 entries; got none")
        if _is_traced(array):
            return cls("offsets", array, _required_total(where, "offsets", total))
        values = np.asarray(array).astype(np.int64)
        if (np.diff(values) < 0).any():
            raise ValueError(f"jscan.{where}: offsets must not decrease")
        if values[0] != 0:
            raise ValueError(f"jscan.{where}: offsets must start with 0; got {int(values[0])}")
        if total is not None and int(values[-1]) != total:
            raise ValueError(
                f"jscan.{where}: offsets end with {int(values[-1])}, not with total={total}"
            )
        return cls("offsets", array, int(values[-1]))

    @property
    def flags(self) -> jax.Array:
        """Head flags, bool: True on the first element of every segment that has one."""
        heads = as_bool(head_flags(self))
        # Bounds begin with 0, so that the first element is a head already.
        return heads | fallback.is_first(heads, axis=heads.ndim - 1) if self._counted else heads

    @property
    def ids(self) -> jax.Array:
        """The number of each element's segment, int32, counted from 0 along the axis.

        Empty segments of ``from_lengths`` and ``from_offsets`` are counted. Ids that were given to
        ``from_ids`` are renumbered.
        """
        if self._counted:
            array = jnp.asarray(self._descriptor)
            return rank(array, axis=array.ndim - 1, source=self._source, emit="number")
        return locate(self._bounds, n=self._length, emit="ids")

    def lengths(self, num_segments: int) -> jax.Array:
        """The lengths of the first ``num_segments`` segments, int32; 0 where there is none."""
        offsets = self.offsets(_number("Segments.lengths", "num_segments", num_segments))
        behind = lax.slice_in_dim(offsets, 1, None, axis=-1)
        return lax.sub(behind, lax.slice_in_dim(offsets, 0, -1, axis=-1))

    def offsets(self, num_segments: int) -> jax.Array:
        """The offsets of the first ``num_segments`` segments: ``num_segments + 1`` int32.

        The last is where the last of these segments ends; one that does not exist is empty there.
        """
        size = _number("Segments.offsets", "num_segments", num_segments) + 1
        if self._counted:
            array = jnp.asarray(self._descriptor)
            return rank(array, axis=array.ndim - 1, source=self._source, emit="places", size=size)
        bounds, total = self._bounds, self._length
        kept = lax.slice_in_dim(bounds, 0, min(size, bounds.shape[-1]), axis=-1)
        beyond = lax.full((*bounds.shape[:-1], size - kept.shape[-1]), np.int32(total))
        return lax.concatenate([kept, beyond], bounds.ndim - 1)

    @property
    def _counted(self) -> bool:
        """Whether segments are numbered by counting heads."""
        return self._kind in ("flags", "ids")

    @property
    def _source(self) -> str:
        """What marks a head, for ``rank``."""
        return "flags" if self._kind == "flags" else "runs"

    @property
    def num_segments(self) -> int | None:
        """How many segments there are, empty ones included; None where that is not static.

        It is static for lengths and offsets, and for concrete flags and ids. Where flags or ids
        have rows it is that of the row with the most segments.
        """
        if self._kind == "lengths":
            return int(self._descriptor.shape[-1])
        if self._kind == "offsets":
            return int(self._descriptor.shape[-1]) - 1
        if _is_traced(self._descriptor):
            return None
        array = np.asarray(self._descriptor)
        if array.size == 0:
            return 0
        heads = array[..., 1:] != (0 if self._kind == "flags" else array[..., :-1])
        return 1 + int(np.count_nonzero(heads, axis=-1).max())

    @property
    def _length(self) -> int:
        assert self._total is not None
        return self._total

    @property
    def _bounds(self) -> jax.Array:
        """Of lengths and offsets, where each segment starts and the last one ends, int32."""
        bounds: jax.Array = self._found[0]
        return bounds

    def _find(self) -> tuple[Any, Any]:
        """Bounds, which begin with 0 and never decrease, and head flags."""
        if self._counted:
            return None, None
        bounds = self._find_bounds()
        return bounds, locate(bounds, n=self._length, emit="flags")

    def _find_bounds(self) -> jax.Array:
        total, given = self._length, jnp.asarray(self._descriptor)
        if given.dtype.itemsize < np.dtype(np.int32).itemsize:
            given = lax.convert_element_type(given, jnp.int32)
        if self._kind == "offsets":
            inside = (given >= 0) & (given < total)
            bounds = lax.convert_element_type(jnp.where(inside, given, total), jnp.int32)
            if _is_traced(self._descriptor):
                bounds = _scan(lax.min, bounds, reverse=True)
            behind = lax.slice_in_dim(bounds, 1, None)
        else:
            # Lengths add up to at most twice the total before they are cut down to it, which 32
            # bits without a sign can hold.
            lengths = lax.convert_element_type(jnp.clip(given, 0, total), jnp.uint32)
            limit = np.uint32(total)
            ends = _scan(lambda a, b: jnp.minimum(a + b, limit), lengths, reverse=False)
            behind = lax.convert_element_type(ends, jnp.int32)
        return lax.concatenate([jnp.zeros((1,), jnp.int32), behind], 0)

    def tree_flatten(self) -> tuple[tuple[Any, ...], tuple[str, int | None]]:
        """The descriptor and what was found of it; its kind and the axis's length are static."""
        return (self._descriptor, *self._found), (self._kind, self._total)

    @classmethod
    def tree_unflatten(cls, aux: tuple[str, int | None], children: tuple[Any, ...]) -> Segments:
        """Undo ``tree_flatten``; nothing is checked."""
        descriptor, *found = children
        return cls(aux[0], descriptor, aux[1], (found[0], found[1]))

    def __repr__(self) -> str:
        total = "" if self._total is None else f", total={self._total}"
        return f"Segments.from_{self._kind}({self._descriptor!r}{total})"


def head_flags(segments: Segments) -> jax.Array:
    """Head flags as scans read them: the first may be False, and given flags are not copied."""
    kind, array = segments._kind, segments._descriptor
    if kind == "flags":
        return jnp.asarray(array)
    if kind == "ids":
        return fallback.changes(jnp.asarray(array), axis=array.ndim - 1)
    found: jax.Array = segments._found[1]
    return found


def describe(segments: Segments) -> tuple[str, jax.Array]:
    """What tells an element's segment, and how: by "flags", by "runs", or by "offsets"."""
    if segments._kind == "flags":
        return "flags", jnp.asarray(segments._descriptor)
    if segments._kind == "ids":
        return "runs", jnp.asarray(segments._descriptor)
    return "offsets", segments._bounds


def _scan(fn: Callable[[Any, Any], Any], x: jax.Array, *, reverse: bool) -> jax.Array:
    combine = trace(fn, [x], jax.tree.structure(0), 0, None)
    assert combine is not None
    [result] = primitive.scan(
        [x], None, combine=combine, axis=0, reverse=reverse, exclusive=False, method="auto"
    )
    return result


def _discrete(where: str, name: str, value: Any, *, allow_bool: bool) -> Any:
    # What is known stays known inside jit: an array of JAX made of it there would be traced.
    array = value if isinstance(value, jax.Array) else np.asarray(value)
    if isinstance(value, (list, tuple)) and array.size == 0:
        array = array.astype(np.int32)
    dtypes = "a bool or integer dtype" if allow_bool else "an integer dtype"
    if not (jnp.issubdtype(array.dtype, jnp.integer) or (allow_bool and array.dtype == jnp.bool_)):
        raise TypeError(f"jscan.{where}: {name} must have {dtypes}; got {array.dtype}")
    if array.ndim == 0:
        raise ValueError(f"jscan.{where}: {name} must have at least one dimension; got a scalar")
    if isinstance(array, np.ndarray):
        array = array.astype(jax.dtypes.canonicalize_dtype(array.dtype))
    return array


def _one_dimensional(where: str, name: str, value: Any) -> Any:
    array = _discrete(where, name, value, allow_bool=False)
    if array.ndim != 1:
        raise ValueError(f"jscan.{where}: {name} must be one-dimensional; got shape {array.shape}")
    return array


def _total(where: str, total: Any) -> int | None:
    return None if total is None else _number(where, "total", total)


def _number(where: str, name: str, value: Any) -> int:
    if isinstance(value, (bool, np.bool_)) or not hasattr(value, "__index__") or _is_traced(value):
        raise TypeError(
            f"jscan.{where}: {name} must be an integer known at trace time; got {value!r}"
        )
    if int(value) < 0:
        raise ValueError(f"jscan.{where}: {name} must not be negative; got {value}")
    return int(value)


def _required_total(where: str, name: str, total: int | None) -> int:
    if total is None:
        raise ValueError(f"jscan.{where}: total is required where {name} is traced")
    return total


def _is_traced(value: Any) -> bool:
    return isinstance(value, jax.core.Tracer)
