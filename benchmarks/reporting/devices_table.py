"""Scans of sharded arrays, as a table and as curves over the number of devices."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from benchmarks.reporting import markdown
from benchmarks.reporting.curves import Curve, Panels, Point, Result

Entry = dict[str, Any]
ALONE, AUTO, JSCAN = "one device", "Auto", "jscan"


def timed(result: Result) -> list[Entry]:
    """What was measured."""
    return [entry for entry in result.get("measured", ()) if "seconds" in entry]


def whole(result: Result) -> list[str]:
    """A line for each case, and why others were not timed."""
    why = [
        f"{entry['name']} ({entry.get('why_not', 'a wrong result').splitlines()[0]})"
        for entry in result.get("measured", ())
        if "seconds" not in entry
    ]
    left = [f"Left out: {'; '.join(result['left_out'])}."] if result["left_out"] else []
    return [_table(timed(result)), *([f"Not timed: {'; '.join(why)}."] if why else []), *left]


def of_automatic_layouts(result: Result) -> str:
    """Scans of jscan where XLA finds the layouts, and what their bounds consist of."""
    found = [e for e in timed(result) if e["way"] in (ALONE, AUTO) and e["who"] == JSCAN]
    bare = [e for e in timed(result) if e["what"] in ("copy", "gather")]
    return _table([*bare, *found])


def _table(entries: Iterable[Entry]) -> str:
    lines = [
        (
            entry["what"],
            markdown.code(entry["who"]),
            markdown.code(entry["way"]),
            str(entry["devices"]),
            f"{1e6 * entry['seconds']:.1f}",
            _two_digits(entry, "share"),
            _two_digits(entry, "of_one"),
            ", ".join(f"`{e['name']}` of {e['elements']}" for e in entry["collectives"]) or "–",
        )
        for entry in entries
    ]
    columns = ["operation", "by", "layout", "devices", "µs", "share", "of one device", "moves"]
    return markdown.table(columns, lines)


def _two_digits(entry: Entry, field: str) -> str:
    return f"{entry[field]:.2f}" if field in entry else "–"


def panels(result: Result) -> Panels:
    """Shares by operation, a curve for each layout; jscan's begin with one device."""
    found: dict[str, dict[tuple[bool, str], list[Point]]] = {}
    alone: dict[tuple[str, str], Point] = {}
    for entry in timed(result):
        if "share" not in entry or entry["what"] == "copy":
            continue
        point = Point(entry["devices"], 1e6 * entry["seconds"], entry["share"], entry["bytes"])
        whose = entry["what"], entry["who"]
        if entry["way"] == ALONE:
            alone[whose] = point
            continue
        is_peer = entry["who"] != JSCAN
        name = entry["who"] if is_peer else entry["way"]
        begun = [alone[whose]] if whose in alone else []
        found.setdefault(entry["what"], {}).setdefault((is_peer, name), begun).append(point)
    return {
        group: [
            Curve(name, is_peer, tuple(points))
            for (is_peer, name), points in sorted(own.items(), key=lambda item: item[0][0])
        ]
        for group, own in found.items()
    }
