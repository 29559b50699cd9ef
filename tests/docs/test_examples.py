"""The examples, run as a user would run them."""

from __future__ import annotations

import importlib.util
import os
import re
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from types import ModuleType

import jax
import numpy as np
import pytest

import jscan
from tests.kernels.test_lowering import cuda_program

ROOT = Path(__file__).parents[2]
RAGGED_BATCH = ROOT / "examples" / "ragged_batch.py"
MESSAGE_PASSING = ROOT / "examples" / "message_passing.py"
RECURRENCE = ROOT / "examples" / "recurrence.py"
TEACHING_KERNEL = ROOT / "examples" / "teaching_kernel.py"
TEXT = """One two three,
four-score.

It's\t_five_.
\f * \f

Café 12.


b
"""
EXPECTED = """\
  One                           3        0       3    3.000
  two                           3        1       3    4.500
  three                         5        2       5    7.250
  four-score                   10        3      10   13.625
  ---------------------------------------------------------
  It's                          4        0       4    4.000
  _five_                        6        1       6    8.000
"""
KARATE_CLUB = """\
karate_club: 34 nodes, 78 ties

highest rank             rank  sides with           joined
33                   0.096989  33                   Officer
0                    0.088500  0                    Mr. Hi
32                   0.075934  33                   Officer
2                    0.062766  0                    Mr. Hi
1                    0.057412  0                    Mr. Hi
best connected of its component: 33
split: 18 with 33 and 16 with 0 of 34
the recorded split agrees for 33 of 34, not for 8
2, the least decided, listens to 0 (0.241), 1 (0.173), 8 (0.133), 7 (0.111)
"""
COSTS = """\
a tile of 32, and its steps on so many lanes
network          depth  operators      1     2     4     8    16    32
kogge_stone          5        129    129    65    33    17     9     5
hockney_jesshope     5        160    160    80    40    20    10     5
sklansky             5         80     80    40    20    10     5     5
ladner_fischer       5         74     74    38    20    11     6     5
han_carlson          6         80     80    41    21    11     6     6
brent_kung           8         57     57    30    16    10     8     8
"""
PICTURE = """\
level  operators
    1          4    |  0  |  2  |  4  |  6
    2          4    |  |  0  0  |  |  4  4
    3          4    |  |  |  |  0  0  0  0
"""


def run(script: Path, *arguments: object) -> subprocess.CompletedProcess[str]:
    """Runs a script with this Python and this checkout."""
    path = os.pathsep.join(filter(None, [str(ROOT), os.environ.get("PYTHONPATH")]))
    return subprocess.run(
        [sys.executable, str(script), *map(str, arguments)],
        capture_output=True,
        text=True,
        encoding="utf-8",
        env={**os.environ, "PYTHONPATH": path, "PYTHONIOENCODING": "utf-8"},
        timeout=600,
        check=False,
    )


def refusal(
    example: ModuleType, arguments: Sequence[object], capsys: pytest.CaptureFixture[str]
) -> str:
    """What an example says of arguments that it does not take, in this process."""
    with pytest.raises(SystemExit, match="2"):
        example.main([str(argument) for argument in arguments])
    return capsys.readouterr().err


@pytest.fixture
def text_file(tmp_path):
    file = tmp_path / "text.txt"
    file.write_text(TEXT, encoding="utf-8")
    return file


def module_of(script: Path, monkeypatch) -> ModuleType:
    """An example as a module, to look inside."""
    spec = importlib.util.spec_from_file_location(script.stem, script)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    monkeypatch.setitem(sys.modules, script.stem, module)
    spec.loader.exec_module(module)
    return module


@pytest.fixture
def ragged_batch(monkeypatch) -> ModuleType:
    """The example on ragged text."""
    return module_of(RAGGED_BATCH, monkeypatch)


@pytest.fixture
def message_passing(monkeypatch) -> ModuleType:
    """The example on graphs."""
    return module_of(MESSAGE_PASSING, monkeypatch)


@pytest.fixture
def recurrence(monkeypatch) -> ModuleType:
    """The example on a state-space model."""
    return module_of(RECURRENCE, monkeypatch)


@pytest.fixture
def teaching_kernel(monkeypatch) -> ModuleType:
    """The example on prefix networks in a kernel."""
    return module_of(TEACHING_KERNEL, monkeypatch)


def test_ragged_batch_on_its_own_texts():
    result = run(RAGGED_BATCH)
    assert result.returncode == 0, result.stderr
    assert "check: every number agrees" in result.stdout
    # Where there is a GPU each of the three scans is one kernel.
    ran = "4 GPU kernels" if jax.default_backend() == "gpu" else "fallback in plain JAX"
    assert re.search(rf"^ran: {ran}.* on {jax.default_backend()} \(.*jax \d", result.stdout, re.M)


def test_ragged_batch_on_a_text_of_ones_own(text_file):
    result = run(RAGGED_BATCH, text_file)
    assert result.returncode == 0, result.stderr
    assert EXPECTED in result.stdout
    rows = [line.split() for line in result.stdout.splitlines() if line.startswith("text.txt:")]
    # The second document has no words. The first line names the document of the table above it.
    assert rows[1:] == [
        ["text.txt:1", "2", "6", "4", "four-score", "(10)"],
        ["text.txt:3", "2", "3", "2", "Café", "(4)"],
    ]


