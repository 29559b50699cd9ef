"""The walk: draws are valid, decided by seed and number, and independent of one another."""

from __future__ import annotations

import dataclasses
import json
import random

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import jscan
from benchmarks import walking
from benchmarks.__main__ import main
from benchmarks.cases.case import call
from benchmarks.cases.walk import checks, drawing, listed, loops, operations, shapes
from benchmarks.cases.walk.families import FAMILIES
from benchmarks.measuring import cpu, machine, measure, walk
from benchmarks.measuring.programs import plan
from benchmarks.reporting import static_table, walk_table
from jscan.kernels.tuning import Tuning, sharing
from tests.benchmarks.test_static import by_triton

SMALL = 2**12
DRAWS = 6


def arrays(tree):
    """The shapes and dtypes of a tree's leaves."""
    return [(tuple(x.shape), x.dtype.name) for x in jax.tree.leaves(tree)]


@pytest.mark.parametrize("family", FAMILIES)
def test_calls_of_every_kind_are_valid(family):
    """What is drawn can be traced, beside its counterparts, and returns what its bytes count."""
    for number in range(DRAWS):
        step = drawing.step(5, number, SMALL, (family,))
        programs = plan(step.case)
        with jax.enable_x64(programs.run.x64):
            results = arrays(jax.eval_shape(step.case.run, *programs.run.operands))
            for peer in step.case.peers.values():
                assert arrays(jax.eval_shape(peer, *programs.run.operands)) == results
        assert results == [(x.shape, x.dtype) for x in step.drawn.results], step.case.name
        assert arrays(programs.run.operands) == [(x.shape, x.dtype) for x in step.drawn.operands]
        assert step.case.bytes > 0


def test_a_seed_and_a_number_decide_a_draw():
    names = [drawing.step(1, number).case.name for number in range(30)]
    assert names == [drawing.step(1, number).case.name for number in range(30)]
    assert drawing.step(1, 17).case == drawing.step(1, 17).case
    others = [drawing.step(2, number).case.name for number in range(30)]
    assert not set(names) & set(others)


def test_draws_vary_and_need_no_more_memory_than_there_is():
    drawn = [drawing.step(0, number) for number in range(400)]
    for label, least in (("function", 15), ("operator", 20), ("dtype", 13), ("shape", 11)):
        assert len({step.labels[label] for step in drawn}) >= least
    assert {step.labels["transformation"] for step in drawn} == {
        *("none", "vmap", "gradient", "tangent", "vmap of gradient"),
    }
    for step in drawn:
        arrays = (*step.drawn.operands, *step.drawn.results)
        assert sum(x.bytes for x in arrays) <= drawing.MEMORY
    large = [step for step in drawn if step.drawn.size >= walk_table.LARGE]
    assert len(large) > 0.7 * len(drawn)


def test_every_public_function_is_drawn():
    drawn = {drawing.step(0, number, SMALL).drawn.function for number in range(800)}
    of_arrays = {*jscan.__all__, "enumerate"} - {"engine", "networks", "operators", "triton_source"}
    assert drawn == of_arrays


def test_listed_calls_have_aims(capsys):
    steps = listed.steps(2**28)
    assert len({step.case.name for step in steps}) == len(steps)
    for step in steps:
        assert step.case.target is not None
        assert step.case.floor is None or step.case.floor < step.case.target
        assert step.drawn.size > 2**21
    kinds = {step.kind: step for step in listed.steps(SMALL)}
    assert len(kinds) == 23
    for step in kinds.values():
        plan(step.case)
    assert main(["walk", "--listed", "--plan", "--only", "0"]) == 0
    assert "cumsum int8 (1280, 50257)" in capsys.readouterr().out


@pytest.mark.parametrize("kind", shapes.KINDS)
def test_shapes_have_about_as_many_elements_as_they_should(kind):
    rng = random.Random(kind)
    for _ in range(50):
        size = shapes.elements(rng, 2**28)
        shape = shapes.drawn(rng, size, (kind,))
        assert size / 16 < shape.size <= size
        assert 0 <= shape.axis < len(shape.extents)


