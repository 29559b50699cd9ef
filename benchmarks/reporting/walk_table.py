"""What a walk has found: entries of JSON, and tables of shares, of the worst, and by groups."""

from __future__ import annotations

import json
import math
import pathlib
from collections.abc import Iterable, Sequence
from typing import Any

from benchmarks.measuring.measure import Times
from benchmarks.measuring.walk import Copies, Taken
from benchmarks.reporting import terminal

Entry = dict[str, Any]
LARGE = 2**20
"""So many elements make a case one whose share says what its kernels do, rather than a launch."""
WORST = 10
SLOWER = 1.05
"""So many times as long as a counterpart takes is slower."""


def line(taken: Taken) -> str:
    """A line about a step that was taken."""
    case = taken.step.case
    if taken.failure:
        return f"FAILED {case.name}: {taken.failure}"
    if not taken.is_right:
        return f"WRONG {case.name}: {taken.error:g} > {case.check.bound:g}"
    if taken.times is None or taken.share is None:
        return case.name
    peers = "".join(f", {name} {_microseconds(peer)}" for name, peer in taken.peers.items())
    return f"{taken.share:5.2f} {taken.times.median:9.1f} µs  {case.name}{peers}"


def _microseconds(peer: Times | str) -> str:
    return peer if isinstance(peer, str) else f"{peer.median:.1f} µs"


# --- the file -----------------------------------------------------------------------------------


def as_json(
    walked: Sequence[Taken], copies: Copies | None, environment: Entry, asked: Entry
) -> dict[str, Any]:
    """The content of a walk's file."""
    entries = [_entry(taken) for taken in sorted(walked, key=lambda taken: taken.step.number)]
    content = {"suite": "walk", "environment": environment, **asked}
    return content | {"copies": copies.as_json() if copies else None, "cases": entries}


def read(path: pathlib.Path) -> list[Entry]:
    """The entries of a file, whose names begin with the seed."""
    content = json.loads(path.read_text(encoding="utf-8"))
    which = "listed" if content["seed"] is None else f"seed {content['seed']}"
    which += " of scans" * content.get("scans", False)
    return [{**entry, "name": f"{which}, {entry['name']}"} for entry in content["cases"]]


def _entry(taken: Taken) -> Entry:
    step, times = taken.step, taken.times
    entry: Entry = {
        "number": step.number,
        "name": step.case.name,
        **step.labels,
        "size": step.drawn.size,
        "bytes": step.case.bytes,
        "failure": taken.failure,
        "error": _finite(taken.error),
        "bound": step.case.check.bound,
        "target": step.case.target,
        "floor": step.case.floor,
        "right": taken.is_right,
        "compile_s": round(taken.compile_seconds, 2),
    }
    if times is not None and taken.copy is not None and taken.share is not None:
        entry |= times.as_json()
        entry |= {"copy_us": round(taken.copy, 3), "share": round(taken.share, 6)}
        entry["temporaries"] = taken.temporaries
        entry["peers"] = {
            name: {"why_not": peer} if isinstance(peer, str) else _without_kernels(peer)
            for name, peer in taken.peers.items()
        }
    return entry


def _finite(error: float | None) -> float | str | None:
    """What JSON can hold."""
    return error if error is None or math.isfinite(error) else str(error)


def _without_kernels(times: Times) -> Entry:
    return {name: value for name, value in times.as_json().items() if name != "kernels"}


# --- tables -------------------------------------------------------------------------------------


def show(entries: Sequence[Entry]) -> None:
    """Prints quantiles, the worst cases, groups, and what is slower than a counterpart."""
    timed = [entry for entry in entries if "share" in entry]
    if timed:
        _show_shares(timed)
        _show_worst(timed)
        _show_aims([entry for entry in timed if entry["kind"]])
        _show_groups(timed)
        _show_slower(timed)
    checked = [entry for entry in entries if entry["error"] is not None]
    bad = [entry for entry in entries if not entry["right"]]
    terminal.say(f"\n{len(entries)} cases, {len(checked)} checked, {len(bad)} bad")
    for entry in bad:
        why = entry["failure"] or f"error {entry['error']} beyond {entry['bound']}"
        terminal.say(f"WRONG OR FAILED: {entry['name']}: {why}")


QUANTILES = {"worst": 0.0, "5 %": 0.05, "25 %": 0.25, "median": 0.5, "75 %": 0.75, "best": 1.0}


def _show_shares(timed: Sequence[Entry]) -> None:
    large = [entry for entry in timed if entry["size"] >= LARGE]
    small = [entry for entry in timed if entry["size"] < LARGE]
    rows = []
    for name, group in (("all", timed), ("2^20 elements and more", large), ("fewer", small)):
        if group:
            shares = _shares(group)
            figures = [_geometric_mean(shares), *(quantile(shares, q) for q in QUANTILES.values())]
            rows.append([name, str(len(group)), *(f"{figure:.3f}" for figure in figures)])
    title = "Share of the time of a copy of as many bytes"
    terminal.table(title, ["cases", "number", "geometric mean", *QUANTILES], rows)


