"""Tables and progress on the terminal (with rich, or plain), and JSON."""

from __future__ import annotations

import contextlib
import json
import pathlib
from collections.abc import Callable, Iterator, Sequence
from typing import Any

from benchmarks.core import Case
from benchmarks.measure import Outcome, Stopwatch, Times

try:
    import rich.console
    import rich.progress
    import rich.table
except ImportError:  # the extra "bench" is not installed
    HAS_RICH = False
else:
    HAS_RICH = True

STYLES = {"target": "green", "floor": "yellow", "below": "red", "WRONG": "red", "FAILED": "red"}


def say(text: str = "") -> None:
    """A line of text, at once."""
    print(text, flush=True)


@contextlib.contextmanager
def progress(title: str, total: int) -> Iterator[Callable[[str], None]]:
    """Yields a function that counts one more as done, and prints a line if there is one."""
    if not (HAS_RICH and rich.console.Console().is_terminal):
        yield lambda line: say(line) if line else None
        return
    with rich.progress.Progress(transient=True) as bar:
        task = bar.add_task(title, total=total)

        def advance(line: str) -> None:
            if line:
                bar.console.print(line, markup=False, highlight=False)
            bar.advance(task)

        yield advance


def table(title: str, columns: Sequence[str], rows: Sequence[Sequence[str]]) -> None:
    """A table: the first column to the left, the others to the right."""
    if HAS_RICH:
        console = rich.console.Console()
        if not console.is_terminal:
            console = rich.console.Console(width=200)
        shown = rich.table.Table(title=title, title_justify="left")
        for i, column in enumerate(columns):
            shown.add_column(column, justify="right" if i else "left", no_wrap=i > 0)
        for row in rows:
            shown.add_row(*(_styled(cell) for cell in row))
        console.print(shown)
        return
    say(f"\n{title}")
    lines = [list(columns), *(list(row) for row in rows)]
    widths = [max(map(len, column)) for column in zip(*lines, strict=True)]
    for line in lines:
        cells = [cell.rjust(w) for cell, w in zip(line, widths, strict=True)]
        cells[0] = line[0].ljust(widths[0])
        say("  ".join(cells))


def _styled(cell: str) -> str:
    style = STYLES.get(cell)
    return f"[{style}]{cell}[/{style}]" if style else cell.replace("[", r"\[")


def write(path: pathlib.Path, content: dict[str, Any]) -> None:
    """JSON, in one step, so that an interrupted run leaves the old file alone."""
    path.parent.mkdir(parents=True, exist_ok=True)
    unfinished = path.with_name(path.name + ".tmp")
    unfinished.write_text(json.dumps(content, indent=1, ensure_ascii=False) + "\n")
    unfinished.replace(path)
    say(f"written to {path}")


def line(outcome: Outcome) -> str:
    """One case in one line, as it is done."""
    times = f"{outcome.times.median:10.1f} µs" if outcome.times else " " * 13
    return f"{outcome.case.name:55s} {times}  {_answer(outcome)}"


def score(case: Case, times: Times, bandwidth: float, outcomes: Sequence[Outcome]) -> float | None:
    """The number that is compared with the target; None where what a ratio refers to is missing."""
    if case.unit == "us":
        return times.median
    if case.unit == "ratio":
        plain = next((o.times for o in outcomes if o.case.name == case.against), None)
        return plain.median / times.median if plain else None
    return share(case, times, bandwidth)


def share(case: Case, times: Times, bandwidth: float) -> float:
    """The time at copy speed as a share of the time it took."""
    return case.bytes / bandwidth / times.median


def verdict(case: Case, number: float | None) -> str:
    """Which of target and floor the number meets."""
    if number is None:
        return "unknown"
    sign = -1 if case.unit == "us" else 1
    if sign * number >= sign * case.target:
        return "target"
    return "floor" if sign * number >= sign * case.floor else "below"


