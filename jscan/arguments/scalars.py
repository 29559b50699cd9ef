"""Arguments that are one number: integers and counts, and scalars of a given dtype."""

from __future__ import annotations

import cmath
import operator
import warnings
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from jscan.arguments.arrays import as_numbers, kind_of


def as_integer(caller: str, name: str, value: Any) -> int:
    """The Python integer of an integer of Python, NumPy or JAX; True and False are refused."""
    if isinstance(value, jax.core.Tracer):
        raise TypeError(f"{caller}: {name} must be known at trace time, not traced")
    if isinstance(value, bool) or getattr(value, "dtype", None) == jnp.bool_:
        raise TypeError(f"{caller}: {name} must be an integer; got {value!r}")
    try:
        return operator.index(value)
    except TypeError:
        raise TypeError(f"{caller}: {name} must be an integer; got {value!r}") from None


def as_count(caller: str, name: str, value: Any) -> int | None:
    """A size that is known at trace time, or None where none is given."""
    return None if value is None else as_size(caller, name, value)


def as_size(caller: str, name: str, value: Any) -> int:
    """A size that is known at trace time."""
    count = as_integer(caller, name, value)
    if not 0 <= count < 2**31 - 1:
        raise ValueError(f"{caller}: {name} must be in [0, 2**31 - 1); got {count}")
    return count


def as_axis(caller: str, name: str, axis: Any, shape: tuple[int, ...]) -> int:
    """``axis`` counted from 0; ``name`` is the argument that has ``shape``."""
    index = as_integer(caller, "axis", axis)
    if not -len(shape) <= index < len(shape):
        raise ValueError(f"{caller}: axis={index} is out of range for {name} of shape {shape}")
    return index % len(shape)


def as_switch(caller: str, name: str, value: Any) -> bool:
    """True or False, from a bool, 0 or 1 of Python, NumPy or JAX.

    A traced value is refused, since it cannot choose the program.
    """
    if isinstance(value, jax.core.Tracer):
        raise TypeError(f"{caller}: {name} must be a Python bool, not a traced value")
    number = value
    if isinstance(value, (np.generic, np.ndarray, jax.Array)) and value.shape == ():
        discrete = value.dtype == jnp.bool_ or jnp.issubdtype(value.dtype, jnp.integer)
        number = value.item() if discrete else None
    if not (isinstance(number, int) and number in (0, 1)):
        raise TypeError(f"{caller}: {name} must be a Python bool; got {value!r}")
    return bool(number)


def as_scalar(caller: str, name: str, value: Any, dtype: np.dtype) -> jax.Array:
    """``value`` as a scalar of ``dtype``, which must be able to hold it; floats are rounded."""
    given = as_numbers(caller, name, value)
    if given.ndim:
        raise ValueError(f"{caller}: {name} must be a scalar; got shape {given.shape}")
    if not isinstance(given, jax.Array):
        return jnp.asarray(_cast(caller, name, given, dtype))
    kinds = kind_of(given.dtype), kind_of(dtype)
    if isinstance(given, jax.core.Tracer) or not given.is_fully_addressable:
        if kinds[0] > kinds[1]:
            raise TypeError(
                f"{caller}: {name} has dtype {given.dtype}, which does not fit elements of {dtype}"
            )
    elif kinds[0] > kinds[1] or (kinds[0] == 1 and given.dtype != dtype):
        # Reading a value waits for it, so one that fits by its dtype alone is not read.
        return jnp.asarray(_cast(caller, name, np.asarray(given), dtype))
    return given.astype(dtype)


def _cast(caller: str, name: str, number: np.ndarray, dtype: np.dtype) -> np.ndarray:
    """A known scalar in ``dtype``, which must hold integers exactly and floats in its range."""
    exact = number.item()
    try:
        with np.errstate(all="ignore"), warnings.catch_warnings():
            warnings.simplefilter("ignore", np.exceptions.ComplexWarning)
            if kind_of(dtype) > 1 and number.dtype == np.dtype(object):
                number = number.astype(float)
            cast = number.astype(dtype)
    except OverflowError:
        holds = False
    else:
        if kind_of(dtype) < 2:
            holds = int(cast) == exact
        elif kind_of(dtype) == 2 and complex(exact).imag:
            holds = False
        else:
            holds = bool(np.isfinite(complex(cast))) or not cmath.isfinite(exact)
    if not holds:
        raise ValueError(f"{caller}: {name}={exact!r} does not fit elements of {dtype}")
    return cast