def _shares(entries: Iterable[Entry]) -> list[float]:
    return sorted(entry["share"] for entry in entries)


def _geometric_mean(shares: Sequence[float]) -> float:
    return math.exp(sum(map(math.log, shares)) / len(shares))


def quantile(ordered: Sequence[float], part: float) -> float:
    """The number that this part of others is below, between two of them by proportion."""
    place = part * (len(ordered) - 1)
    below = math.floor(place)
    above = min(below + 1, len(ordered) - 1)
    return ordered[below] + (ordered[above] - ordered[below]) * (place - below)


def _show_worst(timed: Sequence[Entry]) -> None:
    worst = sorted(timed, key=lambda entry: float(entry["share"]))[:WORST]
    rows = [
        [
            entry["name"],
            f"{entry['share']:.3f}",
            f"{entry['median_us']:.1f}",
            f"{entry['bytes'] / 1e6:.1f}",
            " ".join(f"{k['name'][:28]} {k['median_us']:.0f}" for k in entry["kernels"][:4]),
        ]
        for entry in worst
    ]
    terminal.table(f"The worst {WORST}", ["case", "share", "µs", "MB", "kernels, µs"], rows)


def _show_aims(listed: Sequence[Entry]) -> None:
    """Of each kind of listed calls the worst share, beside what is hoped for."""
    kinds: dict[str, list[Entry]] = {}
    for entry in listed:
        kinds.setdefault(entry["kind"], []).append(entry)
    rows = []
    for kind, group in kinds.items():
        target, floor = (group[0][name] for name in ("target", "floor"))
        shares = _shares(group)
        below = [sum(share < (aim or 0) for share in shares) for aim in (target, floor)]
        figures = f"{_geometric_mean(shares):.3f}", f"{shares[0]:.3f}"
        aims = (str(target or "–"), str(floor or "–"), *map(str, below))
        rows.append([kind, str(len(group)), *figures, *aims])
    if rows:
        columns = ["kind", "cases", "geometric mean", "worst", "target", "floor"]
        terminal.table("What is hoped for", [*columns, "below target", "below floor"], rows)


LABELS = (
    *("function", "operator", "dtype", "shape", "axis", "elements", "direction"),
    *("segments", "described by", "transformation"),
)


def _show_groups(timed: Sequence[Entry]) -> None:
    for label in LABELS:
        groups: dict[str, list[Entry]] = {}
        for entry in timed:
            groups.setdefault(entry[label] or "–", []).append(entry)
        rows = []
        for name, group in groups.items():
            shares = _shares(group)
            figures = _geometric_mean(shares), quantile(shares, 0.5), shares[0]
            rows.append([name, str(len(group)), *(f"{figure:.3f}" for figure in figures)])
        rows.sort(key=lambda row: row[2])
        terminal.table(f"By {label}", [label, "cases", "geometric mean", "median", "worst"], rows)


def _show_slower(timed: Sequence[Entry]) -> None:
    """Cases that take longer than the fastest counterpart."""
    compared, rows = 0, []
    for entry in timed:
        others = {n: p["median_us"] for n, p in entry["peers"].items() if "median_us" in p}
        if not others:
            continue
        compared += 1
        best = min(others, key=lambda name: float(others[name]))
        ratio = entry["median_us"] / others[best]
        if ratio > SLOWER:
            told = (f"{entry['median_us']:.1f}", best, f"{others[best]:.1f}", f"{ratio:.2f}")
            rows.append([entry["name"], *told])
    rows.sort(key=lambda row: -float(row[-1]))
    title = f"Slower than a counterpart by more than 5 %: {len(rows)} of {compared}"
    terminal.table(title, ["case", "µs", "counterpart", "its µs", "times as long"], rows)


def show_changes(before: Sequence[Entry], after: Sequence[Entry]) -> None:
    """Prints which of the cases in both take longer or less long by more than 5 %."""
    old = {entry["name"]: entry for entry in before if "share" in entry}
    both = [(old[entry["name"]], entry) for entry in after if entry["name"] in old]
    both = [(was, entry) for was, entry in both if "share" in entry]
    rows, ratios = [], []
    for was, entry in both:
        ratio = was["median_us"] / entry["median_us"]
        ratios.append(ratio)
        if not 1 / SLOWER < ratio < SLOWER:
            shares = (f"{was['share']:.3f}", f"{entry['share']:.3f}")
            times = (f"{was['median_us']:.1f}", f"{entry['median_us']:.1f}")
            rows.append([entry["name"], *shares, *times, f"{ratio:.2f}"])
    rows.sort(key=lambda row: float(row[-1]))
    columns = ["case", "share before", "after", "µs before", "after", "times as fast"]
    terminal.table(f"{len(rows)} of {len(both)} cases differ by more than 5 %", columns, rows)
    if ratios:
        terminal.say(f"geometric mean of the speedups: {_geometric_mean(ratios):.3f}")
