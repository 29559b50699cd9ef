"""Arguments that describe segments: flags, ids, lengths and offsets.

Without 64-bit types JAX takes wide integers modulo 2^32. Known values are therefore read by NumPy,
in the width in which they are given: inside ``jit`` they stay known, and nothing is compiled for
them. Lengths and offsets that are traced are in `jscan.traced_bounds`, which runs scans for them.
"""

from __future__ import annotations

from typing import Any

import jax
import numpy as np

from jscan.arguments.arrays import Array, as_integers, is_held
from jscan.arguments.scalars import as_count

LIMIT = 2**31 - 1
"""An axis that segments divide is shorter than this: its length, and one more, fit int32."""


WORDS = ("uint8", "uint32")
"""The dtypes of words that hold head flags of one bit an element."""


def as_rows(caller: str, name: str, value: Any) -> Array:
    """Flags or ids, of one dimension or more."""
    array = as_integers(caller, name, value, allow_bool=True)
    if array.ndim == 0:
        raise ValueError(f"{caller}: {name} must have at least one dimension; got a scalar")
    return array


def as_vector(caller: str, name: str, value: Any) -> Array:
    """Lengths or offsets, of one dimension."""
    array = as_integers(caller, name, value, allow_bool=False)
    if array.ndim != 1:
        raise ValueError(f"{caller}: {name} must be one-dimensional; got shape {array.shape}")
    return array