def test_answers_are_those_of_plain_jax(tmp_path, capsys):
    path = tmp_path / "walk.json"
    asked = ["walk", "--seed", "4", "--cases", "3", "--largest", "2^8", "--check"]
    assert main([*asked, "--out", str(path)]) == 0
    content = json.loads(path.read_text())
    assert [entry["number"] for entry in content["cases"]] == list(range(3))
    assert all(entry["right"] for entry in content["cases"])
    assert any(entry["error"] is not None for entry in content["cases"])
    assert "3 of 3 cases" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("reverse", "before", "form", "described"),
    [
        (False, None, "", None),
        (True, None, "flags", [0, 0, 0, 1, 1, 0, 0]),
        (False, (0,), "lengths", [0, 3, 1, 3]),
        (True, (0,), "ids", [5, 5, 5, 2, 7, 7, 7]),
        (False, None, "bits", np.array([0b0011000], np.uint8)),
    ],
)
def test_an_answer_follows_from_step_to_step_and_a_wrong_one_does_not(
    reverse, before, form, described
):
    """Segments of three, one and three elements, or one of seven."""
    x = np.array([[1, 3, 2, 1, 5, 1, 2], [2, 2, 1, 4, 1, 1, 3]], np.float32)
    parts = np.split(x, [3, 4], axis=1) if form else [x]
    sums = [part[:, ::-1].cumsum(1)[:, ::-1] if reverse else part.cumsum(1) for part in parts]
    if before:
        sums = [one - part for one, part in zip(sums, parts, strict=True)]
    given = [] if described is None else [jnp.array(described)]
    told = jnp.add, before, 1, form, 1, reverse
    check = jax.jit(lambda y, *given: checks.from_step_to_step(*told, y, jnp.array(x), *given))
    right = np.concatenate(sums, axis=1)
    assert check(jnp.array(right), *given) == 0
    for place in range(7):
        wrong = right.copy()
        wrong[1, place] += 1
        assert check(jnp.array(wrong), *given) > checks.BOUND


@pytest.mark.parametrize(("off", "right"), [(1e-6, True), (1e-3, False)])
def test_a_first_element_near_zero_may_be_off_as_far_as_others(off, right):
    x = np.array([2**-20, 4, 4, 3], np.float32)
    y = np.logaddexp.accumulate(x) + np.array([off, 0, 0, 0], np.float32)
    error = checks.from_step_to_step(jnp.logaddexp, None, 1, "", 0, False, y, jnp.array(x))
    assert (error <= checks.BOUND) == right


def test_an_axis_has_something_to_scan():
    draws = [shapes.drawn(random.Random(seed), 2**10) for seed in range(300)]
    assert all(shape.extents[shape.axis] > 1 for shape in draws)
    assert min(min(shape.extents) for shape in draws) == 1


def raising(*_):
    raise RuntimeError("no such kernel")


def test_one_that_raises_is_reported_and_the_others_are_taken():
    steps = [drawing.step(4, number, 2**8) for number in range(2)]
    case = dataclasses.replace(steps[0].case, run=raising)
    steps[0] = dataclasses.replace(steps[0], case=case)
    found = {taken.step.number: taken for taken in walk.taken(iter(steps), 60.0, None, check=True)}
    assert found[0].failure == "RuntimeError: no such kernel"
    assert found[1].failure is None
    assert [found[number].is_right for number in (0, 1)] == [False, True]


def test_results_that_are_not_as_drawn_are_reported():
    step = drawing.step(4, 1, 2**8)
    other = dataclasses.replace(step.drawn.results[0], dtype="float64")
    drawn = dataclasses.replace(step.drawn, results=(other,))
    why = walk.why_not_lowered(dataclasses.replace(step, drawn=drawn))
    assert why is not None
    assert why.startswith("TypeError: the results are [")
    assert walk.why_not_lowered(step) is None


