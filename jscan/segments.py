"""`Segments`: where segments begin and end, from any of five descriptions."""

from __future__ import annotations

import json
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import export

from jscan import counted, traced_bounds
from jscan.advice import advised
from jscan.arguments import descriptors
from jscan.arguments.arrays import Array
from jscan.arguments.descriptors import is_known
from jscan.arguments.scalars import as_count, as_size
from jscan.described import NOT_GIVEN, Described, head_flags, shape_of
from jscan.eager import placed
from jscan.extent import check_places
from jscan.heads import as_bool

__all__ = ["Segments"]


@jax.tree_util.register_pytree_node_class
class Segments(Described):
    """A division of an axis into consecutive segments.

    Built by ``from_flags``, ``from_packed``, ``from_ids``, ``from_lengths`` or ``from_offsets``.
    Flags, packed or not, and ids may have rows: segments run along their last axis. Lengths and
    offsets are one-dimensional (use ``jax.vmap`` for rows). A ``Segments`` is a pytree: it may be
    passed into ``jit``, mapped by ``vmap``, carried by ``lax.scan`` and exported by ``jax.export``.

    Lengths and offsets keep their empty segments: ``lengths`` and ``offsets`` give them back, and
    ``ids`` counts them. Head flags and ids cannot express an empty segment.

    Segments that are known when they are built, also inside ``jit``, stay known: nothing is
    compiled for them, and they may be kept and used in another trace. The head flags of lengths and
    offsets are found where they are first used: once in each trace (a loop's body is one), or once
    for all of them where the segments are passed in. On a GPU a scan by traced lengths or offsets
    reads words of bits instead, for which n / 8 bytes are filled and the heads scattered. By ids of
    2^16 elements and more, a kernel reads these once and writes such words, or flags of a byte
    where the scan cannot read words.

    Segments are equal where they divide axes of one length at the same places into segments of the
    same numbers, the empty ones included, whatever they were built from. Like arrays they have no
    hash. Traced segments cannot be compared.

    Example:
      >>> segments = Segments.from_lengths([2, 0, 3])
      >>> segments
      Segments(num_segments=3, total=5, offsets=[0 2 2 5])
      >>> print(segments.flags)
      [ True False  True False False]
      >>> print(segments.ids)
      [0 0 2 2 2]
      >>> segments == Segments.from_offsets([0, 2, 2, 5])
      True
    """

    @classmethod
    @advised
    def from_flags(cls, flags: Any) -> Segments:
        """Segments that start where ``flags`` is not zero, and at the first element in any case.

        Where the first flag is 0, the ``init`` of a scan belongs to the first segment, as what is
        in it before the axis. Where it is not, ``init`` is dropped.

        Args:
          flags: ``(..., n)``, bool or any integer dtype.

        Raises:
          TypeError: ``flags`` has another dtype.
          ValueError: ``flags`` is a scalar.
        """
        rows = descriptors.as_rows("jscan.Segments.from_flags", "flags", flags)
        return cls("flags", descriptors.narrow_flags(rows))

    @classmethod
    @advised
    def from_packed(cls, words: Any, total: int) -> Segments:
        """Segments by head flags of one bit an element, as ``Segments.packed`` makes them.

        Element i has bit ``i % w`` of word ``i // w``, counted from the least significant, in words
        of w bits: ``numpy.packbits`` with ``bitorder="little"`` makes such bytes. They say what
        they would as flags, also of the first element. Bits behind ``total`` count for nothing.

        Flags take an eighth of the memory. On a CUDA GPU scans along one dimension, or along the
        last, read the words. Where something else needs flags they are unpacked first: an element
        then costs 1/8 + 1 bytes of traffic before it is read.

        Args:
          words: ``(..., ceil(total / w))``, uint8 or uint32. Each row begins with a word.
          total: the length of the axis.

        Raises:
          TypeError: ``words`` has another dtype, or ``total`` is not an integer.
          ValueError: ``words`` is a scalar, or has more or fewer words than ``total`` needs.
        """
        caller = "jscan.Segments.from_packed"
        total = as_size(caller, "total", total)
        return cls("bits", descriptors.as_words(caller, "words", words, total), total)

    @classmethod
    @advised
    def from_ids(cls, ids: Any) -> Segments:
        """Segments of equal neighbours: one starts wherever an id differs from the one before it.

        Ids need not be sorted. Equal ids that are not adjacent belong to different segments. The
        first element is a head, as it is by lengths and offsets: it drops the ``init`` of a scan.

        Args:
          ids: ``(..., n)``, bool or any integer dtype.

        Raises:
          TypeError: ``ids`` has another dtype.
          ValueError: ``ids`` is a scalar.
        """
        rows = descriptors.as_rows("jscan.Segments.from_ids", "ids", ids)
        return cls("ids", descriptors.narrow_ids(rows))

    @classmethod
    @advised
    def from_lengths(cls, lengths: Any, total: int | None = None) -> Segments:
        """Segments of the given lengths, one after another.

        Args:
          lengths: ``(num_segments,)``, any integer dtype, not negative.
          total: the length of the axis. It may be left out where ``lengths`` is concrete.

        Traced lengths are not checked: elements past the last segment form one segment of their
        own, whatever begins at or beyond ``total`` is dropped, and a negative length counts as 0.

        Raises:
          TypeError: ``lengths`` is not an integer array, or ``total`` not an integer.
          ValueError: ``lengths`` is not one-dimensional, has a negative entry, or does not add up
            to ``total``; or ``total`` is missing where ``lengths`` is traced.
        """
        caller = "jscan.Segments.from_lengths"
        array = descriptors.as_vector(caller, "lengths", lengths)
        total = as_count(caller, "total", total)
        if is_known(array):
            bounds = descriptors.bounds_of_lengths(caller, array, total)
            return cls("bounds", bounds, int(bounds[-1]))
        total = descriptors.required_total(caller, "lengths", total)
        begins, ends = traced_bounds.of_lengths(array, total)
        segments = cls("bounds", begins, total)
        segments._ends = ends
        return segments

    @classmethod
    @advised
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
          TypeError: ``offsets`` is not an integer array, or ``total`` not an integer.
          ValueError: ``offsets`` is empty, not one-dimensional, decreases, or does not run from 0
            to ``total``; or ``total`` is missing where ``offsets`` is traced.
        """
        caller = "jscan.Segments.from_offsets"
        array = descriptors.as_vector(caller, "offsets", offsets)
        total = as_count(caller, "total", total)
        if array.shape[0] == 0:
            raise ValueError(f"{caller}: offsets must have num_segments + 1 entries; got none")
        if is_known(array):
            bounds = descriptors.bounds_of_offsets(caller, array, total)
            return cls("bounds", bounds, int(bounds[-1]))
        total = descriptors.required_total(caller, "offsets", total)
        return cls("bounds", traced_bounds.of_offsets(array, total), total)

    @property
    def flags(self) -> jax.Array:
        """Head flags, bool: True on the first element of every segment that has one."""
        heads = head_flags(self)
        if not self._is_open:
            return as_bool(heads)
        return placed(self._known_heads) if self._is_read else counted.with_first(heads)

    @property
    def ids(self) -> jax.Array:
        """The number of each element's segment, int32, counted from 0 along the axis.

        Empty segments of ``from_lengths`` and ``from_offsets`` are counted. Ids that were given to
        ``from_ids`` are renumbered.
        """
        if self._counted:
            axis = self._array.ndim - 1
            check_places("jscan.Segments.ids", self._form, self._array, axis)
            if self._is_read:
                return placed(np.cumsum(self._known_heads, axis, np.int32) - np.int32(1))
            return counted.numbers(*self._marks)
        return self._located("ids")

    @advised
    def lengths(self, num_segments: int | None = None) -> jax.Array:
        """The lengths of the first ``num_segments`` segments, int32; 0 where there is none.

        It may be left out where it is static: see ``Segments.num_segments``.

        Raises:
          TypeError: ``num_segments`` is not an integer.
          ValueError: ``num_segments`` is negative, or missing where it is not static.
        """
        offsets = self._offsets("jscan.Segments.lengths", num_segments)
        known = isinstance(offsets, np.ndarray)
        return placed(np.diff(offsets)) if known else jnp.diff(offsets, axis=-1)

    @advised
    def offsets(self, num_segments: int | None = None) -> jax.Array:
        """The offsets of the first ``num_segments`` segments: ``num_segments + 1`` int32.

        The last is where the last of these segments ends; segments that do not exist are empty
        there. ``num_segments`` may be left out, and errors are raised, as for ``Segments.lengths``.
        """
        offsets = self._offsets("jscan.Segments.offsets", num_segments)
        return placed(offsets) if isinstance(offsets, np.ndarray) else offsets

    def _offsets(self, caller: str, num_segments: int | None) -> Array:
        given = as_count(caller, "num_segments", num_segments)
        count = self.num_segments if given is None else given
        if count is None:
            raise ValueError(
                f"{caller}: num_segments is required where segments are traced flags or ids"
            )
        size = count + 1
        if self._counted:
            check_places(caller, self._form, self._array, self._array.ndim - 1)
        if self._is_read and self._array.ndim == 1:
            heads = self._known_heads if self._counted else None
            return descriptors.first_bounds(self._array, heads, size)
        if self._counted:
            return counted.offsets(*self._marks, size)
        return traced_bounds.first(jnp.asarray(self._array), size, self._total)

    @advised
    def packed(self, dtype: Any = np.uint32) -> jax.Array:
        """Head flags of one bit an element: words of ``dtype``, along the last axis.

        Element i has bit ``i % w`` of word ``i // w``, counted from the least significant, in words
        of w bits. The first element's is set, and those behind the last one are not.

        Args:
          dtype: uint8 or uint32.

        Raises:
          TypeError: ``dtype`` is another one.
        """
        name = descriptors.as_word("jscan.Segments.packed", "dtype", dtype)
        return counted.packed(self.flags, name)

    @property
    def num_segments(self) -> int | None:
        """How many segments there are, empty ones included; None where that is not static.

        It is static for lengths and offsets, and for known flags and ids. Where flags or ids have
        rows it is that of the row with the most segments.
        """
        if not self._counted:
            return int(self._array.shape[-1]) - 1
        if not is_known(self._array):
            return None
        if 0 in shape_of(self):
            return 0
        return int(np.count_nonzero(self._known_heads, axis=-1).max())

    def tree_flatten(self) -> tuple[tuple[Any, ...], tuple[str, int | None]]:
        """The arrays, and what is static: flags or ids, or bounds and their head flags."""
        if self._counted:
            return (self._array,), (self._form, self._total)
        flags, bounds = self._flags, self._array
        if isinstance(bounds, np.ndarray) and not isinstance(flags, (np.ndarray, jax.core.Tracer)):
            bounds = self._placed_array
        return (bounds, flags), (self._form, self._total)

    @classmethod
    def tree_unflatten(cls, aux: tuple[str, int | None], children: tuple[Any, ...]) -> Segments:
        """The segments that were flattened; nothing is checked."""
        array, *flags = children
        return cls(aux[0], array, aux[1], *(x for x in flags if x is not None))

    def __reduce__(self) -> tuple[Any, ...]:
        # Flags that were found belong to a trace of this process.
        given = () if self._given_flags is NOT_GIVEN else (self._given_flags,)
        return Segments, (self._form, self._array, self._total, *given)

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Segments):
            return NotImplemented
        if not (is_known(self._array) and is_known(other._array)):
            raise TypeError(
                "jscan.Segments: == needs segments whose values are known; got traced ones"
            )
        if self._counted and other._counted:
            return np.array_equal(self._known_heads, other._known_heads)
        if not (self._counted or other._counted):
            return self._total == other._total and np.array_equal(self._array, other._array)
        counted, bounded = (self, other) if self._counted else (other, self)
        return descriptors.same_places(
            counted._known_heads, np.asarray(bounded._array), bounded._total
        )

    def __repr__(self) -> str:
        if self._counted or not hasattr(self._array, "shape"):
            of_bits = f", total={self._total}" if self._form == "bits" else ""
            return f"Segments({self._form}={descriptors.typed(self._array)}{of_bits})"
        offsets = descriptors.typed(self._array)
        if is_known(self._array) and self._array.ndim == 1:
            offsets = np.array2string(np.asarray(self._array), threshold=16, max_line_width=100)
        return f"Segments(num_segments={self.num_segments}, total={self._total}, offsets={offsets})"


export.register_pytree_node_serialization(
    Segments,
    serialized_name="jscan.Segments",
    serialize_auxdata=lambda aux: json.dumps(aux).encode(),
    deserialize_auxdata=lambda data: tuple(json.loads(data)),
)
