"""Figures of curves in panels and of bars in rows; `looks` says how they look."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from matplotlib.artist import Artist
from matplotlib.axes import Axes
from matplotlib.axis import Axis
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.ticker import (
    FixedFormatter,
    FixedLocator,
    LogLocator,
    NullFormatter,
    NullLocator,
    StrMethodFormatter,
)

from benchmarks.reporting import looks
from benchmarks.reporting.curves import Curve, Panels, Place, Point, labels, places


@dataclasses.dataclass(frozen=True)
class Scale:
    """What a figure of curves shows of its points.

    Attributes:
      label: of the values.
      value: of a point; None where there is none.
      reference: what a copy would reach with the points of a panel; None where none would.
      log: whether values span decades.
      height: of a panel, in inches.
    """

    label: str
    value: Callable[[Point], float | None]
    reference: Callable[[Sequence[Point]], float] | None
    log: bool = False
    height: float = 2.7


def curves_in_panels(
    panels: Panels, scales: Sequence[Scale], xlabel: Callable[[str], str]
) -> Figure:
    """A panel for each group and scale, at most three groups abreast, and one legend below."""
    across = min(len(panels), 3)
    down = math.ceil(len(panels) / across)
    figure = Figure(
        layout="constrained",
        figsize=(looks.WIDTH, down * sum(scale.height for scale in scales) + 0.8),
    )
    grid = figure.subplots(down * len(scales), across, squeeze=False, sharey="row")
    chosen = looks.looks(panels.values())
    legend: dict[str, Artist] = {}
    copy: dict[str, Artist] = {}
    for number, (group, curves) in enumerate(panels.items()):
        column = grid[number // across * len(scales) :, number % across]
        column[0].set_title(group if len(panels) > 1 else "")
        if not any(isinstance(at, str) for at in places(curves)):
            column[len(scales) - 1].set_xlabel(xlabel(group))
        for axes, scale in zip(column, scales, strict=False):
            where = _set_places(axes, places(curves))
            axes.grid(True)
            axes.set_yscale("log" if scale.log else "linear")
            for curve in curves:
                line = _curve(axes, curve, where, scale, chosen[curve.name])
                legend.setdefault(curve.name, line)
            if scale.reference is not None:
                level = scale.reference([point for curve in curves for point in curve.points])
                copy["copy speed"] = axes.axhline(level, **looks.COPY)
    for row, axes in enumerate(grid[:, 0]):
        scale = scales[row % len(scales)]
        axes.set_ylabel(scale.label)
        if scale.log:
            _set_decades(axes)
        else:
            axes.set_ylim(bottom=0)
    for axes in grid[-len(scales) :, (len(panels) - 1) % across + 1 :].flat:
        axes.remove()
    looks.legend(figure, {name: legend[name] for name in chosen} | copy)
    return figure


def set_ticks(axis: Axis, where: Sequence[Any], texts: Sequence[str]) -> None:
    """Ticks at these places alone, with these texts."""
    axis.set_major_locator(FixedLocator(where))
    axis.set_major_formatter(FixedFormatter([looks.typeset(text) for text in texts]))
    axis.set_minor_locator(NullLocator())


def count_in_units(axes: Axes, unit: float, label: str) -> None:
    """An axis above that counts places in units, and a line where one unit is."""
    axes.axvline(unit, **looks.COPY)
    above = axes.secondary_xaxis("top")
    above.set_xlabel(label)
    ticks = [float(x) for x in axes.get_xticks()]
    set_ticks(above.xaxis, ticks, [f"{x / unit:.2g}" for x in ticks])


def _set_decades(axes: Axes) -> None:
    """Plain numbers on a logarithmic axis of values, several of a decade's if it has few decades.

    Where it has many, powers of ten stay powers.
    """
    low, high = axes.get_ylim()
    decades = math.log10(high / low)
    axes.yaxis.set_minor_formatter(NullFormatter())
    if decades < 6:
        subs = (1.0, 2.0, 5.0) if decades < 2.5 else (1.0,)
        axes.yaxis.set_major_locator(LogLocator(10, subs=subs))
        axes.yaxis.set_major_formatter(StrMethodFormatter("{x:g}"))


def _curve(
    axes: Axes, curve: Curve, where: Mapping[Place, float], scale: Scale, look: looks.Look
) -> Line2D:
    values = [(where[point.at], scale.value(point)) for point in curve.points]
    shown = [(x, y) for x, y in values if y is not None]
    arguments = looks.AUTO if curve.name == "auto" else look
    if any(isinstance(at, str) for at in where):  # between names there is nothing
        size = 13 if curve.name == "auto" else 6
        arguments = {"marker": "o"} | arguments | {"linestyle": "none", "markersize": size}
    arguments = arguments | {"label": curve.name}
    (line,) = axes.plot([x for x, _ in shown], [y for _, y in shown], **arguments)
    return line


def _set_places(axes: Axes, found: Sequence[Place]) -> dict[Place, float]:
    """Makes an axis of places, with ticks at some of them; returns where each of them is."""
    numbers = [at for at in found if not isinstance(at, str)]
    if len(numbers) < len(found):
        where = {at: float(number) for number, at in enumerate(found)}
        axes.set_xlim(-0.5, len(found) - 0.5)
        ticks = list(found)
    else:
        where = {at: float(at) for at in numbers}
        spans_decades = min(numbers, default=0) > 0 and max(numbers) >= 8 * min(numbers)
        if spans_decades:
            axes.set_xscale("log", base=2)
        ticks = _apart(numbers, math.log if spans_decades else float)
    texts = dict(zip(found, labels(found), strict=True))
    set_ticks(axes.xaxis, [where[at] for at in ticks], [texts[at] for at in ticks])
    return where


def _apart(numbers: Sequence[float], along: Callable[[float], float]) -> list[Place]:
    """Some of the numbers, so far apart that all can be read; powers of two if those are many."""
    round_ones = [x for x in numbers if x == int(x) > 0 and int(x).bit_count() == 1]
    chosen: list[Place] = []
    last = -math.inf
    for x in round_ones if 2 * len(round_ones) > len(numbers) else numbers:
        if along(x) - last >= 0.99 * (along(numbers[-1]) - along(numbers[0])) / 7:
            chosen.append(x)
            last = along(x)
    return chosen


@dataclasses.dataclass(frozen=True)
class Row:
    """What is compared with each other, one or several of jscan's with some of others'.

    Attributes:
      label: at the left edge.
      own: values of jscan, by name.
      others: those of others, by name.
      note: at the right edge.
    """

    label: str
    own: dict[str, float]
    others: dict[str, float]
    note: str = ""


def bars_and_markers(rows: Sequence[Row], xlabel: str, heading: str) -> Figure:
    """A bar for each row's own value, and hollow markers on it for the others, as shares."""
    figure = Figure(layout="constrained", figsize=(looks.WIDTH, 0.22 * len(rows) + 1.2))
    axes = figure.subplots()
    places = range(len(rows))
    values = [next(iter(row.own.values())) for row in rows]
    bars: Any = axes.barh(places, values, 0.66, color=looks.SKY)
    legend: dict[str, Artist] = {next(iter(rows[0].own)): bars}
    others = dict.fromkeys(name for row in rows for name in row.others)
    for name, look in looks.looks([[Curve(name, True) for name in others]]).items():
        beside = [(row.others[name], y) for y, row in enumerate(rows) if name in row.others]
        (legend[name],) = axes.plot(
            [x for x, _ in beside],
            [y for _, y in beside],
            **look | {"linestyle": "none", "markersize": 6, "markeredgewidth": 1.3},
            clip_on=False,
            label=name,
        )
    return _finished(figure, rows, places, legend, xlabel, heading, shares=True)


