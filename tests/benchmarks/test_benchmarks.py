"""The benchmarks: their cases, answers, arithmetic and files."""

from __future__ import annotations

import functools
import json

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from benchmarks import runs
from benchmarks.__main__ import main
from benchmarks.cases import strategies
from benchmarks.cases.case import Aim, Case, Check, Inputs
from benchmarks.cases.suites import SUITES
from benchmarks.measuring import cpu, machine, measure, outside_jit, overhead
from benchmarks.measuring.measure import Outcome, Times
from benchmarks.measuring.programs import compile_all, found, plan, programs_of
from benchmarks.reporting import curves, report, tables
from tests.kernels.test_lowering import readable

# The suites whose cases are points of curves or bars.
BARS = ("core", "segments", "bits", "derivatives", "states", "functions")
DRAWN = [name for name in SUITES if name not in BARS]
TINY = 17

# Cases whose operands or checks no other case has.
SAMPLE = [
    ("functions", "csr_matvec, elements, 294276 in 3242 rows"),
    ("functions", "tridiagonal_solve of (1024, 16384), float32"),
    ("functions", "run_length_encode, int32, 2^26 in runs of 16"),
    ("functions", "segment_softmax, float32, 2^26 into 524288"),
    ("states", "complex64 recurrence and gradient of (512, 131072), last axis"),
    ("states", "S5's recurrence and gradient, complex64 of (8, 4096, 256)"),
    ("states", "products of 3 x 3, float32, 2^22"),
    ("states", "products of 3 x 3, float32, 2^22, init"),
    ("states", "matrix_recurrence of 2 states and gradient, 2^20"),
    ("states", "sum, float32, 2^27, init"),
    ("strategies", "sum, float32, 1000001, lookback"),
    ("dtypes", "sum, uint8, 2^27"),
    ("dtypes", "sum, int64, 2^27"),
    ("dtypes", "sum, complex64, 2^27"),
    ("dtypes", "or, bool, 2^27"),
    ("operators", "mul, float32, 2^26"),
    ("operators", "min, float32, 2^26"),
    ("operators", "bitwise_and, int32, 2^26"),
    ("operators", "last write, int32, a lambda, 2^26"),
    ("operators", "matrices of two by two, float32, four leaves, 2^26"),
    ("rows", "sum of (1024, 65536), first axis, float32, chained"),
    ("skew", "segmented sum, segments of 10, 2^26, reduce_then_scan"),
    ("skew", "segmented sum, Zipf's law, 2^26, auto"),
    ("skew", "segmented sum, half, and 10 to 50, 2^26, auto"),
    ("tiles", "segmented affine, heads 30 %, 2^26, conditional indexing, tiles of 512, 1 warp"),
    ("reductions", "whole sum, float32, 2^28, matrix"),
    ("reductions", "segment_sum, segments of 3, float32, 2^27, auto"),
]


def cases(suite, shrink=0):
    return SUITES[suite].cases(shrink)


def case(suite, name, shrink=0):
    """The case of this name, as it is or with smaller operands."""
    (index,) = (i for i, each in enumerate(cases(suite)) if each.name == name)
    return cases(suite, shrink)[index]


COUNTS = {
    "core": 40,
    "segments": 26,
    "bits": 14,
    "derivatives": 12,
    "functions": 36,
    "states": 21,
    "strategies": 201,
    "dtypes": 12,
    "operators": 12,
    "rows": 33,
    "repeatable": 45,
    "skew": 60,
    "tiles": 75,
    "reductions": 30,
    "scaling": 16,
}


NEW_STATES = (
    *("products of 8", "elements of a ", "a Kalman filter"),
    *("recurrence of one coefficient", "positions in packed rows"),
)


def is_new(name):
    """Whether a case has not been measured yet on an H200."""
    return name.startswith(("segmented sum by ids", "segmented sum beside ids", *NEW_STATES))


