"""Figures of what suites measured, made from their results alone.

Each is written as results/plots/<suite>.svg, and says in its metadata which result it shows.
"""

from __future__ import annotations

import functools
import hashlib
import pathlib
from collections.abc import Callable, Sequence

from matplotlib.figure import Figure

from benchmarks.reporting import accuracy_table, curves, devices_table, drawing, looks
from benchmarks.reporting.curves import Curve, Point, Result, Results
from benchmarks.reporting.drawing import Row, Scale

MULTIPROCESSORS = {"NVIDIA H200": 132}
SHORT = 10.0  # microseconds, below which most of a call is its launch


def draw(result: Result) -> Figure | None:
    """The figure of a suite; None where it has none, or nothing that it could show."""
    builder = FIGURES.get(result["suite"])
    with looks.style():
        return builder(result) if builder else None


def write_all(folder: pathlib.Path, results: Results) -> list[str]:
    """Writes the figures of suites that have one, removes others, and returns the suites."""
    drawn = []
    for suite in FIGURES:
        path = folder / "plots" / f"{suite}.svg"
        figure = draw(results[suite]) if suite in results else None
        if figure is None:
            path.unlink(missing_ok=True)
            continue
        save(figure, path, curves.path(folder, suite))
        drawn.append(suite)
    return drawn


def save(figure: Figure, path: pathlib.Path, file: pathlib.Path) -> None:
    """Writes a figure of the result in ``file``, without a date, so that equal ones are equal."""
    path.parent.mkdir(parents=True, exist_ok=True)
    with looks.style():
        figure.savefig(path, format="svg", metadata={"Date": None, "Source": source(file)})


def source(file: pathlib.Path) -> str:
    """What a figure says of the result that it shows, by which an outdated one can be told."""
    return f"{file.name}, sha256 {hashlib.sha256(file.read_bytes()).hexdigest()}"


SHARES = Scale("share of copy speed", lambda point: point.share, lambda _: 1.0)


def strategies(result: Result) -> Figure | None:
    """Elements a second over how many there are; variants of a panel are for the tables."""
    bandwidth = result["copy"]["bytes_per_second"]

    def rate(point: Point) -> float | None:
        return None if isinstance(point.at, str) else point.at / point.microseconds / 1e3

    def copied(points: Sequence[Point]) -> float:
        # The largest operands, beside which a few bytes that every size has weigh least.
        width = min(p.bytes / p.at for p in points if not isinstance(p.at, str))
        return float(bandwidth / width / 1e9)

    panels = {name: found for name, found in curves.panels(result).items() if "," not in name}
    if not panels:
        return None
    scale = Scale("10⁹ elements per second", rate, copied, log=True)
    return drawing.curves_in_panels(panels, [scale, SHARES], lambda _: "elements")


def shares(result: Result, over: str) -> Figure | None:
    """A figure of shares of copy speed over places."""
    panels = curves.panels(result)
    if not panels:
        return None
    return drawing.curves_in_panels(panels, [SHARES], lambda group: _OVER.get(group, over))


_OVER = {"window": "tiles in the window"}
"""Panels whose curves run over something else than those of other panels of their suite."""


def scaling(result: Result) -> Figure | None:
    """Bytes a second over how many programs run, and how many multiprocessors those fill."""
    panels = curves.panels(result)
    if not panels:
        return None
    bandwidth = result["copy"]["bytes_per_second"] / 1e12
    scale = Scale(
        "TB/s", lambda point: point.bytes / point.microseconds / 1e6, lambda _: bandwidth, log=True
    )
    figure = drawing.curves_in_panels(panels, [scale], lambda _: "programs")
    count = MULTIPROCESSORS.get(result["environment"]["device"])
    if count:
        for axes in figure.axes:
            drawing.count_in_units(axes, count, "programs per multiprocessor")
    return figure