def as_words(caller: str, name: str, value: Any, total: int) -> Array:
    """Head flags of one bit an element, of one dimension or more."""
    words = as_rows(caller, name, value)
    dtype = np.dtype(as_word(caller, name, words.dtype))
    size = 8 * dtype.itemsize
    count = -(-total // size)
    if words.shape[-1] != count:
        raise ValueError(
            f"{caller}: {name} must have {count} words of {size} bits for total={total}; got shape "
            f"{words.shape}"
        )
    # A copy of NumPy's, in this machine's order of bytes.
    return words.astype(dtype) if isinstance(words, np.ndarray) else words


def as_word(caller: str, name: str, dtype: Any) -> str:
    """The name of the dtype of a word of head flags."""
    try:
        found = np.dtype(dtype).name
    except TypeError:
        found = repr(dtype)
    if found not in WORDS:
        raise TypeError(f"{caller}: {name} must be uint8 or uint32; got {found}")
    return found


def is_known(value: Any) -> bool:
    """Whether this process can read the values of an array now."""
    if not isinstance(value, jax.Array):
        return isinstance(value, np.ndarray)
    if isinstance(value, jax.core.Tracer):
        return False
    return value.is_fully_addressable and not value.is_deleted()


def typed(array: Any) -> str:
    """An array's dtype and shape; anything else, as in a pytree of other leaves, by its repr."""
    if not (hasattr(array, "shape") and hasattr(array, "dtype")):
        return repr(array)
    return f"{array.dtype}[{','.join(map(str, array.shape))}]"


def known_heads(array: Array, *, runs: bool) -> np.ndarray:
    """Which elements of known ids (``runs``) or of known flags begin a segment."""
    values = np.asarray(array)
    found = np.ones(values.shape, bool)
    found[..., 1:] = values[..., 1:] != (values[..., :-1] if runs else 0)
    return found


def heads_of_bounds(bounds: np.ndarray) -> np.ndarray:
    """Which elements begin a segment, from the known bounds of one row."""
    found = np.zeros(bounds[-1], bool)
    starts = bounds[:-1]
    found[starts[starts < bounds[-1]]] = True
    return found


def first_bounds(bounds: np.ndarray, heads: np.ndarray | None, size: int) -> np.ndarray:
    """The first known bounds of a row, int32; those behind the last are equal to it.

    They are found from the ``heads``, where there are any.
    """
    if heads is not None:
        bounds = np.append(np.flatnonzero(heads), heads.size).astype(np.int32)
    return np.pad(bounds[:size], (0, max(size - bounds.size, 0)), mode="edge")


def numbers_of_bounds(bounds: np.ndarray) -> np.ndarray:
    """The number of each element's segment, from the known bounds of one row; int32."""
    return np.repeat(np.arange(bounds.size - 1, dtype=np.int32), np.diff(bounds))


def padded(bounds: np.ndarray) -> np.ndarray:
    """Known bounds and empty segments behind them, up to a power of two.

    Programs that read bounds are compiled for how many there are.
    """
    size = 1 << (bounds.size - 1).bit_length()
    return np.pad(bounds, (0, size - bounds.size), mode="edge")


def same_places(heads: np.ndarray, bounds: np.ndarray, total: int) -> bool:
    """Whether every row of heads divides the axis as the bounds do, without empty segments."""
    starts, ends = bounds[..., :-1], bounds[..., -1]
    if heads.shape != (*ends.shape, total) or (ends != total).any():
        return False
    if (np.count_nonzero(heads, axis=-1) != starts.shape[-1]).any():
        return False
    return np.array_equal(np.nonzero(heads)[-1].reshape(starts.shape), starts)


def narrow_flags(array: Array) -> Array:
    """Flags in a dtype that JAX holds: wider ones are compared with 0, which keeps their high bits.

    The result is never the caller's own array, which may be written to later.
    """
    return (array != 0).astype(bool) if _is_wide(array) else _own(array)


def narrow_ids(array: Array) -> Array:
    """Ids in a dtype that JAX holds, which change where the given ones do."""
    if not _is_wide(array):
        return _own(array)
    low, high = _range(np.asarray(array))
    if low >= -(2**31) and high < 2**31:
        return array.astype(np.int32)
    return np.cumsum(known_heads(array, runs=True), axis=-1, dtype=np.int32)


def bounds_of_lengths(caller: str, lengths: Array, total: int | None) -> np.ndarray:
    """The bounds of segments of known lengths: where each begins and the last one ends, int32."""
    values = _comparable(lengths)
    low, high = _range(values)
    if low < 0:
        raise ValueError(f"{caller}: lengths must not be negative; got {low}")
    # A sum that does not fit 64 bits wraps around, possibly to a number that looks valid.
    fits = high * values.size < 2**63
    end = int(values.astype(np.int64).sum()) if fits else sum(map(int, values.flat))
    if total is not None and end != total:
        raise ValueError(f"{caller}: lengths add up to {end}, not to total={total}")
    if end >= LIMIT:
        raise ValueError(
            f"{caller}: lengths must add up to less than 2**31 - 1, since places are counted in "
            f"int32; got {end}"
        )
    bounds = np.zeros(values.size + 1, np.int32)
    bounds[1:] = np.cumsum(values.astype(np.int64))
    return _read_only(bounds)


def bounds_of_offsets(caller: str, offsets: Array, total: int | None) -> np.ndarray:
    """The bounds of segments of known offsets, int32."""
    values = _comparable(offsets)
    if (values[1:] < values[:-1]).any():
        raise ValueError(f"{caller}: offsets must not decrease")
    start, end = int(values[0]), int(values[-1])
    if start != 0:
        raise ValueError(f"{caller}: offsets must start with 0; got {start}")
    if total is not None and end != total:
        raise ValueError(f"{caller}: offsets end with {end}, not with total={total}")
    if end >= LIMIT:
        raise ValueError(
            f"{caller}: offsets must end below 2**31 - 1, since places are counted in int32; got "
            f"{end}"
        )
    return _read_only(values.astype(np.int32))


def required_total(caller: str, name: str, total: int | None) -> int:
    """The length of the axis, which cannot be left out beside what is traced."""
    if total is None:
        raise ValueError(f"{caller}: total is required where {name} is traced")
    return total


def narrow_numbers(numbers: Array, num_segments: int) -> Array:
    """Numbers of segments in a dtype that JAX holds.

    A number that is out of range stays out of range, on its side of it.
    """
    held = numbers.dtype != object and is_held(numbers.dtype)
    if held or not _is_wide(numbers):
        return numbers
    below_limit = np.minimum(np.asarray(numbers), num_segments)
    is_negative = below_limit < 0
    return np.where(is_negative, 0, below_limit).astype(np.int32) - is_negative


def count_segments(caller: str, num_segments: Any, ids: Array) -> int:
    """The number of segments, by default what known ids need."""
    count = as_count(caller, "num_segments", num_segments)
    if count is not None:
        return count
    if not is_known(ids):
        raise ValueError(f"{caller}: num_segments is required where segment_ids is traced")
    count = max(_range(_comparable(ids))[1], -1) + 1 if ids.size else 0
    if count >= LIMIT:
        raise ValueError(
            f"{caller}: num_segments must be below 2**31 - 1; left out, it is max(segment_ids) + 1,"
            f" which is {count}"
        )
    return count


def sorted_numbers(
    ids: Array, num_segments: int
) -> tuple[np.ndarray, np.ndarray | None, np.ndarray | None]:
    """Known ids as numbers of segments, their order, and the numbers in this order.

    An id out of range becomes ``num_segments``. Ids that ascend have no order of their own.
    """
    values = _comparable(ids)
    inside = (values >= 0) & (values < num_segments)
    numbers = _read_only(np.where(inside, values, num_segments).astype(np.int32))
    if (values[1:] >= values[:-1]).all():
        return numbers, None, None
    order = np.argsort(numbers, kind="stable").astype(np.int32)
    return numbers, _read_only(order), _read_only(numbers[order])


def _is_wide(array: Array) -> bool:
    """Whether a known array may hold what 32 bits cannot."""
    return isinstance(array, np.ndarray) and array.dtype.itemsize > 4


def _own(array: Array) -> Array:
    return array.copy() if isinstance(array, np.ndarray) else array


def _comparable(array: Array) -> np.ndarray:
    """A known array in NumPy, in a dtype that NumPy compares and adds."""
    values = np.asarray(array)
    return values if values.dtype == object or _is_wide(values) else values.astype(np.int64)


def _range(values: np.ndarray) -> tuple[int, int]:
    return (int(values.min()), int(values.max())) if values.size else (0, 0)


def _read_only(array: np.ndarray) -> np.ndarray:
    array.flags.writeable = False
    return array
