"""Arguments that choose what runs: the operator and the method."""

from __future__ import annotations

from typing import Any

METHODS = (
    *("auto", "xla", "block", "lookback", "serial_lookback", "chained"),
    *("reduce_then_scan", "scan_then_propagate"),
)


def check_method(caller: str, method: Any) -> None:
    """Raise unless ``method`` is "auto", "xla" or the name of a strategy."""
    if isinstance(method, str) and method in METHODS:
        return
    kind = ValueError if isinstance(method, str) else TypeError
    raise kind(f"{caller}: method must be one of {', '.join(map(repr, METHODS))}; got {method!r}")


def check_operator(caller: str, fn: Any) -> None:
    """Raise unless ``fn`` can be called."""
    if not callable(fn):
        raise TypeError(f"{caller}: fn must be callable; got {type(fn).__name__}")
