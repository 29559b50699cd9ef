"""Calls outside of ``jit``, compiled as wholes.

A call that is not traced would go through the checks of its arguments, the tracing of its operator
and the binding of each primitive every time. Compiled as one function, it does so once for its
shapes and static arguments, and raises its errors while it is traced.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any, TypeAlias, TypeVar

import jax
import jax.numpy as jnp
import numpy as np
from jax.extend.core import get_opaque_trace_state

T = TypeVar("T")

UNFIT: Any = object()
"""What a kind makes of an argument that it is not for."""

Kind: TypeAlias = type | tuple[type, ...] | Callable[[Any], Any]
"""Types, of which an argument is static, or a function from an argument to what is passed on."""

NONE = type(None)

_UNTRACED = get_opaque_trace_state(convention="nnx")


def is_untraced() -> bool:
    """Whether no transformation is at work, so that arrays hold values."""
    return bool(get_opaque_trace_state(convention="nnx") == _UNTRACED)


def placed(values: np.ndarray) -> jax.Array:
    """Known values on a device; nothing is compiled for their shape, unless a mesh is entered."""
    if is_untraced() and jax.sharding.get_abstract_mesh().empty:
        return jax.device_put(values)
    return jnp.asarray(values)


def marks(argument: Any) -> Any:
    """The kind of an array of flags, a mask or ids, or None; wide ones of NumPy need a look."""
    if argument is None:
        return None
    if type(argument) is np.ndarray:
        return argument if argument.dtype.kind in "biu" and argument.itemsize <= 4 else UNFIT
    return elements(argument)


def number(argument: Any) -> Any:
    """The kind of an array or a Python number, or None."""
    narrow = type(argument) is int and -(2**31) <= argument < 2**31
    if argument is None or narrow or type(argument) is float:
        return argument
    return elements(argument)


def elements(argument: Any) -> Any:
    """The kind of an array of JAX or NumPy. Subclasses mean something else by their elements."""
    if isinstance(argument, jax.Array):
        return UNFIT if isinstance(argument, jax.core.Tracer) else argument
    fits = type(argument) is np.ndarray and argument.dtype.kind in "biufc"
    return argument if fits else UNFIT


def tree(argument: Any) -> Any:
    """The kind of a pytree of arrays."""
    if isinstance(argument, (jax.Array, np.ndarray)):
        return elements(argument)
    try:
        leaves = jax.tree.leaves(argument)
    except (TypeError, ValueError):  # keys of a dict that have no order
        return UNFIT
    return UNFIT if any(elements(leaf) is UNFIT for leaf in leaves) else argument


def compiled(*kinds: Kind) -> Callable[[Callable[..., T]], Callable[..., T]]:
    """Compiles a function of positional arguments of these ``kinds``.

    With any other argument, a traced one too, and where ``jit`` is disabled, the function runs as
    it is. A static argument has exactly the type that is asked for: True and 1 are one key of a
    cache, and not one argument.
    """
    static = tuple(i for i, kind in enumerate(kinds) if isinstance(kind, (type, tuple)))

    def compile_outside(function: Callable[..., T]) -> Callable[..., T]:
        whole = jax.jit(function, static_argnums=static)

        @functools.wraps(function)
        def call(*arguments: Any) -> T:
            if jax.config.jax_disable_jit:  # type: ignore[attr-defined]
                return function(*arguments)
            given = []
            for argument, kind in zip(arguments, kinds, strict=True):
                if isinstance(kind, type):
                    fit = argument if type(argument) is kind else UNFIT
                elif isinstance(kind, tuple):
                    fit = argument if type(argument) in kind else UNFIT
                else:
                    fit = kind(argument)
                if fit is UNFIT:
                    return function(*arguments)
                given.append(fit)
            return whole(*given)

        return call

    return compile_outside