def test_no_further_step_is_taken_when_the_time_is_up():
    def steps():
        for number in range(10**6):
            yield drawing.step(4, number, 2**8)

    assert list(walk.taken(steps(), 0.0, None, check=False)) == []


def test_times_are_compared_with_copies_and_counterparts(tmp_path, monkeypatch, capsys):
    """A device on which everything takes 8 µs, and what has two operands or more 16."""

    def gpu_time(_, operands, iterations):
        return [[("kernel", 8e-3 * min(len(operands), 2))]] * iterations

    monkeypatch.setattr(measure, "gpu_time", gpu_time)
    monkeypatch.setattr(machine, "has_gpu", lambda: True)
    monkeypatch.setattr(walk, "EXPONENTS", range(8, 11))
    monkeypatch.setattr(walking, "RESULTS", tmp_path)
    assert main(["walk", "--seed", "9", "--cases", "2", "--largest", "2^8"]) == 0
    (path,) = tmp_path.iterdir()
    content = json.loads(path.read_text())
    assert {copy["median_us"] for copy in content["copies"]} == {8.0}
    assert {entry["share"] for entry in content["cases"]} == {0.5, 1.0}
    out = capsys.readouterr().out
    assert "The worst 10" in out
    assert "By operator" in out
    assert main(["walk", "--show", str(path), str(path)]) == 0
    out = capsys.readouterr().out
    assert "4 cases" in out
    assert "seed 9, 0: " in out
    other = tmp_path / "other.json"
    content["cases"][0]["median_us"] *= 2
    other.write_text(json.dumps(content))
    assert main(["walk", "--show", str(path), "--compare", str(other)]) == 0
    out = capsys.readouterr().out
    assert "1 of 2 cases differ" in out
    assert "geometric mean of the speedups: 1.414" in out


def test_calls_are_taken_on_a_cpu_beside_trees_and_loops(tmp_path, monkeypatch, capsys):
    monkeypatch.setattr(cpu, "SECONDS", 0.01)
    monkeypatch.setattr(cpu, "COPIED", 2**10)
    path = tmp_path / "cpu.json"
    chosen = ["--seed", "5", "--largest", "2^10", "--only", "5", "6", "9", "13"]
    assert main(["walk", "--on-cpu", *chosen, "--out", str(path)]) == 0
    entries = json.loads(path.read_text())["cases"]
    assert [{*entry["peers_ms"]} for entry in entries] == [
        {"lax.associative_scan", "lax.scan"},
        {"lax.associative_scan", "lax.scan"},
        {"jax.ops.segment_sum"},
        set(),
    ]
    assert all(entry["answer"]["right"] for entry in entries)
    assert "4 calls, 3 beside others" in capsys.readouterr().out


@pytest.mark.parametrize("reverse", [False, True])
@pytest.mark.parametrize("axis", [0, 1])
def test_a_loop_gives_what_its_tree_does(axis, reverse):
    x = jnp.asarray(np.random.default_rng(0).integers(-2, 3, (5, 7)).astype(np.float32))
    flags = x > 1
    tree = call(operations.lax_scan, jnp.add, 1, axis, reverse)
    recurrence = call(operations.lax_recurrence, axis, reverse)
    tangent = call(operations.tangent, tree, (0,), 1)
    for run, *arrays in (
        (tree, x),
        (tree, x, flags),
        (tree, x, flags[0] if axis else flags[:, 0]),
        (recurrence, x, x),
        (tangent, x, x),
    ):
        both = loops.with_loops({"lax.associative_scan": run})
        assert both["lax.scan"] != run
        found, wanted = both["lax.scan"](*arrays), run(*arrays)
        jax.tree.map(np.testing.assert_array_equal, found, wanted)


