"""The example on shallow water, run as a user would run it."""

from __future__ import annotations

import re
from types import ModuleType
from typing import Any

import jax.numpy as jnp
import numpy as np
import pytest
from PIL import Image

import jscan
from tests.docs.test_examples import ROOT, module_of, run

SHALLOW_WATER = ROOT / "examples" / "shallow_water.py"
SOLVERS = ["jscan.tridiagonal_solve", "lax.linalg.tridiagonal_solve", "scipy.linalg.solve_banded"]


@pytest.fixture
def shallow_water(monkeypatch) -> ModuleType:
    """The example as a module."""
    return module_of(SHALLOW_WATER, monkeypatch)


def test_steps_are_those_of_scipy_and_keep_the_volume(tmp_path):
    picture = tmp_path / "water.png"
    result = run(SHALLOW_WATER, "--cells", 32, 24, "--frames", 5, "--plot", picture)
    assert result.returncode == 0, result.stderr
    lines = result.stdout.splitlines()
    assert [line for line in lines if line.endswith("steps")] == [
        "32 × 32 cells, 10 steps",
        "24 × 24 cells, 10 steps",
    ]
    rates = re.findall(r"^  (\S+) +([\d.]+) steps a second", result.stdout, re.M)
    assert [name for name, _ in rates] == 2 * SOLVERS
    assert all(float(rate) > 0 for _, rate in rates)
    changes = re.findall(r"^  volume: changed by (\S+) of the hill's$", result.stdout, re.M)
    assert len(changes) == 2
    assert max(abs(float(change)) for change in changes) < 1e-6
    assert lines[-1] == "check: steps are SciPy's, and the volume is what it was"
    with Image.open(picture) as sheet, Image.open(tmp_path / "water.gif") as moving:
        assert sheet.format == "PNG"
        assert moving.size == (32, 32)
        assert moving.n_frames == 6  # type: ignore[attr-defined]


def test_a_wave_is_as_fast_as_its_depth_says(shallow_water):
    """A column of water that swings in a basin with a flat bed: the lowest tone of a row."""
    cells, high = 128, 1e-3
    tone = np.cos(np.pi * (np.arange(cells) + 0.5) / cells).astype(np.float32) * np.float32(high)
    rest = jnp.full((3, cells), shallow_water.DEPTH, jnp.float32)
    still = jnp.zeros_like(rest)
    water = shallow_water.Water(jnp.broadcast_to(tone, rest.shape), (still, still))
    crossing = int(cells / shallow_water.COURANT)
    water = shallow_water.advanced(shallow_water.by_jscan, rest, water, crossing)
    # In the time of a crossing it turns over; steps damp it by a hundredth.
    np.testing.assert_allclose(water.surface[1], -tone, atol=0.02 * high)


def test_it_fails_where_the_solver_does(shallow_water, monkeypatch, capsys):
    right = jscan.tridiagonal_solve

    def wrong(*given: Any, **options: Any) -> Any:
        return right(*given, **options) * np.float32(1.001)

    monkeypatch.setattr(jscan, "tridiagonal_solve", wrong)
    assert shallow_water.main(["--cells", "16", "--frames", "1"]) == 1
    output = capsys.readouterr()
    assert "check: FAILED" in output.out
    found = re.findall(r"^wrong: (16 × 16 cells: a step of \S+) is off by", output.err, re.M)
    assert found == ["16 × 16 cells: a step of jscan.tridiagonal_solve"]


def test_it_fails_where_volume_is_lost(shallow_water, monkeypatch, capsys):
    right = shallow_water.step

    def leaking(*given: Any) -> Any:
        water = right(*given)
        return water._replace(surface=water.surface * np.float32(0.9999))

    monkeypatch.setattr(shallow_water, "step", leaking)
    assert shallow_water.main(["--cells", "16", "--frames", "2"]) == 1
    output = capsys.readouterr()
    assert "check: FAILED" in output.out
    assert "wrong: 16 × 16 cells: the volume changed by -2.0e-04 of the hill's" in output.err


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--cells", "1"], "there have to be two cells and a frame at least"),
        (["--frames", "0"], "there have to be two cells and a frame at least"),
        (["--plot", "not/there.png"], "cannot write not/there.png: there is no such folder"),
    ],
    ids=["no neighbour", "no frame", "no folder"],
)
def test_it_says_what_is_wrong_with_arguments(shallow_water, capsys, arguments, message):
    with pytest.raises(SystemExit, match="2"):
        shallow_water.main(arguments)
    assert message in capsys.readouterr().err
