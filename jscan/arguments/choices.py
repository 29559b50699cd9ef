"""Arguments that choose what runs: the operator and the method."""

from __future__ import annotations

from typing import Any

import jax

METHODS = (
    *("auto", "xla", "block", "lookback", "serial_lookback", "chained"),
    *("repeatable", "reduce_then_scan", "scan_then_propagate"),
)


def check_method(caller: str, method: Any) -> None:
    """Raise unless ``method`` is "auto", "xla" or the name of a strategy."""
    if isinstance(method, str) and method in METHODS:
        return
    kind = ValueError if isinstance(method, str) else TypeError
    raise kind(f"{caller}: method must be one of {', '.join(map(repr, METHODS))}; got {method!r}")


def as_axis_name(caller: str, axis_name: Any) -> tuple[str, ...]:
    """The names of mesh axes across which an axis goes on; () for None.

    Raises:
      TypeError: ``axis_name`` is no name, nor a tuple of names.
      ValueError: there is no name, the call is not inside of ``shard_map``, a name is none of its
        mesh axes, or one comes twice.
    """
    if axis_name is None:
        return ()
    names = axis_name if isinstance(axis_name, (tuple, list)) else (axis_name,)
    if not all(isinstance(name, str) for name in names):
        raise TypeError(
            f"{caller}: axis_name must be the name of a mesh axis or a tuple of names; "
            f"got {axis_name!r}"
        )
    if not names:
        raise ValueError(
            f"{caller}: axis_name={axis_name!r} names no axis of a mesh; None is for an axis that "
            "ends on its device"
        )
    known = jax.sharding.get_abstract_mesh().manual_axes
    if not known:
        raise ValueError(f"{caller}: axis_name={axis_name!r} needs jax.shard_map around the call")
    for i, name in enumerate(names):
        if name not in known:
            raise ValueError(
                f"{caller}: axis_name={axis_name!r} names no axis of the mesh that shard_map "
                f"divides: it has {', '.join(map(repr, known))}"
            )
        if name in names[:i]:
            raise ValueError(f"{caller}: axis_name={axis_name!r} names {name!r} twice")
    return tuple(names)


def check_operator(caller: str, fn: Any) -> None:
    """Raise unless ``fn`` can be called."""
    if not callable(fn):
        raise TypeError(f"{caller}: fn must be callable; got {type(fn).__name__}")