def show_core(outcomes: Sequence[Outcome], stopwatch: Stopwatch | None) -> None:
    """The table of the core."""
    rows = []
    for outcome in outcomes:
        case, times = outcome.case, outcome.times
        shown = ["", "", "", "not timed"]
        if times is not None and stopwatch is not None:
            number = score(case, times, stopwatch.bandwidth, outcomes)
            spread = (max(times.calls) - min(times.calls)) / times.median
            shown = [
                f"{times.median:.1f}",
                f"{100 * spread:.1f} %",
                _number(case, number),
                verdict(case, number),
            ]
        if outcome.failure:
            shown[-1] = "FAILED"
        elif not outcome.is_right:
            shown[-1] = "WRONG"
        peers = ", ".join(_peer(case, *peer, stopwatch) for peer in outcome.peers.items())
        aims = [_number(case, case.target), _number(case, case.floor)]
        rows.append([case.name, *shown[:3], *aims, shown[3], _answer(outcome), peers])
    columns = [
        "case",
        "GPU µs",
        "spread",
        "measured",
        "target",
        "floor",
        "meets",
        "answer",
        "peers",
    ]
    table("Share of copy speed, where no unit is given", columns, rows)
    if stopwatch is not None:
        copies = stopwatch.copies
        say(
            f"copy: {copies.median:.1f} µs for {stopwatch.words} words, "
            f"{stopwatch.bandwidth / 1e6:.2f} TB/s ({min(copies.calls):.1f} to "
            f"{max(copies.calls):.1f} µs over {len(copies.calls)} calls)"
        )


def core_as_json(
    outcomes: Sequence[Outcome], stopwatch: Stopwatch | None, environment: dict[str, Any]
) -> dict[str, Any]:
    """Everything that was found, for a file."""
    bandwidth = stopwatch.bandwidth if stopwatch else None
    entries = []
    for outcome in outcomes:
        case = outcome.case
        entry: dict[str, Any] = {
            "name": case.name,
            "bytes": case.bytes,
            "unit": case.unit,
            "target": case.target,
            "floor": case.floor,
            "answer": {
                "right": outcome.is_right,
                "error": outcome.error,
                "bound": case.check.bound,
                "measures": case.check.measures,
            },
            "failure": outcome.failure,
        }
        if outcome.times is not None and bandwidth is not None:
            number = score(case, outcome.times, bandwidth, outcomes)
            entry |= _timed(case, outcome.times, bandwidth)
            entry |= {
                "score": None if number is None else round(number, 4),
                "meets": verdict(case, number),
            }
        entry["peers"] = {
            name: {"why_not": peer} if isinstance(peer, str) else _timed(case, peer, bandwidth)
            for name, peer in outcome.peers.items()
        }
        entries.append(entry)
    copy = None
    if stopwatch is not None:
        copy = {
            "bytes": 8 * stopwatch.words,
            "bytes_per_second": round(stopwatch.bandwidth * 1e6),
            **stopwatch.copies.as_json(),
        }
    return {"suite": "core", "environment": environment, "copy": copy, "cases": entries}


def _timed(case: Case, times: Times, bandwidth: float | None) -> dict[str, Any]:
    portion = round(share(case, times, bandwidth), 4) if bandwidth else None
    return {**times.as_json(), "share": portion}


def _number(case: Case, number: float | None) -> str:
    if number is None:
        return "–"
    if case.unit == "us":
        return f"{number:.1f} µs"
    return f"{number:.2f} ×" if case.unit == "ratio" else f"{number:.3f}"


def _peer(case: Case, name: str, peer: Times | str, stopwatch: Stopwatch | None) -> str:
    if isinstance(peer, str) or stopwatch is None:
        return f"{name} –"
    if case.unit == "us":
        return f"{name} {peer.median:.1f} µs"
    return f"{name} {share(case, peer, stopwatch.bandwidth):.3f}"


def _answer(outcome: Outcome) -> str:
    if outcome.failure:
        return outcome.failure.splitlines()[0][:60]
    if outcome.error is None:
        return ""
    bound = outcome.case.check.bound
    if outcome.is_right:
        return "exact" if bound == 0 else f"{outcome.error:.1e} ≤ {bound:.0e}"
    return f"{outcome.error:g} > {bound:g}"
