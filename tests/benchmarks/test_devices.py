"""The suite of several devices: its cases, answers, clock and file, on CPU devices."""

from __future__ import annotations

import dataclasses
import json
import time

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from benchmarks.__main__ import main
from benchmarks.cases import devices as cases
from benchmarks.measuring import devices, machine

SMALL = 14


def case(name, counts=(1, 2), shrink=SMALL):
    """The small case of this name."""
    (found,) = [each for each in cases.cases(counts, shrink) if each.name == name]
    return found


def entries_of(*names, budget=600, **changes):
    """What becomes of cases, of which scans may be changed."""
    chosen = [case(name) for name in names]
    chosen = [dataclasses.replace(c, scan=dataclasses.replace(c.scan, **changes)) for c in chosen]
    (*_, last) = devices.measured(chosen, budget, 0.0, 1)
    return last["measured"]


@pytest.mark.parametrize("counts", [(1,), (1, 2), (1, 2, 4, 8)])
def test_no_two_cases_have_one_name(counts):
    names = [each.name for each in cases.cases(counts, 0)]
    assert len(set(names)) == len(names)
    assert {each.count for each in cases.cases(counts, 0)} == set(counts)


def test_what_matters_most_comes_first():
    names = [each.name for each in cases.cases((1, 2), 0)]
    first = [name for name in names if name.endswith("jscan, Auto, 2")][:5]
    assert first[0] == "rows, cumsum, jscan, Auto, 2"
    assert first[4] == "axis, cumsum, jscan, Auto, 2"
    assert all("lax.associative_scan" in name for name in names[-8:])


@pytest.mark.parametrize(
    ("name", "per_element", "exchanges"),
    [
        ("copy, jax, Auto, 2", 8, False),
        ("rows, cumsum, jscan, Auto, 2", 8, False),
        ("axis, cumsum, jscan, one device, 1", 8, False),
        ("axis, cumsum, jscan, Auto, 2", 12, True),
        ("axis, segmented cumsum, jscan, Explicit, 2", 9, True),
        ("axis, linear_recurrence, jscan, Auto, 2", 20, True),
    ],
)
def test_bytes_that_have_to_move(name, per_element, exchanges):
    found = case(name, shrink=0)
    assert found.bytes == per_element * 2**28
    assert found.exchanges == exchanges


def test_one_axis_is_divided():
    assert case("one axis, cumsum, jscan, Auto, 2", shrink=0).bytes == 12 * 2**27


@pytest.mark.parametrize(
    "name",
    [
        "gather, jax, shard_map, 2",
        "rows, segmented cumsum, jscan, Auto, 2",
        "rows, vmap of gradient, jscan, Explicit, 2",
        "rows, gradient, jscan, shard_map, 2",
        "short axis, linear_recurrence, jscan, Auto, 2",
        "axis, segmented cumsum, jscan, Explicit, 2",
        "short axis, cumsum, lax.associative_scan, Auto, 2",
    ],
)
def test_cases_are_right_and_say_what_moves(name):
    (entry,) = entries_of(name)
    assert entry["answer"]["right"]
    assert entry["seconds"] > 0
    moved = {each["name"]: each for each in entry["collectives"]}
    if name.startswith("rows"):
        assert not moved
    elif "associative_scan" not in name:
        assert moved["all-gather"]["elements"] == 2
        assert moved["all-gather"]["count"] >= entry["applied"]


def of_parts(y):
    """As if the second device had heard nothing of the first."""
    half = y.shape[0] // 2
    return y.at[half:].add(-y[half - 1])


@pytest.mark.parametrize(
    ("wrong", "name"),
    [
        (lambda y: y.at[-1].add(1), "axis, cumsum, jscan, Auto, 2"),
        (lambda y: y.at[0].set(jnp.nan), "axis, cumsum, jscan, Auto, 2"),
        (of_parts, "axis, cumsum, jscan, Auto, 2"),
        (lambda y: y.at[0, 3].add(1), "rows, gradient, jscan, Auto, 2"),
    ],
)
def test_a_wrong_result_is_said_and_not_timed(wrong, name):
    run = case(name).scan.run["jscan"]
    (entry,) = entries_of(name, run={"jscan": lambda x: wrong(run(x))})
    assert "seconds" not in entry
    assert not entry["answer"]["right"]
    json.dumps(entry, allow_nan=False)
    assert devices.wrong({"measured": [entry]})


