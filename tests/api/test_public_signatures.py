"""The names and signatures of everything public are those in the table of ``public_signatures``."""

from __future__ import annotations

import dataclasses
import inspect
from types import ModuleType
from typing import Any

import pytest

import jscan
from jscan import networks, operators
from tests.api.public_signatures import SIGNATURES

MODULES: dict[str, ModuleType] = {
    "jscan": jscan,
    "jscan.networks": networks,
    "jscan.operators": operators,
}
CLASSES: dict[str, type[Any]] = {
    "jscan.SegmentPlan": jscan.SegmentPlan,
    "jscan.Segments": jscan.Segments,
    "jscan.operators.Affine": operators.Affine,
    "jscan.operators.Operator": operators.Operator,
}


def public_names(holder: Any) -> list[str]:
    """What a module offers, names that shadow a builtin included, or what a class does."""
    if not isinstance(holder, ModuleType):
        return [name for name in dir(holder) if not name.startswith("_")]
    if holder is jscan:
        return [name for name in dir(holder) if not name.startswith("__")]
    shadowing = {"max", "min"} if holder is operators else set()
    return [*holder.__all__, *shadowing]


def described(holder: Any, name: str) -> str:
    """A public name as text: its signature, or what it is where it cannot be called."""
    value = inspect.getattr_static(holder, name)
    if isinstance(value, property):
        return f"property{inspect.signature(value.fget)}"  # type: ignore[arg-type]
    if isinstance(value, (staticmethod, classmethod)):
        return f"{type(value).__name__}{inspect.signature(value.__func__)}"
    if isinstance(value, ModuleType):
        return "module"
    if isinstance(value, type):
        return f"class{inspect.signature(value)}" if dataclasses.is_dataclass(value) else "class"
    if isinstance(value, operators.Operator):
        return f"{type(value).__name__} {value.name!r}{inspect.signature(value)}"
    return f"{inspect.signature(value)}"


def found(path: str, holder: Any) -> dict[str, str]:
    """The public names in one place."""
    return {f"{path}.{name}": described(holder, name) for name in public_names(holder)}


def expected(path: str) -> dict[str, str]:
    """The names in one place, by the table."""
    return {name: text for name, text in SIGNATURES.items() if name.rpartition(".")[0] == path}


@pytest.mark.parametrize("path", MODULES)
def test_modules_offer_what_the_table_says(path):
    assert found(path, MODULES[path]) == expected(path)


@pytest.mark.parametrize("path", CLASSES)
def test_classes_offer_what_the_table_says(path):
    assert found(path, CLASSES[path]) == expected(path)


def test_the_table_has_no_other_names():
    assert {name.rpartition(".")[0] for name in SIGNATURES} == {*MODULES, *CLASSES}


def test_public_functions_say_what_they_do():
    for path, holder in {**MODULES, **CLASSES}.items():
        for name in public_names(holder):
            value = getattr(holder, name)
            assert inspect.getdoc(value), f"{path}.{name}"