def cases(result: Result) -> Figure | None:
    """Shares of copy speed of jscan and of others, one line a case."""
    rows = []
    for case in result["cases"]:
        if case.get("median_us", 0.0) < SHORT:
            continue
        timed = {name: peer for name, peer in case["peers"].items() if "median_us" in peer}
        others: dict[str, float] = {}
        for name, peer in timed.items():
            whose = curves.family(name)
            others[whose] = max(peer["share"], others.get(whose, 0.0))
        note = f"{case['share']:.2f}"
        if timed:
            fastest = min(peer["median_us"] for peer in timed.values())
            note += f"   {fastest / case['median_us']:.1f} ×"
        rows.append(Row(case["name"], {"jscan": case["share"]}, others, note))
    return drawing.bars_and_markers(rows, SHARES.label, "share, speedup") if rows else None


def reductions(result: Result) -> Figure | None:
    """Shares of copy speed of every way to reduce, a cluster for each shape of the segments."""
    rows = []
    for group, found in curves.panels(result).items():
        where = curves.places(found)
        for at, label in zip(where, curves.labels(where), strict=True):
            own, others = (
                {c.name: p.share for c in found if (p := c.point(at)) and p.share and keep(c)}
                for keep in (lambda c: not c.is_peer, lambda c: c.is_peer)
            )
            rows.append(Row(group if len(where) == 1 else f"{group}, {label}", own, others))
    return drawing.clusters(rows, SHARES.label, "", "{:.2f}".format, shares=True) if rows else None


def overhead(result: Result) -> Figure | None:
    """Milliseconds of jscan and of lax, for a call or for compiling."""
    rows = [
        Row(
            entry["name"],
            {"jscan": entry["jscan"]["median_ms"]},
            {"jax.lax": entry["lax"]["median_ms"]},
            f"{entry['ratio']:.2f}",
        )
        for entry in result.get(result["suite"], ())
    ]
    form = curves.milliseconds
    return drawing.clusters(rows, "milliseconds", "ratio", form, shares=False) if rows else None


ROUNDED = ("uniform in [0, 1)", "all 0.1", "descending")
"""Inputs shown: an average one, one whose roundings all go the same way, one that spoils a loop."""
OTHERS = ("float32 loop", "lax.", "torch.")
"""How names begin of what is not jscan's."""


def accuracy(result: Result) -> Figure | None:
    """Largest errors of float32 sums over their length, a panel for each of some inputs."""
    found = [e for e in accuracy_table.entries(result, dtype="float32") if e["input"] in ROUNDED]
    if not found:
        return None
    points: dict[tuple[str, str], list[Point]] = {}
    for entry in found:
        at = points.setdefault((entry["input"], entry["subject"]), [])
        at.append(Point(entry["n"], error=entry["max_eps"] or None))
    names = [(name.startswith(OTHERS), name) for name in accuracy_table.each("subject", found)]
    names.sort(key=lambda named: curves.rank(*named))
    panels = {
        group: [
            Curve(name, is_peer, tuple(points.get((group, name), ()))) for is_peer, name in names
        ]
        for group in ROUNDED
    }
    label = "largest error, eps of the sum of sizes"
    scale = Scale(label, lambda point: point.error, None, log=True, height=2.8)
    return drawing.curves_in_panels(panels, [scale], lambda _: "elements")


def devices(result: Result) -> Figure | None:
    """Shares of the bound over the number of devices, a panel for each operation."""
    panels = devices_table.panels(result)
    scale = Scale("share of the bound", lambda point: point.share, None)
    return drawing.curves_in_panels(panels, [scale], lambda _: "devices") if panels else None


FIGURES: dict[str, Callable[[Result], Figure | None]] = {
    "core": cases,
    "segments": cases,
    "bits": cases,
    "functions": cases,
    "derivatives": cases,
    "states": cases,
    "strategies": strategies,
    "tiles": functools.partial(shares, over="elements in a tile"),
    "skew": functools.partial(shares, over="elements in a segment"),
    "rows": functools.partial(shares, over="elements along the axis"),
    "dtypes": cases,
    "operators": cases,
    "reductions": reductions,
    "scaling": scaling,
    "accuracy": accuracy,
    "latency": overhead,
    "compile": overhead,
    "devices": devices,
}
"""What draws a suite's result."""
