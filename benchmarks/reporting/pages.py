"""``python -m benchmarks pages``: everything that shows figures, made from committed results.

Rewrites what stands between marks of the README and of the pages in docs, results/TABLES.md,
docs/then_and_now.md, and results/plots/*.svg. What has not been measured stays as it is between
marks, is said so in the pages that are written whole, and has no plot.
"""

from __future__ import annotations

import os
import pathlib
import sys
from collections.abc import Callable, Sequence

from benchmarks.measuring import machine
from benchmarks.reporting import (
    accuracy_table,
    curves,
    devices_table,
    engines_table,
    markdown,
    orderings,
    plots,
    replaced,
    tables,
    then_and_now,
)
from benchmarks.reporting.curves import Results

RESULTS = machine.REPOSITORY / "benchmarks" / "results"
TABLES = RESULTS / "TABLES.md"
PAGES = (
    machine.REPOSITORY / "README.md",
    *sorted((machine.REPOSITORY / "docs").glob("*.md")),
)
"""What is read: the README and the pages of the site."""

TELLING = {
    "core": (
        "inclusive sum, float32, 2^28",
        "inclusive sum, float32, 2^24",
        "inclusive sum, float32, 2^20",
        "inclusive sum, float32, 2^12",
        "logaddexp, float32, 2^28",
        "inclusive sum, float64, 2^27",
        "inclusive sum, bfloat16, 2^28",
        "inclusive sum, int8, 2^29",
        "sum of (65536, 1024), last axis, float32",
        "sum of (1048576, 64), first axis, float32",
        "segmented sum, uint8 heads, 1 %, 2^27",
        "segmented sum, uint8 heads, one segment, 2^27",
        "vmap of segmented sum, (4096, 32768), heads shared",
        "affine, one of two results, float32, 2^27",
        "Welford, three leaves, float32, 2^26",
    ),
    "segments": (
        "segment_sum, sorted ids, float32, 2^27 into 2^20",
        "segment_sum of (1048576, 64), sorted ids, float32, into 32768",
        "segment_sum, one segment, float32, 2^27",
        "segment_sum, segments of 3, float32, 2^27",
        "reduce by flags, float32, 2^27 into 2^20",
        "reduce, sum, float32, 2^28",
        "offsets to flags, 2^27 into 2^20",
        "pack, 50%, float32, 2^26",
        "split, 50%, float32, 2^26",
    ),
    "derivatives": (
        "linear_recurrence, float32, 2^27",
        "linear_recurrence and gradient, float32, 2^24",
        "linear_recurrence and gradient of (8, 1536, 16384), last axis, float32",
        "linear_recurrence and gradient, complex64, 2^23",
        "cumprod and gradient, float32, 2^24",
        "cummax and gradient, float32, 2^24",
    ),
}
"""The cases that pages show: the best and the worst of each kind."""


def figures_of_segments(results: Results) -> str | None:
    """Some reductions, conversions and moves, and how even reductions are."""
    about = (
        "Reductions, conversions, pack and split: GPU time, share, and how many times as long "
        "others take."
    )
    if "segments" in results:
        about += f" {tables.evenness(results['segments'])}"
    return _few(results, "segments", about, tables.beside_others)


def figures_of_strategies(results: Results) -> str | None:
    """The plot of all strategies."""
    return _plot(
        results,
        "strategies",
        "Every strategy and what others offer, over the number of float32 elements: elements per "
        "second above, where launches show, and the same as a share of copy speed below, where "
        'memory does. The broad grey line is what `method="auto"` takes. Up to 2^11 elements every '
        "method runs the kernel of `block`, up to 2^12 those of several passes do. Libraries "
        "outside JAX are timed by CUDA events, of which none is below 6 µs.",
    )


def figures_of_devices(results: Results) -> str | None:
    """The plot over the number of devices, and times where XLA finds the layouts."""
    result = results.get("devices")
    if result is None or not devices_table.panels(result):
        return None
    heading, about, _ = tables.SUITES["devices"]
    parts = [
        f"![{heading}](plots/devices.svg)",
        f"{about} {tables.measured_on(result)}",
        devices_table.of_automatic_layouts(result),
    ]
    return "\n\n".join(markdown.fill(part) for part in parts)


