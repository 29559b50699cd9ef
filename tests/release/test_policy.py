"""The policy of versions: its page, the package's metadata and the code say the same."""

from __future__ import annotations

import re
import tomllib

import jscan
from jscan import versions
from tests.docs.headings import PAGES, ROOT

PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
PAGE = PAGES["docs/versions.md"]


def supported(package: str) -> list[str]:
    """The minor versions of a package that the page names, from the oldest on."""
    [row] = re.findall(rf"^\| {package} \| ([^|]*) \|", PAGE, re.M)
    return re.findall(r"\d+\.\d+(?:\.\d+)?", row)


def test_pythons_are_those_of_the_metadata():
    classified = [c.rpartition(" :: ")[2] for c in PROJECT["classifiers"] if ":: 3." in c]
    assert supported("Python") == classified
    assert PROJECT["requires-python"] == f">={classified[0]}"


def test_jaxes_are_those_that_the_code_knows():
    oldest, *_, newest = supported("jax")
    assert oldest == versions.dotted(versions.OLDEST)
    assert newest == versions.dotted(versions.NEWEST)
    assert f"jax>={oldest}" in PROJECT["dependencies"]
    assert len(supported("jax")) == 3


def test_the_oldest_numpy_is_asked_for():
    assert f"numpy>={supported('NumPy')[0]}" in PROJECT["dependencies"]


def test_every_version_has_an_end():
    for package in ("Python", "jax", "NumPy"):
        [ends] = re.findall(rf"^\| {package} \| [^|]* \| ([^|]*) \|$", PAGE, re.M)
        named = re.findall(r"(\d+\.\d+):", ends)
        assert named == [".".join(version.split(".")[:2]) for version in supported(package)]


def test_extras_for_gpus_differ_in_cuda_alone():
    extras = PROJECT["optional-dependencies"]
    assert [line.replace("cuda13", "cuda12") for line in extras["cuda"]] == extras["cuda12"]


def test_the_changelog_begins_with_the_version():
    lines = (ROOT / "CHANGELOG.md").read_text().splitlines()
    first = next(line for line in lines if line.startswith("## "))
    assert first.split()[1] == jscan.__version__


def test_a_version_is_written_as_the_policy_says():
    assert re.fullmatch(r"\d+\.\d+\.\d+(rc\d+)?", jscan.__version__)
