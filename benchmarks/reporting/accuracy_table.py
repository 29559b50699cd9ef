"""What was measured of rounding, as tables: all of it, and a summary at the largest length."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any

from benchmarks.measuring import rounding
from benchmarks.reporting import curves, markdown
from benchmarks.reporting.curves import Result

Entry = dict[str, Any]


def entries(result: Result, **fields: Any) -> list[Entry]:
    """What was measured, of entries with these fields."""
    return [
        entry
        for entry in result.get("errors", ())
        if "max_eps" in entry and all(entry[name] == value for name, value in fields.items())
    ]


def largest(result: Result) -> int:
    """The largest length measured."""
    return max(entry["n"] for entry in entries(result))


def subjects(found: Iterable[Entry]) -> list[str]:
    """Their subjects, each once."""
    return list(dict.fromkeys(entry["subject"] for entry in found))


def rising(result: Result) -> list[str]:
    """Inputs whose sums never fall."""
    return [name for name, about in result["inputs"].items() if about["rises"]]


def number(value: float) -> str:
    """Three digits, without an exponent."""
    if value == 0 or value >= 100:
        return f"{value:.0f}"
    return f"{value:.2g}" if value < 1 else f"{value:.3g}"


def whole(result: Result) -> list[str]:
    """A table for each dtype and input: lines are lengths, columns subjects."""
    return [
        _by_length(dtype, name, found)
        for dtype in dict.fromkeys(entry["dtype"] for entry in entries(result))
        for name in result["inputs"]
        if (found := entries(result, dtype=dtype, input=name))
    ]


def _by_length(dtype: str, name: str, found: Sequence[Entry]) -> str:
    unit = "max_eps" if dtype == "float32" else "max_ulps"
    places = sorted({entry["n"] for entry in found})
    lines = [
        markdown.cells(label, _row(subjects(found), [e for e in found if e["n"] == n], unit))
        for n, label in zip(places, curves.labels(places), strict=True)
    ]
    return markdown.table([f"{dtype}, {name}", *map(_name, subjects(found))], lines)


def _row(names: Iterable[str], found: Iterable[Entry], unit: str) -> list[str]:
    by_name = {entry["subject"]: _cell(entry, unit) for entry in found}
    return [by_name.get(name, "–") for name in names]


def _cell(entry: Entry, unit: str) -> str:
    return "overflows" if entry["not_finite"] else number(entry[unit])


def _name(subject: str) -> str:
    return subject if " " in subject else f"`{subject}`"


def by_input(result: Result) -> str:
    """The largest error of float32 sums at the largest length, by input and subject."""
    n = largest(result)
    found = entries(result, dtype="float32", n=n)
    lines = [
        markdown.cells(
            name, _row(subjects(found), [e for e in found if e["input"] == name], "max_eps")
        )
        for name in result["inputs"]
    ]
    [label] = curves.labels([n])
    return markdown.table([f"float32, {label}", *map(_name, subjects(found))], lines)


def by_strategy(result: Result) -> str:
    """How deep additions are at the largest length, and what that bounds."""
    n = largest(result)
    depths = {entry["subject"]: entry for entry in result["depths"] if entry["n"] == n}
    lines = []
    for name in subjects(entries(result, dtype="float32", n=n)):
        found = entries(result, dtype="float32", n=n, subject=name)
        worst = max(found, key=lambda entry: entry["max_eps"])
        if "bound_eps" not in worst:
            continue
        depth = depths.get(name, {"bound": n - 1})
        columns = (
            str(depth["bound"]),
            str(depth.get("counted", "–")),
            number(rounding.bound(depth["bound"], n)),
            f"{number(worst['max_eps'])} ({worst['input']})",
            number(max(entry["mean_eps"] for entry in found)),
        )
        lines.append(markdown.cells(_name(name), columns))
    return markdown.table(
        ["", "additions, at most", "counted", "error, at most", "largest measured", "largest mean"],
        lines,
    )


def of_halves(result: Result) -> str:
    """The largest error of halves in spacings, over all lengths and inputs that rise."""
    return _by_dtype(
        result, lambda found: number(max(entry["max_ulps"] for entry in found)), halves=True
    )


def steps_back(result: Result) -> str:
    """How often sums of what is not negative fall, and by how much, over inputs and lengths."""

    def cell(found: Sequence[Entry]) -> str:
        steps = sum(entry["steps_back"] for entry in found)
        if not steps:
            return "none"
        share = 1e6 * steps / sum(entry["n"] for entry in found)
        furthest = max(entry["step_back_ulps"] for entry in found)
        return f"{number(share)} in a million, by up to {number(furthest)}"

    return _by_dtype(result, cell, halves=False)


def _by_dtype(result: Result, cell: Callable[[list[Entry]], str], *, halves: bool) -> str:
    """A line for each subject and a column for each dtype, of inputs that rise."""
    found = [entry for entry in entries(result) if entry["input"] in rising(result)]
    dtypes = [d for d in dict.fromkeys(e["dtype"] for e in found) if not halves or d != "float32"]
    lines = []
    for name in subjects(found):
        own = [[e for e in found if (e["subject"], e["dtype"]) == (name, d)] for d in dtypes]
        if any(own):
            texts = [_unless_infinite(each, cell) for each in own]
            lines.append(markdown.cells(_name(name), texts))
    return markdown.table(["", *dtypes], lines)


def _unless_infinite(found: list[Entry], cell: Callable[[list[Entry]], str]) -> str:
    if not found:
        return "–"
    return "overflows" if any(entry["not_finite"] for entry in found) else cell(found)