def figures_of_accuracy(results: Results) -> str | None:
    """The plot of errors and tables at the largest length."""
    result = results.get("accuracy")
    if result is None or not accuracy_table.entries(result):
        return None
    [n] = curves.labels([accuracy_table.largest(result)])
    parts = [
        f"![{tables.SUITES['accuracy'][0]}](plots/accuracy.svg)",
        "The largest error among all results of a sum of float32, in eps (2^-23) of the sum of "
        f"sizes so far. {tables.measured_on(result)} Sums of {n} elements:",
        accuracy_table.by_input(result),
        "Additions that an element goes through, half an eps each at most; counted by a scan whose "
        "operator adds one to the deeper side. The largest error and the largest mean, in eps, of "
        "all inputs of this length:",
        accuracy_table.by_strategy(result),
        "The largest error of halves in spacings at the exact sum, over all lengths and all inputs "
        "without a negative element, where a result that is rounded once has 0.5:",
        accuracy_table.of_halves(result),
        "Results below the one before them where no element is negative, over the same inputs and "
        "lengths, and the largest such step in spacings:",
        accuracy_table.steps_back(result),
    ]
    return "\n\n".join(markdown.fill(part) for part in parts)


MARKS: dict[str, Callable[[Results], str | None]] = {
    "figures": lambda results: _few(
        results,
        "core",
        "GPU time; small scans in microseconds, the others as a share of copy speed.",
        tables.core,
    ),
    "figures of strategies": figures_of_strategies,
    "figures of orderings": orderings.table,
    "figures of skew": lambda results: _plot(
        results,
        "skew",
        "Segmented sums over the size of segments, and of segments whose sizes differ by orders "
        "of magnitude.",
    ),
    "figures of segments": figures_of_segments,
    "figures of derivatives": lambda results: _few(
        results,
        "derivatives",
        "Recurrences and gradients: GPU time of one call, share, how many times as long others "
        "take, and what programs allocate beside operands and results, in multiples of one "
        "operand.",
        tables.with_temporaries,
    ),
    "figures of devices": figures_of_devices,
    "figures of engines": lambda results: engines_table.page() if "core" in results else None,
    "figures of accuracy": figures_of_accuracy,
    "figures of replaced calls": replaced.table,
}
"""What stands between a mark and its end; None where it has not been measured."""


def _few(
    results: Results, suite: str, about: str, table: Callable[[Sequence[tables.Case]], str]
) -> str | None:
    if suite not in results:
        return None
    result = results[suite]
    cases = [case for case in tables.timed(result) if case["name"] in TELLING[suite]]
    return f"{markdown.fill(f'{about} {tables.measured_on(result)}')}\n\n{table(cases)}"


def _plot(results: Results, suite: str, about: str) -> str | None:
    if suite not in results or not curves.panels(results[suite]):
        return None
    picture = f"![{tables.SUITES[suite][0]}](plots/{suite}.svg)"
    return f"{picture}\n\n{markdown.fill(f'{about} {tables.measured_on(results[suite])}')}"


def rewritten(page: pathlib.Path, text: str, results: Results) -> tuple[str, list[str]]:
    """The text of a page with these results, and the marks whose content stays as it is."""
    kept = []
    for mark in marks(text):
        start, end = f"<!-- {mark} -->\n", f"<!-- /{mark} -->"
        before, rest = text.split(start)
        _, after = rest.split(end)
        content = MARKS[mark](results)
        if content is None:
            kept.append(mark)
        else:
            plots_from_here = os.path.relpath(RESULTS / "plots", page.parent)
            content = content.replace("](plots/", f"]({plots_from_here}/")
            text = f"{before}{start}{content}\n{end}{after}"
    return text, kept


def marks(text: str) -> list[str]:
    """The marks that a page has."""
    return [mark for mark in MARKS if f"<!-- {mark} -->\n" in text]


def main() -> int:
    """Rewrites the README, the pages, the tables and the plots."""
    results = curves.load_all(RESULTS)
    for page in PAGES:
        text, kept = rewritten(page, page.read_text(encoding="utf-8"), results)
        page.write_text(text, encoding="utf-8")
        for mark in kept:
            print(f"{page.name}: {mark} have not been measured and stay as they are")
    drawn = plots.write_all(RESULTS, results)
    TABLES.write_text(tables.page(results, drawn), encoding="utf-8")
    then = then_and_now.page(then_and_now.load("papers"), then_and_now.load("functions"))
    then_and_now.PAGE.write_text(then, encoding="utf-8")
    print(f"{TABLES.name}: {', '.join(results)}")
    print(f"plots: {', '.join(drawn)}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
