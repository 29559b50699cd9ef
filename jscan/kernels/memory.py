"""What accesses to memory mean in plain JAX, and other primitives that it has no function for.

An access is to the array behind a reference. An interpreter runs this on a machine without a GPU
(`jscan.kernels.language`).
"""

from __future__ import annotations

import math
from collections.abc import Collection, Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

from jscan.kernels.addresses import shape_of_sum


def parts(dtype: np.dtype) -> int:
    """How many real numbers an element of ``dtype`` is in a kernel."""
    return 2 if dtype.kind == "c" else 1


class InWords:
    """Memory of narrow elements, seen as int32 words of several."""

    dtype = np.dtype(np.int32)

    def __init__(self, narrow: Any):
        self.narrow = narrow

    @property
    def shape(self) -> tuple[int, ...]:
        """The shape of the array of words, of which the last may not be whole."""
        bytes_ = math.prod(self.narrow.shape) * self.narrow.dtype.itemsize
        return (-(-bytes_ // self.dtype.itemsize),)


def in_words(refs: Sequence[Any], which: Collection[int]) -> list[Any]:
    """References, of which those at these places are of words."""
    pairs = enumerate(refs)
    return [InWords(x) if i in which and not isinstance(x, InWords) else x for i, x in pairs]


def opened(ref: Any) -> tuple[Any, int | None]:
    """The reference to an array, and the bits of the integers as which it is seen, if it is."""
    return (ref.narrow, 32) if isinstance(ref, InWords) else (ref, None)


def _index(values: Sequence[jax.Array], multipliers: Sequence[int]) -> jax.Array:
    """The flat index, in 32 bits: the interpreter serves arrays of test size."""
    terms = [v.astype(jnp.int32) * np.int32(m) for v, m in zip(values, multipliers, strict=True)]
    shape = shape_of_sum([t.shape for t in terms])
    total = jnp.zeros(shape, jnp.int32)
    for term in terms:
        total = total + jnp.broadcast_to(term, shape)
    return total


def load_meaning(
    array: jax.Array,
    *operands: jax.Array,
    multipliers: Sequence[int],
    seen_as: int | None,
    once: bool,
) -> list[jax.Array]:
    """What `load` reads from the array behind the reference."""
    del once
    if seen_as:
        array = _as_integers(array, seen_as)
    values, mask = operands[: len(multipliers)], operands[len(multipliers) :]
    index = _index(values, multipliers)
    if mask:
        index = jnp.where(mask[0], index, 0)
    value = array.reshape(-1)[index]
    if array.dtype.kind == "c":
        return [lax.real(value), lax.imag(value)]
    return [value.astype(jnp.uint8) if array.dtype == jnp.bool_ else value]


def store_meaning(
    array: jax.Array,
    *operands: jax.Array,
    multipliers: Sequence[int],
    scattered: bool,
    seen_as: int | None,
) -> jax.Array:
    """The array behind the reference after `store`."""
    del scattered
    if seen_as:
        return _stored_integers(array, operands, multipliers)
    values, rest = operands[: len(multipliers)], operands[len(multipliers) :]
    count = parts(np.dtype(array.dtype))
    value, mask = lax.complex(*rest[:2]) if count == 2 else rest[0], rest[count:]
    index = jnp.broadcast_to(_index(values, multipliers), value.shape)
    if mask:
        index = jnp.where(mask[0], index, array.size)
    return array.reshape(-1).at[index].set(value, mode="drop").reshape(array.shape)


def _stored_integers(
    array: jax.Array, operands: Sequence[jax.Array], multipliers: Sequence[int]
) -> jax.Array:
    """The bytes after integers of as many bits as the value has were written among them."""
    values, (value, *mask) = operands[: len(multipliers)], operands[len(multipliers) :]
    size, given = value.dtype.itemsize, array
    array = _as_integers(array, 8)
    place = jnp.broadcast_to(_index(values, multipliers), value.shape) * np.int32(size)
    if mask:
        place = jnp.where(mask[0], place, array.size)
    octets = lax.bitcast_convert_type(value, jnp.uint8).reshape(*value.shape, size)
    places = lax.expand_dims(place, [place.ndim]) + lax.broadcasted_iota(
        jnp.int32, octets.shape, place.ndim
    )
    after = array.at[places].set(octets, mode="drop")
    if given.dtype == jnp.bool_:
        return after.astype(jnp.bool_)
    if given.dtype.itemsize > 1:
        after = after.reshape(*given.shape, given.dtype.itemsize)
    result: jax.Array = lax.bitcast_convert_type(after, given.dtype)
    return result


def _as_integers(array: jax.Array, bits: int) -> jax.Array:
    """The memory of an array as integers of 8 or 32 bits, the last one filled up with zeros."""
    flat = array.reshape(-1)
    if array.dtype == jnp.bool_:
        flat = flat.astype(jnp.uint8)
    octets = lax.bitcast_convert_type(flat, jnp.uint8).reshape(-1)
    if bits == 8:
        return octets
    whole = jnp.pad(octets, (0, -octets.size % 4)).reshape(-1, 4)
    result: jax.Array = lax.bitcast_convert_type(whole, jnp.int32)
    return result


def take_ticket_meaning(
    words: jax.Array, *values: jax.Array, multipliers: Sequence[int]
) -> tuple[jax.Array, jax.Array]:
    """The words after `take_ticket`, and the ticket."""
    index = _index(values, multipliers)
    return words.at[index, 0].add(1), words[index, 0]


def publish_meaning(
    words: jax.Array, *operands: jax.Array, multipliers: Sequence[int]
) -> jax.Array:
    """The words after `publish`."""
    values, (tag, value, *mask) = operands[: len(multipliers)], operands[len(multipliers) :]
    index = jnp.broadcast_to(_index(values, multipliers), value.shape)
    if mask:
        index = jnp.where(mask[0], index, words.shape[0])
    word = jnp.stack([value, jnp.broadcast_to(tag, value.shape)], axis=-1)
    return words.at[index].set(word, mode="drop")


def peek_meaning(
    words: jax.Array, *operands: jax.Array, multipliers: Sequence[int]
) -> list[jax.Array]:
    """The tags and values that `peek` reads."""
    *values, mask = operands
    index = _index(values, multipliers)
    mask = jnp.broadcast_to(mask, index.shape)
    word = words[jnp.where(mask, index, 0)]
    return [jnp.where(mask, word[..., 1], 0), word[..., 0]]
