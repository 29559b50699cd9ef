"""Head flags of one bit an element, in words: the first element is a word's least significant bit.

    element   0 1 2 3 4 5 6 7   8 9 ...
    bit       0 1 2 3 4 5 6 7   0 1 ...
    word      └───── 0 ─────┘   └─ 1 ─ ...           of 8 bits; there are words of 32 bits, too

What the last word has behind the end of the axis counts for nothing.
"""

from __future__ import annotations

from typing import Any, NamedTuple, TypeAlias

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

from jscan.arguments.arrays import Array


class Packed(NamedTuple):
    """Head flags as words, on their way to a primitive that reads those."""

    words: jax.Array


class Bounds(NamedTuple):
    """Head flags by where segments begin and the last one ends, never decreasing.

    From 0 on, unless the first element's flag is taken away.
    """

    bounds: jax.Array


class Ends(NamedTuple):
    """Head flags by where segments end, never decreasing: one begins at 0, and one at each end."""

    ends: jax.Array


class Runs(NamedTuple):
    """Head flags by ids: a segment begins where one differs from that before it."""

    ids: jax.Array


Marks: TypeAlias = jax.Array | Packed | Bounds | Ends | Runs
"""Head flags in a form that ``scan_p`` takes."""


FORMS: dict[str, type[Packed | Bounds | Ends | Runs]] = {
    "bits": Packed,
    "offsets": Bounds,
    "ends": Ends,
    "runs": Runs,
}
"""What ``scan_p`` calls the forms that are not flags."""


def kind_of(marks: Marks | None) -> str:
    """How ``scan_p`` calls the form of head flags."""
    kinds = (kind for kind, form in FORMS.items() if isinstance(marks, form))
    return next(kinds, "flags")


ALONG = ("flags", "runs")
"""The forms that have the axis of the leaves; others have one of their own."""


def beside(marks: Any, kind: str, axis: int) -> jax.ShapeDtypeStruct:
    """What counts of the shape of marks beside leaves: 1 along an axis that is their own."""
    shape = list(marks.shape)
    if kind not in ALONG:
        shape[axis] = 1
    return jax.ShapeDtypeStruct(tuple(shape), marks.dtype)


def width(dtype: np.dtype) -> int:
    """The number of bits of a word."""
    return 8 * dtype.itemsize


def count(n: int, dtype: np.dtype) -> int:
    """The number of words that so many elements take."""
    return -(-n // width(dtype))


def unpacked(words: jax.Array, *, axis: int, n: int) -> jax.Array:
    """The flags of ``n`` elements along ``axis``, as booleans."""
    bits = lax.broadcasted_iota(words.dtype, (width(words.dtype),), 0)
    each = lax.expand_dims(words, [axis + 1])
    place = lax.expand_dims(bits, [d for d in range(each.ndim) if d != axis + 1])
    shape = (*words.shape[: axis + 1], bits.size, *words.shape[axis + 1 :])
    found = (jnp.broadcast_to(each, shape) >> place) & np.ones((), words.dtype)
    whole = (*words.shape[:axis], words.shape[axis] * bits.size, *words.shape[axis + 1 :])
    return lax.slice_in_dim(found.reshape(whole), 0, n, axis=axis) != 0


def behind_zero(ends: jax.Array, *, axis: int) -> jax.Array:
    """Bounds from where segments end along ``axis``, in int32."""
    front = [(1 if d == axis else 0, 0, 0) for d in range(ends.ndim)]
    return lax.pad(ends, np.int32(0), front)


def of_bounds(bounds: jax.Array, *, axis: int, n: int) -> jax.Array:
    """The words (uint32) of ``n`` elements by where segments begin along ``axis``, in int32.

    Bits of a word are added by a scatter; of them none comes twice.
    """
    size = width(np.dtype(np.uint32))
    words = count(n, np.dtype(np.uint32))
    rows = jnp.moveaxis(bounds, axis, -1)
    behind = lax.pad(rows[..., 1:], np.int32(n), [(0, 0, 0)] * (rows.ndim - 1) + [(0, 1, 0)])
    # Segments without elements begin where another does, or where the axis ends.
    begins = (rows != behind) & (rows < n)
    place = jnp.minimum(rows, n - 1)
    bit = lax.shift_left(np.uint32(1), lax.rem(place, np.int32(size)).astype(jnp.uint32))
    bit = jnp.where(begins, bit, np.uint32(0))
    found = _scattered(bit, lax.div(place, np.int32(size)), words)
    return jnp.moveaxis(found, -1, axis)


def _scattered(bits: jax.Array, word: jax.Array, words: int) -> jax.Array:
    """The sum of the bits of each word: a fill of the words, and a scatter."""

    def marked(bits: jax.Array, word: jax.Array) -> jax.Array:
        empty = jnp.zeros(words, jnp.uint32)
        how: dict[str, Any] = {"mode": "promise_in_bounds", "indices_are_sorted": True}
        return empty.at[word].add(bits, **how)

    flat = (-1, bits.shape[-1])
    found = jax.vmap(marked)(bits.reshape(flat), word.reshape(flat))
    return found.reshape(*bits.shape[:-1], words)


def packed(flags: jax.Array, dtype: np.dtype) -> jax.Array:
    """The words of boolean flags along their last axis."""
    *rows, n = flags.shape
    size = width(dtype)
    words = count(n, dtype)
    end = [(0, 0, 0)] * len(rows) + [(0, words * size - n, 0)]
    bits = lax.pad(flags, np.bool_(False), end).reshape(*rows, words, size).astype(dtype)
    moved = bits << lax.broadcasted_iota(dtype, bits.shape, bits.ndim - 1)
    return jnp.sum(moved, axis=-1, dtype=dtype)


def repeated(flags: jax.Array, rows: int) -> jax.Array:
    """The words (uint32) of so many rows of the same boolean flags, one behind the other.

    Each is found by its place in a row, in two words of that, or the row's last and its first.
    """
    size = width(np.dtype(np.uint32))
    total = flags.size * rows
    several = jnp.tile(flags, -(-size // flags.size))  # so that no word lies in three
    period = np.uint32(several.size)
    table = lax.pad(packed(several, np.dtype(np.uint32)), np.uint32(0), [(0, 1, 0)])
    word = lax.iota(jnp.uint32, count(total, np.dtype(np.uint32)))
    begin = lax.rem(word * np.uint32(size), period)
    first, inside = lax.div(begin, np.uint32(size)), lax.rem(begin, np.uint32(size))
    here, behind = (
        table.at[(first + np.uint32(k)).astype(jnp.int32)].get(mode="promise_in_bounds")
        for k in range(2)
    )
    # A shift by all of the bits has no meaning.
    rest = lax.shift_left(lax.shift_left(behind, np.uint32(size - 1) - inside), np.uint32(1))
    left = jnp.minimum(period - begin, np.uint32(size - 1))
    again = lax.shift_left(jnp.broadcast_to(table[0], word.shape), left)
    ends = period - begin < np.uint32(size)
    return lax.shift_right_logical(here, inside) | rest | jnp.where(ends, again, np.uint32(0))


def known(words: Array, n: int) -> np.ndarray:
    """The flags of ``n`` elements along the last axis of known words."""
    values = np.asarray(words)
    octets = np.ascontiguousarray(values.astype(values.dtype.newbyteorder("<"))).view(np.uint8)
    # NumPy takes a count of 0 elements for all of them.
    return np.unpackbits(octets, axis=-1, bitorder="little")[..., :n] != 0
