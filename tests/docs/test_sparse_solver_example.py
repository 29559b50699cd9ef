"""The example on heat by conjugate gradients, run as a user would run it."""

from __future__ import annotations

import re
from types import ModuleType
from typing import Any

import jax
import numpy as np
import pytest

import jscan
from tests.docs.test_examples import ROOT, module_of, run

SPARSE_SOLVER = ROOT / "examples" / "sparse_solver.py"
WAYS = ["jscan.csr_matvec", "BCSR", "jax.ops.segment_sum", "SciPy"]


@pytest.fixture
def sparse_solver(monkeypatch) -> ModuleType:
    """The example as a module."""
    return module_of(SPARSE_SOLVER, monkeypatch)


def test_every_product_takes_as_many_iterations(tmp_path):
    picture = tmp_path / "heat.png"
    result = run(SPARSE_SOLVER, "--nodes", 1000, "--plot", picture)
    assert result.returncode == 0, result.stderr
    lines = result.stdout.splitlines()
    assert re.fullmatch(r"\d+ nodes, \d+ free; \d+ entries of the matrix", lines[0])
    rows = re.findall(r"^(\S+) +(\d+) +[\d.]+ ms +[\d.]+ µs$", result.stdout, re.M)
    assert [name for name, _ in rows] == WAYS
    assert all(50 < int(count) < 150 for _, count in rows)
    assert lines[-1] == "check: iterations and heat agree with those of SciPy"
    assert picture.read_bytes().startswith(b"\x89PNG")


def test_a_plane_is_harmonic(sparse_solver):
    plate = sparse_solver.plate_of(500)
    plane = plate.places @ [2.0, -3.0]
    tilted = sparse_solver.Plate(
        plate.places, plate.triangles, np.where(np.isnan(plate.held), np.nan, plane)
    )
    matrix, b = sparse_solver.system_of(tilted)
    np.testing.assert_allclose(matrix @ plane[plate.free], b, atol=1e-12)
    assert abs(matrix - matrix.T).max() < 1e-12


def test_it_fails_where_jscan_does(sparse_solver, monkeypatch, capsys):
    right = jscan.csr_matvec

    def wrong(values: Any, *rest: Any) -> Any:
        return right(values * 1.01, *rest)

    monkeypatch.setattr(jscan, "csr_matvec", wrong)
    monkeypatch.setattr(sparse_solver, "REPEATS", 1)
    with jax.enable_x64(True):
        assert sparse_solver.main(["--nodes", "300"]) == 1
    output = capsys.readouterr()
    assert "check: FAILED" in output.out
    assert re.findall(r"^wrong: heat by (\S+) is off", output.err, re.M) == ["jscan.csr_matvec"]


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--nodes", "100"], "there have to be 200 nodes at least"),
        (["--plot", "not/there.png"], "cannot write not/there.png: there is no such folder"),
    ],
    ids=["few nodes", "no folder"],
)
def test_it_says_what_is_wrong_with_arguments(sparse_solver, capsys, arguments, message):
    with pytest.raises(SystemExit, match="2"):
        sparse_solver.main(arguments)
    assert message in capsys.readouterr().err
