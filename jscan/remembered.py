"""An array that is found once in each trace, or once outside of all."""

from __future__ import annotations

import weakref
from collections.abc import Callable
from typing import Any

import jax
from jax.extend.core import get_opaque_trace_state


class Remembered:
    """The array that was found last, and in which trace and mesh.

    It may outlive the trace, and does not keep it alive: while a trace uses the array it keeps the
    array itself.
    """

    def __init__(self) -> None:
        self._where: Any = None
        self._found: Callable[[], jax.Array | None] = lambda: None

    @property
    def is_here(self) -> bool:
        """Whether the array has been found here."""
        where = get_opaque_trace_state(convention="nnx"), jax.sharding.get_abstract_mesh()
        return self._where == where and self._found() is not None

    def array(self, find: Callable[[], jax.Array]) -> jax.Array:
        """The array that was found here, unless it was donated to a program; else ``find()``."""
        where = get_opaque_trace_state(convention="nnx"), jax.sharding.get_abstract_mesh()
        found = self._found() if self._where == where else None
        if found is not None:
            return found
        array = find()
        traced = isinstance(array, jax.core.Tracer)
        self._found = weakref.ref(array) if traced else lambda: _unless_deleted(array)
        self._where = where
        return array


def _unless_deleted(array: jax.Array) -> jax.Array | None:
    return None if array.is_deleted() else array
