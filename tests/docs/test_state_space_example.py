"""The example of a selective state-space layer, run as a user would run it."""

from __future__ import annotations

import re
from collections.abc import Iterator
from types import ModuleType

import jax
import numpy as np
import pytest

import jscan
from tests.docs.test_examples import ROOT, module_of, refusal, run

STATE_SPACE = ROOT / "examples" / "state_space.py"
WAYS = ["lax.scan", "lax.associative_scan", "jscan.linear_recurrence"]


@pytest.fixture
def state_space(monkeypatch) -> Iterator[ModuleType]:
    """The example as a module, with JAX as users have it."""
    with jax.numpy_rank_promotion("allow"), jax.numpy_dtype_promotion("standard"):
        yield module_of(STATE_SPACE, monkeypatch)


def test_it_learns_to_read(tmp_path):
    picture = tmp_path / "digits.png"
    result = run(STATE_SPACE, "--steps", 300, "--plot", picture)
    assert result.returncode == 0, result.stderr
    lines = result.stdout.splitlines()
    first, *_, last = map(float, lines[1].split())
    assert first > 1.5
    assert last < first / 2
    share = re.search(r"^([\d.]+)% of 297 new images, \d+ pixels, are read rightly$", lines[3])
    assert share is not None
    assert float(share[1]) > 70
    rows = re.findall(r"^(\S+) +[\d.]+ ms +[\d.]+ MB$", result.stdout, re.M)
    assert rows == WAYS
    assert lines[-1] == "check: losses, slopes and packed images agree"
    assert picture.read_bytes().startswith(b"\x89PNG")


def test_images_are_packed_without_padding_and_taken_apart_again(state_space):
    images = np.zeros((2, 2, 4))
    images[0, 0, 1:3] = 16, 8
    images[1] = 4
    row = state_space.packed(images, np.array([3, 5], np.int32))
    assert row.tokens.shape == (2 + 8, state_space.WINDOW)
    np.testing.assert_array_equal(row.tokens[:2, -2:], [[0, 1], [1, 0.5]])
    np.testing.assert_array_equal(row.heads.nonzero()[0], [0, 2])
    np.testing.assert_array_equal(row.ends, [1, 9])
    alone = state_space.apart(row)
    assert alone.tokens.shape == (2, 8, state_space.WINDOW)
    np.testing.assert_array_equal(alone.tokens[1], row.tokens[2:])
    np.testing.assert_array_equal(alone.ends, [[1], [7]])


def test_it_fails_where_images_run_into_each_other(state_space, monkeypatch, capsys):
    right = jscan.linear_recurrence

    def without_segments(a, b, *, segments):
        del segments
        return right(a, b)

    monkeypatch.setattr(jscan, "linear_recurrence", without_segments)
    monkeypatch.setattr(state_space, "REPEATS", 1)
    assert state_space.main(["--steps", "20"]) == 1
    output = capsys.readouterr()
    assert "check: FAILED" in output.out
    assert re.search(r"the loss of lax.scan is off by", output.err)
    assert re.search(r"what packed images give is off by", output.err)
    assert re.search(r"what jscan gives is off by", output.err)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--steps", "19"], "there have to be 20 steps at least"),
        (["--plot", "not/there.png"], "cannot write not/there.png: there is no such folder"),
    ],
    ids=["few steps", "no folder"],
)
def test_it_says_what_is_wrong_with_arguments(state_space, capsys, arguments, message):
    assert message in refusal(state_space, arguments, capsys)
