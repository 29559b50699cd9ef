"""The example of advantages over packed episodes, run as a user would run it."""

from __future__ import annotations

import re
from collections.abc import Iterator
from types import ModuleType

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import jscan
from tests.docs.test_examples import ROOT, module_of, refusal, run

ADVANTAGES = ROOT / "examples" / "advantages.py"
WAYS = ["lax.scan", "lax.associative_scan", "jscan.linear_recurrence"]


@pytest.fixture
def advantages(monkeypatch) -> Iterator[ModuleType]:
    """The example as a module, with JAX as users have it."""
    with jax.numpy_rank_promotion("allow"), jax.numpy_dtype_promotion("standard"):
        yield module_of(ADVANTAGES, monkeypatch)


def test_it_learns_to_balance(tmp_path):
    picture = tmp_path / "pole.png"
    result = run(ADVANTAGES, "--updates", 60, "--plot", picture)
    assert result.returncode == 0, result.stderr
    lines = result.stdout.splitlines()
    assert lines[0] == "60 updates of 16384 steps each"
    told = r"steps for a fall: (\d+) in the first two updates, (\d+) in the last 6"
    learnt = re.fullmatch(told, lines[1])
    assert learnt is not None
    assert 15 < int(learnt[1]) < 50
    assert int(learnt[2]) > 100
    rows = re.findall(r"^(\S+) +[\d.]+ ms +[\d.]+ MB$", result.stdout, re.M)
    assert rows == WAYS
    assert lines[-1] == "check: advantages are those of a loop in NumPy"
    assert picture.read_bytes().startswith(b"\x89PNG")


def test_advantages_are_sums_up_to_the_end_of_an_episode(advantages):
    delta = np.random.default_rng(0).normal(size=(5, 1))
    ends = np.array([[0], [1], [0], [0], [0]], bool)
    kept = advantages.DISCOUNT * advantages.FADING
    want = [
        delta[0] + kept * delta[1],
        delta[1],
        delta[2] + kept * delta[3] + kept**2 * delta[4],
        delta[3] + kept * delta[4],
        delta[4],
    ]
    np.testing.assert_allclose(advantages.in_numpy(delta, ends), want)


def test_nothing_is_expected_behind_a_fall(advantages):
    values, behind = jnp.array([[1.0], [2.0]]), jnp.array([4.0])
    found = advantages.deltas(values, behind, jnp.array([[True], [False]]))
    np.testing.assert_allclose(found, [[0.0], [1 + advantages.DISCOUNT * 4 - 2]])


def test_it_fails_where_episodes_run_into_each_other(advantages, monkeypatch, capsys):
    right = jscan.linear_recurrence
    monkeypatch.setattr(
        jscan, "linear_recurrence", lambda a, b, *, reverse, **_: right(a, b, reverse=reverse)
    )
    monkeypatch.setattr(advantages, "TIMED", 256)
    assert advantages.main(["--updates", "20"]) == 1
    output = capsys.readouterr()
    assert "check: FAILED" in output.out
    assert "advantages of what was played last are not those of the loop" in output.err
    assert re.findall(r"advantages by (\S+) are off", output.err) == ["jscan.linear_recurrence"]


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--updates", "19"], "there have to be 20 updates at least"),
        (["--plot", "not/there.png"], "cannot write not/there.png: there is no such folder"),
    ],
    ids=["few updates", "no folder"],
)
def test_it_says_what_is_wrong_with_arguments(advantages, capsys, arguments, message):
    assert message in refusal(advantages, arguments, capsys)
