"""The example of a stream, run as a user would run it."""

from __future__ import annotations

import re

import pytest

import jscan
from tests.docs.test_examples import ROOT, module_of, run

STREAM = ROOT / "examples" / "stream.py"


def test_blocks_give_what_the_whole_gives():
    result = run(STREAM, "--longest", 300, "--seed", 4)
    assert result.returncode == 0, result.stderr
    lines = result.stdout.splitlines()
    assert re.fullmatch(r"\d+ samples in \d+ blocks of at most 300", lines[0])
    assert lines[-1] == "check: all are those of the whole"


@pytest.mark.parametrize("name", ["cumsum", "cummax"])
def test_it_fails_where_an_init_is_lost(name, monkeypatch, capsys):
    stream, scan = module_of(STREAM, monkeypatch), getattr(jscan, name)
    monkeypatch.setattr(jscan, name, lambda x, **how: scan(x, **{**how, "init": None}))
    assert stream.main([]) == 1
    assert "FAILED" in capsys.readouterr().out
