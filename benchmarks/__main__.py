"""The command line: ``python -m benchmarks all``, the name of a suite, or ``pages``."""

from __future__ import annotations

import argparse
import os
import pathlib
import sys
import time
from collections.abc import Sequence

from benchmarks import published, runs, walking
from benchmarks.cases.suites import SUITES
from benchmarks.reporting import terminal


def main(arguments: Sequence[str] | None = None) -> int:
    """Runs one suite or all; 1 if an answer was wrong or a case failed, 2 where it needs a GPU."""
    options = _parser().parse_args(arguments)
    if options.suite == "pages":
        # Imported here because it needs matplotlib, which measurements do without.
        from benchmarks.reporting import pages

        return pages.main()
    start = time.monotonic()
    own = {"walk": walking.asked, "papers": published.asked}
    status = own.get(options.suite, runs.asked)(options)
    terminal.say(f"{time.monotonic() - start:.0f} s")
    return status


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m benchmarks")
    suites = parser.add_subparsers(dest="suite", required=True)
    shown = "tables and plots, in results, README and docs, from the results that there are"
    suites.add_parser("pages", help=shown, description=shown)
    drawn = "calls of the public API that nobody chose, drawn from a seed, on one GPU"
    walk = suites.add_parser("walk", help=drawn, description=drawn)
    walk.add_argument("--out", type=pathlib.Path, help="the JSON file to write")
    walk.add_argument("--commit", help="the commit measured, where git cannot say")
    walking.add_to(walk)
    then = "the work that papers on scans measured, beside their figures, on the device here"
    papers = suites.add_parser("papers", help=then, description=then)
    papers.add_argument("--out", type=pathlib.Path, help="the JSON file to write")
    papers.add_argument("--commit", help="the commit measured, where git cannot say")
    papers.add_argument("--only", default="", help="works whose name contains this")
    for name, what in (
        ("all", "every suite on one GPU, a file for each; a CPU comparison where there is none"),
        *((name, suite.about) for name, suite in SUITES.items()),
        *runs.ON_ANY_MACHINE.items(),
        *runs.ON_SEVERAL_DEVICES.items(),
        *runs.BESIDE_PLAIN_JAX.items(),
        *runs.WITHOUT_A_GPU.items(),
    ):
        suite = suites.add_parser(name, help=what, description=what)
        out = "the folder to write to" if name in runs.SECONDS else "the JSON file to write"
        suite.add_argument("--out", type=pathlib.Path, help=out)
        if name not in runs.WITHOUT_A_GPU:
            suite.add_argument("--commit", help="the commit measured, where git cannot say")
        if name == "all" or name in SUITES:
            _add_measuring(suite, all_suites=name == "all")
        if name in runs.ON_SEVERAL_DEVICES:
            _add_sizes(suite)
        if name in runs.BESIDE_PLAIN_JAX:
            suite.add_argument("--only", default="", help="cases whose name contains this")
        if name in runs.WITHOUT_A_GPU:
            _add_comparison(suite)
        if name in runs.SECONDS:
            begun = f"seconds, after which no further {runs.PART[name]}"
            suite.add_argument(
                "--budget", type=_positive, default=runs.SECONDS[name], help=f"{begun} is begun"
            )
    return parser


def _add_measuring(suite: argparse.ArgumentParser, all_suites: bool) -> None:
    rounds, iterations = (1, 5) if all_suites else (3, 7)
    if all_suites:
        suite.set_defaults(only="")
    suite.add_argument("--rounds", type=_positive, default=rounds, help="rounds of each case")
    suite.add_argument("--iterations", type=_positive, default=iterations, help="calls of a round")
    small = f" (in a dry run those of the answers: {runs.SMALL})"
    _add_sizes(suite, small, some=not all_suites)
    suite.add_argument(
        "--dry-run", action="store_true", help="lower for CUDA and check, without a GPU"
    )


def _add_sizes(suite: argparse.ArgumentParser, small: str = "", *, some: bool = True) -> None:
    if some:
        suite.add_argument("--only", default="", help="cases whose name contains this")
    suite.add_argument(
        "--shrink", type=int, default=0, help=f"divide sizes by 2 to this power{small}"
    )


def _add_comparison(suite: argparse.ArgumentParser) -> None:
    suite.add_argument("--only", default="", help="calls whose name contains this")
    suite.add_argument(
        "--compare", type=pathlib.Path, help="a report: say what differs, and 1 if it is worse"
    )
    suite.add_argument("--jobs", type=_positive, default=os.cpu_count(), help="processes")
    suite.add_argument(
        "--by-turns", action="store_true", help="each call by one engine: the next call by the next"
    )


def _positive(text: str) -> int:
    number = int(text)
    if number < 1:
        raise argparse.ArgumentTypeError(f"must be at least 1, not {number}")
    return number


if __name__ == "__main__":
    sys.exit(main())
