"""Arguments that are arrays: of numbers, of integers, or of marks."""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

Array = np.ndarray | jax.Array
"""An array of NumPy where the values are known, which keeps their width, else one of JAX."""


def as_array(caller: str, name: str, value: Any) -> jax.Array:
    """``value`` as an array of numbers or booleans.

    An array of 64 bits may be left from where JAX held such; elsewhere no operation makes one.
    """
    array = _as_array_of_any_width(caller, name, value)
    if array.dtype.itemsize >= 8 and not is_held(array.dtype):
        raise TypeError(
            f"{caller}: {name} has dtype {array.dtype}, which JAX computes in only where "
            "jax_enable_x64 is set"
        )
    return array


def is_held(dtype: Any) -> bool:
    """Whether JAX computes in ``dtype`` now, which for 64 bits is a matter of configuration."""
    return bool(jax.dtypes.canonicalize_dtype(dtype) == dtype)


def _as_array_of_any_width(caller: str, name: str, value: Any) -> jax.Array:
    if not isinstance(value, jax.Array):
        value = _converted(caller, name, value, jnp.asarray)
    # Keys have a dtype of their own, as has the tangent of an integer, and neither is a number.
    if not isinstance(value.dtype, np.dtype) or value.dtype == jax.dtypes.float0:
        advice = "; pass jax.random.key_data of keys" if _is_key(value) else ""
        raise TypeError(
            f"{caller}: {name} must be an array of numbers; got dtype {value.dtype}{advice}"
        )
    return value


def as_numbers(caller: str, name: str, value: Any) -> Array:
    """Numbers, known ones in NumPy and in all their width.

    A Python integer that fits no dtype becomes an array of dtype object.
    """
    if not isinstance(value, (bool, int, float, complex, np.generic, np.ndarray)):
        return _as_array_of_any_width(caller, name, value)
    array: np.ndarray = _converted(caller, name, value, np.asarray)
    if not (isinstance(value, int) or _is_numeric(array.dtype)):
        raise TypeError(f"{caller}: {name} must be a number; got dtype {array.dtype}")
    return array


def as_marks(caller: str, name: str, value: Any) -> Array:
    """Flags or a mask, of a bool or integer dtype; every value but zero is true.

    Known values stay in NumPy. Those that are wider than JAX holds are compared with zero first,
    since 2^32 cut down to 32 bits would be zero.
    """
    marks = as_integers(caller, name, value, allow_bool=True)
    if marks.dtype == object:
        return (marks != 0).astype(bool)
    if isinstance(marks, np.ndarray) and not is_held(marks.dtype):
        return marks != 0
    return marks


def as_signs(caller: str, name: str, value: Any) -> Array:
    """Numbers of a bool or integer dtype, of which nothing but the sign counts.

    Known values stay in NumPy, and those that are wider than JAX holds become their signs.
    """
    numbers = as_integers(caller, name, value, allow_bool=True)
    if isinstance(numbers, np.ndarray) and (numbers.dtype == object or not is_held(numbers.dtype)):
        return (numbers > 0).astype(np.int8) - (numbers < 0).astype(np.int8)
    return numbers


def as_integers(caller: str, name: str, value: Any, *, allow_bool: bool) -> Array:
    """Integers, or booleans where they are allowed; known ones in NumPy.

    Python integers that fit no dtype become an array of dtype object.
    """
    array: Any
    looked_at = [] if _holds_integers(value) else _items(value)
    if any(isinstance(x, jax.Array) for x in looked_at) or hasattr(value, "__jax_array__"):
        array = _as_array_of_any_width(caller, name, value)
    else:
        array = _converted(caller, name, value, np.asarray)
        if isinstance(value, (list, tuple)) and array.size == 0:
            return array.astype(np.int32)
        if isinstance(value, (list, tuple)) and array.dtype.kind in "Of":
            # NumPy makes objects, or floats, of integers that have no dtype in common.
            items = np.asarray(value, dtype=object)
            if all(isinstance(item, (int, np.integer)) for item in items.flat):
                return items
    if jnp.issubdtype(array.dtype, jnp.integer) or (allow_bool and array.dtype == jnp.bool_):
        return array
    dtypes = "a bool or integer dtype" if allow_bool else "an integer dtype"
    raise TypeError(f"{caller}: {name} must have {dtypes}; got {array.dtype}")


