"""The example on summed-area tables, run as a user would run it."""

from __future__ import annotations

import re
from types import ModuleType
from typing import Any

import numpy as np
import pytest

import jscan
from tests.docs.test_examples import ROOT, module_of, run

SUMMED_AREA = ROOT / "examples" / "summed_area.py"


@pytest.fixture
def summed_area(monkeypatch) -> ModuleType:
    """The example as a module."""
    return module_of(SUMMED_AREA, monkeypatch)


def test_every_blur_is_that_of_scipy(tmp_path):
    picture = tmp_path / "blur.png"
    result = run(SUMMED_AREA, "--shrink", 8, "--radii", 0, 3, 40, "--plot", picture)
    assert result.returncode == 0, result.stderr
    lines = result.stdout.splitlines()
    assert lines[0] == "a photograph of 75 x 64 pixels"
    tables = re.findall(r"^(j\S+) +[\d.]+ ms$", result.stdout, re.M)
    assert tables == ["jscan.cumsum", "jnp.cumsum"]
    number = r"(?:([\d.]+) ms|-)"
    blurs = re.findall(rf"^(\D+?) +{number} +{number} +{number}$", result.stdout, re.M)
    assert [name for name, *_ in blurs] == [
        "four reads of the table",
        "lax.reduce_window",
        "scipy.ndimage",
    ]
    # Boxes of a large radius are not added up one by one.
    assert [bool(row[-1]) for row in blurs] == [True, False, True]
    assert lines[-1] == "check: the table is that of NumPy, and the blurs are those of SciPy"
    assert picture.read_bytes().startswith(b"\x89PNG")


@pytest.mark.parametrize("radius", [0, 1, 2, 9])
def test_a_box_is_cut_at_the_edge(summed_area, radius):
    image = np.random.default_rng(0).integers(0, 256, (5, 7, 2)).astype(np.uint8)
    table = summed_area.summed_area(jscan.cumsum, image)
    found = summed_area.box_means(table, np.int32(radius))
    for row, column in np.ndindex(5, 7):
        box = image[
            max(row - radius, 0) : row + radius + 1, max(column - radius, 0) : column + radius + 1
        ]
        np.testing.assert_allclose(found[row, column], box.mean((0, 1)), rtol=1e-6)


def test_it_fails_where_jscan_does(summed_area, monkeypatch, capsys):
    def wrong(x: Any, axis: int) -> Any:
        return jscan.cumsum(x, axis).at[3].add(1)

    monkeypatch.setitem(summed_area.SCANS, "jscan.cumsum", wrong)
    assert summed_area.main(["--shrink", "40", "--radii", "1"]) == 1
    output = capsys.readouterr()
    assert "check: FAILED" in output.out
    assert "wrong: the table by jscan.cumsum has" in output.err
    assert "wrong: the blur of radius 1 by four reads of the table is off by" in output.err
    assert "jnp.cumsum has" not in output.err


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--radii", "-1"], "radii must not be negative"),
        (["--shrink", "0"], "--shrink must be at least 1"),
        (["--plot", "not/there.png"], "cannot write not/there.png: there is no such folder"),
    ],
    ids=["no radius", "no pixel", "no folder"],
)
def test_it_says_what_is_wrong_with_arguments(summed_area, capsys, arguments, message):
    with pytest.raises(SystemExit, match="2"):
        summed_area.main(arguments)
    assert message in capsys.readouterr().err
