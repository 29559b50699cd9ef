"""Calls outside of ``jit``, compiled as wholes.

A call that is not traced would go through the checks of its arguments, the tracing of its operator
and the binding of each primitive every time. Compiled as one function, it does so once for its
shapes and static arguments, and raises its errors while it is traced.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any, TypeVar

import jax

T = TypeVar("T")


class _Array:
    """The kind of an argument that is an array, or None."""


ARRAY = _Array
NONE = type(None)


def compiled(*kinds: type) -> Callable[[Callable[..., T]], Callable[..., T]]:
    """Compiles a function of positional arguments of these ``kinds``: `ARRAY`, or a static type.

    With any other argument, a traced one too, the function runs as it is. A static argument has
    exactly the type that is asked for: True and 1 are one key of a cache, and not one argument.
    """
    static = tuple(i for i, kind in enumerate(kinds) if kind is not ARRAY)

    def compile_outside(function: Callable[..., T]) -> Callable[..., T]:
        whole = jax.jit(function, static_argnums=static)

        @functools.wraps(function)
        def call(*arguments: Any) -> T:
            if all(map(_is, arguments, kinds)):
                return whole(*arguments)
            return function(*arguments)

        return call

    return compile_outside


def _is(argument: Any, kind: type) -> bool:
    if kind is not ARRAY:
        return type(argument) is kind
    if argument is None:
        return True
    return isinstance(argument, jax.Array) and not isinstance(argument, jax.core.Tracer)
