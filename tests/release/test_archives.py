"""The wheel and the sdist: what they hold, and that the sdist builds the same wheel."""

from __future__ import annotations

import subprocess
import sys
import tarfile
import zipfile
from pathlib import Path

import pytest

import jscan

ROOT = Path(__file__).parents[2]
NAME = f"jscan-{jscan.__version__}"


def build(source: Path, kind: str, where: Path) -> Path:
    """The archive of a kind that the backend makes of a source tree."""
    pytest.importorskip("hatchling")
    command = [sys.executable, "-m", "hatchling", "build", "-t", kind, "-d", str(where)]
    subprocess.run(command, cwd=source, check=True, capture_output=True, timeout=600)
    [made] = where.iterdir()
    return made


@pytest.fixture(scope="module")
def wheel(tmp_path_factory) -> zipfile.ZipFile:
    """The wheel of this checkout."""
    return zipfile.ZipFile(build(ROOT, "wheel", tmp_path_factory.mktemp("wheel")))


@pytest.fixture(scope="module")
def unpacked(tmp_path_factory) -> Path:
    """The sdist of this checkout, unpacked."""
    folder = tmp_path_factory.mktemp("unpacked")
    with tarfile.open(build(ROOT, "sdist", tmp_path_factory.mktemp("sdist"))) as archive:
        archive.extractall(folder, filter="data")
    return folder / NAME


def test_the_wheel_holds_every_module_and_nothing_beside(wheel):
    ours = {str(path.relative_to(ROOT)) for path in (ROOT / "jscan").rglob("*.py")}
    held = {name for name in wheel.namelist() if not name.startswith(f"{NAME}.dist-info/")}
    assert held == ours | {"jscan/py.typed"}


def test_the_wheel_tells_its_version_licence_and_types(wheel):
    metadata = wheel.read(f"{NAME}.dist-info/METADATA").decode().splitlines()
    for line in (
        f"Version: {jscan.__version__}",
        "License-Expression: Apache-2.0",
        "License-File: LICENSE",
        "Classifier: Typing :: Typed",
    ):
        assert line in metadata
    licence = wheel.read(f"{NAME}.dist-info/licenses/LICENSE")
    assert licence == (ROOT / "LICENSE").read_bytes()
    assert wheel.read("jscan/py.typed") == b""


def test_the_sdist_builds_the_same_wheel(unpacked, wheel, tmp_path):
    again = zipfile.ZipFile(build(unpacked, "wheel", tmp_path / "again"))
    assert {name: again.read(name) for name in again.namelist()} == {
        name: wheel.read(name) for name in wheel.namelist()
    }


def test_the_sdist_holds_what_is_read_and_run(unpacked):
    folders = ("docs", "examples", "tests", "benchmarks")
    for name in ("README.md", "CHANGELOG.md", "CITATION.cff", "LICENSE", "pyproject.toml"):
        assert (unpacked / name).read_bytes() == (ROOT / name).read_bytes()
    for folder in folders:
        for path in (ROOT / folder).rglob("*.py"):
            assert (unpacked / path.relative_to(ROOT)).is_file(), path
    for page in (ROOT / "docs").glob("*.md"):
        assert (unpacked / page.relative_to(ROOT)).is_file(), page
