"""The table of the walk: every public function, in each form that it has."""

from __future__ import annotations

import inspect
import types
from typing import Any

import jscan
from jscan import networks, operators
from tests.walk.compaction import COMPACTION
from tests.walk.matrices import MATRICES
from tests.walk.products import PRODUCTS
from tests.walk.reductions import REDUCTIONS
from tests.walk.scans import SCANS
from tests.walk.statistics import STATISTICS
from tests.walk.systems import SYSTEMS
from tests.walk.vectors import SEGMENTS, VECTORS

TABLE = (
    *SCANS,
    *MATRICES,
    *SYSTEMS,
    *REDUCTIONS,
    *STATISTICS,
    *PRODUCTS,
    *VECTORS,
    *COMPACTION,
    *SEGMENTS,
)

# Public callables that take no arrays, so that nothing transforms them.
NOT_TRANSFORMED = (
    "engine",
    "triton_source",
    "networks.depth",
    "networks.levels",
    "networks.size",
    "operators.Affine",
    "operators.Operator",
    "Segments",
)


def public_callables() -> set[str]:
    """The names of what people call: of jscan, of its two modules, and constructors of Segments."""
    found = {name for name, value in _public(jscan) if callable(value)}
    for module in (networks, operators):
        short = module.__name__.removeprefix("jscan.")
        found |= {
            f"{short}.{name}"
            for name, value in _public(module)
            if callable(value) and _home(value, module)
        }
    return found | {
        f"Segments.{name}"
        for name, value in inspect.getmembers(jscan.Segments, inspect.ismethod)
        if name.startswith("from_")
    }


def _public(module: types.ModuleType) -> list[tuple[str, Any]]:
    values = vars(module).items()
    return [(name, value) for name, value in values if not name.startswith("_")]


def _home(value: Any, module: types.ModuleType) -> bool:
    """Whether the module is where a value is from, rather than an import of it."""
    owner = type(value) if isinstance(value, operators.Operator) else value
    return getattr(owner, "__module__", None) == module.__name__