def clusters(
    rows: Sequence[Row], xlabel: str, heading: str, form: Callable[[float], str], *, shares: bool
) -> Figure:
    """Bars for each row's own values, hollow bars for the others; what bars show is at their ends.

    Values are written in the given form. If they are shares, copy speed is one of them.
    """
    count = sum(len(row.own) + len(row.others) for row in rows)
    figure = Figure(layout="constrained", figsize=(looks.WIDTH, 0.18 * (count + len(rows)) + 0.9))
    axes = figure.subplots()
    names = dict.fromkeys(name for row in rows for name in row.own)
    assert len(names) <= len(looks.FILLS), names
    fills = dict(zip(names, looks.FILLS, strict=False))
    legend: dict[str, Any] = {}
    places = []
    y = 0.0
    for row in rows:
        places.append(y + (len(row.own) + len(row.others) - 1) / 2)
        for name, value in (*row.own.items(), *row.others.items()):
            color, hatch = fills[name] if name in row.own else ("white", "")
            bar = axes.barh([y], [value], 0.86, color=color, hatch=hatch)
            bar.patches[0].set_edgecolor("white" if name in row.own else looks.GREY)
            text = form(value) + ("" if name in row.own else f"  {name}")
            axes.bar_label(bar, [text], padding=3, fontsize=8)
            if name in row.own:
                legend.setdefault(name, bar)
            y += 1
        y += 1
    axes.set_xlim(right=1.16 * axes.dataLim.x1)  # texts behind bars
    return _finished(figure, rows, places, legend, xlabel, heading, shares)


def _finished(
    figure: Figure,
    rows: Sequence[Row],
    places: Sequence[float],
    legend: dict[str, Artist],
    xlabel: str,
    heading: str,
    shares: bool,
) -> Figure:
    """Labels to the left, notes to the right, copy speed wherever bars end, and the legend."""
    axes = figure.axes[0]
    if shares:
        axes.set_xlim(right=max(axes.get_xlim()[1], 1.04))
        legend["copy speed"] = axes.axvline(1.0, **looks.COPY)
    axes.set_yticks(places, [looks.typeset(row.label) for row in rows])
    axes.set_ylim(axes.dataLim.y1 + 0.2, axes.dataLim.y0 - 0.2)
    axes.tick_params(axis="y", length=0)
    axes.set_xlabel(xlabel)
    axes.set_xlim(left=0)
    axes.grid(True, axis="x")
    edge: dict[str, Any] = {"xytext": (8, 0), "textcoords": "offset points"}
    for y, row in zip(places, rows, strict=True):
        axes.annotate(row.note, (1, y), xycoords=axes.get_yaxis_transform(), va="center", **edge)
    axes.annotate(heading, (1, 1), xycoords="axes fraction", va="bottom", **edge)
    looks.legend(figure, legend)
    return figure