def test_ragged_batch_without_form_feeds_is_one_document(ragged_batch, tmp_path):
    file = tmp_path / "notes"
    file.write_bytes("\ufeffa b\r\n\r\nc".encode())
    (document,) = ragged_batch.documents_of_file(file)
    assert document.name == "notes"
    assert document.paragraphs == [["a", "b"], ["c"]]


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (None, "cannot read .*text.txt: No such file"),
        (b"", "text.txt has no words in it"),
        (b" \n\n\f*\n", "text.txt has no words in it"),
        (b"abc\xff", "text.txt is not UTF-8 text: invalid start byte at byte 3"),
    ],
    ids=["missing", "empty", "no words", "not text"],
)
def test_ragged_batch_says_what_is_wrong_with_a_file(
    ragged_batch, tmp_path, capsys, content, message
):
    file = tmp_path / "text.txt"
    if content is not None:
        file.write_bytes(content)
    assert re.search(message, refusal(ragged_batch, [file], capsys))


def test_ragged_batch_fails_where_a_number_is_wrong(ragged_batch, text_file, monkeypatch, capsys):
    right = ragged_batch.annotate

    def wrong(lengths, words_in_paragraph):
        results = right(lengths, words_in_paragraph)
        return {**results, "longest": results["longest"].at[5].add(1)}

    monkeypatch.setattr(ragged_batch, "annotate", wrong)
    assert ragged_batch.main([str(text_file)]) == 1
    output = capsys.readouterr()
    assert "check: FAILED" in output.out
    assert "text.txt:1, word 5: longest is 7, not 6" in output.err


def test_ragged_batch_knows_kernels_when_it_sees_them(ragged_batch):
    program = cuda_program(
        jax.vmap(ragged_batch.annotate), np.ones((4, 5000), np.int32), np.ones((4, 9), np.int32)
    )
    engine = {"pallas": "Pallas on Triton"}.get(str(jscan.engine().name), "jax-triton")
    assert ragged_batch.what_ran(program).startswith(f"4 GPU kernels ({engine}) on ")


def test_message_passing_on_the_karate_club():
    result = run(MESSAGE_PASSING)
    assert result.returncode == 0, result.stderr
    assert result.stdout.startswith(KARATE_CLUB)
    assert "check: every number agrees with jax.ops, a loop in NumPy and networkx" in result.stdout


@pytest.mark.parametrize(
    ("graph", "lines"),
    [
        (
            "davis_southern_women",
            ["davis_southern_women: 32 nodes, 89 ties", "split: 23 with E8 and 8 with E9 of 32"],
        ),
        (
            "florentine_families",
            [
                "florentine_families: 15 nodes, 20 ties",
                "best connected of its component: Medici",
                "split: 9 with Medici and 4 with Guadagni of 15",
            ],
        ),
        (
            "les_miserables",
            [
                "les_miserables: 77 nodes, 254 ties",
                "Valjean              0.099558  Valjean              -",
                "split: 50 with Valjean and 27 with Marius of 77",
            ],
        ),
    ],
)
def test_message_passing_on_another_graph(message_passing, capsys, graph, lines):
    assert message_passing.main([graph]) == 0
    output = capsys.readouterr()
    assert set(lines) <= set(output.out.splitlines())
    assert output.err == ""


def test_message_passing_says_which_graphs_there_are():
    result = run(MESSAGE_PASSING, "petersen")
    assert result.returncode == 2
    assert "invalid choice: 'petersen' (choose from " in result.stderr
    assert "les_miserables" in result.stderr


def test_message_passing_fails_where_a_number_is_wrong(message_passing, monkeypatch, capsys):
    right = message_passing.message_passing
    names: list[str] = []

    def wrong(network):
        results = right(network)
        names[:] = results
        return {name: x.at[-1].add(-1) for name, x in results.items()}

    monkeypatch.setattr(message_passing, "message_passing", wrong)
    assert message_passing.main([]) == 1
    output = capsys.readouterr()
    assert "check: FAILED" in output.out
    found = re.findall(r"^wrong: (\w+)\[.* as in (.+)$", output.err, re.M)
    assert sorted(found) == sorted(
        [(name, "NumPy") for name in names] + [("rank", "networkx"), ("hub", "networkx")]
    )
    assert "wrong: hub[33] is 32, not 33 as in networkx" in output.err


@pytest.mark.parametrize(
    ("name", "replacement", "noticed"),
    [
        ("segment_sum", "segment_max", {"rank", "pull", "attention", "opinion", "slope"}),
        ("segment_max", "segment_min", {"hub"}),
    ],
)
def test_message_passing_fails_where_jscan_does(
    message_passing, monkeypatch, capsys, name, replacement, noticed
):
    monkeypatch.setattr(jscan, name, getattr(jscan, replacement))
    assert message_passing.main(["florentine_families"]) == 1
    found = re.findall(r"^wrong: (\w+)\[.* as in jax\.ops$", capsys.readouterr().err, re.M)
    assert noticed <= set(found)


