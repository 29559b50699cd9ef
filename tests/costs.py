"""The tests that take long, of which a run may take its turn.

Three quarters of the time go to a third of the tests. `pytest` runs them all; `pytest --turn K/N`
runs those of turn K of N, and all others. In CI the commit tells the turn.

What guards a commit itself runs each time, however long it takes: `ALWAYS`.

`tests/costs.json` has the functions whose cases take `COSTLY` seconds or more on average. It is
made of what a run reports:

    python -m pytest -n 2 --junitxml report.xml && python -m tests.costs report.xml
"""

from __future__ import annotations

import collections
import json
import pathlib
import sys
import xml.etree.ElementTree
import zlib
from collections.abc import Iterable, Sequence

import pytest

COSTLY = 0.3
"""Seconds of a case, on average, from which on a test function is costly."""

ALWAYS = ("tests/docs/test_committed_figures.py", "tests/release/", "tests/api/test_versions.py")
"""Where tests are that fail by what is committed, or by what else is installed."""

FILE = pathlib.Path(__file__).with_name("costs.json")


def costly_functions() -> frozenset[str]:
    """The names of the functions whose cases are costly, with their files."""
    files: dict[str, dict[str, float]] = json.loads(FILE.read_text())
    return frozenset(f"{file}::{name}" for file, names in files.items() for name in names)


def of_turn(names: Sequence[str], costly: frozenset[str], turn: int, turns: int) -> list[bool]:
    """Which of the cases run in a turn: all that are not costly, and each costly one in its own.

    The cases of a function are spread over the turns; the first one's turn is told by its name.
    """
    seen: collections.Counter[str] = collections.Counter()
    chosen = []
    for name in names:
        function = name.partition("@")[0].partition("[")[0]  # behind @ is a group of xdist
        place = zlib.crc32(function.encode()) + seen[function]
        seen[function] += 1
        chosen.append(function not in costly or place % turns == turn)
    return chosen


def parsed(text: str) -> tuple[int, int]:
    """The turn and the number of turns, of "K/N"; K may be any count, of which turns are a part."""
    count, _, turns = text.partition("/")
    if not (count.isdecimal() and turns.isdecimal() and int(turns)):
        raise pytest.UsageError(f"--turn takes K/N, as in 2/8; got {text!r}")
    return int(count) % int(turns), int(turns)


@pytest.hookimpl(trylast=True)  # behind -m
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Leaves out what is costly and is not of this turn."""
    text = config.getoption("--turn")
    if not text:
        return
    chosen = of_turn([item.nodeid for item in items], costly_functions(), *parsed(text))
    left = [item for item, own in zip(items, chosen, strict=True) if not own]
    items[:] = [item for item, own in zip(items, chosen, strict=True) if own]
    config.hook.pytest_deselected(items=left)


def means(report: pathlib.Path) -> dict[str, dict[str, float]]:
    """The mean seconds of the costly functions of each file, of a report in JUnit's XML."""
    seconds: dict[tuple[str, str], list[float]] = collections.defaultdict(list)
    for case in xml.etree.ElementTree.parse(report).iter("testcase"):
        if case.find("skipped") is None:
            file = case.attrib["classname"].replace(".", "/") + ".py"
            function = file, case.attrib["name"].partition("[")[0]
            seconds[function].append(float(case.attrib["time"]))
    found: dict[str, dict[str, float]] = collections.defaultdict(dict)
    for (file, name), each in sorted(seconds.items()):
        mean = sum(each) / len(each)
        if mean >= COSTLY and not file.startswith(ALWAYS):
            found[file][name] = round(mean, 1)
    return dict(found)


def main(reports: Iterable[str]) -> None:
    """Writes the costs that a report tells."""
    [report] = reports
    FILE.write_text(json.dumps(means(pathlib.Path(report)), indent=1) + "\n")


if __name__ == "__main__":
    main(sys.argv[1:])
