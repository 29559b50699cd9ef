"""What the literature orders, with what was measured of it: one way against another."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Iterator

from benchmarks.reporting import curves, markdown
from benchmarks.reporting.curves import Curve, Panels, Results
from benchmarks.reporting.markdown import code

Line = tuple[str, str, str]


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
    return markdown.table(("speed of", "where", "measured"), lines) if lines else None


def compared(comparison: Comparison, panels: Panels) -> Iterator[Line]:
    """A line for each panel of several places, and one for all that have a single one."""
    what = f"{code(comparison.first)} against {code(comparison.second)}"
    alone = []
    for group, found in panels.items():
        first, second = named(found, comparison.first), named(found, comparison.second)
        if first is None or second is None:
            continue
        places = curves.places(found)
        names = dict(zip(places, curves.labels(places), strict=True))
        ratios = {
            names[a.at]: f"{b.microseconds / a.microseconds:.2f} ×"
            for a in first.points
            if (b := second.point(a.at)) is not None
        }
        if comparison.last:
            alone += [f"{group}, {at}: {ratio}" for at, ratio in [*ratios.items()][-1:]]
        elif len(ratios) > 1:
            yield what, group, "; ".join(f"{at}: {ratio}" for at, ratio in ratios.items())
        else:
            alone += [f"{group}: {ratio}" for ratio in ratios.values()]
    if alone:
        yield what, "", "; ".join(alone)


def shares_of_two_passes(panels: Panels) -> Iterator[Line]:
    """The share of copy speed that two passes reach where there are most elements."""
    found = []
    for group, curve in ((g, named(c, "reduce_then_scan")) for g, c in panels.items()):
        if curve is not None and curve.points[-1].share is not None:
            at = curves.labels([point.at for point in curve.points])[-1]
            found.append(f"{group}, {at}: {curve.points[-1].share:.2f}")
    if found:
        yield "`reduce_then_scan`, as a share of copy speed", "", "; ".join(found)


def automatic(suites: Iterable[Panels]) -> Iterator[Line]:
    """Of all places, the one where "auto" is furthest behind the best that it could have chosen."""
    found = []
    for group, measured in ((g, m) for panels in suites for g, m in panels.items()):
        chosen = named(measured, "auto")
        others = [c for c in measured if not c.is_peer and c.name != "auto"]
        for point in chosen.points if chosen else ():
            beside = [(p.microseconds, c.name) for c in others if (p := c.point(point.at))]
            if beside:
                best, name = min(beside)
                (at,) = curves.labels([point.at])
                found.append((best / point.microseconds, f"{group}, {at}", name))
    if found:
        ratio, where, name = min(found)
        what = f'`"auto"` against the best method, where it is least of {len(found)}'
        yield what, where, f"{ratio:.2f} × of {code(name)}"


def named(found: Iterable[Curve], name: str) -> Curve | None:
    """The curve of jscan that has this name."""
    return next((c for c in found if c.name == name and not c.is_peer), None)