def test_recurrence_forecasts_better_than_no_change(tmp_path):
    picture = tmp_path / "forecast.png"
    result = run(RECURRENCE, "--states", 4, "--steps", 20, "--plot", picture)
    assert result.returncode == 0, result.stderr
    lines = result.stdout.splitlines()
    assert lines[0] == "12000 samples, 8000 of them fitted; 4 states, 20 steps"
    costs = re.findall(r"^(j[\w.]+) +([\d.]+) ms +([\d.]+) MB +([\d.]+)$", result.stdout, re.M)
    ways = ["jax.lax.scan", "jax.lax.associative_scan", "jscan.linear_recurrence"]
    assert [name for name, *_ in costs] == ways
    # Every way keeps at least the states themselves for the gradient.
    assert all(float(memory) >= 1 for *_, memory in costs)
    found = re.findall(r"^(no change|the model) +(\S+) mV +(\S+) mV$", result.stdout, re.M)
    errors = {name: (float(fitted), float(rest)) for name, fitted, rest in found}
    # Root mean squares of the differences between neighbours in the recording.
    assert errors["no change"] == (1.763, 1.354)
    assert errors["the model"][0] < 1.763
    assert errors["the model"][1] < 1.354
    assert lines[-1] == "check: losses, slopes and forecasts agree"
    assert picture.read_bytes().startswith(b"\x89PNG")


@pytest.mark.parametrize(
    ("wrong", "noticed"),
    [
        (lambda right, a, b: 1.01 * right(a, b), {"loss", "slope", "forecast"}),
        (lambda right, a, b: right(a, jax.lax.stop_gradient(b)), {"slope"}),
    ],
    ids=["states", "derivative"],
)
def test_recurrence_fails_where_jscan_does(recurrence, monkeypatch, capsys, wrong, noticed):
    right = jscan.linear_recurrence
    monkeypatch.setattr(jscan, "linear_recurrence", lambda a, b: wrong(right, a, b))
    monkeypatch.delitem(recurrence.WAYS, "jax.lax.associative_scan")  # one to differ from will do
    assert recurrence.main(["--states", "2", "--steps", "1"]) == 1
    output = capsys.readouterr()
    assert "check: FAILED" in output.out
    assert set(re.findall(r"^wrong: (\w+) of j", output.err, re.M)) == noticed


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--steps", 0], "there has to be a state and a step at least"),
        (["--plot", "not/there.png"], "cannot write not/there.png: there is no such folder"),
    ],
    ids=["no step", "no folder"],
)
def test_recurrence_says_what_is_wrong_before_it_trains(recurrence, capsys, arguments, message):
    assert message in refusal(recurrence, arguments, capsys)


@pytest.mark.thorough
def test_teaching_kernel_with_every_network():
    result = run(TEACHING_KERNEL)
    assert result.returncode == 0, result.stderr
    assert result.stdout.startswith(COSTS)
    assert "check: 1000 elements agree with a loop in NumPy" in result.stdout


@pytest.mark.parametrize("length", [1, 7, 8, 9, 50])
def test_teaching_kernel_with_one_network(teaching_kernel, capsys, length):
    assert teaching_kernel.main(["sklansky", "--tile", "8", "--length", str(length)]) == 0
    output = capsys.readouterr()
    assert output.out.startswith(PICTURE)
    assert f"check: {length} elements agree" in output.out
    assert output.err == ""


@pytest.mark.parametrize(
    ("wrong", "noticed"),
    [
        (lambda right, fn, x: right(lambda a, b: fn(b, a), x), {"latest"}),
        (lambda right, fn, x: right(fn, x).at[-1].add(1), {"sum", "latest"}),
    ],
    ids=["order", "total"],
)
def test_teaching_kernel_fails_where_a_network_does(
    teaching_kernel, monkeypatch, capsys, wrong, noticed
):
    right = teaching_kernel.NETWORKS["brent_kung"]
    networks = {"brent_kung": right, "kogge_stone": lambda fn, x: wrong(right, fn, x)}
    monkeypatch.setattr(teaching_kernel, "NETWORKS", networks)
    monkeypatch.setattr(teaching_kernel, "print_costs", lambda *_: None)
    assert teaching_kernel.main(["--tile", "8", "--length", "50"]) == 1
    output = capsys.readouterr()
    assert "check: FAILED" in output.out
    assert set(re.findall(r"^wrong: (\w+) by kogge_stone: element", output.err, re.M)) == noticed
    assert "by brent_kung" not in output.err


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--tile", 0], "there has to be an element at least"),
        (["ripple_carry"], "invalid choice: 'ripple_carry' (choose from "),
    ],
    ids=["no tile", "no network"],
)
def test_teaching_kernel_says_what_is_wrong_with_arguments(
    teaching_kernel, capsys, arguments, message
):
    assert message in refusal(teaching_kernel, arguments, capsys)