def test_suites_have_the_cases_that_were_measured():
    assert {suite: len(cases(suite)) for suite in SUITES} == COUNTS
    for suite in SUITES:
        path, shrink = curves.path(runs.RESULTS, suite), 0
        if suite in runs.SHRUNK_ON_A_CPU and not path.exists():
            path, shrink = runs.RESULTS / f"{suite}-cpu.json", runs.SHRUNK_ON_A_CPU[suite]
        measured = json.loads(path.read_text(encoding="utf-8"))["cases"]
        names = [each.name for each in cases(suite, shrink) if not is_new(each.name)]
        assert [each["name"] for each in measured] == names


@pytest.mark.parametrize("suite", SUITES)
def test_no_two_cases_of_a_suite_have_one_name(suite):
    names = [each.name for each in cases(suite)]
    assert len(set(names)) == len(names)


@pytest.mark.parametrize("suite", SUITES)
def test_cases_are_compared_with_cases_and_peers_that_there_are(suite):
    names = {each.name for each in cases(suite)}
    for each in cases(suite):
        assert each.relatives <= names - ({each.name} if suite in DRAWN else set())
        peers = {*each.peers, *(peer.name for peer in each.outside)}
        for aim in each.aims:
            assert aim.unit != "speedup" or set(aim.against) <= peers


@pytest.mark.parametrize("suite", DRAWN)
def test_no_two_cases_are_the_same_point_of_a_curve(suite):
    points = [(each.group, each.line, each.at) for each in cases(suite)]
    assert len(set(points)) == len(points)
    assert all(group and line and at is not None for group, line, at in points)


@pytest.mark.parametrize("suite", SUITES)
def test_a_smaller_suite_has_the_same_cases(suite):
    few = cases(suite, TINY)
    assert len(few) == len(cases(suite))
    assert max(each.bytes for each in few) < 2**20


@pytest.mark.parametrize("suite", SUITES)
def test_every_case_can_be_traced(suite):
    for each in cases(suite):
        programs = plan(each)
        assert bool(each.outside) == (programs.distance is not None)


@pytest.mark.parametrize(("suite", "name"), SAMPLE)
def test_an_answer_is_right_and_one_with_a_wrong_element_is_not(suite, name):
    one = case(suite, name, TINY).portable
    executables = compile_all(programs_of([one]), lambda: None)
    (done,) = measure.run_all([one], executables, None, 1, 1, lambda _: None)
    assert done.failure is None
    assert done.error is not None
    assert done.error <= one.check.bound

    programs = plan(one)
    operands = measure.built(programs.build, one, executables)
    with jax.enable_x64(programs.run.x64):
        result = found(executables, programs.run)(*operands)
        leaves, treedef = jax.tree.flatten(result)
        wrong = jax.tree.unflatten(treedef, [*leaves[:-1], _wrong_in_the_middle(leaves[-1])])
    with jax.enable_x64(programs.check.x64):
        error = float(found(executables, programs.check)(wrong, *operands))
    assert error > one.check.bound


def _wrong_in_the_middle(x):
    values = np.array(x).reshape(-1)
    place = values.size // 2
    values[place] = values[place] == 0
    return jnp.asarray(values.reshape(x.shape))


@pytest.mark.parametrize(
    ("suite", "name", "kernels"),
    [
        ("strategies", "sum, float32, 4096, block", 1),
        ("strategies", "sum, float32, 2^20, lookback", 1),
        ("strategies", "segmented sum, float32, 2^20, chained", 1),
        ("strategies", "affine, float32, 2^20, reduce_then_scan", 3),
        ("rows", "sum of (65536, 1024), last axis, float32, serial_lookback", 1),
        ("scaling", "sum, float32, 2^27, reduce_then_scan, 33 parts", 3),
    ],
)
def test_strategies_become_kernels(suite, name, kernels):
    name = name.replace("4096", "2^12")
    program = plan(case(suite, name)).run.lower_for_cuda().as_text()
    assert machine.kernel_calls(program) == kernels


