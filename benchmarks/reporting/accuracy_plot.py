"""The figure of rounding: largest errors of float32 sums over their length."""

from __future__ import annotations

from typing import Any

from matplotlib.figure import Figure
from matplotlib.ticker import FixedFormatter, FixedLocator, NullFormatter, NullLocator

from benchmarks.reporting import accuracy_table, curves, looks
from benchmarks.reporting.curves import Curve, Result

SHOWN = ("uniform in [0, 1)", "all 0.1", "descending")
"""Panels: an average input, one whose roundings all go the same way, and one that spoils a loop."""
OTHERS = ("float32 loop", "lax.", "torch.")
"""How names begin of what is not jscan's."""


def draw(result: Result) -> Figure | None:
    """Errors over the length, a panel for each of some inputs."""
    found = [
        entry
        for entry in accuracy_table.entries(result, dtype="float32")
        if entry["input"] in SHOWN
    ]
    if not found:
        return None
    names = accuracy_table.subjects(found)
    chosen = looks.looks([[Curve(name, name.startswith(OTHERS), ()) for name in names]])
    figure = Figure(figsize=(looks.WIDTH, 3.6), layout="constrained")
    panels = figure.subplots(1, len(SHOWN), squeeze=False, sharey="row")[0]
    legend: dict[str, Any] = {}
    for axes, shown in zip(panels, SHOWN, strict=True):
        axes.set_title(shown)
        axes.set_xlabel("elements")
        axes.set_xscale("log", base=2)
        axes.set_yscale("log")
        axes.grid(True)
        for name, look in chosen.items():
            points = [
                (entry["n"], entry["max_eps"])
                for entry in found
                if (entry["input"], entry["subject"]) == (shown, name) and entry["max_eps"] > 0
            ]
            arguments = look.arguments() | {"label": name}
            (line,) = axes.plot([n for n, _ in points], [eps for _, eps in points], **arguments)
            legend.setdefault(name, line)
        places = sorted({entry["n"] for entry in found})
        labels = [looks.typeset(label) for label in curves.labels(places)]
        axes.xaxis.set_major_locator(FixedLocator(places))
        axes.xaxis.set_major_formatter(FixedFormatter(labels))
        axes.xaxis.set_minor_locator(NullLocator())
        axes.yaxis.set_minor_formatter(NullFormatter())
    panels[0].set_ylabel("largest error, eps of the sum of sizes")
    looks.legend(figure, legend)
    return figure