def test_a_failure_is_said():
    def fail(_):
        raise MemoryError("of the device")

    (entry,) = entries_of("axis, cumsum, jscan, Auto, 2", run={"jscan": fail})
    assert entry["why_not"] == "MemoryError: of the device"
    assert devices.wrong({"measured": [entry]}) == [
        "axis, cumsum, jscan, Auto, 2: MemoryError: of the device"
    ]


def test_bounds_are_of_the_copy_and_the_gather_on_as_many_devices():
    def entry(what, count, seconds, who="jscan"):
        byte_count = {"copy": 800, "gather": 0}.get(what, 1200)
        fields = {"what": what, "who": who, "devices": count, "bytes": byte_count}
        return fields | {"seconds": seconds}

    before = [entry("copy", 1, 4.0), entry("copy", 2, 8.0), entry("gather", 2, 3.0)]
    before.append(entry("axis, cumsum", 1, 10.0))
    found = entry("axis, cumsum", 2, 30.0)
    scan = dataclasses.replace(case("axis, cumsum, jscan, Auto, 2").scan, shape=(100,))
    devices.add_bound(found, cases.Case(scan, "jscan", cases.AUTO, 2), before)
    assert found["bound"] == 1200 / 800 * 8.0 + 3.0
    assert found["share"] == found["bound"] / 30.0
    assert found["of_one"] == 10.0 / 30.0


def test_a_timing_is_of_many_calls():
    calls: list[int] = []

    def call():
        time.sleep(0.001)
        calls.append(1)
        return np.zeros(())

    times = devices.clocked(call, 0.01, 2)
    assert len(times) == 2
    assert all(took >= 0.001 for took in times)
    assert len(calls) >= 4 + 2 * 2


def test_a_run_that_is_stopped_leaves_what_it_has(tmp_path, monkeypatch):
    monkeypatch.setattr(machine, "has_gpu", lambda: False)
    monkeypatch.setattr(devices, "counts", lambda: [1, 2])
    arguments = ["devices", "--shrink", str(SMALL), "--out", str(tmp_path), "--only"]
    assert main([*arguments, "rows, cumsum, jscan, Auto"]) == 0
    (path,) = tmp_path.iterdir()
    result = json.loads(path.read_text())
    assert result["environment"]["devices"] == 2
    assert result["copy"]["bytes_per_second"] > 0
    names = [each["name"] for each in result["measured"]]
    assert names[-1] == "rows, cumsum, jscan, Auto, 2"
    assert result["left_out"] == []
    assert {"share", "of_one"} <= result["measured"][-1].keys()

    def stopped(scan, *_):
        if scan.what == "gather":
            raise KeyboardInterrupt
        return 0.0

    monkeypatch.setattr(devices, "worst", stopped)
    with pytest.raises(KeyboardInterrupt):
        main([*arguments, "rows, cumsum, jscan, Auto"])
    result = json.loads(path.read_text())
    assert [each["what"] for each in result["measured"]] == ["copy", "copy"]
    assert result["left_out"] == names[2:]


def test_without_a_gpu_sizes_have_to_be_small(monkeypatch, capsys):
    monkeypatch.setattr(machine, "has_gpu", lambda: False)
    assert main(["devices"]) == 2
    assert "--shrink" in capsys.readouterr().out


def test_collectives_of_a_program():
    text = """
  %a = f32[2,3]{1,0} all-gather(%x), channel_id=1
  %b = ((f32[1]{0}, u8[1]{0}), (f32[4]{0}, u8[4]{0})) all-gather-start(%x, %y)
  %c = (f32[4]{0}, u8[4]{0}) all-gather-done(%b)
  %d = f32[] all-reduce(%x), to_apply=%add
"""
    assert devices.collectives(text) == [
        {"name": "all-gather", "count": 2, "elements": 6},
        {"name": "all-reduce", "count": 1, "elements": 1},
    ]


def test_several_devices_are_here():
    assert devices.counts() == [count for count in (1, 2, 4, 8) if count <= jax.device_count()]
