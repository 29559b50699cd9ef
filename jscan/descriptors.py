"""Integers that describe segments: checked, and fitted to 32 bits by what they mean.

Without 64-bit types JAX takes wide integers modulo 2^32. What is known is therefore looked at while
it is as wide as it was given, and NumPy does that: inside ``jit`` it stays known, and nothing is
compiled for it.
"""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

LIMIT = 2**31 - 1
"""Where an axis ends that segments divide: its length, and one more, are counted in int32."""


def discrete(caller: str, name: str, value: Any, *, allow_bool: bool) -> Any:
    """``value`` as an array of a discrete dtype: of NumPy where it is known, and no array of JAX.

    Python integers that fit no dtype are an array of objects.
    """
    array = value if isinstance(value, jax.Array) else _as_array(caller, name, value)
    dtypes = "a bool or integer dtype" if allow_bool else "an integer dtype"
    if not (
        array.dtype == object
        or jnp.issubdtype(array.dtype, jnp.integer)
        or (allow_bool and array.dtype == jnp.bool_)
    ):
        raise TypeError(f"{caller}: {name} must have {dtypes}; got {array.dtype}")
    return array


def with_an_axis(caller: str, name: str, value: Any) -> Any:
    """Flags or ids."""
    array = discrete(caller, name, value, allow_bool=True)
    if array.ndim == 0:
        raise ValueError(f"{caller}: {name} must have at least one dimension; got a scalar")
    return array


def one_dimensional(caller: str, name: str, value: Any) -> Any:
    """Lengths or offsets."""
    array = discrete(caller, name, value, allow_bool=False)
    if array.ndim != 1:
        raise ValueError(f"{caller}: {name} must be one-dimensional; got shape {array.shape}")
    return array


def _as_array(caller: str, name: str, value: Any) -> Any:
    try:
        if any(isinstance(leaf, jax.core.Tracer) for leaf in jax.tree.leaves(value)):
            return jnp.asarray(value)
        array = np.asarray(value)
        if isinstance(value, (list, tuple)) and array.size == 0:
            return array.astype(np.int32)
        if array.dtype != object and not (
            isinstance(value, (list, tuple)) and array.dtype == float
        ):
            return array
        # NumPy makes objects, or floats, of Python integers that have no dtype in common.
        wide = np.asarray(value, dtype=object)
    except (TypeError, ValueError, OverflowError) as error:
        raise TypeError(f"{caller}: {name} must be an array; {error}") from None
    if all(isinstance(number, (int, np.integer)) for number in wide.flat):
        return wide
    if array.dtype == object:
        raise TypeError(f"{caller}: {name} must be an array of integers; got one of objects")
    return array


def is_known(value: Any) -> bool:
    """Whether this process can read the values of an array now."""
    if not isinstance(value, jax.Array):
        return isinstance(value, np.ndarray)
    if isinstance(value, jax.core.Tracer):
        return False
    return value.is_fully_addressable and not value.is_deleted()


def is_wide(array: Any) -> bool:
    """Whether a known array may hold what 32 bits cannot."""
    return isinstance(array, np.ndarray) and array.dtype.itemsize > 4


def heads(array: Any, *, runs: bool) -> Any:
    """Which elements of known ids (``runs``) or known flags begin a segment, in NumPy."""
    values = np.asarray(array)
    found = np.ones(values.shape, bool)
    found[..., 1:] = values[..., 1:] != (values[..., :-1] if runs else 0)
    return found


def flags(array: Any) -> Any:
    """Flags that 32 bits hold: what is wider is compared with 0 first."""
    return (array != 0).astype(bool) if is_wide(array) else _own(array)


def ids(array: Any) -> Any:
    """Ids that 32 bits hold and that change where these do."""
    if not is_wide(array):
        return _own(array)
    low, high = _range(array)
    if low >= -(2**31) and high < 2**31:
        return array.astype(np.int32)
    return np.cumsum(heads(array, runs=True), axis=-1, dtype=np.int32)


def _own(array: Any) -> Any:
    # Who handed in an array of NumPy may write to it later.
    return array.copy() if isinstance(array, np.ndarray) else array


def bounds_of_lengths(caller: str, lengths: Any, total: int | None) -> Any:
    """Where segments of known lengths begin and the last one ends, int32 of NumPy."""
    values = _readable(lengths)
    low, high = _range(values)
    if low < 0:
        raise ValueError(f"{caller}: lengths must not be negative; got {low}")
    # A sum in 64 bits that does not fit comes round to anything.
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


def bounds_of_offsets(caller: str, offsets: Any, total: int | None) -> Any:
    """The same of known offsets."""
    values = _readable(offsets)
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


def fitted_ids(ids: Any, num_segments: int) -> Any:
    """Ids of segments as JAX will hold them: what does not fit stays out of range, in its order."""
    held = ids.dtype != object and jax.dtypes.canonicalize_dtype(ids.dtype) == ids.dtype
    if held or not is_wide(ids):
        return ids
    below_limit = np.minimum(ids, num_segments)
    is_negative = below_limit < 0
    return np.where(is_negative, 0, below_limit).astype(np.int32) - is_negative


def highest(ids: Any) -> int:
    """The highest of known ids, of which there is one at least."""
    return _range(_readable(ids))[1]


def _readable(array: Any) -> Any:
    """A known array in NumPy, in a dtype that NumPy compares and adds."""
    values = np.asarray(array)
    return values if values.dtype == object or is_wide(values) else values.astype(np.int64)


def _range(values: Any) -> tuple[int, int]:
    return (int(values.min()), int(values.max())) if values.size else (0, 0)


def _read_only(array: Any) -> Any:
    array.flags.writeable = False
    return array