def kind_of(dtype: Any) -> int:
    """The rank of a dtype among bool (0), integers, floats and complex numbers (3)."""
    if dtype == np.dtype(object):
        return 1
    kinds = (jnp.bool_, jnp.integer, jnp.floating, jnp.complexfloating)
    return [jnp.issubdtype(dtype, kind) for kind in kinds].index(True)


def _is_numeric(dtype: Any) -> bool:
    return dtype == jnp.bool_ or jnp.issubdtype(dtype, jnp.number)


def is_array_of_numbers(value: Any) -> bool:
    """Whether it is an array of JAX or NumPy, of numbers or booleans."""
    if not isinstance(value, (jax.Array, np.ndarray)) or not isinstance(value.dtype, np.dtype):
        return False
    return _is_numeric(value.dtype)


def _converted(caller: str, name: str, value: Any, convert: Callable[[Any], Any]) -> Any:
    """``convert(value)``, whose errors name the argument."""
    if isinstance(value, np.ma.MaskedArray):
        raise TypeError(f"{caller}: {name} must be an array without a mask; use its filled()")
    # JAX would take a string for the name of a dtype, and NumPy a sparse array for a list.
    holds_text = not _holds_integers(value) and any(isinstance(x, str) for x in _items(value))
    if is_sparse(value) or holds_text:
        raise TypeError(f"{caller}: {name} must be an array of numbers; got {value!r}")
    try:
        return convert(value)
    except OverflowError as error:
        raise ValueError(f"{caller}: {name} has an integer that does not fit; {error}") from None
    except (TypeError, ValueError) as error:
        if isinstance(value, (list, tuple)):
            if _nested_shape(value) is None:
                raise ValueError(
                    f"{caller}: {name} must be an array; got lists of unequal length"
                ) from None
            raise TypeError(f"{caller}: {name} must be an array of numbers; {error}") from None
        dtype = getattr(value, "dtype", None)
        given = type(value).__name__ if dtype is None else f"{type(value).__name__} of {dtype}"
        raise TypeError(f"{caller}: {name} must be an array of numbers; got {given}") from None


def _items(value: Any) -> list[Any]:
    """The items of nested lists, or the value itself where it is not a list."""
    if not isinstance(value, (list, tuple)):
        return [value]
    if _holds_integers(value):
        return [*value]
    return jax.tree.leaves(value, is_leaf=lambda item: not isinstance(item, (list, tuple)))


def _holds_integers(value: Any) -> bool:
    """Whether a value is a list of Python integers; a long one is looked through fast."""
    return isinstance(value, (list, tuple)) and set(map(type, value)) == {int}


def _nested_shape(value: Any) -> tuple[int, ...] | None:
    """The shape of lists in lists, or None where they are ragged."""
    if not isinstance(value, (list, tuple)):
        return tuple(getattr(value, "shape", ()))
    shapes = {_nested_shape(item) for item in value} or {()}
    inner = shapes.pop()
    return None if shapes or inner is None else (len(value), *inner)


def _is_key(value: Any) -> bool:
    return jnp.issubdtype(value.dtype, jax.dtypes.prng_key)


def is_sparse(value: Any) -> bool:
    """Whether a value is a sparse array, a pytree whose leaves are not its elements."""
    sparse = sys.modules.get("jax.experimental.sparse")  # slow to import, and seldom needed
    return sparse is not None and isinstance(value, sparse.JAXSparse)
