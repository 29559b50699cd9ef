"""What the papers measured then and what there is now: a table for the terminal, and a page.

The page is docs/then_and_now.md, which ``python -m benchmarks pages`` makes of the results of
every device that there are.
"""

from __future__ import annotations

import json
import pathlib
import statistics
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from benchmarks.measuring import machine
from benchmarks.reporting import markdown, terminal

RESULTS = machine.REPOSITORY / "benchmarks" / "results"
PAGE = machine.REPOSITORY / "docs" / "then_and_now.md"

Row = Mapping[str, Any]
Found = Mapping[str, Mapping[str, Any]]
"""Results of a suite by device."""


def figure(value: float | None, unit: str) -> str:
    """A figure with three digits, and its unit."""
    if value is None:
        return "–"
    digits = f"{value:.0f}" if value >= 100 else f"{value:.3g}"
    return f"{digits} {unit}"


def show(rows: Sequence[Row]) -> None:
    """The table on the terminal."""
    lines = [
        [
            f"{row['work']} ({row['year']})",
            figure(row["then"], row["unit"]),
            row["then_on"],
            figure(row["now"], row["unit"]),
            _better(row),
            ", ".join(_others(row)),
        ]
        for row in rows
    ]
    columns = ["work", "then", "on", "now", "better by", "other JAX"]
    terminal.table("Then and now", columns, lines)
    for source in dict.fromkeys(f"{row['year']}: {row['source']}" for row in rows):
        terminal.say(source)


def _better(row: Row) -> str:
    if row["now"] is None:
        return str(row["why_not"])
    return figure(row["times_better"], "×")


def _others(row: Row) -> Iterator[str]:
    for name, value in row.get("others", {}).items():
        yield f"{name} {figure(value, row['unit'])}"


def load(suite: str, folder: pathlib.Path = RESULTS) -> Found:
    """Results of a suite by the name of their device, that of a CPU first."""
    files = sorted(folder.glob(f"{suite}-*.json"), key=lambda file: "cpu" not in file.name)
    found = (json.loads(file.read_text(encoding="utf-8")) for file in files)
    return {result["environment"]["device"]: result for result in found}


def page(papers: Found, functions: Found) -> str:
    """The page, from results by device."""
    parts = [
        "# Then and now",
        "Written by `python -m benchmarks pages` from the JSON in `benchmarks/results`: no figure "
        "is by hand.",
        "The papers that jscan is built on measured what scans are for. Here are the figures of "
        "theirs that could be read, beside the same work by jscan and by what else there is in "
        "JAX. `python -m benchmarks papers` measures it on the device that is there.",
        *_then_and_now(papers),
        *_functions(functions),
    ]
    return "\n\n".join(markdown.fill(part) for part in parts) + "\n"


def _then_and_now(papers: Found) -> Iterator[str]:
    for device, result in papers.items():
        yield f"## On {_named(device)}"
        yield _about(result)
        yield markdown.table(
            ["work", "then", "now", "better by", "other JAX"],
            [
                (
                    row["work"] + (f": {row['said']}" if row["said"] else ""),
                    f"{figure(row['then'], row['unit'])}, {row['then_on']} ({row['year']})",
                    figure(row["now"], row["unit"]),
                    _better(row),
                    ", ".join(_others(row)),
                )
                for row in result["rows"]
            ],
        )
    if not any(device != "cpu" for device in papers):
        yield "## On a GPU"
        yield "Not measured yet; `python -m benchmarks papers` does it on a machine that has one."
    rows = [row for result in papers.values() for row in result["rows"]]
    read = dict.fromkeys(
        f"{row['year']}: {row['paper']}. Figures from {row['source']}." for row in rows
    )
    if read:
        yield "## Where the figures were read"
        yield "\n".join(f"- {one}" for one in read)
        yield (
            "The reports of Sengupta, Harris and Garland (2008) and of Sengupta, Harris, Garland "
            "and Owens (2011) have figures of the same kinds, which are not here because they "
            "could not be read."
        )


def _functions(functions: Found) -> Iterator[str]:
    yield "## What is built of scans today"
    yield (
        "The functions beside the same in other JAX; `python -m benchmarks functions` measures "
        "them. On a CPU by the wall clock, of which the fastest call counts; a share is that of "
        "the speed of `x + 1` on 2^24 words, at the bytes that any implementation has to move, and "
        "more than 1 where operands stay in a cache. What a GPU takes, beside cuSPARSE, CuPy and "
        "CUB too, is on the page of all figures, `benchmarks/results/TABLES.md`."
    )
    for device, result in functions.items():
        yield from _evenness(device, result)
    on_cpus = {device: result for device, result in functions.items() if device == "cpu"}
    if not on_cpus:
        yield "Not measured yet."
    for result in on_cpus.values():
        yield _about(result)
        yield markdown.table(
            ["function", "ms", "share", "the fastest other", "ms", "ratio"],
            [
                (
                    case["name"],
                    f"{case['jscan_ms']:.3g}",
                    f"{case['share']:.2f}",
                    f"`{case['fastest']}`",
                    f"{case['peers_ms'][case['fastest']]:.3g}",
                    f"{case['ratio']:.2f}",
                )
                for case in result["cases"]
            ],
        )


PER_ROW = "cub.ThreadPerRow"


def _evenness(device: str, result: Mapping[str, Any]) -> Iterator[str]:
    """How much less than a thread for each row a product is bound to one kind of matrix.

    Papers on segmented scans compare the two over matrices of many kinds by how speeds vary.
    """
    cases = [case for case in result["cases"] if "share" in case.get("peers", {}).get(PER_ROW, {})]
    if len(cases) < 2:
        return
    ours, theirs = (
        [entry["share"] for entry in entries]
        for entries in (cases, [case["peers"][PER_ROW] for case in cases])
    )
    yield (
        f"Over {len(cases)} matrices of all kinds the speed of `csr_matvec` on {_named(device)} "
        f"varies by {_variation(ours):.0%} of its mean (standard deviation), that of a thread for "
        f"each row by {_variation(theirs):.0%}."
    )


def _variation(shares: Sequence[float]) -> float:
    return statistics.pstdev(shares) / statistics.mean(shares)


def _named(device: str) -> str:
    return "a CPU" if device == "cpu" else f"one {device}"


def _about(result: Mapping[str, Any]) -> str:
    """The machine, its versions, and whether something else ran on it."""
    environment = result["environment"]
    text = f"jax {environment['jax']}, Python {environment['python']}, {environment['date'][:10]}"
    if environment.get("processor"):
        text = f"{environment['processor']}, {text}"
    if environment.get("processors"):
        text += f", {environment['processors']} of {environment['of']} processors"
    if environment.get("shared"):
        text += (
            ". Other work ran on the machine meanwhile (a load of "
            f"{environment['load_before']:.1f} before), so that times may be longer than they "
            "have to be"
        )
    return f"{text}."
