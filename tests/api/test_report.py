"""`python -m jscan`: what it prints, what it checks, and that a wrong result is named."""

from __future__ import annotations

import json
import sys
from functools import partial

import jax
import numpy as np

import jscan
from jscan import __main__ as command
from jscan.report import of_scans, self_test, speeds, terminal
from jscan.report.check import Check

FEW = {"segments": self_test.FAMILIES["segments"]}


def test_every_public_name_is_checked():
    """`engine` is reported, and `triton_source` computes nothing."""
    checked = {check.of for _, check in self_test.listed()}
    public = {*jscan.__all__, "enumerate"} - {"engine", "triton_source"}
    # An operator is checked in the scans that take it.
    assert checked == public


def test_all_checks_agree():
    outcomes, _ = self_test.run(lambda _: None)
    assert {each.check.name: each.why_wrong for each in outcomes if each.why_wrong} == {}
    assert len(outcomes) == len(self_test.listed())


def test_a_wrong_result_is_named_and_the_exit_status_is_1(monkeypatch, capsys):
    x = np.arange(5, dtype=np.int32)
    wrong = Check("cumsum", "int32", (x,), jscan.cummax, partial(of_scans.looped, "cumsum"))
    raising = Check("pack", "int32", (x,), partial(jscan.pack, mask="no"), np.asarray)
    monkeypatch.setattr(self_test, "FAMILIES", {"scans": lambda: iter([wrong, raising])})
    assert command.main(["--no-speed"]) == 1
    told = capsys.readouterr().out
    assert "0 of 2 calls agree" in told
    assert "cumsum, int32: element [2] is 2, and the loop has 3 (3 of 5 so)" in told
    assert "pack, int32: TypeError" in told


def test_what_is_told_as_json(monkeypatch, capsys):
    monkeypatch.setattr(self_test, "FAMILIES", FEW)
    monkeypatch.setattr(speeds, "PAIRS", speeds.PAIRS[:1])
    monkeypatch.setattr(speeds, "ELSEWHERE", 1000)
    monkeypatch.setattr(speeds, "SECONDS", 0.01)
    assert command.main(["--json"]) == 0
    told = json.loads(capsys.readouterr().out)
    assert told["here"]["jscan"] == jscan.__version__
    assert told["here"]["jax"] == jax.__version__
    assert told["here"]["kernels"].startswith("yes" if jax.default_backend() == "gpu" else "no")
    assert told["self_test"]["failed"] == {}
    [speed] = told["speeds"]
    assert min(speed["ours"], speed["theirs"]) > 0


def test_a_bar_is_shown_on_a_terminal_alone(monkeypatch, capsys):
    for is_terminal in (False, True):
        monkeypatch.setattr(sys.stderr, "isatty", lambda answer=is_terminal: answer)
        with terminal.progress(2) as advance:
            advance("cumsum")
        assert ("1/2 cumsum" in capsys.readouterr().err) is is_terminal