@pytest.mark.parametrize("method", ["chained", "lookback", "serial_lookback"])
def test_a_forced_tile_makes_a_program_of_its_own(method):
    """The number of tiles says which one was lowered; jit's caches know nothing of it."""
    for tile in (512, 4096):
        name = f"sum, float32, 2^27, {method}, tiles of {tile}, 1 warp"
        program = plan(case("tiles", name)).run.lower_for_cuda().as_text()
        assert f"grid_x = {2**27 // tile} " in readable(program)


@pytest.mark.filterwarnings("ignore:The Pallas Triton backend is deprecated:DeprecationWarning")
def test_ways_to_scan_segments_and_windows_are_programs_of_their_own():
    names = [
        f"segmented sum, heads 1 %, 2^26, {way}, tiles of 512, 1 warp"
        for way in ("operator transformation", "conditional indexing")
    ] + [f"sum, float32, 2^27, lookback, tiles of 2048, window of {window}" for window in (4, 8)]
    texts = {plan(case("tiles", name)).run.lower_for_cuda().as_text() for name in names}
    assert len(texts) == len(names)


def outcome(name="a case", microseconds=(4.0,), byte_count=8000, **fields):
    """What became of a case that took so long."""
    nothing = Inputs(lambda: ())
    one = Case(name, nothing, jnp.sum, Check(jnp.sum), byte_count, **fields)
    return Outcome(one, 0.0, Times(tuple(microseconds), ()))


def test_scores():
    """At 1000 bytes a microsecond 8000 bytes take 8."""
    slow, fast = outcome("slow", (16.0, 20.0, 24.0)), outcome("fast", (10.0,), 4000)
    slow.peers = {"one": Times((50.0,), ()), "two": Times((30.0,), ()), "none": "not installed"}
    both = [slow, fast]

    def score(one, unit, *against):
        return report.score(Aim(None, None, unit, against), one, 1000.0, both)

    assert score(slow, "us") == 20.0
    assert score(slow, "share") == 8 / 20
    assert score(slow, "ratio", "fast") == 10 / 20
    assert score(fast, "ratio", "slow", "missing") == 20 / 10
    assert score(fast, "share ratio", "slow", "fast") == 1.0
    assert score(slow, "speedup", "one", "two", "none") == 30 / 20
    assert score(slow, "speedup", "none") is None
    assert score(slow, "ratio", "missing") is None
    slow.temporaries, slow.peer_temporaries = 3.0, {"one": 8.0, "two": 4.0, "none": None}
    assert score(slow, "memory", "one", "two", "none") == 3 / 4
    assert score(slow, "memory", "none") is None
    slow.times = None
    assert score(slow, "share") is None
    assert score(fast, "ratio", "slow") is None


@pytest.mark.parametrize(
    ("aim", "number", "meets"),
    [
        (Aim(0.9, 0.8), 0.9, "target"),
        (Aim(0.9, 0.8), 0.85, "floor"),
        (Aim(0.9, 0.8), 0.79, "below"),
        (Aim(5.0, 6.0, "us"), 4.0, "target"),
        (Aim(5.0, 6.0, "us"), 6.0, "floor"),
        (Aim(5.0, 6.0, "us"), 6.1, "below"),
        (Aim(0.4, 0.5, "memory"), 0.4, "target"),
        (Aim(0.4, 0.5, "memory"), 0.6, "below"),
        (Aim(0.9, 0.8), None, "unknown"),
        (Aim(None, None), 0.9, "no target"),
    ],
)
def test_verdicts(aim, number, meets):
    assert report.verdict(aim, number) == meets


def test_a_dry_run_writes_where_each_case_stands(tmp_path):
    path = tmp_path / "skew.json"
    only = "segments of 32, 2^26"
    assert main(["skew", "--dry-run", "--only", only, "--shrink", "16", "--out", str(path)]) == 0
    result = json.loads(path.read_text())
    assert [entry["line"] for entry in result["cases"]] == list(strategies.METHODS_OF_SKEW)
    for entry in result["cases"]:
        assert (entry["group"], entry["at"]) == ("segments of one size", 32)
        assert entry["answer"]["right"]
    peers = result["cases"][0]["peers"]
    assert peers["cub.InclusiveSumByKey"] == {"why_not": "not timed"}
    assert curves.panels(result) == {}, "nothing was timed"
    assert {"torch", "cupy", "cuda.compute", "nvcc"} <= result["environment"].keys()


