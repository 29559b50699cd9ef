"""The example of a hidden Markov model, run as a user would run it."""

from __future__ import annotations

import itertools
import re
from collections.abc import Iterator
from types import ModuleType

import jax
import numpy as np
import pytest

import jscan
from tests.docs.test_examples import ROOT, module_of, refusal, run

HIDDEN_MARKOV = ROOT / "examples" / "hidden_markov.py"
WAYS = ["lax.scan", "lax.associative_scan", "jscan.associative_scan"]


@pytest.fixture
def hidden_markov(monkeypatch) -> Iterator[ModuleType]:
    """The example as a module, with JAX as users have it."""
    with (
        jax.numpy_rank_promotion("allow"),
        jax.numpy_dtype_promotion("standard"),
        jax.enable_x64(True),
    ):
        yield module_of(HIDDEN_MARKOV, monkeypatch)


def test_it_finds_recessions(tmp_path):
    picture = tmp_path / "recessions.png"
    result = run(HIDDEN_MARKOV, "--length", 300, "--plot", picture)
    assert result.returncode == 0, result.stderr
    lines = result.stdout.splitlines()
    assert lines[:4] == [
        "202 quarters, 60 steps of the fit",
        "log likelihood: -298.88, then -248.27",
        "recession: -0.26 % a quarter, for  4.2 quarters on average",
        "expansion:  1.02 % a quarter, for 17.7 quarters on average",
    ]
    row = r"^(\S+) +[\d.]+ ms +[\d.]+ MB +[\d.]+ s$"
    assert re.findall(row, result.stdout, re.M) == WAYS
    assert lines[-1] == "check: all is that of loops in NumPy"
    assert picture.read_bytes().startswith(b"\x89PNG")


def test_the_loops_are_sums_over_all_ways_through_the_states(hidden_markov):
    random = np.random.default_rng(1)
    start, moves = random.dirichlet([1, 1]), random.dirichlet([1, 1], 2)
    model = hidden_markov.Model(np.log(start), np.log(moves), np.array([-1.0, 0.5]), 0.8)
    y = random.normal(size=4)
    density = np.exp(hidden_markov.seen(model, y, np))
    total, states, counts = 0.0, np.zeros((4, 2)), np.zeros((2, 2))
    for first, *path in itertools.product(range(2), repeat=5):
        pairs = list(itertools.pairwise([first, *path]))
        p = start[first] * np.prod(
            [moves[pair] * density[t, pair[1]] for t, pair in enumerate(pairs)]
        )
        total += p
        for t, pair in enumerate(pairs):
            states[t, pair[1]] += p
            counts[pair] += p
    found = hidden_markov.in_numpy(model, y)
    np.testing.assert_allclose(found.likelihood, np.log(total))
    np.testing.assert_allclose(found.states, states / total)
    np.testing.assert_allclose(found.moves, counts / total)
    np.testing.assert_allclose(found.so_far[-1], found.states[-1])


def test_it_fails_where_jscan_loses_what_comes_first(hidden_markov, monkeypatch, capsys):
    right = jscan.associative_scan
    monkeypatch.setattr(jscan, "associative_scan", lambda fn, x, **_: right(fn, x))
    monkeypatch.setattr(hidden_markov, "STEPS", 2)
    monkeypatch.setattr(hidden_markov, "REPEATS", 1)
    assert hidden_markov.main(["--length", "50"]) == 1
    output = capsys.readouterr()
    assert "check: FAILED" in output.out
    assert "likelihood by jscan in the fit off by" in output.err
    assert "likelihood by jscan.associative_scan off by" in output.err
    assert "lax" not in output.err


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--length", "1"], "there have to be two numbers at least"),
        (["--plot", "not/there.png"], "cannot write not/there.png: there is no such folder"),
    ],
    ids=["one number", "no folder"],
)
def test_it_says_what_is_wrong_with_arguments(hidden_markov, capsys, arguments, message):
    assert message in refusal(hidden_markov, arguments, capsys)
