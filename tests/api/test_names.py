"""The names that the package offers: what a star import brings, what dir shows, what is typed."""

from __future__ import annotations

import builtins
import importlib
from types import ModuleType

import pytest

import jscan

PUBLIC_MODULES = [
    "jscan",
    *(f"jscan.{name}" for name in ("networks", "operators", "recurrences", "reductions")),
    "jscan.matrix_recurrences",
    *(f"jscan.{name}" for name in ("compaction", "runs", "scans", "segments", "selections")),
    *(f"jscan.{name}" for name in ("statistics", "vectors")),
]
every_module = pytest.mark.parametrize("name", PUBLIC_MODULES)


@every_module
def test_a_star_import_leaves_builtins_alone(name):
    brought: dict[str, object] = {}
    exec(f"from {name} import *", brought)
    del brought["__builtins__"]
    assert not set(brought) & set(dir(builtins))
    assert set(brought) == set(importlib.import_module(name).__all__)


@every_module
def test_every_name_is_there_once(name):
    module = importlib.import_module(name)
    assert len(module.__all__) == len(set(module.__all__))
    for each in module.__all__:
        assert getattr(module, each) is not None


@every_module
def test_every_function_that_is_defined_in_a_module_is_offered(name):
    module = importlib.import_module(name)
    defined = {
        n
        for n, value in vars(module).items()
        if not n.startswith("_") and getattr(value, "__module__", None) == name and callable(value)
    }
    assert defined <= {*module.__all__, *dir(builtins)}


def test_what_shadows_a_builtin_is_asked_for_by_name():
    assert callable(jscan.enumerate)
    assert {jscan.operators.max.name, jscan.operators.min.name} == {"max", "min"}
    assert "enumerate" in dir(jscan)


def test_dir_shows_what_is_public():
    shown = [name for name in dir(jscan) if not name.startswith("__")]
    assert set(shown) == {*jscan.__all__, "enumerate"}
    modules = [name for name in shown if isinstance(getattr(jscan, name), ModuleType)]
    assert modules == ["networks", "operators"]
    assert "__version__" in dir(jscan)
    assert "__doc__" in dir(jscan)
