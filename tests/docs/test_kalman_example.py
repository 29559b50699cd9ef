"""The example of a Kalman filter, run as a user would run it."""

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

KALMAN = ROOT / "examples" / "kalman.py"
WAYS = [
    ("level and slope", "lax.scan"),
    ("level and slope", "lax.associative_scan"),
    ("level and slope", "jscan.associative_scan"),
    ("and a season", "lax.scan"),
    ("and a season", "lax.associative_scan"),
    ("and a season", "jscan.associative_scan"),
]


@pytest.fixture
def kalman(monkeypatch) -> Iterator[ModuleType]:
    """The example as a module, with JAX as users have it."""
    with (
        jax.numpy_rank_promotion("allow"),
        jax.numpy_dtype_promotion("standard"),
    ):
        yield module_of(KALMAN, monkeypatch)


def test_both_passes_are_those_of_a_loop(tmp_path):
    picture = tmp_path / "air.png"
    result = run(KALMAN, "--weeks", 500, "--plot", picture)
    assert result.returncode == 0, result.stderr
    lines = result.stdout.splitlines()
    assert re.fullmatch(r"500 weeks, \d+ of them missing", lines[0])
    row = r"^(.{16}) (\S+) +[\d.]+ ms +[\d.]+ MB +[\d.]+ s +[\d.]+e-0\d$"
    assert [(a.strip(), b) for a, b in re.findall(row, result.stdout, re.M)] == WAYS
    assert lines[-1] == "check: means and deviations are those of a loop in NumPy"
    assert picture.read_bytes().startswith(b"\x89PNG")


def test_a_state_that_is_seen_without_noise_is_known(kalman):
    model = kalman.Model(np.eye(1), np.eye(1), np.ones(1), 1e-12)
    y = np.array([3.0, 1.0, np.nan, 4.0])
    (mean, covariance), (smooth, spread) = kalman.in_numpy(model, (np.zeros(1), np.eye(1)), y)
    np.testing.assert_allclose(mean[:, 0], [3, 1, 1, 4])
    np.testing.assert_allclose(covariance[:, 0, 0], [0, 0, 1, 0], atol=1e-9)
    np.testing.assert_allclose(smooth[:, 0], [3, 1, 2.5, 4])
    np.testing.assert_allclose(spread[:, 0, 0], [0, 0, 0.5, 0], atol=1e-9)


def test_inverses_are_those_of_numpy(kalman):
    for size in (2, 4):
        x = np.eye(size) + np.random.default_rng(0).random((3, size, size))
        found = kalman.inverse(jnp.asarray(x, jnp.float32))
        np.testing.assert_allclose(found, np.linalg.inv(x), rtol=1e-4, atol=1e-5)


def test_it_fails_where_jscan_does(kalman, monkeypatch, capsys):
    scan = kalman.WAYS["jscan.associative_scan"]

    def wrong(*given):
        (mean, covariance), later = scan(*given)
        return (mean.at[7, 0].add(0.01), covariance), later

    monkeypatch.setattr(kalman, "MODELS", {"level and slope": kalman.MODELS["level and slope"]})
    ways = {"lax.scan": kalman.by_steps, "jscan.associative_scan": wrong}
    monkeypatch.setattr(kalman, "WAYS", ways)
    monkeypatch.setattr(kalman, "REPEATS", 1)
    assert kalman.main(["--weeks", "500"]) == 1
    output = capsys.readouterr()
    assert "check: FAILED" in output.out
    assert "level and slope by jscan.associative_scan is off by 0.01" in output.err
    assert "lax.scan" not in output.err


@pytest.mark.parametrize("size", [2, 4])
def test_both_operators_are_taken_apart(kalman, size):
    """What the example says of kernels."""
    shapes = (8, size, size), (8, size), (8, size, size), (8, size), (8, size, size)
    leaves = [jax.ShapeDtypeStruct(shape, jnp.float32) for shape in shapes]
    for fn, given in ((kalman.joined, leaves), (kalman.joined_back, leaves[:3])):
        text = str(jax.make_jaxpr(lambda *x: jscan.associative_scan(fn, x))(*given))  # noqa: B023
        assert "jscan_elements" in text


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--weeks", "100"], "there have to be 500 weeks at least"),
        (["--plot", "not/there.png"], "cannot write not/there.png: there is no such folder"),
    ],
    ids=["few weeks", "no folder"],
)
def test_it_says_what_is_wrong_with_arguments(kalman, capsys, arguments, message):
    assert message in refusal(kalman, arguments, capsys)
