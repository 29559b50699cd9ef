"""The page on the design, which names every module of the rooms that it draws."""

from __future__ import annotations

import pathlib
import re

import pytest

ROOT = pathlib.Path(__file__).parents[2]
PAGE = (ROOT / "docs" / "design.md").read_text()
DRAWN = PAGE.split("```")[1]


@pytest.mark.parametrize("room", ["jscan", "jscan/kernels"])
def test_every_module_and_room_is_drawn(room):
    here = [p for p in (ROOT / room).iterdir() if p.suffix == ".py" or (p / "__init__.py").exists()]
    names = {path.stem for path in here} - {"__init__"}
    assert names <= set(re.findall(r"\w+", DRAWN))


def test_paths_that_it_names_exist():
    paths = re.findall(r"`((?:tests|kernels|benchmarks|jscan|docs)/[\w/.]*)`", PAGE)
    roots = (ROOT, ROOT / "jscan")
    missing = [
        path
        for path in paths
        if not any((root / path).exists() or (root / f"{path}.py").exists() for root in roots)
    ]
    assert paths
    assert not missing