def test_suites_without_a_comparison_need_a_gpu(monkeypatch, capsys):
    monkeypatch.setattr(machine, "has_gpu", lambda: False)
    assert main(["tiles"]) == 2
    assert "No CUDA GPU" in capsys.readouterr().out


def test_without_a_gpu_lengths_are_compared_on_the_cpu(monkeypatch, capsys, tmp_path):
    monkeypatch.setattr(machine, "has_gpu", lambda: False)
    monkeypatch.setattr(overhead, "LENGTHS", (64,))
    monkeypatch.setattr(overhead, "BY_LENGTH", overhead.BY_LENGTH[:1])
    assert main(["all", "--out", str(tmp_path)]) == 0
    assert "this is the CPU comparison" in capsys.readouterr().out
    (path,) = tmp_path.iterdir()
    (entry,) = json.loads(path.read_text())["lengths"]
    assert entry["name"] == "sum beside lax.cumsum, 2^6"
    assert entry["lax"]["median_ms"] > 0


def test_without_a_gpu_functions_are_measured_beside_plain_jax(monkeypatch, tmp_path):
    monkeypatch.setattr(machine, "has_gpu", lambda: False)
    monkeypatch.setattr(cpu, "SECONDS", 0.0)
    monkeypatch.setattr(cpu, "COPIED", 2**10)
    path = tmp_path / "functions.json"
    asked = ["functions", "--only", "unique_sorted", "--shrink", str(TINY), "--out", str(path)]
    with jax.numpy_dtype_promotion("standard"):
        assert main(asked) == 0
    result = json.loads(path.read_text())
    (entry,) = result["cases"]
    assert entry["answer"]["right"]
    assert {*entry["peers_ms"]} == {"jnp.unique", "jnp.nonzero"}
    speed = result["copy"]["bytes_per_second"]
    assert entry["share"] == pytest.approx(1e3 * entry["bytes"] / speed / entry["jscan_ms"], 1e-2)
    assert {"processors", "load_before", "shared"} <= result["environment"].keys()


def test_all_goes_on_after_a_suite_that_fails_and_stops_when_time_is_up(monkeypatch, capsys):
    asked = []

    def run(options, suite):
        assert (options.rounds, options.iterations, options.only) == (1, 5, "")
        asked.append(suite)
        if suite == "segments":
            raise MemoryError("of the GPU")
        return 0

    def run_out_of_time(options, suite):
        options.budget = -1
        return run(options, suite)

    monkeypatch.setattr(machine, "has_gpu", lambda: True)
    monkeypatch.setattr(runs, "run", run)
    monkeypatch.setattr(runs, "study", run)
    monkeypatch.setattr(runs, "compare", run)
    assert main(["all"]) == 1
    assert asked == [*SUITES, "accuracy", "latency", "compile", "overhead"]
    assert "segments FAILED: MemoryError: of the GPU" in capsys.readouterr().out

    asked.clear()
    monkeypatch.setattr(runs, "run", run_out_of_time)
    assert main(["all"]) == 1
    assert asked == list(SUITES)[:1]
    assert "compile left out" in capsys.readouterr().out


def test_calls_outside_of_jit_compile_nothing_after_the_first(monkeypatch, tmp_path):
    monkeypatch.setattr(outside_jit, "SHORT", 60)
    monkeypatch.setattr(outside_jit, "measured", functools.partial(outside_jit.measured, 0, 1))
    path = tmp_path / "overhead.json"
    with jax.numpy_dtype_promotion("standard"):
        assert main(["overhead", "--out", str(path)]) == 0
    entries = json.loads(path.read_text())["overhead"]
    assert {entry["name"]: entry["compiled"] for entry in entries} == {
        entry["name"]: 0 for entry in entries
    }
    assert all(entry["lax"]["median_ms"] > 0 for entry in entries)
    assert "a new number in a lambda" in "".join(tables.of_calls({"overhead": entries}))
