"""The example on sequences that are sharded over devices, run as a user would run it."""

from __future__ import annotations

import re
from types import ModuleType

import jax
import jax.numpy as jnp
import pytest

import jscan
from tests.docs.test_examples import ROOT, module_of, refusal, run

SHARDED_SEQUENCE = ROOT / "examples" / "sharded_sequence.py"
several = pytest.mark.skipif("jax.device_count() < 2", reason="nothing moves on one device")
NUMBERS = ("loss", "slope of nu", "slope of omega", "slope of b", "slope of c", "slope of x")


@pytest.fixture
def sharded_sequence(monkeypatch) -> ModuleType:
    """The example as a module, to look inside."""
    return module_of(SHARDED_SEQUENCE, monkeypatch)


def test_parts_of_a_sequence_and_of_a_batch():
    count = 8 if jax.default_backend() == "cpu" else jax.device_count()
    result = run(SHARDED_SEQUENCE, "--length", 512 * count, "--channels", 3)
    assert result.returncode == 0, result.stderr
    assert result.stdout.startswith(
        f"a sequence of {512 * count} steps and 3 channels, 512 a device\n"
    )
    sequence, batch = result.stdout.split("\n\n")[:2]
    assert sorted(re.findall(r"^    (\w[\w ]*\w) +\d\.\de", sequence, re.M)) == sorted(NUMBERS)
    assert f"a batch of {4 * count} sequences of 512 steps, 4 a device" in batch
    moved = re.findall(r"^ +\d+ ([a-z-]+) +of (\d+) numbers at most", sequence, re.M)
    trained = re.findall(r"^ +\d+ ([a-z-]+) +of (\d+) numbers at most, (\d+) in", batch, re.M)
    if count > 1:
        # Three channels have 2 × 3 + 2 × 9 parameters, and a loss moves beside their gradient.
        assert ("all-gather", str(3 * count)) in moved
        assert {(name, total) for name, _, total in trained} == {("all-reduce", "25")}
    else:
        assert result.stdout.count("nothing moves") == 2
    assert re.search(rf"^ran: {count} devices of {jax.default_backend()} ", result.stdout, re.M)
    check = "check: the values are those of one device, and only totals and gradients move"
    assert result.stdout.splitlines()[-1] == check


def test_it_fails_where_values_differ(sharded_sequence, monkeypatch, capsys):
    monkeypatch.setattr(sharded_sequence, "TOLERANCE", -1.0)
    assert sharded_sequence.main(["--length", "64", "--channels", "2"]) == 1
    output = capsys.readouterr()
    assert "check: FAILED" in output.out
    found = re.findall(r"^wrong: (.*) is off by .* of the largest number$", output.err, re.M)
    assert sorted(found) == sorted(NUMBERS)


@several
def test_it_fails_where_more_of_a_sequence_moves(sharded_sequence, monkeypatch, capsys):
    right = jscan.linear_recurrence
    monkeypatch.setattr(jscan, "linear_recurrence", lambda a, b: right(a, jnp.sort(b, 0)))
    assert sharded_sequence.main(["--length", "512", "--channels", "2"]) == 1
    output = capsys.readouterr()
    assert "check: FAILED" in output.out
    assert re.search(r"^wrong: \d{3,} numbers in [a-z-]+$", output.err, re.M)
    assert "step of training" not in output.err


@several
def test_it_fails_where_more_of_a_batch_moves(sharded_sequence, monkeypatch, capsys):
    right = sharded_sequence.trained
    monkeypatch.setattr(sharded_sequence, "trained", lambda m, x, y: right(m, jnp.sort(x, 0), y))
    assert sharded_sequence.main(["--length", "512", "--channels", "2"]) == 1
    output = capsys.readouterr()
    assert "check: FAILED" in output.out
    assert re.search(r"^wrong: all-[a-z-]+ in a step of training$", output.err, re.M)
    assert re.search(r"^wrong: \d{3,} numbers move, of 12 parameters and", output.err, re.M)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--channels", 0], "there has to be a step, a channel and a device at least"),
        (["--devices", 0], "there has to be a step, a channel and a device at least"),
        (["--length", "many"], "argument --length: invalid int value: 'many'"),
    ],
    ids=["no channel", "no device", "no number"],
)
def test_it_says_what_is_wrong_with_arguments(sharded_sequence, capsys, arguments, message):
    assert message in refusal(sharded_sequence, arguments, capsys)


def test_it_says_how_many_devices_there_are(sharded_sequence, capsys):
    said = refusal(sharded_sequence, ["--devices", 4096], capsys)
    assert f"there are {jax.device_count()} devices, not 4096" in said


@several
def test_it_says_which_lengths_do_not_divide_evenly(sharded_sequence, capsys):
    with pytest.raises(SystemExit, match="2"):
        sharded_sequence.main(["--length", "25", "--devices", "2"])
    assert "25 steps do not divide evenly over 2 devices" in capsys.readouterr().err
