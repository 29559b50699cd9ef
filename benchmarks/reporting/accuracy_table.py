"""What was measured of rounding, as tables: all of it, and a summary at the largest length."""

from __future__ import annotations

from collections.abc import Callable, Iterable
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


def each(field: str, found: Iterable[Entry]) -> list[Any]:
    """The values of a field, each once."""
    return list(dict.fromkeys(entry[field] for entry in found))


def number(value: float) -> str:
    """Three digits, without an exponent."""
    if value == 0 or value >= 100:
        return f"{value:.0f}"
    return f"{value:.2g}" if value < 1 else f"{value:.3g}"


def whole(result: Result) -> list[str]:
    """A table for each dtype and input: lines are lengths, columns subjects."""
    tables = []
    for dtype in each("dtype", entries(result)):
        unit = "max_eps" if dtype == "float32" else "max_ulps"
        for name in result["inputs"]:
            found = entries(result, dtype=dtype, input=name)
            lengths = sorted({entry["n"] for entry in found})
            lines = {
                label: _cells((entry for entry in found if entry["n"] == n), unit)
                for n, label in zip(lengths, curves.labels(lengths), strict=True)
            }
            if found:
                tables.append(markdown.pivot(f"{dtype}, {name}", each("subject", found), lines))
    return tables


def _cells(found: Iterable[Entry], unit: str) -> dict[str, str]:
    return {
        entry["subject"]: "overflows" if entry["not_finite"] else number(entry[unit])
        for entry in found
    }


def by_input(result: Result) -> str:
    """The largest error of float32 sums at the largest length, by input and subject."""
    n = largest(result)
    found = entries(result, dtype="float32", n=n)
    lines = {
        name: _cells((entry for entry in found if entry["input"] == name), "max_eps")
        for name in result["inputs"]
    }
    [label] = curves.labels([n])
    return markdown.pivot(f"float32, {label}", each("subject", found), lines)


def by_strategy(result: Result) -> str:
    """How deep additions are at the largest length, and what that bounds."""
    n = largest(result)
    depths = {entry["subject"]: entry for entry in result["depths"] if entry["n"] == n}
    lines = []
    for name in each("subject", entries(result, dtype="float32", n=n)):
        found = entries(result, dtype="float32", n=n, subject=name)
        worst = max(found, key=lambda entry: entry["max_eps"])
        if "bound_eps" in worst:
            depth = depths.get(name, {"bound": n - 1})
            lines.append(
                (
                    markdown.code(name),
                    str(depth["bound"]),
                    str(depth.get("counted", "–")),
                    number(rounding.bound(depth["bound"], n)),
                    f"{number(worst['max_eps'])} ({worst['input']})",
                    number(max(entry["mean_eps"] for entry in found)),
                )
            )
    columns = ["", "additions, at most", "counted", "error, at most"]
    return markdown.table([*columns, "largest measured", "largest mean"], lines)


def of_halves(result: Result) -> str:
    """The largest error of halves in spacings, over all lengths and inputs that rise."""

    def cell(found: list[Entry]) -> str:
        return number(max(entry["max_ulps"] for entry in found))

    return _by_dtype(result, cell, halves=True)


def steps_back(result: Result) -> str:
    """How often sums of what is not negative fall, and by how much, over inputs and lengths."""

    def cell(found: list[Entry]) -> str:
        steps = sum(entry["steps_back"] for entry in found)
        if not steps:
            return "none"
        share = 1e6 * steps / sum(entry["n"] for entry in found)
        furthest = max(entry["step_back_ulps"] for entry in found)
        return f"{number(share)} in a million, by up to {number(furthest)}"

    return _by_dtype(result, cell, halves=False)


def _by_dtype(result: Result, cell: Callable[[list[Entry]], str], *, halves: bool) -> str:
    """A line for each subject and a column for each dtype, of inputs whose sums never fall."""
    rising = [name for name, about in result["inputs"].items() if about["rises"]]
    found = [entry for entry in entries(result) if entry["input"] in rising]
    dtypes = [d for d in each("dtype", found) if not halves or d != "float32"]
    lines = []
    for name in each("subject", found):
        own = [[e for e in found if (e["subject"], e["dtype"]) == (name, d)] for d in dtypes]
        if any(own):
            overflows = [any(entry["not_finite"] for entry in some) for some in own]
            texts = [
                "–" if not some else "overflows" if beyond else cell(some)
                for some, beyond in zip(own, overflows, strict=True)
            ]
            lines.append([markdown.code(name), *texts])
    return markdown.table(["", *dtypes], lines)
