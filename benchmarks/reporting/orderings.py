"""What the literature orders, with what was measured of it: one way against another."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Iterator

from benchmarks.reporting import curves
from benchmarks.reporting.curves import Curve, Panels, Point, Results


@dataclasses.dataclass(frozen=True)
class Comparison:
    """Two ways to do the same, of which the literature prefers the first.

    Attributes:
      suite: that measures both.
      first: a curve's name.
      second: another's.
      last: whether only the last place of each panel counts.
    """

    suite: str
    first: str
    second: str
    last: bool = False


COMPARISONS = (
    Comparison("tiles", "lookback", "chained"),
    Comparison("strategies", "lookback", "chained", last=True),
    Comparison("tiles", "lookback", "serial_lookback"),
    Comparison("strategies", "lookback", "reduce_then_scan", last=True),
    Comparison("strategies", "lookback", "scan_then_propagate", last=True),
    Comparison("tiles", "operator transformation", "conditional indexing"),
    Comparison("reductions", "tree", "matrix"),
)
AUTOMATIC = ("strategies", "rows", "skew", "reductions")
"""Suites in which "auto" stands beside what it chooses from."""


def table(results: Results) -> str | None:
    """A line for everything that has been measured; None where nothing has."""

    def panels(suite: str) -> Panels:
        return curves.panels(results[suite]) if suite in results else {}

    lines = [
        *(line for each in COMPARISONS for line in compared(each, panels(each.suite))),
        *shares_of_two_passes(panels("strategies")),
        *automatic(panels(suite) for suite in AUTOMATIC),
    ]
    return (
        "\n".join(["| speed of | where | measured |", "|---|---|---|", *lines]) if lines else None
    )


def compared(comparison: Comparison, panels: Panels) -> Iterator[str]:
    """A line for each panel of several places, and one for all that have a single one."""
    what = f"{_name(comparison.first)} against {_name(comparison.second)}"
    alone = []
    for group, found in panels.items():
        places = curves.places(found)
        names = dict(zip(places, curves.labels(places), strict=True))
        pairs = _pairs(named(found, comparison.first), named(found, comparison.second))
        ratios = {
            names[a.at]: f"{b.microseconds / a.microseconds:.2f} ×"
            for a, b in (pairs[-1:] if comparison.last else pairs)
        }
        if len(ratios) > 1:
            yield f"| {what} | {group} | {'; '.join(f'{at}: {x}' for at, x in ratios.items())} |"
            continue
        for at, ratio in ratios.items():
            alone.append(f"{group}, {at}: {ratio}" if comparison.last else f"{group}: {ratio}")
    if alone:
        yield f"| {what} | | {'; '.join(alone)} |"


def shares_of_two_passes(panels: Panels) -> Iterator[str]:
    """The share of copy speed that two passes reach where there are most elements."""
    found = []
    for group, curve in ((g, named(c, "reduce_then_scan")) for g, c in panels.items()):
        if curve is not None and curve.points[-1].share is not None:
            at = curves.labels([point.at for point in curve.points])[-1]
            found.append(f"{group}, {at}: {curve.points[-1].share:.2f}")
    if found:
        yield f"| `reduce_then_scan`, as a share of copy speed | | {'; '.join(found)} |"


def automatic(suites: Iterable[Panels]) -> Iterator[str]:
    """Of all places, the one where "auto" is furthest behind the best that it could have chosen."""
    found = []
    for panels in suites:
        for group, measured in panels.items():
            chosen = named(measured, "auto")
            others = [c for c in measured if not c.is_peer and c.name != "auto"]
            for point in chosen.points if chosen else ():
                best = min(
                    ((p.microseconds, c.name) for c in others if (p := c.point(point.at))),
                    default=None,
                )
                if best:
                    (at,) = curves.labels([point.at])
                    found.append((best[0] / point.microseconds, f"{group}, {at}", best[1]))
    if found:
        ratio, where, name = min(found)
        what = f'`"auto"` against the best method, where it is least of {len(found)}'
        yield f"| {what} | {where} | {ratio:.2f} × of {_name(name)} |"


def named(found: Iterable[Curve], name: str) -> Curve | None:
    """The curve of jscan that has this name."""
    return next((c for c in found if c.name == name and not c.is_peer), None)


def _name(curve: str) -> str:
    """As code, where it can be passed to ``method=``."""
    return curve if " " in curve else f"`{curve}`"


def _pairs(first: Curve | None, second: Curve | None) -> list[tuple[Point, Point]]:
    """Points of both where both were measured."""
    if first is None or second is None:
        return []
    return [(a, b) for a in first.points if (b := second.point(a.at)) is not None]
