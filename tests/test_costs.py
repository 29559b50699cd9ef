"""Turns of costly tests: each has one, the others all; and where their costs come from."""

from __future__ import annotations

import pathlib
import re

import pytest

from tests import costs

ROOT = pathlib.Path(__file__).parents[1]
NAMES = [f"a.py::f[{i}]" for i in range(5)] + [f"b.py::g[{i}]" for i in range(3)] + ["c.py::h"]


def test_each_costly_case_has_one_turn_of_all():
    costly = frozenset(["a.py::f", "c.py::h"])
    turns = [costs.of_turn(NAMES, costly, turn, 3) for turn in range(3)]
    for name, *each in zip(NAMES, *turns, strict=True):
        assert sum(each) == (3 if name.startswith("b.py") else 1), name


def test_cases_of_a_function_are_spread_over_the_turns():
    costly = frozenset(["a.py::f"])
    counts = [sum(costs.of_turn(NAMES[:5], costly, turn, 5)) for turn in range(5)]
    assert counts == [1] * 5


@pytest.mark.parametrize(
    ("text", "expected"), [("2/8", (2, 8)), ("107/8", (3, 8)), ("0/1", (0, 1))]
)
def test_turns_are_counted_on(text, expected):
    assert costs.parsed(text) == expected


@pytest.mark.parametrize("text", ["2", "2/0", "a/8", "-1/8", "/8"])
def test_what_is_no_turn(text):
    with pytest.raises(pytest.UsageError, match="K/N"):
        costs.parsed(text)


def test_a_group_of_xdist_is_no_part_of_a_name():
    costly = frozenset(["c.py::h"])
    turns = [costs.of_turn(["c.py::h@group"], costly, turn, 4) for turn in range(4)]
    assert sum(own for [own] in turns) == 1


def test_what_guards_a_commit_is_not_costly():
    functions = costs.costly_functions()
    assert functions
    assert not any(function.startswith(costs.ALWAYS) for function in functions)


def test_costs_are_means_of_a_report(tmp_path):
    report = tmp_path / "report.xml"
    report.write_text(
        '<testsuites><testsuite><testcase classname="tests.a" name="f[1]" time="0.2"/>'
        '<testcase classname="tests.a" name="f[2]" time="2.6"/>'
        '<testcase classname="tests.a" name="g" time="0.2"/>'
        '<testcase classname="tests.b" name="h" time="0.0"><skipped/></testcase>'
        '<testcase classname="tests.release.test_archives" name="i" time="9.0"/>'
        "</testsuite></testsuites>"
    )
    assert costs.means(report) == {"tests/a.py": {"f": 1.4}}


def test_what_is_costly_is_there():
    """A function that has another name now would run each time, however long it takes."""
    for function in costs.costly_functions():
        file, name = function.split("::")
        text = (ROOT / file).read_text()
        assert re.search(rf"^(def )?{name}( =|\()", text, re.MULTILINE), function
