"""The names that the package offers: what a star import brings, what dir shows, what is typed."""

from __future__ import annotations

import builtins
import importlib
import subprocess
import sys
import zipfile
from pathlib import Path
from types import ModuleType

import pytest

import jscan

PUBLIC_MODULES = [
    "jscan",
    *(f"jscan.{name}" for name in ("networks", "operators", "recurrences", "reductions")),
    *(f"jscan.{name}" for name in ("compaction", "runs", "scans", "segments", "selections")),
    *(f"jscan.{name}" for name in ("statistics", "vectors")),
]
every_module = pytest.mark.parametrize("name", PUBLIC_MODULES)
ROOT = Path(__file__).parents[2]


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


def test_the_changelog_begins_with_the_version():
    lines = (ROOT / "CHANGELOG.md").read_text().splitlines()
    first = next(line for line in lines if line.startswith("## "))
    assert first.split()[1] == jscan.__version__


def test_types_are_shipped():
    assert (Path(jscan.__file__).parent / "py.typed").read_text() == ""


def test_a_wheel_ships_types_and_every_module(tmp_path):
    pytest.importorskip("hatchling")
    build = [sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d", str(tmp_path)]
    subprocess.run(build, cwd=ROOT, check=True, capture_output=True, timeout=120)
    [wheel] = tmp_path.glob("*.whl")
    archive = zipfile.ZipFile(wheel)
    held = set(archive.namelist())
    told = f"jscan-{jscan.__version__}.dist-info"
    assert f"{told}/licenses/LICENSE" in archive.read(f"{told}/RECORD").decode()
    metadata = archive.read(f"{told}/METADATA").decode().splitlines()
    for line in (f"Version: {jscan.__version__}", "License-File: LICENSE"):
        assert line in metadata
    modules = {str(path.relative_to(ROOT)) for path in (ROOT / "jscan").rglob("*.py")}
    assert modules | {"jscan/py.typed"} <= held
    assert not [name for name in held if name.startswith(("tests", "benchmarks"))]