def test_copies_of_other_sizes_are_found_between_those_that_were_timed(monkeypatch):
    monkeypatch.setattr(walk, "EXPONENTS", range(8, 11))
    monkeypatch.setattr(walk, "COPIES", 1)
    copies = walk.Copies()
    times = iter([2.0, 4.0, 16.0])

    def gpu_time(*_):
        return [[("copy", next(times) / 1e3)]]

    monkeypatch.setattr(measure, "gpu_time", gpu_time)
    copies.time(copies.stopwatch())
    wanted = {1: 2.0, 2**11: 2.0, 2**12: 4.0, 5793: 8.0, 2**13: 16.0, 2**14: 32.0}
    for byte_count, microseconds in wanted.items():
        assert copies.microseconds(byte_count) == pytest.approx(microseconds, rel=1e-3)


def test_quantiles():
    assert walk_table.quantile([1.0, 2.0, 4.0], 0.0) == 1.0
    assert walk_table.quantile([1.0, 2.0, 4.0], 0.75) == 3.0
    assert walk_table.quantile([1.0, 2.0, 4.0], 1.0) == 4.0


@by_triton
def test_kernels_of_calls_are_compiled_without_a_gpu(tmp_path, capsys):
    path = tmp_path / "static.json"
    asked = ["walk", "--listed", "--static", "--engine", "pallas", "--jobs", "1"]
    assert main([*asked, "--only", "0", "160", "--out", str(path)]) == 0
    assert "2 kernels of 2 cases; 0 cases failed" in capsys.readouterr().out
    kernels, _ = static_table.read(path)
    assert [kernel.registers > 0 for kernel in kernels] == [True, True]
    assert kernels == sorted(kernels, key=static_table.badness)


def test_calls_are_listed_and_lowered_without_a_gpu(capsys):
    assert main(["walk", "--plan", "--cases", "7"]) == 0
    assert len(capsys.readouterr().out.splitlines()) == 8
    assert main(["walk", "--dry-run", "--only", "3"]) == 0
    assert "1 cases lowered for CUDA, 0 failed" in capsys.readouterr().out


def test_cuts_are_listed_and_compared(capsys, monkeypatch, tmp_path):
    asked, path = ["walk", "--scans", "--seed", "58", "--cuts", "--only"], tmp_path / "cuts.json"
    assert main([*asked, "87", "112", "--out", str(path)]) == 0
    first, second, *_ = capsys.readouterr().out.splitlines()
    assert first.endswith("axis 0, reverse: 2048 1 1 32 strip=512 held=512")
    assert second.endswith("axis 1, reverse: 512 64 1 1 strip=16 ahead=1 shared=16")
    monkeypatch.setattr(sharing, "suits_walks", lambda _: False)
    assert main([*asked, "112", "87", "--compare", str(path)]) == 0
    told = capsys.readouterr().out
    assert "shared=16 → 512 " in told
    assert "reverse: 2048" not in told
    assert "--only 112\n2 calls, 1 differ, 0 are in no file; 0 failed" in told
    assert main([*asked, "87", "--compare", str(path)]) == 0
    assert capsys.readouterr().out.startswith("1 calls, 0 differ")
    monkeypatch.setattr(walk, "why_not_lowered", lambda _: "it raises")
    assert main([*asked, "88", "--compare", str(path)]) == 1
    assert "1 are in no file; 1 failed" in capsys.readouterr().out


def test_a_cut_is_forced_on_the_calls(capsys, monkeypatch):
    forced = []
    monkeypatch.setattr(walk, "why_not_lowered", lambda step: forced.append(step.case))
    cut = ["256", "1", "1", "32", "fold=8"]
    assert main(["walk", "--scans", "--dry-run", "--only", "3", "5", "--cut", *cut]) == 0
    assert "2 cases lowered" in capsys.readouterr().out
    assert [case.tuning for case in forced] == [Tuning(256, 1, 1, 32, fold=8)] * 2
